//! Collects rows by unit, and adds up what each unit may contribute.
//!
//! In: rows, with their units, keys and values. Out: the totals of every output for every key. It assumes that all rows of a
//! unit that are collected for an aggregate are in one bucket when it is bounded: all rows of that unit, or of that unit in
//! groups that bound each other in nothing. It guarantees that each unit's contribution is bounded as a whole, in whatever
//! order the rows arrive.
//!
//! Units are distributed over [`BUCKETS`], so that the last pass works on pieces that fit the
//! processor's cache; the rows are never sorted as a whole. What several partitions collected in one bucket is put together.
//!
//! ```text
//! rows ─▶ bucket 0..256 ─▶ rows by unit ─▶ runs by key ─▶ k_j ─▶ totals
//! ```

use std::sync::Arc;

use datafusion::common::Result;

use super::bucket::{Bucket, Buckets, OF_A_ROW, Waited};
use super::few::sort;
use super::grouped::{BUCKETS, Close, key_of};
use super::lanes::Lane;
use super::partial::{AggregateInput, EnforcedBounds, InputKind, shared};
use super::payload::{Kept, Payload};
use super::rungs::{Own, Rungs};
use super::task::Task;
use super::together::{KeyNames, Names};
use crate::grid::failed;

/// Distributes rows over buckets, for some of the aggregates.
pub(super) struct Collector {
    /// The payload of each source that one of them reads.
    payloads: Vec<Option<Payload>>,
    buckets: Buckets,
    /// The rows that a bucket is expected to get.
    expected: usize,
    /// Whether values are read, and then the rows and their buckets whose values follow.
    reads: bool,
    added: Vec<(u32, u8)>,
    /// Whether each unit was among those that are close to each other, if that was said.
    are_close: bool,
}

impl Collector {
    /// For about so many rows; `close` if it has all units.
    pub(super) fn new(task: &Task, shape: &Shape, rows: usize, close: Option<Close>) -> Self {
        let sources = &task.sources;
        // Units with several rows make some buckets larger than others.
        let expected = rows / BUCKETS + rows / BUCKETS / 16 + 16;
        let wanted = |at: usize| shape.inputs.iter().any(|(i, _)| sources.of[*i] == at);
        let payload =
            |(at, source)| wanted(at).then(|| Payload::new(source, sources.flagged[at], expected));
        let payloads: Vec<_> = sources.list.iter().enumerate().map(payload).collect();
        Self {
            reads: payloads.iter().flatten().any(Payload::reads),
            payloads,
            buckets: Buckets::new(close, task.hash),
            expected,
            added: Vec::new(),
            are_close: true,
        }
    }

    /// Adds a row of a batch; its values follow.
    pub(super) fn add(&mut self, row: u32, unit: u64, key: u32) {
        match self.buckets.push(unit, key, self.expected) {
            Some(bucket) if self.reads => self.added.push((row, bucket)),
            Some(_) => {}
            None => self.are_close = false,
        }
    }

    /// Adds the values of the rows that were added since the last batch.
    ///
    /// # Errors
    /// A constant text for the lanes of other sources, and for a unit that is not close to the others, as was said.
    pub(super) fn add_values(&mut self, lanes: &[Lane]) -> Result<()> {
        if !self.are_close {
            return Err(failed());
        }
        for (payload, lane) in self.payloads.iter_mut().zip(lanes) {
            if let Some(payload) = payload {
                payload.push(lane, &self.added)?;
            }
        }
        self.added.clear();
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let payloads: usize = self.payloads.iter().flatten().map(Payload::size).sum();
        self.buckets.size() + payloads
    }

    /// The bytes of one row.
    pub(super) fn of_row(task: &Task, shape: &Shape) -> usize {
        let payloads = Self::new(task, shape, 0, None).payloads;
        OF_A_ROW + payloads.iter().flatten().map(Payload::of_row).sum::<usize>()
    }

    /// The rows of each bucket, with their values.
    pub(super) fn into_buckets(self) -> Vec<Waited> {
        let payloads = self.payloads.into_iter();
        let mut payloads: Vec<_> =
            payloads.map(|payload| Some(payload?.into_buckets().into_iter())).collect();
        let bucket = |rows| {
            let kept = payloads.iter_mut().map(|kept| kept.as_mut().and_then(Iterator::next));
            Waited { rows, kept: kept.collect() }
        };
        self.buckets.into_waiting().into_iter().map(bucket).collect()
    }
}

/// Aggregates for which the same rows are collected.
#[derive(Debug)]
pub(super) struct Shape {
    /// The aggregates, each with the number of its first output.
    inputs: Vec<(usize, usize)>,
    limits: Vec<EnforcedBounds>,
    limit_of: Vec<usize>,
}

