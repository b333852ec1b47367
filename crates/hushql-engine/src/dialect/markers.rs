//! The names of the functions that represent releases, their candidates and parameters in a
//! rewritten tree.
//!
//! In: the number of a release. Out: a reserved name, and the number back.

use crate::catalog::RESERVED;

/// The name of the aggregate function that represents release `n` in a rewritten tree.
pub fn marker(n: usize) -> String {
    format!("{RESERVED}_release_{n}")
}

/// The number of the release that an aggregate function represents. `None` if the function's name
/// is not a marker.
pub fn marked(name: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix("_release_")?.parse().ok()
}

/// The name of the function that represents the candidate of release `n` inside its BY.
pub fn candidate_marker(n: usize) -> String {
    format!("{RESERVED}_candidate_{n}")
}

/// The number of the release whose candidate a function represents. `None` if the function's name
/// is not such a marker.
pub fn candidate_of(name: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix("_candidate_")?.parse().ok()
}

/// The name of the function that represents parameter `n`, counted from 1, before it has a value.
pub(crate) fn parameter_marker(n: usize) -> String {
    format!("{RESERVED}_parameter_{n}")
}

/// The position, from 1 on, of the parameter that a function represents. `None` if the function's
/// name is not such a marker.
pub(crate) fn parameter_of(name: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix("_parameter_")?.parse().ok()
}
