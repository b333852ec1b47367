//! Which units may exceed a bound: nearly always few, and often none.
//!
//! In: a hash for each row that counts, of its unit or of its unit and group. Out: a set of hashes that contains the hash
//! of every unit with more than `most` rows, and few others. It assumes that all rows of a unit have the same hash. It
//! guarantees that no unit above the bound is missed: units that share a counter add up in it, so a counter is never
//! below the number of rows of one of them. A unit that the set contains by mistake takes the exact path and gets the
//! same integers, so that a mistake costs time only.
//!
//! ```text
//! let mut counts = RowCounts::new(50, rows, room);
//! hashes.for_each(|hash| counts.add(hash));
//! counts.finish().has(hash) // false: this unit has at most 50 rows
//! ```

use std::mem::size_of;

/// Counters for each unit that has as many rows as the bound allows: more of them let fewer units share one.
const SPREAD: usize = 8;

/// The least and the largest number of counters.
const FEWEST: usize = 1 << 10;
const MOST: usize = 1 << 24;

/// With more counters than these, nearly every row waits for memory: a share of the units is counted first. Fewer in unit tests, so
/// that small tables take this way too.
const MANY: usize = if cfg!(test) { FEWEST } else { 1 << 21 };

/// The units in a share: those whose hash begins with so many zeros.
const SHARE_BITS: u32 = 4;

/// Counts rows by the hash of their unit.
pub(crate) struct RowCounts {
    counts: Vec<u16>,
    most: u16,
    /// Whether only a share of the units is counted.
    of_a_share: bool,
}

/// The hashes whose counter exceeds the bound.
pub(crate) struct Crowded {
    /// One bit for each counter.
    words: Vec<u64>,
    mask: u64,
    any: bool,
    usual: bool,
    /// The rows of these hashes; `None` if a counter is at its largest number.
    rows: Option<u64>,
}

impl RowCounts {
    /// For units that keep all their rows if they have at most `most`, of `rows` rows in all; in at most `room` bytes, unless even
    /// the fewest counters take more.
    pub(crate) fn new(most: u64, rows: usize, room: usize) -> Self {
        // A counter stops at its largest number, which has to exceed the bound.
        let most = u16::try_from(most).unwrap_or(u16::MAX).min(u16::MAX - 1);
        let wanted = (rows / usize::from(most).max(1)).saturating_mul(SPREAD);
        let mut counters = wanted.clamp(FEWEST, MOST).next_power_of_two();
        while counters > FEWEST && counters * size_of::<u16>() > room {
            counters /= 2;
        }
        Self { counts: vec![0; counters], most, of_a_share: false }
    }

    /// As many counters for the same bound, without a row.
    pub(crate) fn emptied(&self) -> Self {
        Self { counts: vec![0; self.counts.len()], ..*self }
    }

    /// Counters for a share of the units, without a row; `None` where counting all units costs little.
    pub(crate) fn of_a_share(&self) -> Option<Self> {
        let counters = (self.counts.len() >> SHARE_BITS).max(FEWEST);
        let is_smaller = self.counts.len() > MANY;
        is_smaller.then(|| Self { counts: vec![0; counters], most: self.most, of_a_share: true })
    }

    /// Counts a row.
    pub(crate) fn add(&mut self, hash: u64) {
        if self.of_a_share && hash.leading_zeros() < SHARE_BITS {
            return;
        }
        let at = position(hash, mask(self.counts.len()));
        let count = &mut self.counts[at];
        *count = count.saturating_add(1);
    }

    /// Adds the counts of other rows, which were made for the same bound and the same number of rows in all.
    ///
    /// # Guarantee
    /// No counter is then below the number of rows that both counted in it, unless it is at its largest number.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.saturating_add(*other);
        }
    }

    /// The bytes in use.
    pub(crate) fn size(&self) -> usize {
        self.counts.capacity() * size_of::<u16>()
    }

    /// The counters above the bound.
    ///
    /// # Guarantee
    /// For all sequences of hashes: a hash that was added more than `most` times is in the set. Exact in this direction.
    pub(crate) fn finish(self) -> Crowded {
        let above = |counts: &[u16]| {
            let bits = counts.iter().zip(0_u32..);
            bits.fold(0_u64, |word, (count, bit)| word | u64::from(*count > self.most) << bit)
        };
        let words: Vec<u64> = self.counts.chunks(64).map(above).collect();
        let crowded: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        let used = self.counts.iter().filter(|count| **count > 0).count();
        let mask = mask(self.counts.len());
        let above = self.counts.iter().filter(|count| **count > self.most);
        let rows = above.map(|count| (*count < u16::MAX).then_some(u64::from(*count))).sum();
        Crowded { words, mask, any: crowded > 0, usual: crowded > used / 2, rows }
    }

    /// All hashes, if most of those that were counted are above the bound.
    ///
    /// # Guarantee
    /// The set contains every hash, so that no unit above the bound is missed, whatever was counted.
    pub(crate) fn all_if_usual(self) -> Option<Crowded> {
        let counted = self.finish();
        let words = vec![u64::MAX; counted.words.len()];
        counted.usual.then_some(Crowded { words, any: true, rows: None, ..counted })
    }
}