impl Shape {
    /// For aggregates, each with the number of its first output; `None` if there are none.
    pub(super) fn new(task: &Task, inputs: Vec<(usize, usize)>) -> Option<Arc<Self>> {
        let mut limits: Vec<EnforcedBounds> = Vec::new();
        let mut limit_of = Vec::new();
        for (i, _) in &inputs {
            let own = task.inputs[*i].effective_limits();
            let known = limits.iter().position(|limits| *limits == own);
            limit_of.push(known.unwrap_or(limits.len()));
            if known.is_none() {
                limits.push(own);
            }
        }
        (!inputs.is_empty()).then(|| Arc::new(Self { inputs, limits, limit_of }))
    }
}

/// The last pass: bounds unit by unit and adds up.
pub(super) struct Totals {
    names: Arc<Names>,
    sums: Vec<Vec<i128>>,
    /// What is left to bound: all that was collected in one bucket, by several parts.
    buckets: Vec<(Arc<Shape>, Vec<Waited>)>,
    bucket: Bucket,
    bounding: Bounding,
}

/// The rows of one unit, by key.
struct OneUnit<'a> {
    code: u64,
    rows: &'a [u64],
}

/// How many rows one unit keeps.
#[derive(Default)]
struct Bounding {
    runs: Vec<Run>,
    /// The rank of each run, and its position.
    order: Vec<(u64, u32)>,
    /// Rows kept of every run, for each of the limits.
    kept: Vec<Vec<u64>>,
    rungs: Rungs,
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

impl Totals {
    /// For buckets, each with what all parts collected in it; `outputs` numbers for each key.
    pub(super) fn new(
        names: Arc<Names>,
        outputs: usize,
        buckets: Vec<(Arc<Shape>, Vec<Waited>)>,
    ) -> Self {
        let sums = vec![vec![0; names.keys.len]; outputs];
        let (bucket, bounding) = Default::default();
        Self { names, sums, buckets, bucket, bounding }
    }

    /// Processes one bucket; false if none is left.
    pub(super) fn next_bucket(&mut self) -> Result<bool> {
        let Some((shape, parts)) = self.buckets.pop() else { return Ok(false) };
        let mut bucket = std::mem::take(&mut self.bucket);
        let names = Arc::clone(&self.names);
        bucket.fill(parts, names.task.hash)?;
        let mut rest = &bucket.units.rows[..];
        for (code, count) in bucket.units.codes.iter().zip(&bucket.units.counts) {
            let (rows, after) = rest.split_at(*count);
            rest = after;
            self.add_unit(&names, &shape, &bucket, &OneUnit { code: *code, rows })?;
        }
        self.bucket = bucket;
        Ok(true)
    }

    /// The totals: for every output, one number for each key.
    pub(super) fn into_sums(self) -> Vec<Vec<i128>> {
        self.sums
    }

    /// Bounds one unit's rows and adds the kept ones.
    fn add_unit(
        &mut self,
        names: &Names,
        shape: &Shape,
        bucket: &Bucket,
        unit: &OneUnit<'_>,
    ) -> Result<()> {
        let OneUnit { code, rows } = *unit;
        self.bounding.runs.clear();
        let mut start = 0;
        for run in rows.chunk_by(|a, b| key_of(*a) == key_of(*b)) {
            let end = start + run.len();
            self.bounding.runs.push(Run { key: key_of(rows[start]), start, end });
            start = end;
        }
        let task = &names.task;
        self.bounding.keep_rows(names, &shape.limits, code)?;
        let runs = &self.bounding.runs;
        for (at, (i, output)) in shape.inputs.iter().enumerate() {
            let (input, output) = (&task.inputs[*i], *output);
            if input.ladder.is_some() {
                continue;
            }
            let values = bucket.kept(task, *i)?;
            let kept = &self.bounding.kept[shape.limit_of[at]];
            let plain_count = matches!(input.kind, InputKind::CountRows { filter: None });
            for (run, kept) in runs.iter().zip(kept).filter(|(_, kept)| **kept > 0) {
                let key = run.key as usize;
                if plain_count {
                    add(&mut self.sums[output][key], i128::from(*kept))?;
                    continue;
                }
                if let Some(pairs) = input.kind.pairs() {
                    let sums = self.sums[output..].iter_mut().take(pairs.products());
                    for (which, sums) in sums.enumerate() {
                        let product = values.product(&rows[run.start..run.end], pairs, which)?;
                        add(&mut sums[key], shared(product, *kept, run.rows())?)?;
                    }
                    continue;
                }
                let tally = values.tally(&rows[run.start..run.end])?;
                let parts = input.kind.partial(tally, run.rows(), *kept)?;
                for (part, sums) in parts.into_iter().zip(&mut self.sums[output..]) {
                    if part != 0 {
                        add(&mut sums[key], part)?;
                    }
                }
            }
        }
        for (i, output) in &shape.inputs {
            if task.inputs[*i].ladder.is_some() {
                self.add_rungs(&task.inputs[*i], *output, bucket.kept(task, *i)?, unit)?;
            }
        }
        Ok(())
    }

