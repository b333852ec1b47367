//! Quantiles, minimum and maximum: scores of a grid's ticks, in runs between the data points.
//!
//! A histogram over ticks and the wanted rank go in. Runs of equally scored ticks come out, with
//! the range by which one unit changes the scores. It assumes that values are clamped to the grid
//! and that a unit's rows are bounded. The exponential mechanism chooses among the runs.
//!
//! The score of a tick is minus the number of rows on the wrong side of it; rows on the tick itself
//! count for neither side. With ticks 0..=5, rows at 1, 2, 2 and the median (scores doubled): −3,
//! −1, 0, −3, −3, −3.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{MechanismError, ScoredRun, TickRuns};
use crate::privacy::enclosure::ln;
use crate::privacy::{Epsilon, Rational};

pub mod many;
mod near;

/// Which value of a column is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// The α-quantile, α = `num/den` ≤ 1 with `den` ≥ 1.
    Fraction {
        /// α's numerator.
        num: u64,
        /// α's denominator.
        den: u64,
    },
    /// Approximately the r-th smallest value, counted from 1; 0 counts as 1.
    FromLow(u64),
    /// Approximately the r-th largest value, counted from 1; 0 counts as 1.
    FromHigh(u64),
}

/// The range of the scores: how much more one unit of at most `rows` rows can change the score of
/// one tick than that of another.
///
/// # Guarantee
/// For any two databases that differ in such a unit, the largest change of a tick's score minus the
/// smallest is at most the result. Each row moves both sides of `max` by at most max(num, den −
/// num), or 1. At the ends, 0 and 1, one side of `max` is never above 0, so a row moves the score
/// of a tick by 0 or by −den. Exact integers.
///
/// # Errors
/// [`MechanismError::RangeTooWide`] when `num > den`, or the range does not fit 128 bits.
pub fn range(rank: Rank, rows: u64) -> Result<u128, MechanismError> {
    let per_row = match rank {
        Rank::Fraction { num, den } if num > den => return Err(MechanismError::RangeTooWide),
        Rank::Fraction { num, den } if num == 0 || num == den => u128::from(den),
        Rank::Fraction { num, den } => 2 * u128::from(num.max(den - num)),
        Rank::FromLow(_) | Rank::FromHigh(_) => 2,
    };
    per_row.checked_mul(rows.into()).ok_or(MechanismError::RangeTooWide)
}

/// The range of the scores where one row moves to another tick, or falls out.
///
/// # Guarantee
/// For any two histograms that differ in the tick of one row, or in one row, the largest change of
/// a tick's score minus the smallest is at most the result. A row that moves leaves n as it is, and
/// changes `#{x<t}` and `#{x≤t}` in the same direction, by 0 or 1 each; so a score rises or falls
/// by at most den, or 1 at the ends. Exact integers.
///
/// # Errors
/// As [`range`].
pub fn range_of_moves(rank: Rank) -> Result<u128, MechanismError> {
    let moved = match rank {
        Rank::Fraction { den, .. } => 2 * u128::from(den),
        Rank::FromLow(_) | Rank::FromHigh(_) => 2,
    };
    Ok(range(rank, 1)?.max(moved))
}

/// The rank that stands for a minimum or maximum: r = ⌈(R/ε)·ln(20·ticks)⌉, where R is the range of
/// the calibration (2 for units of one row).
///
/// # Guarantee
/// At least (R/ε)·ln(20·ticks), rounded up to the next integer. At this rank, the winner's score is
/// within r of the best at 95 % confidence. A function of public numbers only.
pub fn rank_for(range: u128, epsilon: &Epsilon, ticks: u64) -> u64 {
    let twenty = Rational::from_integer(BigInt::from(ticks.max(1)) * 20);
    let rank = ln(&twenty, 128).map(|log| {
        let scale = Rational::from_integer(range.into()) / epsilon.value();
        (log.upper * scale).ceil().to_integer()
    });
    // A rank beyond 64 bits exceeds every number of rows too.
    rank.and_then(|rank| rank.to_u64()).unwrap_or(1 << 62).min(1 << 62)
}

