//! Separates the rows of units that may exceed a bound from those of units that keep all their
//! rows.
//!
//! In: the held batches of all partitions, whose rows are added up. Out: the rows of some units, to
//! be bounded exactly, and the totals of the others. Rows are counted by unit over all partitions,
//! and nearly all units are within their bounds. If a unit may exceed one, its rows are subtracted
//! from the totals and collected. It guarantees that every row is added exactly once, and that a
//! unit that exceeds its bounds is never among those that are added column by column.
//!
//! A unit's order of groups matters only if it has more rows than M, or is in more than C groups.
//! Otherwise m bounds each of its groups by itself, so that a group within m is added by column
//! even if another group of the unit is not.
//!
//! ```text
//! held ─ count ─▶ maybe beyond a bound ─┬ away from ▶ ColumnSums ┐
//!                                       └▶ Collector ─▶ Totals ──┴▶ sums
//! ```

use std::sync::Arc;

use datafusion::common::Result;

use super::partitioned_counting::Counting;
use super::row_count_filter::{Crowded, ends_as_share};
use crate::grid::failed;
use crate::operator::bound_contributions::columns::column_sums::{Away, is_sum_of_rows};
use crate::operator::bound_contributions::columns::held_batches::{HeldBatch, KeyPlaces};
use crate::operator::bound_contributions::exact::collect::{Collector, CollectorSize};
use crate::operator::bound_contributions::exact::keyed_order::{HashKey, Spread};
use crate::operator::bound_contributions::exact::merge_partitions::{
    HeldPartition, PartitionNames,
};
use crate::operator::bound_contributions::exact::rows_by_unit::Close;
use crate::operator::bound_contributions::exact::totals::CollectedShape;
use crate::operator::bound_contributions::exact::unit_contribution::EnforcedBounds;
use crate::operator::bound_contributions::keys::discovered_keys::OUTSIDE;
use crate::operator::bound_contributions::keys::unit_codes::HeldUnits;
use crate::operator::bound_contributions::task::BoundingTask;
use crate::operator::shelf::{Dealt, SpilledFile};

/// The least bounds of all aggregates that are sums of rows.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operator::bound_contributions) struct Least {
    /// The most rows with which a unit obeys M and C, whatever its groups are.
    pub(in crate::operator::bound_contributions) of_unit: Option<u64>,
    /// m: the most rows of a unit in a group.
    pub(in crate::operator::bound_contributions) of_group: Option<u64>,
}

impl Least {
    /// The least bounds of the aggregates that are sums of rows, without those that a unit cannot
    /// exceed with `rows` rows of `keys` keys.
    pub(in crate::operator::bound_contributions) fn new(
        task: &BoundingTask,
        keys: usize,
        rows: usize,
    ) -> Self {
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

/// The number of rows that are tested for the share at once. In most cases none belongs to it.
const TOGETHER: usize = 32;

/// How rows are counted, and by which numbers.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator::bound_contributions) enum By {
    /// By unit; consecutive units share few counters.
    Unit(HashKey),
    /// By unit; any two units share a counter equally often.
    ScatteredUnit(HashKey),
    UnitAndGroup(HashKey),
}

impl By {
    /// Counts the rows of a batch.
    pub(in crate::operator::bound_contributions) fn count(
        self,
        held: &HeldBatch,
        counts: &mut Counting,
    ) {
        // Each kind of number has its own loop.
        match self.numbers(counts.bits()) {
            CounterNumbers::Unit(mut spread) => {
                if let HeldUnits::Close { least, most, above } = &held.units
                    && let Some(added) = spread.added(*least, *most)
                {
                    let first = least.wrapping_add(added);
                    return match counts.is_of_a_share() {
                        true => count_share(first, above, held, counts),
                        false => count_from(first, above, held, counts),
                    };
                }
                held.each(|_, unit, _| counts.add(spread.of(unit)));
            }
            CounterNumbers::ScatteredUnit(hash) => {
                held.each(|_, unit, _| counts.add(hash.scatter(unit)))
            }
            CounterNumbers::UnitAndGroup(hash) => {
                held.each(|_, unit, key| counts.add(hash.scatter_pair(unit, key)));
            }
        }
    }

