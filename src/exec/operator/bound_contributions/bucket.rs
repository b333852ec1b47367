//! The rows of some units, as they wait to be bounded, and unit by unit once all have arrived.
//!
//! In: the unit and the key of each row, in any order, and its values. Out: all rows of a bucket, which fit the processor's cache,
//! those of a unit side by side in the order of their keys. Many more rows wait than are bounded at a time: where all units are
//! numbers that are close to each other, a row takes 8 bytes, and its unit is found without a hash table.
//!
//! ```text
//! waiting   part 0: (7, Rome), (9, Bonn)   part 1: (7, Bonn)
//! filled    unit 7: (Bonn, 2), (Rome, 0)   unit 9: (Bonn, 1)        each with the place of its values
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::expected::push_expected;
use super::grouped::{BUCKETS, Close, Row, Units};
use super::order::HashKey;
use super::payload::Kept;
use super::task::Task;
use crate::grid::failed;

/// The most bytes of a row that waits.
pub(super) const OF_A_ROW: usize = size_of::<[u32; 3]>();

/// The rows that one part collects: one list for each bucket.
pub(super) enum Buckets {
    /// The number of each unit in its bucket, and the key.
    Close(Close, Vec<Vec<[u32; 2]>>),
    /// Both halves of each unit, and the key.
    Wide(HashKey, Vec<Vec<[u32; 3]>>),
}

impl Buckets {
    /// Without rows; `close` if it has all units.
    pub(super) fn new(close: Option<Close>, hash: HashKey) -> Self {
        match close {
            Some(close) => Self::Close(close, vec![Vec::new(); BUCKETS]),
            None => Self::Wide(hash, vec![Vec::new(); BUCKETS]),
        }
    }

    /// Adds a row to the bucket of its unit, which is expected to get so many. `None` if its unit is not among those that are close to
    /// each other.
    pub(super) fn push(&mut self, unit: u64, key: u32, expected: usize) -> Option<u8> {
        match self {
            Self::Close(close, lists) => {
                let (bucket, number) = close.place(unit)?;
                push_expected(&mut lists[usize::from(bucket)], [number, key], expected);
                Some(bucket)
            }
            Self::Wide(hash, lists) => {
                let [bucket, ..] = hash.scatter(unit).to_be_bytes();
                let [high, low] = halves(unit);
                push_expected(&mut lists[usize::from(bucket)], [high, low, key], expected);
                Some(bucket)
            }
        }
    }

    /// The bytes in use, or more: one unit far from all others decides what a row takes, and must not decide whether there is memory
    /// for all of them.
    pub(super) fn size(&self) -> usize {
        let rows: usize = match self {
            Self::Close(_, lists) => lists.iter().map(Vec::capacity).sum(),
            Self::Wide(_, lists) => lists.iter().map(Vec::capacity).sum(),
        };
        rows * OF_A_ROW
    }

    /// The rows of each bucket.
    pub(super) fn into_waiting(self) -> Vec<Waiting> {
        match self {
            Self::Close(close, lists) => {
                let waiting = |(rows, bucket)| Waiting::Close { close, bucket, rows };
                lists.into_iter().zip(0..=u8::MAX).map(waiting).collect()
            }
            Self::Wide(_, lists) => lists.into_iter().map(Waiting::Wide).collect(),
        }
    }
}

/// The rows of one bucket that wait.
pub(super) enum Waiting {
    Close { close: Close, bucket: u8, rows: Vec<[u32; 2]> },
    Wide(Vec<[u32; 3]>),
}

impl Waiting {
    fn len(&self) -> usize {
        match self {
            Self::Close { rows, .. } => rows.len(),
            Self::Wide(rows) => rows.len(),
        }
    }

