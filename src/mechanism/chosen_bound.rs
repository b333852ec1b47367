//! Laplace noise under a bound that is chosen first: how much one unit contributes at most.
//!
//! A ladder of bounds and an ε go in; a calibrated mechanism comes out. It chooses a bound by the exponential mechanism
//! from the numbers of units beyond each bound, and then perturbs the values under that bound. It assumes that one unit moves
//! the number beyond each bound by 0 or 1, in the same direction for all bounds, and the values under the bound τ by at
//! most τ·weight in L1.
//!
//! ```text
//! ε = 1, one value     choice at ε/4, noise at 3ε/4      score of the j-th bound: −(units beyond it) − 8·j
//! ```

use num_bigint::BigInt;
use num_traits::{One, ToPrimitive};

use super::{Exponential, Laplace, MechanismError};
use crate::privacy::{Epsilon, Rational};
use crate::sampler::QueryRng;

/// From so many values on, the choice has a tenth of ε, and before a quarter.
const MANY: u64 = 10;

/// A calibrated choice of a bound with the noise under each.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenBound {
    choice: Exponential,
    choosing: Epsilon,
    releasing: Epsilon,
    penalty: i128,
    rungs: Vec<Rung>,
}

/// A bound, with the noise of values under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// τ.
    pub bound: u128,
    /// Noise of scale τ·weight/ε₂.
    pub noise: Laplace,
}

impl ChosenBound {
    /// The mechanism that makes `values` values, under a bound of the ladder that it chooses, ε-private together.
    ///
    /// The first bounds of the ladder are taken, up to the first whose noise could not be drawn.
    ///
    /// # Guarantee
    /// The choice is ε₁-DP: score j is −(units beyond τ_j) − λ·j with a public λ, and adding a unit moves all scores by 0 or −1,
    /// so that their range is 1. Given the bound, the values are ε₂-DP with a scale of at least τ·weight/ε₂. ε₁ + ε₂ = ε
    /// exactly, by adaptive composition. λ = max(⌈2/ε₁⌉, ⌈√2·values/ε₂⌉), exactly. Source: rules of chosen bounds; McSherry,
    /// Talwar 2007.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] if no bound's noise can be drawn; [`MechanismError::RangeTooWide`] for a share of ε
    /// that is too small.
    pub fn calibrate(
        ladder: &[u128],
        weight: u128,
        values: u64,
        epsilon: &Epsilon,
    ) -> Result<Self, MechanismError> {
        let parts = Rational::from_integer(BigInt::from(if values < MANY { 4 } else { 10 }));
        let share = epsilon.value() / parts;
        let rest = epsilon.value() - &share;
        let part = |value| Epsilon::new(value).map_err(|_| MechanismError::RangeTooWide);
        let (choosing, releasing) = (part(share)?, part(rest)?);
        let noise = |bound: &u128| {
            let l1 = bound.checked_mul(weight)?;
            let noise = Laplace::calibrate(l1, &releasing).ok()?;
            Some(Rung { bound: *bound, noise })
        };
        let rungs: Vec<Rung> = ladder.iter().map_while(noise).collect();
        if rungs.is_empty() {
            return Err(MechanismError::ScaleTooLarge);
        }
        let penalty = penalty(&choosing, &releasing, values);
        let penalty = penalty.to_i128().ok_or(MechanismError::RangeTooWide)?;
        Ok(Self {
            choice: Exponential::calibrate(1, &choosing)?,
            choosing,
            releasing,
            penalty,
            rungs,
        })
    }

    /// The bounds, ascending, with their noise.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// ε₁, for the choice.
    pub fn choosing(&self) -> &Epsilon {
        &self.choosing
    }

    /// ε₂, for the noise.
    pub fn releasing(&self) -> &Epsilon {
        &self.releasing
    }

    /// λ: what one step up the ladder costs a score.
    pub fn penalty(&self) -> i128 {
        self.penalty
    }

    /// The number of the chosen bound, from the number of units beyond each bound of the ladder.
    ///
    /// # Guarantee
    /// P(j) ∝ exp(ε₁·(−beyond_j − λ·j)), exactly.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] for fewer numbers than bounds.
    pub fn choose(&self, beyond: &[i128], rng: &mut QueryRng) -> Result<usize, MechanismError> {
        self.choice.choose(&self.scores(beyond)?, rng)
    }

    /// The probability of every bound. For **public** numbers only: tests, and simulations.
    ///
    /// # Errors
    /// As [`ChosenBound::choose`].
    pub fn probabilities(&self, beyond: &[i128]) -> Result<Vec<f64>, MechanismError> {
        Ok(self.choice.probabilities(&self.scores(beyond)?))
    }

    fn scores(&self, beyond: &[i128]) -> Result<Vec<i128>, MechanismError> {
        let beyond = beyond.get(..self.rungs.len()).ok_or(MechanismError::RangeTooWide)?;
        let score = |(j, beyond): (i128, &i128)| {
            let penalty = self.penalty.checked_mul(j)?;
            beyond.checked_neg()?.checked_sub(penalty)
        };
        let scores: Option<Vec<i128>> = (0_i128..).zip(beyond).map(score).collect();
        scores.ok_or(MechanismError::RangeTooWide)
    }
}

/// max(⌈2/ε₁⌉, ⌈√2·values/ε₂⌉): as many units may be cut as one doubling of the noise is worth.
fn penalty(choosing: &Epsilon, releasing: &Epsilon, values: u64) -> BigInt {
    let two = || Rational::from_integer(BigInt::from(2));
    let by_choice = (two() / choosing.value()).ceil().to_integer();
    let ratio = Rational::from_integer(BigInt::from(values)) / releasing.value();
    let square = (&ratio * &ratio * two()).ceil().to_integer();
    let root = square.sqrt();
    let root = if &root * &root < square { root + BigInt::one() } else { root };
    by_choice.max(root)
}