    /// The numbers by which rows are counted. Their last `bits` bits choose the counters.
    fn numbers(self, bits: u32) -> CounterNumbers {
        match self {
            Self::Unit(hash) => CounterNumbers::Unit(hash.spread(bits)),
            Self::ScatteredUnit(hash) => CounterNumbers::ScatteredUnit(hash),
            Self::UnitAndGroup(hash) => CounterNumbers::UnitAndGroup(hash),
        }
    }
}

/// Counts the rows that belong to the share. `above` holds the distance of each row's number from
/// the first one. Few rows belong to the share, so many are tested at once.
fn count_share(first: u64, above: &[u32], held: &HeldBatch, counts: &mut Counting) {
    #[expect(clippy::cast_possible_truncation, reason = "the last bits decide on the share")]
    let last_bits = first as u32;
    let is_of_share = |above: &&u32| ends_as_share(above.wrapping_add(last_bits));
    for (above, start) in above.chunks(TOGETHER).zip((0..).step_by(TOGETHER)) {
        if above.iter().map(|above| u32::from(is_of_share(&above))).sum::<u32>() > 0 {
            let rows = above.iter().zip(start..);
            let own = rows.filter(|(above, row)| is_of_share(above) && held.has_key(*row));
            own.for_each(|(above, _)| counts.add(first.wrapping_add(u64::from(*above))));
        }
    }
}

/// Counts the rows of a batch. The number of each is its unit's distance `above` the least unit,
/// plus `first`.
fn count_from(first: u64, above: &[u32], held: &HeldBatch, counts: &mut Counting) {
    let number = |above: &u32| first.wrapping_add(u64::from(*above));
    match &held.places {
        None => counts.add_each(above.iter().map(number)),
        Some(KeyPlaces::Byte(places)) => {
            let rows = above.iter().zip(places).filter(|(_, place)| **place != u8::MAX);
            counts.add_each(rows.map(|(above, _)| number(above)));
        }
        Some(KeyPlaces::Short(places)) => {
            let rows = above.iter().zip(places).filter(|(_, place)| **place != u16::MAX);
            counts.add_each(rows.map(|(above, _)| number(above)));
        }
        Some(KeyPlaces::Wide(places)) => {
            let rows = above.iter().zip(places).filter(|(_, place)| **place != OUTSIDE);
            counts.add_each(rows.map(|(above, _)| number(above)));
        }
    }
}

/// Replaces `rows` by the rows of a batch that count and whose number is in the set. Numbers are
/// made as in [`count_from`].
fn find_from(first: u64, above: &[u32], (held, set): (&HeldBatch, &Crowded), rows: &mut Vec<u32>) {
    let numbers = above.iter().map(|above| first.wrapping_add(u64::from(*above)));
    match &held.places {
        None => set.find(numbers.map(|number| (number, true)), rows),
        Some(KeyPlaces::Byte(places)) => {
            set.find(numbers.zip(places.iter().map(|place| *place != u8::MAX)), rows);
        }
        Some(KeyPlaces::Short(places)) => {
            set.find(numbers.zip(places.iter().map(|place| *place != u16::MAX)), rows);
        }
        Some(KeyPlaces::Wide(places)) => {
            set.find(numbers.zip(places.iter().map(|place| *place != OUTSIDE)), rows);
        }
    }
}

/// See [`By`].
enum CounterNumbers {
    Unit(Spread),
    ScatteredUnit(HashKey),
    UnitAndGroup(HashKey),
}

impl CounterNumbers {
    /// The number by which rows of a unit and a key are counted.
    fn of(&mut self, unit: u64, key: u32) -> u64 {
        match self {
            Self::Unit(spread) => spread.of(unit),
            Self::ScatteredUnit(hash) => hash.scatter(unit),
            Self::UnitAndGroup(hash) => hash.scatter_pair(unit, key),
        }
    }
}

/// The units that may lose rows.
#[derive(Default)]
pub(in crate::operator::bound_contributions) struct Suspects {
    pub(in crate::operator::bound_contributions) units: Option<(By, Crowded)>,
    pub(in crate::operator::bound_contributions) groups: Option<(By, Crowded)>,
}

impl Suspects {
    /// Whether most units are suspects.
    pub(in crate::operator::bound_contributions) fn are_usual(&self) -> bool {
        self.units.as_ref().is_some_and(|(_, units)| units.is_usual())
    }

