//! Parts the rows of units that may exceed a bound from those of units that keep all their rows.
//!
//! In: the held batches of one partition, whose rows are added up. Out: the totals of every output for every key. It assumes
//! that all rows of a unit are in this partition. Rows are counted by unit: nearly all units are within their bounds. All
//! rows of a unit that may exceed one are taken away from the totals, collected, and bounded exactly. It guarantees that
//! every row is added exactly once, and that a unit that exceeds its bounds is never among those that are added column by
//! column.
//!
//! A unit's order of groups matters only if it has more rows than M, or is in more than C groups. Otherwise m bounds each
//! of its groups by itself, so that a group within m is added by column even if another group of the unit is not.
//!
//! ```text
//! held ─ count ─▶ maybe beyond a bound ─┬ away from ▶ Columns ───┐
//!                                       └▶ Collector ─▶ Totals ──┴▶ sums
//! ```

use datafusion::common::Result;

use super::collect::{Collector, Totals};
use super::columns::{Columns, is_sum_of_rows};
use super::crowded::{Crowded, RowCounts};
use super::hold::{Held, Holder};
use super::keys::{Located, OUTSIDE};
use super::partial::{AggregateInput, EnforcedBounds};
use super::task::Task;
use super::units::{Collected, UnitNames};
use crate::grid::failed;

/// Bounds that all aggregates obey which are sums of rows.
#[derive(Debug, Clone, Copy, Default)]
struct Least {
    /// The most rows with which a unit obeys M and C, whatever its groups are.
    of_unit: Option<u64>,
    /// m: the most rows of a unit in a group.
    of_group: Option<u64>,
}

impl Least {
    /// The least bounds of the aggregates that are sums of rows, with `keys` keys.
    fn of(task: &Task, keys: usize) -> Self {
        let mut least = Self::default();
        let lower = |least: &mut Option<u64>, most: u64| {
            *least = Some(least.map_or(most, |least| least.min(most)));
        };
        for input in task.inputs.iter().filter(|input| is_sum_of_rows(input)) {
            let EnforcedBounds { total, per_partition, l0 } = input.limits;
            // No unit is in more groups than there are keys.
            let groups = l0.filter(|most| u64::try_from(keys).is_ok_and(|keys| keys > *most));
            [total, groups].into_iter().flatten().for_each(|most| lower(&mut least.of_unit, most));
            per_partition.into_iter().for_each(|most| lower(&mut least.of_group, most));
        }
        least
    }
}

/// Whether a row may belong to a unit that does not keep all rows.
#[derive(Default)]
struct Suspects {
    all: bool,
    units: Option<Crowded>,
    groups: Option<Crowded>,
}

/// The second pass: counts the rows of each unit, and of each unit and group.
pub(super) struct Counting<'a> {
    task: &'a Task,
    names: UnitNames,
    keys: Located,
    held: Vec<Held>,
    columns: Option<Columns>,
    rows: usize,
    bytes: usize,
    least: Least,
    counts: Option<RowCounts>,
    next: usize,
    suspects: Suspects,
    scratch: Vec<u64>,
}

impl<'a> Counting<'a> {
    pub(super) fn new(holder: Holder<'a>) -> Result<Self> {
        let bytes = holder.size();
        let Holder { task, index, codes, held, columns, .. } = holder;
        let keys = index.finish()?;
        let bounded = task.inputs.iter().any(AggregateInput::is_bounded);
        let names = codes.finish(bounded)?;
        let rows = held.iter().map(|held| held.rows).sum();
        let mut least = Least::of(task, keys.len);
        // A partition within a bound has no unit beyond it.
        let enough = |most: &u64| usize::try_from(*most).is_ok_and(|most| most < rows);
        least.of_unit = least.of_unit.filter(enough);
        least.of_group =
            least.of_group.filter(enough).filter(|m| least.of_unit.is_none_or(|all| *m < all));
        let counts = least.of_unit.or(least.of_group).map(|most| RowCounts::new(most, rows));
        Ok(Self {
            task,
            names,
            keys,
            held,
            columns,
            rows,
            bytes,
            least,
            counts,
            next: 0,
            suspects: Suspects::default(),
            scratch: Vec::new(),
        })
    }

    /// Counts one batch; false if none is left.
    pub(super) fn next_batch(&mut self) -> Result<bool> {
        let Some(counts) = &mut self.counts else { return Ok(false) };
        let by_unit = self.least.of_unit.is_some() && self.suspects.units.is_none();
        if let Some(held) = self.held.get(self.next) {
            self.next += 1;
            held.units.codes(&mut self.scratch)?;
            let hash = self.task.hash;
            match (&held.places, by_unit) {
                (None, true) => {
                    self.scratch.iter().for_each(|unit| counts.add(hash.scatter(*unit)))
                }
                (None, false) => {
                    self.scratch.iter().for_each(|unit| counts.add(hash.scatter_pair(*unit, 0)));
                }
                (Some(places), _) => {
                    let counted = self.scratch.iter().zip(places);
                    for (unit, place) in counted.filter(|(_, place)| **place != OUTSIDE) {
                        counts.add(match by_unit {
                            true => hash.scatter(*unit),
                            false => hash.scatter_pair(*unit, *place),
                        });
                    }
                }
            }
            return Ok(true);
        }
        let crowded = self.counts.take().ok_or_else(failed)?.finish();
        if !by_unit {
            self.suspects.groups = Some(crowded);
            return Ok(false);
        }
        self.suspects.all = crowded.is_usual();
        self.suspects.units = Some(crowded);
        let Some(most) = self.least.of_group.filter(|_| !self.suspects.all) else {
            return Ok(false);
        };
        self.counts = Some(RowCounts::new(most, self.rows));
        self.next = 0;
        Ok(true)
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.counts.as_ref().map_or(0, RowCounts::size)
    }

