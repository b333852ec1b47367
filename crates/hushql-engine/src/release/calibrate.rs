//! Calibration: the mechanism of a measure, with the noise that its cost requires.

use std::borrow::Cow;

use crate::analysis::default_shares::is_bare;
use crate::analysis::{CandidateSource, Choice, LineScore, Measure, ReleaseKind};
use crate::dialect::{MechanismName, Operand};
use crate::mechanism::{
    Exponential, MechanismError, NoisyMax, PermuteAndFlip, Unknown, UnknownRule, rank_for,
};
use crate::privacy::{Delta, Epsilon, Loss, Selecting};
use crate::refusal::{Reason, Refusal};
use crate::release::cost::{Accounts, Fallback, StatedCost};
use crate::release::generalized_choice::{by_own_sizes, or_by_own_sizes};
use crate::release::mechanism::{
    Instead, Mechanism, Mechanized, Predicted, not_mechanized, too_noisy, unused,
};
use crate::release::noisy_scores::noisy_scores;
use crate::release::number::{exact, size};
use crate::release::shortfall::{of_list, predicted};
use crate::release::unfit_choice::{as_written, refuse_unfit, selector_of};
use crate::release::unknown_keys::or_noisy_keys;

/// The mechanism of a measure.
///
/// # Errors
/// What the mechanism cannot do, said of the release as the statement has it, also where half of
/// its cost finds its bound.
pub(crate) fn mechanize(
    measure: &Measure,
    default: &Fallback,
    accounts: &Accounts,
) -> Result<Mechanized, Refusal> {
    calibrated(measure, default, accounts).map_err(|refusal| match as_written(measure) {
        Cow::Owned(whole) => calibrated(&whole, default, accounts).err().unwrap_or(refusal),
        Cow::Borrowed(_) => refusal,
    })
}

fn calibrated(
    measure: &Measure,
    default: &Fallback,
    accounts: &Accounts,
) -> Result<Mechanized, Refusal> {
    if measure.is_exact() {
        return Ok(exact(measure));
    }
    let text = measure.clause.text.as_str();
    let name = measure.clause.mechanism;
    let parameters = &measure.clause.parameters;
    let written = StatedCost::from_parameters(parameters);
    let cost = match (written, name) {
        (Some(cost), _) => cost,
        (None, _) if is_bare(measure) => default.cost_of(measure).ok_or_else(|| {
            not_mechanized(
                text,
                match &measure.release_kind {
                    ReleaseKind::Number(_) if measure.ladder.is_some() => {
                        "LAPLACE(eps=1, rows=auto)"
                    }
                    ReleaseKind::Number(_) => "LAPLACE(eps=1)",
                    ReleaseKind::Choice(_) => "EXPONENTIAL(eps=1)",
                },
            )
        })?,
        (None, _) => {
            return Err(Refusal::new(
                Reason::NoEpsilon,
                name,
                format!("{name} does not state its cost"),
                format!("{name}(eps=1) {text}"),
            ));
        }
    };
    match &measure.release_kind {
        ReleaseKind::Number(sensitivity) => {
            if parameters.monotonic.is_some() {
                return Err(unused("monotonic", name, "monotonic belongs to selections"));
            }
            let delta = parameters.delta.clone();
            let delta = match name {
                MechanismName::Default => delta.or_else(|| default.delta.clone()),
                _ => delta,
            };
            crate::release::number::number(
                measure,
                *sensitivity,
                name,
                &cost,
                delta.as_ref(),
                accounts,
            )
        }
        ReleaseKind::Choice(choice) => {
            let delta = parameters.delta.as_ref().or(match name {
                MechanismName::Default => default.delta.as_ref(),
                _ => None,
            });
            let rule = match measure.replaced {
                // One value scores less and another one more: that is a range of two.
                Some(_) if measure.clause.operand == Operand::Response => Selecting::Pure,
                Some(_) | None => accounts.rule(name, choice, &cost),
            };
            let epsilon = cost.epsilon(text, rule, choice.draws_of_unit())?;
            let chosen = selection(measure, choice, name, &epsilon, delta, rule)?;
            let chosen = or_noisy_keys(measure, choice, chosen, &cost, accounts, delta);
            let noisy = accounts.noisy_scores(&cost).then(|| noisy_scores(choice, &epsilon));
            Ok(cost.charged(erring_less(measure, chosen, noisy.flatten())))
        }
    }
}

