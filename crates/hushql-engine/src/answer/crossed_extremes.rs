//! The notes on a minimum that came out above a maximum.
//!
//! In: a release, and what it drew. Out: a sentence for each pair of MIN and MAX of one argument
//! whose released values cross in some group: noise then decides both. It follows from the released
//! values alone.

use arrow::compute::kernels::cmp::gt;

use crate::analysis::{CandidateSource, LineScore, Measure};
use crate::exec::Drawn;
use crate::release::Release;

/// The notes on the extremes of a private aggregate.
pub(super) fn notes(release: &Release, drawn: &Drawn, at: usize) -> Vec<String> {
    let Some(part) = release.analysis().parts().get(at) else { return Vec::new() };
    let measures = part.measures();
    let mut notes = Vec::new();
    for (low, least) in measures.iter().enumerate().filter(|(_, m)| is(m, &LineScore::Smallest)) {
        for (high, most) in measures.iter().enumerate().filter(|(_, m)| is(m, &LineScore::Largest))
        {
            let alike = argument(&least.clause.text) == argument(&most.clause.text);
            let keys = part.key_names().len();
            if !alike || !has_crossed(drawn, at, [keys + low, keys + high]).unwrap_or(false) {
                continue;
            }
            let place = if keys == 0 { "" } else { " in some rows" };
            notes.push(format!(
                "{} is above {}{place}: few rows are behind them, and noise decides both; a larger epsilon, coarser keys, or QUANTILE(x, 0.1) and QUANTILE(x, 0.9)",
                least.clause.text, most.clause.text
            ));
        }
    }
    notes
}

fn is(measure: &Measure, end: &LineScore) -> bool {
    let source = measure.choice().map(|choice| &choice.source);
    matches!(source, Some(CandidateSource::Line { score, .. }) if score == end)
}

/// The argument of an aggregate, as it is written.
fn argument(text: &str) -> Option<&str> {
    text.split_once('(').map(|(_, argument)| argument)
}

/// True if the first column is above the second in some released row.
fn has_crossed(drawn: &Drawn, part: usize, [low, high]: [usize; 2]) -> Option<bool> {
    let batch = drawn.released.get(part)?;
    let (low, high) = (batch.columns().get(low)?, batch.columns().get(high)?);
    Some(gt(low, high).ok()?.true_count() > 0)
}
