//! The description of a synthetic table that the vault keeps with its rows: how they were made, and
//! the errors of its marginals.

use serde::{Deserialize, Serialize};

/// How the rows of a synthetic table were made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredSynthetic {
    /// The method with its parameters, as in the charge.
    pub(super) method: String,
    /// The word for the noise: Laplace, Gaussian, or no.
    pub(super) noise: String,
    /// The noisy number of rows, or of persons.
    pub(super) total: f64,
    /// Whether the total counts persons.
    pub(super) persons: bool,
    /// The number of chosen sets of columns.
    pub(super) rounds: u32,
    /// The codes of each column: its name, and a text.
    pub(super) codes: Vec<(String, String)>,
    /// The marginals with a bound.
    pub(super) marginals: Vec<StoredMarginal>,
}

/// The error of a marginal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredMarginal {
    /// The numbers of its columns.
    pub(super) columns: Vec<usize>,
    /// Whether it was measured, or is part of one that was.
    pub(super) measured: bool,
    /// The largest error of all cells together, in rows or persons.
    pub(super) within: f64,
}
