//! Parts the rows of units that may exceed a bound from those of units that keep all their rows.
//!
//! In: the held batches of all partitions, whose rows are added up. Out: the rows of some units, to be bounded exactly, and
//! the totals of the others. Rows are counted by unit over all partitions: nearly all units are within their bounds. All rows
//! of a unit that may exceed one are taken away from the totals and collected. It guarantees that every row is added exactly
//! once, and that a unit that exceeds its bounds is never among those that are added column by column.
//!
//! A unit's order of groups matters only if it has more rows than M, or is in more than C groups. Otherwise m bounds each
//! of its groups by itself, so that a group within m is added by column even if another group of the unit is not.
//!
//! ```text
//! held ─ count ─▶ maybe beyond a bound ─┬ away from ▶ Columns ───┐
//!                                       └▶ Collector ─▶ Totals ──┴▶ sums
//! ```

use std::sync::Arc;

use datafusion::common::Result;

use super::collect::{Collector, Shape};
use super::columns::{Columns, is_sum_of_rows};
use super::crowded::{Crowded, RowCounts};
use super::hold::Held;
use super::keys::OUTSIDE;
use super::partial::EnforcedBounds;
use super::task::Task;
use super::together::{Names, Part};
use super::units::Collected;
use crate::grid::failed;

/// Bounds that all aggregates obey which are sums of rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Least {
    /// The most rows with which a unit obeys M and C, whatever its groups are.
    pub(super) of_unit: Option<u64>,
    /// m: the most rows of a unit in a group.
    pub(super) of_group: Option<u64>,
}

impl Least {
    /// The least bounds of the aggregates that are sums of rows, as far as `rows` rows of `keys` keys can exceed them.
    pub(super) fn new(task: &Task, keys: usize, rows: usize) -> Self {
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
        let enough = |most: &u64| usize::try_from(*most).is_ok_and(|most| most < rows);
        let of_unit = least.of_unit.filter(enough);
        let beside = |most: &u64| of_unit.is_none_or(|all| *most < all);
        Self { of_unit, of_group: least.of_group.filter(enough).filter(beside) }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Unit,
    UnitAndGroup,
}

/// Counts the rows of a batch.
pub(super) fn count(
    held: &Held,
    by: By,
    task: &Task,
    scratch: &mut Scratch,
    counts: &mut RowCounts,
) {
    let hash = task.hash;
    let (codes, places) = scratch.read(held);
    match (places, by) {
        (None, By::Unit) => codes.iter().for_each(|unit| counts.add(hash.scatter(*unit))),
        (None, By::UnitAndGroup) => {
            codes.iter().for_each(|unit| counts.add(hash.scatter_pair(*unit, 0)));
        }
        (Some(places), _) => {
            let counted = codes.iter().zip(places).filter(|(_, place)| **place != OUTSIDE);
            for (unit, place) in counted {
                counts.add(match by {
                    By::Unit => hash.scatter(*unit),
                    By::UnitAndGroup => hash.scatter_pair(*unit, *place),
                });
            }
        }
    }
}

/// The units and places of one batch.
#[derive(Default)]
pub(super) struct Scratch {
    codes: Vec<u64>,
    places: Vec<u32>,
}

impl Scratch {
    fn read(&mut self, held: &Held) -> (&[u64], Option<&[u32]>) {
        held.units.codes(&mut self.codes);
        let places = held.places.as_ref().map(|places| {
            places.read(&mut self.places);
            self.places.as_slice()
        });
        (&self.codes, places)
    }
}

/// Whether a row may belong to a unit that does not keep all rows.
#[derive(Default)]
pub(super) struct Suspects {
    pub(super) units: Option<Crowded>,
    pub(super) groups: Option<Crowded>,
}

impl Suspects {
    /// Whether most units are among them.
    pub(super) fn are_usual(&self) -> bool {
        self.units.as_ref().is_some_and(Crowded::is_usual)
    }

