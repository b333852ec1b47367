//! Which units may exceed a bound: nearly always few, and often none.
//!
//! In: a number for each row that counts, made from its unit or from its unit and group, whose last
//! bits are spread evenly. Out: a set of numbers. It contains the number of every unit with more
//! than `most` rows, and few others. It assumes that all rows of a unit have the same number. It
//! guarantees that no unit above the bound is missed: a counter adds up the rows of all units that
//! share it, so it is never below the number of rows of one of them. A unit that the set contains
//! by mistake takes the exact path and gets the same integers, so a mistake costs only time.
//!
//! ```text
//! let mut counts = RowCounts::new(50, rows, room);
//! counts.add_all(&numbers);
//! counts.finish().has(number) // false: this unit has at most 50 rows
//! ```

use num_traits::{Bounded, One, SaturatingAdd, Zero};

/// The number of counters for each unit, if every unit had as many rows as the bound allows. With
/// more counters, fewer units share one.
const SPREAD: usize = 8;

/// The least and the largest number of counters.
const FEWEST: usize = 1 << 10;
const MOST: usize = 1 << 24;

/// With more counters than this, nearly every row waits for memory, so a share of the units is
/// counted first. Unit tests use a smaller limit, so that small tables take this way too.
const MANY: usize = if cfg!(test) { FEWEST } else { 1 << 21 };

/// A unit belongs to the share if the number of its full-table counter ends with this many zero
/// bits.
const SHARE_BITS: u32 = 8;

/// Counts rows by the number of their unit.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(crate) struct RowCounts {
    counters: Counters,
    most: u16,
    /// The number of rows that found their counter at its maximum.
    more: u64,
    /// The number of last bits of a number that choose a counter, if all units are counted.
    bits: u32,
    /// Whether only a share of the units is counted.
    of_a_share: bool,
}

/// Counters that stop at their maximum, which exceeds the bound. They are as small as the bound
/// allows, because they are accessed at random, and smaller ones are more often in the processor's
/// cache.
#[cfg_attr(test, derive(Debug, PartialEq))]
enum Counters {
    Bytes(Vec<u8>),
    Halves(Vec<u16>),
}

/// Evaluates `$do` for counters of either size.
macro_rules! either {
    ($counters:expr, $counts:ident => $do:expr) => {
        match $counters {
            Counters::Bytes($counts) => $do,
            Counters::Halves($counts) => $do,
        }
    };
}

/// The numbers whose counter exceeds the bound.
pub(crate) struct Crowded {
    /// One bit for each counter.
    words: Vec<u64>,
    /// The number of last bits of a number that choose a counter.
    bits: u32,
    any: bool,
    usual: bool,
    /// The number of rows that were counted with these numbers; `None` if they were not counted.
    rows: Option<u64>,
}

impl RowCounts {
    /// For `rows` rows in all, and units that keep all their rows if they have at most `most`.
    /// Takes at most `room` bytes, unless even the fewest counters take more.
    pub(crate) fn new(most: u64, rows: usize, room: usize) -> Self {
        let most = u16::try_from(most).unwrap_or(u16::MAX).min(u16::MAX - 1);
        let wanted = (rows / usize::from(most).max(1)).saturating_mul(SPREAD);
        let mut counters = wanted.clamp(FEWEST, MOST).next_power_of_two();
        while counters > FEWEST && counters * Counters::bytes_for(most) > room {
            counters /= 2;
        }
        let bits = counters.trailing_zeros();
        Self { counters: Counters::new(counters, most), most, more: 0, bits, of_a_share: false }
    }

    /// The same number of counters for the same bound, all zero.
    pub(crate) fn emptied(&self) -> Self {
        Self { counters: Counters::new(self.counters.len(), self.most), more: 0, ..*self }
    }

