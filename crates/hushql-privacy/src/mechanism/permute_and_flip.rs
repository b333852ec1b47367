//! Permute-and-flip: visits candidates in random order and accepts each with probability
//! exp(−ε·(best − score)/R); the first accepted one wins.
//!
//! The scores' range R in grid units and ε go in; the index of a winner comes out. It has the
//! assumptions of the exponential mechanism, is ε-differentially private, too, and never errs more.
//! But it is not of bounded range, so under zCDP it costs as much as noise at the same ε.
//!
//! With two candidates one point apart at ε = R = 1, the worse one wins with probability e⁻¹/2 =
//! 0.184; under the exponential mechanism, 0.269.

use num_traits::ToPrimitive;

use super::MechanismError;
use super::exponential::{expected_error, surprise_of, whole_below};
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
    /// The exponent per grid unit is at most ε/R, so the choice is ε-DP. It depends only on
    /// distances to the best score, so the range R also suffices for scores that are not monotonic.
    /// A range of 0 counts as 1. Source: McKenna, Sheldon 2020.
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

    /// The distance of the winner from the best score at confidence 1 − β, in grid units.
    ///
    /// # Guarantee
    /// P(best − score > t) ≤ β for this whole number t and all n scores; 0 for one candidate. In
    /// the worst case one candidate is the best and all others are t + 1 away: in any order of
    /// visits, moving a candidate there, or accepting it there more often, lets such a candidate
    /// win more often. Then the probability is 1 − (1 − (1 − p)ⁿ)/np with p = e^(−ε(t + 1)/R). It
    /// is at most that of [`Exponential::error_at`](super::Exponential::error_at) (McKenna, Sheldon
    /// 2020), which is used for β below 10⁻⁶, where floats are not precise enough.
    pub fn error_at(&self, candidates: usize, beta: &Rational) -> f64 {
        whole_below(&self.rate, self.surprise(candidates, beta))
    }

    /// −ln p of the largest p at which the probability above is at most β.
    ///
    /// # Guarantee
    /// Never too small: the search keeps numbers that pass with a margin of 10⁻⁹ of β, a thousand
    /// times the error of the floats.
    fn surprise(&self, candidates: usize, beta: &Rational) -> f64 {
        let enough = surprise_of(candidates, beta);
        let beta = beta.to_f64().unwrap_or(0.0) * (1.0 - 1e-9);
        let count = candidates.to_f64().unwrap_or(f64::MAX);
        if enough <= 0.0 || beta < 1e-6 {
            return enough;
        }
        let passes = |surprise: f64| {
            let p = (-surprise).exp();
            let none = (count * (-p).ln_1p()).exp_m1();
            1.0 + none / (count * p) <= beta
        };
        let (mut low, mut high) = (0.0, enough);
        for _ in 0..80 {
            let middle = low + (high - low) / 2.0;
            if passes(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// An upper bound of the mean distance between the best score and the winner's, in grid units.
    ///
    /// # Guarantee
    /// The bound of [`Exponential::expected_error`](super::Exponential::expected_error), which
    /// holds here too.
    pub fn expected_error(&self, candidates: usize) -> f64 {
        expected_error(&self.rate, candidates)
    }

    /// The probability of every candidate. For **public** scores only: tests, and plots of released
    /// data.
    ///
    /// A candidate that is visited after k others wins if all of them were rejected. Let a_k be the
    /// mean of Π(1 − p) over the sets of k others; then P = (p/n)·Σ_k a_k. All terms are positive,
    /// so nothing cancels. The time is cubic in the number of candidates.
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
            // A random set of k out of `size` values contains the new one with probability
            // k/`size`.
            let share = k.to_f64().unwrap_or(0.0) / size;
            means[k] = (1.0 - share) * means[k] + share * value * means[k - 1];
        }
    }
    means
}
