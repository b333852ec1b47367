//! What an explanation says of numbers about people whose presence is public.

use crate::analysis::{Input, Measure, ReleaseKind};
use crate::dialect::Operand;
use crate::release::mechanism::Mechanized;
use crate::release::record::released_by;

const TWO_STEPS: &str = "dearer: neighbours replace, which counts as a removal and an addition";

/// Why a number is exact, or dearer or cheaper than where neighbours add or remove a person.
pub(super) fn presence_line(measure: &Measure) -> Option<(&'static str, String)> {
    let replaced = measure.replaced?;
    if measure.clause.operand == Operand::Response {
        let text = "neighbours replace: what is promised holds for each answer by itself";
        return Some(("neighbours", text.to_owned()));
    }
    if let ReleaseKind::Choice(_) = measure.release_kind {
        return Some(("neighbours", TWO_STEPS.to_owned()));
    }
    let text = match (replaced.is_exact, replaced.knows_rows, &measure.input) {
        (true, _, _) => {
            "exact and free: presence is public, and public columns alone decide this number"
        }
        (false, true, _) => {
            "neighbours replace: the number of rows is public, so that one sum is drawn, and divided by it"
        }
        (false, false, Input::Mean(_)) => {
            "neighbours replace: a private column decides which rows count, so that both sums are drawn, each for two changes; COALESCE(x, c) with public conditions and keys needs one"
        }
        (false, false, Input::Rows | Input::Values(_) | Input::Units | Input::Sum(_)) => {
            "neighbours replace: a row changes its value, or falls out; with a private key it leaves one group for another, which costs both"
        }
        (
            false,
            false,
            Input::Distinct(_)
            | Input::Moments(_)
            | Input::Joint(_)
            | Input::SumPerUnit(_)
            | Input::MeanPerUnit(_)
            | Input::Terms { .. }
            | Input::Places { .. },
        ) => TWO_STEPS,
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
