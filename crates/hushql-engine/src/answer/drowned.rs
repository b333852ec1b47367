//! The notes on numbers that drown in their noise: those whose ± exceeds half of them.
//!
//! In: a release with what it drew, and later the rows of the answer with their errors. Out: one
//! note for each column with such numbers, with what to write instead. It follows from the
//! statement, the declarations and the released numbers alone.
//!
//! ```text
//! SUM(price) 190,000, ± 599,000     s: its ± exceeds half of it; LAPLACE(eps=0.5, rows=auto) sum(price) …
//! ```

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use crate::analysis::{Measure, PrivateAggregate, approximate, stated_parameters};
use crate::dialect::Finding;
use crate::exec::Drawn;
use crate::release::Release;
use crate::release::mechanism::Mechanized;
use crate::release::own_bound::with_own_bound;

/// A ± of more than this part of a number drowns it.
const DROWNS: f64 = 0.5;

/// A proposed ε is at most this many times the present one.
const MOST_TIMES: f64 = 1_000.0;

/// What makes the numbers of one column more accurate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remedy {
    /// Tighter bounds, which cost nothing, or coarser keys.
    first: Option<String>,
    costlier: Option<Costlier>,
}

/// The release at a larger cost, as it would be written.
#[derive(Debug, Clone)]
struct Costlier {
    epsilon: f64,
    /// The text before and after the new ε.
    written: (String, String),
}

impl Costlier {
    /// The release whose ± is about half of the number, if that is within reach.
    fn text(&self, times: f64) -> Option<String> {
        let epsilon = two_digits(self.epsilon * times).filter(|_| times <= MOST_TIMES)?;
        let (before, after) = &self.written;
        Some(format!("{before}{epsilon}{after}, for a ± of about half of it"))
    }
}

impl Remedy {
    /// The remedies, the best first. `times` is the number by which the cost would have to grow.
    fn text(&self, times: Option<f64>) -> String {
        let costlier = times.and_then(|times| self.costlier.as_ref()?.text(times));
        let costlier = costlier.unwrap_or_else(|| "a larger epsilon".to_owned());
        match &self.first {
            Some(first) => format!("{first}; or {costlier}"),
            None => costlier,
        }
    }
}

/// The remedy for each column of an answer.
pub(super) fn remedies(release: &Release, drawn: &Drawn) -> Vec<Remedy> {
    let outputs = 0..drawn.schema.fields().len();
    outputs.map(|output| remedy(release, output).unwrap_or_default()).collect()
}

fn remedy(release: &Release, output: usize) -> Option<Remedy> {
    let origin = release.analysis().origin(output)?;
    let part = release.analysis().parts().get(origin.part)?;
    let measure = part.measures().get(origin.measure).filter(|own| !own.is_exact())?;
    let mechanized = release.mechanisms(origin.part).get(origin.measure)?;
    Some(Remedy {
        first: own_bound(part, measure, mechanized)
            .or_else(|| tighter_range(measure))
            .or_else(|| coarser_keys(part)),
        costlier: costlier(part, measure, mechanized),
    })
}

