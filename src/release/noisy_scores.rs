//! Noise on all scores at once, from which the best are chosen, instead of rounds of a selection.
//!
//! In: a choice among known keys, and its ε. Out: Laplace noise for the vector of all scores, with the error of the k
//! best noisy scores. All noisy scores together are ε-private, so choosing the k best of them costs nothing more. k
//! rounds at ε/k are better if a unit is in many groups, the noisy vector if it is in few.
//!
//! ```text
//! TOP 5 of 7 at ε = 1, a person in one group:   5 rounds at ε/5 within 32.8     noise of scale 1 within 8
//! ```

use num_traits::ToPrimitive;

use crate::analysis::{Choice, Prior, Source};
use crate::mechanism::{Laplace, NoisyMax};
use crate::privacy::{Epsilon, Loss, Rational};
use crate::release::mechanism::{Mechanism, Mechanized, Predicted};

/// Laplace noise on every score of a choice, from which the best are chosen. `None` if this is impossible, or certain
/// not to err less than rounds of a selection at the same ε.
///
/// # Guarantee
/// The noise has at least the scale Δ₁/ε for the Δ₁ of all scores of all outer groups together, so that all noisy
/// scores together are ε-private (see [`Laplace::calibrate`]), and the result is a function of them. With 95 %
/// confidence every chosen candidate is within `worst` of the best remaining one at its turn, on average within
/// `average`: the best remaining one is among the k truly best of its group, because fewer than k are gone. So only
/// k·(n − 1) pairs of noises can put another candidate before it, and each difference of two noises exceeds a bound
/// with the probability that [`NoisyMax::error_at`] adds up.
pub(super) fn noisy_scores(choice: &Choice, epsilon: &Epsilon) -> Option<Mechanized> {
    let Source::Keys(candidates) = &choice.source else { return None };
    let l1 = choice.l1?;
    // At equal scales permute-and-flip never errs more than noise does.
    if choice.prior != Prior::Uniform || l1 >= choice.calibrated(true)? {
        return None;
    }
    let noise = Laplace::calibrate(l1, epsilon).ok()?;
    let gaps = NoisyMax::calibrate(l1, epsilon).ok()?;
    let others = candidates.len().checked_sub(1)?;
    let pairs = usize::try_from(choice.rounds).ok()?.checked_mul(others)?;
    // [`NoisyMax`] bounds the errors by the number of candidates besides the best; here, by the number of pairs.
    let among = pairs.checked_add(1)?;
    let unit = choice.unit.to_f64()?;
    let beta = Rational::new(1.into(), 20.into());
    let accuracy = Predicted::Winner {
        worst: gaps.error_at(among, &beta) * unit,
        average: gaps.expected_error(among) * unit,
    };
    Some(Mechanized {
        mechanism: Mechanism::Laplace(noise),
        loss: Loss::pure(epsilon),
        accuracy,
        rank: None,
        instead: None,
    })
}
