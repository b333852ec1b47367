//! The size of noise and the error of choices, in floats, for models and reports.
//!
//! In: calibrated noise and choices. Out: variances and bounds. No privacy rests on them.

use num_traits::ToPrimitive;

use super::noise::{Chooser, Noise};
use crate::privacy::Rational;

impl Noise {
    /// The scale b of Laplace noise, or σ.
    fn scale(&self) -> f64 {
        let scale = match self {
            Self::Laplace(laplace) => laplace.scale().to_f64(),
            Self::Gaussian(gaussian) => gaussian.sigma().to_f64(),
        };
        scale.unwrap_or(f64::MAX).max(f64::MIN_POSITIVE)
    }

    /// The variance of a draw, or slightly more, as the weight of measurements; positive.
    pub(super) fn variance(&self) -> f64 {
        let scale = self.scale();
        let variance = match self {
            // 2α/(1−α)² with α = e^(−1/b).
            Self::Laplace(_) => 0.5 / (0.5 / scale).sinh().powi(2),
            Self::Gaussian(_) => scale * scale,
        };
        variance.max(1e-12)
    }

    /// The approximate mean size of a draw.
    pub(super) fn mean_size(&self) -> f64 {
        match self {
            Self::Laplace(_) => 1.0 / (1.0 / self.scale()).sinh(),
            Self::Gaussian(_) => self.scale() * (2.0 / std::f64::consts::PI).sqrt(),
        }
    }

    /// An upper bound of ln E(e^(tX)) for one draw; infinite if there is none.
    pub(super) fn log_moment(&self, t: f64) -> f64 {
        let scale = self.scale();
        match self {
            Self::Laplace(_) if t * scale >= 1.0 => f64::INFINITY,
            Self::Laplace(_) => {
                // (1−α)²/((1−αe^t)(1−αe^−t)) with α = e^(−1/b).
                let none = |x: f64| (-(-x).exp_m1()).ln();
                2.0 * none(1.0 / scale) - none(1.0 / scale - t) - none(1.0 / scale + t)
            }
            // Discrete Gaussian noise is sub-Gaussian (Canonne, Kamath, Steinke 2020).
            Self::Gaussian(_) => t * t * scale * scale / 2.0,
        }
    }

    /// The largest t for which [`Noise::log_moment`] is evaluated.
    pub(super) fn steepest(&self) -> f64 {
        match self {
            Self::Laplace(_) => 1.0 / self.scale(),
            Self::Gaussian(_) => 8.0 / self.scale(),
        }
    }
}

impl Chooser {
    /// The distance of the winner's score from the best, at confidence 1 − β.
    pub(super) fn error_at(&self, candidates: usize, beta: &Rational) -> f64 {
        match self {
            Self::PermuteAndFlip(mechanism) => mechanism.error_at(candidates, beta),
            Self::Exponential(mechanism) => mechanism.error_at(candidates, beta),
        }
    }
}
