//! Recursion over deep queries with enough stack.

/// Runs one step of a recursive walk with enough stack, so that a deep query ends in an answer or a
/// refusal, not in an abort.
pub(crate) fn deeper<T>(step: impl FnOnce() -> T) -> T {
    const RED_ZONE: usize = 256 * 1024;
    const MORE: usize = 4 * 1024 * 1024;
    stacker::maybe_grow(RED_ZONE, MORE, step)
}
