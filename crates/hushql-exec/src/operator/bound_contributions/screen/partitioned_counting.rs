//! Counts the rows of each unit, where counters are many: those of the same part of the counters
//! wait, and are counted together.
//!
//! In: a number for each row. Out: the same [`RowCounts`] as if each had been counted at once. A
//! counter that is chosen at random among 16 million is seldom in the processor's cache: a row
//! waits for memory three times as long as it takes to write its counter down, in a list of the
//! counters that are close to it. A full list is counted in one go, by counters that fit the cache.
//! It guarantees that every row has been counted once [`Counting::finish`] gives the counters away,
//! and nothing else does.
//!
//! ```text
//! let mut counting = Counting::new(counts, |bytes| reserve(bytes))?;
//! numbers.for_each(|number| counting.add(number)); // 0x2_0007, 0x1_0003 … ─▶ list 2: 0x0007; list 1: 0x0003
//! counting.finish()
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::row_count_filter::RowCounts;

/// More counters than these do not fit the processor's cache. Fewer in unit tests, so that small
/// tables take this way too.
const MANY: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };

/// So many last bits of a counter's number are written down, the others choose the list.
const BITS: u32 = if cfg!(test) { 8 } else { 16 };

/// The rows of a full list: enough that most lines of its counters are met several times.
const LENGTH: usize = if cfg!(test) { 20 } else { 1 << 14 };

/// So far apart lists begin. Lists grow alike: if they began at multiples of a power of two, their
/// ends would compete for the same few lines of the processor's nearest cache.
const STRIDE: usize = LENGTH + 32;

/// So many numbers are looked at together, in a loop of its own for each kind of counter.
const TOGETHER: usize = if cfg!(test) { 7 } else { 1 << 10 };

/// Counts rows.
pub(crate) struct Counting {
    counts: RowCounts,
    waiting: Option<UncountedRows>,
    /// The numbers of the last rows.
    numbers: Vec<u64>,
}

/// The rows that are not counted yet: for each part of the counters, the last bits of the numbers
/// of those that count them.
struct UncountedRows {
    /// All lists, one behind the other.
    rows: Vec<u16>,
    /// How many rows wait in each list.
    lengths: Vec<usize>,
}

impl UncountedRows {
    /// So many lists are needed for these counters; `None` where counters are few.
    fn lists(counts: &RowCounts) -> Option<usize> {
        (counts.len() > MANY).then_some(counts.len() >> BITS)
    }

    /// The bytes of so many lists.
    fn bytes(lists: usize) -> usize {
        lists * STRIDE * size_of::<u16>()
    }

    fn new(lists: usize) -> Self {
        Self { rows: vec![0; lists * STRIDE], lengths: vec![0; lists] }
    }

    /// Lets a row wait for the counter that counts it; if its list is full, all rows of the list
    /// are counted.
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
    /// Counts rows in addition to those of `counts`. Memory is reserved by `reserve`, for the
    /// counters and, where there is enough, for rows that wait.
    ///
    /// # Errors
    /// That of `reserve`, if there is too little for the counters.
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

    /// So many last bits of a number choose a counter.
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

    /// Counts the last rows, or lets them wait for their counters.
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

    /// The counters of all rows.
    ///
    /// # Guarantee
    /// For all sequences of rows: the counters are those of [`RowCounts::add_all`].
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

    /// As many rows as there are, whether they wait or not, and whatever was counted before.
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
