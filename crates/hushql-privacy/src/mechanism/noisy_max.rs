//! Report noisy max: adds Laplace noise of scale R/ε to every score and returns the index of the
//! largest.
//!
//! The scores' range R in grid units and ε go in; the index of a winner comes out. The noisy scores
//! are never shown. It assumes that between neighbouring databases the largest and the smallest
//! change of a score differ by at most R. The choice is then ε-differentially private.
//!
//! R = 1 and ε = 0.001 add noise of scale 1000 to each count.

use num_traits::ToPrimitive;

use super::rate::{report_up, surprise};
use super::{Laplace, MechanismError};
use crate::privacy::{Epsilon, Rational};
use crate::sampler::{LaplaceScale, QueryRng, noisy_max};

/// A calibrated noisy-max mechanism.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyMax {
    scale: LaplaceScale,
    exponent: Rational,
}

impl NoisyMax {
    /// The mechanism that makes a choice among scores of range `range` (grid units) ε-private.
    ///
    /// # Guarantee
    /// The scale is at least R/ε, so the choice is ε-DP. A change common to all scores does not
    /// change the winner, and the remaining changes lie in [0, R]. For any fixed noise of the
    /// others, the value that one candidate must exceed moves by at most R, which changes the tail
    /// of its integer noise by a factor of at most e^ε. A range of 0 counts as 1. Source: Dwork,
    /// Roth 2014, claim 3.9.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when R/ε reaches 2⁶² − 1.
    pub fn calibrate(range: u128, epsilon: &Epsilon) -> Result<Self, MechanismError> {
        Self::with_noise(&Laplace::calibrate(range.max(1), epsilon)?)
    }

    /// The mechanism with this noise on every score. It serves to state errors where the noise is
    /// drawn elsewhere.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when the noise is 0.
    pub fn with_noise(noise: &Laplace) -> Result<Self, MechanismError> {
        let part = |n: &num_bigint::BigInt| n.to_u64().ok_or(MechanismError::ScaleTooLarge);
        let scale = LaplaceScale::new(part(noise.scale().numer())?, part(noise.scale().denom())?)?;
        Ok(Self { scale, exponent: noise.scale().recip() })
    }

    /// ε/R: the reciprocal of the noise's scale.
    pub fn exponent(&self) -> &Rational {
        &self.exponent
    }

    /// The index of the winner.
    ///
    /// # Guarantee
    /// Exactly the argmax of score plus independent discrete Laplace noise; among equals, the first
    /// in the public order of candidates.
    ///
    /// # Errors
    /// [`MechanismError::Sampler`] when there is no candidate.
    pub fn choose(&self, scores: &[i128], rng: &mut QueryRng) -> Result<usize, MechanismError> {
        Ok(noisy_max(scores, &self.scale, rng)?)
    }

    /// The distance of the winner from the best score at confidence 1 − β, in grid units.
    ///
    /// # Guarantee
    /// P(best − score > t) ≤ β: a candidate t below the best wins only if its noise exceeds that of
    /// the best by t or more. The bound is the union of these events over n − 1 candidates. Rounded
    /// up. 0 for one candidate.
    pub fn error_at(&self, candidates: usize, beta: &Rational) -> f64 {
        if candidates <= 1 {
            return 0.0;
        }
        let goal = -surprise(beta) - others(candidates).ln();
        if goal.is_infinite() {
            return f64::INFINITY;
        }
        let gap = NoiseGap::new(&self.exponent);
        let (mut low, mut high) = (0.0, gap.unit + 1.0);
        while gap.log_tail(high) > goal {
            low = high;
            high *= 2.0;
        }
        for _ in 0..100 {
            let middle = low + (high - low) / 2.0;
            if gap.log_tail(middle) > goal {
                low = middle;
            } else {
                high = middle;
            }
        }
        // The gap is a whole number, and the formula holds at whole numbers.
        high.ceil()
    }

