//! What would answer with less noise, as far as the statement and the declarations tell.
//!
//! In: a measure and its private aggregate. Out: lines of an explanation, which costs nothing: what to write instead where a
//! range follows from several columns, and where very many groups come out, most of them perhaps empty.

use crate::analysis::{Measure, PrivateAggregate};

/// Of fewer groups, an analyst sees at a glance which are empty.
const MANY_KEYS: usize = 200;

/// The lines about a range that is wider than its values may be.
pub(super) fn tighter_lines(
    part: &PrivateAggregate,
    measure: &Measure,
) -> Option<(&'static str, String)> {
    let difference = part.difference_in(measure)?;
    Some((
        "less noise",
        format!(
            "CLAMP({difference}, lo, hi), with the range that most values have: here it follows from the whole ranges of both \
             sides, and the noise grows with it"
        ),
    ))
}

/// How to ask for the groups that the data have, where there are many others.
pub(super) fn of_the_data(part: &PrivateAggregate, measure: &Measure, keys: usize) -> String {
    if keys < MANY_KEYS || measure.once_per_group() && part.subject().is_row() {
        return String::new();
    }
    let call = &measure.clause.text;
    format!(
        "; LAPLACE(eps=1, delta=1e-6) {call} shows only those that many people are in, and hides small ones"
    )
}