    /// Prepares looking up rows.
    fn look(&self) -> Look<'_> {
        let sets = [&self.units, &self.groups].map(|set| {
            let (by, set) = set.as_ref()?;
            Some((by.numbers(set.bits()), set))
        });
        Look(sets)
    }

    /// Replaces `rows` by the rows of a batch that count and may be dropped.
    fn find(&self, held: &HeldBatch, rows: &mut Vec<u32>) {
        if let (Some((By::Unit(hash), set)), None) = (&self.units, &self.groups)
            && let HeldUnits::Close { least, most, above } = &held.units
            && let Some(added) = hash.spread(set.bits()).added(*least, *most)
        {
            return find_from(least.wrapping_add(added), above, (held, set), rows);
        }
        let mut suspects = self.look();
        rows.clear();
        held.each(|row, unit, key| {
            if suspects.has(unit, key) {
                rows.push(row);
            }
        });
    }

    /// An upper bound of the number of suspect rows among `rows` rows.
    fn rows(&self, rows: usize) -> usize {
        let sets = [&self.units, &self.groups].into_iter().flatten();
        let own = sets.map(|(_, set)| usize::try_from(set.rows()?).ok()).sum::<Option<usize>>();
        own.map_or(rows, |own| own.min(rows))
    }

    /// The bytes in use.
    fn size(&self) -> usize {
        [&self.units, &self.groups].into_iter().flatten().map(|(_, set)| set.size()).sum()
    }
}

/// Looks rows up among suspects.
struct Look<'a>([Option<(CounterNumbers, &'a Crowded)>; 2]);

impl Look<'_> {
    /// Whether the row of a unit and a key may be dropped.
    fn has(&mut self, unit: u64, key: u32) -> bool {
        let mut sets = self.0.iter_mut().flatten();
        sets.any(|(numbers, set)| set.has(numbers.of(unit, key)))
    }
}

/// Which aggregates are added up by column, and which unit by unit.
pub(in crate::operator::bound_contributions) struct Ways {
    suspects: Suspects,
    /// Aggregates that are added up by column; only the rows of suspects are collected for them.
    pub(in crate::operator::bound_contributions) beyond: Option<Arc<CollectedShape>>,
    /// All other aggregates; all rows are collected for them.
    pub(in crate::operator::bound_contributions) bounded: Option<Arc<CollectedShape>>,
    /// Whether any aggregate is added up by column.
    pub(in crate::operator::bound_contributions) by_column: bool,
    /// The number of outputs of all aggregates.
    pub(in crate::operator::bound_contributions) outputs: usize,
    /// See
    /// [`close_units`](crate::operator::bound_contributions::exact::merge_partitions::close_units).
    close: Option<Close>,
}

impl Ways {
    /// The most bytes that collecting takes, for `rows` rows.
    pub(in crate::operator::bound_contributions) fn collected(
        &self,
        task: &BoundingTask,
        rows: usize,
    ) -> usize {
        let suspects = self.suspects.rows(rows);
        let sizes = [(&self.beyond, suspects), (&self.bounded, rows)].map(|(shape, rows)| {
            let of_row = shape.as_ref().map_or(0, |shape| Collector::of_row(task, shape));
            rows.saturating_mul(of_row)
        });
        sizes.into_iter().fold(0, usize::saturating_add)
    }

