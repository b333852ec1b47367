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

use super::bucket::{Bucket, Buckets, OF_A_ROW, Waited, Words};
use super::few::sort;
use super::grouped::{BUCKETS, Close, Inside, key_of};
use super::hold::Held;
use super::lists::Expected;
use super::partial::{AggregateInput, EnforcedBounds, InputKind};
use super::payload::{Kept, Payload};
use super::rungs::{Own, Rungs};
use super::share::{clamped, distances, shared};
use super::task::Task;
use super::together::{KeyNames, Names};
use crate::grid::failed;

/// Distributes rows over buckets, for some of the aggregates.
pub(super) struct Collector {
    /// The payload of each source that one of them reads.
    payloads: Vec<Option<Payload>>,
    /// The source of which all that is kept is inside of the rows, and what is inside of those of a batch.
    inside: Option<usize>,
    numbers: Vec<Inside>,
    buckets: Buckets,
    /// Whether values are read, and then the rows of a batch, with their buckets.
    reads: bool,
    added: Vec<(u32, u8)>,
}

/// What is known of the rows of a collector before they come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// About so many.
    pub(super) rows: usize,
    pub(super) keys: usize,
    /// Where all units are, if they are close to each other.
    pub(super) close: Option<Close>,
    /// Whether only some buckets have rows.
    pub(super) in_turns: bool,
}

impl Collector {
    /// For rows of which so much is known.
    pub(super) fn new(task: &Task, shape: &Shape, known: Known) -> Self {
        let Known { rows, keys, close, in_turns } = known;
        let sources = &task.sources;
        // Units with several rows make some buckets larger than others.
        let entries = rows / BUCKETS + rows / BUCKETS / 16 + 16;
        let expected = Expected { entries, in_few: in_turns };
        let wanted = |at: usize| shape.inputs.iter().any(|(i, _)| sources.of[*i] == at);
        let payload =
            |(at, source)| wanted(at).then(|| Payload::new(source, sources.flagged[at], expected));
        let payloads: Vec<_> = sources.list.iter().enumerate().map(payload).collect();
        let read = |at: &usize| payloads[*at].as_ref().is_some_and(Payload::reads);
        let mut read = (0..payloads.len()).filter(read);
        let fits = |at: &usize| {
            let payload = payloads[*at].as_ref().filter(|payload| payload.fits_inside());
            payload.is_some() && sources.list[*at].pairs.is_none()
        };
        let inside = match (read.next(), read.next()) {
            (only, None) if close.is_some() && keys <= Words::MOST_KEYS => only.filter(fits),
            _ => None,
        };
        Self {
            reads: inside.is_none() && payloads.iter().flatten().any(Payload::reads),
            buckets: Buckets::new(close, inside.is_some(), task.hash, expected),
            payloads,
            inside,
            numbers: Vec::new(),
            added: Vec::new(),
        }
    }

    /// Adds those rows of a batch that are wanted, given the number of each, its unit and its key.
    ///
    /// # Errors
    /// A constant text for the lanes of other sources, and for a unit that is not close to the others, as was said.
    pub(super) fn add(
        &mut self,
        held: &Held,
        is_wanted: impl FnMut(u32, u64, u32) -> bool,
    ) -> Result<()> {
        let Self { payloads, inside, numbers, buckets, reads, added } = self;
        added.clear();
        numbers.clear();
        if let Some(at) = inside {
            held.lanes.get(*at).ok_or_else(failed)?.add_inside(held.rows, numbers)?;
            if numbers.len() != held.rows {
                return Err(failed());
            }
        }
        if !buckets.push(held, is_wanted, numbers, reads.then_some(&mut *added)) {
            return Err(failed());
        }
        for (at, (payload, lane)) in payloads.iter_mut().zip(&held.lanes).enumerate() {
            if let Some(payload) = payload.as_mut().filter(|_| *inside != Some(at)) {
                payload.push(lane, added)?;
            }
        }
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let (mut listed, mut of_inside) = (0, 0);
        for (at, payload) in self.payloads.iter().enumerate() {
            match (payload, self.inside == Some(at)) {
                (Some(payload), true) => of_inside = payload.of_row(),
                (Some(payload), false) => listed += payload.size(),
                (None, _) => {}
            }
        }
        self.buckets.size(of_inside) + listed
    }

    /// The bytes of one row.
    pub(super) fn of_row(task: &Task, shape: &Shape) -> usize {
        let payloads = Self::new(task, shape, Known::default()).payloads;
        OF_A_ROW + payloads.iter().flatten().map(Payload::of_row).sum::<usize>()
    }

