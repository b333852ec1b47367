//! The best noisy scores among unknown candidates: adds noise to every score, and shows those that
//! reach a threshold.
//!
//! In: the sensitivity of all scores together, a cost, δ, and a bound on the rows of one unit in
//! candidates that no other unit has. Out: the k best candidates, best first, or fewer. It assumes
//! that these bounds hold *whatever the scores are*, and that a row adds at most the stated amount
//! to a score. All noisy scores together are private at the whole cost, however many of them are
//! shown.
//!
//! ```text
//! ε = 1, δ = 10⁻⁶, one candidate per unit, counts:   scale 1, and a threshold of 15, for any k
//! ```

use super::{
    Alone, Gaussian, Laplace, MechanismError, rows_threshold_of_gaussian,
    rows_threshold_of_laplace, threshold_of_gaussian, threshold_of_laplace,
};
use crate::privacy::{Delta, Epsilon, Rational, Rho};
use crate::sampler::QueryRng;

/// The noise of each score.
#[derive(Debug, Clone)]
pub enum ScoreNoise {
    /// Discrete Laplace noise.
    Laplace(Laplace),
    /// Discrete Gaussian noise.
    Gaussian(Gaussian),
}

/// Calibrated noise on the scores of unknown candidates, and the threshold that hides candidates of
/// one unit alone.
#[derive(Debug, Clone)]
pub struct NoisyKeys {
    noise: ScoreNoise,
    threshold: u64,
}

impl NoisyKeys {
    /// Laplace noise at ε; the threshold uses δ.
    ///
    /// # Guarantee
    /// The list is (ε, δ)-private, for all k. Let a larger database have one unit more than a
    /// smaller one. With probability at least 1 − δ, no candidate of that unit alone reaches the
    /// threshold (see [`rows_threshold_of_laplace`]). Then the list is a function of the noisy
    /// scores of the candidates that both have, which are ε-private: [`Laplace::calibrate`]. So
    /// P(S) ≤ e^ε·P′(S) + δ from the larger database; from the smaller one, P′(S) ≤ min(1,
    /// e^ε·P(S)/(1 − δ)) ≤ e^ε·P(S) + δ, since the noises are independent.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when the noise or the threshold is too large.
    pub fn laplace(
        l1: u128,
        epsilon: &Epsilon,
        delta: &Delta,
        alone: &Alone,
    ) -> Result<Self, MechanismError> {
        let noise = Laplace::calibrate(l1, epsilon)?;
        let threshold = match alone.rows <= 1 && alone.of_row <= 1 {
            true => threshold_of_laplace(&noise, alone.groups, delta)?,
            false => rows_threshold_of_laplace(&noise, alone, delta)?,
        };
        Ok(Self { noise: ScoreNoise::Laplace(noise), threshold })
    }

    /// Gaussian noise at (ε, δ/2). The threshold uses the other half of δ. The ρ of the noise is
    /// that of [`Gaussian::rho`].
    ///
    /// # Guarantee
    /// The list is (ε, δ)-private, for all k, as in [`NoisyKeys::laplace`]: P′(S) ≤ min(1, y + δ/2)
    /// with y = e^ε·P(S)/(1 − δ/2), which is at most (1 − δ/2)·y + δ.
    ///
    /// # Errors
    /// As [`NoisyKeys::laplace`], and for a δ whose half is below the ledger's unit.
    pub fn gaussian(
        l2_squared: u128,
        moving: u64,
        epsilon: &Epsilon,
        delta: &Delta,
        alone: &Alone,
    ) -> Result<Self, MechanismError> {
        let half = delta.share(2).map_err(|_| MechanismError::ScaleTooLarge)?;
        let noise = Gaussian::calibrate(l2_squared, Some(moving), epsilon, &half)?;
        Self::with_gaussian(noise, &half, alone)
    }

    /// Gaussian noise at ρ; the threshold uses δ.
    ///
    /// # Guarantee
    /// The list is δ-approximately ρ-zCDP, for all k: unless a candidate of one unit alone reaches
    /// the threshold, it is a function of noisy scores that are ρ-zCDP. Source: Bun, Steinke 2016,
    /// section 8.
    ///
    /// # Errors
    /// As [`NoisyKeys::laplace`].
    pub fn concentrated(
        l2_squared: u128,
        rho: &Rho,
        delta: &Delta,
        alone: &Alone,
    ) -> Result<Self, MechanismError> {
        Self::with_gaussian(Gaussian::calibrate_rho(l2_squared, rho)?, delta, alone)
    }

    fn with_gaussian(
        noise: Gaussian,
        delta: &Delta,
        alone: &Alone,
    ) -> Result<Self, MechanismError> {
        let threshold = match alone.rows <= 1 && alone.of_row <= 1 {
            true => threshold_of_gaussian(&noise, alone.groups, delta)?,
            false => rows_threshold_of_gaussian(&noise, alone, delta)?,
        };
        Ok(Self { noise: ScoreNoise::Gaussian(noise), threshold })
    }

    /// The noise of each score.
    pub fn noise(&self) -> &ScoreNoise {
        &self.noise
    }

    /// The least noisy score at which a candidate is shown, in grid units.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The least score at which a candidate reaches the threshold, except with probability β.
    ///
    /// # Guarantee
    /// At that score or a larger one, P(score + X < τ) ≤ β: the noise is symmetric, so this is half
    /// of P(|X| > score − τ).
    pub fn reached_from(&self, beta: &Rational) -> u128 {
        let both = beta + beta;
        let below = match &self.noise {
            ScoreNoise::Laplace(noise) => noise.error_at(&both),
            ScoreNoise::Gaussian(noise) => noise.error_at(&both),
        };
        u128::from(self.threshold).saturating_add(below)
    }

    /// The candidates whose noisy scores reach the threshold, best first, at most `most` of them.
    /// `places` numbers the candidates; it orders those with equal noisy scores.
    ///
    /// # Guarantee
    /// Each score gets a separate draw. The result is a function of the noisy scores and the order
    /// of the candidates.
    pub fn choose(
        &self,
        scores: &[i128],
        places: &[usize],
        most: usize,
        rng: &mut QueryRng,
    ) -> Vec<usize> {
        let mut draw = || match &self.noise {
            ScoreNoise::Laplace(noise) => noise.draw(rng),
            ScoreNoise::Gaussian(noise) => noise.draw(rng),
        };
        let noisy = scores.iter().map(|score| score.saturating_add(draw()));
        let noisy: Vec<(i128, usize)> = noisy.zip(places.iter().copied()).collect();
        let mut shown: Vec<usize> = (0..noisy.len()).collect();
        let of = |i: &usize| noisy.get(*i).copied().unwrap_or((i128::MIN, usize::MAX));
        shown.retain(|i| of(i).0 >= i128::from(self.threshold));
        shown.sort_unstable_by_key(|i| {
            let (score, place) = of(i);
            (std::cmp::Reverse(score), place)
        });
        shown.truncate(most);
        shown
    }
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test's numbers are small"
)]
mod tests;
