//! The rows of a bucket, unit by unit.
//!
//! In: rows, each with its unit, its key and the place of its values. Out: the units, each with its
//! rows side by side. It guarantees that all rows of a unit are together, and that no two units are
//! mixed up, whatever their codes are.
//!
//! ```text
//! rows (9, Bonn, 0), (7, Rome, 1), (9, Bonn, 2)
//! ─▶   units 9, 7   counts 2, 1   rows (Bonn, 0), (Bonn, 2), (Rome, 1)
//! ```

use datafusion::common::Result;

use super::keyed_order::HashKey;
use crate::grid::failed;

/// The number of buckets over which rows are distributed: one for each value of a byte.
pub(crate) const BUCKETS: usize = 256;

/// The marker of an unused slot in the table of [`Units`].
const EMPTY: u32 = u32::MAX;

/// The values of a row, if they are so small that they fit into the row itself: a number of at most
/// 16 bits, and before it a bit that says whether the row passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::operator::bound_contributions) struct Inside(
    pub(in crate::operator::bound_contributions) u32,
);

impl Inside {
    /// The bits that it takes.
    pub(in crate::operator::bound_contributions) const BITS: u32 = 17;

    pub(in crate::operator::bound_contributions) fn new(passes: bool, number: i16) -> Self {
        Self(u32::from(passes) << 16 | u32::from(number.cast_unsigned()))
    }

    /// Reads it from the last bits of a word.
    #[expect(clippy::cast_possible_truncation, reason = "the last bits of the word")]
    pub(in crate::operator::bound_contributions) fn last(word: u64) -> Self {
        Self(word as u32 & ((1 << Self::BITS) - 1))
    }

    pub(in crate::operator::bound_contributions) fn passes(self) -> bool {
        self.0 >> 16 == 1
    }

    #[expect(clippy::cast_possible_truncation, reason = "the last 16 bits")]
    pub(in crate::operator::bound_contributions) fn number(self) -> i16 {
        (self.0 as u16).cast_signed()
    }
}

/// One kept row: its unit, its key, and the position of its values in the bucket, or the values
/// themselves as [`Inside`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnitRow {
    pub(crate) unit: u64,
    pub(crate) key: u32,
    pub(crate) place: u32,
}

/// The range of units that are close to each other: each is at most `span` above the least one. A
/// unit is identified by its bucket and its number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operator::bound_contributions) struct Close {
    pub(in crate::operator::bound_contributions) least: u64,
    pub(in crate::operator::bound_contributions) span: u32,
}

impl Close {
    /// The bucket of a unit, and its number there; `None` for a unit outside of the range.
    ///
    /// # Guarantee
    /// No two units have the same bucket and number. The number is the unit's distance from the
    /// least one without its last byte; the bucket is that byte, combined with a value that depends
    /// on the number alone.
    pub(in crate::operator::bound_contributions) fn place(self, unit: u64) -> Option<(u8, u32)> {
        let above = u32::try_from(unit.checked_sub(self.least)?).ok()?;
        let [.., last] = above.to_be_bytes();
        let number = above >> 8;
        (above <= self.span).then_some((last ^ shifted(number), number))
    }

    /// The unit with this bucket and number.
    pub(in crate::operator::bound_contributions) fn unit(self, bucket: u8, number: u32) -> u64 {
        self.least + u64::from(number << 8 | u32::from(bucket ^ shifted(number)))
    }

    /// An upper bound of the numbers in a bucket.
    fn numbers(self) -> usize {
        (self.span >> 8) as usize + 1
    }

    /// Whether a bucket with this many rows may have a counter for each number.
    pub(in crate::operator::bound_contributions) fn is_dense(self, rows: usize) -> bool {
        self.numbers() / 8 <= rows
    }
}

/// A value by which the buckets of units with this number are changed, so that units at even
/// distances spread over all buckets.
fn shifted(number: u32) -> u8 {
    let [first, ..] = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    first
}

/// Groups the rows of a bucket by unit, with a counting sort.
#[derive(Default)]
pub(crate) struct Units {
    slots: Vec<(u64, u32)>,
    codes: Vec<u64>,
    counts: Vec<usize>,
    ends: Vec<usize>,
    /// Where the rows of each number begin; later, where its next row goes.
    starts: Vec<u32>,
    ids: Vec<u32>,
    /// The key and place of every row, ordered by unit.
    rows: Vec<u64>,
}

impl Units {
    /// Groups rows by a small hash table of their units.
    ///
    /// # Errors
    /// An error with a constant text for 2³² units.
    pub(crate) fn group(&mut self, rows: &[UnitRow], hash: HashKey) -> Result<()> {
        self.codes.clear();
        self.counts.clear();
        self.ids.clear();
        // Buckets have similar sizes, so the table is not shrunk.
        self.slots.fill((0, EMPTY));
        if self.slots.is_empty() {
            self.slots.resize(64, (0, EMPTY));
        }
        for row in rows {
            let id = self.id(row.unit, hash)?;
            self.ids.push(id);
            self.counts[id as usize] += 1;
        }
        self.ends.clear();
        let mut end = 0;
        self.ends.extend(self.counts.iter().map(|count| {
            end += count;
            end - count
        }));
        self.rows.clear();
        self.rows.resize(rows.len(), 0);
        for (row, id) in rows.iter().zip(&self.ids) {
            let at = &mut self.ends[*id as usize];
            self.rows[*at] = packed(row.key, row.place);
            *at += 1;
        }
        Ok(())
    }