/// The scores of the ticks 0..=`last`, in runs.
///
/// `histogram` lists ticks and the number of rows (or their weight) there, in any order. A tick
/// beyond `last` counts as `last`, a negative weight as 0.
///
/// # Guarantee
/// Every tick is in exactly one run, in order. With n the sum of the weights, its score is −max(0,
/// den·#{x<t} − num·n, num·n − den·#{x≤t}) for a fraction, −max(0, #{x<t} − (r−1), r −
/// #{x≤t}) from the low end, −max(0, #{x>t} − (r−1), r − #{x≥t}) from the high end. Exact integers;
/// all weights are 1. There are at most two runs for each data point, plus one; without data there
/// is one run of equal ticks.
///
/// # Errors
/// [`MechanismError::RangeTooWide`] when `num > den`, `last` is 2⁶⁴ − 1, or a score does not fit
/// 128 bits. The caller must exclude the latter by public bounds: n·den < 2¹²⁷.
pub fn quantile_runs(
    histogram: &[(u64, i128)],
    last: u64,
    rank: Rank,
) -> Result<TickRuns, MechanismError> {
    if last == u64::MAX || matches!(rank, Rank::Fraction { num, den } if num > den) {
        return Err(MechanismError::RangeTooWide);
    }
    let points = tidied(histogram, last)?;
    let mut ticks = TickRuns::with_capacity(2 * points.len() + 1);
    let total = points
        .iter()
        .try_fold(0_i128, |sum, (_, weight)| sum.checked_add(*weight))
        .ok_or(MechanismError::RangeTooWide)?;
    let even = |count: u64, score: i128| ScoredRun { count, score, step: 0, weight: 1 };
    if total == 0 {
        ticks.push(0, even(last + 1, 0));
        return Ok(ticks);
    }
    let (mut below, mut next) = (0_i128, 0_u64);
    for (tick, weight) in points {
        // These ticks lie between data points and hold no rows.
        ticks.push(next, even(tick - next, score(rank, total, below, below)?));
        let up_to = below + weight;
        ticks.push(tick, even(1, score(rank, total, below, up_to)?));
        (below, next) = (up_to, tick + 1);
    }
    if next <= last {
        ticks.push(next, even(last - next + 1, score(rank, total, below, below)?));
    }
    Ok(ticks)
}

/// The score of a tick with `below` of `total` rows below it and `up_to` at or below it.
fn score(rank: Rank, total: i128, below: i128, up_to: i128) -> Result<i128, MechanismError> {
    let wrong = match rank {
        Rank::Fraction { num, den } => {
            let (num, den) = (i128::from(num), i128::from(den));
            total.checked_mul(num).zip(total.checked_mul(den)).map(|(goal, _)| {
                // Neither product exceeds total·den.
                (den * below - goal).max(goal - den * up_to)
            })
        }
        Rank::FromLow(rank) => {
            let rank = i128::from(rank.max(1));
            below.checked_sub(rank - 1).map(|over| over.max(rank - up_to))
        }
        Rank::FromHigh(rank) => {
            let (rank, above, at_least) = (i128::from(rank.max(1)), total - up_to, total - below);
            above.checked_sub(rank - 1).map(|over| over.max(rank - at_least))
        }
    };
    wrong.map(|wrong| -wrong.max(0)).ok_or(MechanismError::RangeTooWide)
}

/// A histogram sorted by place, with each place once. Places beyond `most` are merged into `most`,
/// and places without weight are dropped.
///
/// # Errors
/// [`MechanismError::RangeTooWide`] when the weight of one place does not fit 127 bits.
pub(super) fn tidied(
    histogram: &[(u64, i128)],
    most: u64,
) -> Result<Vec<(u64, i128)>, MechanismError> {
    let mut points: Vec<(u64, i128)> = histogram
        .iter()
        .filter(|(_, weight)| *weight > 0)
        .map(|(place, weight)| ((*place).min(most), *weight))
        .collect();
    points.sort_unstable_by_key(|(place, _)| *place);
    let mut fits = true;
    points.dedup_by(|(place, weight), (same, sum)| {
        let is_same = place == same;
        if is_same {
            let both = sum.checked_add(*weight);
            (*sum, fits) = (both.unwrap_or(*sum), fits && both.is_some());
        }
        is_same
    });
    if fits { Ok(points) } else { Err(MechanismError::RangeTooWide) }
}

#[cfg(test)]
#[allow(clippy::cast_possible_wrap, reason = "a test's numbers are small")]
mod tests;
