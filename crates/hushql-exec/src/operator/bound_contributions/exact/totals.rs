//! Adds up the bounded contributions of each unit.
//!
//! In: the rows of each bucket, with their values. Out: the totals of every output for every key.
//! It assumes that one bucket has all rows of a unit that are collected for an aggregate: all of
//! the unit's rows, or all rows of some of its groups, if no bound spans several groups. It
//! guarantees that each unit's contribution is bounded as a whole, in whatever order the rows
//! arrive. The rows that several partitions collected for one bucket are bounded together.
//!
//! ```text
//! bucket ─▶ rows by unit ─▶ groups, in the order in which they are served if that matters ─▶ k_j ─▶ totals
//! ```

use std::cell::LazyCell;
use std::sync::Arc;

use datafusion::common::Result;

use super::kept_share::{Share, distances};
use super::ladder_sums::{Own, Rungs};
use super::merge_partitions::{KeyNames, PartitionNames};
use super::rows_by_unit::{Units, key_of};
use super::small_sorts::{KeyCounts, sort, sort_by_key};
use super::unit_buckets::{Bucket, Waited};
use super::unit_contribution::{AggregateInput, InputKind};
use crate::grid::failed;
use crate::operator::bound_contributions::columns::kept_values::BucketValues;
use crate::operator::bound_contributions::task::BoundingTask;

/// Aggregates for which the same rows are collected.
#[derive(Debug)]
pub(in crate::operator::bound_contributions) struct CollectedShape {
    /// The aggregates, each with the number of its first output.
    inputs: Vec<(usize, usize)>,
    /// The order of a unit's groups does not matter if the unit has at most this many rows; `None`
    /// if it never matters.
    in_any_order: Option<u64>,
}

impl CollectedShape {
    /// For aggregates, each with the number of its first output; `None` if there are none.
    pub(in crate::operator::bound_contributions) fn new(
        task: &BoundingTask,
        inputs: Vec<(usize, usize)>,
    ) -> Option<Arc<Self>> {
        let most = |(i, _): &(usize, usize)| match &task.inputs[*i] {
            AggregateInput { ladder: Some(_), .. } => Some(1),
            input => input.effective_limits().in_any_order(),
        };
        let in_any_order = inputs.iter().filter_map(most).min();
        (!inputs.is_empty()).then(|| Arc::new(Self { inputs, in_any_order }))
    }

    /// The positions of the aggregates.
    pub(in crate::operator::bound_contributions) fn aggregates(
        &self,
    ) -> impl Iterator<Item = usize> {
        self.inputs.iter().map(|(i, _)| *i)
    }
}

/// The last pass: bounds unit by unit and adds up.
pub(in crate::operator::bound_contributions) struct Totals {
    names: Arc<PartitionNames>,
    sums: Vec<Vec<i128>>,
    /// The buckets that are left to bound: for each, the rows that several parts collected.
    buckets: Vec<(Arc<CollectedShape>, Vec<Waited>)>,
    bucket: Bucket,
    rungs: Rungs,
    counts: KeyCounts,
}

impl Totals {
    /// For buckets with the rows that all parts collected in them, and `outputs` numbers for each
    /// key.
    pub(in crate::operator::bound_contributions) fn new(
        names: Arc<PartitionNames>,
        outputs: usize,
        buckets: Vec<(Arc<CollectedShape>, Vec<Waited>)>,
    ) -> Self {
        let sums = vec![vec![0; names.keys.len]; outputs];
        let (bucket, rungs) = Default::default();
        let counts = KeyCounts::new(names.keys.len);
        Self { names, sums, buckets, bucket, rungs, counts }
    }

    /// Processes one bucket; false if none is left.
    pub(in crate::operator::bound_contributions) fn next_bucket(&mut self) -> Result<bool> {
        let Some((shape, parts)) = self.buckets.pop() else { return Ok(false) };
        let Self { names, sums, bucket, rungs, counts, .. } = self;
        let task = &names.task;
        bucket.fill(parts, task.hash)?;
        for (code, rows) in bucket.units.each_mut() {
            match shape.in_any_order {
                Some(most) if count(rows) > most => names.order(code, rows, counts)?,
                Some(_) | None => sort_by_key(rows),
            }
        }
        for (i, output) in &shape.inputs {
            let (input, values) = (&task.inputs[*i], bucket.kept(task, *i)?);
            let sums = &mut sums[*output..];
            match &input.ladder {
                None => add_kept(sums, input, values, &bucket.units, names)?,
                Some(ladder) => {
                    for (code, rows) in bucket.units.each() {
                        // That of the unit itself serves all of its groups and bounds.
                        let whole = LazyCell::new(|| names.point(code, None));
                        let point = |key: Option<usize>| match key {
                            None => whole.as_ref().copied().map_err(|_| failed()),
                            Some(_) => names.point(code, key),
                        };
                        add_rungs(sums, (input, ladder), (values, rows), rungs, point)?;
                    }
                }
            }
        }
        Ok(true)
    }

