//! The notes on dates and timestamps: in which unit the time between two of them is, and where they
//! leave the calendar.
//!
//! In: an analysis. Out: sentences that follow from the statement alone.

use crate::analysis::{Analysis, Measure, PrivateAggregate, counts_microseconds, cuts_moments};
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
    !names_unit && part.argument_of(measure).is_some_and(counts_microseconds)
}
