//! Collects rows by unit, and adds up what each unit may contribute.
//!
//! In: rows of one partition, with their units, keys and values. Out: the totals of every output for every key. It
//! assumes that all rows of a unit that it is given for an aggregate are all rows of that unit, or of that unit in groups
//! that bound each other in nothing. It guarantees that each unit's contribution is bounded as a whole, in whatever order
//! the rows arrive.
//!
//! A keyed hash of the unit distributes the rows over [`BUCKETS`], so that the last pass works on pieces that fit the
//! processor's cache; the rows are never sorted as a whole.
//!
//! ```text
//! rows ─▶ bucket 0..256 ─▶ rows by unit ─▶ runs by key ─▶ k_j ─▶ totals
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::keys::Located;
use super::lanes::Lane;
use super::order::HashKey;
use super::partial::{AggregateInput, EnforcedBounds, InputKind, shared};
use super::payload::Payload;
use super::rungs::{Own, Rungs};
use super::task::Task;
use super::units::{BUCKETS, Collected, Row, UnitNames, Units, key_of};
use crate::grid::failed;

/// Distributes rows over buckets, for some of the aggregates.
pub(super) struct Collector<'a> {
    task: &'a Task,
    /// The aggregates, each with the number of its first output.
    inputs: Vec<(usize, usize)>,
    /// The payload of each source that one of them reads.
    payloads: Vec<Option<Payload>>,
    buckets: Vec<Vec<Row>>,
    kept_scratch: Vec<(usize, u8)>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(task: &'a Task, inputs: Vec<(usize, usize)>) -> Self {
        let sources = &task.sources;
        let wanted = |at: usize| inputs.iter().any(|(i, _)| sources.of[*i] == at);
        let payload = |(at, source)| wanted(at).then(|| Payload::new(source, sources.flagged[at]));
        Self {
            task,
            payloads: sources.list.iter().enumerate().map(payload).collect(),
            inputs,
            buckets: vec![Vec::new(); BUCKETS],
            kept_scratch: Vec::new(),
        }
    }

    /// Adds rows of a batch.
    pub(super) fn push(&mut self, lanes: &[Lane], rows: &[Collected]) -> Result<()> {
        let reads = self.payloads.iter().flatten().any(Payload::reads);
        self.kept_scratch.clear();
        for Collected { row, unit, key } in rows {
            let [bucket, ..] = self.task.hash.scatter(*unit).to_be_bytes();
            let rows = &mut self.buckets[usize::from(bucket)];
            let place = u32::try_from(rows.len()).map_err(|_| failed())?;
            rows.push(Row { unit: *unit, key: *key, place });
            if reads {
                self.kept_scratch.push((*row as usize, bucket));
            }
        }
        for (payload, lane) in self.payloads.iter_mut().zip(lanes) {
            if let Some(payload) = payload {
                payload.push(lane, &self.kept_scratch)?;
            }
        }
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let rows: usize = self.buckets.iter().map(Vec::capacity).sum();
        let payloads: usize = self.payloads.iter().flatten().map(Payload::size).sum();
        rows * size_of::<Row>() + payloads
    }
}

/// The last pass: bounds unit by unit and adds up.
pub(super) struct Totals<'a> {
    task: &'a Task,
    names: UnitNames,
    keys: Located,
    sums: Vec<Vec<i128>>,
    /// What is left to bound.
    collected: Vec<Bucketed>,
    units: Units,
    bounding: Bounding,
}

/// Rows that were collected for some of the aggregates.
struct Bucketed {
    inputs: Vec<(usize, usize)>,
    payloads: Vec<Option<Payload>>,
    buckets: Vec<Vec<Row>>,
    limits: Vec<EnforcedBounds>,
    limit_of: Vec<usize>,
}

impl Bucketed {
    fn new(collector: Collector<'_>) -> Self {
        let Collector { task, inputs, payloads, buckets, .. } = collector;
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
        Self { inputs, payloads, buckets, limits, limit_of }
    }

    /// What was kept of the rows for an aggregate.
    fn payload(&self, task: &Task, input: usize) -> Result<&Payload> {
        let at = task.sources.of.get(input).ok_or_else(failed)?;
        self.payloads.get(*at).and_then(Option::as_ref).ok_or_else(failed)
    }
}

/// The rows of one unit, in the order of its runs.
struct OneUnit<'a> {
    bucket: usize,
    code: u64,
    rows: &'a [u64],
}

/// How many rows one unit keeps.
#[derive(Default)]
struct Bounding {
    runs: Vec<Run>,
    order: Vec<(u64, u32, usize)>,
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

impl<'a> Totals<'a> {
    pub(super) fn new(
        task: &'a Task,
        names: UnitNames,
        keys: Located,
        sums: Vec<Vec<i128>>,
        collectors: Vec<Collector<'a>>,
    ) -> Self {
        let collected = collectors.into_iter().map(Bucketed::new).collect();
        let (units, bounding) = (Units::default(), Bounding::default());
        Self { task, names, keys, sums, collected, units, bounding }
    }

    /// Processes one bucket that has rows; false if none is left.
    pub(super) fn next_bucket(&mut self) -> Result<bool> {
        let Some(mut collected) = self.collected.pop() else { return Ok(false) };
        while collected.buckets.last().is_some_and(Vec::is_empty) {
            collected.buckets.pop();
        }
        let Some(rows) = collected.buckets.pop() else { return Ok(true) };
        let bucket = collected.buckets.len();
        let mut units = std::mem::take(&mut self.units);
        units.group(&rows, self.task.hash)?;
        let mut rest = &mut units.rows[..];
        for (code, count) in units.codes.iter().zip(&units.counts) {
            let (own, after) = rest.split_at_mut(*count);
            rest = after;
            self.add_unit(&collected, bucket, *code, own)?;
        }
        self.units = units;
        self.collected.push(collected);
        Ok(true)
    }

