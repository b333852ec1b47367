//! The shortfall of a choice: how far the score of a winner may be below the best.
//!
//! In: a choice and its calibrated mechanism. Out: a bound at a failure probability, and a bound on
//! average, in grid units of the scores. Both follow from the query and the catalog, whatever the
//! scores are.
//!
//! ```text
//! ARGMAX EXPONENTIAL(eps=1) status, seven candidates, R = 1:   4 at β = 0.05
//! ```

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::analysis::{CandidateAxis, CandidateSource, Choice, Prior};
use crate::mechanism::{Exponential, ManyQuantiles, MechanismError, NoisyMax, PriceGrid};
use crate::privacy::Rational;
use crate::release::mechanism::{Mechanism, Predicted};

/// How far a winner of a group may be below the best candidate that remains at its turn, in grid
/// units. `None` if no bound is known.
///
/// # Guarantee
/// The distance is larger with probability at most β. Each of the k rounds that depend on the data
/// has β/k. If the best noisy scores win, the best remaining candidate is among the k truly best of
/// its group, because fewer than k are gone. So only k·(n − 1) pairs of noises can put another
/// candidate before it, and each difference of two noises exceeds the bound with the probability
/// that [`NoisyMax::error_at`] adds up.
pub(super) fn shortfall(choice: &Choice, mechanism: &Mechanism, beta: &Rational) -> Option<f64> {
    let candidates = usize::try_from(choice.candidates()?).ok()?;
    let of_round = beta / Rational::from_integer(BigInt::from(choice.rounds_drawn()));
    Some(match mechanism {
        Mechanism::Exponential(m) if choice.fractions().is_some() => {
            of_list(choice, m)?.ok()?.error_at(&of_round)
        }
        Mechanism::Exponential(m) => match weights(choice) {
            None => m.error_at(candidates, &of_round),
            Some((total, least)) => m.error_at_weights(total, least, &of_round),
        },
        Mechanism::Generalized(m) => {
            m.worst_at(candidates, &of_round) * choice.sizes_in_short()?.0.to_f64()?
        }
        Mechanism::PermuteAndFlip(m) => m.error_at(candidates, &of_round),
        Mechanism::NoisyMax(m) => m.error_at(candidates, &of_round),
        Mechanism::Laplace(noise) => {
            NoisyMax::with_noise(noise).ok()?.error_at(among_pairs(choice)?, beta)
        }
        Mechanism::Gaussian(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_)
        | Mechanism::Cumulative(_)
        | Mechanism::ChosenBound(_)
        | Mechanism::Exact => return None,
    })
}

/// How a list of quantiles is drawn; `None` for any other choice.
pub(super) fn of_list(
    choice: &Choice,
    mechanism: &Exponential,
) -> Option<Result<ManyQuantiles, MechanismError>> {
    let last = choice.candidates()?.checked_sub(1)?;
    Some(ManyQuantiles::new(mechanism, choice.fractions()?, last))
}

/// The bound on average, in one round.
fn on_average(choice: &Choice, mechanism: &Mechanism) -> Option<f64> {
    let candidates = usize::try_from(choice.candidates()?).ok()?;
    Some(match mechanism {
        Mechanism::Exponential(m) if choice.fractions().is_some() => {
            of_list(choice, m)?.ok()?.expected_error()
        }
        Mechanism::Exponential(m) => match weights(choice) {
            None => m.expected_error(candidates),
            Some((total, least)) => m.expected_error_weights(total, least),
        },
        Mechanism::PermuteAndFlip(m) => m.expected_error(candidates),
        Mechanism::NoisyMax(m) => m.expected_error(candidates),
        Mechanism::Laplace(noise) => {
            NoisyMax::with_noise(noise).ok()?.expected_error(among_pairs(choice)?)
        }
        Mechanism::Generalized(_)
        | Mechanism::Gaussian(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_)
        | Mechanism::Cumulative(_)
        | Mechanism::ChosenBound(_)
        | Mechanism::Exact => return None,
    })
}

/// The accuracy of a choice at 95 % confidence, in units of the score. `of_ranks` says that the
/// score of a value is its rank.
pub(super) fn predicted(
    choice: &Choice,
    mechanism: &Mechanism,
    of_ranks: bool,
) -> Option<Predicted> {
    let unit = choice.unit.to_f64().unwrap_or(1.0);
    let worst = shortfall(choice, mechanism, &Rational::new(1.into(), 20.into()))? * unit;
    if let Mechanism::Generalized(m) = mechanism {
        let candidates = usize::try_from(choice.candidates()?).ok()?;
        let rounds = BigInt::from(20) * BigInt::from(choice.rounds_drawn());
        let rows = m.error_at(candidates, &Rational::new(1.into(), rounds));
        return Some(Predicted::WinnerBySize { rows, worst });
    }
    let average = on_average(choice, mechanism)? * unit;
    Some(match of_ranks {
        true => Predicted::Rank { worst, average },
        false => Predicted::Winner { worst, average },
    })
}

/// One more than the number of pairs of candidates that noise on all scores can put in the wrong
/// order. `None` if the candidates are not listed. [`NoisyMax`] bounds errors by the number of
/// candidates besides the best; here it is given the number of pairs instead.
pub(super) fn among_pairs(choice: &Choice) -> Option<usize> {
    let CandidateSource::Keys(candidates) = &choice.source else { return None };
    let others = candidates.len().checked_sub(1)?;
    usize::try_from(choice.rounds).ok()?.checked_mul(others)?.checked_add(1)
}

/// The prior's total weight, and the weight of the lightest candidate that can win. `None` if all
/// weights are equal.
fn weights(choice: &Choice) -> Option<(f64, f64)> {
    match &choice.prior {
        Prior::Uniform => None,
        Prior::Weights(weights) => {
            let total: f64 = weights.iter().filter_map(ToPrimitive::to_f64).sum();
            let least = weights.iter().filter(|w| **w > 0).min()?.to_f64()?;
            Some((total, least))
        }
        Prior::LogUniform => {
            let CandidateSource::Line { axis: CandidateAxis::Ticks(ticks), .. } = &choice.source
            else {
                return None;
            };
            let grid = PriceGrid::new(ticks.first(), ticks.step(), ticks.count()).ok()?;
            Some((grid.log_uniform_spread(), 1.0))
        }
    }
}
