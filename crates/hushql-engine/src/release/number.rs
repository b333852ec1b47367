//! Numbers: counts, sums and means with Laplace or Gaussian noise.
//!
//! In: a measure, its sensitivity, the requested mechanism and its cost. Out: the calibrated
//! mechanism, its loss and its error, or a refusal. If the sensitivity is right, the release has
//! exactly that loss.
//!
//! ```text
//! LAPLACE(eps=1) COUNT(*), Δ₁ = 1  →  discrete Laplace of scale 1, ε = 1, within 3 with 95 %
//! ```

use num_bigint::BigInt;

use super::cost::{Accounts, StatedCost};
use super::cumulative::mechanism_of;
use crate::analysis::{Ladder, Measure, PrivateAggregate, ReleaseKind, Sensitivity, approximate};
use crate::dialect::MechanismName;
use crate::mechanism::{ChosenBound, Cumulative, Gaussian, Laplace, MechanismError};
use crate::privacy::{Delta, Epsilon, Loss, Rational, Rho, Selecting};
use crate::refusal::{Reason, Refusal};
use crate::release::mechanism::{Mechanism, Mechanized, Predicted, too_noisy, unused};

/// A number that public columns alone decide: no draw, and no cost.
///
/// # Guarantee
/// Only for a measure whose sensitivity is 0: it has the same value in neighbouring databases.
pub(super) fn exact(measure: &Measure) -> Mechanized {
    let is_of_products = measure.moments().is_some() || measure.joint().is_some();
    let accuracy = match (measure.is_mean(), is_of_products) {
        (true, _) => Predicted::WithinOverCount(0.0),
        (false, true) => Predicted::Spread { noise: 0.0 },
        (false, false) => Predicted::Within(0.0),
    };
    Mechanized {
        mechanism: Mechanism::Exact,
        loss: Loss::zero(),
        accuracy,
        rank: None,
        instead: None,
        together: None,
    }
}

/// The mechanism of a number.
///
/// For a cost in ρ, AUTO chooses Gaussian noise. For a small ε, Gaussian noise at the ρ of Laplace
/// noise has half the variance of that noise, and less if a unit is in several groups. Above ε = 4,
/// the error of Laplace noise soon becomes smaller.
///
/// If every budget counts in ρ, AUTO and bare aggregates read an ε as the ρ of Laplace noise with
/// this ε. They take that noise or Gaussian noise *of that ρ*, whichever has the smaller error at
/// 95 %. This costs the analyst nothing: no budget counts ε, and Gaussian noise of (ε, δ) would be
/// far larger than the ρ allows. An AUTO with both ε and δ promises (ε, δ), and is released as
/// under other budgets.
///
/// # Guarantee
/// The noise is calibrated to the measure's own sensitivity. Its scale is never below what the cost
/// (and δ) requires, and the loss states that cost.
pub(super) fn number(
    measure: &Measure,
    sensitivity: Sensitivity,
    name: MechanismName,
    cost: &StatedCost,
    delta: Option<&Delta>,
    accounts: &Accounts,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let no_delta = |why: &str| Err(unused("delta", name, why));
    if let Some(ladder) = &measure.ladder {
        return match delta {
            // A default δ serves releases that need one.
            Some(_) if name == MechanismName::Default => chosen_bound(measure, ladder, cost),
            None => chosen_bound(measure, ladder, cost),
            Some(_) => no_delta("Laplace noise over known keys needs no delta"),
        };
    }
    let too_noisy = |error| too_noisy(text, &error);
    let laplace = || -> Result<Mechanized, Refusal> {
        let epsilon = cost.epsilon(text, Selecting::Pure, 1)?;
        let (mechanism, accuracy) = match measure.bins() {
            Some(bins) => {
                let own = Cumulative::laplace(bins, sensitivity.l1, &epsilon);
                mechanism_of(own.map_err(too_noisy)?)
            }
            None => {
                let own = Laplace::calibrate(sensitivity.l1, &epsilon).map_err(too_noisy)?;
                let accuracy = within(measure, Noise::Laplace(&own), 1);
                (Mechanism::Laplace(own), accuracy)
            }
        };
        Ok(cost.charged(Mechanized {
            mechanism,
            loss: Loss::pure(&epsilon),
            accuracy,
            rank: None,
            instead: None,
            together: None,
        }))
    };
    let gaussian =
        |epsilon: &Epsilon, delta: &Delta| gaussian(measure, sensitivity, epsilon, delta);
    let concentrated = |rho: &Rho| -> Result<Mechanized, Refusal> {
        if let Some(bins) = measure.bins() {
            let own = Cumulative::concentrated(bins, sensitivity.l2_squared, rho);
            return Ok(cumulative(own.map_err(too_noisy)?, Loss::concentrated(rho)));
        }
        let gaussian = Gaussian::calibrate_rho(sensitivity.l2_squared, rho).map_err(too_noisy)?;
        Ok(noisy(measure, gaussian, Loss::concentrated(rho)))
    };
    match (name, cost) {
        (MechanismName::Laplace, _) => match delta {
            None => laplace(),
            Some(_) => no_delta("Laplace noise over known keys needs no delta"),
        },
        (MechanismName::Gaussian | MechanismName::Auto, StatedCost::Rho(rho)) => match delta {
            None => concentrated(rho),
            Some(_) => no_delta("a cost in rho needs no delta"),
        },
        // The delta of OPTIONS applies only to releases that need one.
        (MechanismName::Default, StatedCost::Rho(rho)) => concentrated(rho),
        (MechanismName::Gaussian, StatedCost::Epsilon(epsilon)) => match delta {
            Some(delta) => gaussian(epsilon, delta),
            None => Err(Refusal::new(
                Reason::NoDelta,
                name,
                "Gaussian noise cannot be purely ε-private; it needs a delta",
                format!(
                    "GAUSSIAN(eps={epsilon}, delta=1e-6) {text}, or LAPLACE(eps={epsilon}) {text}"
                ),
            )),
        },
        (MechanismName::Auto | MechanismName::Default, StatedCost::Epsilon(epsilon)) => {
            let pure = laplace()?;
            let other = match delta {
                _ if accounts.concentrated()
                    && (delta.is_none() || name != MechanismName::Auto) =>
                {
                    Rho::new(pure.loss.rho().clone()).ok().map(|rho| concentrated(&rho))
                }
                Some(delta) => Some(gaussian(epsilon, delta)),
                None => None,
            };
            match other {
                Some(Ok(other)) if size(other.accuracy) < size(pure.accuracy) => Ok(other),
                Some(Ok(_) | Err(_)) | None => Ok(pure),
            }
        }
        (
            MechanismName::Exponential
            | MechanismName::GeneralizedExponential
            | MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax
            | MechanismName::SampleAndAggregate
            | MechanismName::RandomizedResponse,
            _,
        ) => Err(chooses_no_number(measure, cost, None)),
    }
}

