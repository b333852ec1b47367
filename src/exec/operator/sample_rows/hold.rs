//! Holds the batches of one partition, and passes on the rows of units that keep all of them.
//!
//! In: the batches of each partition. Out: the same rows without the unit column and without rows that have no unit. Rows are
//! counted by unit when those of all partitions have arrived. Nearly all units are within the bounds; their rows come out as they
//! were, in batches that are shared and not copied. All rows of a unit that may exceed a bound go to the [`Collector`]. It
//! guarantees that every row takes one of the two ways, and that all rows of a unit take the same one, in whichever partitions
//! they are.
//!
//! ```text
//! held ─ together ─ count ─┬ within the bounds ─▶ out, as it is
//!                          └ maybe beyond ─▶ Collector ─▶ Chooser ─▶ out, bounded
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, is_not_null, not};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::collect::{Collected, Collector, Task};
use crate::exec::operator::bound_contributions::{
    Crowded, HeldUnits, RowCounts, UnitCodes, UnitNames, canonical,
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
    task: Arc<Task>,
    codes: UnitCodes,
    held: Vec<Held>,
    rows: usize,
    bytes: usize,
}

impl Holder {
    pub(super) fn new(task: Arc<Task>, unit_type: &DataType) -> Result<Self> {
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
}

/// What is the same for all partitions.
pub(super) struct Names {
    pub(super) task: Arc<Task>,
    pub(super) units: UnitNames,
}

/// What was held of one partition, and the memory that is reserved for it.
pub(super) struct Part {
    held: Vec<Held>,
    rows: usize,
    bytes: usize,
    reservation: MemoryReservation,
    /// The new code of each unit, where they have one.
    units: Option<Vec<u64>>,
}

/// Puts all partitions together: each unit gets one code in all of them.
///
/// # Errors
/// A constant text if there is no partition.
pub(super) fn together(
    holders: Vec<(Holder, MemoryReservation)>,
) -> Result<(Arc<Names>, Vec<Part>)> {
    let (mut parts, mut all) = (Vec::new(), None);
    for (holder, reservation) in holders {
        let Holder { task, codes, held, rows, bytes } = holder;
        let units = match &mut all {
            None => {
                all = Some((task, codes));
                None
            }
            Some((_, all)) => all.absorb(codes)?,
        };
        parts.push(Part { held, rows, bytes, reservation, units });
    }
    let (task, codes) = all.ok_or_else(failed)?;
    // The names of units take about as much as their codes did.
    if let Some(first) = parts.first_mut() {
        first.bytes += codes.size();
    }
    Ok((Arc::new(Names { task, units: codes.finish(true)? }), parts))
}

/// Counters for the rows of each unit; `None` if no unit can exceed a bound.
pub(super) fn counters(task: &Task, parts: &[Part]) -> Option<RowCounts> {
    let rows = parts.iter().map(|part| part.rows).sum();
    let most = task.limits.spared(!task.group.is_empty());
    // Rows within the bound have no unit beyond it.
    let most = most.filter(|most| usize::try_from(*most).is_ok_and(|most| most < rows));
    most.map(|most| RowCounts::new(most, rows))
}

impl Part {
    /// Gives units the codes that they have in all partitions.
    ///
    /// # Errors
    /// A constant text for a unit without a code, and if there is not enough memory.
    pub(super) fn renumber(&mut self) -> Result<()> {
        if let Some(units) = self.units.take() {
            let mut scratch = Vec::new();
            for held in &mut self.held {
                let before = held.units.size();
                held.units.renumber(&units, &mut scratch)?;
                let grown = |bytes: usize| (bytes + held.units.size()).saturating_sub(before);
                (self.bytes, held.bytes) = (grown(self.bytes), grown(held.bytes));
            }
        }
        self.reserve(0)
    }

    fn reserve(&self, more: usize) -> Result<()> {
        self.reservation.try_resize(self.bytes + more).map_err(|_| failed())
    }

    /// Counts the rows of each unit.
    ///
    /// # Errors
    /// A constant text if there is not enough memory.
    pub(super) async fn counted(
        self,
        task: &Task,
        mut counts: RowCounts,
    ) -> Result<(Self, RowCounts)> {
        self.reserve(counts.size())?;
        let mut scratch = Vec::new();
        for held in &self.held {
            held.units.codes(&mut scratch);
            scratch.iter().for_each(|unit| counts.add(task.hash.scatter(*unit)));
            tokio::task::yield_now().await;
        }
        Ok((self, counts))
    }

    /// Separates the rows of units that may exceed a bound.
    ///
    /// # Errors
    /// A constant text if there is not enough memory, or for too many rows.
    pub(super) async fn split(
        self,
        task: Arc<Task>,
        crowded: Option<Arc<Crowded>>,
    ) -> Result<Apart> {
        let Self { held, bytes, reservation, .. } = self;
        let crowded = crowded.as_deref();
        let mut split =
            Split { collector: Collector::new(task), whole: Vec::new(), scratch: Vec::new() };
        let own = crowded.map_or(0, Crowded::size);
        for held in held {
            split.push(held, crowded)?;
            // A batch that is taken apart stays as long as its pieces are made.
            let size = bytes + split.collector.size() + own;
            reservation.try_resize(size).map_err(|_| failed())?;
            tokio::task::yield_now().await;
        }
        let (whole, collected) = (split.whole, split.collector.finish()?);
        let bytes = whole.iter().map(|(_, bytes)| bytes).sum();
        reservation.try_resize(bytes).map_err(|_| failed())?;
        Ok(Apart { whole, reservation, collected })
    }
}

/// The rows of one partition, apart by what becomes of them.
pub(super) struct Apart {
    /// Batches that stay as they are, each with its bytes.
    pub(super) whole: Vec<(RecordBatch, usize)>,
    /// The memory of these batches.
    pub(super) reservation: MemoryReservation,
    /// The rows of units that may exceed a bound.
    pub(super) collected: Collected,
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

/// Separates batch by batch.
struct Split {
    collector: Collector,
    whole: Vec<(RecordBatch, usize)>,
    scratch: Vec<u64>,
}

impl Split {
    fn push(&mut self, held: Held, crowded: Option<&Crowded>) -> Result<()> {
        let Held { units, rows, bytes } = held;
        let Some(crowded) = crowded else {
            self.whole.push((rows, bytes));
            return Ok(());
        };
        units.codes(&mut self.scratch);
        let hash = self.collector.hash();
        let units = &mut self.scratch;
        let beyond = |unit: &u64| crowded.has(hash.scatter(*unit));
        let suspects = BooleanBuffer::collect_bool(units.len(), |row| beyond(&units[row]));
        match suspects.count_set_bits() {
            0 => self.whole.push((rows, bytes)),
            all if all == units.len() => self.collector.push(units, rows)?,
            _ => {
                let suspects = BooleanArray::new(suspects, None);
                units.retain(beyond);
                self.collector.push(units, filter_record_batch(&rows, &suspects)?)?;
                self.whole.push((filter_record_batch(&rows, &not(&suspects)?)?, bytes));
            }
        }
        Ok(())
    }
}
