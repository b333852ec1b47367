//! Looks up keys that are close to each other: a bit for each number says whether it is a key.
//!
//! In: the keys of all rows. Out: the last row of each key. The bits before a key's bit give the
//! number of smaller keys. If keys ascend from row to row, as serial numbers do, this is the place
//! of the row.
//!
//! ```text
//! keys of rows 0 1 2 3    9 11 12 70    words from 9 on    1011 0000 …    01 0000 …
//!                                       keys before        0              3
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::row_keys::{Before, Keys, NONE};

/// The table has at most this many bits for each row, on average.
const NUMBERS_OF_A_ROW: usize = 32;

/// The last row of each key.
pub(super) struct CloseKeys {
    least: u64,
    words: Vec<Word>,
    last: Last,
}

/// Which of 64 numbers are keys, and how many keys are smaller than all of these numbers.
#[derive(Clone, Copy, Default)]
struct Word {
    keys: u64,
    before: u32,
}

/// The last row of each key, from the least key on.
enum Last {
    /// Each row has a key that is greater than the key of the row before.
    InOrder,
    Of(Vec<u32>),
}

impl CloseKeys {
    /// The last row of each key, and for each row the previous row with the same key; `None` if the
    /// keys are too far from each other.
    ///
    /// # Errors
    /// An error with a constant text for keys of another type.
    pub(super) fn of(keys: &Keys, before: &mut Before) -> Result<Option<Self>> {
        let (mut least, mut most) = (u64::MAX, 0);
        keys.each(|_, code| (least, most) = (least.min(code), most.max(code)))?;
        let last = usize::try_from(most.saturating_sub(least)).ok();
        let Some(last) = last.filter(|last| last / NUMBERS_OF_A_ROW <= keys.rows) else {
            return Ok(None);
        };
        let words = vec![Word::default(); last / 64 + 1];
        let mut close = Self { least, words, last: Last::InOrder };
        let (mut rows, mut ascending, mut previous) = (0, true, None);
        keys.each(|_, code| {
            if let Some((word, bit)) = close.slot(code) {
                close.words[word].keys |= bit;
            }
            ascending &= previous < Some(code);
            (rows, previous) = (rows + 1, Some(code));
        })?;
        let mut less = 0;
        for word in &mut close.words {
            word.before = less;
            less += word.keys.count_ones();
        }
        if rows < keys.rows || !ascending {
            let mut last = vec![NONE; less as usize];
            keys.each(|place, code| {
                if let Some(rank) = close.rank(code) {
                    before.set(place, std::mem::replace(&mut last[rank as usize], place));
                }
            })?;
            close.last = Last::Of(last);
        }
        Ok(Some(close))
    }

    /// The place of the last row of a key, or [`NONE`].
    pub(super) fn last(&self, code: u64) -> u32 {
        match (self.rank(code), &self.last) {
            (None, _) => NONE,
            (Some(rank), Last::InOrder) => rank,
            (Some(rank), Last::Of(last)) => last[rank as usize],
        }
    }

    /// The word of a number, and its bit.
    fn slot(&self, code: u64) -> Option<(usize, u64)> {
        let number = code.wrapping_sub(self.least);
        let word = usize::try_from(number / 64).ok().filter(|word| *word < self.words.len());
        Some((word?, 1 << (number % 64)))
    }

    /// The number of smaller keys, if this is a key.
    fn rank(&self, code: u64) -> Option<u32> {
        let (word, bit) = self.slot(code)?;
        let word = self.words[word];
        (word.keys & bit != 0).then(|| word.before + (word.keys & (bit - 1)).count_ones())
    }

    /// Whether the places of rows follow from their keys alone.
    #[cfg(test)]
    pub(super) fn is_in_order(&self) -> bool {
        matches!(self.last, Last::InOrder)
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        let last = match &self.last {
            Last::InOrder => 0,
            Last::Of(last) => last.capacity(),
        };
        self.words.capacity() * size_of::<Word>() + last * size_of::<u32>()
    }
}