/// Either rounds of a selection or noise on all scores, whichever has the smaller error at 95 %. A
/// mechanism that was requested by name stays.
///
/// # Guarantee
/// Both have the ε of the choice, and the result is one of them. The comparison uses the bounds
/// that EXPLAIN displays, which follow from the query and the catalog.
pub(crate) fn erring_less(
    measure: &Measure,
    chosen: Mechanized,
    noisy: Option<Mechanized>,
) -> Mechanized {
    let Some(noisy) = noisy.filter(|noisy| size(noisy.accuracy) < size(chosen.accuracy)) else {
        return chosen;
    };
    match measure.clause.mechanism {
        // An analyst who sets `monotonic` compares mechanisms by the calibration of the literature.
        _ if measure.clause.parameters.monotonic.is_some() => chosen,
        MechanismName::Auto | MechanismName::Default => noisy,
        MechanismName::Exponential
        | MechanismName::GeneralizedExponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::SampleAndAggregate
        | MechanismName::RandomizedResponse
        | MechanismName::Laplace
        | MechanismName::Gaussian => {
            let instead = Some(Instead::NoisyScores(size(noisy.accuracy)));
            Mechanized { instead, ..chosen }
        }
    }
}

/// The mechanism of a choice.
///
/// # Guarantee
/// All rounds in all outer groups together are ε-private, or (ε, δ)-private if only the data
/// contain the candidates. The mechanism of one draw is calibrated to the choice's own range times
/// rounds and groups.
pub(crate) fn selection(
    measure: &Measure,
    choice: &Choice,
    name: MechanismName,
    epsilon: &Epsilon,
    delta: Option<&Delta>,
    rule: Selecting,
) -> Result<Mechanized, Refusal> {
    refuse_unfit(measure, choice, rule, epsilon)?;
    let text = measure.clause.text.as_str();
    let parameters = &measure.clause.parameters;
    let is_aggregate = matches!(measure.clause.operand, Operand::Aggregate(_));
    let responds = measure.clause.operand == Operand::Response;
    if let CandidateSource::Unknown { per_unit } = choice.source {
        return among_unknown(measure, choice, per_unit, name, epsilon, delta, rule);
    }
    let too_noisy = |e: &MechanismError| too_noisy(text, e);
    if name == MechanismName::GeneralizedExponential {
        let generalized = by_own_sizes(choice, epsilon).ok_or(MechanismError::RangeTooWide);
        return generalized.flatten().map_err(|e| too_noisy(&e));
    }
    let range = choice.calibrated(parameters.monotonic != Some(false));
    let range = range.ok_or_else(|| too_noisy(&MechanismError::RangeTooWide))?;
    let candidates = choice.candidates().and_then(|n| usize::try_from(n).ok());
    let candidates = candidates.ok_or_else(|| too_noisy(&MechanismError::RangeTooWide))?;
    let is_auto = matches!(name, MechanismName::Auto | MechanismName::Default);
    let name = match (name, rule) {
        // Randomized response is the exponential mechanism on one entry. The values of blocks are
        // combined by it.
        (MechanismName::RandomizedResponse | MechanismName::SampleAndAggregate, _) => {
            MechanismName::Exponential
        }
        (MechanismName::Auto | MechanismName::Default, Selecting::BoundedRange) => {
            MechanismName::Exponential
        }
        (MechanismName::Auto | MechanismName::Default, Selecting::Pure) => {
            MechanismName::PermuteAndFlip
        }
        (named, _) => named,
    };
    let mechanism = match name {
        MechanismName::Exponential => {
            Exponential::calibrate(range, epsilon).map(Mechanism::Exponential)
        }
        MechanismName::NoisyMax => NoisyMax::calibrate(range, epsilon).map(Mechanism::NoisyMax),
        _ => PermuteAndFlip::calibrate(range, epsilon).map(Mechanism::PermuteAndFlip),
    };
    let mechanism = mechanism.map_err(|e| too_noisy(&e))?;
    if let Mechanism::Exponential(m) = &mechanism {
        of_list(choice, m).transpose().map_err(|e| too_noisy(&e))?;
    }
    let accuracy = match &mechanism {
        Mechanism::Exponential(m) if responds => Predicted::Truthful(m.truth(candidates)),
        _ => predicted(choice, &mechanism, is_aggregate).unwrap_or(Predicted::Nothing),
    };
    let rank = match &choice.source {
        CandidateSource::Line { axis, score: LineScore::Smallest | LineScore::Largest } => {
            Some(rank_for(range, epsilon, axis.count()))
        }
        CandidateSource::Line { .. }
        | CandidateSource::Keys(_)
        | CandidateSource::Each(_)
        | CandidateSource::Unknown { .. } => None,
    };
    let loss = Loss::choice(epsilon, None, choice.draws_of_unit(), rule);
    let chosen = Mechanized { mechanism, loss, accuracy, rank, instead: None, together: None };
    // `within` is in the unit of the score, so only the largest size bounds it. An analyst who sets
    // `monotonic` compares mechanisms by the calibration of the literature.
    if parameters.within.is_some() || parameters.monotonic.is_some() {
        return Ok(chosen);
    }
    Ok(or_by_own_sizes(choice, epsilon, is_auto, chosen))
}

