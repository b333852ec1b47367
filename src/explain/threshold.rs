//! How the threshold of groups that only the data know is explained, and how it stands in the ledger.
//!
//! In: what hides a part's small groups. Out: lines for people, and the same for programs. Nothing here depends on
//! the data: not how many groups there are, nor how many come out.

use serde_json::{Value, json};

use crate::analysis::{Payer, PrivateAggregate};
use crate::explain::text::number;
use crate::privacy::decimal_text;
use crate::release::PartitionSelection;
use crate::release::mechanism::Mechanism;
use crate::release::text::exact;

/// The line about the keys of a part whose groups are those of the data.
pub(super) fn keys_text(part: &PrivateAggregate) -> String {
    let names = part.key_names().join(" × ");
    format!(
        "those of the data ({names}), in their order, NULL last; groups of few units do not come out"
    )
}

pub(super) fn threshold_lines(
    part: &PrivateAggregate,
    hidden: &PartitionSelection,
) -> Vec<(&'static str, String)> {
    let is_row = part.subject().is_row();
    let who = if is_row { "rows" } else { "units" };
    let asked = match hidden.least() {
        1 => String::new(),
        n => format!(" (min_privacy_units_per_group = {n})"),
    };
    let bound = match hidden.groups() {
        _ if is_row => "each of them a unit, in one group".to_owned(),
        1 => "per unit 1 group, 1 row in it (enforced)".to_owned(),
        c => format!("per unit {c} groups, 1 row in each (enforced)"),
    };
    vec![
        (
            "threshold",
            format!(
                "a group comes out if its noisy number of {who} is at least {}{asked}; τ = {} for δ = {}",
                hidden.at_least(),
                hidden.threshold(),
                hidden.delta()
            ),
        ),
        ("counted", format!("{who}, {bound}: {}", noise_text(part, hidden))),
    ]
}

/// What the number that is compared is, or with which noise it is drawn.
fn noise_text(part: &PrivateAggregate, hidden: &PartitionSelection) -> String {
    let released = hidden.counter().and_then(|i| part.measures().get(i));
    if let Some(measure) = released {
        return format!("{} as it is released, at no further ε", measure.clause.text);
    }
    match hidden.noise() {
        Some(Mechanism::Laplace(noise)) => format!(
            "discrete Laplace, scale {}, ε = {} of the cost",
            decimal_text(noise.scale(), 6),
            hidden.epsilon().map(ToString::to_string).unwrap_or_default()
        ),
        Some(Mechanism::Gaussian(noise)) => format!(
            "discrete Gaussian, σ = {}, ρ = {} of the cost",
            decimal_text(&noise.sigma(), 6),
            decimal_text(noise.rho(), 9)
        ),
        Some(
            Mechanism::Exponential(_)
            | Mechanism::PermuteAndFlip(_)
            | Mechanism::NoisyMax(_)
            | Mechanism::Unknown(..)
            | Mechanism::ChosenBound(_),
        )
        | None => String::new(),
    }
}

/// The share of ε with which a measure's noise is drawn: half where it pays for the threshold.
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

pub(super) fn threshold_json(hidden: &PartitionSelection) -> Value {
    json!({
        "at_least": hidden.at_least(),
        "tau": hidden.threshold(),
        "min_privacy_units": hidden.least(),
        "groups": hidden.groups(),
        "delta": number(&exact(hidden.delta().value())),
        "epsilon": hidden.epsilon().map(|epsilon| number(&exact(epsilon.value()))),
        "compares": if hidden.counter().is_some() { "a released number" } else { "a number of its own" },
    })
}
