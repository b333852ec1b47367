//! What would have less noise, as far as the statement and the declarations tell.
//!
//! In: a measure and its private aggregate. Out: lines of an explanation, which costs nothing. They
//! say what to write in three cases: a range follows from several columns, Gaussian noise would be
//! much smaller, or many groups come out, most of them perhaps empty.

use arrow::array::{Array, ArrayRef};

use crate::analysis::{Measure, PrivateAggregate};
use crate::release::mechanism::Mechanized;
use crate::release::number::{as_gaussian, size};
use crate::visible::rounded;

/// With fewer groups than this, an analyst sees at a glance which are empty.
const MANY_KEYS: usize = 200;

/// Of many possible numbers, often only a few occur: of the counts from 1 to 40, those below 6.
const MANY_NUMBERS: usize = 30;

/// The δ that the line proposes.
const DELTA: &str = "1e-6";

/// Gaussian noise is proposed only if its error is less than this share of Laplace noise's error.
const MUCH_SMALLER: f64 = 0.8;

/// The line about a range that is wider than necessary; otherwise the line about noise that adds up
/// over many groups.
pub(super) fn tighter_lines(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<(&'static str, String)> {
    narrower_range(part, measure).or_else(|| smaller_noise(part, measure, mechanized))
}

/// Gaussian noise grows with the square root of a unit's groups; Laplace noise grows with their
/// number.
fn smaller_noise(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<(&'static str, String)> {
    if part.unknown_partitions().is_some() || part.sets().is_some() {
        return None;
    }
    let delta = DELTA.parse().ok()?;
    let (other, epsilon) = as_gaussian(measure, mechanized, &delta)?;
    let share = size(other.accuracy) / size(mechanized.accuracy);
    (share < MUCH_SMALLER).then(|| {
        let call = &measure.clause.text;
        let share = rounded(100.0 * share);
        let text = format!(
            "GAUSSIAN(eps={epsilon}, delta={DELTA}) {call} has {share} % of the error, and costs the δ besides"
        );
        ("less noise", text)
    })
}

fn narrower_range(part: &PrivateAggregate, measure: &Measure) -> Option<(&'static str, String)> {
    let difference = part.difference_in(measure)?;
    Some((
        "less noise",
        format!(
            "CLAMP({difference}, lo, hi), with the range that most values have: here it follows from the whole ranges of both \
             sides, and the noise grows with it"
        ),
    ))
}

/// Advice to ask for the groups that the data have, if many declared groups may be empty.
pub(super) fn of_the_data(part: &PrivateAggregate, measure: &Measure, keys: usize) -> String {
    let is_number = |column: &ArrayRef| column.data_type().is_numeric();
    let many = match part.keys().all().columns() {
        [column] if is_number(column) => MANY_NUMBERS,
        _ => MANY_KEYS,
    };
    if keys < many
        || !part.has_computed_keys()
        || measure.once_per_group() && part.subject().is_row()
    {
        return String::new();
    }
    let call = &measure.clause.text;
    format!(
        "; LAPLACE(eps=1, delta=1e-6) {call} shows only those that many people are in, and hides small ones"
    )
}
