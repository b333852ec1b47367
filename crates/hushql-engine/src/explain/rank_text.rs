//! Ranks in words: which one is looked for, and what it counts.

use num_traits::ToPrimitive;

use crate::analysis::{CandidateSource, Choice, Input, LineScore, Measure};
use crate::explain::number_text::exact_rate;
use crate::mechanism::Fractions;
use crate::mechanism::quantile::many::parts_of_a_tick;
use crate::privacy::Rational;
use crate::release::mechanism::{Mechanized, Predicted};
use crate::visible::rounded;

/// The rank that stands for a minimum or a maximum.
pub(super) fn rank_text(choice: &Choice, mechanized: &Mechanized) -> Option<String> {
    let r = mechanized.rank?;
    let end = match &choice.source {
        CandidateSource::Line { score: LineScore::Largest, .. } => "largest",
        _ => "smallest",
    };
    Some(match r {
        1 => format!("r = 1: the {end} value itself"),
        _ => {
            format!("r = {r}: the {end} value may be one person's, so the r-th {end} is looked for")
        }
    })
}

/// How the quantiles of a list share ε.
pub(super) fn levels_text(choice: &Choice) -> Option<String> {
    let (fractions, ticks) = (choice.fractions()?, choice.candidates()?);
    let (count, levels) = (fractions.nums().len(), fractions.levels());
    Some(format!(
        "{count} quantiles by {levels} levels of splits: each is drawn at 1/{levels} of ε, where {count} releases would have 1/{count}; \
         the rows of a value are spread over {} parts of it, so that a split can divide them",
        parts_of_a_tick(ticks)
    ))
}

/// The law of a list of quantiles, from the exponent of a rank.
pub(super) fn list_draws(choice: &Choice, exponent: &Rational, text: &str) -> String {
    let levels = choice.fractions().map_or(1, Fractions::levels);
    let rate = exponent * Rational::new(2.into(), levels.into());
    format!(
        "P({text}) ∝ exp({} × score) where a quantile divides its interval in half, and less steeply elsewhere, exact integer arithmetic",
        exact_rate(&rate)
    )
}

/// Whose rank an error is about.
pub(super) fn ranked_text(measure: &Measure) -> &'static str {
    match measure.choice().and_then(Choice::fractions) {
        Some(_) => "every value",
        None => "the value",
    }
}

/// What a rank counts.
pub(super) fn values_text(measure: &Measure) -> &'static str {
    match measure.choice().and_then(|choice| choice.missing) {
        Some(_) => "values of blocks",
        None => "rows",
    }
}

/// The blocks whose values are combined, and what their error leaves out.
pub(super) fn block_line(choice: &Choice, accuracy: Predicted) -> Option<(&'static str, String)> {
    let blocks = choice.missing?.blocks;
    let mut text = format!(
        "{blocks}: a person is in one of them, by a hash of the unit, and replaces its value; a block whose value is NULL counts as the middle of the range. \
         The error counts values of blocks; nothing is promised about how far the value of a block is from that of all people"
    );
    if let Predicted::Rank { worst, .. } = accuracy
        && blocks.to_f64().is_some_and(|blocks| worst * 2.0 >= blocks)
    {
        text += &format!(
            "; {} values of blocks are half of them or more, so that with 95 % every candidate is possible: write more blocks, a larger eps, or a coarser \
             grid, such as MEDIAN(CAST(x AS DECIMAL(5, 2)))",
            rounded(worst)
        );
    }
    Some(("blocks", text))
}

/// The noun for what an aggregate counts. Empty if it does not count.
pub(super) fn counted(input: &Input) -> &'static str {
    match input {
        Input::Rows
        | Input::Values(_)
        | Input::Places { weight: None, .. }
        | Input::Bins { .. } => " rows",
        Input::Units => " units",
        Input::Distinct(_) => " values",
        Input::Sum(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::Mean(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. } => "",
    }
}
