//! What is chosen among: the candidates of a selection, how their scores come about, and how much one unit
//! can change them.
//!
//! In: nothing but what the analysis found. Out: a [`Choice`], all that a mechanism and its explanation need:
//! the candidates, the range of their scores, and the range that the mechanism is calibrated to when several
//! selections are made at once.
//!
//! ```text
//! TOP 3 status, one list for each of two sexes, a person in both: calibrated to R · 2 groups · 3 rounds
//! ```

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::dialect::Selector;
use crate::privacy::Rational;
use crate::ticks::Ticks;

/// Candidates that are no group keys, in order.
#[derive(Debug, Clone)]
pub enum CandidateAxis {
    /// Listed values.
    Listed(ArrayRef),
    /// Evenly spaced numbers.
    Ticks(Ticks),
}

impl CandidateAxis {
    /// How many candidates there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Listed(values) => u64::try_from(values.len()).unwrap_or(u64::MAX),
            Self::Ticks(ticks) => ticks.count(),
        }
    }

    /// Some of the candidates as a column.
    ///
    /// # Errors
    /// An Arrow error for a candidate that there is not.
    pub fn values(&self, chosen: &[u64], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Listed(values) => {
                let indices = arrow::array::UInt64Array::from(chosen.to_vec());
                arrow::compute::take(values, &indices, None)
            }
            Self::Ticks(ticks) => ticks.values(chosen, data_type),
        }
    }
}

/// How the rows on a line score its candidates.
#[derive(Debug, Clone, PartialEq)]
pub enum LineScore {
    /// The quantile num/den: how far a tick's rank is from it.
    Quantile {
        /// The fraction's numerator.
        num: u64,
        /// Its denominator.
        den: u64,
    },
    /// About the r-th smallest value; r follows from ε.
    Smallest,
    /// About the r-th largest value.
    Largest,
    /// The price times what is bought at it: rows whose place lies above the candidate.
    Revenue {
        /// The candidates' prices, ascending, in units of the score's price grid.
        prices: Prices,
    },
    /// What stands at or above the candidate (its place lies above it).
    Above,
    /// What stands below the candidate.
    Below,
    /// What stands at the candidate itself.
    Exactly,
}

/// Prices in grid units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prices {
    /// Listed, ascending.
    Listed(Vec<i128>),
    /// Evenly spaced.
    Ticks(Ticks),
}

/// Where candidates and their scores come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The values of a group key; each has the sum of its group. The candidates by their position there.
    Keys(Vec<usize>),
    /// Named candidates, each with a sum of its own.
    Each(CandidateAxis),
    /// Candidates on a line, scored by the places of the rows.
    Line {
        /// The candidates, ascending.
        axis: CandidateAxis,
        /// How they are scored.
        score: LineScore,
    },
    /// Values of a group key that only the data know.
    Unknown {
        /// The most that one unit has of them.
        per_unit: u64,
    },
}

/// How selections that are made at once share the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There is one.
    Alone,
    /// One for each outer group; a unit is in at most this many of them, or their number.
    Groups(u64),
    /// One for each outer group; the ranges that a unit's rows in all of them can change add up to this.
    Rows(u128),
}

/// The base measure of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prior {
    /// Every candidate alike.
    Uniform,
    /// Whole weights, one for each candidate; 0 excludes.
    Weights(Vec<u128>),
    /// In proportion to 1/price.
    LogUniform,
}

/// A selection, with how much one unit can change its scores.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Which end of the ranking is chosen; quantiles choose the highest score.
    pub selector: Selector,
    /// How many are chosen, one after the other.
    pub rounds: u64,
    /// How many outer groups there are, one selection in each.
    pub outer: u64,
    /// The candidates.
    pub source: Source,
    /// The base measure.
    pub prior: Prior,
    /// The range R of the scores of one selection, in units of the score.
    pub range: u128,
    /// The largest change Δ∞ of one score.
    pub largest: u128,
    /// The change Δ₁ of all scores in all outer groups together, where they are group keys' and something bounds it.
    pub l1: Option<u128>,
    /// How the selections of several groups share the cost.
    pub sharing: Sharing,
    /// What one unit of the score is worth.
    pub unit: Rational,
}

impl Choice {
    /// Whether low scores win.
    pub fn prefers_low(&self) -> bool {
        match self.selector {
            Selector::ArgMax | Selector::Top(_) => false,
            Selector::ArgMin | Selector::Bottom(_) => true,
        }
    }

    /// How many candidates there are; `None` where only the data know.
    pub fn candidates(&self) -> Option<u64> {
        match &self.source {
            Source::Keys(candidates) => u64::try_from(candidates.len()).ok(),
            Source::Each(axis) | Source::Line { axis, .. } => Some(axis.count()),
            Source::Unknown { .. } => None,
        }
    }

    /// The range that the mechanism of a single draw is calibrated to at the whole cost ε.
    ///
    /// # Guarantee
    /// k draws for each outer group, each ε-private for scores of the range returned, are together ε-private for
    /// the scores of this choice. With k rounds each at ε/k; with C outer groups of a unit each at ε/C; and where a
    /// unit has M rows in all, its changes of the selections' scores have ranges that add up to at most M times
    /// a row's, so each may have ε with that range. `monotonic=false` takes twice the largest change instead of
    /// the range. Exact; `None` on overflow.
    pub fn calibrated(&self, monotonic: bool) -> Option<u128> {
        let one = if monotonic { Some(self.range) } else { self.largest.checked_mul(2) }?;
        let spread = match self.sharing {
            Sharing::Alone => one,
            Sharing::Groups(groups) => one.checked_mul(groups.into())?,
            Sharing::Rows(all) if monotonic => all,
            Sharing::Rows(all) => all.checked_mul(2)?,
        };
        spread.checked_mul(self.rounds.into())
    }
}

/// How the selections of `outer` groups share the cost of a unit with these limits.
///
/// # Guarantee
/// Of the two rules the one that asks for less: every unit is in at most min(C, M, outer) outer groups, since a
/// limit on groups counts pairs of outer group and candidate; and if a score adds over rows, a unit with M rows
/// changes all selections together by scores of range at most M·b, in whatever groups they are.
/// `None` when nothing bounds it.
pub(crate) fn sharing(
    limits: &ContributionBounds,
    outer: u64,
    range: u128,
    all_rows: Option<u128>,
) -> Option<Sharing> {
    if outer <= 1 {
        return Some(Sharing::Alone);
    }
    let by_groups = [limits.l0, limits.total].into_iter().flatten().min();
    let groups = by_groups.map(|groups| groups.min(outer));
    if groups == Some(1) {
        return Some(Sharing::Groups(1));
    }
    match (groups, all_rows) {
        (Some(groups), Some(all)) => {
            let cost = range.checked_mul(groups.into());
            let cheaper = cost.is_none_or(|cost| all < cost);
            Some(if cheaper { Sharing::Rows(all) } else { Sharing::Groups(groups) })
        }
        (Some(groups), None) => Some(Sharing::Groups(groups)),
        (None, Some(all)) => Some(Sharing::Rows(all)),
        (None, None) => None,
    }
}
