//! Whether a mechanism can release a choice: decided before anything is calibrated.
//!
//! In: a choice, and the mechanism that the statement names. Out: nothing, or a refusal with a
//! mechanism that can, at the whole cost that the statement states.
//!
//! ```text
//! LAPLACE(eps=1) MEDIAN(x)                                  write: EXPONENTIAL(eps=1) MEDIAN(x)
//! LAPLACE(eps=1, delta=1e-6) MEDIAN(x), keys of the data    write: EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(x)
//! ```

use std::borrow::Cow;

use super::cost::{Accounts, StatedCost};
use super::generalized_choice::by_own_sizes;
use super::mechanism::unused;
use super::number::chooses_no_number;
use crate::analysis::{CandidateSource, Choice, MOST_KEYS, Measure, Prior, ReleaseKind};
use crate::dialect::{MechanismName, Operand};
use crate::privacy::{Epsilon, Selecting};
use crate::refusal::{Reason, Refusal};

/// The measure as the statement has it, also where half of its cost finds its bound.
pub(super) fn as_written(measure: &Measure) -> Cow<'_, Measure> {
    match measure.clause.as_written() {
        Cow::Borrowed(_) => Cow::Borrowed(measure),
        Cow::Owned(clause) => {
            let mut written = measure.clone();
            written.clause = clause;
            Cow::Owned(written)
        }
    }
}

/// Refuses a mechanism that cannot release a choice, and a parameter that has no effect on one.
/// `epsilon` is what it costs if it states nothing.
pub(super) fn refuse_unfit(
    measure: &Measure,
    choice: &Choice,
    rule: Selecting,
    epsilon: &Epsilon,
) -> Result<(), Refusal> {
    let written = as_written(measure);
    let cost = stated(&written, choice, epsilon);
    may_choose(&written, &cost)?;
    if matches!(choice.source, CandidateSource::Unknown { .. }) {
        return Ok(());
    }
    let name = measure.clause.mechanism;
    // The delta of OPTIONS applies only to releases that need one. In groups of the data, a release
    // states the delta of the threshold.
    let delta = measure.clause.parameters.delta.as_ref().filter(|_| choice.outer != u64::MAX);
    if delta.is_some() && name != MechanismName::Default {
        let why = "known candidates need no delta: the answer is purely ε-private";
        return Err(unused("delta", name, why));
    }
    match measure.clause.mechanism {
        MechanismName::PermuteAndFlip | MechanismName::NoisyMax if choice.fractions().is_some() => {
            let text = written.clause.text.as_str();
            let message = format!(
                "{name} chooses one value, and a list of quantiles is chosen by EXPONENTIAL"
            );
            let hint = format!("EXPONENTIAL({cost}) {text}");
            Err(Refusal::new(Reason::Operand, text, message, hint))
        }
        MechanismName::GeneralizedExponential => may_weigh(&written, choice, &cost, epsilon),
        _ => may_look_at_all(&written, choice, rule, &cost),
    }
}

/// Refuses a mechanism that cannot release the measure of the payer, before its cost is divided, so
/// that what to write instead has the whole cost and δ.
pub(super) fn refuse_unfit_payer(measure: &Measure, accounts: &Accounts) -> Result<(), Refusal> {
    let whole = as_written(measure);
    let parameters = &whole.clause.parameters;
    let Some(cost) = StatedCost::from_parameters(parameters) else { return Ok(()) };
    let name = measure.clause.mechanism;
    match &measure.release_kind {
        ReleaseKind::Choice(choice) => {
            let rule = accounts.rule(name, choice, &cost);
            let epsilon = cost.epsilon(&whole.clause.text, rule, 1)?;
            refuse_unfit(&whole, choice, rule, &epsilon)
        }
        ReleaseKind::Number(_) => match name {
            MechanismName::Laplace
            | MechanismName::Gaussian
            | MechanismName::Auto
            | MechanismName::Default => Ok(()),
            MechanismName::Exponential
            | MechanismName::GeneralizedExponential
            | MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax
            | MechanismName::SampleAndAggregate
            | MechanismName::RandomizedResponse => {
                Err(chooses_no_number(&whole, &cost, parameters.delta.as_ref()))
            }
        },
    }
}

/// The cost as the statement has it. Its δ is a part of it where candidates or groups come from the
/// data.
fn stated(measure: &Measure, choice: &Choice, epsilon: &Epsilon) -> String {
    let parameters = &measure.clause.parameters;
    let cost = StatedCost::from_parameters(parameters);
    let cost = cost.unwrap_or_else(|| StatedCost::Epsilon(epsilon.clone())).text();
    let of_data =
        choice.outer == u64::MAX || matches!(choice.source, CandidateSource::Unknown { .. });
    match parameters.delta.as_ref().filter(|_| of_data) {
        Some(delta) => format!("{cost}, delta={delta}"),
        None => cost,
    }
}

