//! Variances and standard deviations: the vector of sums from which they are released.
//!
//! In: a call, its argument's facts and the range of one row. Out: the aggregate to read: three
//! sums. The entries of a row are never negative and add up to the same number for every row. So
//! one ε pays for all three sums, and their total gives the number of rows. With X = x − lo and w =
//! hi − lo, both in steps of 2^shift grid units:
//!
//! ```text
//! A = Σ(w − X)²     B = Σ2X(w − X)     C = ΣX²          A + B + C = n·w²
//! VAR_POP = C/n − (ΣX/n)² = w²·(4AC − B²) / 4(A + B + C)²
//! ```

use super::Input;
use crate::analysis::measure::VarianceMoments;
use crate::analysis::measure::grid::{bad_bounds, on_grid, per_row};
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::dialect::{AggregateCall, Spread};
use crate::grid::coarse_width;
use crate::refusal::{Reason, Refusal};

/// The largest number of steps of a range. Squares then stay within 40 bits, so the samplers can
/// draw noise on them.
const MOST_STEPS: i128 = 1 << 20;

/// The aggregate that a variance reads.
///
/// # Guarantee
/// The shift is the smallest one for which the range has at most 2²⁰ steps; it depends on the range
/// alone. Only the values are rounded: the squares of the rounded values are exact.
///
/// # Errors
/// Refuses DISTINCT, bounds per group, and a missing range.
pub(crate) fn spread(
    call: &AggregateCall,
    spread: Spread,
    argument: &Argument,
    text: &str,
) -> Result<AggregateRead, NotAnalyzed> {
    if call.distinct {
        return Err(Refusal::new(
            Reason::Operand,
            text,
            "one person can remove a value that others share, at any distance from the mean",
            "the aggregate without DISTINCT",
        )
        .into());
    }
    if call.bounds_per_group.is_some() {
        return Err(Refusal::new(
            Reason::BadValue,
            text,
            format!("{spread} has no value per person and group to bound"),
            "contribution_bounds_per_row => (lo, hi), and rows=m for the rows of a person in a group",
        )
        .into());
    }
    let (grid, lo, hi) = on_grid(argument, &per_row(call, argument, text)?, text)?;
    let fits = |shift: &u32| coarse_width(lo, hi, *shift).is_some_and(|w| w <= MOST_STEPS);
    let shift = (0..=64).find(fits).ok_or_else(|| bad_bounds(text, "the range is too wide"))?;
    let input = Input::Moments(VarianceMoments { column: argument.column, shift, spread });
    Ok(AggregateRead { input, grid, lo, hi })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::Rational;

    fn moments(shift: u32) -> VarianceMoments {
        VarianceMoments { column: 0, shift, spread: Spread::VarPop }
    }

    /// The vector of each row is never negative. Its L1 norm is exactly w², and the largest L2 norm
    /// is w², too.
    #[test]
    fn every_row_moves_the_vector_by_its_weight() {
        for (lo, hi) in [(-3, 4), (0, 9), (5, 6), (-8, -1)] {
            let w = hi - lo;
            let weight = i128::try_from(moments(0).weight(lo, hi).unwrap()).unwrap();
            let mut longest = 0;
            for x in 0..=w {
                let parts = [(w - x) * (w - x), 2 * x * (w - x), x * x];
                assert!(parts.iter().all(|part| *part >= 0));
                assert_eq!(parts.iter().sum::<i128>(), weight);
                longest = longest.max(parts.iter().map(|part| part * part).sum::<i128>());
            }
            assert_eq!(longest, weight * weight);
        }
        assert_eq!(moments(0).weight(1, 0), None);
        assert_eq!(moments(3).weight(0, 17), Some(9));
    }

    /// The vectors of several rows of a unit in a group, by brute force: Δ₂ = k·w² is reached and
    /// never exceeded.
    #[test]
    fn the_euclidean_bound_is_the_maximum_over_all_rows() {
        let w = 5_i128;
        let row = |x: i128| [(w - x) * (w - x), 2 * x * (w - x), x * x];
        let mut longest = 0;
        for x in 0..=w {
            for y in 0..=w {
                for z in 0..=w {
                    let sums = (0..3).map(|i| row(x)[i] + row(y)[i] + row(z)[i]);
                    longest = longest.max(sums.map(|s| s * s).sum::<i128>());
                }
            }
        }
        assert_eq!(longest, (3 * w * w).pow(2));
    }

    #[test]
    fn a_step_squared_is_worth_its_square() {
        let cent = Rational::new(1.into(), 100.into());
        assert_eq!(moments(0).unit(&cent), Rational::new(1.into(), 10_000.into()));
        assert_eq!(moments(2).unit(&cent), Rational::new(16.into(), 10_000.into()));
    }
}