/// The refusal of a mechanism that chooses, for a number. `delta` is that of the groups, if the
/// release states it.
pub(super) fn chooses_no_number(
    measure: &Measure,
    cost: &StatedCost,
    delta: Option<&Delta>,
) -> Refusal {
    let (text, name) = (measure.clause.text.as_str(), measure.clause.mechanism);
    let hint = match (cost, delta) {
        (_, None) => format!("LAPLACE({}) {text}", cost.text()),
        (StatedCost::Epsilon(_), Some(delta)) => {
            format!("LAPLACE({}, delta={delta}) {text}", cost.text())
        }
        // Beside a threshold, Laplace noise has a cost in eps.
        (StatedCost::Rho(_), Some(delta)) => {
            format!("GAUSSIAN({}, delta={delta}) {text}", cost.text())
        }
    };
    let message = format!("{name} chooses among candidates; {text} is a number");
    Refusal::new(Reason::Operand, text, message, hint)
}

/// A number under a bound that is chosen first. One cost covers the choice and the noise.
///
/// # Guarantee
/// As that of [`number`]. The loss is that of the choice at ε₁ and of the noise at ε₂, with ε₁ +
/// ε₂ = ε: exactly (ε, 0), and a ρ of ε₁²/8 + ε₂·tanh(ε₂/2), rounded up. If ρ is stated, that is at
/// most the stated ρ: x·tanh(x/2) of a sum is no less than the sum of both, and ε₁²/8 is less than
/// ε₁·tanh(ε₁/2) up to ε₁ = 7.9, above which neither is charged more than ε₁.
fn chosen_bound(
    measure: &Measure,
    ladder: &Ladder,
    cost: &StatedCost,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let epsilon = cost.epsilon(text, Selecting::Pure, 1)?;
    let Ladder { rungs, weight, groups, is_declared, is_of_rows: _, follows: _ } = ladder;
    let chosen = ChosenBound::calibrate(rungs, *weight, *groups, *is_declared, &epsilon)
        .map_err(|error| too_noisy(text, &error))?;
    let loss = Loss::choice(chosen.choosing(), None, 1, Selecting::BoundedRange)
        .plus(&Loss::pure(chosen.releasing()));
    let largest = chosen.rungs().last().map(|rung| &rung.noise);
    let accuracy =
        largest.map_or(Predicted::Nothing, |noise| within(measure, Noise::Laplace(noise), 1));
    let mechanism = Mechanism::ChosenBound(chosen);
    Ok(cost.charged(Mechanized {
        mechanism,
        loss,
        accuracy,
        rank: None,
        instead: None,
        together: None,
    }))
}

