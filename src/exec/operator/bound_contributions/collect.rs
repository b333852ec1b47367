//! Collects rows by unit, and adds up what each unit may contribute.
//!
//! In: the batches of one partition. Out: the totals of every output for every key. It assumes that all rows of a unit
//! are in this partition. It guarantees that each unit's contribution is bounded as a whole, from all its rows, in
//! whatever order they arrive.
//!
//! A keyed hash of the unit distributes the rows over [`BUCKETS`], so that the second pass works on pieces that fit the
//! processor's cache; the rows are never sorted as a whole.
//!
//! ```text
//! batch ─ locate key, code unit ─▶ bucket 0..256 ─▶ rows by unit ─▶ runs by key ─▶ k_j ─▶ totals
//! ```

use std::mem::size_of;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::keys::{KeyIndex, Located, OUTSIDE};
use super::order::HashKey;
use super::partial::{AggregateInput, EnforcedBounds, InputKind, shared};
use super::payload::Payload;
use super::units::{BUCKETS, Row, UnitCodes, UnitNames, Units, key_of};
use crate::grid::failed;

/// The constant state that all phases of the operator read.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) unit: usize,
    pub(super) keys: Vec<usize>,
    pub(super) inputs: Vec<AggregateInput>,
    pub(super) hash: HashKey,
}

/// The first pass: reads batches.
pub(super) struct Collector<'a> {
    task: &'a Task,
    index: KeyIndex,
    codes: UnitCodes,
    payloads: Vec<Payload>,
    buckets: Vec<Vec<Row>>,
    unit_scratch: Vec<u64>,
    key_scratch: Vec<u32>,
    kept_scratch: Vec<(usize, u8)>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(task: &'a Task, index: KeyIndex, unit_type: &DataType) -> Result<Self> {
        Ok(Self {
            task,
            index,
            codes: UnitCodes::new(unit_type)?,
            payloads: task.inputs.iter().map(|i| Payload::new(&i.kind)).collect::<Result<_>>()?,
            buckets: vec![Vec::new(); BUCKETS],
            unit_scratch: Vec::new(),
            key_scratch: Vec::new(),
            kept_scratch: Vec::new(),
        })
    }

    /// Adds one batch. Rows without a unit, and rows whose key is not in the key space, are ignored.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let units = batch.column(self.task.unit);
        let keys: Vec<ArrayRef> =
            self.task.keys.iter().map(|key| batch.column(*key).clone()).collect();
        self.index.locate(&keys, batch.num_rows(), &mut self.key_scratch)?;
        self.codes.read(units, &mut self.unit_scratch)?;
        let known = units.logical_nulls();
        let reads = self.payloads.iter().any(Payload::reads);
        self.kept_scratch.clear();
        let pairs = self.unit_scratch.iter().zip(&self.key_scratch);
        for (row, (unit, key)) in pairs.enumerate() {
            if *key == OUTSIDE || known.as_ref().is_some_and(|known| known.is_null(row)) {
                continue;
            }
            let [bucket, ..] = self.task.hash.scatter(*unit).to_be_bytes();
            let rows = &mut self.buckets[usize::from(bucket)];
            let place = u32::try_from(rows.len()).map_err(|_| failed())?;
            rows.push(Row { unit: *unit, key: *key, place });
            if reads {
                self.kept_scratch.push((row, bucket));
            }
        }
        for (payload, input) in self.payloads.iter_mut().zip(&self.task.inputs) {
            payload.push(&input.kind, batch, &self.kept_scratch)?;
        }
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let rows: usize = self.buckets.iter().map(Vec::capacity).sum();
        let payloads: usize = self.payloads.iter().map(Payload::size).sum();
        rows * size_of::<Row>() + payloads + self.codes.size() + self.index.size()
    }

    /// Starts the second pass.
    pub(super) fn finish(self) -> Result<Totals<'a>> {
        let keys = self.index.finish()?;
        let bounded = self.task.inputs.iter().any(|i| i.limits != EnforcedBounds::default());
        let names = self.codes.finish(bounded)?;
        let mut limits: Vec<EnforcedBounds> = Vec::new();
        let mut limit_of = Vec::new();
        for input in &self.task.inputs {
            let own = input.effective_limits();
            let known = limits.iter().position(|limits| *limits == own);
            limit_of.push(known.unwrap_or(limits.len()));
            if known.is_none() {
                limits.push(own);
            }
        }
        let outputs = self.task.inputs.iter().map(|input| input.kind.outputs()).sum();
        Ok(Totals {
            task: self.task,
            names,
            payloads: self.payloads,
            buckets: self.buckets,
            kept: vec![Vec::new(); limits.len()],
            limits,
            limit_of,
            units: Units::default(),
            runs: Vec::new(),
            order: Vec::new(),
            sums: vec![vec![0; keys.len]; outputs],
            keys,
        })
    }
}