/// What stands before the mechanism of a selection. MODE has none.
pub(super) fn selector_of(measure: &Measure) -> String {
    match &measure.clause.operand {
        Operand::Selection(clause) if !measure.clause.text.starts_with("mode(") => {
            format!("{} ", clause.selector)
        }
        Operand::Selection(_) | Operand::Aggregate(_) | Operand::Response => String::new(),
    }
}

fn may_choose(measure: &Measure, cost: &str) -> Result<(), Refusal> {
    let (text, name) = (measure.clause.text.as_str(), measure.clause.mechanism);
    let selector = selector_of(measure);
    let is_aggregate = matches!(measure.clause.operand, Operand::Aggregate(_));
    let responds = measure.clause.operand == Operand::Response;
    if (is_aggregate || responds) && measure.clause.parameters.monotonic.is_some() {
        return Err(unused("monotonic", name, "monotonic belongs to selections such as ARGMAX"));
    }
    if responds || name.chooses() {
        return Ok(());
    }
    let message = if is_aggregate {
        format!(
            "{name} cannot release {text}: one person can change it a lot, so it has to be chosen, not perturbed"
        )
    } else if name == MechanismName::RandomizedResponse {
        format!("{name} gives every entry's own answer; it chooses no winner")
    } else {
        format!("{name} perturbs numbers; a selection never shows one")
    };
    let hint = format!("{selector}EXPONENTIAL({cost}) {text}");
    Err(Refusal::new(Reason::Operand, text, message, hint))
}

/// Refuses a mechanism that looks at every candidate, if there are too many of them.
fn may_look_at_all(
    measure: &Measure,
    choice: &Choice,
    rule: Selecting,
    cost: &str,
) -> Result<(), Refusal> {
    let (text, named) = (measure.clause.text.as_str(), measure.clause.mechanism);
    let name = match (named, rule) {
        (
            MechanismName::Exponential
            | MechanismName::SampleAndAggregate
            | MechanismName::RandomizedResponse,
            _,
        )
        | (MechanismName::Auto | MechanismName::Default, Selecting::BoundedRange) => return Ok(()),
        (MechanismName::Auto | MechanismName::Default, Selecting::Pure) => {
            MechanismName::PermuteAndFlip
        }
        (named, _) => named,
    };
    if choice.prior != Prior::Uniform {
        return Err(unused("PRIOR", name, "only EXPONENTIAL takes a prior"));
    }
    let outer = usize::try_from(choice.outer).unwrap_or(usize::MAX);
    let candidates = choice.candidates().and_then(|n| usize::try_from(n).ok());
    // More candidates than can be counted are refused where their range is.
    let Some(candidates) = candidates else { return Ok(()) };
    if candidates.checked_mul(outer).is_some_and(|all| all <= MOST_KEYS) {
        return Ok(());
    }
    let instead = format!("{}EXPONENTIAL({cost}) {text}, which does not", selector_of(measure));
    let (message, hint) = match choice.outer {
        u64::MAX => (
            format!("{name} looks at every candidate, in groups that only the data contain"),
            instead,
        ),
        _ => (
            format!("{name} looks at every candidate, and there are more than {MOST_KEYS}"),
            format!("{instead}, or a coarser step"),
        ),
    };
    Err(Refusal::new(Reason::TooManyKeys, text, message, hint))
}

/// Refuses the generalised exponential mechanism where it has nothing to weigh.
fn may_weigh(
    measure: &Measure,
    choice: &Choice,
    cost: &str,
    epsilon: &Epsilon,
) -> Result<(), Refusal> {
    let (text, name) = (measure.clause.text.as_str(), measure.clause.mechanism);
    if choice.prior != Prior::Uniform {
        return Err(unused("PRIOR", name, "only EXPONENTIAL takes a prior"));
    }
    if measure.clause.parameters.monotonic.is_some() {
        let why = "each score is measured by its own change, in both directions";
        return Err(unused("monotonic", name, why));
    }
    if by_own_sizes(choice, epsilon).is_some() {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::Operand,
        text,
        format!(
            "a row changes the scores of all candidates by the same amount, and {name} is for scores that differ in that, such as REVENUE"
        ),
        format!("{}EXPONENTIAL({cost}) {text}", selector_of(measure)),
    ))
}
