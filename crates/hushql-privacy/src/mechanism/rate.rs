//! The rate ε/R of a selection: how steeply a candidate's weight falls with its score.
//!
//! A range R in grid units and an ε go in; a ratio of 128-bit integers comes out. It is rounded
//! down if it does not fit, because a lower rate is more private.
//!
//! R = 2 and ε = 0.001 give exp(score/2000).

use num_bigint::BigInt;
use num_traits::{One, ToPrimitive, Zero};

use super::MechanismError;
use crate::privacy::{Epsilon, Rational};

/// ε/R, exactly as the sampler uses it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rate {
    pub(super) exact: Rational,
    pub(super) numerator: u128,
    pub(super) denominator: u128,
}

impl Rate {
    /// ε/R for scores of range R.
    ///
    /// # Guarantee
    /// Never above ε/R. It equals ε/R if both integers fit 128 bits; otherwise it is lower by less
    /// than 2⁻¹⁰⁷. A range of 0 counts as 1: the weights then depend on the scores less than they
    /// may.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when ε/R is below 2⁻⁹¹ and not a ratio of 128-bit integers.
    pub(super) fn round_down(range: u128, epsilon: &Epsilon) -> Result<Self, MechanismError> {
        Self::at_most(epsilon.value() / Rational::from_integer(BigInt::from(range.max(1))))
    }

    /// This rate, or slightly less.
    ///
    /// # Guarantee
    /// As [`Rate::round_down`], for an exact rate of at most 10⁶.
    ///
    /// # Errors
    /// As [`Rate::round_down`].
    pub(super) fn at_most(exact: Rational) -> Result<Self, MechanismError> {
        if let (Some(numerator), Some(denominator)) =
            (exact.numer().to_u128(), exact.denom().to_u128())
        {
            return Ok(Self { exact, numerator, denominator });
        }
        // ε ≤ 10⁶ < 2^20, so the numerator fits with 107 fractional bits.
        let grid = BigInt::one() << 107_u32;
        let units = (&exact * Rational::from_integer(grid.clone())).to_integer();
        if units.is_zero() || units.bits() < 17 {
            return Err(MechanismError::RangeTooWide);
        }
        let rounded = Rational::new(units, grid);
        let part = |n: &BigInt| n.to_u128().ok_or(MechanismError::RangeTooWide);
        let (numerator, denominator) = (part(rounded.numer())?, part(rounded.denom())?);
        Ok(Self { exact: rounded, numerator, denominator })
    }

    /// R/ε: the score difference that lowers a weight by a factor of e.
    pub(super) fn unit(&self) -> f64 {
        self.exact.recip().to_f64().unwrap_or(f64::INFINITY)
    }

    /// exp(rate·(score − best)) of every score, for reports and tests.
    pub(super) fn weights(&self, scores: &[i128]) -> Vec<f64> {
        let best = scores.iter().copied().max().unwrap_or(0);
        let unit = self.unit();
        let gap = |score: &i128| best.abs_diff(*score).to_f64().unwrap_or(f64::INFINITY);
        scores.iter().map(|score| (-gap(score) / unit).exp()).collect()
    }
}

/// −ln β, for a confidence 1 − β: 0 for β ≥ 1, infinite for β ≤ 0.
pub(super) fn surprise(beta: &Rational) -> f64 {
    if *beta >= Rational::one() {
        return 0.0;
    }
    if *beta <= Rational::zero() {
        return f64::INFINITY;
    }
    // Computed from both integers, so that a β below the smallest float has a finite logarithm,
    // too.
    let log = |n: &BigInt| {
        let excess = n.bits().saturating_sub(1000);
        (n >> excess).to_f64().unwrap_or(f64::INFINITY).ln()
            + excess.to_f64().unwrap_or(0.0) * std::f64::consts::LN_2
    };
    (log(beta.denom()) - log(beta.numer())).max(0.0)
}

/// A reported accuracy, rounded up by more than the error of a few float operations.
pub(super) fn report_up(value: f64) -> f64 {
    value * (1.0 + 1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::parse_decimal;

    #[test]
    fn rates_are_exact_or_lower() {
        let rate = Rate::round_down(2, &"0.001".parse().unwrap()).unwrap();
        assert_eq!((rate.numerator, rate.denominator), (1, 2000));
        let long = "0.12345678901234567890123456789012345678901234567";
        let rate = Rate::round_down(3, &long.parse().unwrap()).unwrap();
        let exact = parse_decimal(long).unwrap() / Rational::from_integer(3.into());
        assert!(
            rate.exact <= exact
                && rate.exact > &exact * parse_decimal("0.999999999999999999999999").unwrap()
        );
        assert_eq!(rate.exact, Rational::new(rate.numerator.into(), rate.denominator.into()));
        assert!(Rate::round_down(u128::MAX, &"1".parse().unwrap()).is_ok());
        assert!(Rate::round_down(u128::MAX, &"1e-12".parse().unwrap()).is_err());
        assert_eq!(Rate::round_down(0, &"2".parse().unwrap()).unwrap().numerator, 2);
    }

    #[test]
    fn surprises() {
        assert!((surprise(&parse_decimal("0.05").unwrap()) - 20_f64.ln()).abs() < 1e-12);
        assert!((surprise(&parse_decimal("1e-40").unwrap()) - 40.0 * 10_f64.ln()).abs() < 1e-9);
        assert!(surprise(&parse_decimal("0").unwrap()).is_infinite());
        assert_eq!(surprise(&parse_decimal("1").unwrap()).to_bits(), 0);
    }
}