    /// The bytes in use.
    fn size(&self) -> usize {
        [&self.units, &self.groups].into_iter().flatten().map(Crowded::size).sum()
    }
}

/// Which aggregates take which way.
pub(super) struct Ways {
    suspects: Suspects,
    /// Those that are added by column; of these, the rows of suspects are collected.
    pub(super) beyond: Option<Arc<Shape>>,
    /// All others, for which all rows are collected.
    pub(super) bounded: Option<Arc<Shape>>,
    /// Whether anything is added by column.
    by_column: bool,
    /// The number of outputs of all aggregates.
    pub(super) outputs: usize,
}

impl Ways {
    pub(super) fn new(task: &Task, mut suspects: Suspects) -> Self {
        // Where most units are suspects, a closer look at the others does not pay off.
        let by_column = !suspects.are_usual() && task.inputs.iter().any(is_sum_of_rows);
        let (mut beyond, mut bounded) = (Vec::new(), Vec::new());
        let mut outputs = 0;
        for (i, input) in task.inputs.iter().enumerate() {
            match by_column && is_sum_of_rows(input) {
                true => beyond.push((i, outputs)),
                false => bounded.push((i, outputs)),
            }
            outputs += input.outputs();
        }
        suspects.units = suspects.units.filter(Crowded::any);
        suspects.groups = suspects.groups.filter(Crowded::any);
        let any = suspects.units.is_some() || suspects.groups.is_some();
        let beyond = Shape::new(task, beyond).filter(|_| any);
        Self { suspects, beyond, bounded: Shape::new(task, bounded), by_column, outputs }
    }
}

/// The third pass over one part: collects rows, and takes those away that were added too early.
pub(super) struct Split {
    names: Arc<Names>,
    ways: Arc<Ways>,
    part: Part,
    /// Rows of units that may exceed a bound, for the aggregates that are added by column otherwise.
    beyond: Option<Collector>,
    /// All rows, for all other aggregates.
    bounded: Option<Collector>,
    scratch: Scratch,
    rows: Vec<Collected>,
}

/// What was collected of one part, and what was added by column.
pub(super) struct Apart {
    pub(super) columns: Option<Columns>,
    pub(super) beyond: Option<Collector>,
    pub(super) bounded: Option<Collector>,
    /// Holds the memory of the collected rows.
    pub(super) part: Part,
}

impl Split {
    pub(super) fn new(names: Arc<Names>, ways: Arc<Ways>, mut part: Part) -> Self {
        let collector = |shape: &Option<Arc<Shape>>| {
            shape.as_ref().map(|shape| Collector::new(&names.task, shape))
        };
        part.columns = part.columns.filter(|_| ways.by_column);
        Self {
            beyond: collector(&ways.beyond),
            bounded: collector(&ways.bounded),
            names,
            ways,
            part,
            scratch: Scratch::default(),
            rows: Vec::new(),
        }
    }

    /// Processes one batch; false if none is left.
    pub(super) fn next_batch(&mut self) -> Result<bool> {
        if self.beyond.is_none() && self.bounded.is_none() {
            return Ok(false);
        }
        let Some(held) = self.part.held.pop() else { return Ok(false) };
        self.part.bytes = self.part.bytes.saturating_sub(held.bytes);
        let (codes, places) = self.scratch.read(&held);
        if let Some(bounded) = &mut self.bounded {
            self.rows.clear();
            collected(codes, places, &mut self.rows);
            bounded.push(&held.lanes, &self.rows)?;
        }
        let (Some(columns), Some(beyond)) = (&mut self.part.columns, &mut self.beyond) else {
            return Ok(true);
        };
        self.rows.clear();
        let (suspects, hash) = (&self.ways.suspects, self.names.task.hash);
        collected_if(codes, places, &mut self.rows, |unit, key| {
            let Suspects { units, groups } = suspects;
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
        self.part.bytes + collected + self.ways.suspects.size()
    }

    /// Reserves memory for what is in use.
    ///
    /// # Errors
    /// A constant text if there is not enough.
    pub(super) fn reserve(&self) -> Result<()> {
        self.part.reservation.try_resize(self.size()).map_err(|_| failed())
    }

    pub(super) fn finish(mut self) -> Apart {
        let columns = self.part.columns.take();
        Apart { columns, beyond: self.beyond, bounded: self.bounded, part: self.part }
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