    /// The keys, and the totals: for every output, one number for each key.
    pub(super) fn into_sums(self) -> (Located, Vec<Vec<i128>>) {
        (self.keys, self.sums)
    }

    /// Bounds one unit's rows and adds the kept ones.
    fn add_unit(
        &mut self,
        collected: &Bucketed,
        bucket: usize,
        code: u64,
        rows: &mut [u64],
    ) -> Result<()> {
        rows.sort_unstable();
        self.bounding.runs.clear();
        let mut start = 0;
        for run in rows.chunk_by(|a, b| key_of(*a) == key_of(*b)) {
            let end = start + run.len();
            self.bounding.runs.push(Run { key: key_of(rows[start]), start, end });
            start = end;
        }
        self.keep_rows(&collected.limits, code)?;
        let runs = &self.bounding.runs;
        for (at, (i, output)) in collected.inputs.iter().enumerate() {
            let (input, output) = (&self.task.inputs[*i], *output);
            if input.ladder.is_some() {
                continue;
            }
            let payload = collected.payload(self.task, *i)?;
            let kept = &self.bounding.kept[collected.limit_of[at]];
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
                        let own = &rows[run.start..run.end];
                        let product = payload.product(bucket, own, pairs, which)?;
                        add(&mut sums[key], shared(product, *kept, run.rows())?)?;
                    }
                    continue;
                }
                let tally = payload.tally(bucket, &rows[run.start..run.end])?;
                let parts = input.kind.partial(tally, run.rows(), *kept)?;
                for (part, sums) in parts.into_iter().zip(&mut self.sums[output..]) {
                    if part != 0 {
                        add(&mut sums[key], part)?;
                    }
                }
            }
        }
        let unit = OneUnit { bucket, code, rows };
        for (i, output) in &collected.inputs {
            if self.task.inputs[*i].ladder.is_some() {
                let payload = collected.payload(self.task, *i)?;
                self.add_rungs(&self.task.inputs[*i], *output, payload, &unit)?;
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
        payload: &Payload,
        unit: &OneUnit<'_>,
    ) -> Result<()> {
        let kind = &input.kind;
        let ladder = input.ladder.as_deref().unwrap_or_default();
        let (Some(least), Some((last, smaller))) = (ladder.first(), ladder.split_last()) else {
            return Err(failed());
        };
        let mut rungs = std::mem::take(&mut self.bounding.rungs);
        rungs.fill(self.bounding.runs.iter().map(|run| {
            let tally = payload.tally(unit.bucket, &unit.rows[run.start..run.end])?;
            let parts = kind.partial(tally, run.rows(), run.rows())?;
            Own::new(kind, run.key, parts, tally.count)
        }))?;
        if rungs.is_beyond(*least) && self.bounding.runs.len() > 1 {
            let Bounding { runs, order, .. } = &mut self.bounding;
            if order.is_empty() {
                fill_order(order, runs, &self.names, &self.keys, unit.code, self.task.hash)?;
            }
            rungs.sort_by(order.iter().map(|(_, _, i)| *i))?;
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

    /// Fills `kept`: how many rows of each run every set of limits keeps.
    fn keep_rows(&mut self, limits: &[EnforcedBounds], code: u64) -> Result<()> {
        let Bounding { runs, order, kept, .. } = &mut self.bounding;
        order.clear();
        kept.resize_with(limits.len().max(kept.len()), Vec::new);
        for (limits, kept) in limits.iter().zip(kept) {
            kept.clear();
            if !limits.depend_on_order(runs.iter().map(|run| run.rows())) {
                kept.extend(runs.iter().map(|run| limits.in_group(run.rows())));
                continue;
            }
            if order.is_empty() {
                fill_order(order, runs, &self.names, &self.keys, code, self.task.hash)?;
            }
            kept.resize(runs.len(), 0);
            limits.keep(order.iter().map(|(_, _, i)| runs[*i].rows()), |position, rows| {
                kept[order[position].2] = rows
            });
        }
        Ok(())
    }
}

/// The order in which a unit's groups are served.
fn fill_order(
    order: &mut Vec<(u64, u32, usize)>,
    runs: &[Run],
    names: &UnitNames,
    keys: &Located,
    code: u64,
    hash: HashKey,
) -> Result<()> {
    let unit = names.hash(code, hash)?;
    let runs = runs.iter().enumerate();
    match &keys.names {
        None => {
            order.extend(runs.map(|(i, run)| (hash.rank(unit, run.key), run.key, i)));
            order.sort_unstable();
        }
        Some(names) => {
            // A place depends on which rows of other units came before; the key itself does not.
            let name = |key: u32| names.row(key as usize).data();
            let rank = |key: u32| hash.group_rank(unit, name(key));
            order.extend(runs.map(|(i, run)| (rank(run.key), run.key, i)));
            order.sort_unstable_by(|a, b| (a.0, name(a.1)).cmp(&(b.0, name(b.1))));
        }
    }
    Ok(())
}

fn add(sum: &mut i128, part: i128) -> Result<()> {
    *sum = sum.checked_add(part).ok_or_else(failed)?;
    Ok(())
}