    /// Starts the third pass.
    pub(super) fn split(self) -> Split<'a> {
        let Self { task, names, keys, held, columns, bytes, mut suspects, scratch, .. } = self;
        let columns = columns.filter(|_| !suspects.all);
        let (mut by_column, mut bounded) = (Vec::new(), Vec::new());
        let mut first = 0;
        for (i, input) in task.inputs.iter().enumerate() {
            match is_sum_of_rows(input) && columns.is_some() {
                true => by_column.push((i, first)),
                false => bounded.push((i, first)),
            }
            first += input.outputs();
        }
        suspects.units = suspects.units.filter(Crowded::any);
        suspects.groups = suspects.groups.filter(Crowded::any);
        let any = suspects.units.is_some() || suspects.groups.is_some();
        let collector = |inputs: Vec<(usize, usize)>| {
            (!inputs.is_empty()).then(|| Collector::new(task, inputs))
        };
        Split {
            sums: vec![vec![0; keys.len]; first],
            task,
            names,
            keys,
            held,
            bytes,
            columns,
            beyond: collector(by_column).filter(|_| any),
            bounded: collector(bounded),
            suspects,
            scratch,
            rows: Vec::new(),
        }
    }
}

/// The third pass: collects rows, and takes those away that were added too early.
pub(super) struct Split<'a> {
    task: &'a Task,
    names: UnitNames,
    keys: Located,
    held: Vec<Held>,
    bytes: usize,
    columns: Option<Columns>,
    /// Rows of units that may exceed a bound, for the aggregates that are added by column otherwise.
    beyond: Option<Collector<'a>>,
    /// All rows, for all other aggregates.
    bounded: Option<Collector<'a>>,
    suspects: Suspects,
    sums: Vec<Vec<i128>>,
    scratch: Vec<u64>,
    rows: Vec<Collected>,
}

impl<'a> Split<'a> {
    /// Processes one batch; false if none is left.
    pub(super) fn next_batch(&mut self) -> Result<bool> {
        if self.beyond.is_none() && self.bounded.is_none() {
            return Ok(false);
        }
        let Some(held) = self.held.pop() else { return Ok(false) };
        self.bytes = self.bytes.saturating_sub(held.bytes);
        held.units.codes(&mut self.scratch)?;
        if let Some(bounded) = &mut self.bounded {
            self.rows.clear();
            collected(&self.scratch, held.places.as_deref(), &mut self.rows);
            bounded.push(&held.lanes, &self.rows)?;
        }
        let (Some(columns), Some(beyond)) = (&mut self.columns, &mut self.beyond) else {
            return Ok(true);
        };
        self.rows.clear();
        let (suspects, hash) = (&self.suspects, self.task.hash);
        collected_if(&self.scratch, held.places.as_deref(), &mut self.rows, |unit, key| {
            let Suspects { units, groups, .. } = suspects;
            units.as_ref().is_some_and(|units| units.has(hash.scatter(unit)))
                || groups.as_ref().is_some_and(|groups| groups.has(hash.scatter_pair(unit, key)))
        });
        columns.remove(&held.lanes, &self.rows)?;
        beyond.push(&held.lanes, &self.rows)?;
        Ok(true)
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        let collectors = [&self.beyond, &self.bounded].into_iter().flatten();
        let collected: usize = collectors.map(Collector::size).sum();
        let crowded = [&self.suspects.units, &self.suspects.groups].into_iter().flatten();
        let crowded: usize = crowded.map(Crowded::size).sum();
        self.bytes + collected + crowded
    }

    /// Starts the last pass: bounds unit by unit.
    pub(super) fn totals(mut self) -> Result<Totals<'a>> {
        if let Some(columns) = self.columns.take() {
            columns.add_to(self.task, &mut self.sums)?;
        }
        let collectors = [self.beyond, self.bounded].into_iter().flatten().collect();
        Ok(Totals::new(self.task, self.names, self.keys, self.sums, collectors))
    }
}

/// The rows that count.
fn collected(units: &[u64], places: Option<&[u32]>, rows: &mut Vec<Collected>) {
    collected_if(units, places, rows, |_, _| true);
}

/// The rows that count and that `wanted` wants.
fn collected_if(
    units: &[u64],
    places: Option<&[u32]>,
    rows: &mut Vec<Collected>,
    wanted: impl Fn(u64, u32) -> bool,
) {
    let mut add = |row: u32, unit: u64, key: u32| {
        if wanted(unit, key) {
            rows.push(Collected { row, unit, key });
        }
    };
    match places {
        None => (0..).zip(units).for_each(|(row, unit)| add(row, *unit, 0)),
        Some(places) => {
            for ((row, unit), key) in (0..).zip(units).zip(places) {
                if *key != OUTSIDE {
                    add(row, *unit, *key);
                }
            }
        }
    }
}