    pub(in crate::operator::bound_contributions) fn new(
        task: &BoundingTask,
        mut suspects: Suspects,
        close: Option<Close>,
    ) -> Self {
        // If most units are suspects, adding the others by column does not pay off.
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
        let any = |(_, set): &(By, Crowded)| set.any();
        suspects.units = suspects.units.filter(any);
        suspects.groups = suspects.groups.filter(any);
        let any = suspects.units.is_some() || suspects.groups.is_some();
        let beyond = CollectedShape::new(task, beyond).filter(|_| any);
        let bounded = CollectedShape::new(task, bounded);
        Self { suspects, beyond, bounded, by_column, outputs, close }
    }
}

/// The third pass over one part: collects rows, and subtracts those that were added too early.
pub(in crate::operator::bound_contributions) struct Split {
    names: Arc<PartitionNames>,
    ways: Arc<Ways>,
    part: HeldPartition,
    /// Rows of suspects, for the aggregates that are otherwise added up by column.
    beyond: Option<Collector>,
    /// All rows, for all other aggregates.
    bounded: Option<Collector>,
    found: Vec<u32>,
    away: Vec<Away>,
}

/// The rows that were collected from one part.
pub(in crate::operator::bound_contributions) struct CollectedPart {
    pub(in crate::operator::bound_contributions) beyond: Option<Collector>,
    pub(in crate::operator::bound_contributions) bounded: Option<Collector>,
    /// Holds the memory of the collected rows.
    pub(in crate::operator::bound_contributions) part: HeldPartition,
}

impl Split {
    pub(in crate::operator::bound_contributions) fn new(
        names: Arc<PartitionNames>,
        ways: Arc<Ways>,
        mut part: HeldPartition,
    ) -> Self {
        // The hash of the unit deals rows to files. If buckets followed the same hash, only few
        // buckets would have rows in a turn.
        let in_turns = part.dealt.is_some();
        let close = ways.close.filter(|_| !in_turns);
        let collector = |shape: &Option<Arc<CollectedShape>>, rows: usize| {
            let known = CollectorSize { rows, keys: names.keys.len, close, in_turns };
            shape.as_ref().map(|shape| Collector::new(&names.task, shape, known))
        };
        part.columns = part.columns.filter(|_| ways.by_column);
        Self {
            beyond: collector(&ways.beyond, ways.suspects.rows(part.rows)),
            bounded: collector(&ways.bounded, part.rows),
            names,
            ways,
            part,
            found: Vec::new(),
            away: Vec::new(),
        }
    }

    /// Deals the rows that are bounded one by one to files, one file for each turn.
    ///
    /// # Errors
    /// An error with a constant text without a folder for files, or if one cannot be written or
    /// read.
    pub(in crate::operator::bound_contributions) async fn deal(
        mut self,
        turns: usize,
    ) -> Result<HeldPartition> {
        let mut dealt = self.part.shelf.deal(turns)?;
        while let Some(held) = self.next_held()? {
            self.deal_one(held, &mut dealt)?;
            tokio::task::yield_now().await;
        }
        for mut file in self.part.shelf.written()? {
            while let Some(held) = self.part.read(&mut file, &self.names).await? {
                self.deal_one(held, &mut dealt)?;
            }
        }
        self.part.dealt = Some(dealt.close()?);
        Ok(self.part)
    }

    fn deal_one(&self, held: HeldBatch, dealt: &mut Dealt) -> Result<()> {
        let hash = self.names.task.hash;
        let mut buckets = vec![None; held.rows];
        let mut suspects = self.ways.suspects.look();
        held.each(|row, unit, key| {
            if self.ways.bounded.is_some() || suspects.has(unit, key) {
                let [bucket, ..] = hash.scatter(unit).to_be_bytes();
                buckets[row as usize] = Some(bucket);
            }
        });
        dealt.push(&held.pack(&self.names.task.sources)?, buckets.into_iter())
    }

