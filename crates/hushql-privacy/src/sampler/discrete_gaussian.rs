//! Discrete Gaussian noise: P(x) ∝ exp(−x²/2σ²) on the integers.
//!
//! A standard deviation on one of two grids goes in, an integer comes out: σ is a multiple of 2⁻¹²
//! below 2¹⁶, or a whole number below 2⁶⁰. Calibration rounds σ up to the grid; the draw is then
//! exact.
//!
//! ```
//! use hushql_privacy::sampler::{QueryRng, Sigma, discrete_gaussian};
//!
//! let sigma = Sigma::fine(17_331)?; // 17331/4096 = 4.231
//! let mut rng = QueryRng::from_os()?;
//! assert!(discrete_gaussian(&sigma, &mut rng).abs() < 200);
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```

use num_bigint::BigUint;

use super::SamplerError;
use super::bernoulli::{bernoulli_exp, bernoulli_exp_big};
use super::discrete_laplace::{self, LaplaceScale};
use super::rng::Uniform;

/// A standard deviation σ that the sampler can draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sigma {
    units: u64,
    fraction_bits: u32,
}

impl Sigma {
    /// Fine deviations are multiples of 2⁻ᵏ; this is k.
    pub const FRACTION_BITS: u32 = 12;
    /// Fine deviations have fewer units than this.
    pub const FINE_LIMIT: u64 = 1 << 28;
    /// Whole deviations are less than this.
    pub const WHOLE_LIMIT: u64 = 1 << 60;

    /// σ = units / 2¹².
    ///
    /// # Errors
    /// [`SamplerError::Scale`] when the number of units is 0 or at least 2²⁸.
    pub fn fine(units: u64) -> Result<Self, SamplerError> {
        if (1..Self::FINE_LIMIT).contains(&units) {
            Ok(Self { units, fraction_bits: Self::FRACTION_BITS })
        } else {
            Err(SamplerError::Scale)
        }
    }

    /// A whole σ.
    ///
    /// # Errors
    /// [`SamplerError::Scale`] when it is 0 or at least 2⁶⁰.
    pub fn whole(sigma: u64) -> Result<Self, SamplerError> {
        if (1..Self::WHOLE_LIMIT).contains(&sigma) {
            Ok(Self { units: sigma, fraction_bits: 0 })
        } else {
            Err(SamplerError::Scale)
        }
    }

    /// σ as a ratio of integers.
    pub fn ratio(&self) -> (u64, u64) {
        (self.units, 1_u64.checked_shl(self.fraction_bits).unwrap_or(1))
    }
}

/// One draw of discrete Gaussian noise.
///
/// # Guarantee
/// P(x) ∝ exp(−x²/2σ²), exactly, for every integer x. The arithmetic has 128 bits where they
/// suffice, and arbitrary width elsewhere. Source: Canonne, Kamath, Steinke 2020, algorithm 3.
pub fn discrete_gaussian<U: Uniform + ?Sized>(sigma: &Sigma, uniform: &mut U) -> i128 {
    loop {
        if let Some(draw) = attempt(sigma, uniform) {
            return draw;
        }
    }
}

/// One round of the rejection loop; `None` means that the candidate was rejected.
pub(super) fn attempt<U: Uniform + ?Sized>(sigma: &Sigma, uniform: &mut U) -> Option<i128> {
    // A Laplace draw of whole scale t ≈ σ is accepted with probability exp(−(|Y| − σ²/t)²/2σ²).
    let t = (sigma.units >> sigma.fraction_bits).max(1);
    let candidate = discrete_laplace::attempt(&LaplaceScale::new(t, 1).ok()?, uniform)?;
    let magnitude = candidate.unsigned_abs();
    let kept = match exponent(sigma, t, magnitude) {
        Some((num, den)) => bernoulli_exp(num, den, uniform),
        None => {
            let (num, den) = exponent_big(sigma, t, magnitude);
            bernoulli_exp_big(&num, &den, uniform)
        }
    };
    kept.then_some(candidate)
}

/// (|Y| − σ²/t)²/2σ² in 128 bits; `None` when it does not fit.
fn exponent(sigma: &Sigma, t: u64, magnitude: u128) -> Option<(u128, u128)> {
    let (units, t) = (u128::from(sigma.units), u128::from(t));
    if sigma.fraction_bits == 0 {
        // t = σ here, and the ratio is (|Y| − σ)²/2σ².
        let gap = magnitude.abs_diff(units);
        return Some((gap.checked_mul(gap)?, units.checked_mul(units)?.checked_mul(2)?));
    }
    let (left, right, den) = scaled(sigma, t, magnitude)?;
    let gap = left.abs_diff(right);
    Some((gap.checked_mul(gap)?, den))
}

/// With σ = s/2^f: |Y|·t·2^2f, s² and 2^(2f+1)·s²·t², so that the exponent is (first −
/// second)²/third.
fn scaled(sigma: &Sigma, t: u128, magnitude: u128) -> Option<(u128, u128, u128)> {
    let units = u128::from(sigma.units);
    let step = 1_u128.checked_shl(sigma.fraction_bits.checked_mul(2)?)?;
    let square = units.checked_mul(units)?;
    let left = magnitude.checked_mul(t)?.checked_mul(step)?;
    let den = step.checked_mul(2)?.checked_mul(square)?.checked_mul(t)?.checked_mul(t)?;
    Some((left, square, den))
}

/// As [`exponent`], in arbitrary width.
#[expect(clippy::arithmetic_side_effects, reason = "the larger of two naturals minus the smaller")]
fn exponent_big(sigma: &Sigma, t: u64, magnitude: u128) -> (BigUint, BigUint) {
    let shift = u64::from(sigma.fraction_bits).saturating_mul(2);
    let (units, t) = (BigUint::from(sigma.units), BigUint::from(t));
    let square = units.pow(2);
    let left = (BigUint::from(magnitude) * &t) << shift;
    let gap = if left > square { left - &square } else { &square - left };
    (gap.pow(2), (square * t.pow(2)) << shift.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use num_traits::CheckedMul;

    use super::*;

    #[test]
    fn both_widths_give_one_exponent() {
        for sigma in [Sigma::fine(1), Sigma::fine(17_331), Sigma::whole(1), Sigma::whole(1 << 40)] {
            let sigma = sigma.unwrap();
            let t = (sigma.units >> sigma.fraction_bits).max(1);
            for magnitude in [0, 1, 7, 1 << 30] {
                let (num, den) = exponent(&sigma, t, magnitude).unwrap();
                let (big_num, big_den) = exponent_big(&sigma, t, magnitude);
                assert!(
                    BigUint::from(num).checked_mul(&big_den)
                        == BigUint::from(den).checked_mul(&big_num),
                    "{sigma:?} {magnitude}"
                );
            }
        }
        // Past 128 bits there is only one.
        assert!(exponent(&Sigma::whole(1 << 59).unwrap(), 1 << 59, 1 << 65).is_none());
    }
}