    /// Groups the rows of a bucket of close units. Each row is a word that holds the number of its
    /// unit, its key, and perhaps its values. Values outside of the rows stand side by side, in the
    /// order of the rows. There are fewer than 2³² rows.
    pub(in crate::operator::bound_contributions) fn group_close(
        &mut self,
        of_parts: &[&[u64]],
        close: Close,
        bucket: u8,
        parts: impl Fn(u64) -> (usize, u32, Option<Inside>),
    ) {
        self.codes.clear();
        self.counts.clear();
        self.starts.clear();
        self.starts.resize(close.numbers(), 0);
        for word in of_parts.iter().copied().flatten() {
            let (number, ..) = parts(*word);
            self.starts[number] += 1;
        }
        let mut end = 0;
        for (start, number) in self.starts.iter_mut().zip(0..) {
            if *start > 0 {
                self.codes.push(close.unit(bucket, number));
                self.counts.push(*start as usize);
            }
            (*start, end) = (end, end + *start);
        }
        self.rows.resize(end as usize, 0);
        for (word, place) in of_parts.iter().copied().flatten().zip(0_u32..) {
            let (number, key, inside) = parts(*word);
            let at = &mut self.starts[number];
            self.rows[*at as usize] = packed(key, inside.map_or(place, |inside| inside.0));
            *at += 1;
        }
    }

    /// Each unit with its rows.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u64, &[u64])> {
        let mut rest = &self.rows[..];
        self.codes.iter().zip(&self.counts).map(move |(code, count)| {
            let (own, after) = rest.split_at(*count);
            rest = after;
            (*code, own)
        })
    }

    /// Each unit with its rows, whose order may be changed.
    pub(in crate::operator::bound_contributions) fn each_mut(
        &mut self,
    ) -> impl Iterator<Item = (u64, &mut [u64])> {
        let mut rest = &mut self.rows[..];
        self.codes.iter().zip(&self.counts).map(move |(code, count)| {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(*count);
            rest = after;
            (*code, own)
        })
    }

    /// The number of a unit within the bucket.
    fn id(&mut self, code: u64, hash: HashKey) -> Result<u32> {
        let slot = find(&self.slots, code, hash)?;
        let (_, id) = self.slots[slot];
        if id != EMPTY {
            return Ok(id);
        }
        let id = u32::try_from(self.codes.len()).map_err(|_| failed())?;
        self.slots[slot] = (code, id);
        self.codes.push(code);
        self.counts.push(0);
        if self.codes.len() * 2 > self.slots.len() {
            let mut larger = vec![(0, EMPTY); self.slots.len() * 4];
            for (id, code) in (0..).zip(&self.codes) {
                let slot = find(&larger, *code, hash)?;
                larger[slot] = (*code, id);
            }
            self.slots = larger;
        }
        Ok(id)
    }
}

/// The slot that holds this code, or the free slot for it. The size of a table is a power of two.
fn find(slots: &[(u64, u32)], code: u64, hash: HashKey) -> Result<usize> {
    let mask = slots.len() - 1;
    let start = hash.scatter(code) & u64::try_from(mask).map_err(|_| failed())?;
    let mut slot = usize::try_from(start).map_err(|_| failed())?;
    loop {
        let (held, id) = slots[slot];
        if id == EMPTY || held == code {
            return Ok(slot);
        }
        slot = (slot + 1) & mask;
    }
}

/// A row by its key and its place.
fn packed(key: u32, place: u32) -> u64 {
    u64::from(key) << 32 | u64::from(place)
}

/// The key of a packed row.
pub(crate) fn key_of(row: u64) -> u32 {
    (row >> 32) as u32
}

/// The position of the values of a packed row, if the row does not hold them itself.
#[expect(clippy::cast_possible_truncation, reason = "the lower half of the word")]
pub(crate) fn place_of(row: u64) -> usize {
    row as u32 as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A unit is found by its bucket and number, and no two units share them, in any range.
    #[test]
    fn places_are_of_one_unit_each() {
        let span = 3 << 16;
        for least in [0, 5, u64::MAX - u64::from(span), 1 << 63] {
            let close = Close { least, span };
            let mut seen = BTreeSet::new();
            let mut per_bucket = [0_u32; BUCKETS];
            for unit in least..=least + u64::from(span) {
                let (bucket, number) = close.place(unit).unwrap();
                assert!((number as usize) < close.numbers());
                assert_eq!(close.unit(bucket, number), unit);
                assert!(seen.insert((bucket, number)));
                per_bucket[usize::from(bucket)] += 1;
            }
            assert!(per_bucket.iter().all(|units| units.abs_diff(span >> 8) <= 1));
            let beyond = [least.checked_sub(1), (least + u64::from(span)).checked_add(1)];
            assert!(beyond.into_iter().flatten().all(|unit| close.place(unit).is_none()));
        }
        let widest = Close { least: 7, span: u32::MAX };
        for unit in [7, 8, 7 + u64::from(u32::MAX), 7 + (1 << 31), 1 << 31] {
            let (bucket, number) = widest.place(unit).unwrap();
            assert_eq!(widest.unit(bucket, number), unit);
        }
        assert!([6, 8 + u64::from(u32::MAX), u64::MAX].iter().all(|u| widest.place(*u).is_none()));
    }

    /// Units at even distances spread over all buckets, and no bucket has twice as many as the
    /// mean.
    #[test]
    fn units_at_even_distances_are_in_all_buckets() {
        for step in [1, 2, 3, 10, 16, 100, 255, 256, 257, 1 << 10, 1 << 12, 65_535, 65_537] {
            let close = Close { least: 1, span: u32::MAX };
            let mut per_bucket = [0_u32; BUCKETS];
            for i in 0..1 << 16 {
                let (bucket, _) = close.place(1 + i * step % (1 << 32)).unwrap();
                per_bucket[usize::from(bucket)] += 1;
            }
            assert!(per_bucket.iter().all(|units| (1..512).contains(units)), "{step}");
        }
    }
}
