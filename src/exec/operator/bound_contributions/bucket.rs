//! The rows of some units, as they wait to be bounded, and side by side once all have arrived.
//!
//! In: the unit and the key of each row, in any order, and its values. Out: all rows of a bucket, which fit the processor's cache.
//! Many more rows wait than are bounded at a time: where all units are numbers that are close to each other, a row takes 8 bytes.
//!
//! ```text
//! waiting   part 0: (7, Rome), (9, Bonn)   part 1: (7, Bonn)
//! filled    (9, Bonn, 1), (7, Bonn, 2), (7, Rome, 0)          by key, each with the place of its values
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::expected::push_expected;
use super::payload::Kept;
use super::task::Task;
use super::units::Row;
use crate::grid::failed;

/// The most keys by which rows are sorted at once: a counter of each stays in the cache. Fewer in unit tests, so that small tables
/// take both ways.
const MOST_SORTED: usize = if cfg!(test) { 4 } else { 1 << 12 };

/// The most bytes of a row that waits.
pub(super) const OF_A_ROW: usize = size_of::<[u32; 3]>();

/// The unit and the key of rows.
pub(super) enum Waiting {
    /// Of each unit, what it is above the least one.
    Close { least: u64, rows: Vec<[u32; 2]> },
    /// Both halves of each unit.
    Wide(Vec<[u32; 3]>),
}

impl Waiting {
    /// Without rows; `least` if each unit is less than 2³² above it.
    pub(super) fn new(least: Option<u64>) -> Self {
        match least {
            Some(least) => Self::Close { least, rows: Vec::new() },
            None => Self::Wide(Vec::new()),
        }
    }

    /// Adds a row to about so many. False if its unit is not close to the least one: what was added is of no use then.
    pub(super) fn push(&mut self, unit: u64, key: u32, expected: usize) -> bool {
        match self {
            Self::Close { least, rows } => {
                let above = unit.checked_sub(*least).and_then(|above| u32::try_from(above).ok());
                push_expected(rows, [above.unwrap_or(u32::MAX), key], expected);
                above.is_some()
            }
            Self::Wide(rows) => {
                let [high, low] = halves(unit);
                push_expected(rows, [high, low, key], expected);
                true
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Close { rows, .. } => rows.len(),
            Self::Wide(rows) => rows.len(),
        }
    }

    /// The bytes in use, or more: one unit far from all others decides what a row takes, and must not decide whether there is memory
    /// for all of them.
    pub(super) fn size(&self) -> usize {
        let rows = match self {
            Self::Close { rows, .. } => rows.capacity(),
            Self::Wide(rows) => rows.capacity(),
        };
        rows * OF_A_ROW
    }

    /// Visits the unit and the key of each row.
    fn each(&self, mut visit: impl FnMut(u64, u32)) {
        match self {
            Self::Close { least, rows } => {
                rows.iter().for_each(|[unit, key]| visit(least + u64::from(*unit), *key));
            }
            Self::Wide(rows) => rows.iter().for_each(|[high, low, key]| {
                visit(u64::from(*high) << 32 | u64::from(*low), *key);
            }),
        }
    }
}

/// The upper and the lower half of a unit.
#[expect(clippy::cast_possible_truncation, reason = "each half fits")]
fn halves(unit: u64) -> [u32; 2] {
    [(unit >> 32) as u32, unit as u32]
}

/// What one part collected in a bucket, with the values of each source that is read.
pub(super) struct Waited {
    pub(super) rows: Waiting,
    pub(super) kept: Vec<Option<Kept>>,
}

impl Waited {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }
}

/// All rows of a bucket.
#[derive(Default)]
pub(super) struct Bucket {
    pub(super) rows: Vec<Row>,
    /// Whether no row has a smaller key than the row before.
    pub(super) by_key: bool,
    kept: Vec<Option<Kept>>,
    ends: Vec<usize>,
}

