//! The threshold for groups with undeclared keys, in explanations and in the ledger.
//!
//! In: the partition selection of a private aggregate. Out: lines of an explanation, and JSON.
//! Nothing here depends on the data: neither the number of groups nor how many come out.

use serde_json::{Value, json};

use crate::analysis::{
    Choice, Compares, ContributionBounds, Measure, Payer, PrivateAggregate, Sharing,
};
use crate::explain::number_text::{at_most, number};
use crate::privacy::{Delta, decimal_text};
use crate::release::exact_text::{exact, score_units, steps_text};
use crate::release::mechanism::Mechanism;
use crate::release::{Other, PartitionSelection};

/// The line about the keys of a private aggregate whose groups come from the data.
pub(super) fn keys_text(part: &PrivateAggregate) -> String {
    let names = part.key_names().join(" × ");
    let which = match part.unknown_partitions().map(|groups| groups.compares) {
        Some(Compares::Rows) => "of few rows",
        Some(Compares::Values { .. }) => "of a small sum",
        Some(Compares::Units) | None => "of few units",
    };
    format!(
        "those of the data ({names}), in their order, NULL last; groups {which} do not come out"
    )
}

pub(super) fn threshold_lines(
    part: &PrivateAggregate,
    hidden: &PartitionSelection,
) -> Vec<(&'static str, String)> {
    let is_row = part.subject().is_row();
    let number = number_text(part, hidden);
    let asked = match hidden.least() {
        1 => String::new(),
        n => format!(" (min_privacy_units_per_group = {n})"),
    };
    let limits = part.unknown_partitions().map(|groups| groups.limits);
    let counted = match hidden.compares() {
        Compares::Rows | Compares::Units if is_row => "rows",
        Compares::Units => "units",
        Compares::Rows => "rows",
        Compares::Values { .. } => "values",
    };
    let bound = match (hidden.compares(), hidden.groups()) {
        (Compares::Rows, _) => limits.map_or_else(String::new, |limits| rows_text(&limits)),
        (Compares::Values { least, most }, _) => {
            let each = format!(
                "{} to {} a row",
                steps_text(part, hidden.counter(), least),
                steps_text(part, hidden.counter(), most)
            );
            match limits.filter(|_| !is_row) {
                Some(limits) => format!("{each}, {}", rows_text(&limits)),
                None => format!("{each}, each row a unit, in one group"),
            }
        }
        (Compares::Units, _) if is_row => "each of them a unit, in one group".to_owned(),
        (Compares::Units, 1) => "per unit 1 group, 1 row in it (enforced)".to_owned(),
        (Compares::Units, c) => format!("per unit {c} groups, 1 row in each (enforced)"),
    };
    let value = |steps| steps_text(part, hidden.counter(), steps);
    let mut lines = vec![
        (
            "threshold",
            format!(
                "a group comes out if its {number} is at least {}{asked}; τ = {} for δ = {}",
                value(hidden.at_least()),
                value(hidden.threshold()),
                hidden.delta()
            ),
        ),
        ("counted", format!("{counted}, {bound}: {}", noise_text(part, hidden))),
    ];
    lines.extend(hidden.others().iter().map(|other| ("or", other_text(part, other))));
    lines
}

/// The number that is compared.
fn number_text(part: &PrivateAggregate, hidden: &PartitionSelection) -> String {
    let measure = hidden.counter().and_then(|i| part.measures().get(i));
    match (hidden.compares(), measure) {
        (Compares::Values { .. }, Some(measure)) => format!("noisy {}", measure.clause.text),
        (Compares::Units, _) if !part.subject().is_row() => "noisy number of units".to_owned(),
        (Compares::Units | Compares::Rows | Compares::Values { .. }, _) => {
            "noisy number of rows".to_owned()
        }
    }
}

/// The most that one unit adds to numbers of rows.
fn rows_text(limits: &ContributionBounds) -> String {
    let in_all = limits.total.map(|total| format!("{total} in all"));
    let groups = limits.l0.map(|groups| match groups {
        1 => "in 1 group".to_owned(),
        groups => format!("in {groups} groups"),
    });
    let bounds = [Some(format!("{} in a group", limits.per_partition)), groups, in_all];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    format!("per unit at most {} (enforced)", bounds.join(", "))
}

/// Another number that could be compared.
fn other_text(part: &PrivateAggregate, other: &Other) -> String {
    let threshold = steps_text(part, other.measure, other.threshold);
    let measure = other.measure.and_then(|i| part.measures().get(i));
    match (other.compares, measure) {
        (Compares::Values { least, .. }, Some(measure)) => format!(
            "{}, as it is released: τ = {threshold}, {} units that add {} each",
            measure.clause.text,
            other.compares.units(other.threshold),
            steps_text(part, other.measure, least),
        ),
        (Compares::Rows, _) => format!("rows, as they are released: τ = {threshold}"),
        (Compares::Units | Compares::Values { .. }, _) => {
            format!("units, counted apart at a share of the cost: τ = {threshold}")
        }
    }
}

