//! The rows of some units: first waiting to be bounded, then unit by unit once all have arrived.
//!
//! In: the unit and the key of each row, in any order, and its values. Out: all rows of a bucket,
//! which fit the processor's cache, with the rows of a unit side by side. Many more rows wait than
//! are bounded at a time, so a waiting row should be small. If all units are numbers close to each
//! other, a row takes 8 bytes, and its unit is found without a hash table. If one small number is
//! kept of each row, the 8 bytes hold it, too.
//!
//! ```text
//! waiting   part 0: (7, Rome), (9, Bonn)   part 1: (7, Bonn)
//! filled    unit 7: (Rome, 0), (Bonn, 2)   unit 9: (Bonn, 1)        each with the place of its values, or its number
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::keyed_order::HashKey;
use super::radix_lists::{Expected, Lists};
use super::rows_by_unit::{Close, Inside, UnitRow, Units};
use crate::grid::failed;
use crate::operator::bound_contributions::columns::held_batches::HeldBatch;
use crate::operator::bound_contributions::columns::kept_values::BucketValues;
use crate::operator::bound_contributions::task::BoundingTask;

/// The most bytes of a waiting row.
pub(in crate::operator::bound_contributions) const OF_A_ROW: usize = size_of::<[u32; 3]>();

/// The rows that one part collects: one list for each bucket.
pub(in crate::operator::bound_contributions) enum UnitBuckets {
    /// One word for each row: the number of its unit in the bucket, the key, and perhaps the kept
    /// values.
    Close(Words, Lists<u64>),
    /// Both halves of each unit, and the key.
    Wide(HashKey, Lists<[u32; 3]>),
}

/// The layout of words that hold rows of close units.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator::bound_contributions) struct Words {
    close: Close,
    /// Whether a word holds the kept values as [`Inside`].
    has_inside: bool,
}

impl Words {
    /// The last bits of a word, which hold the key and perhaps the kept values.
    const OF_UNIT: u32 = 40;

    /// The most keys, if words hold the kept values.
    pub(in crate::operator::bound_contributions) const MOST_KEYS: usize =
        1 << (Self::OF_UNIT - Inside::BITS);

    fn word(self, number: u32, key: u32, inside: Inside) -> u64 {
        let last = match self.has_inside {
            true => u64::from(key) << Inside::BITS | u64::from(inside.0),
            false => key.into(),
        };
        // A unit's number has 24 bits: its distance from the least unit without the last byte.
        u64::from(number) << Self::OF_UNIT | last
    }

    /// The number of a row's unit, its key, and the kept values if the word holds them.
    #[expect(clippy::cast_possible_truncation, reason = "the key was made of 32 bits")]
    pub(in crate::operator::bound_contributions) fn parts(
        self,
        word: u64,
    ) -> (usize, u32, Option<Inside>) {
        let last = word & ((1 << Self::OF_UNIT) - 1);
        let number = (word >> Self::OF_UNIT) as usize;
        match self.has_inside {
            true => (number, (last >> Inside::BITS) as u32, Some(Inside::last(word))),
            false => (number, last as u32, None),
        }
    }
}

impl UnitBuckets {
    /// Empty buckets. `close` is the range of all units, if they are close. Then a word can hold
    /// the kept values, for at most [`Words::MOST_KEYS`] keys.
    pub(in crate::operator::bound_contributions) fn new(
        close: Option<Close>,
        has_inside: bool,
        hash: HashKey,
        expected: Expected,
    ) -> Self {
        match close {
            Some(close) => Self::Close(Words { close, has_inside }, Lists::new(expected)),
            None => Self::Wide(hash, Lists::new(expected)),
        }
    }

