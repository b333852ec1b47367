//! A choice: the candidates of a selection, how their scores are computed, and how much one unit can change them.
//!
//! In: results of the analysis. Out: a [`Choice`], with everything that a mechanism and its explanation need: the
//! candidates, the range of their scores, and the range that the mechanism is calibrated to if several selections are
//! made at once.
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

/// Candidates that are not group keys, in order.
#[derive(Debug, Clone)]
pub enum CandidateAxis {
    /// Listed values.
    Listed(ArrayRef),
    /// Evenly spaced numbers.
    Ticks(Ticks),
}

impl CandidateAxis {
    /// The number of candidates.
    pub fn count(&self) -> u64 {
        match self {
            Self::Listed(values) => u64::try_from(values.len()).unwrap_or(u64::MAX),
            Self::Ticks(ticks) => ticks.count(),
        }
    }

    /// Some of the candidates as a column.
    ///
    /// # Errors
    /// An Arrow error for a candidate that does not exist.
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

/// How the places of rows on an axis score its candidates.
#[derive(Debug, Clone, PartialEq)]
pub enum LineScore {
    /// The quantile num/den: how far the rank of a tick is from it.
    Quantile {
        /// The fraction's numerator.
        num: u64,
        /// Its denominator.
        den: u64,
    },
    /// Approximately the r-th smallest value; r follows from ε.
    Smallest,
    /// Approximately the r-th largest value.
    Largest,
    /// The price times the quantity bought at it, by rows whose place lies above the candidate.
    Revenue {
        /// The candidates' prices, ascending, in units of the score's price grid.
        prices: Prices,
    },
    /// The rows at or above the candidate, whose place lies above it.
    Above,
    /// The rows below the candidate.
    Below,
    /// The rows at the candidate itself.
    Exactly,
}

/// Prices in grid units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prices {
    /// Listed prices, ascending.
    Listed(Vec<i128>),
    /// Evenly spaced prices.
    Ticks(Ticks),
}

/// The origin of candidates and their scores.
#[derive(Debug, Clone)]
pub enum Source {
    /// Values of a group key, each scored by the sum of its group; given by their positions among the key's values.
    Keys(Vec<usize>),
    /// Named candidates, each with its own sum.
    Each(CandidateAxis),
    /// Candidates on an axis, scored by the places of the rows.
    Line {
        /// The candidates, ascending.
        axis: CandidateAxis,
        /// How they are scored.
        score: LineScore,
    },
    /// Values of a group key that only the data know.
    Unknown {
        /// The largest number of candidates that one unit has.
        per_unit: u64,
    },
}

/// How simultaneous selections share the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There is only one selection.
    Alone,
    /// One selection for each outer group; a unit is in at most this many of them.
    Groups(u64),
    /// One selection for each outer group; the ranges of the changes that a unit's rows make in all of them add up to
    /// at most this.
    Rows(u128),
}

/// The base measure of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prior {
    /// All candidates have the same weight.
    Uniform,
    /// Integer weights, one for each candidate; 0 excludes a candidate.
    Weights(Vec<u128>),
    /// Weights in proportion to 1/price.
    LogUniform,
}

/// A selection, with how much one unit can change its scores.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Which end of the ranking wins; quantiles choose the highest score.
    pub selector: Selector,
    /// How many candidates are chosen, one after the other.
    pub rounds: u64,
    /// The number of outer groups; each has one selection.
    pub outer: u64,
    /// The candidates.
    pub source: Source,
    /// The base measure.
    pub prior: Prior,
    /// The range R of the scores of one selection, in units of the score.
    pub range: u128,
    /// The largest change Δ∞ of one score.
    pub largest: u128,
    /// The sensitivity Δ₁ of all scores in all outer groups together, if candidates are group keys and it is bounded.
    pub l1: Option<u128>,
    /// How the selections of several groups share the cost.
    pub sharing: Sharing,
    /// The value of one unit of the score.
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

    /// The number of candidates; `None` if only the data know it.
    pub fn candidates(&self) -> Option<u64> {
        match &self.source {
            Source::Keys(candidates) => u64::try_from(candidates.len()).ok(),
            Source::Each(axis) | Source::Line { axis, .. } => Some(axis.count()),
            Source::Unknown { .. } => None,
        }
    }

    /// The range that the mechanism of a single draw is calibrated to, at the whole cost ε.
    ///
    /// # Guarantee
    /// k draws for each outer group, each ε-private for scores of the returned range, are together ε-private for the
    /// scores of this choice. With k rounds, each has ε/k. If a unit is in C outer groups, each has ε/C. If a unit
    /// has M rows in total, the ranges of its changes to the selections' scores add up to at most M times that of a
    /// row, so each selection may use ε with that range. `monotonic=false` uses twice the largest change instead of
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

/// How the selections of `outer` groups share the cost, if a unit obeys these limits.
///
/// # Guarantee
/// The cheaper of two rules. Every unit is in at most min(C, M, outer) outer groups, because a limit on groups counts
/// pairs of outer group and candidate. If scores are sums over rows, a unit with M rows changes the scores of all
/// selections together by ranges that add up to at most M·b, in whatever groups the rows are. `None` if nothing
/// bounds it.
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
