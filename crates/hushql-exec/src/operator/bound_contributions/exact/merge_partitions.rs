//! Merges the numberings that the readers of several partitions made independently.
//!
//! In: the held rows of each partition. Out: the names of all units and keys, and the parts.
//! Integer units are their own codes, and listed keys have their places from the start. Other
//! units, and undeclared keys, were numbered in order of arrival; each part after the first gets
//! the numbers that hold for all parts.
//!
//! ```text
//! part 0: a → 0, b → 1        all: a → 0, b → 1, c → 2
//! part 1: c → 0, a → 1        part 1 is renumbered: 0 → 2, 1 → 0
//! ```

use std::sync::Arc;

use arrow::row::Rows;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;

use super::rows_by_unit::Close;
use super::unit_contribution::AggregateInput;
use crate::grid::failed;
use crate::operator::bound_contributions::columns::column_sums::ColumnSums;
use crate::operator::bound_contributions::columns::held_batches::{HeldBatch, Holder, KeyPlaces};
use crate::operator::bound_contributions::keys::discovered_keys::OUTSIDE;
use crate::operator::bound_contributions::keys::key_space::Located;
use crate::operator::bound_contributions::keys::unit_codes::UnitNames;
use crate::operator::bound_contributions::task::BoundingTask;
use crate::operator::shelf::{Shelf, SpilledFile};

/// The state that all parts share.
pub(in crate::operator::bound_contributions) struct PartitionNames {
    pub(in crate::operator::bound_contributions) task: Arc<BoundingTask>,
    pub(in crate::operator::bound_contributions) units: UnitNames,
    pub(in crate::operator::bound_contributions) keys: Located,
    /// Undeclared keys by their own bytes; `None` if the keys are listed.
    pub(in crate::operator::bound_contributions) of_keys: Option<KeyNames>,
}

/// The names of undeclared keys.
pub(in crate::operator::bound_contributions) struct KeyNames {
    /// See [`Located::names`].
    pub(in crate::operator::bound_contributions) bytes: Rows,
    /// The hash of each key.
    pub(in crate::operator::bound_contributions) hashes: Vec<u64>,
}

/// The held rows of one partition, and the memory that is reserved for them.
pub(in crate::operator::bound_contributions) struct HeldPartition {
    pub(in crate::operator::bound_contributions) shelf: Shelf<HeldBatch>,
    pub(in crate::operator::bound_contributions) rows: usize,
    pub(in crate::operator::bound_contributions) columns: Option<ColumnSums>,
    pub(in crate::operator::bound_contributions) reservation: MemoryReservation,
    pub(in crate::operator::bound_contributions) bytes: usize,
    /// The new number of each unit and of each key; `None` if the old numbers hold for all parts.
    units: Option<Vec<u64>>,
    keys: Option<Vec<u32>>,
    /// The rows that are bounded one by one, if they do not fit into memory together: each file has
    /// all rows of its units.
    pub(in crate::operator::bound_contributions) dealt: Option<Vec<Arc<dyn SpillFile>>>,
}

/// Merges the numberings of all parts.
///
/// # Errors
/// An error with a constant text without partitions, and if 32 bits do not suffice for the keys.
pub(in crate::operator::bound_contributions) fn together(
    holders: Vec<(Holder, MemoryReservation)>,
) -> Result<(Arc<PartitionNames>, Vec<HeldPartition>)> {
    let (mut parts, mut all) = (Vec::new(), None);
    for (holder, reservation) in holders {
        let bytes = holder.size();
        let Holder { task, index, codes, shelf, rows, columns, .. } = holder;
        let (units, keys) = match &mut all {
            None => {
                all = Some((task, index, codes));
                (None, None)
            }
            Some((_, all_keys, all_units)) => (all_units.absorb(codes)?, all_keys.absorb(index)?),
        };
        parts.push(HeldPartition {
            shelf,
            rows,
            columns,
            reservation,
            bytes,
            units,
            keys,
            dealt: None,
        });
    }
    let (task, index, codes) = all.ok_or_else(failed)?;
    let keys = index.finish()?;
    let bounded = task.inputs.iter().any(AggregateInput::is_bounded);
    let units = codes.finish(bounded)?;
    let of_keys = keys.names()?.map(|bytes| {
        let hashes = bytes.iter().map(|key| task.hash.group_name(key.data())).collect();
        KeyNames { bytes, hashes }
    });
    Ok((Arc::new(PartitionNames { task, units, keys, of_keys }), parts))
}