    /// The next batch in memory, which is then freed.
    fn next_held(&mut self) -> Result<Option<HeldBatch>> {
        let held = self.part.shelf.held.pop();
        let freed = held.as_ref().map_or(0, |held| held.bytes);
        self.part.bytes = self.part.bytes.saturating_sub(freed);
        self.reserve()?;
        Ok(held)
    }

    /// Collects the rows of the part, or those of one turn. A query that is dropped stops between
    /// two batches.
    ///
    /// # Errors
    /// An error with a constant text if there is too little memory, or a file cannot be read.
    pub(in crate::operator::bound_contributions) async fn run(
        mut self,
        turn: usize,
    ) -> Result<CollectedPart> {
        if self.beyond.is_some() || self.bounded.is_some() {
            let files = match &self.part.dealt {
                Some(files) => {
                    let file = files.get(turn).ok_or_else(failed)?;
                    vec![SpilledFile::new(file.as_ref(), false)?]
                }
                None => self.part.shelf.written()?,
            };
            while let Some(held) = self.next_held()? {
                self.take(&held)?;
                tokio::task::yield_now().await;
            }
            for mut file in files {
                while let Some(held) = self.part.read(&mut file, &self.names).await? {
                    self.take(&held)?;
                    self.reserve()?;
                }
            }
            self.reserve()?;
        }
        Ok(CollectedPart { beyond: self.beyond, bounded: self.bounded, part: self.part })
    }

    /// Processes one batch.
    fn take(&mut self, held: &HeldBatch) -> Result<()> {
        if let Some(bounded) = &mut self.bounded {
            bounded.add(held, None)?;
        }
        let (Some(columns), Some(beyond)) = (&mut self.part.columns, &mut self.beyond) else {
            return Ok(());
        };
        let (found, away) = (&mut self.found, &mut self.away);
        self.ways.suspects.find(held, found);
        beyond.add(held, Some(found))?;
        away.clear();
        held.each_in(Some(found), |row, _, key| away.push(Away { row, key }));
        columns.remove(&held.lanes, away)
    }

    /// The bytes in use.
    fn size(&self) -> usize {
        let collectors = [&self.beyond, &self.bounded].into_iter().flatten();
        let collected: usize = collectors.map(Collector::size).sum();
        self.part.bytes + collected + self.ways.suspects.size()
    }

