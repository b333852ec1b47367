//! The line that says when an answer is mostly noise, before anything is spent.
//!
//! In: a measure and its mechanism. Out: the number of rows below which the ± is as large as the
//! range of the answer.
//!
//! ```text
//! AVG(age), ages 0..120, ± 277/n     where fewer than 3 rows are behind the mean, its ± is as large as its own range
//! ```

use crate::analysis::Measure;
use crate::release::exact_text::grid_text;
use crate::release::mechanism::Mechanized;
use crate::release::mostly_noise::mostly_noise_below;

/// The number of rows below which the ± is as large as the range of the answer, as a sentence.
pub(super) fn noise_below_text(measure: &Measure, mechanized: &Mechanized) -> Option<String> {
    let rows = mostly_noise_below(measure, mechanized.accuracy)?;
    let (what, range) = match measure.moments() {
        None => {
            let ends = [measure.lo, measure.hi].map(|end| grid_text(measure, end));
            ("the mean", format!("{}..{}", ends[0], ends[1]))
        }
        Some(moments) if moments.spread.is_root() => {
            ("the deviation", "at most half the range of a value".to_owned())
        }
        Some(_) => {
            ("the variance", "at most a quarter of the square of the range of a value".to_owned())
        }
    };
    let units = if measure.once_per_group() { "units" } else { "rows" };
    Some(format!(
        "where fewer than {rows} {units} are behind {what}, its ± is as large as its own range ({range})"
    ))
}