    /// Counters for a share of the units, all zero; `None` if counting all units costs little.
    pub(crate) fn of_a_share(&self) -> Option<Self> {
        let counters = (self.counters.len() >> SHARE_BITS).max(FEWEST);
        let is_smaller = self.counters.len() > MANY;
        let counters = is_smaller.then(|| Counters::new(counters, self.most))?;
        Some(Self { counters, more: 0, of_a_share: true, ..*self })
    }

    /// The number of last bits of a number that choose a counter.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Whether only a share of the units is counted; see [`ends_as_share`].
    pub(in crate::operator::bound_contributions) fn is_of_a_share(&self) -> bool {
        self.of_a_share
    }

    /// The number of counters.
    pub(in crate::operator::bound_contributions) fn len(&self) -> usize {
        self.counters.len()
    }

    /// The counter that counts this number; `None` if its unit does not belong to the share.
    pub(in crate::operator::bound_contributions) fn position(&self, number: u64) -> Option<usize> {
        let at = position(number, self.bits);
        if self.of_a_share { in_share(at) } else { Some(at) }
    }

    /// Counts the rows of these numbers.
    pub(in crate::operator::bound_contributions) fn add_all(&mut self, numbers: &[u64]) {
        self.add_each(numbers.iter().copied());
    }

    /// Counts the rows of these numbers as they come.
    pub(in crate::operator::bound_contributions) fn add_each(
        &mut self,
        numbers: impl Iterator<Item = u64>,
    ) {
        let bits = self.bits;
        let all = numbers.map(|number| position(number, bits));
        self.more += either!(&mut self.counters, counts => match self.of_a_share {
            true => count(counts, all.filter_map(in_share)),
            false => count(counts, all),
        });
    }

    /// Counts rows, given the distances of their counters from the `first` one.
    pub(in crate::operator::bound_contributions) fn add_behind(
        &mut self,
        first: usize,
        rows: &[u16],
    ) {
        let all = rows.iter().map(|at| usize::from(*at));
        self.more += either!(&mut self.counters, counts => count(&mut counts[first..], all));
    }

    /// Adds the counts of other rows. They were made for the same bound and the same total number
    /// of rows.
    ///
    /// # Guarantee
    /// Then no counter is below the number of rows that both counted in it, unless it is at its
    /// maximum.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.more += other.more;
        self.more += match (&mut self.counters, &other.counters) {
            (Counters::Bytes(own), Counters::Bytes(other)) => absorb(own, other),
            (Counters::Halves(own), Counters::Halves(other)) => absorb(own, other),
            // The other counters have another bound, so any unit may exceed this one.
            (Counters::Bytes(own), Counters::Halves(_)) => {
                own.fill(u8::MAX);
                0
            }
            (Counters::Halves(own), Counters::Bytes(_)) => {
                own.fill(u16::MAX);
                0
            }
        };
    }

    /// The bytes in use.
    pub(crate) fn size(&self) -> usize {
        self.counters.bytes()
    }

    /// The counters above the bound.
    ///
    /// # Guarantee
    /// For all sequences of numbers: a number that was added more than `most` times is in the set.
    /// Exact in this direction.
    pub(crate) fn finish(self) -> Crowded {
        let (words, rows, used) = either!(&self.counters, counts => above(counts, self.most));
        let crowded: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        let rows = Some(rows + self.more);
        Crowded { words, bits: self.bits, any: crowded > 0, usual: crowded > used / 2, rows }
    }

    /// The set of all numbers, if most of the used counters are above the bound.
    ///
    /// # Guarantee
    /// The set contains every number, so that no unit above the bound is missed, whatever was
    /// counted.
    pub(crate) fn all_if_usual(self) -> Option<Crowded> {
        let words = vec![u64::MAX];
        let all = Crowded { words, bits: 0, any: true, usual: true, rows: None };
        self.finish().usual.then_some(all)
    }
}

impl Counters {
    fn new(counters: usize, most: u16) -> Self {
        match u8::try_from(most) {
            Ok(most) if most < u8::MAX => Self::Bytes(vec![0; counters]),
            _ => Self::Halves(vec![0; counters]),
        }
    }