/// The range of the units of all parts, if each is less than 2³² above the least one, and all are
/// in memory.
pub(in crate::operator::bound_contributions) fn close_units(
    parts: &[HeldPartition],
) -> Option<Close> {
    let (mut least, mut most) = (u64::MAX, 0);
    for part in parts {
        if part.shelf.is_in_file() {
            return None;
        }
        for held in &part.shelf.held {
            let (first, last) = held.units.ends()?;
            (least, most) = (least.min(first), most.max(last));
        }
    }
    let span = u32::try_from(most.saturating_sub(least)).ok()?;
    Some(Close { least, span })
}

/// Moves batches in memory from parts with many rows to parts with few, so that all tasks end at
/// about the same time.
///
/// Only rows move; the sums over them stay where they are.
pub(in crate::operator::bound_contributions) fn balance(parts: &mut [HeldPartition]) {
    loop {
        let by_rows = |at: &usize| parts[*at].rows;
        let (Some(few), Some(many)) =
            ((0..parts.len()).min_by_key(by_rows), (0..parts.len()).max_by_key(by_rows))
        else {
            return;
        };
        let last = parts[many].shelf.held.last().map(|held| (held.rows, held.bytes));
        let Some((rows, bytes)) = last.filter(|last| parts[few].rows + last.0 < parts[many].rows)
        else {
            return;
        };
        let more = parts[few].bytes + bytes;
        let less = parts[many].bytes.saturating_sub(bytes);
        if parts[few].reservation.try_resize(more).is_err() {
            return;
        }
        parts[few].bytes = more;
        parts[few].rows += rows;
        let held = parts[many].shelf.held.pop();
        parts[few].shelf.held.extend(held);
        parts[many].bytes = less;
        parts[many].rows -= rows;
        parts[many].reservation.resize(less);
    }
}

impl HeldPartition {
    /// Replaces the numbers of units and keys in memory by those that hold for all parts.
    ///
    /// # Errors
    /// An error with a constant text for a unit or key without a number, and if there is not enough
    /// memory.
    pub(in crate::operator::bound_contributions) fn renumber(
        &mut self,
        names: &PartitionNames,
    ) -> Result<()> {
        let mut held = std::mem::take(&mut self.shelf.held);
        for held in &mut held {
            let before = held.bytes;
            self.renumbered(held, names)?;
            self.bytes = (self.bytes + held.bytes).saturating_sub(before);
        }
        self.shelf.held = held;
        if let (Some(keys), Some(columns)) = (&self.keys, &mut self.columns) {
            columns.renumber(keys, names.keys.len)?;
        }
        if !self.shelf.renumbered()? {
            (self.units, self.keys) = (None, None);
        }
        self.reservation.try_resize(self.bytes).map_err(|_| failed())
    }

    /// Replaces the numbers of units and keys in one batch by those that hold for all parts.
    fn renumbered(&self, held: &mut HeldBatch, names: &PartitionNames) -> Result<()> {
        let size =
            |held: &HeldBatch| held.units.size() + held.places.as_ref().map_or(0, KeyPlaces::size);
        let before = size(held);
        if let Some(units) = &self.units {
            held.units.renumber(units, &mut Vec::new())?;
        }
        if let (Some(keys), Some(own)) = (&self.keys, &mut held.places) {
            let mut places = Vec::new();
            own.read(&mut places);
            for place in places.iter_mut().filter(|place| **place != OUTSIDE) {
                *place = *keys.get(*place as usize).ok_or_else(failed)?;
            }
            *own = KeyPlaces::new(&places, names.keys.len);
        }
        held.bytes = (held.bytes + size(held)).saturating_sub(before);
        Ok(())
    }

    /// Moves the batches in memory into the file.
    ///
    /// # Errors
    /// An error with a constant text without a folder for files, or if it is full.
    pub(in crate::operator::bound_contributions) fn write_out(
        &mut self,
        task: &BoundingTask,
    ) -> Result<()> {
        let bytes: usize = self.shelf.held.iter().map(|held| held.bytes).sum();
        self.shelf.write_out(|held| held.pack(&task.sources))?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.reservation.try_resize(self.bytes).map_err(|_| failed())
    }

    /// The next batch of a file, with the numbers of units and keys that hold for all parts.
    ///
    /// # Errors
    /// An error with a constant text if the file cannot be read.
    pub(in crate::operator::bound_contributions) async fn read(
        &mut self,
        file: &mut SpilledFile,
        names: &PartitionNames,
    ) -> Result<Option<HeldBatch>> {
        let Some(batch) = file.next().await? else { return Ok(None) };
        let mut held = HeldBatch::unpack(&batch)?;
        if file.own_numbers {
            self.renumbered(&mut held, names)?;
        }
        Ok(Some(held))
    }
}