    /// An upper bound of the mean distance between the best score and the winner's, in grid units.
    ///
    /// # Guarantee
    /// E(best − score) ≤ Σ_t min(1, (n − 1)·P(X − X′ > t)): the sum of the tails of the union
    /// bound. Rounded up.
    pub fn expected_error(&self, candidates: usize) -> f64 {
        if candidates <= 1 {
            return 0.0;
        }
        let gap = NoiseGap::new(&self.exponent);
        // Every t counts as 1 up to the point where the union bound falls below 1. From there on,
        // the tails are added.
        let certain = self.error_at(candidates, &Rational::from_integer(1.into())).floor();
        report_up(certain + others(candidates) * gap.tails_from(certain))
    }

    /// The probability of every candidate. For **public** scores only: tests, and plots of released
    /// data.
    ///
    /// Sums over the winner's noisy score: on the integer grid for scales up to 4,096, and on a
    /// coarser grid above, which changes a probability by less than 0.001.
    pub fn probabilities(&self, scores: &[i128]) -> Vec<f64> {
        let unit = self.exponent.recip().to_f64().unwrap_or(f64::INFINITY);
        let step = (unit / 4_096.0).ceil().max(1.0);
        let best = scores.iter().copied().max().unwrap_or(0);
        let gaps: Vec<f64> = scores
            .iter()
            .map(|score| (best.abs_diff(*score).to_f64().unwrap_or(f64::INFINITY) / step).round())
            .collect();
        let alpha = (-step / unit).exp();
        // P(X ≤ x) and P(X = x) of the noise, in steps.
        let up_to = |x: f64| {
            if x >= 0.0 {
                1.0 - alpha.powf(x + 1.0) / (1.0 + alpha)
            } else {
                alpha.powf(-x) / (1.0 + alpha)
            }
        };
        let exactly = |x: f64| (1.0 - alpha) / (1.0 + alpha) * alpha.powf(x.abs());
        let reach = (40.0 * unit / step).ceil() + 1.0;
        let mut probabilities = vec![0.0; scores.len()];
        let mut value = -reach;
        while value <= reach {
            for (index, winner) in probabilities.iter_mut().enumerate() {
                let mut mass = exactly(value + gaps[index]);
                for (other, gap) in gaps.iter().enumerate().filter(|(other, _)| *other != index) {
                    // An earlier candidate must score less, a later one may score the same.
                    mass *= up_to(value + gap - if other < index { 1.0 } else { 0.0 });
                }
                *winner += mass;
            }
            value += 1.0;
        }
        probabilities
    }
}

fn others(candidates: usize) -> f64 {
    candidates.saturating_sub(1).to_f64().unwrap_or(f64::MAX)
}

/// The difference of two independent noises: P(D = k) ∝ α^|k|·(|k| + (1+α²)/(1−α²)).
struct NoiseGap {
    unit: f64,
    alpha: f64,
    one_less: f64,
}

impl NoiseGap {
    fn new(exponent: &Rational) -> Self {
        let unit = exponent.recip().to_f64().unwrap_or(f64::INFINITY);
        Self { unit, alpha: (-1.0 / unit).exp(), one_less: -(-1.0 / unit).exp_m1() }
    }

    /// P(D > t) = ((1−α)/(1+α))²·α^(t+1)·((t + 1 + c)/(1−α) + α/(1−α)²) with c = (1+α²)/(1−α²).
    fn log_tail(&self, t: f64) -> f64 {
        let outside = 2.0 * (self.one_less / (1.0 + self.alpha)).ln();
        outside - (t + 1.0) / self.unit + ((t + self.offset()) / self.one_less).ln()
    }

    /// 1 + c + α/(1−α), so that the tail's bracket is (t + offset)/(1−α).
    fn offset(&self) -> f64 {
        let square = self.alpha * self.alpha;
        let c = (1.0 + square) / (self.one_less * (1.0 + self.alpha));
        1.0 + c + self.alpha / self.one_less
    }

    /// Σ_{t ≥ start} P(D > t).
    fn tails_from(&self, start: f64) -> f64 {
        let outside = self.one_less / (1.0 + self.alpha).powi(2);
        let first = (-(start + 1.0) / self.unit).exp();
        outside * first * (start + self.offset() + self.alpha / self.one_less) / self.one_less
    }
}
