//! Counts the rows of each unit by many counters: rows whose counters are close to each other wait
//! in a list, and are counted together.
//!
//! In: a number for each row. Out: the same [`RowCounts`] as if each row had been counted
//! immediately. A random counter among 16 million is seldom in the processor's cache. Fetching it
//! from memory takes three times as long as writing its number into a list of nearby counters. A
//! full list is counted in one go, with counters that fit the cache. It guarantees that every row
//! has been counted when [`Counting::finish`] returns the counters, and nothing else returns them.
//!
//! ```text
//! let mut counting = Counting::new(counts, |bytes| reserve(bytes))?;
//! numbers.for_each(|number| counting.add(number)); // 0x2_0007, 0x1_0003 … ─▶ list 2: 0x0007; list 1: 0x0003
//! counting.finish()
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::row_count_filter::RowCounts;

/// With more counters than this, they do not fit the processor's cache. Unit tests use a smaller
/// limit, so that small tables take this way too.
const MANY: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };

/// The number of last bits of a counter's number that a list holds. The other bits choose the list.
const BITS: u32 = if cfg!(test) { 8 } else { 16 };

/// The rows of a full list: enough that most lines of its counters are met several times.
const LENGTH: usize = if cfg!(test) { 20 } else { 1 << 14 };

/// The distance between the beginnings of two lists. Lists grow alike: if they began at multiples
/// of a power of two, their ends would compete for the same few lines of the processor's nearest
/// cache.
const STRIDE: usize = LENGTH + 32;

/// The number of rows that are handled together, in a loop of its own for each kind of counter.
const TOGETHER: usize = if cfg!(test) { 7 } else { 1 << 10 };

/// Counts rows.
pub(crate) struct Counting {
    counts: RowCounts,
    waiting: Option<UncountedRows>,
    /// The numbers of the last rows.
    numbers: Vec<u64>,
}

/// The rows that are not counted yet: for each part of the counters, the last bits of their
/// counters' numbers.
struct UncountedRows {
    /// All lists, one behind the other.
    rows: Vec<u16>,
    /// How many rows wait in each list.
    lengths: Vec<usize>,
}

impl UncountedRows {
    /// The number of lists for these counters; `None` if there are few counters.
    fn lists(counts: &RowCounts) -> Option<usize> {
        (counts.len() > MANY).then_some(counts.len() >> BITS)
    }

    /// The bytes of this number of lists.
    fn bytes(lists: usize) -> usize {
        lists * STRIDE * size_of::<u16>()
    }

    fn new(lists: usize) -> Self {
        Self { rows: vec![0; lists * STRIDE], lengths: vec![0; lists] }
    }

    /// Puts a row into the list of its counter, and counts the list when it is full.
    #[expect(clippy::cast_possible_truncation, reason = "the bits that are cut choose the list")]
    fn push(&mut self, at: usize, counts: &mut RowCounts) {
        let list = at >> BITS;
        let rows = &mut self.rows[list * STRIDE..][..LENGTH];
        let length = &mut self.lengths[list];
        rows[*length] = (at & ((1 << BITS) - 1)) as u16;
        *length += 1;
        if *length == LENGTH {
            counts.add_behind(list << BITS, rows);
            *length = 0;
        }
    }

    /// Counts all rows that wait.
    fn finish(&self, counts: &mut RowCounts) {
        for (list, length) in self.lengths.iter().enumerate() {
            counts.add_behind(list << BITS, &self.rows[list * STRIDE..][..*length]);
        }
    }
}

impl Counting {
    /// Counts rows in addition to those of `counts`. `reserve` reserves memory for the counters
    /// and, if there is enough, for waiting rows.
    ///
    /// # Errors
    /// The error of `reserve`, if there is too little memory for the counters.
    pub(crate) fn new(counts: RowCounts, reserve: impl Fn(usize) -> Result<()>) -> Result<Self> {
        let size = counts.size();
        let lists = UncountedRows::lists(&counts)
            .filter(|lists| reserve(size.saturating_add(UncountedRows::bytes(*lists))).is_ok());
        if lists.is_none() {
            reserve(size)?;
        }
        let numbers = Vec::with_capacity(TOGETHER);
        Ok(Self { counts, waiting: lists.map(UncountedRows::new), numbers })
    }

    /// The number of last bits of a number that choose a counter.
    pub(in crate::operator::bound_contributions) fn bits(&self) -> u32 {
        self.counts.bits()
    }

    /// Whether only the units of a share are counted.
    pub(in crate::operator::bound_contributions) fn is_of_a_share(&self) -> bool {
        self.counts.is_of_a_share()
    }

    /// Counts a row.
    #[inline]
    pub(crate) fn add(&mut self, number: u64) {
        self.numbers.push(number);
        if self.numbers.len() == TOGETHER {
            self.count();
        }
    }

    /// Counts rows as they come.
    pub(in crate::operator::bound_contributions) fn add_each(
        &mut self,
        numbers: impl Iterator<Item = u64>,
    ) {
        match self.waiting {
            None => self.counts.add_each(numbers),
            Some(_) => numbers.for_each(|number| self.add(number)),
        }
    }

    /// Counts the last rows, or puts them into lists.
    fn count(&mut self) {
        let Self { counts, waiting, numbers } = self;
        match waiting {
            None => counts.add_all(numbers),
            Some(waiting) => {
                for number in numbers.iter() {
                    if let Some(at) = counts.position(*number) {
                        waiting.push(at, counts);
                    }
                }
            }
        }
        numbers.clear();
    }

    /// Counts the waiting rows and returns the counters.
    ///
    /// # Guarantee
    /// For all sequences of rows: the counters equal those of [`RowCounts::add_all`].
    pub(crate) fn finish(mut self) -> RowCounts {
        self.count();
        if let Some(waiting) = self.waiting {
            waiting.finish(&mut self.counts);
        }
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::internal_err;

    use super::*;

    /// The counts are the same whether or not rows wait, and whatever was counted before.
    #[test]
    fn counters_are_those_of_rows_that_do_not_wait() {
        let mut state = 9_u64;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 20
        };
        for (most, rows) in [(1, 300), (3, 5_000), (60, 40_000), (300, 90_000)] {
            for (room, waits) in [(usize::MAX, true), (0, false)] {
                let empty = RowCounts::new(most, 100_000, usize::MAX);
                let mut direct = empty.emptied();
                let reserve = |bytes| match bytes == empty.size() || room > 0 {
                    true => Ok(()),
                    false => internal_err!("too little"),
                };
                let mut counting = Counting::new(empty.emptied(), reserve).unwrap();
                assert_eq!(counting.waiting.is_some(), waits && empty.len() > MANY);
                assert_eq!(counting.bits(), direct.bits());
                // Some numbers are frequent.
                let numbers =
                    (0..rows).map(|row| if row % 5 == 0 { number() % 64 } else { number() });
                let numbers: Vec<u64> = numbers.collect();
                direct.add_all(&numbers);
                numbers.iter().for_each(|number| counting.add(*number));
                assert_eq!(counting.finish(), direct, "{most} {rows} {waits}");
            }
        }
        let counts = RowCounts::new(1, 100_000, usize::MAX);
        assert!(counts.len() > MANY);
        assert!(Counting::new(counts, |_| internal_err!("too little")).is_err());
    }
}
