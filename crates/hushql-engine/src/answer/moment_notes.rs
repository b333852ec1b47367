//! The notes on dates and timestamps: in which unit the time between two of them is, and where they
//! leave the calendar.
//!
//! In: an analysis. Out: sentences that follow from the statement alone.

use datafusion::common::Column;
use datafusion::logical_expr::Expr;

use crate::analysis::{
    Analysis, Measure, PrivateAggregate, counts_microseconds, cuts_moments, is_column_of_seconds,
};
use crate::dialect::Finding;

/// The note about moments that an interval moves out of the calendar.
const BEYOND_CALENDAR: &str = "dates that an interval moves out of the years 0001 to 9999 are NULL where they are a key, a text or the \
     start of a period; compared and subtracted, they are exact";

/// The notes.
pub(super) fn moment_notes(analysis: &Analysis) -> Vec<String> {
    let measures =
        analysis.parts().iter().flat_map(|part| part.measures().iter().map(move |own| (part, own)));
    let in_seconds = measures.filter(|(part, own)| is_in_seconds(part, own));
    let note = |text: &str| format!("{}: in seconds", Finding::as_written(text));
    let mut notes: Vec<String> = in_seconds.map(|(_, own)| note(&own.clause.text)).collect();
    if analysis.parts().iter().any(|part| cuts_moments(part.input())) {
        notes.push(BEYOND_CALENDAR.to_owned());
    }
    notes
}

/// True if a measure is that of a difference of timestamps, which is computed in seconds. Where the
/// statement writes EXTRACT(EPOCH FROM …) or date_diff, it names the unit itself.
fn is_in_seconds(part: &PrivateAggregate, measure: &Measure) -> bool {
    let text = measure.clause.text.to_lowercase();
    let names_unit = ["epoch", "date_diff", "date_part"].iter().any(|name| text.contains(name));
    let Some(argument) = part.argument_of(measure).filter(|_| !names_unit) else { return false };
    counts_microseconds(argument) || reads_seconds(argument, Finding::as_written(&text), part)
}

/// True if a measure reads a column as it is, which a subquery computes as a number of seconds
/// between two timestamps.
fn reads_seconds(argument: &Expr, text: &str, part: &PrivateAggregate) -> bool {
    let read: Vec<&Column> = argument.column_refs().into_iter().collect();
    let [column] = read.as_slice() else { return false };
    let is_alone = [column.flat_name(), column.name.clone()]
        .iter()
        .any(|name| text.contains(&format!("({})", name.to_lowercase())));
    is_alone && is_column_of_seconds(&Expr::Column((*column).clone()), part.input())
}
