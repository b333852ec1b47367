//! What comes out: the codes of new rows, and how far their marginals can be off.
//!
//! In: released values and a model of them. Out: columns of codes, one bound for each marginal, and
//! what was spent.
//!
//! ```text
//! Made { columns: [[3, 3, 5, …], [0, 1, 1, …]], errors: [{0}: ±1,220 rows, {0, 1}: ±4,041 rows], … }
//! ```

use thiserror::Error;

use super::columns::{ColumnSet, CountError};
use crate::mechanism::MechanismError;

/// New rows, and what is known of them. Public.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// For each column the code of each row.
    pub columns: Vec<Vec<u16>>,
    /// How far the marginals are off, in the order of their columns.
    pub errors: Vec<MarginalError>,
    /// The noisy number of rows (of persons, where they are weighed).
    pub total: f64,
    /// How many selections were made.
    pub rounds: u32,
    /// What selections and noise used of the budget, in billionths: never more than was charged.
    pub used_nano: u64,
}

/// How far a marginal of the rows made is off.
#[derive(Debug, Clone, PartialEq)]
pub struct MarginalError {
    /// The columns of the marginal.
    pub columns: ColumnSet,
    /// Whether it is inside of one that was measured; otherwise it was only a candidate.
    pub measured: bool,
    /// The sum over all cells of how much the count of the private rows and that of the rows made
    /// differ is at most this, at the confidence of [`MarginalError::CONFIDENCE`] for each marginal
    /// alone: in rows, or persons. The rows made count as many as [`Made::total`] together.
    pub bound: f64,
}

impl MarginalError {
    /// The confidence of each bound.
    pub const CONFIDENCE: &'static str = "0.95";
}

/// How far it is. Public: a function of the task and of released values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The rounds that are over.
    pub round: u32,
    /// What of the budget was used, in billionths.
    pub used_nano: u64,
    /// The whole budget, in billionths.
    pub total_nano: u64,
}

/// Why nothing came out, after the charge.
#[derive(Debug, Error)]
pub enum Failed {
    /// The rows could not be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// Noise or a choice could not be drawn.
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    /// Nobody waits any more: the statement was cancelled, or its time is over.
    #[error("the statement has ended")]
    Stopped,
    /// More would have been spent than was charged, or counts have another shape than what was
    /// asked: a fault of the engine.
    #[error("the rows made do not follow their plan")]
    Fault,
}

/// Whether the statement is over: cancelled, or out of time. Whoever works looks at it every few
/// milliseconds.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// An error where the statement is over.
///
/// # Errors
/// [`Failed::Stopped`].
pub(super) fn check(stop: Stop<'_>) -> Result<(), Failed> {
    if stop() { Err(Failed::Stopped) } else { Ok(()) }
}
