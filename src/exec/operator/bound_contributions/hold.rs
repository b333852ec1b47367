//! Holds what the aggregates read of each batch, until all rows have arrived.
//!
//! In: the batches of one partition. Out: for each of them the units, the places of the keys, and the lanes of numbers. A
//! row without a unit, or with a key that is not asked for, is [`OUTSIDE`]. Meanwhile [`Columns`] adds all rows up. It
//! assumes nothing about the order of rows.
//!
//! ```text
//! batch ─ locate keys ─▶ places: 3, 0, OUTSIDE, …
//!       ├ hold units ──▶ integers as they are, the numbers of other values
//!       └ read ────────▶ lanes of numbers ─▶ added up
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::columns::Columns;
use super::keys::{KeyIndex, OUTSIDE};
use super::lanes::Lane;
use super::task::Task;
use super::units::{HeldUnits, UnitCodes};

/// A batch, as far as it is needed.
pub(super) struct Held {
    pub(super) units: HeldUnits,
    /// The place of each row's key; `None` if there is one key and all rows count.
    pub(super) places: Option<Vec<u32>>,
    pub(super) lanes: Vec<Lane>,
    pub(super) rows: usize,
    /// The bytes in use.
    pub(super) bytes: usize,
}

/// The first pass: reads batches.
pub(super) struct Holder<'a> {
    pub(super) task: &'a Task,
    pub(super) index: KeyIndex,
    pub(super) codes: UnitCodes,
    pub(super) held: Vec<Held>,
    /// The totals of all rows, for the aggregates that are sums of rows.
    pub(super) columns: Option<Columns>,
    bytes: usize,
}

impl<'a> Holder<'a> {
    pub(super) fn new(task: &'a Task, index: KeyIndex, unit_type: &DataType) -> Result<Self> {
        let codes = UnitCodes::new(unit_type)?;
        Ok(Self { task, index, codes, held: Vec::new(), columns: Columns::new(task), bytes: 0 })
    }

    /// Holds one batch. Rows without a unit, and rows whose key is not in the key space, are marked.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let units = batch.column(self.task.unit);
        let known = units.logical_nulls().filter(|known| known.null_count() > 0);
        let mut places = None;
        if known.is_some() || !self.task.keys.is_empty() {
            let keys: Vec<ArrayRef> =
                self.task.keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
            let mut own = Vec::with_capacity(rows);
            self.index.locate(&keys, rows, &mut own)?;
            for (place, is_known) in own.iter_mut().zip(known.iter().flatten()) {
                if !is_known {
                    *place = OUTSIDE;
                }
            }
            places = Some(own);
        }
        let lanes = self.task.sources.read(batch)?;
        if let Some(columns) = &mut self.columns {
            columns.add(&lanes, places.as_deref(), rows, self.index.len())?;
        }
        let units = self.codes.hold(units)?;
        let mut bytes = places.as_ref().map_or(0, |places| places.capacity() * size_of::<u32>());
        bytes += units.size() + lanes.iter().map(Lane::size).sum::<usize>();
        self.bytes += bytes;
        self.held.push(Held { units, places, lanes, rows, bytes });
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        self.bytes
            + self.held.capacity() * size_of::<Held>()
            + self.codes.size()
            + self.index.size()
            + self.columns.as_ref().map_or(0, Columns::size)
    }
}