/// Numbers that follow the bound of another number take it from there, and use all of their ε for
/// noise.
///
/// # Guarantee
/// As that of [`number`]. The loss of a following number is that of its noise, ε₂ = ε; the loss of
/// the choice is part of the number that chooses. In ρ it is ε·tanh(ε/2), rounded up, and at most
/// the stated ρ if one is stated.
///
/// # Errors
/// A refusal if the noise of a bound that may be chosen cannot be drawn.
pub(super) fn follow_choices(
    part: &PrivateAggregate,
    mechanized: &mut [Mechanized],
) -> Result<(), Refusal> {
    for (at, measure) in part.measures().iter().enumerate() {
        let Some(ladder) = &measure.ladder else { continue };
        let Some(leader) = ladder.follows.and_then(|leader| mechanized.get(leader)) else {
            continue;
        };
        let text = measure.clause.text.as_str();
        let (Mechanism::ChosenBound(leader), Some(own)) = (&leader.mechanism, mechanized.get(at))
        else {
            return Err(too_noisy(text, &MechanismError::ScaleTooLarge));
        };
        let Mechanism::ChosenBound(alone) = &own.mechanism else {
            return Err(too_noisy(text, &MechanismError::ScaleTooLarge));
        };
        // The number that chooses has noise for the first bounds of the same ladder.
        let bounds = leader.rungs().iter().map(|rung| &rung.bound);
        if leader.follows() || !bounds.eq(ladder.rungs.iter().take(leader.rungs().len())) {
            return Err(too_noisy(text, &MechanismError::ScaleTooLarge));
        }
        let whole = alone.choosing().value() + alone.releasing().value();
        let epsilon =
            Epsilon::new(whole).map_err(|_| too_noisy(text, &MechanismError::RangeTooWide))?;
        let chosen =
            leader.followed_by(ladder.weight, &epsilon).map_err(|error| too_noisy(text, &error))?;
        let loss = Loss::pure(&epsilon);
        let loss = match measure.clause.parameters.rho.as_ref() {
            Some(rho) => loss.costing(rho),
            None => loss,
        };
        let largest = chosen.rungs().last().map(|rung| &rung.noise);
        let accuracy =
            largest.map_or(Predicted::Nothing, |noise| within(measure, Noise::Laplace(noise), 1));
        let mechanism = Mechanism::ChosenBound(chosen);
        if let Some(one) = mechanized.get_mut(at) {
            *one = Mechanized { mechanism, loss, accuracy, ..one.clone() };
        }
    }
    Ok(())
}

/// A number that has Laplace noise, calibrated with Gaussian noise of the same ε and this δ
/// instead, and that ε. `None` for other numbers.
///
/// # Guarantee
/// As that of [`number`], which calibrates it.
pub(crate) fn as_gaussian(
    measure: &Measure,
    mechanized: &Mechanized,
    delta: &Delta,
) -> Option<(Mechanized, Epsilon)> {
    let (Mechanism::Laplace(_), ReleaseKind::Number(sensitivity)) =
        (&mechanized.mechanism, &measure.release_kind)
    else {
        return None;
    };
    let epsilon = Epsilon::new(mechanized.loss.epsilon()?.clone()).ok()?;
    let other = gaussian(measure, *sensitivity, &epsilon, delta).ok()?;
    Some((other, epsilon))
}

/// A number with Gaussian noise at (ε, δ).
///
/// # Guarantee
/// As that of [`number`].
fn gaussian(
    measure: &Measure,
    sensitivity: Sensitivity,
    epsilon: &Epsilon,
    delta: &Delta,
) -> Result<Mechanized, Refusal> {
    // The components of a mean or variance change together, in each group of a unit.
    let groups = measure.limits.l0.into_iter().chain(measure.limits.total).min();
    let parts = u64::try_from(measure.width()).unwrap_or(u64::MAX);
    // A replaced row may leave one group for another.
    let groups = groups.filter(|_| measure.replaced.is_none());
    let moving = groups.map(|groups| groups.saturating_mul(parts));
    if let Some(bins) = measure.bins() {
        // Each row of a unit may be in a bin of its own.
        let rows = moving.map(|groups| groups.saturating_mul(measure.limits.per_partition));
        let own = Cumulative::gaussian(bins, sensitivity.l2_squared, rows, epsilon, delta)
            .map_err(|error| too_noisy(&measure.clause.text, &error))?;
        let loss = Loss::gaussian(epsilon, delta, &own.rho());
        return Ok(cumulative(own, loss));
    }
    let gaussian = Gaussian::calibrate(sensitivity.l2_squared, moving, epsilon, delta)
        .map_err(|error| too_noisy(&measure.clause.text, &error))?;
    let loss = Loss::gaussian(epsilon, delta, gaussian.rho());
    Ok(noisy(measure, gaussian, loss))
}

