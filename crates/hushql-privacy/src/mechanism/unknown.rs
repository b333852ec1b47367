//! Selection among unknown candidates: an additional candidate, ⊥, wins when no other stands out.
//!
//! The range of the scores, ε, δ and the number of candidates that one unit can create go in; the
//! score of ⊥ comes out, and a winner or none. It assumes that the scores and ⊥ (which never
//! changes) have that range, that a unit has at most that many candidates *whatever their scores
//! are*, and that a candidate created by one unit alone scores at most the range. The choice is
//! then (ε, δ)-differentially private.
//!
//! ε = 1, δ = 10⁻⁶, one candidate per unit, R = 1: ⊥ scores ⌈1 + ln 10⁶⌉ = 15.

use num_bigint::BigInt;
use num_traits::{One, ToPrimitive};

use super::MechanismError;
use super::rate::Rate;
use crate::privacy::enclosure::{exp_neg, ln};
use crate::privacy::{Delta, Epsilon, Rational};
use crate::sampler::{QueryRng, exponential, permute_and_flip};

/// How a winner is chosen among the candidates and ⊥.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownRule {
    /// The exponential mechanism.
    Exponential,
    /// Permute-and-flip.
    PermuteAndFlip,
}

/// A calibrated selection among unknown candidates, in one round or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    rate: Rate,
    nobody: i128,
}

impl Unknown {
    /// A selection of `rounds` winners that is (ε, δ)-private as a whole. A unit has at most `keys`
    /// candidates. The changes that it makes to the scores, and to ⊥ (which does not change),
    /// differ by at most `range` grid units.
    ///
    /// # Guarantee
    /// Each round is (ε/rounds, δ/rounds)-DP, with both shares rounded down to the ledger's units.
    /// Let r be the exponent per grid unit, which is at most ε/(rounds·R). ⊥ scores at least R +
    /// ln(keys·rounds/δ)/r, rounded up. So a candidate created by one unit has at most
    /// δ/(rounds·keys) of ⊥'s weight, and there are at most `keys` of them. 0 candidates and a
    /// range of 0 count as 1.
    ///
    /// # Errors
    /// [`MechanismError::DeltaTooLarge`] unless δ/rounds ≤ e^(ε/rounds) − 1, because otherwise ⊥
    /// itself would reveal too much. [`MechanismError::TooManyRounds`] when a share is below the
    /// ledger's unit, or there are no rounds. [`MechanismError::RangeTooWide`] when ⊥'s score does
    /// not fit 127 bits.
    pub fn calibrate(
        range: u128,
        epsilon: &Epsilon,
        delta: &Delta,
        keys: u64,
        rounds: usize,
    ) -> Result<Self, MechanismError> {
        let epsilon = epsilon.share(rounds).map_err(|_| MechanismError::TooManyRounds)?;
        let delta = delta.share(rounds).map_err(|_| MechanismError::TooManyRounds)?;
        if !below_expm1(delta.value(), epsilon.value()) {
            return Err(MechanismError::DeltaTooLarge);
        }
        let range = range.max(1);
        let rate = Rate::round_down(range, &epsilon)?;
        let odds = Rational::from_integer(BigInt::from(keys.max(1))) / delta.value();
        let above = ln(&odds, 128).ok_or(MechanismError::DeltaTooLarge)?.upper / &rate.exact;
        let nobody = (Rational::from_integer(BigInt::from(range)) + above).ceil().to_integer();
        let nobody = nobody.to_i128().ok_or(MechanismError::RangeTooWide)?;
        Ok(Self { rate, nobody })
    }

    /// The exponent per grid unit of score, in each round.
    pub fn exponent(&self) -> &Rational {
        &self.rate.exact
    }

    /// The score of ⊥, in grid units.
    pub fn nobody(&self) -> i128 {
        self.nobody
    }

    /// The least score, in grid units, at which a remaining candidate keeps ⊥ from winning any of
    /// the rounds, except with probability β for all rounds together.
    ///
    /// # Guarantee
    /// Let β' = β/rounds, and let a candidate lead ⊥ by d. Then ⊥ wins a round of the exponential
    /// mechanism with probability at most 1/(1 + e^rd), and a round of permute-and-flip with at
    /// most e^−rd/2. These are the probabilities with two candidates; further ones lower them. A
    /// float, for display and comparison.
    pub fn kept_from(&self, rule: UnknownRule, rounds: u64, beta: &Rational) -> f64 {
        let rounds = Rational::from_integer(BigInt::from(rounds.max(1)));
        let beta = (beta / rounds).to_f64().unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let lead = match rule {
            UnknownRule::Exponential => ((1.0 - beta) / beta).ln(),
            UnknownRule::PermuteAndFlip => (0.5 / beta).ln(),
        };
        (self.nobody.to_f64().unwrap_or(f64::INFINITY) + lead.max(0.0) * self.rate.unit()).ceil()
    }

    /// One round: the index of the winner, or `None` if ⊥ wins, which ends the list.
    ///
    /// # Guarantee
    /// Exactly the law of the rule over the scores and ⊥. ⊥ is a candidate in every round: between
    /// rounds the caller removes winners, but never ⊥.
    ///
    /// # Errors
    /// [`MechanismError::Sampler`] when the sampler fails. Without candidates ⊥ wins; that is not
    /// an error.
    pub fn choose(
        &self,
        scores: &[i128],
        rule: UnknownRule,
        rng: &mut QueryRng,
    ) -> Result<Option<usize>, MechanismError> {
        let all = self.with_nobody(scores);
        let (num, den) = (self.rate.numerator, self.rate.denominator);
        let winner = match rule {
            UnknownRule::Exponential => exponential(&all, num, den, rng)?,
            UnknownRule::PermuteAndFlip => permute_and_flip(&all, num, den, rng)?,
        };
        Ok(Some(winner).filter(|winner| *winner < scores.len()))
    }

    fn with_nobody(&self, scores: &[i128]) -> Vec<i128> {
        scores.iter().copied().chain([self.nobody]).collect()
    }
}

/// True if δ ≤ e^ε − 1.
///
/// # Guarantee
/// True only if it holds, for all ε, δ > 0. An upper bound of (1 + δ)·e^−ε is compared with 1 at
/// increasing precision. The two sides are never equal; if they differ by less than 2⁻⁴⁰⁰, δ counts
/// as too large.
fn below_expm1(delta: &Rational, epsilon: &Rational) -> bool {
    let grown = Rational::one() + delta;
    for bits in [64, 128, 256, 512] {
        let shrunk = exp_neg(epsilon, bits);
        if &grown * shrunk.upper <= Rational::one() {
            return true;
        }
        if &grown * shrunk.lower > Rational::one() {
            return false;
        }
    }
    false
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "a test's numbers are small")]
mod tests;