    /// Adds these rows of a batch, or all that count, each with its kept values, to the buckets of
    /// their units, and notes the bucket of each in `added`. False if one of their units is outside
    /// of the range of close units.
    pub(in crate::operator::bound_contributions) fn push(
        &mut self,
        held: &HeldBatch,
        rows: Option<&[u32]>,
        inside: &[Inside],
        mut added: Option<&mut Vec<(u32, u8)>>,
    ) -> bool {
        let mut are_close = true;
        let mut note = |row, bucket| {
            if let Some(added) = &mut added {
                added.push((row, bucket));
            }
        };
        match self {
            Self::Close(words, lists) => held.each_in(rows, |row, unit, key| {
                let Some((bucket, number)) = words.close.place(unit) else {
                    are_close = false;
                    return;
                };
                let inside = inside.get(row as usize).copied().unwrap_or_default();
                lists.push(bucket, words.word(number, key, inside));
                note(row, bucket);
            }),
            Self::Wide(hash, lists) => held.each_in(rows, |row, unit, key| {
                let [bucket, ..] = hash.scatter(unit).to_be_bytes();
                let [high, low] = halves(unit);
                lists.push(bucket, [high, low, key]);
                note(row, bucket);
            }),
        }
        are_close
    }

    /// The bytes in use, or more: every row counts as if its unit were wide, and as if its kept
    /// values took `of_inside` bytes of their own. One unit far from all others decides how rows
    /// are stored, and must not decide whether there is memory for them.
    pub(in crate::operator::bound_contributions) fn size(&self, of_inside: usize) -> usize {
        match self {
            Self::Close(_, lists) => lists.bytes(OF_A_ROW + of_inside),
            Self::Wide(_, lists) => lists.bytes(OF_A_ROW + of_inside),
        }
    }

    /// The rows of each bucket.
    pub(in crate::operator::bound_contributions) fn into_waiting(self) -> Vec<WaitingRows> {
        match self {
            Self::Close(words, lists) => {
                let waiting = |(rows, bucket)| WaitingRows::Close { words, bucket, rows };
                lists.into_lists().into_iter().zip(0..=u8::MAX).map(waiting).collect()
            }
            Self::Wide(_, lists) => lists.into_lists().into_iter().map(WaitingRows::Wide).collect(),
        }
    }
}

/// The waiting rows of one bucket.
pub(in crate::operator::bound_contributions) enum WaitingRows {
    Close { words: Words, bucket: u8, rows: Vec<u64> },
    Wide(Vec<[u32; 3]>),
}

impl WaitingRows {
    fn len(&self) -> usize {
        match self {
            Self::Close { rows, .. } => rows.len(),
            Self::Wide(rows) => rows.len(),
        }
    }

    /// Visits the unit, the key, and perhaps the kept values of each row.
    fn each(&self, mut visit: impl FnMut(u64, u32, Option<Inside>)) {
        match self {
            Self::Close { words, bucket, rows } => rows.iter().for_each(|word| {
                let (number, key, inside) = words.parts(*word);
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                visit(words.close.unit(*bucket, number), key, inside);
            }),
            Self::Wide(rows) => rows.iter().for_each(|[high, low, key]| {
                visit(u64::from(*high) << 32 | u64::from(*low), *key, None);
            }),
        }
    }
}

/// The upper and the lower half of a unit.
#[expect(clippy::cast_possible_truncation, reason = "each half fits")]
fn halves(unit: u64) -> [u32; 2] {
    [(unit >> 32) as u32, unit as u32]
}

/// The rows that one part collected in a bucket, with the values of each source that is read.
pub(in crate::operator::bound_contributions) struct Waited {
    pub(in crate::operator::bound_contributions) rows: WaitingRows,
    pub(in crate::operator::bound_contributions) kept: Vec<Option<BucketValues>>,
}

impl Waited {
    pub(in crate::operator::bound_contributions) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }
}

/// All rows of a bucket.
#[derive(Default)]
pub(in crate::operator::bound_contributions) struct Bucket {
    pub(in crate::operator::bound_contributions) units: Units,
    kept: Vec<Option<BucketValues>>,
    scratch: Vec<UnitRow>,
}

