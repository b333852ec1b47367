//! What the vault keeps of a synthetic table beside its rows: how they were made, and how far their
//! marginals are off.

use serde::{Deserialize, Serialize};

/// How the rows of a synthetic table were made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredSynthetic {
    /// The method with its parameters, as it was charged.
    pub(super) method: String,
    /// The noise: Laplace, Gaussian, or no.
    pub(super) noise: String,
    /// The noisy number of rows, or of persons.
    pub(super) total: f64,
    /// Whether it is a number of persons.
    pub(super) persons: bool,
    /// How many sets of columns were chosen.
    pub(super) rounds: u32,
    /// What the columns were coded into, as name and text.
    pub(super) codes: Vec<(String, String)>,
    /// The marginals with a bound.
    pub(super) marginals: Vec<StoredMarginal>,
}

/// How far a marginal is off.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredMarginal {
    /// The numbers of its columns.
    pub(super) columns: Vec<usize>,
    /// Whether it was measured, or is inside of one that was.
    pub(super) measured: bool,
    /// All cells together are off by at most this, in rows or persons.
    pub(super) within: f64,
}
