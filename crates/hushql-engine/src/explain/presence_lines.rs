//! What an explanation says of numbers about people whose presence is public.

use crate::analysis::{Input, Measure, ReleaseKind, RowChange};
use crate::release::mechanism::Mechanized;
use crate::release::record::released_by;

/// Why a number is exact, or dearer or cheaper than where neighbours add or remove a person.
pub(super) fn presence_line(measure: &Measure) -> Option<(&'static str, String)> {
    let replaced = measure.replaced?;
    let is_choice = matches!(measure.release_kind, ReleaseKind::Choice(_));
    let text = match (replaced.change, &measure.input) {
        (RowChange::Nothing, _) => {
            "exact and free: presence is public, and public columns alone decide this number"
        }
        (RowChange::Response, _) => {
            "neighbours replace: what is promised holds for each answer by itself"
        }
        (RowChange::Both, _) => {
            "dearer: neighbours replace, which counts as a removal and an addition"
        }
        (RowChange::Counted, _) if is_choice => {
            "neighbours replace: a row moves along the line, or falls out"
        }
        (RowChange::Value, Input::Mean(_)) => {
            "neighbours replace: the number of rows is public, so that one sum is drawn, and divided by it"
        }
        (RowChange::Counted | RowChange::Group, Input::Mean(_)) => {
            "neighbours replace: a private column decides which rows count, so that both sums are drawn, each for two changes; COALESCE(x, c) with public conditions and keys needs one"
        }
        (RowChange::Value, _) => {
            "neighbours replace: public columns decide which rows count, and each has a value, which changes within its range"
        }
        (RowChange::Counted, Input::Rows | Input::Units) => {
            "neighbours replace: a private column decides whether a row counts"
        }
        (RowChange::Counted, Input::Distinct(_)) => {
            "neighbours replace: a value may be lost, or be new"
        }
        (RowChange::Counted, _) => {
            "neighbours replace: a row changes its value, or falls out, as if it were 0; COALESCE(x, c) with public conditions and keys changes within its range"
        }
        (RowChange::Group, _) => {
            "neighbours replace: a private key decides the group, so that a row leaves one group for another, which changes both"
        }
    };
    Some(("neighbours", text.to_owned()))
}

/// The mechanism's name, or that there is none.
pub(super) fn mechanism_text(measure: &Measure, mechanized: &Mechanized) -> String {
    match measure.is_exact() {
        true => "EXACT".to_owned(),
        false => released_by(measure, mechanized).to_string(),
    }
}