impl Bucket {
    /// Replaces the rows by those that several parts collected in the same bucket. The memory of
    /// the old rows is reused.
    ///
    /// # Errors
    /// An error with a constant text for 2³² rows, and for the rows of another bucket or the values
    /// of other sources.
    pub(in crate::operator::bound_contributions) fn fill(
        &mut self,
        parts: Vec<Waited>,
        hash: HashKey,
    ) -> Result<()> {
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        u32::try_from(rows).map_err(|_| failed())?;
        match parts.first().map(|part| &part.rows) {
            Some(WaitingRows::Close { words, bucket, .. }) if words.close.is_dense(rows) => {
                let of_parts = parts.iter().map(|part| match &part.rows {
                    WaitingRows::Close { rows, .. } => Ok(rows.as_slice()),
                    WaitingRows::Wide(_) => Err(failed()),
                });
                let of_parts: Vec<&[u64]> = of_parts.collect::<Result<_>>()?;
                let Words { close, .. } = *words;
                self.units.group_close(&of_parts, close, *bucket, |word| words.parts(word));
            }
            _ => {
                self.scratch.clear();
                let mut places = 0..;
                for part in &parts {
                    part.rows.each(|unit, key, inside| {
                        let place = places.next().unwrap_or(0);
                        let place = inside.map_or(place, |inside| inside.0);
                        self.scratch.push(UnitRow { unit, key, place });
                    });
                }
                self.units.group(&self.scratch, hash)?;
            }
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

    /// The kept values of the source that an aggregate reads.
    pub(in crate::operator::bound_contributions) fn kept(
        &self,
        task: &BoundingTask,
        input: usize,
    ) -> Result<&BucketValues> {
        let at = task.sources.of.get(input).ok_or_else(failed)?;
        self.kept.get(*at).and_then(Option::as_ref).ok_or_else(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::operator::bound_contributions::columns::held_batches::KeyPlaces;
    use crate::operator::bound_contributions::exact::rows_by_unit::{key_of, place_of};
    use crate::operator::bound_contributions::keys::unit_codes::HeldUnits;

    fn hash() -> HashKey {
        HashKey::new([1, 2, 3, 4])
    }

    fn expected(entries: usize) -> Expected {
        Expected { entries, in_few: false }
    }

    fn held(rows: &[(u64, u32)]) -> HeldBatch {
        let (units, places): (Vec<u64>, Vec<u32>) = rows.iter().copied().unzip();
        let (units, places) = (HeldUnits::Codes(units), Some(KeyPlaces::Wide(places)));
        HeldBatch { units, places, lanes: Vec::new(), rows: rows.len(), bytes: 0 }
    }

    /// The rows that one part collects in each bucket, and the bucket of each row.
    fn waited(close: Option<Close>, rows: &[(u64, u32)]) -> (Vec<Waited>, Vec<u8>) {
        let mut buckets = UnitBuckets::new(close, false, hash(), expected(4));
        let mut added = Vec::new();
        // Each row of the batch occurs twice, and is wanted once.
        let both: Vec<_> = rows.iter().chain(rows).copied().collect();
        let wanted: Vec<u32> = (0..).zip(rows).map(|(row, _)| row).collect();
        assert!(buckets.push(&held(&both), Some(&wanted), &[], Some(&mut added)));
        assert!(added.iter().zip(0..).all(|((row, _), at)| *row == at));
        let into: Vec<u8> = added.iter().map(|(_, bucket)| *bucket).collect();
        assert_eq!(into.len(), rows.len());
        assert!(buckets.size(0) >= rows.len() * 12);
        let waited = |rows| Waited { rows, kept: Vec::new() };
        (buckets.into_waiting().into_iter().map(waited).collect(), into)
    }

    /// The rows of several parts occur once each, unit by unit, with the places of their values, in
    /// whatever form units are stored.
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
                    let mut units = Vec::new();
                    for (unit, rows) in bucket.units.each() {
                        let places = rows.iter().map(|row| own[place_of(*row)]);
                        let expected = rows.iter().map(|row| (unit, key_of(*row)));
                        assert!(places.map(row).eq(expected), "{found:?}");
                        rows_found += rows.len();
                        units.push(unit);
                    }
                    let all = units.len();
                    units.sort_unstable();
                    units.dedup();
                    assert_eq!(units.len(), all);
                }
                assert_eq!(rows_found, to - from);
            }
        }
    }

