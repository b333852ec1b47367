//! Holds what the aggregates read of each batch, until all rows have arrived.
//!
//! In: the batches of one partition. Out: for each of them the units, the places of the keys, and the columns of values,
//! which are shared and not copied. A row without a unit, or with a key that is not asked for, is [`OUTSIDE`]. It
//! assumes nothing about the order of rows.
//!
//! ```text
//! batch ─ locate keys ─▶ places: 3, 0, OUTSIDE, …
//!       ├ hold units ──▶ integers as they are, the numbers of other values
//!       └ values ──────▶ the columns that an aggregate or a FILTER reads
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::keys::{KeyIndex, OUTSIDE};
use super::order::HashKey;
use super::partial::AggregateInput;
use super::units::{HeldUnits, UnitCodes};
use crate::grid::failed;

/// The constant state that all phases of the operator read.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) unit: usize,
    pub(super) keys: Vec<usize>,
    pub(super) inputs: Vec<AggregateInput>,
    pub(super) hash: HashKey,
}

/// The columns of a batch that aggregates read, by their position in the input.
pub(super) struct Values {
    columns: Vec<Option<ArrayRef>>,
    rows: usize,
}

/// A batch, as far as it is needed.
pub(super) struct Held {
    pub(super) units: HeldUnits,
    /// The place of each row's key; `None` if there is one key and all rows count.
    pub(super) places: Option<Vec<u32>>,
    pub(super) values: Values,
    /// The bytes in use.
    pub(super) bytes: usize,
}

/// The first pass: reads batches.
pub(super) struct Holder<'a> {
    pub(super) task: &'a Task,
    pub(super) index: KeyIndex,
    pub(super) codes: UnitCodes,
    pub(super) held: Vec<Held>,
    /// Whether a column is read, by its position in the input.
    read: Vec<bool>,
    bytes: usize,
}

impl Values {
    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// A column, by its position in the input.
    ///
    /// # Errors
    /// A constant text for a column that no aggregate reads.
    pub(super) fn column(&self, column: usize) -> Result<&ArrayRef> {
        self.columns.get(column).and_then(Option::as_ref).ok_or_else(failed)
    }

    /// Some of the rows, in this order.
    ///
    /// # Errors
    /// As [`take`].
    pub(super) fn take(&self, rows: Vec<u32>) -> Result<Self> {
        let count = rows.len();
        let rows = UInt32Array::from(rows);
        let taken = |column: &Option<ArrayRef>| -> Result<Option<ArrayRef>> {
            Ok(column.as_ref().map(|column| take(column, &rows, None)).transpose()?)
        };
        Ok(Self { columns: self.columns.iter().map(taken).collect::<Result<_>>()?, rows: count })
    }
}

impl<'a> Holder<'a> {
    pub(super) fn new(
        task: &'a Task,
        index: KeyIndex,
        unit_type: &DataType,
        width: usize,
    ) -> Result<Self> {
        let mut read = vec![false; width];
        for kind in task.inputs.iter().map(|input| &input.kind) {
            for column in [kind.column(), kind.filter()].into_iter().flatten() {
                *read.get_mut(column).ok_or_else(failed)? = true;
            }
        }
        let codes = UnitCodes::new(unit_type)?;
        Ok(Self { task, index, codes, held: Vec::new(), read, bytes: 0 })
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
        let columns = batch.columns().iter().zip(&self.read);
        let columns = columns.map(|(column, read)| read.then(|| Arc::clone(column))).collect();
        let values = Values { columns, rows };
        let units = self.codes.hold(units)?;
        let mut bytes = places.as_ref().map_or(0, |places| places.capacity() * size_of::<u32>());
        bytes += units.size();
        for column in values.columns.iter().flatten() {
            bytes += column.to_data().get_slice_memory_size()?;
        }
        self.bytes += bytes;
        self.held.push(Held { units, places, values, bytes });
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        self.bytes
            + self.held.capacity() * size_of::<Held>()
            + self.codes.size()
            + self.index.size()
    }
}
