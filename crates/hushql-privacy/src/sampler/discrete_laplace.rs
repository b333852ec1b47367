//! Discrete Laplace noise of rational scale t/s: P(x) = (1−α)/(1+α)·α^|x| with α = exp(−s/t).
//!
//! A scale goes in, an integer comes out. The two integers of the scale stay below 2⁶², so that
//! every step fits fixed-width integers. Calibration rounds scales up to that grid.
//!
//! ```
//! use hushql_privacy::sampler::{LaplaceScale, QueryRng, discrete_laplace};
//!
//! let scale = LaplaceScale::new(1_000, 1)?;
//! let mut rng = QueryRng::from_os()?;
//! let noisy = 14_976 + discrete_laplace(&scale, &mut rng);
//! # let _ = noisy;
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```

use super::SamplerError;
use super::bernoulli::{bernoulli_exp_u64, exp_minus_one};
use super::rng::Uniform;

/// A scale t/s with both integers in [1, 2⁶²).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaplaceScale {
    numerator: u64,
    denominator: u64,
}

impl LaplaceScale {
    /// Numerators and denominators are less than this.
    pub const LIMIT: u64 = 1 << 62;

    /// Checks the two integers.
    ///
    /// # Errors
    /// [`SamplerError::Scale`] when one of them is 0 or at least 2⁶².
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, SamplerError> {
        let fits = |part| (1..Self::LIMIT).contains(&part);
        if fits(numerator) && fits(denominator) {
            Ok(Self { numerator, denominator })
        } else {
            Err(SamplerError::Scale)
        }
    }

    /// The numerator t of t/s.
    pub fn numerator(&self) -> u64 {
        self.numerator
    }

    /// The denominator s of t/s.
    pub fn denominator(&self) -> u64 {
        self.denominator
    }
}

/// One draw of discrete Laplace noise.
///
/// # Guarantee
/// P(x) ∝ exp(−|x|·s/t), exactly, for every integer x. Source: Canonne, Kamath, Steinke 2020,
/// algorithm 2.
pub fn discrete_laplace<U: Uniform + ?Sized>(scale: &LaplaceScale, uniform: &mut U) -> i128 {
    loop {
        if let Some(draw) = attempt(scale, uniform) {
            return draw;
        }
    }
}

/// One round of the rejection loop; `None` means that the draw was rejected.
pub(super) fn attempt<U: Uniform + ?Sized>(scale: &LaplaceScale, uniform: &mut U) -> Option<i128> {
    let magnitude = geometric_attempt(scale, uniform)?;
    match (uniform.coin(), magnitude) {
        // 0 has two signs. One of them is rejected: otherwise 0 would be twice as likely.
        (true, 0) => None,
        (true, magnitude) => Some(magnitude.saturating_neg()),
        (false, magnitude) => Some(magnitude),
    }
}

/// One round of a geometric draw; `None` means that it was rejected.
///
/// # Guarantee
/// If it is not rejected, P(k) = (1 − α)·α^k with α = exp(−s/t), exactly, for k ≥ 0, and k < 2¹²⁶.
/// Whether it is rejected does not depend on k. Source: Canonne, Kamath, Steinke 2020, algorithm 2.
pub(super) fn geometric_attempt<U: Uniform + ?Sized>(
    scale: &LaplaceScale,
    uniform: &mut U,
) -> Option<i128> {
    let LaplaceScale { numerator, denominator } = *scale;
    // X = U + t·V is geometric with ratio exp(−1/t): its place within a run of t, and the number of
    // runs.
    let place = uniform.below_u64(numerator);
    if !bernoulli_exp_u64(place, numerator, uniform) {
        return None;
    }
    let mut runs = 0_u64;
    while exp_minus_one(uniform) {
        runs = runs.saturating_add(1);
    }
    // t < 2^62 and V < 2^64: X < 2^126, nothing saturates.
    let magnitude = match runs.checked_mul(numerator).and_then(|x| x.checked_add(place)) {
        Some(x) => u128::from(x.checked_div(denominator)?),
        None => u128::from(runs)
            .saturating_mul(u128::from(numerator))
            .saturating_add(u128::from(place))
            .checked_div(u128::from(denominator))?,
    };
    i128::try_from(magnitude).ok()
}
