//! Ranks in words: which one is looked for, and what it counts.

use num_traits::ToPrimitive;

use crate::analysis::{CandidateSource, Choice, LineScore, Measure};
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
