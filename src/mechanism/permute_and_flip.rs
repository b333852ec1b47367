//! Permute-and-flip: visits candidates in random order and accepts each with probability exp(−ε·(best − score)/R);
//! the first accepted one wins.
//!
//! The scores' range R in grid units and ε go in; the index of a winner comes out. It has the assumptions of the
//! exponential mechanism, is ε-differentially private too, and never errs more. But its range is not bounded, so
//! under zCDP it costs ε²/2.
//!
//! Of two candidates one point apart at ε = R = 1, the worse one wins with probability e⁻¹/2 = 0.184; under the
//! exponential mechanism, 0.269.

use num_traits::ToPrimitive;

use super::MechanismError;
use super::exponential::{error_at, expected_error};
use super::rate::Rate;
use crate::privacy::{Epsilon, Rational};
use crate::sampler::{QueryRng, permute_and_flip};

/// A calibrated permute-and-flip mechanism.
#[derive(Debug, Clone, PartialEq)]
pub struct PermuteAndFlip {
    rate: Rate,
}

impl PermuteAndFlip {
    /// The mechanism that makes a choice among scores of range `range` (grid units) ε-private.
    ///
    /// # Guarantee
    /// The exponent per grid unit is at most ε/R, so the choice is ε-DP. It depends only on distances to the best
    /// score, so the range R suffices for scores that are not monotonic too. A range of 0 is read as 1. Source:
    /// McKenna, Sheldon 2020.
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
    /// Exactly the law of the algorithm. Equal scores are equally likely, whatever their order.
    ///
    /// # Errors
    /// [`MechanismError::Sampler`] when there is no candidate.
    pub fn choose(&self, scores: &[i128], rng: &mut QueryRng) -> Result<usize, MechanismError> {
        Ok(permute_and_flip(scores, self.rate.numerator, self.rate.denominator, rng)?)
    }

    /// How far below the best score the winner can be at confidence 1 − β, in grid units.
    ///
    /// # Guarantee
    /// The bound of [`Exponential::error_at`](super::Exponential::error_at), which holds here too: for every t, this
    /// mechanism errs by t or more at most as often as that one. Source: McKenna, Sheldon 2020.
    pub fn error_at(&self, candidates: usize, beta: &Rational) -> f64 {
        error_at(&self.rate, candidates, beta)
    }

    /// An upper bound of how far the winner is below the best score on average, in grid units.
    ///
    /// # Guarantee
    /// The bound of [`Exponential::expected_error`](super::Exponential::expected_error), which holds here too.
    pub fn expected_error(&self, candidates: usize) -> f64 {
        expected_error(&self.rate, candidates)
    }

    /// The probability of every candidate. For **public** scores only: tests, and plots of released data.
    ///
    /// A candidate that is visited after k others wins if all of them were rejected: with a_k the mean of Π(1 − p)
    /// over the sets of k others, P = (p/n)·Σ_k a_k. All terms are positive, so nothing cancels. The time is cubic in
    /// the number of candidates.
    pub fn probabilities(&self, scores: &[i128]) -> Vec<f64> {
        let weights = self.rate.weights(scores);
        let count = weights.len().to_f64().unwrap_or(f64::INFINITY);
        (0..weights.len())
            .map(|index| {
                let others = weights.iter().enumerate().filter(|(other, _)| *other != index);
                let means = mean_products(others.map(|(_, weight)| 1.0 - weight));
                weights[index] * means.iter().sum::<f64>() / count
            })
            .collect()
    }
}

/// a_k: the mean over all sets of k values of the product of the set.
fn mean_products(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut means = vec![1.0];
    for value in values {
        let size = means.len().to_f64().unwrap_or(f64::INFINITY);
        means.push(0.0);
        for k in (1..means.len()).rev() {
            // A random set of k out of `size` values contains the new one with probability k/`size`.
            let share = k.to_f64().unwrap_or(0.0) / size;
            means[k] = (1.0 - share) * means[k] + share * value * means[k - 1];
        }
    }
    means
}