fn cumulative(own: Cumulative, loss: Loss) -> Mechanized {
    let (mechanism, accuracy) = mechanism_of(own);
    Mechanized { mechanism, loss, accuracy, rank: None, instead: None, together: None }
}

fn noisy(measure: &Measure, gaussian: Gaussian, loss: Loss) -> Mechanized {
    let accuracy = within(measure, Noise::Gaussian(&gaussian), 1);
    let mechanism = Mechanism::Gaussian(gaussian);
    Mechanized { mechanism, loss, accuracy, rank: None, instead: None, together: None }
}

pub(crate) fn size(accuracy: Predicted) -> f64 {
    match accuracy {
        Predicted::Within(t) | Predicted::WithinOverCount(t) => t,
        Predicted::Spread { noise } => noise,
        Predicted::Winner { worst, .. }
        | Predicted::WinnerBySize { worst, .. }
        | Predicted::Rank { worst, .. } => worst,
        Predicted::Truthful(_) | Predicted::Nothing => f64::INFINITY,
    }
}

/// The noise of a number.
#[derive(Clone, Copy)]
pub(super) enum Noise<'a> {
    /// Laplace noise on each component.
    Laplace(&'a Laplace),
    /// Gaussian noise on each component.
    Gaussian(&'a Gaussian),
    /// The number is computed from a vector. The first function is its error at confidence 1 − β.
    /// The second one is the error of a mean at that confidence, times its number of rows.
    Vector(&'a dyn Fn(&Rational) -> u128, &'a dyn Fn(&Rational) -> u128),
}

impl Noise<'_> {
    /// The error of one component at confidence 1 − β.
    fn error_at(self, beta: &Rational) -> u128 {
        match self {
            Self::Laplace(noise) => noise.error_at(beta),
            Self::Gaussian(noise) => noise.error_at(beta),
            Self::Vector(error_at, _) => error_at(beta),
        }
    }

    /// The error of any weighted mean of the noises of two components at confidence 1 − β.
    fn mean_error_at(self, beta: &Rational) -> u128 {
        match self {
            Self::Laplace(noise) => noise.mean_error_at(beta),
            Self::Vector(_, mean_error_at) => mean_error_at(beta),
            Self::Gaussian(noise) => noise.error_at(&(beta / Rational::from_integer(2.into()))),
        }
    }
}

/// The accuracy that follows from the noise of a number: with 95 % confidence, `among` numbers are
/// all within it.
///
/// # Guarantee
/// A count or sum is off by more with probability at most β = 5 % over `among`. A mean L +
/// w·A/(A+B) whose components are off by X and Y is off by |X·B − A·Y|/((A+B)·n̂) with n̂ =
/// (Â+B̂)/w. That is a weighted mean of the two noises, over n̂, so it exceeds the error of such a
/// mean with probability at most β. Each of the three sums of a variance is off by more than t with
/// probability at most a third of β, and each of the k sums of a statistic of two columns with at
/// most a k-th of it.
pub(super) fn within(measure: &Measure, noise: Noise<'_>, among: u64) -> Predicted {
    let unit = measure.grid_unit();
    let in_units =
        |steps: u128| approximate(&(Rational::from_integer(BigInt::from(steps)) * &unit));
    let beta = |parts: usize| Rational::new(1.into(), BigInt::from(20) * parts * among.max(1));
    if measure.moments().is_some() || measure.joint().is_some() {
        let weight = measure.weight().unwrap_or(1).max(1);
        let of_each = noise.error_at(&beta(measure.width()));
        let noise = Rational::new(BigInt::from(of_each), BigInt::from(weight));
        Predicted::Spread { noise: approximate(&noise) }
    } else if measure.knows_rows() {
        // The sum is off by the noise of one draw, and the number of rows by nothing.
        Predicted::WithinOverCount(in_units(noise.error_at(&beta(1))))
    } else if measure.is_mean() {
        Predicted::WithinOverCount(in_units(noise.mean_error_at(&beta(1))))
    } else {
        Predicted::Within(in_units(noise.error_at(&beta(1))))
    }
}
