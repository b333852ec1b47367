//! Counts the rows of each unit, where counters are many: those of the same part of the counters wait, and are counted together.
//!
//! In: a number for each row. Out: the same [`RowCounts`] as if each had been counted at once. A counter that is chosen at random
//! among 16 million is seldom in the processor's cache: a row waits for memory three times as long as it takes to write its
//! counter down, in a list of the counters that are close to it. A full list is counted in one go, by counters that fit the cache. It
//! guarantees that every row has been counted once [`Counting::finish`] gives the counters away, and nothing else does.
//!
//! ```text
//! let mut counting = Counting::new(counts, |bytes| reserve(bytes))?;
//! numbers.for_each(|number| counting.add(number)); // 0x2_0007, 0x1_0003 … ─▶ list 2: 0x0007; list 1: 0x0003
//! counting.finish()
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::crowded::RowCounts;

/// More counters than these do not fit the processor's cache. Fewer in unit tests, so that small tables take this way too.
const MANY: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };

/// So many last bits of a counter's number are written down, the others choose the list.
const BITS: u32 = if cfg!(test) { 8 } else { 16 };

/// The rows of a full list: enough that most lines of its counters are met several times.
const LENGTH: usize = if cfg!(test) { 20 } else { 1 << 14 };

/// Counts rows.
pub(crate) struct Counting {
    counts: RowCounts,
    waiting: Option<Waiting>,
}

/// The rows that are not counted yet.
struct Waiting {
    /// For each part of the counters, the last bits of the numbers of those that count the next rows.
    lists: Vec<Vec<u16>>,
}

impl Waiting {
    /// So many lists are needed for these counters; `None` where counters are few.
    fn lists(counts: &RowCounts) -> Option<usize> {
        (counts.len() > MANY).then_some(counts.len() >> BITS)
    }
}

impl Counting {
    /// Counts rows in addition to those of `counts`. Memory is reserved by `reserve`, for the counters and, where there is enough,
    /// for rows that wait.
    ///
    /// # Errors
    /// That of `reserve`, if there is too little for the counters.
    pub(crate) fn new(counts: RowCounts, reserve: impl Fn(usize) -> Result<()>) -> Result<Self> {
        let size = counts.size();
        let lists = Waiting::lists(&counts).filter(|lists| {
            reserve(size.saturating_add(lists * LENGTH * size_of::<u16>())).is_ok()
        });
        let Some(lists) = lists else {
            reserve(size)?;
            return Ok(Self { counts, waiting: None });
        };
        let lists = (0..lists).map(|_| Vec::with_capacity(LENGTH)).collect();
        Ok(Self { counts, waiting: Some(Waiting { lists }) })
    }

    /// So many last bits of a number choose a counter.
    pub(super) fn bits(&self) -> u32 {
        self.counts.bits()
    }

    /// Counts a row.
    #[expect(clippy::cast_possible_truncation, reason = "the bits that are cut choose the list")]
    pub(crate) fn add(&mut self, number: u64) {
        let Some(Waiting { lists }) = &mut self.waiting else { return self.counts.add(number) };
        let Some(at) = self.counts.position(number) else { return };
        let list = &mut lists[at >> BITS];
        list.push((at & ((1 << BITS) - 1)) as u16);
        if list.len() == LENGTH {
            self.counts.add_behind(at >> BITS << BITS, list);
            list.clear();
        }
    }

    /// The counters of all rows.
    ///
    /// # Guarantee
    /// For all sequences of rows: the counters are those of [`RowCounts::add`] for each of them.
    pub(crate) fn finish(mut self) -> RowCounts {
        let lists = self.waiting.into_iter().flat_map(|waiting| waiting.lists);
        for (i, list) in lists.enumerate() {
            self.counts.add_behind(i << BITS, &list);
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
                for row in 0..rows {
                    // Some numbers are frequent.
                    let number = if row % 5 == 0 { number() % 64 } else { number() };
                    direct.add(number);
                    counting.add(number);
                }
                assert_eq!(counting.finish(), direct, "{most} {rows} {waits}");
            }
        }
        let counts = RowCounts::new(1, 100_000, usize::MAX);
        assert!(counts.len() > MANY);
        assert!(Counting::new(counts, |_| internal_err!("too little")).is_err());
    }
}