    /// Visits the unit and the key of each row.
    fn each(&self, mut visit: impl FnMut(u64, u32)) {
        match self {
            Self::Close { close, bucket, rows } => {
                rows.iter().for_each(|[number, key]| visit(close.unit(*bucket, *number), *key));
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
    pub(super) units: Units,
    kept: Vec<Option<Kept>>,
    scratch: Vec<Row>,
}

impl Bucket {
    /// Replaces its rows by what several parts collected in the same bucket. The memory of its rows is used again.
    ///
    /// # Errors
    /// A constant text for 2³² rows, and for the rows of another bucket or the values of other sources.
    pub(super) fn fill(&mut self, parts: Vec<Waited>, hash: HashKey) -> Result<()> {
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        u32::try_from(rows).map_err(|_| failed())?;
        match parts.first().map(|part| &part.rows) {
            Some(Waiting::Close { close, bucket, .. }) if close.is_dense(rows) => {
                let numbers = parts.iter().map(|part| match &part.rows {
                    Waiting::Close { rows, .. } => Ok(rows.as_slice()),
                    Waiting::Wide(_) => Err(failed()),
                });
                let numbers: Vec<&[[u32; 2]]> = numbers.collect::<Result<_>>()?;
                self.units.group_close(&numbers, *close, *bucket);
            }
            _ => {
                self.scratch.clear();
                let mut places = 0..;
                for part in &parts {
                    part.rows.each(|unit, key| {
                        let place = places.next().unwrap_or(0);
                        self.scratch.push(Row { unit, key, place });
                    });
                }
                self.units.group(&self.scratch, hash)?;
            }
        }
        self.units.order_by_key();
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
    use std::ops::Range;

    use super::*;
    use crate::exec::operator::bound_contributions::grouped::{key_of, place_of};

    fn hash() -> HashKey {
        HashKey::new([1, 2, 3, 4])
    }

    /// What one part collected of these rows, in each bucket, and where each row went.
    fn waited(close: Option<Close>, rows: &[(u64, u32)]) -> (Vec<Waited>, Vec<u8>) {
        let mut buckets = Buckets::new(close, hash());
        let into = rows.iter().map(|(unit, key)| buckets.push(*unit, *key, 4).unwrap()).collect();
        assert!(buckets.size() >= rows.len() * 12);
        let waited = |rows| Waited { rows, kept: Vec::new() };
        (buckets.into_waiting().into_iter().map(waited).collect(), into)
    }

    /// Rows of several parts are there once each, unit by unit and in the order of their keys, with the places of their values,
    /// however units are kept.
    #[test]
    fn rows_of_all_parts_are_unit_by_unit() {
        let far = [0, 1 << 32, (1 << 32) + 7, 7, u64::MAX, 1 << 63];
        let close = [5, 5 + u64::from(u32::MAX), 6, 77, 5, 1 << 31];
        let near = [5, 5 + 256, 6, 77, 900, 5 + 255];
        let of = |span| Some(Close { least: 5, span });
        for (found, units) in [
            (None, far),
            (None, close),
            (None, near),
            (of(u32::MAX), close),
            (of(u32::MAX), near),
            (of(900), near),
        ] {
            let row = |at: usize| (units[at * 5 % 6], u32::try_from(at * 7 % 9).unwrap());
            let part = |rows: Range<usize>| waited(found, &rows.map(row).collect::<Vec<_>>());
            let mut bucket = Bucket::default();
            for (from, to) in [(0, 400), (0, 17)] {
                let (parts, into): (Vec<_>, Vec<_>) =
                    [part(from..11), part(11..11), part(11..to)].into_iter().unzip();
                let into: Vec<u8> = into.concat();
                let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
                let mut rows_found = 0;
                for number in 0..=u8::MAX {
                    let parts: Vec<_> = parts.iter_mut().filter_map(Iterator::next).collect();
                    bucket.fill(parts, hash()).unwrap();
                    let own: Vec<usize> = (from..to).filter(|at| into[*at] == number).collect();
                    let mut rest = &bucket.units.rows[..];
                    for (unit, count) in bucket.units.codes.iter().zip(&bucket.units.counts) {
                        let (rows, after) = rest.split_at(*count);
                        assert!(rows.is_sorted());
                        let places = rows.iter().map(|row| own[place_of(*row)]);
                        let expected = rows.iter().map(|row| (*unit, key_of(*row)));
                        assert!(places.map(row).eq(expected), "{found:?}");
                        rows_found += count;
                        rest = after;
                    }
                    assert!(rest.is_empty());
                    let mut units = bucket.units.codes.clone();
                    units.sort_unstable();
                    units.dedup();
                    assert_eq!(units.len(), bucket.units.codes.len());
                }
                assert_eq!(rows_found, to - from);
            }
        }
    }

    /// What is reserved for rows does not follow from their units.
    #[test]
    fn one_unit_far_from_the_others_takes_no_other_memory() {
        let of = |close| {
            let mut buckets = Buckets::new(close, hash());
            (0..1_000).for_each(|_| assert!(buckets.push(9, 0, 1_000).is_some()));
            buckets.size()
        };
        assert_eq!(of(Some(Close { least: 5, span: 99 })), of(None));
    }

    #[test]
    fn a_unit_that_is_far_from_the_others_is_no_other_unit() {
        let mut buckets = Buckets::new(Some(Close { least: 5, span: 99 }), hash());
        assert!(
            [4, 105, 6 + u64::from(u32::MAX), u64::MAX]
                .into_iter()
                .all(|unit| buckets.push(unit, 0, 1).is_none())
        );
    }
}