    /// Reserves memory for what is in use.
    ///
    /// # Errors
    /// An error with a constant text if there is not enough.
    fn reserve(&self) -> Result<()> {
        self.part.reservation.try_resize(self.size()).map_err(|_| failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::bound_contributions::screen::row_count_filter::RowCounts;

    /// Counting the rows of a share together gives the same counts as row by row. Rows without a
    /// listed key are not counted.
    #[test]
    fn a_share_is_counted_together() {
        let hash = HashKey::new([3, 5, 7, 11]);
        let share = RowCounts::new(1, 100_000, usize::MAX).of_a_share().unwrap();
        let empty = || Counting::new(share.emptied(), |_| Ok(())).unwrap();
        assert!(empty().is_of_a_share());
        let span = 100_000;
        let (mut together, mut state) = (0, 17_u64);
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from((state >> 33) % below).unwrap()
        };
        for (turn, least) in
            [0, 1, 1 << 40, (1 << 50) - 1_000, u64::MAX - 2 * span].into_iter().enumerate()
        {
            for rows in [0, 1, 31, 32, 33, 40_000] {
                let above: Vec<u32> = (0..rows).map(|_| next(span)).collect();
                let places: Vec<u32> =
                    (0..rows).map(|_| if next(3) == 0 { OUTSIDE } else { next(200) }).collect();
                let places = [None, Some(200), Some(2_000), Some(200_000)][turn % 4]
                    .map(|keys| KeyPlaces::new(&places, keys));
                let (most, lanes) = (least + span - 1, Vec::new());
                let units = HeldUnits::Close { least, most, above };
                let held = HeldBatch { units, places, lanes, rows, bytes: 0 };
                let (mut own, mut one_by_one) = (empty(), empty());
                let mut spread = hash.spread(own.bits());
                held.each(|_, unit, _| one_by_one.add(spread.of(unit)));
                By::Unit(hash).count(&held, &mut own);
                let (own, one_by_one) = (own.finish(), one_by_one.finish());
                assert_eq!(own, one_by_one, "{least} {rows}");
                let is_together = hash.spread(share.bits()).added(least, most).is_some();
                together += usize::from(is_together && own != share);
            }
        }
        assert!(together > 3, "{together}");
    }

    /// For random batches, whatever form their units and places have: the counts are those of
    /// counting row by row, the suspects those of looking up row by row, and what is collected of
    /// them those rows with their own units and keys.
    #[test]
    fn rows_are_counted_and_found_together() {
        let mut state = 23_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut found, mut spared, mut outside) = (0, 0, 0);
        for turn in 0..400_usize {
            let hash = HashKey::new([next(1 << 31), 5, 7, next(1 << 31)]);
            let (rows, most) = ([0, 1, 31, 700][turn % 4], [1, 3, 20, 300][turn / 4 % 4]);
            let span = [1, 60, 900, 1 << 20][turn / 16 % 4];
            let least = [0, 77, (1 << 10) - 3, 1 << 40, u64::MAX - (1 << 21)][turn % 5];
            let keys = [1, 200, 2_000, 200_000][turn / 7 % 4];
            let units: Vec<u64> = (0..rows).map(|_| least + next(span).min(next(span))).collect();
            let places: Vec<u32> = (0..rows)
                .map(|_| if next(4) == 0 { OUTSIDE } else { u32::try_from(next(keys)).unwrap() })
                .collect();
            let places =
                (turn % 3 > 0).then(|| KeyPlaces::new(&places, usize::try_from(keys).unwrap()));
            let units = match turn % 7 {
                0 => HeldUnits::Codes(units),
                _ => HeldUnits::new(units.into_iter()),
            };
            let held = HeldBatch { units, places, lanes: Vec::new(), rows, bytes: 0 };
            let by = match turn % 6 {
                0 => By::ScatteredUnit(hash),
                1 => By::UnitAndGroup(hash),
                _ => By::Unit(hash),
            };
            let empty = RowCounts::new(most, 1_000, usize::MAX);
            let mut one_by_one = empty.emptied();
            let mut numbers = by.numbers(empty.bits());
            held.each(|_, unit, key| one_by_one.add_all(&[numbers.of(unit, key)]));
            let mut counts = Counting::new(empty, |_| Ok(())).unwrap();
            by.count(&held, &mut counts);
            let counts = counts.finish();
            assert_eq!(counts, one_by_one, "{turn}");
            let set = Some((by, counts.finish()));
            let suspects = match by {
                By::UnitAndGroup(_) => Suspects { units: None, groups: set },
                By::Unit(_) | By::ScatteredUnit(_) => Suspects { units: set, groups: None },
            };
            let mut rows = vec![7; turn % 50];
            suspects.find(&held, &mut rows);
            let (mut look, mut expected) = (suspects.look(), Vec::new());
            held.each(|row, unit, key| match look.has(unit, key) {
                true => expected.push((row, unit, key)),
                false => spared += 1,
            });
            let mut own = Vec::new();
            held.each_in(Some(&rows), |row, unit, key| own.push((row, unit, key)));
            assert_eq!(own, expected, "{turn}");
            found += own.len();
            outside += (0..held.rows).filter(|row| !held.has_key(*row)).count();
        }
        assert!(found > 5_000 && spared > 5_000 && outside > 5_000, "{found} {spared} {outside}");
    }
}