impl Bucket {
    /// Replaces its rows by what several parts collected in the same bucket, of so many keys. The memory of its rows is used again.
    ///
    /// # Errors
    /// A constant text for 2³² rows, and for the values of other sources.
    pub(super) fn fill(&mut self, parts: Vec<Waited>, keys: usize) -> Result<()> {
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        u32::try_from(rows).map_err(|_| failed())?;
        self.by_key = keys <= MOST_SORTED;
        // Where the rows of each key begin, and then where its next row goes.
        self.ends.clear();
        self.ends.resize(if self.by_key { keys } else { 0 }, 0);
        if self.by_key {
            parts.iter().for_each(|part| part.rows.each(|_, key| self.ends[key as usize] += 1));
            let mut end = 0;
            for count in &mut self.ends {
                (*count, end) = (end, end + *count);
            }
        }
        self.rows.clear();
        self.rows.resize(rows, Row { unit: 0, key: 0, place: 0 });
        let mut place = 0;
        for part in &parts {
            part.rows.each(|unit, key| {
                let own = Row { unit, key, place };
                match self.ends.get_mut(key as usize) {
                    Some(end) => {
                        self.rows[*end] = own;
                        *end += 1;
                    }
                    None => self.rows[place as usize] = own,
                }
                place += 1;
            });
        }
        self.kept.clear();
        for part in parts {
            if self.kept.is_empty() {
                self.kept = part.kept;
                continue;
            }
            for (own, other) in self.kept.iter_mut().zip(part.kept) {
                if let (Some(own), Some(other)) = (own, other) {
                    own.append(other)?;
                }
            }
        }
        Ok(())
    }

    /// What was kept of the rows for an aggregate.
    pub(super) fn kept(&self, task: &Task, input: usize) -> Result<&Kept> {
        let at = task.sources.of.get(input).ok_or_else(failed)?;
        self.kept.get(*at).and_then(Option::as_ref).ok_or_else(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of several parts are there once each, with the places of their values, however units are kept.
    #[test]
    fn rows_of_all_parts_are_side_by_side() {
        let far = [0, 1 << 32, (1 << 32) + 7, 7, u64::MAX, 1 << 63];
        let close = [5, 5 + u64::from(u32::MAX), 6, 77, 5, 1 << 31];
        for (least, units) in [(None, far), (None, close), (Some(5), close)] {
            for keys in [1, 3, 9] {
                let of = |at: usize| (units[at * 5 % 6], u32::try_from(at * 7 % keys).unwrap());
                let part = |rows: std::ops::Range<usize>| {
                    let mut waiting = Waiting::new(least);
                    rows.map(of).for_each(|(unit, key)| assert!(waiting.push(unit, key, 4)));
                    assert!(waiting.size() >= waiting.len() * 12);
                    Waited { rows: waiting, kept: Vec::new() }
                };
                let mut bucket = Bucket::default();
                for (from, to) in [(0, 40), (0, 17)] {
                    bucket.fill(vec![part(from..11), part(11..11), part(11..to)], keys).unwrap();
                    assert_eq!(bucket.by_key, keys < 4);
                    let keys: Vec<u32> = bucket.rows.iter().map(|row| row.key).collect();
                    assert!(!bucket.by_key || keys.is_sorted());
                    let mut rows = bucket.rows.clone();
                    rows.sort_unstable_by_key(|row| row.place);
                    let found = rows.iter().map(|row| (row.place as usize, (row.unit, row.key)));
                    assert!(found.eq((from..to).map(|at| (at, of(at)))), "{least:?} {keys:?}");
                }
            }
        }
    }

    /// What is reserved for rows does not follow from their units.
    #[test]
    fn one_unit_far_from_the_others_takes_no_other_memory() {
        let of = |least| {
            let mut waiting = Waiting::new(least);
            (5..1_000).for_each(|unit| assert!(waiting.push(unit, 0, 1_000)));
            waiting.size()
        };
        assert_eq!(of(Some(5)), of(None));
    }

    #[test]
    fn a_unit_that_is_far_from_the_others_is_no_other_unit() {
        let mut waiting = Waiting::new(Some(5));
        for unit in [4, 6 + u64::from(u32::MAX), u64::MAX] {
            assert!(!waiting.push(unit, 0, 1));
        }
    }
}
