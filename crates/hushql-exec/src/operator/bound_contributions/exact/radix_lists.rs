//! Distributes entries over 256 lists.
//!
//! In: entries, each with its bucket. Out: for each bucket a list of its entries, in order of
//! arrival. A processor writes to a few lists at a time as fast as to one, but to 256 far more
//! slowly, because their ends do not fit its nearest cache. Entries of long lists therefore wait
//! side by side, and reach their list eight at a time. Each list takes about the memory that it is
//! expected to need.
//!
//! ```text
//! push(3, a), push(7, b), push(3, c), …   waiting   3: a c …   7: b …
//!                                         lists     3: 8 at a time
//! ```

use std::mem::size_of;

use super::rows_by_unit::BUCKETS;

/// The number of entries of a bucket that wait together.
const TOGETHER: usize = 8;

/// Entries wait if each list is expected to get at least this many: then the waiting places take
/// little memory compared with the lists.
const MANY: usize = 64;

/// The expected length of a list.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator::bound_contributions) struct Expected {
    pub(in crate::operator::bound_contributions) entries: usize,
    /// Whether most lists stay empty instead.
    pub(in crate::operator::bound_contributions) in_few: bool,
}

/// One list for each bucket.
pub(in crate::operator::bound_contributions) struct Lists<T> {
    full: Vec<Vec<T>>,
    waiting: Option<Box<UnsortedEntries<T>>>,
    /// The expected number of entries of each list.
    expected: usize,
}

/// The entries that are not in their list yet.
struct UnsortedEntries<T> {
    entries: [[T; TOGETHER]; BUCKETS],
    /// The number of entries that wait for each list.
    counts: [u8; BUCKETS],
}

impl<T: Copy + Default> Lists<T> {
    /// Empty lists.
    pub(in crate::operator::bound_contributions) fn new(expected: Expected) -> Self {
        let Expected { entries, in_few } = expected;
        let waiting = || UnsortedEntries {
            entries: [[T::default(); TOGETHER]; BUCKETS],
            counts: [0; BUCKETS],
        };
        let waiting = (entries >= MANY && !in_few).then(|| Box::new(waiting()));
        Self { full: vec![Vec::new(); BUCKETS], waiting, expected: entries }
    }

    /// Adds an entry.
    #[inline]
    pub(in crate::operator::bound_contributions) fn push(&mut self, bucket: u8, entry: T) {
        let at = usize::from(bucket);
        let Some(waiting) = &mut self.waiting else {
            return append(&mut self.full[at], &[entry], self.expected);
        };
        let count = &mut waiting.counts[at];
        waiting.entries[at][usize::from(*count) % TOGETHER] = entry;
        *count += 1;
        if usize::from(*count) == TOGETHER {
            *count = 0;
            append(&mut self.full[at], &waiting.entries[at], self.expected);
        }
    }

    /// The bytes in use, if each entry takes `of_entry` bytes.
    pub(in crate::operator::bound_contributions) fn bytes(&self, of_entry: usize) -> usize {
        let full: usize = self.full.iter().map(Vec::capacity).sum();
        let waiting = if self.waiting.is_some() { BUCKETS * TOGETHER } else { 0 };
        (full + waiting) * of_entry
    }

    /// The bytes in use.
    pub(in crate::operator::bound_contributions) fn size(&self) -> usize {
        self.bytes(size_of::<T>())
    }

    /// The entries of each bucket.
    pub(in crate::operator::bound_contributions) fn into_lists(mut self) -> Vec<Vec<T>> {
        if let Some(waiting) = self.waiting {
            let UnsortedEntries { entries, counts } = *waiting;
            for ((list, entries), count) in self.full.iter_mut().zip(&entries).zip(counts) {
                // No more than `size` counted as the places of waiting entries.
                list.reserve_exact(usize::from(count));
                list.extend_from_slice(&entries[..usize::from(count)]);
            }
        }
        self.full
    }
}

/// Adds entries to a list that is expected to get `expected` of them. A list that grows by doubling
/// touches up to three times the memory that it needs, and the system clears all of it first.
fn append<T: Copy>(list: &mut Vec<T>, entries: &[T], expected: usize) {
    if list.capacity() - list.len() < entries.len() {
        let more = if list.is_empty() { expected } else { list.len() / 4 };
        list.reserve_exact(more.max(2 * TOGETHER));
    }
    list.extend_from_slice(entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each entry is in the list of its bucket, in order of arrival, whatever length was expected.
    #[test]
    fn entries_are_in_the_list_of_their_bucket() {
        let cases = [
            (0, false),
            (1, false),
            (MANY - 1, false),
            (MANY, false),
            (MANY, true),
            (1_000, false),
        ];
        for (expected, in_few) in cases {
            for entries in [0, 1, 7, 8, 9, 5_000_u32] {
                let bucket = |i: u32| i.wrapping_mul(0x9e37_79b1).to_be_bytes()[0];
                let mut lists = Lists::new(Expected { entries: expected, in_few });
                (0..entries).for_each(|i| lists.push(bucket(i), i));
                assert!(lists.size() >= entries as usize * size_of::<u32>());
                let size = lists.size();
                let lists = lists.into_lists();
                assert_eq!(lists.len(), BUCKETS);
                // All reserved memory is counted.
                let reserved: usize = lists.iter().map(Vec::capacity).sum();
                assert!(reserved * size_of::<u32>() <= size);
                for (at, list) in (0..=u8::MAX).zip(lists) {
                    assert!(list.iter().copied().eq((0..entries).filter(|i| bucket(*i) == at)));
                }
            }
        }
    }
}
