//! Collects the rows of one partition, and records their units.
//!
//! In: batches. Out: the same rows in batches of one size, without the unit column and without rows that have no unit;
//! and the code of each row's unit, distributed over buckets by its keyed hash. It guarantees that two rows share a
//! code exactly if they share a unit, so that all rows of a unit are in one bucket.
//!
//! ```text
//! batch ─ drop NULL units, code units ─▶ bucket 0..256 of (unit, batch, row)
//!       └ drop the unit column ────────▶ batches of 8,192 rows
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{BatchCoalescer, filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;

use crate::exec::operator::bound_contributions::{
    BUCKETS, EnforcedBounds, HashKey, Row, UnitCodes, UnitNames, canonical,
};
use crate::grid::failed;

/// Rows of a batch: few enough that every offset of an array stays small.
pub(super) const BATCH: usize = 8_192;

/// The constant state that all phases of the operator read.
#[derive(Debug)]
pub(super) struct Task {
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

impl Task {
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

/// The first pass: reads batches.
pub(super) struct Collector {
    task: Task,
    codes: UnitCodes,
    coalescer: BatchCoalescer,
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: usize,
    buckets: Vec<Vec<Row>>,
    scratch: Vec<u64>,
}

/// A partition after it was read.
pub(super) struct Collected {
    pub(super) task: Task,
    pub(super) names: UnitNames,
    /// All batches except the last have [`BATCH`] rows.
    pub(super) batches: Vec<RecordBatch>,
    /// `key` is the number of a batch, `place` is the row in it.
    pub(super) buckets: Vec<Vec<Row>>,
    /// The bytes in use without the buckets, accurate enough for a memory limit.
    pub(super) bytes: usize,
}

impl Collector {
    pub(super) fn new(task: Task, unit_type: &DataType) -> Result<Self> {
        Ok(Self {
            codes: UnitCodes::new(unit_type)?,
            coalescer: BatchCoalescer::new(Arc::clone(&task.schema), BATCH),
            task,
            batches: Vec::new(),
            bytes: 0,
            rows: 0,
            buckets: vec![Vec::new(); BUCKETS],
            scratch: Vec::new(),
        })
    }

    /// Adds one batch. Rows without a unit are ignored.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let units = batch.column(self.task.unit);
        if units.logical_nulls().is_some_and(|nulls| nulls.null_count() > 0) {
            let known = filter_record_batch(batch, &is_not_null(units)?)?;
            return self.push_known(&known);
        }
        self.push_known(batch)
    }

    fn push_known(&mut self, batch: &RecordBatch) -> Result<()> {
        self.codes.read(batch.column(self.task.unit), &mut self.scratch)?;
        for unit in &self.scratch {
            let key = u32::try_from(self.rows / BATCH).map_err(|_| failed())?;
            let place = u32::try_from(self.rows % BATCH).map_err(|_| failed())?;
            let [bucket, ..] = self.task.hash.scatter(*unit).to_be_bytes();
            self.buckets[usize::from(bucket)].push(Row { unit: *unit, key, place });
            self.rows += 1;
        }
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
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&self.task.schema);
        self.coalescer.push_batch(RecordBatch::try_new_with_options(schema, columns, &options)?)?;
        self.take_batches();
        Ok(())
    }

    fn take_batches(&mut self) {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            self.bytes += batch.get_array_memory_size();
            self.batches.push(batch);
        }
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let rows: usize = self.buckets.iter().map(Vec::capacity).sum();
        rows * size_of::<Row>() + self.bytes + self.coalescer.size() + self.codes.size()
    }

    /// Starts the second pass.
    pub(super) fn finish(mut self) -> Result<Collected> {
        self.coalescer.finish_buffered_batch()?;
        self.take_batches();
        let bytes = self.bytes + self.codes.size();
        let names = self.codes.finish(true)?;
        let Self { task, batches, buckets, .. } = self;
        Ok(Collected { task, names, batches, buckets, bytes })
    }
}