    /// The bytes of a counter for this bound.
    fn bytes_for(most: u16) -> usize {
        Self::new(1, most).bytes()
    }

    fn bytes(&self) -> usize {
        either!(self, counts => size_of_val(counts.as_slice()))
    }

    fn len(&self) -> usize {
        either!(self, counts => counts.len())
    }
}

/// Counts one row in each of these counters, unless the counter is at its maximum. The result is
/// the number of rows that found it there.
fn count<T>(counters: &mut [T], all: impl Iterator<Item = usize>) -> u64
where
    T: Copy + One + SaturatingAdd + PartialEq,
{
    let one = |at: usize| {
        let counter = &mut counters[at];
        let before = *counter;
        *counter = before.saturating_add(&T::one());
        u64::from(*counter == before)
    };
    all.map(one).sum()
}

/// The largest count.
fn largest<T: Copy + Ord + Into<u64>>(counts: &[T]) -> u64 {
    counts.iter().copied().max().map_or(0, Into::into)
}

/// Adds counts to others, up to their maximum. The result is the sum of what exceeds it.
fn absorb<T>(counts: &mut [T], others: &[T]) -> u64
where
    T: Copy + Ord + Into<u64> + Bounded + SaturatingAdd,
{
    let mut more = 0;
    for (counts, others) in counts.chunks_mut(64).zip(others.chunks(64)) {
        if largest(counts) + largest(others) > T::max_value().into() {
            let lost = counts.iter().zip(others).map(|(own, other)| {
                let sum = own.saturating_add(other);
                (*own).into() + (*other).into() - sum.into()
            });
            more += lost.sum::<u64>();
        }
        for (own, other) in counts.iter_mut().zip(others) {
            *own = own.saturating_add(other);
        }
    }
    more
}

/// A bit for each counter above the bound, the sum of these counters, and the number of counters
/// that are not zero.
fn above<T: Copy + Ord + Into<u64> + Zero>(counts: &[T], most: u16) -> (Vec<u64>, u64, usize) {
    let (most, mut rows, mut used) = (u64::from(most), 0, 0);
    let words = counts.chunks(64).map(|counts| {
        used += usize::from(counts.iter().map(|count| u8::from(!count.is_zero())).sum::<u8>());
        // In most cases no counter is above.
        if largest(counts) <= most {
            return 0;
        }
        counts.iter().zip(0_u32..).fold(0_u64, |word, (count, bit)| {
            let count: u64 = (*count).into();
            let is_above = count > most;
            rows += if is_above { count } else { 0 };
            word | u64::from(is_above) << bit
        })
    });
    let words = words.collect();
    (words, rows, used)
}

impl Crowded {
    /// Whether the unit of this number may have more rows than the bound allows.
    pub(crate) fn has(&self, number: u64) -> bool {
        let at = position(number, self.bits);
        self.words.get(at / 64).is_none_or(|word| word >> (at % 64) & 1 == 1)
    }

    /// Replaces `rows` by the places of the numbers that are in the set and are asked for.
    ///
    /// Whether a number is in the set is hard to foresee for a processor, so nothing branches on
    /// it.
    pub(in crate::operator::bound_contributions) fn find(
        &self,
        numbers: impl ExactSizeIterator<Item = (u64, bool)>,
        rows: &mut Vec<u32>,
    ) {
        rows.clear();
        rows.resize(numbers.len(), 0);
        let mut found = 0;
        for ((number, is_asked), row) in numbers.zip(0..) {
            rows[found] = row;
            found += usize::from(self.has(number) & is_asked);
        }
        rows.truncate(found);
    }

    /// The number of last bits of a number that choose a counter.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Whether the set contains any number.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// The number of rows that were counted with these numbers; `None` if they were not counted.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// Whether most units are in the set. Then adding the others by column does not pay off.
    pub(crate) fn is_usual(&self) -> bool {
        self.usual
    }