    /// The totals: for every output, one number for each key.
    pub(in crate::operator::bound_contributions) fn into_sums(self) -> Vec<Vec<i128>> {
        self.sums
    }
}

/// The groups of a unit's rows, if the rows of a group are side by side.
fn groups(rows: &[u64]) -> impl Iterator<Item = &[u64]> {
    rows.chunk_by(|row, next| key_of(*row) == key_of(*next))
}

/// The place of a group's key.
fn place(group: &[u64]) -> usize {
    group.first().map_or(0, |row| key_of(*row) as usize)
}

/// The number of a group's rows.
fn count(group: &[u64]) -> u64 {
    u64::try_from(group.len()).unwrap_or(u64::MAX)
}

/// Adds the contribution of each unit's kept rows of a group to the group's key. The groups of a
/// unit are in the order of the keyed hash, if that matters.
///
/// # Guarantee
/// A unit contributes only to groups that keep rows under [`EnforcedBounds::keep`], and to each of
/// them the result of [`InputKind::partial`] for the number of kept rows.
fn add_kept(
    sums: &mut [Vec<i128>],
    input: &AggregateInput,
    values: &BucketValues,
    units: &Units,
    names: &PartitionNames,
) -> Result<()> {
    let (kind, limits) = (&input.kind, input.effective_limits());
    let of_unit = |(code, rows)| {
        let kept = limits.keep(groups(rows), |group| group.len());
        kept.map(move |(group, kept)| (code, group, kept))
    };
    let mut kept = units.each().flat_map(of_unit);
    let point = |code, group| move || names.point(code, Some(place(group)));
    match kind {
        InputKind::CountRows { filter: None } => {
            kept.try_for_each(|(_, group, kept)| add(&mut sums[0][place(group)], kept.into()))
        }
        InputKind::CountUnits { filter: None } => {
            kept.try_for_each(|(_, group, _)| add(&mut sums[0][place(group)], 1))
        }
        InputKind::Sum { .. } => kept.try_for_each(|(code, group, kept)| {
            let sum = match kept < count(group) {
                false => values.sum(group)?,
                true => {
                    let tally = values.tally(group)?;
                    kind.partial(tally, count(group), kept, point(code, group))?[0]
                }
            };
            add(&mut sums[0][place(group)], sum)
        }),
        InputKind::Mean { lo, hi, .. } => kept.try_for_each(|(code, group, kept)| {
            let tally = values.tally(group)?;
            let mut parts = distances(tally, [*lo, *hi])?;
            let of = [count(group), tally.count];
            Share::new(kept, of, point(code, group))?.of_parts(&mut parts)?;
            let mut parts = parts.into_iter().zip(&mut *sums);
            parts.try_for_each(|(part, sums)| add(&mut sums[place(group)], part))
        }),
        InputKind::Products { pairs, .. } => kept.try_for_each(|(code, group, kept)| {
            let products = (0..pairs.products()).map(|which| values.product(group, pairs, which));
            let mut products = products.collect::<Result<Vec<i128>>>()?;
            if kept < count(group) {
                let of = [count(group), values.tally(group)?.count];
                Share::new(kept, of, point(code, group))?.of_parts(&mut products)?;
            }
            let mut products = products.into_iter().zip(&mut *sums);
            products.try_for_each(|(product, sums)| add(&mut sums[place(group)], product))
        }),
        InputKind::CountRows { .. }
        | InputKind::CountUnits { .. }
        | InputKind::CountValues { .. }
        | InputKind::Moments { .. }
        | InputKind::MeanPerUnit { .. }
        | InputKind::SumPerUnit { .. } => kept.try_for_each(|(code, group, kept)| {
            let tally = values.tally(group)?;
            let parts = kind.partial(tally, count(group), kept, point(code, group))?;
            let mut parts = parts.into_iter().zip(&mut *sums).filter(|(part, _)| *part != 0);
            parts.try_for_each(|(part, sums)| add(&mut sums[place(group)], part))
        }),
    }
}

