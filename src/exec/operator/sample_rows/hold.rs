//! Holds the batches of one partition, and passes on the rows of units that keep all of them.
//!
//! In: batches. Out: the same rows without the unit column and without rows that have no unit. Rows are counted by unit
//! when all have arrived. Nearly all units are within the bounds; their rows come out as they were, in batches that are
//! shared and not copied. All rows of a unit that may exceed a bound go to the [`Collector`]. It guarantees that every row
//! takes one of the two ways, and that all rows of a unit take the same one.
//!
//! ```text
//! held ─ count ─┬ within the bounds ─▶ out, as it is
//!               └ maybe beyond ─▶ Collector ─▶ Chooser ─▶ out, bounded
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, is_not_null, not};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use datafusion::common::Result;

use super::collect::{Collected, Collector, Task};
use crate::exec::operator::bound_contributions::{
    Crowded, HeldUnits, RowCounts, UnitCodes, canonical,
};
use crate::grid::failed;

/// The rows of a batch that have a unit, and their units.
struct Held {
    units: HeldUnits,
    rows: RecordBatch,
    /// The bytes in use.
    bytes: usize,
}

/// The first pass: reads batches.
pub(super) struct Holder {
    task: Task,
    codes: UnitCodes,
    held: Vec<Held>,
    rows: usize,
    bytes: usize,
}

impl Holder {
    pub(super) fn new(task: Task, unit_type: &DataType) -> Result<Self> {
        let codes = UnitCodes::new(unit_type)?;
        Ok(Self { task, codes, held: Vec::new(), rows: 0, bytes: 0 })
    }

    /// Holds one batch. Rows without a unit are ignored.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let units = batch.column(self.task.unit);
        if units.logical_nulls().is_some_and(|nulls| nulls.null_count() > 0) {
            let known = filter_record_batch(batch, &is_not_null(units)?)?;
            return self.push_known(&known);
        }
        self.push_known(batch)
    }

    fn push_known(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let units = self.codes.hold(batch.column(self.task.unit))?;
        let mut columns = batch.columns().to_vec();
        columns.remove(self.task.unit);
        for group in &self.task.group {
            // GROUP BY treats 0.0 and −0.0 as one group; if they were two groups here, that group could keep twice its rows.
            columns[*group] = canonical(&columns[*group]);
        }
        if self.task.distinct {
            for other in &self.task.other {
                columns[*other] = canonical(&columns[*other]);
            }
        }
        let mut bytes = units.size();
        for column in &columns {
            bytes += bytes_of(column.as_ref())?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&self.task.schema);
        let rows = RecordBatch::try_new_with_options(schema, columns, &options)?;
        self.rows += rows.num_rows();
        self.bytes += bytes;
        self.held.push(Held { units, rows, bytes });
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.held.capacity() * size_of::<Held>() + self.codes.size()
    }

    /// Starts the second pass.
    pub(super) fn finish(self) -> Result<Counting> {
        let Self { task, codes, held, rows, bytes } = self;
        let own = codes.size();
        let names = codes.finish(true)?;
        let most = task.limits.spared(!task.group.is_empty());
        // A partition within the bound has no unit beyond it.
        let most = most.filter(|most| usize::try_from(*most).is_ok_and(|most| most < rows));
        let counts = most.map(|most| RowCounts::new(most, rows));
        let split = Split {
            collector: Collector::new(task, names, own),
            held,
            bytes,
            crowded: None,
            scratch: Vec::new(),
        };
        Ok(Counting { split, counts, next: 0 })
    }
}

/// The bytes of the rows of a column, which may be a slice of a larger one.
fn bytes_of(column: &dyn Array) -> Result<usize> {
    let own = column.to_data().get_slice_memory_size()?;
    Ok(own
        + match column.data_type() {
            DataType::Utf8View => viewed::<StringViewType>(column),
            DataType::BinaryView => viewed::<BinaryViewType>(column),
            _ => 0,
        })
}

/// The bytes behind views that are too long to hold them.
fn viewed<T: ByteViewType>(column: &dyn Array) -> usize {
    let lengths = column.as_byte_view::<T>().lengths();
    lengths.filter(|length| *length > 12).map(|length| length as usize).sum()
}

/// The second pass: counts the rows of each unit.
pub(super) struct Counting {
    split: Split,
    counts: Option<RowCounts>,
    next: usize,
}

impl Counting {
    /// Counts one batch; false if none is left.
    pub(super) fn next_batch(&mut self) -> Result<bool> {
        let Some(counts) = &mut self.counts else { return Ok(false) };
        let Some(held) = self.split.held.get(self.next) else { return Ok(false) };
        self.next += 1;
        held.units.codes(&mut self.split.scratch);
        let hash = self.split.collector.hash();
        self.split.scratch.iter().for_each(|unit| counts.add(hash.scatter(*unit)));
        Ok(true)
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        self.split.size() + self.counts.as_ref().map_or(0, RowCounts::size)
    }

    /// Starts the third pass.
    pub(super) fn split(self) -> Split {
        let crowded = self.counts.map(RowCounts::finish).filter(Crowded::any);
        Split { crowded, ..self.split }
    }
}

/// The third pass: passes rows on, or collects them.
pub(super) struct Split {
    collector: Collector,
    held: Vec<Held>,
    bytes: usize,
    crowded: Option<Crowded>,
    scratch: Vec<u64>,
}

impl Split {
    /// The rows of one batch that stay in any case; `None` if no batch is left.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(held) = self.held.pop() else { return Ok(None) };
        self.bytes = self.bytes.saturating_sub(held.bytes);
        let Some(crowded) = &self.crowded else { return Ok(Some(held.rows)) };
        held.units.codes(&mut self.scratch);
        let hash = self.collector.hash();
        let units = &mut self.scratch;
        let beyond = |unit: &u64| crowded.has(hash.scatter(*unit));
        let suspects = BooleanBuffer::collect_bool(units.len(), |row| beyond(&units[row]));
        match suspects.count_set_bits() {
            0 => return Ok(Some(held.rows)),
            all if all == units.len() => {
                self.collector.push(units, held.rows)?;
                return Ok(Some(RecordBatch::new_empty(self.collector.schema())));
            }
            _ => {}
        }
        let suspects = BooleanArray::new(suspects, None);
        units.retain(beyond);
        self.collector.push(units, filter_record_batch(&held.rows, &suspects)?)?;
        Ok(Some(filter_record_batch(&held.rows, &not(&suspects)?)?))
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.collector.size() + self.crowded.as_ref().map_or(0, Crowded::size)
    }

    /// The collected rows, of units that may exceed a bound.
    ///
    /// # Errors
    /// A constant text if batches are left.
    pub(super) fn collected(self) -> Result<Collected> {
        if self.held.is_empty() { self.collector.finish() } else { Err(failed()) }
    }
}