    /// A word gives back the parts that it was made from, up to the largest ones.
    #[test]
    fn words_hold_their_parts() {
        let close = Close { least: 7, span: u32::MAX };
        let most = u32::try_from(Words::MOST_KEYS).unwrap() - 1;
        for (has_inside, keys) in [(false, [0, 5, u32::MAX]), (true, [0, 5, most])] {
            let words = Words { close, has_inside };
            for number in [0, 1, (1 << 24) - 1] {
                for key in keys {
                    for (passes, own) in
                        [(true, 0), (false, 0), (true, -1), (true, i16::MIN), (false, 9)]
                    {
                        let inside = Inside::new(passes, own);
                        assert_eq!((inside.passes(), inside.number()), (passes, own));
                        let parts = words.parts(words.word(number, key, inside));
                        assert_eq!(parts, (number as usize, key, has_inside.then_some(inside)));
                    }
                }
            }
        }
    }

    /// Values that a word holds come out in place of a position, whether or not units have
    /// counters.
    #[test]
    fn what_is_inside_comes_out() {
        for span in [900, u32::MAX] {
            let mut rows: Vec<(u64, u32)> =
                (0..600).map(|i| (5 + u64::from(i * 7 % 900), i % 4)).collect();
            let inside: Vec<_> = (0..600_i16).map(|i| Inside::new(i % 3 == 0, i - 300)).collect();
            let mut buckets =
                UnitBuckets::new(Some(Close { least: 5, span }), true, hash(), expected(4));
            assert!(buckets.push(&held(&rows), None, &inside, None));
            let mut found = Vec::new();
            for rows in buckets.into_waiting() {
                let mut bucket = Bucket::default();
                bucket.fill(vec![Waited { rows, kept: Vec::new() }], hash()).unwrap();
                let own = |row: &u64| (key_of(*row), Inside::last(*row).0);
                for (unit, rows) in bucket.units.each() {
                    found.extend(rows.iter().map(|row| (unit, own(row))));
                }
            }
            let mut expected: Vec<_> = rows.drain(..).zip(inside).collect();
            expected.sort_unstable_by_key(|(row, inside)| (*row, inside.0));
            found.sort_unstable();
            let expected = expected.iter().map(|((unit, key), inside)| (*unit, (*key, inside.0)));
            assert!(found.into_iter().eq(expected));
        }
    }

    /// The memory that is reserved for rows does not depend on their units.
    #[test]
    fn one_unit_far_from_the_others_takes_no_other_memory() {
        let of = |close| {
            let mut buckets = UnitBuckets::new(close, false, hash(), expected(1_000));
            assert!(buckets.push(&held(&[(9, 0); 1_000]), None, &[], None));
            buckets.size(0)
        };
        assert_eq!(of(Some(Close { least: 5, span: 99 })), of(None));
    }

    #[test]
    fn a_unit_that_is_far_from_the_others_is_no_other_unit() {
        let close = Some(Close { least: 5, span: 99 });
        for unit in [4, 105, 6 + u64::from(u32::MAX), u64::MAX] {
            for rows in [&[(unit, 0)][..], &[(5, 0), (unit, 0), (104, 0)]] {
                let mut buckets = UnitBuckets::new(close, false, hash(), expected(1));
                assert!(!buckets.push(&held(rows), None, &[], None));
                let others = (0..).zip(rows).filter(|(_, (other, _))| *other != unit);
                let others: Vec<u32> = others.map(|(row, _)| row).collect();
                assert!(buckets.push(&held(rows), Some(&others), &[], None));
            }
        }
    }
}
