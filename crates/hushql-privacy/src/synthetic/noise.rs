//! The noise of a measurement, and the choice of a round: calibrated from shares of the budget, in
//! integers.
//!
//! In: billionths of the budget and the bounds of one unit. Out: exact noise and exact choices. The
//! size of the noise is public.
//!
//! ```text
//! ρ = 0.001, Δ₂ = 1   →  discrete Gaussian, σ = 22.37, selecting at ε = √(8·0.001) = 0.089442719
//! ε = 0.1,   Δ₁ = 1   →  discrete Laplace of scale 10, selecting by permute-and-flip at ε = 0.1
//! ```

use num_bigint::BigInt;
use num_integer::Roots;

use super::task::{NANO, Sensitivity, SyntheticBudget};
use crate::mechanism::{Exponential, Gaussian, Laplace, MechanismError, PermuteAndFlip};
use crate::privacy::{Epsilon, Rational, Rho};
use crate::sampler::QueryRng;

/// How a budget is spent: the kind of noise, and the kind of choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Shares are billionths of ε.
    Pure,
    /// Shares are billionths of ρ.
    Concentrated,
}

impl From<SyntheticBudget> for Mode {
    fn from(budget: SyntheticBudget) -> Self {
        match budget {
            SyntheticBudget::Pure { .. } => Self::Pure,
            SyntheticBudget::Concentrated { .. } => Self::Concentrated,
        }
    }
}

impl Mode {
    /// The ε of a choice at this share, in billionths.
    ///
    /// # Guarantee
    /// Under ρ it is the largest whole number with ε²/8 ≤ share, so a choice of bounded range ε
    /// costs at most the share.
    pub(super) fn epsilon(self, share: u64) -> u64 {
        match self {
            Self::Pure => share,
            Self::Concentrated => {
                let root = (u128::from(share) * 8 * u128::from(NANO)).sqrt();
                u64::try_from(root).unwrap_or(0)
            }
        }
    }
}

/// A number of billionths, as a rational.
fn billionths(share: u64) -> Rational {
    Rational::new(BigInt::from(share), BigInt::from(NANO))
}

fn too_small<T>(_: T) -> MechanismError {
    MechanismError::ScaleTooLarge
}

/// Noise of the size that a share requires.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Noise {
    /// Discrete Laplace.
    Laplace(Laplace),
    /// Discrete Gaussian.
    Gaussian(Gaussian),
}

impl Noise {
    /// The noise that makes a marginal as private as this share.
    ///
    /// # Guarantee
    /// Laplace noise has a scale of at least Δ₁/share, Gaussian noise a σ with Δ₂²/2σ² ≤ share.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when the noise cannot be drawn, or the share is 0.
    pub(super) fn calibrate(
        mode: Mode,
        sensitivity: Sensitivity,
        share: u64,
    ) -> Result<Self, MechanismError> {
        match mode {
            Mode::Pure => {
                let epsilon = Epsilon::new(billionths(share)).map_err(too_small)?;
                Laplace::calibrate(sensitivity.l1().into(), &epsilon).map(Self::Laplace)
            }
            Mode::Concentrated => {
                let rho = Rho::new(billionths(share)).map_err(too_small)?;
                let square = u128::from(sensitivity.l2()) * u128::from(sensitivity.l2());
                Gaussian::calibrate_rho(square, &rho).map(Self::Gaussian)
            }
        }
    }

    /// One draw, in grid units.
    pub(super) fn draw(&self, rng: &mut QueryRng) -> i128 {
        match self {
            Self::Laplace(laplace) => laplace.draw(rng),
            Self::Gaussian(gaussian) => gaussian.draw(rng),
        }
    }
}

/// A choice that is as private as a share.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Chooser {
    /// Pure ε.
    PermuteAndFlip(PermuteAndFlip),
    /// ε²/8-concentrated.
    Exponential(Exponential),
}

impl Chooser {
    /// The choice among scores whose changes between neighbours differ by at most `range` grid
    /// units.
    ///
    /// # Guarantee
    /// Under ρ it is the exponential mechanism, which is of bounded range and costs at most the
    /// share. Permute-and-flip is not of bounded range, so it is used for pure ε alone.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when it cannot be drawn.
    pub(super) fn calibrate(mode: Mode, range: u128, share: u64) -> Result<Self, MechanismError> {
        let epsilon = Epsilon::new(billionths(mode.epsilon(share))).map_err(too_small)?;
        match mode {
            Mode::Pure => PermuteAndFlip::calibrate(range, &epsilon).map(Self::PermuteAndFlip),
            Mode::Concentrated => Exponential::calibrate(range, &epsilon).map(Self::Exponential),
        }
    }

    /// As [`Chooser::calibrate`], but always the exponential mechanism.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when it cannot be drawn.
    pub(super) fn exponential(mode: Mode, range: u128, share: u64) -> Result<Self, MechanismError> {
        let epsilon = Epsilon::new(billionths(mode.epsilon(share))).map_err(too_small)?;
        Exponential::calibrate(range, &epsilon).map(Self::Exponential)
    }

    /// The index of the winner.
    ///
    /// # Errors
    /// [`MechanismError::Sampler`] when there is no candidate.
    pub(super) fn choose(
        &self,
        scores: &[i128],
        rng: &mut QueryRng,
    ) -> Result<usize, MechanismError> {
        match self {
            Self::PermuteAndFlip(mechanism) => mechanism.choose(scores, rng),
            Self::Exponential(mechanism) => mechanism.choose(scores, rng),
        }
    }
}
