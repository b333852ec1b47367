//! Lists whose length is known in advance, more or less.
//!
//! In: one entry after the other. Out: a list that took about the memory that it needs.

/// Adds to a list that is expected to get so many entries. One that doubles touches up to three times as much memory, which the system
/// clears first.
pub(super) fn push_expected<T>(list: &mut Vec<T>, one: T, expected: usize) {
    if list.len() == list.capacity() {
        let more = if list.is_empty() { expected } else { list.len() / 4 };
        list.reserve_exact(more.max(16));
    }
    list.push(one);
}