pub(crate) fn among_unknown(
    measure: &Measure,
    choice: &Choice,
    per_unit: u64,
    name: MechanismName,
    epsilon: &Epsilon,
    delta: Option<&Delta>,
    selecting: Selecting,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let selector = selector_of(measure);
    let Some(delta) = delta else {
        return Err(not_mechanized(text, "EXPONENTIAL(eps=1, delta=1e-6)"));
    };
    if measure.clause.parameters.monotonic.is_some() {
        return Err(unused(
            "monotonic",
            name,
            "among unknown candidates monotonic does not change the range",
        ));
    }
    let cost = StatedCost::from_parameters(&measure.clause.parameters);
    let cost = cost.unwrap_or_else(|| StatedCost::Epsilon(epsilon.clone())).text();
    let rule = match (name, selecting) {
        (MechanismName::Exponential, _)
        | (MechanismName::Auto | MechanismName::Default, Selecting::BoundedRange) => {
            UnknownRule::Exponential
        }
        (MechanismName::PermuteAndFlip | MechanismName::Auto | MechanismName::Default, _) => {
            UnknownRule::PermuteAndFlip
        }
        _ => {
            return Err(Refusal::new(
                Reason::Operand,
                text,
                format!("{name} cannot choose among undeclared candidates"),
                format!("{selector}EXPONENTIAL({cost}, delta={delta}) {text}"),
            ));
        }
    };
    let rounds = usize::try_from(choice.rounds).unwrap_or(usize::MAX);
    let mechanism = Unknown::calibrate(choice.range, epsilon, delta, per_unit, rounds);
    let mechanism = mechanism.map_err(|e| match e {
        MechanismError::DeltaTooLarge => {
            Refusal::new(Reason::TooNoisy, text, e.to_string(), "a smaller delta, or a larger eps")
        }
        _ => too_noisy(text, &e),
    })?;
    Ok(Mechanized {
        mechanism: Mechanism::Unknown(mechanism, rule),
        loss: Loss::choice(epsilon, Some(delta), choice.draws_of_unit(), selecting),
        accuracy: Predicted::Nothing,
        rank: None,
        instead: None,
        together: None,
    })
}
