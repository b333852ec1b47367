//! What the ledger records about a release: the texts of its mechanism, parameters and sensitivity.

use crate::analysis::{Choice, Measure, ReleaseKind};
use crate::dialect::{MechanismName, Operand, SelectionClause, Selector};
use crate::privacy::{Loss, Rational};
use crate::release::exact_text::{bound_text, exact, score_units};
use crate::release::mechanism::{Mechanism, Mechanized};
use crate::release::{PartitionSelection, loss_text, parameters_text};

pub(crate) fn sensitivity_text(measure: &Measure, units: u128) -> String {
    exact(&(Rational::from_integer(units.into()) * measure.noise_unit()))
}

/// The mechanism's name. If another mechanism implements the requested one, this is the requested
/// name.
pub(crate) fn released_by(measure: &Measure, mechanized: &Mechanized) -> MechanismName {
    match measure.clause.mechanism {
        name @ (MechanismName::RandomizedResponse | MechanismName::SampleAndAggregate) => name,
        _ => mechanized.mechanism.name(),
    }
}

/// The ledger's texts for a release: mechanism, parameters and sensitivity. None of them depends on
/// the data.
pub(crate) fn ledger_texts(measure: &Measure, mechanized: &Mechanized) -> (String, String, String) {
    let name = released_by(measure, mechanized);
    let (mechanism, sensitivity) = match &measure.release_kind {
        ReleaseKind::Choice(choice) => {
            let range = match &mechanized.mechanism {
                Mechanism::Laplace(_) | Mechanism::NoisyKeys(_) => {
                    format!("l1 {}", l1_text(choice))
                }
                Mechanism::Generalized(_) => {
                    format!("{} rows of own range", choice.rows_in_draws().unwrap_or(u128::MAX))
                }
                Mechanism::Gaussian(_)
                | Mechanism::Exponential(_)
                | Mechanism::PermuteAndFlip(_)
                | Mechanism::NoisyMax(_)
                | Mechanism::Unknown(..)
                | Mechanism::Cumulative(_)
                | Mechanism::ChosenBound(_)
                | Mechanism::Exact => {
                    format!("range {}", calibrated_text(measure, choice))
                }
            };
            match chosen_by(measure, choice) {
                Some(selector) => (format!("{selector} {name}"), range),
                None => (name.to_string(), range),
            }
        }
        ReleaseKind::Number(_) if measure.ladder.is_some() => {
            let rungs = measure.ladder.iter().flat_map(|ladder| &ladder.rungs);
            let ends = rungs.clone().min().zip(rungs.max());
            let ends = ends.map_or_else(String::new, |(least, most)| {
                format!(" of {}..{}", bound_text(measure, *least), bound_text(measure, *most))
            });
            (name.to_string(), format!("bound chosen{ends}"))
        }
        ReleaseKind::Number(sensitivity) => {
            (name.to_string(), format!("l1 {}", sensitivity_text(measure, sensitivity.l1)))
        }
    };
    let parameters = parameters_text(&measure.clause.parameters, &mechanized.loss, &measure.limits);
    (mechanism, parameters, sensitivity)
}

/// The ledger's texts for a threshold that has a cost of its own.
pub(crate) fn threshold_ledger_texts(
    selection: &PartitionSelection,
    loss: &Loss,
) -> (String, String, String) {
    let sensitivity = format!("l1 {}", selection.groups());
    ("LAPLACE_THRESHOLD".to_owned(), loss_text(loss, false), sensitivity)
}

/// The selector of a release. `None` for a quantile and for other releases without one.
pub(crate) fn chosen_by(measure: &Measure, choice: &Choice) -> Option<Selector> {
    clause(measure).map(|_| choice.selector)
}

/// The sensitivity Δ₁ of all scores together.
pub(crate) fn l1_text(choice: &Choice) -> String {
    score_units(choice, choice.l1.unwrap_or(u128::MAX))
}

/// The range to which one draw is calibrated, including rounds and groups.
pub(crate) fn calibrated_text(measure: &Measure, choice: &Choice) -> String {
    score_units(choice, choice.calibrated(monotonic(measure)).unwrap_or(u128::MAX))
}

pub(crate) fn clause(measure: &Measure) -> Option<&SelectionClause> {
    match &measure.clause.operand {
        Operand::Selection(selection) => Some(selection),
        Operand::Aggregate(_) | Operand::Response => None,
    }
}

pub(crate) fn monotonic(measure: &Measure) -> bool {
    measure.clause.parameters.monotonic != Some(false)
}