/// Which number is compared, or which noise is drawn for it.
fn noise_text(part: &PrivateAggregate, hidden: &PartitionSelection) -> String {
    let released = hidden.counter().and_then(|i| part.measures().get(i));
    if let Some(measure) = released {
        return format!("{} as it is released, at no further ε", measure.clause.text);
    }
    match hidden.noise() {
        Some(Mechanism::Laplace(noise)) => format!(
            "discrete Laplace, scale {}, ε = {} of the cost",
            at_most(noise.scale()).trim_start_matches("= "),
            hidden.epsilon().map(ToString::to_string).unwrap_or_default()
        ),
        Some(Mechanism::Gaussian(noise)) => {
            let share = match hidden.epsilon() {
                Some(epsilon) => format!("ε = {epsilon}"),
                None => format!("ρ = {}", decimal_text(noise.rho(), 9)),
            };
            format!("discrete Gaussian, σ {}, {share} of the cost", at_most(&noise.sigma()))
        }
        Some(
            Mechanism::Exponential(_)
            | Mechanism::Generalized(_)
            | Mechanism::PermuteAndFlip(_)
            | Mechanism::NoisyMax(_)
            | Mechanism::Unknown(..)
            | Mechanism::NoisyKeys(_)
            | Mechanism::Cumulative(_)
            | Mechanism::ChosenBound(_)
            | Mechanism::Exact,
        )
        | None => String::new(),
    }
}

/// The share of ε that a measure's noise has: half if the measure pays for the threshold.
pub(super) fn share_text(
    part: &PrivateAggregate,
    measure: usize,
    hidden: Option<&PartitionSelection>,
) -> &'static str {
    let pays =
        part.unknown_partitions().is_some_and(|groups| groups.payer == Payer::Release(measure));
    let alone = hidden.is_some_and(|hidden| hidden.noise().is_some());
    if pays && alone { "(ε/2)" } else { "ε" }
}

/// The ε that a choice has where it also pays for the count of people that is compared with the
/// threshold; `None` if it does not pay, or pays in ρ.
pub(super) fn left_of_count_json(
    part: &PrivateAggregate,
    measure: &Measure,
    hidden: &PartitionSelection,
) -> Option<Value> {
    let at = part.measures().iter().position(|other| other.column == measure.column)?;
    let pays = part.unknown_partitions()?.payer == Payer::Release(at);
    let whole = measure.clause.parameters.epsilon.as_ref().filter(|_| pays)?;
    let counted = hidden.epsilon().filter(|_| hidden.noise().is_some())?;
    Some(number(&exact(&(whole.value() - counted.value()))))
}

/// How the selections of groups that only the data contain share the cost. `share` is that of the
/// release where it also pays for the threshold.
pub(super) fn in_unknown_groups(choice: &Choice, share: &str) -> String {
    let whole =
        if share == "ε" { "the whole ε" } else { "the half of ε that is not for the threshold" };
    let each = "one selection in each group that the data have";
    match choice.sharing {
        Sharing::Alone | Sharing::Groups(1) => {
            format!("{each}; a unit is in one of them, so each has {whole}")
        }
        Sharing::Groups(c) => {
            format!(
                "{each}; a unit is in at most {c} of them, so each has 1/{c} of {}",
                whole.trim_start_matches("the whole ")
            )
        }
        Sharing::Rows(all) => format!(
            "{each}; the rows of a unit move all their scores together by at most {}, so each has {whole} at that range",
            score_units(choice, all)
        ),
    }
}

/// The line about a δ that a budget's default states.
pub(super) fn default_line(delta: &Delta) -> (&'static str, String) {
    ("default", format!("δ = {delta}, the budget's default, since the query states none"))
}

pub(super) fn default_json(delta: &Delta) -> (String, Value) {
    ("default_delta".to_owned(), number(&exact(delta.value())))
}

pub(super) fn threshold_json(part: &PrivateAggregate, hidden: &PartitionSelection) -> Value {
    let compares = match hidden.counter() {
        Some(_) if matches!(hidden.compares(), Compares::Values { .. }) => "a released sum",
        Some(_) if hidden.compares_rows() => "a released number of rows",
        Some(_) => "a released number",
        None => "a number of its own",
    };
    json!({
        "at_least": number(&steps_text(part, hidden.counter(), hidden.at_least())),
        "tau": number(&steps_text(part, hidden.counter(), hidden.threshold())),
        "min_privacy_units": hidden.least(),
        "groups": hidden.groups(),
        "delta": number(&exact(hidden.delta().value())),
        "epsilon": hidden.epsilon().map(|epsilon| number(&exact(epsilon.value()))),
        "compares": compares,
    })
}
