//! Noise on all scores at once, from which the best are chosen, instead of rounds of a selection.
//!
//! In: a choice among known keys, and its ε. Out: Laplace noise for the vector of all scores, with
//! the error of the k best noisy scores. All noisy scores together are ε-private, so choosing the k
//! best of them costs nothing more. k rounds at ε/k are better if a unit is in many groups; the
//! noisy vector is better if a unit is in few.
//!
//! ```text
//! TOP 5 of 7 at ε = 1, a person in one group:   5 rounds at ε/5 within 32.8     noise of scale 1 within 8
//! ```

use crate::analysis::{Choice, Prior};
use crate::mechanism::Laplace;
use crate::privacy::{Epsilon, Loss};
use crate::release::mechanism::{Mechanism, Mechanized};
use crate::release::shortfall::{among_pairs, predicted};

/// Laplace noise on every score of a choice, from which the best are chosen. `None` if this is
/// impossible, or if its error is certainly not smaller than that of rounds of a selection at the
/// same ε.
///
/// # Guarantee
/// The noise has at least the scale Δ₁/ε for the Δ₁ of all scores of all outer groups together. So
/// all noisy scores together are ε-private (see [`Laplace::calibrate`]), and the result is a
/// function of them.
pub(super) fn noisy_scores(choice: &Choice, epsilon: &Epsilon) -> Option<Mechanized> {
    among_pairs(choice)?;
    let l1 = choice.l1?;
    // At equal scales, the error of permute-and-flip is never larger than that of noise.
    if choice.prior != Prior::Uniform || l1 >= choice.calibrated(true)? {
        return None;
    }
    let noise = Laplace::calibrate(l1, epsilon).ok()?;
    let mechanism = Mechanism::Laplace(noise);
    let accuracy = predicted(choice, &mechanism, false)?;
    Some(Mechanized {
        mechanism,
        loss: Loss::pure(epsilon),
        accuracy,
        rank: None,
        instead: None,
        together: None,
    })
}