    /// The rows of each bucket, with their values.
    pub(super) fn into_buckets(self) -> Vec<Waited> {
        let inside = self.inside;
        let payloads = self.payloads.into_iter().enumerate();
        let mut payloads: Vec<_> = payloads
            .map(|(at, payload)| {
                let payload = payload?;
                Some(match inside == Some(at) {
                    true => payload.inside().into_iter(),
                    false => payload.into_buckets().into_iter(),
                })
            })
            .collect();
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
            let kept = runs.iter().copied().zip(kept.iter().copied()).filter(|(_, kept)| *kept > 0);
            add_kept(&mut self.sums[output..], &input.kind, values, unit, kept)?;
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

/// Adds what a unit's kept rows of each run add to its key.
fn add_kept(
    sums: &mut [Vec<i128>],
    kind: &InputKind,
    values: &Kept,
    unit: &OneUnit<'_>,
    mut kept: impl Iterator<Item = (Run, u64)>,
) -> Result<()> {
    let rows = |run: Run| &unit.rows[run.start..run.end];
    match kind {
        InputKind::CountRows { filter: None } => {
            kept.try_for_each(|(run, kept)| add(&mut sums[0][run.key as usize], kept.into()))
        }
        InputKind::CountUnits { filter: None } => {
            kept.try_for_each(|(run, _)| add(&mut sums[0][run.key as usize], 1))
        }
        InputKind::Sum { lo, hi, .. } => kept.try_for_each(|(run, kept)| {
            let sum = clamped(values.sum(rows(run))?, [*lo, *hi], kept)?;
            add(&mut sums[0][run.key as usize], sum)
        }),
        InputKind::Mean { lo, hi, .. } => kept.try_for_each(|(run, kept)| {
            let tally = values.tally(rows(run))?;
            let parts = distances(tally, [*lo, *hi], kept, run.rows())?;
            let mut parts = parts.into_iter().zip(&mut *sums);
            parts.try_for_each(|(part, sums)| add(&mut sums[run.key as usize], part))
        }),
        InputKind::Products { pairs, .. } => kept.try_for_each(|(run, kept)| {
            let mut sums = sums.iter_mut().take(pairs.products()).enumerate();
            sums.try_for_each(|(which, sums)| {
                let product = values.product(rows(run), pairs, which)?;
                add(&mut sums[run.key as usize], shared(product, kept, run.rows())?)
            })
        }),
        InputKind::CountRows { .. }
        | InputKind::CountUnits { .. }
        | InputKind::CountValues { .. }
        | InputKind::Moments { .. }
        | InputKind::MeanPerUnit { .. }
        | InputKind::SumPerUnit { .. } => kept.try_for_each(|(run, kept)| {
            let parts = kind.partial(values.tally(rows(run))?, run.rows(), kept)?;
            let mut parts = parts.into_iter().zip(&mut *sums).filter(|(part, _)| *part != 0);
            parts.try_for_each(|(part, sums)| add(&mut sums[run.key as usize], part))
        }),
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
                sort(order, first_bits, |one| *one);
            }
            Some(KeyNames { bytes, hashes }) => {
                // A place depends on which rows of other units came before; the key itself does not.
                let rank = |run: &Run| hash.named_rank(unit, hashes[run.key as usize]);
                order.extend(runs.iter().map(rank).zip(0..));
                sort(order, first_bits, |one| *one);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::operator::bound_contributions::hold::Places;
    use crate::exec::operator::bound_contributions::lanes::{Lane, Numbers, Sources};
    use crate::exec::operator::bound_contributions::order::HashKey;
    use crate::exec::operator::bound_contributions::units::HeldUnits;
    use crate::grid::Grid;

    fn task(hi: i128) -> Task {
        let kind = InputKind::Mean { column: 2, filter: None, grid: Grid::Integer, lo: 0, hi };
        let inputs = vec![AggregateInput::new(kind, EnforcedBounds::default())];
        let sources = Sources::new(&inputs).unwrap();
        Task { unit: 0, keys: vec![1], inputs, sources, hash: HashKey::new([1, 2, 3, 4]) }
    }

    fn held(rows: usize) -> Held {
        let units = HeldUnits::Codes(vec![5; rows]);
        let lane = Lane { passing: None, numbers: Numbers::Half(vec![300; rows]) };
        let places = Some(Places::Wide(vec![0; rows]));
        Held { units, places, lanes: vec![lane], rows, bytes: 0 }
    }

    /// One unit far from the others, or a key more than words have room for, decides how rows are kept, and not what memory is
    /// reserved for them.
    #[test]
    fn what_is_inside_takes_no_other_memory() {
        let task = task(300);
        let shape = Shape::new(&task, vec![(0, 0)]).unwrap();
        for rows in [1, 100, 9_000] {
            let close = Some(Close { least: 0, span: 9 });
            let sizes = [(close, 1, true), (close, Words::MOST_KEYS + 1, false), (None, 1, false)];
            let sizes = sizes.map(|(close, keys, inside)| {
                let known = Known { rows, keys, close, in_turns: false };
                let mut collector = Collector::new(&task, &shape, known);
                assert_eq!(collector.inside.is_some(), inside);
                collector.add(&held(rows), |_, _, _| true).unwrap();
                collector.size()
            });
            assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
        }
    }
}
