//! The result: the codes of new rows, and bounds on the errors of their marginals.
//!
//! In: released values and a model of them. Out: columns of codes, one bound for each marginal, and
//! the used part of the budget.
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
    /// The code of each row, for each column.
    pub columns: Vec<Vec<u16>>,
    /// The errors of the marginals, in the order of their columns.
    pub errors: Vec<MarginalError>,
    /// The noisy number of rows, or of persons if rows are weighed.
    pub total: f64,
    /// The number of selections.
    pub rounds: u32,
    /// The part of the budget that selections and noise used, in billionths: at most what was
    /// charged.
    pub used_nano: u64,
}

/// A bound on the error of a marginal of the new rows.
#[derive(Debug, Clone, PartialEq)]
pub struct MarginalError {
    /// The columns of the marginal.
    pub columns: ColumnSet,
    /// True if the marginal is inside a measured one; otherwise it was only a candidate.
    pub measured: bool,
    /// A bound on the sum over all cells of |count of the private rows − count of the new rows|, in
    /// rows or persons. It holds at the confidence of [`MarginalError::CONFIDENCE`] for each
    /// marginal alone. The counts of the new rows are scaled to the sum [`Made::total`].
    pub bound: f64,
}

impl MarginalError {
    /// The confidence of each bound.
    pub const CONFIDENCE: &'static str = "0.95";
}

/// The progress of a run. Public: a function of the task and of released values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of finished rounds.
    pub round: u32,
    /// The used part of the budget, in billionths.
    pub used_nano: u64,
    /// The whole budget, in billionths.
    pub total_nano: u64,
}

/// Why a run that was charged returned nothing.
#[derive(Debug, Error)]
pub enum Failed {
    /// The rows could not be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// Noise or a choice could not be drawn.
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    /// The statement is over: it was cancelled, or its time ran out.
    #[error("the statement has ended")]
    Stopped,
    /// The run would have spent more than its charge, or counts do not have the requested shape: a
    /// fault of the engine.
    #[error("the rows made do not follow their plan")]
    Fault,
}

/// True if the statement is over: cancelled, or out of time. Long work checks it every few
/// milliseconds.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Fails if the statement is over.
///
/// # Errors
/// [`Failed::Stopped`].
pub(super) fn check(stop: Stop<'_>) -> Result<(), Failed> {
    if stop() { Err(Failed::Stopped) } else { Ok(()) }
}
