//! The ladder of `rows=auto` in an explanation: its bounds, the cost of the choice and of the
//! noise, and the error under each bound.
//!
//! In: a measure with a ladder, and its mechanism. Out: lines of an explanation, and JSON. They
//! follow from the query and the declarations; the chosen bound is not known before the draw.
//!
//! ```text
//! bound        τ, chosen with ε = 0.25 from the ladder: …
//! ladder       τ = 1: ± 5 (≤ 17)   2: ± 10 (≤ 13)   4: ± 20
//! ```

use serde_json::{Value, json};

use super::number_text::number;
use crate::analysis::{Measure, PrivateAggregate, approximate};
use crate::mechanism::ChosenBound;
use crate::privacy::{Epsilon, Rational};
use crate::release::exact_text::{bound_text, exact, most_beyond, why_chosen};
use crate::release::mechanism::{Mechanism, Mechanized, Predicted};
use crate::release::own_bound::with_own_bound;
use crate::release::predicted_accuracy::accuracies_under_bounds;
use crate::visible::rounded;

/// A unit rarely has more rows than this, and noise for this many hides most answers.
const MANY_ROWS: u64 = 1_000;

/// The lines about the choice.
pub(super) fn ladder_lines(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Vec<(&'static str, String)> {
    let Mechanism::ChosenBound(chosen) = &mechanized.mechanism else { return Vec::new() };
    let (choosing, step) = (chosen.choosing(), chosen.penalty());
    let choice = match chosen.few() {
        _ if chosen.follows() => {
            let leader = measure.ladder.as_ref().and_then(|ladder| ladder.follows);
            let leader = leader.and_then(|leader| part.measures().get(leader));
            let text = leader.map_or("another release", |leader| leader.clause.text.as_str());
            format!("τ, chosen for {text}, which pays for it: both have the same rows")
        }
        Some(few) => format!(
            "τ, chosen at ε = {choosing} by the exponential mechanism: the declared bound, the last one, unless a lower one has more than {few} units within it, and {step} more for each step below the last; each unit beyond a bound weighs as one against it; range 1"
        ),
        None => format!(
            "τ, chosen at ε = {choosing} by the exponential mechanism: each step up the ladder weighs as {step} units beyond the bound; range 1"
        ),
    };
    vec![("bound", choice), ("ladder", ladder_text(measure, mechanized, chosen))]
}

/// Every bound, with the error under it and the number of units that may exceed it.
fn ladder_text(measure: &Measure, mechanized: &Mechanized, chosen: &ChosenBound) -> String {
    let within = accuracies_under_bounds(measure, &mechanized.mechanism, 1);
    let rungs = chosen.rungs().iter().zip(within).enumerate().map(|(i, (rung, within))| {
        let within = match within {
            Predicted::WithinOverCount(t) => format!("{}/n", rounded(t)),
            Predicted::Within(t) => rounded(t),
            Predicted::Spread { .. }
            | Predicted::Winner { .. }
            | Predicted::WinnerBySize { .. }
            | Predicted::Rank { .. }
            | Predicted::Truthful(_)
            | Predicted::Nothing => String::new(),
        };
        let beyond = most_beyond(chosen, i).map(|most| format!(" (≤ {most})")).unwrap_or_default();
        format!("{}: ± {within}{beyond}", bound_text(measure, rung.bound))
    });
    let rungs = rungs.collect::<Vec<_>>().join("   ");
    format!(
        "τ = {rungs} with 95 %, and in brackets the most units that have more with 95 %, if it is chosen"
    )
}

/// The bound of a unit's contribution, before it is chosen.
pub(super) fn bounds_text(measure: &Measure) -> String {
    let of = match measure.ladder.as_ref().is_some_and(|ladder| ladder.is_of_rows) {
        true => "τ rows in all groups together",
        false => "τ in all groups together, of what it adds to each, without signs",
    };
    let why = match why_chosen(measure) {
        "" => " (rows=auto)",
        why => why,
    };
    format!(
        "per unit {of}, and τ is chosen{why}; enforced on top of its rows, by a keyed hash, before anything is added up"
    )
}

/// The norm to which the noise is calibrated.
pub(super) fn norm_text(measure: &Measure) -> String {
    let weight = measure.ladder.as_ref().map_or(1, |ladder| ladder.weight);
    if weight == 1 && !measure.is_mean() {
        return "Δ₁ = τ".to_owned();
    }
    let width = Rational::from_integer(weight.into()) * measure.noise_unit();
    format!("Δ₁ = {} · τ", exact(&width))
}

/// The noise, before the bound is chosen.
pub(super) fn noise_text(measure: &Measure, chosen: &ChosenBound) -> String {
    let both = if measure.is_mean() { " on both sums" } else { "" };
    let cost = if chosen.follows() { "" } else { "; the choice and the noise cost ε together" };
    format!(
        "discrete Laplace{both}, scale Δ₁/{}, exact on its grid, at ε = {}{cost}",
        chosen.releasing(),
        chosen.releasing(),
    )
}

/// The error, before the bound is chosen.
pub(super) fn error_text(measure: &Measure) -> String {
    let n = if measure.is_mean() { ", n the noisy number of rows" } else { "" };
    format!(
        "with 95 %: within the ± that the ladder shows for the chosen bound{n}, of the aggregate under that bound; no ± covers what it cuts"
    )
}

/// The same as JSON.
pub(super) fn ladder_json(
    measure: &Measure,
    mechanized: &Mechanized,
) -> Vec<(&'static str, Value)> {
    let Mechanism::ChosenBound(chosen) = &mechanized.mechanism else { return Vec::new() };
    let within = accuracies_under_bounds(measure, &mechanized.mechanism, 1);
    let rungs = chosen.rungs().iter().zip(within).enumerate().map(|(i, (rung, within))| {
        let bound = number(&bound_text(measure, rung.bound));
        let scale = approximate(&(rung.noise.scale() * measure.noise_unit()));
        let mut told = match within {
            Predicted::Within(t) => json!({ "bound": bound, "scale": scale, "within": t }),
            Predicted::WithinOverCount(t) => {
                json!({ "bound": bound, "scale": scale, "within_over_rows": t })
            }
            Predicted::Spread { .. }
            | Predicted::Winner { .. }
            | Predicted::WinnerBySize { .. }
            | Predicted::Rank { .. }
            | Predicted::Truthful(_)
            | Predicted::Nothing => json!({ "bound": bound, "scale": scale }),
        };
        if let (Some(most), Some(told)) = (most_beyond(chosen, i), told.as_object_mut()) {
            told.insert("units_beyond".to_owned(), number(&most));
        }
        told
    });
    let epsilon = |epsilon: &Epsilon| number(&exact(epsilon.value()));
    vec![
        ("ladder", rungs.collect()),
        ("choice_epsilon", if chosen.follows() { json!(0) } else { epsilon(chosen.choosing()) }),
        ("noise_epsilon", epsilon(chosen.releasing())),
        ("step_weighs_units", json!(number(&chosen.penalty().to_string()))),
        ("units_before_choice", chosen.few().map_or(Value::Null, |few| number(&few.to_string()))),
    ]
}

/// The line that proposes `rows=auto`, if the noise covers more than [`MANY_ROWS`] rows of one
/// unit.
pub(super) fn proposal_line(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<(&'static str, String)> {
    let (text, rows) = with_own_bound(part, measure, mechanized)?;
    let line = format!(
        "{text} chooses the bound of a unit's rows by what units have; the noise here is for {rows} rows of one \
         unit"
    );
    (rows > MANY_ROWS).then_some(("less noise", line))
}
