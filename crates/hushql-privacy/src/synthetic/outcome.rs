//! What a method hands on: tables to draw rows from, and what it released on the way.
//!
//! In: nothing; these are the values between a method and what comes after it, all of them released
//! or public.

use super::columns::ColumnSet;
use super::door::{Candidate, Measured, Released};
use super::infer::{FactorTable, KeptAnswers};

/// Marginals that may compete, each with its weight.
pub(super) type Competing = Vec<(ColumnSet, u64)>;

/// What a round knew, for the bounds of what it did not measure.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// Those that competed.
    pub(super) candidates: Vec<Candidate>,
    /// The one that won.
    pub(super) chosen: usize,
    /// What the model answered with, before anything was measured.
    pub(super) model: KeptAnswers,
    /// The share of the choice.
    pub(super) select: u64,
    /// What was measured of it.
    pub(super) measured: Answered,
}

/// What a round measured.
#[derive(Debug, Clone)]
pub(super) enum Answered {
    /// The marginal at this place among all measurements.
    Marginal(usize),
    /// One cell of the chosen marginal, at this share.
    Cell {
        /// Its number.
        cell: usize,
        /// Its noisy count.
        value: i128,
        /// The share of the measurement.
        measure: u64,
    },
}

/// The outcome of a method.
#[derive(Debug)]
pub(super) struct MethodOutcome {
    /// Expected counts, each table after those that it hangs on.
    pub(super) tables: Vec<FactorTable>,
    /// The noisy number of all counts, in grid units.
    pub(super) total: f64,
    /// All measurements, in order.
    pub(super) measured: Vec<Released<Measured>>,
    /// The last round in which each candidate competed.
    pub(super) rounds: Vec<Round>,
    /// How many rounds there were.
    pub(super) count: u32,
    /// The most that there could have been.
    pub(super) most_rounds: u64,
}