/// Adds the contribution of one unit under each bound of a ladder. Its groups are in the order of
/// the keyed hash.
///
/// # Guarantee
/// The columns of the last bound change by the contribution that [`Rungs::under`] gives for it. The
/// columns of a smaller bound change by that contribution minus the one under the smaller bound.
/// The column of units beyond a bound changes by 1 at one key if the unit exceeds the bound, and
/// the column of all units if it contributes anything; otherwise both change by 0.
fn add_rungs(
    sums: &mut [Vec<i128>],
    (input, ladder): (&AggregateInput, &[u128]),
    (values, rows): (&BucketValues, &[u64]),
    rungs: &mut Rungs,
    point: impl Fn(Option<usize>) -> Result<u64>,
) -> Result<()> {
    let Some((last, smaller)) = ladder.split_last() else { return Err(failed()) };
    let (kind, by_rows) = (&input.kind, input.by_rows);
    rungs.fill(groups(rows).map(|group| {
        let tally = values.tally(group)?;
        let parts = kind.partial(tally, count(group), count(group), || Err(failed()))?;
        Own::new((kind, by_rows), place(group), parts, tally.count)
    }))?;
    let parts = kind.outputs();
    let change = |sums: &mut [Vec<i128>], key: usize, values: [i128; 3], sign: i128| {
        let mut columns = values.into_iter().zip(sums).filter(|(value, _)| *value != 0);
        columns.try_for_each(|(value, sums)| add(&mut sums[key], sign * value))
    };
    rungs.under((kind, by_rows), *last, &point, |key, values| {
        change(&mut sums[..parts], key, values, 1)
    })?;
    let beyond = |bound: &u128| rungs.is_beyond(*bound);
    for (j, bound) in smaller.iter().enumerate().take_while(|(_, bound)| beyond(bound)) {
        let cut = &mut sums[parts * (j + 1)..parts * (j + 2)];
        if beyond(last) {
            rungs
                .under((kind, by_rows), *last, &point, |key, values| change(cut, key, values, 1))?;
            rungs.under((kind, by_rows), *bound, &point, |key, values| {
                change(cut, key, values, -1)
            })?;
        } else {
            rungs
                .cut((kind, by_rows), *bound, &point, |key, values| change(cut, key, values, 1))?;
        }
    }
    // The last column counts the units that exceed 0, which are all units that contribute anything.
    let counted = sums.iter_mut().skip(parts * ladder.len()).zip(ladder.iter().chain([&0]));
    for (column, _) in counted.filter(|(_, bound)| beyond(bound)) {
        add(&mut column[place(rows)], 1)?;
    }
    Ok(())
}

impl PartitionNames {
    /// The point at which shares of a unit, or of its group with a key, are rounded up.
    ///
    /// # Guarantee
    /// It depends on the key of the query's hash, the unit's own value and the group's own key, and
    /// on nothing else.
    fn point(&self, code: u64, key: Option<usize>) -> Result<u64> {
        let hash = self.task.hash;
        let unit = self.units.hash(code, hash)?;
        let rank = match (key, &self.of_keys) {
            (None, _) => unit,
            (Some(key), Some(KeyNames { hashes, .. })) => {
                hash.named_rank(unit, *hashes.get(key).ok_or_else(failed)?)
            }
            (Some(key), None) => hash.rank(unit, u32::try_from(key).map_err(|_| failed())?),
        };
        Ok(hash.point(rank))
    }

    /// Sorts a unit's rows, so that those of a group are together and the groups are in the order
    /// of the keyed hash.
    ///
    /// # Guarantee
    /// The order depends on the key of the query's hash, the unit's own value and the groups' own
    /// keys, and on nothing else.
    fn order(&self, code: u64, rows: &mut [u64], counts: &mut KeyCounts) -> Result<()> {
        let hash = self.task.hash;
        let unit = self.units.hash(code, hash)?;
        match &self.of_keys {
            None => sort(rows, |key| hash.rank(unit, key), |key, other| key.cmp(&other), counts),
            Some(KeyNames { bytes, hashes }) => {
                // A place depends on which rows of other units came before, but the key itself does
                // not.
                let rank = |key: u32| hash.named_rank(unit, hashes[key as usize]);
                let name = |key: u32| bytes.row(key as usize);
                let by_name = |key, other| name(key).data().cmp(name(other).data());
                sort(rows, rank, by_name, counts);
            }
        }
        Ok(())
    }
}

/// Adds, unless 128 bits do not suffice.
pub(in crate::operator::bound_contributions) fn add(sum: &mut i128, part: i128) -> Result<()> {
    *sum = sum.checked_add(part).ok_or_else(failed)?;
    Ok(())
}