/// The second pass: bounds unit by unit and adds up.
pub(super) struct Totals<'a> {
    task: &'a Task,
    names: UnitNames,
    payloads: Vec<Payload>,
    buckets: Vec<Vec<Row>>,
    limits: Vec<EnforcedBounds>,
    limit_of: Vec<usize>,
    units: Units,
    runs: Vec<Run>,
    order: Vec<(u64, u32, usize)>,
    /// Rows kept of every run, for each of `limits`.
    kept: Vec<Vec<u64>>,
    keys: Located,
    sums: Vec<Vec<i128>>,
}

/// The rows of one unit and one key, as a range of the unit's sorted rows.
#[derive(Debug, Clone, Copy)]
struct Run {
    key: u32,
    start: usize,
    end: usize,
}

impl Run {
    fn rows(self) -> u64 {
        u64::try_from(self.end - self.start).unwrap_or(u64::MAX)
    }
}

impl Totals<'_> {
    /// Processes one bucket that has rows; false if none is left.
    pub(super) fn next_bucket(&mut self) -> Result<bool> {
        while self.buckets.last().is_some_and(Vec::is_empty) {
            self.buckets.pop();
        }
        let Some(rows) = self.buckets.pop() else { return Ok(false) };
        let bucket = self.buckets.len();
        let mut units = std::mem::take(&mut self.units);
        units.group(&rows, self.task.hash)?;
        let mut rest = &mut units.rows[..];
        for (code, count) in units.codes.iter().zip(&units.counts) {
            let (own, after) = rest.split_at_mut(*count);
            rest = after;
            self.add_unit(bucket, *code, own)?;
        }
        self.units = units;
        Ok(true)
    }

    /// The keys, and the totals: for every output, one number for each key.
    pub(super) fn into_sums(self) -> (Located, Vec<Vec<i128>>) {
        (self.keys, self.sums)
    }

    /// Bounds one unit's rows and adds the kept ones.
    fn add_unit(&mut self, bucket: usize, code: u64, rows: &mut [u64]) -> Result<()> {
        rows.sort_unstable();
        self.runs.clear();
        let mut start = 0;
        for run in rows.chunk_by(|a, b| key_of(*a) == key_of(*b)) {
            let end = start + run.len();
            self.runs.push(Run { key: key_of(rows[start]), start, end });
            start = end;
        }
        self.keep_rows(code)?;
        let mut output = 0;
        for (i, input) in self.task.inputs.iter().enumerate() {
            let kept = &self.kept[self.limit_of[i]];
            let plain_count = matches!(input.kind, InputKind::CountRows { filter: None });
            for (run, kept) in self.runs.iter().zip(kept).filter(|(_, kept)| **kept > 0) {
                let key = run.key as usize;
                if plain_count {
                    add(&mut self.sums[output][key], i128::from(*kept))?;
                    continue;
                }
                if let Some(pairs) = input.kind.pairs() {
                    let sums = self.sums[output..].iter_mut().take(pairs.products());
                    for (which, sums) in sums.enumerate() {
                        let own = &rows[run.start..run.end];
                        let product = self.payloads[i].product(bucket, own, pairs, which)?;
                        add(&mut sums[key], shared(product, *kept, run.rows())?)?;
                    }
                    continue;
                }
                let tally = self.payloads[i].tally(bucket, &rows[run.start..run.end])?;
                let parts = input.kind.partial(tally, run.rows(), *kept)?;
                for (part, sums) in parts.into_iter().zip(&mut self.sums[output..]) {
                    if part != 0 {
                        add(&mut sums[key], part)?;
                    }
                }
            }
            output += input.kind.outputs();
        }
        Ok(())
    }

    /// Fills `kept`: how many rows of each run every set of limits keeps.
    fn keep_rows(&mut self, code: u64) -> Result<()> {
        self.order.clear();
        for (limits, kept) in self.limits.iter().zip(&mut self.kept) {
            kept.clear();
            if !limits.depend_on_order(self.runs.iter().map(|run| run.rows())) {
                kept.extend(self.runs.iter().map(|run| limits.in_group(run.rows())));
                continue;
            }
            if self.order.is_empty() {
                let unit = self.names.hash(code, self.task.hash)?;
                let runs = self.runs.iter().enumerate();
                let hash = self.task.hash;
                match &self.keys.names {
                    None => {
                        let ranked = runs.map(|(i, run)| (hash.rank(unit, run.key), run.key, i));
                        self.order.extend(ranked);
                        self.order.sort_unstable();
                    }
                    Some(names) => {
                        // A place depends on which rows of other units came before; the key itself does not.
                        let name = |key: u32| names.row(key as usize).data();
                        let ranked =
                            runs.map(|(i, run)| (hash.group_rank(unit, name(run.key)), run.key, i));
                        self.order.extend(ranked);
                        self.order.sort_unstable_by(|a, b| (a.0, name(a.1)).cmp(&(b.0, name(b.1))));
                    }
                }
            }
            kept.resize(self.runs.len(), 0);
            let order = &self.order;
            limits.keep(order.iter().map(|(_, _, i)| self.runs[*i].rows()), |position, rows| {
                kept[order[position].2] = rows
            });
        }
        Ok(())
    }
}

fn add(sum: &mut i128, part: i128) -> Result<()> {
    *sum = sum.checked_add(part).ok_or_else(failed)?;
    Ok(())
}
