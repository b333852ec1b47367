//! Collects the rows of units that may exceed a bound, and records their units.
//!
//! In: rows without the unit column, and the code of each row's unit. Out: the same rows in batches
//! of one size, and the codes, distributed over buckets by the keyed hash of the unit. Two rows
//! share a code exactly if they share a unit, so all rows of a unit are in one bucket, whichever
//! partitions they come from.
//!
//! ```text
//! units ─▶ bucket 0..256 of (unit, batch, row)
//! rows ──▶ batches of 8,192 rows
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, SchemaRef, StringViewType};
use datafusion::common::Result;

use crate::grid::failed;
use crate::operator::bound_contributions::{BUCKETS, EnforcedBounds, HashKey, UnitRow};

/// The rows of a batch, so few that every offset of an array stays small.
pub(super) const BATCH: usize = 8_192;

/// The constant state that all phases of the operator read.
#[derive(Debug)]
pub(super) struct SamplingTask {
    /// The unit column of the input.
    pub(super) unit: usize,
    /// The group columns of the output.
    pub(super) group: Vec<usize>,
    /// All other columns of the output.
    pub(super) other: Vec<usize>,
    pub(super) limits: EnforcedBounds,
    /// Whether equal rows of a group count as one row.
    pub(super) distinct: bool,
    pub(super) hash: HashKey,
    pub(super) schema: SchemaRef,
}

impl SamplingTask {
    /// `group` holds positions in the input, which still has the unit column.
    pub(super) fn new(
        unit: usize,
        group: &[usize],
        limits: EnforcedBounds,
        hash: HashKey,
        schema: SchemaRef,
    ) -> Self {
        let group: Vec<_> = group.iter().map(|i| i - usize::from(*i > unit)).collect();
        let other = (0..schema.fields().len()).filter(|i| !group.contains(i)).collect();
        Self { unit, group, other, limits, distinct: false, hash, schema }
    }
}

/// Collects rows, and distributes their units over buckets.
pub(super) struct Collector {
    task: Arc<SamplingTask>,
    coalescer: BatchCoalescer,
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: usize,
    buckets: Vec<Vec<UnitRow>>,
}

/// The collected rows of one or all partitions.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) batches: Vec<RecordBatch>,
    /// In each entry, `key` is the number of a batch, and `place` the row in it.
    pub(super) buckets: Vec<Vec<UnitRow>>,
    /// The bytes of the batches, accurate enough for a memory limit.
    pub(super) bytes: usize,
}

impl Collected {
    /// Adds the rows of another partition.
    ///
    /// # Errors
    /// An error with a constant text if 32 bits do not suffice for the batches.
    pub(super) fn absorb(&mut self, mut other: Self) -> Result<()> {
        let before = u32::try_from(self.batches.len()).map_err(|_| failed())?;
        self.buckets.resize_with(BUCKETS, Vec::new);
        for (own, rows) in self.buckets.iter_mut().zip(other.buckets) {
            for row in rows {
                let key = row.key.checked_add(before).ok_or_else(failed)?;
                own.push(UnitRow { key, ..row });
            }
        }
        self.batches.append(&mut other.batches);
        self.bytes += other.bytes;
        Ok(())
    }
}

impl Collector {
    pub(super) fn new(task: Arc<SamplingTask>) -> Self {
        Self {
            coalescer: BatchCoalescer::new(Arc::clone(&task.schema), BATCH),
            task,
            batches: Vec::new(),
            bytes: 0,
            rows: 0,
            buckets: vec![Vec::new(); BUCKETS],
        }
    }

    pub(super) fn hash(&self) -> HashKey {
        self.task.hash
    }

    /// Adds rows, each with the code of its unit.
    pub(super) fn push(&mut self, units: &[u64], rows: RecordBatch) -> Result<()> {
        for unit in units {
            let key = u32::try_from(self.rows / BATCH).map_err(|_| failed())?;
            let place = u32::try_from(self.rows % BATCH).map_err(|_| failed())?;
            let [bucket, ..] = self.task.hash.scatter(*unit).to_be_bytes();
            self.buckets[usize::from(bucket)].push(UnitRow { unit: *unit, key, place });
            self.rows += 1;
        }
        // A batch may share its memory with others, and each would count all of it; only its own
        // rows are counted here.
        self.bytes += bytes_of(rows.columns())?;
        self.coalescer.push_batch(rows)?;
        self.take_batches();
        Ok(())
    }

    fn take_batches(&mut self) {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            self.batches.push(batch);
        }
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let rows: usize = self.buckets.iter().map(Vec::capacity).sum();
        rows * size_of::<UnitRow>() + self.bytes
    }

    /// All collected rows.
    pub(super) fn finish(mut self) -> Result<Collected> {
        self.coalescer.finish_buffered_batch()?;
        self.take_batches();
        let Self { batches, buckets, bytes, .. } = self;
        Ok(Collected { batches, buckets, bytes })
    }
}

/// The bytes of the rows of some columns, which may be slices of larger ones.
pub(super) fn bytes_of(columns: &[ArrayRef]) -> Result<usize> {
    let mut bytes = 0;
    for column in columns {
        bytes += column.to_data().get_slice_memory_size()?;
        bytes += match column.data_type() {
            DataType::Utf8View => viewed::<StringViewType>(column.as_ref()),
            DataType::BinaryView => viewed::<BinaryViewType>(column.as_ref()),
            _ => 0,
        };
    }
    Ok(bytes)
}

/// The bytes of texts that are too long for their views.
fn viewed<T: ByteViewType>(column: &dyn Array) -> usize {
    let lengths = column.as_byte_view::<T>().lengths();
    lengths.filter(|length| *length > 12).map(|length| length as usize).sum()
}
