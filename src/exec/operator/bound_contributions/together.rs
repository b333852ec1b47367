//! Brings together what the readers of several partitions numbered each for itself.
//!
//! In: what was held of each partition. Out: the names of all units and keys, and the parts. Integers are units by their own
//! value, and listed keys have their places from the start. Other units, and keys of the data, were numbered in order of
//! arrival: each part but the first gets the numbers of all.
//!
//! ```text
//! part 0: a → 0, b → 1        all: a → 0, b → 1, c → 2
//! part 1: c → 0, a → 1        part 1 is renumbered: 0 → 2, 1 → 0
//! ```

use std::sync::Arc;

use arrow::row::Rows;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::columns::Columns;
use super::hold::{Held, Holder, Places};
use super::keys::{Located, OUTSIDE};
use super::partial::AggregateInput;
use super::task::Task;
use super::units::UnitNames;
use crate::grid::failed;

/// What is the same for all parts.
pub(super) struct Names {
    pub(super) task: Arc<Task>,
    pub(super) units: UnitNames,
    pub(super) keys: Located,
    /// The keys by their own bytes, where they are not listed.
    pub(super) of_keys: Option<KeyNames>,
}

/// Keys that only the rows know.
pub(super) struct KeyNames {
    /// See [`Located::names`].
    pub(super) bytes: Rows,
    /// The hash of each.
    pub(super) hashes: Vec<u64>,
}

/// What was held of one partition, and the memory that is reserved for it.
pub(super) struct Part {
    pub(super) held: Vec<Held>,
    pub(super) columns: Option<Columns>,
    pub(super) reservation: MemoryReservation,
    pub(super) bytes: usize,
    /// The new number of each unit and of each key, where they have one.
    units: Option<Vec<u64>>,
    keys: Option<Vec<u32>>,
}

/// Puts all parts together.
///
/// # Errors
/// A constant text if nothing was held, and for more keys than 32 bits can count.
pub(super) fn together(
    holders: Vec<(Holder, MemoryReservation)>,
) -> Result<(Arc<Names>, Vec<Part>)> {
    let (mut parts, mut all) = (Vec::new(), None);
    for (holder, reservation) in holders {
        let bytes = holder.size();
        let Holder { task, index, codes, held, columns, .. } = holder;
        let (units, keys) = match &mut all {
            None => {
                all = Some((task, index, codes));
                (None, None)
            }
            Some((_, all_keys, all_units)) => (all_units.absorb(codes)?, all_keys.absorb(index)?),
        };
        parts.push(Part { held, columns, reservation, bytes, units, keys });
    }
    let (task, index, codes) = all.ok_or_else(failed)?;
    let keys = index.finish()?;
    let bounded = task.inputs.iter().any(AggregateInput::is_bounded);
    let units = codes.finish(bounded)?;
    let of_keys = keys.names()?.map(|bytes| {
        let hashes = bytes.iter().map(|key| task.hash.group_name(key.data())).collect();
        KeyNames { bytes, hashes }
    });
    Ok((Arc::new(Names { task, units, keys, of_keys }), parts))
}

impl Part {
    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.held.iter().map(|held| held.rows).sum()
    }

    /// Gives units and keys the numbers that they have in all parts.
    ///
    /// # Errors
    /// A constant text for one without a number, and if there is not enough memory.
    pub(super) fn renumber(&mut self, names: &Names) -> Result<()> {
        let (units, keys) = (self.units.take(), self.keys.take());
        let (mut codes, mut places) = (Vec::new(), Vec::new());
        for held in &mut self.held {
            let size =
                |held: &Held| held.units.size() + held.places.as_ref().map_or(0, Places::size);
            let before = size(held);
            if let Some(units) = &units {
                held.units.renumber(units, &mut codes)?;
            }
            if let (Some(keys), Some(own)) = (&keys, &mut held.places) {
                own.read(&mut places);
                for place in places.iter_mut().filter(|place| **place != OUTSIDE) {
                    *place = *keys.get(*place as usize).ok_or_else(failed)?;
                }
                *own = Places::new(&places, names.keys.len);
            }
            let after = size(held);
            held.bytes = (held.bytes + after).saturating_sub(before);
            self.bytes = (self.bytes + after).saturating_sub(before);
        }
        if let (Some(keys), Some(columns)) = (&keys, &mut self.columns) {
            columns.renumber(keys, names.keys.len)?;
        }
        self.reservation.try_resize(self.bytes).map_err(|_| failed())
    }
}