/// The release with `rows=auto`, if a unit may have several rows and the release can choose a bound
/// on them.
fn own_bound(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<String> {
    let (text, rows) = with_own_bound(part, measure, mechanized)?;
    Some(format!("{text}, whose noise is that of the rows that people have, and not of {rows}"))
}

/// The advice to write a range in place of one that was found.
fn tighter_range(measure: &Measure) -> Option<String> {
    match measure.clause.finding? {
        Finding::InUnits { .. } => Some(
            "a range that you know, as CLAMP(x, lo, hi) in place of x: half of the cost found this one"
                .to_owned(),
        ),
        Finding::InUnitsOfTwo { .. } => Some(
            "ranges that you know, as CLAMP(x, lo, hi) in place of x: half of the cost found them"
                .to_owned(),
        ),
        Finding::Histogram { .. } => None,
    }
}

fn coarser_keys(part: &PrivateAggregate) -> Option<String> {
    let keys = part.key_names();
    (!keys.is_empty()).then(|| format!("coarser keys than {}", keys.join(", ")))
}

/// The release at another ε, as it would be written.
fn costlier(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<Costlier> {
    let clause = &measure.clause;
    if let Some(grouping) = &clause.grouping {
        let epsilon = approximate(grouping.epsilon.as_ref()?.value());
        let written = ("OPTIONS(epsilon=".to_owned(), ")".to_owned());
        return Some(Costlier { epsilon, written });
    }
    if clause.finding.is_some() || clause.parameters.rho.is_some() {
        return None;
    }
    // A part of what is written may count the people behind the number.
    let mut parameters = stated_parameters(part.people_floor(), part.measures(), measure);
    let times = match (parameters.epsilon.take(), &clause.parameters.epsilon) {
        (Some(written), Some(own)) => approximate(&(written.value() / own.value())),
        (None, _) | (_, None) => 1.0,
    };
    let rest = parameters.to_string();
    let comma = if rest.is_empty() { "" } else { ", " };
    let written = (
        format!("{}(eps=", mechanized.mechanism.name()),
        format!("{comma}{rest}) {}", clause.text),
    );
    Some(Costlier { epsilon: times * approximate(mechanized.loss.epsilon()?), written })
}

/// A positive number with two digits, rounded up.
fn two_digits(x: f64) -> Option<String> {
    if !x.is_finite() || x <= 0.0 {
        return None;
    }
    let places = 1.0 - x.log10().floor();
    let unit = 10_f64.powf(places);
    let digits = (x * unit).ceil();
    let places = num_traits::ToPrimitive::to_usize(&places.max(0.0))?;
    let text = format!("{:.places$}", digits / unit);
    Some(match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    })
}

/// The numbers of a column, and their errors.
pub(super) struct NumberColumn<'a> {
    pub(super) name: &'a str,
    /// The values of all batches; `None` for NULL.
    pub(super) values: Vec<Option<f64>>,
    pub(super) errors: Vec<Option<f64>>,
    /// The ± with which all of them were drawn, if they decide themselves whether they are shown.
    pub(super) drawn: Option<f64>,
}

impl NumberColumn<'_> {
    /// The note on the numbers that drown, if some do.
    ///
    /// # Guarantee
    /// It is a function of the numbers and errors that the answer shows, and of the plan.
    pub(super) fn note(&self, remedy: &Remedy) -> Option<String> {
        let Self { name, values, errors, drawn } = self;
        let (mut rows, mut drowned, mut times) = (0_usize, 0_usize, None);
        for (value, error) in values.iter().zip(errors) {
            let (Some(value), Some(error)) = (value, error.or(*drawn)) else { continue };
            rows += 1;
            if error > DROWNS * value.abs() {
                drowned += 1;
                times = (*value != 0.0).then(|| error / (DROWNS * value.abs()));
            }
        }
        let its = if drawn.is_some() { "the ± with which it was drawn" } else { "its ±" };
        match (drowned, rows) {
            (0, _) => None,
            (1, 1) => Some(format!("{name}: {its} exceeds half of it; {}", remedy.text(times))),
            _ => Some(format!(
                "{name}: {its} exceeds half of it in {drowned} of {rows} rows; {}",
                remedy.text(None)
            )),
        }
    }
}

/// The values of a column of numbers. `None` for a column of anything else.
pub(super) fn numbers(batches: &[RecordBatch], column: usize) -> Option<Vec<Option<f64>>> {
    let mut numbers = Vec::new();
    for batch in batches {
        let values = batch.columns().get(column).filter(|v| v.data_type().is_numeric())?;
        let values = cast(values, &DataType::Float64).ok()?;
        numbers.extend(values.as_primitive_opt::<Float64Type>()?.iter());
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::two_digits;

    #[test]
    fn costs_have_two_digits_and_are_rounded_up() {
        for (x, text) in [
            (0.5, "0.5"),
            (1.234, "1.3"),
            (0.0123, "0.013"),
            (12.1, "13"),
            (1234.0, "1300"),
            (1.0, "1"),
        ] {
            assert_eq!(two_digits(x).as_deref(), Some(text));
        }
        assert_eq!(two_digits(0.0), None);
        assert_eq!(two_digits(f64::INFINITY), None);
    }
}