    /// Adds what one unit adds under each bound of a ladder.
    ///
    /// # Guarantee
    /// The columns of the last bound change by what [`Rungs::under`] says of it, those of a smaller bound by what is cut of that;
    /// the column of units beyond a bound changes by 1 at one key if the unit is beyond it, and by 0 otherwise.
    fn add_rungs(
        &mut self,
        input: &AggregateInput,
        output: usize,
        kept: &Kept,
        unit: &OneUnit<'_>,
    ) -> Result<()> {
        let kind = &input.kind;
        let ladder = input.ladder.as_deref().unwrap_or_default();
        let (Some(least), Some((last, smaller))) = (ladder.first(), ladder.split_last()) else {
            return Err(failed());
        };
        let mut rungs = std::mem::take(&mut self.bounding.rungs);
        rungs.fill(self.bounding.runs.iter().map(|run| {
            let tally = kept.tally(&unit.rows[run.start..run.end])?;
            let parts = kind.partial(tally, run.rows(), run.rows())?;
            Own::new(kind, run.key, parts, tally.count)
        }))?;
        if rungs.is_beyond(*least) && self.bounding.runs.len() > 1 {
            let Bounding { runs, order, .. } = &mut self.bounding;
            if order.is_empty() {
                self.names.fill_order(order, runs, unit.code)?;
            }
            rungs.sort_by(order.iter().map(|(_, i)| *i as usize))?;
        }
        let parts = kind.outputs();
        let sums = &mut self.sums[output..];
        rungs.under(kind, *last, |key, values| {
            let columns = values.into_iter().zip(&mut sums[..parts]);
            columns
                .filter(|(value, _)| *value != 0)
                .try_for_each(|(value, sums)| add(&mut sums[key as usize], value))
        })?;
        let place = rungs.own.first().map_or(0, |own| own.key as usize);
        for (j, bound) in
            smaller.iter().enumerate().take_while(|(_, bound)| rungs.is_beyond(**bound))
        {
            let cut = &mut sums[parts * (j + 1)..parts * (j + 2)];
            let mut cuts = |key: u32, values: [i128; 3], sign: i128| {
                let columns = values.into_iter().zip(cut.iter_mut());
                columns
                    .filter(|(value, _)| *value != 0)
                    .try_for_each(|(value, sums)| add(&mut sums[key as usize], sign * value))
            };
            rungs.under(kind, *last, |key, values| cuts(key, values, 1))?;
            rungs.under(kind, *bound, |key, values| cuts(key, values, -1))?;
        }
        for (j, _) in ladder.iter().enumerate().take_while(|(_, bound)| rungs.is_beyond(**bound)) {
            add(&mut sums[parts * ladder.len() + j][place], 1)?;
        }
        self.bounding.rungs = rungs;
        Ok(())
    }
}

impl Bounding {
    /// Fills `kept`: how many rows of each run every set of limits keeps.
    fn keep_rows(&mut self, names: &Names, limits: &[EnforcedBounds], code: u64) -> Result<()> {
        let Self { runs, order, kept, .. } = self;
        order.clear();
        kept.resize_with(limits.len().max(kept.len()), Vec::new);
        for (limits, kept) in limits.iter().zip(kept) {
            kept.clear();
            if !limits.depend_on_order(runs.iter().map(|run| run.rows())) {
                kept.extend(runs.iter().map(|run| limits.in_group(run.rows())));
                continue;
            }
            if order.is_empty() {
                names.fill_order(order, runs, code)?;
            }
            kept.resize(runs.len(), 0);
            limits.keep(order.iter().map(|(_, i)| runs[*i as usize].rows()), |position, rows| {
                kept[order[position].1 as usize] = rows
            });
        }
        Ok(())
    }
}

impl Names {
    /// The order in which a unit's groups are served. Runs ascend by the place of their key.
    fn fill_order(&self, order: &mut Vec<(u64, u32)>, runs: &[Run], code: u64) -> Result<()> {
        let hash = self.task.hash;
        let unit = self.units.hash(code, hash)?;
        match &self.of_keys {
            None => {
                let ranks = runs.iter().map(|run| hash.rank(unit, run.key));
                order.extend(ranks.zip(0..));
                sort(order, first_bits);
            }
            Some(KeyNames { bytes, hashes }) => {
                // A place depends on which rows of other units came before; the key itself does not.
                let rank = |run: &Run| hash.named_rank(unit, hashes[run.key as usize]);
                order.extend(runs.iter().map(rank).zip(0..));
                sort(order, first_bits);
                if order.windows(2).any(|two| two[0].0 == two[1].0) {
                    let name = |run: u32| bytes.row(runs[run as usize].key as usize);
                    order.sort_unstable_by(|a, b| {
                        a.0.cmp(&b.0).then_with(|| name(a.1).data().cmp(name(b.1).data()))
                    });
                }
            }
        }
        Ok(())
    }
}

/// What nearly always tells ranks apart.
fn first_bits((rank, _): &(u64, u32)) -> u32 {
    (rank >> 38) as u32
}

/// Adds, unless 128 bits do not suffice.
pub(super) fn add(sum: &mut i128, part: i128) -> Result<()> {
    *sum = sum.checked_add(part).ok_or_else(failed)?;
    Ok(())
}