impl Crowded {
    /// Whether the unit of this hash may have more rows than the bound allows.
    pub(crate) fn has(&self, hash: u64) -> bool {
        let at = position(hash, self.mask);
        self.words[at / 64] >> (at % 64) & 1 == 1
    }

    /// Whether the set contains any hash.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// The number of rows that were added with these hashes; `None` if there are too many to be known.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// Whether most units are in the set; a closer look at the others does not pay off.
    pub(crate) fn is_usual(&self) -> bool {
        self.usual
    }

    /// The bytes in use.
    pub(crate) fn size(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// The mask of a number of counters that is a power of two.
fn mask(counters: usize) -> u64 {
    u64::try_from(counters - 1).unwrap_or(0)
}

fn position(hash: u64, mask: u64) -> usize {
    usize::try_from(hash & mask).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{RowCounts, position};

    /// Every hash that was added more often than the bound is found, also where hashes share counters.
    #[test]
    fn no_hash_above_the_bound_is_missed() {
        let mut state = 5_u64;
        for most in [0, 1, 2, 7, 50, 65_534, 65_535, 1 << 40] {
            for distinct in [1, 40, 5_000] {
                let mut counts = RowCounts::new(most, 0, usize::MAX);
                let mut exact = vec![0_u64; distinct];
                for turn in 0..distinct * 3 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let one = usize::try_from(state >> 33).unwrap() % distinct;
                    let times = if turn % 7 == 0 { most.min(70_000) + turn as u64 % 2 } else { 1 };
                    exact[one] += times;
                    (0..times).for_each(|_| counts.add(hash(one)));
                }
                let counters = counts.counts.len();
                assert!(counters.is_power_of_two());
                let crowded = counts.finish();
                for (one, rows) in exact.iter().enumerate() {
                    assert!(*rows <= most || crowded.has(hash(one)), "{rows} of {most}");
                }
                assert_eq!(crowded.any(), (0..distinct).any(|one| crowded.has(hash(one))));
                if distinct == 1 && most < 65_535 {
                    assert_eq!(crowded.has(hash(0)), exact[0] > most);
                    assert_eq!(crowded.is_usual(), exact[0] > most);
                }
            }
        }
    }

    /// A unit exactly at the bound is not in the set, unless another one shares its counter.
    #[test]
    fn a_unit_at_the_bound_is_spared() {
        for most in [1, 3, 50] {
            let mut counts = RowCounts::new(most, 1_000, usize::MAX);
            (0..most).for_each(|_| counts.add(hash(1)));
            (0..=most).for_each(|_| counts.add(hash(2)));
            let mask = u64::try_from(counts.counts.len() - 1).unwrap();
            assert_ne!(position(hash(1), mask), position(hash(2), mask));
            let crowded = counts.finish();
            assert!(!crowded.has(hash(1)) && crowded.has(hash(2)) && crowded.any());
        }
        let none = RowCounts::new(3, 0, usize::MAX).finish();
        assert!(!none.any() && !none.is_usual() && !none.has(hash(3)));
    }

    /// A share of the units tells whether most exceed the bound; then all of them may.
    #[test]
    fn a_share_tells_what_is_usual() {
        assert!(RowCounts::new(50, 1_000, usize::MAX).of_a_share().is_none());
        for (rows_of_each, usual) in [(1, false), (2, false), (3, true), (9, true)] {
            let all = RowCounts::new(2, 60_000, usize::MAX);
            let mut share = all.of_a_share().unwrap();
            assert!(share.size() < all.size() && share.emptied().of_a_share);
            for one in 0..20_000 {
                (0..rows_of_each).for_each(|_| share.add(hash(one)));
            }
            // Others are not counted.
            let counted: u32 = share.counts.iter().map(|count| u32::from(*count)).sum();
            assert!((500..2_000).contains(&(counted / rows_of_each)), "{counted}");
            let found = share.all_if_usual();
            assert_eq!(found.is_some(), usual, "{rows_of_each}");
            let Some(found) = found else { continue };
            assert!(found.is_usual() && found.any() && found.rows().is_none());
            assert!((0..20_000).all(|one| found.has(hash(one))));
        }
    }

    fn hash(one: usize) -> u64 {
        u64::try_from(one + 1).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    }
}
