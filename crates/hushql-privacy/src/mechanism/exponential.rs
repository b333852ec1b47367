//! The exponential mechanism: a candidate wins with weight exp(ε·score/R).
//!
//! The scores' range R in grid units and ε go in; the index of a winner comes out. It assumes that
//! between neighbouring databases the largest and the smallest change of a score differ by at most
//! R. The choice is then ε-differentially private.
//!
//! Counts move by R = 1: `ARGMAX EXPONENTIAL(eps=1)` weighs candidates by exp(count).

use num_traits::{One, ToPrimitive};

use super::MechanismError;
use super::rate::{Rate, report_up, surprise};
use crate::privacy::{Epsilon, Rational};
use crate::sampler::{QueryRng, exponential};

/// A calibrated exponential mechanism. Its prior is uniform unless a draw is given weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Exponential {
    pub(super) rate: Rate,
}

impl Exponential {
    /// The mechanism that makes a choice among scores of range `range` (grid units) ε-private.
    ///
    /// # Guarantee
    /// The exponent per grid unit is at most ε/R, so the choice is ε-DP and ε-bounded-range, hence
    /// ε²/8-zCDP. A range of 0 counts as 1. Source: McSherry, Talwar 2007; Dong, Durfee, Rogers
    /// 2020; Cesar, Rogers 2021.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when ε/R is too small to be drawn.
    pub fn calibrate(range: u128, epsilon: &Epsilon) -> Result<Self, MechanismError> {
        Ok(Self { rate: Rate::round_down(range, epsilon)? })
    }

    /// ε/R: the exponent per grid unit of score.
    pub fn exponent(&self) -> &Rational {
        &self.rate.exact
    }

    /// The index of the winner.
    ///
    /// # Guarantee
    /// P(i) ∝ exp(exponent·score_i), exactly. Equal scores are equally likely, whatever their
    /// order.
    ///
    /// # Errors
    /// [`MechanismError::Sampler`] when there is no candidate.
    pub fn choose(&self, scores: &[i128], rng: &mut QueryRng) -> Result<usize, MechanismError> {
        Ok(exponential(scores, self.rate.numerator, self.rate.denominator, rng)?)
    }

    /// The distance of the winner from the best score at confidence 1 − β, in grid units.
    ///
    /// # Guarantee
    /// P(best − score > t) ≤ β for this whole number t and all n scores; 0 for one candidate. In
    /// the worst case one candidate is the best, and all others have the largest score below best −
    /// t. That score is t + 1 away, since scores are whole numbers. Any other candidate either
    /// loses too much and weighs less, or adds its weight to those that do not. In this case the
    /// odds are (n − 1)·e^(−ε(t + 1)/R), and t is the least at which they are at most β/(1 − β).
    pub fn error_at(&self, candidates: usize, beta: &Rational) -> f64 {
        whole_below(&self.rate, surprise_of(candidates, beta))
    }

    /// An upper bound of the mean distance between the best score and the winner's, in grid units.
    ///
    /// # Guarantee
    /// E(best − score) ≤ (R/ε)·ln n for all n scores; rounded up.
    pub fn expected_error(&self, candidates: usize) -> f64 {
        expected_error(&self.rate, candidates)
    }

    /// As [`Exponential::error_at`], for prior weights with the sum `total` and the smallest
    /// positive weight `least`.
    ///
    /// # Guarantee
    /// P(best − score > t) ≤ β for this whole number t and all scores. The bound is that of
    /// [`Exponential::error_at`] with (total − least)/least in place of n − 1. If the best
    /// candidate has weight w, the bound holds with w in place of `least`, but it is private which
    /// candidate is best. Infinite unless 0 < `least`; 0 if one candidate has all the weight.
    pub fn error_at_weights(&self, total: f64, least: f64, beta: &Rational) -> f64 {
        if least >= total && least > 0.0 {
            return 0.0;
        }
        if least <= 0.0 {
            return f64::INFINITY;
        }
        // Rounded up slightly before the logarithm, which magnifies relative errors near 1.
        let others = report_up(report_up(total / least) - 1.0);
        whole_below(&self.rate, others.ln() + log_odds(beta))
    }

    /// As [`Exponential::expected_error`], for prior weights with the sum `total` and the smallest
    /// positive weight `least`.
    ///
    /// # Guarantee
    /// E(best − score) ≤ (R/ε)·ln(total/least) for all scores; rounded up. 0 if one candidate has
    /// all the weight.
    pub fn expected_error_weights(&self, total: f64, least: f64) -> f64 {
        if least >= total && least > 0.0 {
            return 0.0;
        }
        report_up(self.rate.unit() * log_ratio(total, least))
    }

    /// The probability of a truthful answer, for display: one candidate, the true one, scores one
    /// grid unit, and all others score 0.
    pub fn truth(&self, candidates: usize) -> f64 {
        let others = candidates.saturating_sub(1).to_f64().unwrap_or(f64::INFINITY);
        let odds = others * (-1.0 / self.rate.unit()).exp();
        (1.0 + odds).recip()
    }

    /// The probability of every candidate. For **public** scores only: tests, and plots of released
    /// data.
    pub fn probabilities(&self, scores: &[i128]) -> Vec<f64> {
        let weights = self.rate.weights(scores);
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }
}

/// The number s at which n − 1 candidates of weight e^−s together have the odds β/(1 − β) against
/// one candidate of weight 1: ln(n − 1) + ln((1 − β)/β). Negative infinity for one candidate.
pub(super) fn surprise_of(candidates: usize, beta: &Rational) -> f64 {
    candidates.saturating_sub(1).to_f64().unwrap_or(f64::MAX).ln() + log_odds(beta)
}

/// ln((1 − β)/β) for a confidence 1 − β, or slightly more.
fn log_odds(beta: &Rational) -> f64 {
    if *beta >= Rational::one() {
        return f64::NEG_INFINITY;
    }
    surprise(beta) + (-beta.to_f64().unwrap_or(0.0)).ln_1p()
}

/// The largest whole number of grid units below (R/ε)·`surprise`. Candidates farther from the best
/// weigh at most e^−`surprise`. 0 unless it is positive.
pub(super) fn whole_below(rate: &Rate, surprise: f64) -> f64 {
    (report_up(rate.unit() * surprise).ceil() - 1.0).max(0.0)
}

/// (R/ε)·ln n, rounded up.
pub(super) fn expected_error(rate: &Rate, candidates: usize) -> f64 {
    report_up(rate.unit() * log_of(candidates))
}

/// ln(total/least) ≥ 0; infinite unless `least` is positive.
fn log_ratio(total: f64, least: f64) -> f64 {
    // Rounded up slightly before the logarithm, which magnifies relative errors near 1.
    if least > 0.0 { report_up(total / least).ln().max(0.0) } else { f64::INFINITY }
}

fn log_of(candidates: usize) -> f64 {
    candidates.max(1).to_f64().unwrap_or(f64::MAX).ln()
}
