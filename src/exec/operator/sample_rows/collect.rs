//! Collects the rows of one partition, and notes whose they are.
//!
//! In go batches; out come the same rows in batches of one size, without unit column and without rows that
//! have no unit, and for every row its unit's code, thrown into buckets by a keyed hash of it. It guarantees
//! that two rows share a code exactly where they share a unit, so that a unit lies in one bucket, whole.
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

/// Rows of a batch: few enough for every offset of an array to stay small.
pub(super) const BATCH: usize = 8_192;

/// What every part of the operator reads and none changes.
#[derive(Debug)]
pub(super) struct Task {
    /// The unit column of the input.
    pub(super) unit: usize,
    /// The group columns of the output.
    pub(super) group: Vec<usize>,
    /// All other columns of the output.
    pub(super) other: Vec<usize>,
    pub(super) limits: EnforcedBounds,
    /// Whether equal rows of a group are one row.
    pub(super) distinct: bool,
    pub(super) hash: HashKey,
    pub(super) schema: SchemaRef,
}

impl Task {
    /// `group` holds positions in the input, where the unit still has its column.
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

/// A partition, read.
pub(super) struct Collected {
    pub(super) task: Task,
    pub(super) names: UnitNames,
    /// All but the last have [`BATCH`] rows.
    pub(super) batches: Vec<RecordBatch>,
    /// `key` is the number of a batch, `place` the row in it.
    pub(super) buckets: Vec<Vec<Row>>,
    /// Bytes held but for the buckets, near enough for a memory limit.
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

    /// Takes in one batch. Rows without a unit do not exist.
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
            // GROUP BY takes 0.0 and −0.0 for one group; told apart here, it could keep twice its rows.
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

    /// Bytes held, near enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let rows: usize = self.buckets.iter().map(Vec::capacity).sum();
        rows * size_of::<Row>() + self.bytes + self.coalescer.size() + self.codes.size()
    }

    /// Goes over to the second pass.
    pub(super) fn finish(mut self) -> Result<Collected> {
        self.coalescer.finish_buffered_batch()?;
        self.take_batches();
        let bytes = self.bytes + self.codes.size();
        let names = self.codes.finish(true)?;
        let Self { task, batches, buckets, .. } = self;
        Ok(Collected { task, names, batches, buckets, bytes })
    }
}