    /// The bytes in use.
    pub(crate) fn size(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// Whether the unit of a number with these last bits belongs to the share.
pub(in crate::operator::bound_contributions) fn ends_as_share(last_bits: u32) -> bool {
    last_bits & ((1 << SHARE_BITS) - 1) == 0
}

/// Maps a full-table counter index to its index in the share; `None` if its units do not belong to
/// the share.
fn in_share(at: usize) -> Option<usize> {
    (at.trailing_zeros() >= SHARE_BITS).then_some(at >> SHARE_BITS)
}

/// The counter for a number: its last `bits` bits.
fn position(number: u64, bits: u32) -> usize {
    usize::try_from(number & ((1 << bits) - 1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Counters, RowCounts, position};

    /// Every number that was added more often than the bound is found, even if numbers share
    /// counters.
    #[test]
    fn no_number_above_the_bound_is_missed() {
        let mut state = 5_u64;
        for most in [0, 1, 2, 7, 50, 65_534, 65_535, 1 << 40] {
            for distinct in [1, 40, 5_000] {
                let mut counts = RowCounts::new(most, 0, usize::MAX);
                let mut other = counts.emptied();
                let mut exact = vec![0_u64; distinct];
                for turn in 0..distinct * 3 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let one = usize::try_from(state >> 33).unwrap() % distinct;
                    let times = if turn % 7 == 0 { most.min(70_000) + turn as u64 % 2 } else { 1 };
                    exact[one] += times;
                    let counts = if turn % 3 == 0 { &mut other } else { &mut counts };
                    (0..times).for_each(|_| counts.add_all(&[number(one)]));
                }
                counts.absorb(&other);
                assert!(counts.counters.len().is_power_of_two());
                let crowded = counts.finish();
                for (one, rows) in exact.iter().enumerate() {
                    assert!(*rows <= most || crowded.has(number(one)), "{rows} of {most}");
                }
                let rows =
                    (0..distinct).filter(|one| crowded.has(number(*one))).map(|one| exact[one]);
                assert_eq!(crowded.rows(), Some(rows.sum()), "{most} {distinct}");
                assert_eq!(crowded.any(), (0..distinct).any(|one| crowded.has(number(one))));
                if distinct == 1 && most < 65_535 {
                    assert_eq!(crowded.has(number(0)), exact[0] > most);
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
            (0..most).for_each(|_| counts.add_all(&[number(1)]));
            (0..=most).for_each(|_| counts.add_all(&[number(2)]));
            let bits = counts.bits();
            assert_ne!(position(number(1), bits), position(number(2), bits));
            let crowded = counts.finish();
            assert!(!crowded.has(number(1)) && crowded.has(number(2)) && crowded.any());
        }
        let none = RowCounts::new(3, 0, usize::MAX).finish();
        assert!(!none.any() && !none.is_usual() && !none.has(number(3)));
    }

    /// A share of the units tells whether most exceed the bound; then all units are suspects.
    #[test]
    fn a_share_tells_what_is_usual() {
        assert!(RowCounts::new(50, 1_000, usize::MAX).of_a_share().is_none());
        for (rows_of_each, usual) in [(1, false), (2, false), (3, true), (9, true)] {
            let all = RowCounts::new(2, 60_000, usize::MAX);
            let mut share = all.of_a_share().unwrap();
            assert!(share.size() < all.size() && share.emptied().of_a_share);
            for one in 0..20_000 {
                (0..rows_of_each).for_each(|_| share.add_all(&[number(one)]));
            }
            // Units outside of the share are not counted.
            let counted: u32 = either!(&share.counters, counts => counts.iter().map(|count| u32::from(*count)).sum());
            assert!((30..160).contains(&(counted / rows_of_each)), "{counted}");
            let found = share.all_if_usual();
            assert_eq!(found.is_some(), usual, "{rows_of_each}");
            let Some(found) = found else { continue };
            assert!(found.is_usual() && found.any() && found.rows().is_none());
            assert!((0..20_000).all(|one| found.has(number(one))));
        }
    }

    fn number(one: usize) -> u64 {
        u64::try_from(one + 1).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    }
}
