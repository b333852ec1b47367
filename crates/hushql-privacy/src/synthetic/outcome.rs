//! The outcome of a method: tables to draw rows from, and the values that it released.
//!
//! In: nothing. These values connect a method and the steps after it; all of them are released or
//! public.

use super::columns::ColumnSet;
use super::door::{Candidate, Measured, Released};
use super::infer::{FactorTable, KeptAnswers};

/// Marginals that can compete, each with its weight.
pub(super) type Competing = Vec<(ColumnSet, u64)>;

/// The state of a round, for the bounds of marginals that it did not measure.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// The candidates that competed.
    pub(super) candidates: Vec<Candidate>,
    /// The index of the winner.
    pub(super) chosen: usize,
    /// The model's answers before the measurement.
    pub(super) model: KeptAnswers,
    /// The share of the choice.
    pub(super) select: u64,
    /// The measurement of the winner.
    pub(super) measured: Answered,
}

/// The measurement of a round.
#[derive(Debug, Clone)]
pub(super) enum Answered {
    /// The index of the marginal among all measurements.
    Marginal(usize),
    /// One cell of the chosen marginal, at this share.
    Cell {
        /// The cell's number.
        cell: usize,
        /// The cell's noisy count.
        value: i128,
        /// The share of the measurement.
        measure: u64,
    },
}

/// The outcome of a method.
#[derive(Debug)]
pub(super) struct MethodOutcome {
    /// Expected counts, each table after the tables on which it depends.
    pub(super) tables: Vec<FactorTable>,
    /// The noisy total of all counts, in grid units.
    pub(super) total: f64,
    /// All measurements, in order.
    pub(super) measured: Vec<Released<Measured>>,
    /// The last round in which each candidate competed.
    pub(super) rounds: Vec<Round>,
    /// The number of rounds.
    pub(super) count: u32,
    /// The largest possible number of rounds.
    pub(super) most_rounds: u64,
}
