//! The bounds that were found for aggregates without a range.
//!
//! In: a release, and what it drew. Out: the bound of each such aggregate, what it cost, and the
//! note that says so. All of it follows from released values.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use crate::analysis::Measure;
use crate::buckets::{float_text, is_negative};
use crate::dialect::{Finding, Joint};
use crate::exec::Drawn;
use crate::release::mechanism::Mechanism;
use crate::release::{Release, loss_text};

/// A bound that was drawn for a column.
struct Bound {
    /// The column, where the aggregate reads two.
    column: Option<String>,
    value: f64,
    /// The lower end that goes with it, where a bucket stands out: 0 if none of those that do holds
    /// negative values.
    lo: Option<f64>,
    /// The least noisy count at which a bucket stands out, and whether one did.
    least: i128,
    stands_out: bool,
    /// What it cost.
    price: String,
    in_rho: bool,
}

impl Bound {
    /// Half of the width of the range that goes with it.
    fn half_width(&self) -> f64 {
        (self.value - self.lo.unwrap_or(-self.value)) / 2.0
    }
}

/// A bound by its number in the query.
fn bound(number: usize, release: &Release, drawn: &Drawn) -> Option<Bound> {
    let (part, value, least) = release.analysis().histogram(number)?;
    let value = drawn.values.get(value).copied().flatten()?;
    let released = drawn.released.get(part)?;
    let histogram = release.analysis().parts().get(part)?.measures().first()?;
    let in_rho = histogram.clause.parameters.rho.is_some();
    let kept = kept_sign(released, least);
    Some(Bound {
        column: Finding::column_of_bounds(&histogram.clause.text).map(str::to_owned),
        value,
        lo: kept.map(|negative| if negative { -value } else { 0.0 }),
        least,
        stands_out: kept.is_some(),
        price: loss_text(&release.mechanisms(part).first()?.loss, in_rho),
        in_rho,
    })
}

/// The unit in which a measure is released, if bounds were found for it.
pub(super) fn unit_of(measure: &Measure, release: &Release, drawn: &Drawn) -> Option<f64> {
    match measure.clause.finding? {
        Finding::InUnits { bound: number, squared } => {
            let found = bound(number, release, drawn)?;
            let has_any_middle = measure.clause.has_any_middle();
            let value = if has_any_middle { found.half_width() } else { found.value };
            Some(if squared { value * value } else { value })
        }
        Finding::InUnitsOfTwo { bounds } => {
            let unit = |number: Option<usize>| match number {
                Some(number) => bound(number, release, drawn).map(|own| own.half_width()),
                None => Some(1.0),
            };
            let [first, second] = bounds;
            Some(match measure.clause.joint()? {
                Joint::Corr | Joint::RegrR2 => 1.0,
                Joint::CovarPop | Joint::CovarSamp => unit(first)? * unit(second)?,
                Joint::RegrSlope => unit(first)? / unit(second)?,
                Joint::RegrIntercept => unit(first)?,
            })
        }
        Finding::Histogram { .. } => None,
    }
}

/// True if bounds that a reader writes halve the error of a measure: the other half of its cost
/// found these.
fn halves(measure: &Measure, release: &Release, bounds: &[Bound]) -> bool {
    let mechanized = mechanism_of(measure, release);
    matches!(mechanized, Some(Mechanism::Laplace(_))) && bounds.iter().all(|own| !own.in_rho)
}

/// The mechanism of a measure.
fn mechanism_of<'a>(measure: &Measure, release: &'a Release) -> Option<&'a Mechanism> {
    let parts = release.analysis().parts().iter().enumerate();
    let mut places = parts.filter_map(|(part, own)| {
        let at = own.measures().iter().position(|other| std::ptr::eq(other, measure))?;
        release.mechanisms(part).get(at)
    });
    places.next().map(|mechanized| &mechanized.mechanism)
}

/// True if a bucket of negative values stands out among released counts. `None` if no bucket stands
/// out. The count of NULLs is that of no bucket.
fn kept_sign(histogram: &RecordBatch, least: i128) -> Option<bool> {
    let [buckets, .., counts] = histogram.columns() else { return None };
    let numbers = cast(buckets, &DataType::Int64).ok()?;
    let numbers = numbers.as_primitive_opt::<Int64Type>()?.iter();
    let counts = counts.as_primitive_opt::<Int64Type>()?.iter();
    let kept = numbers.zip(counts).filter(|(_, n)| n.is_some_and(|n| i128::from(n) >= least));
    let signs: Vec<bool> = kept.filter_map(|(bucket, _)| bucket.map(is_negative)).collect();
    (!signs.is_empty()).then(|| signs.contains(&true))
}

/// A sum or mean with its argument clamped to what the histogram showed, as it would be written.
fn clamped(text: &str, bound: &Bound) -> Option<String> {
    let (lo, hi) = (bound.lo?, bound.value);
    if hi - lo > WIDEST {
        return None;
    }
    let (name, rest) = text.split_once('(')?;
    if !["sum", "avg"].iter().any(|known| name.trim().eq_ignore_ascii_case(known)) {
        return None;
    }
    let mut depth = 1_usize;
    let end = rest.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    let (argument, after) = rest.split_at(end);
    let (lo, hi) = (float_text(lo), float_text(hi));
    let is_plain = !argument.contains(['\'', '"', ',']);
    is_plain.then(|| format!("{name}(CLAMP({argument}, {lo}, {hi}){after}"))
}

/// The widest CLAMP that counts as a range. The engine looks for the bounds of anything wider.
const WIDEST: f64 = 4.6e18;

/// A text of more bytes than this is named by its heading, as it is written.
const LONG_TEXT: usize = 100;

/// The heading of the column that shows a measure.
fn heading_of<'a>(
    part: usize,
    measure: usize,
    release: &Release,
    drawn: &'a Drawn,
) -> Option<&'a str> {
    let shows = |output: &usize| {
        let origin = release.analysis().origin(*output);
        origin.is_some_and(|own| (own.part, own.measure) == (part, measure))
    };
    let output = (0..drawn.schema.fields().len()).find(shows)?;
    Some(drawn.schema.field(output).name())
}

/// The notes on bounds that were found.
pub(super) fn found_bounds_notes<'a>(
    release: &'a Release,
    drawn: &'a Drawn,
) -> impl Iterator<Item = String> + 'a {
    let measures = release.analysis().parts().iter().enumerate().flat_map(|(part, own)| {
        own.measures().iter().enumerate().map(move |(at, measure)| (part, at, measure))
    });
    measures.flat_map(move |(part, at, measure)| {
        notes_of(measure, release, drawn, || heading_of(part, at, release, drawn))
    })
}

/// The notes on the bounds of a measure.
fn notes_of<'a>(
    measure: &Measure,
    release: &Release,
    drawn: &Drawn,
    heading: impl Fn() -> Option<&'a str>,
) -> Vec<String> {
    let of = |number: usize| bound(number, release, drawn);
    let found: Vec<Bound> = match measure.clause.finding {
        Some(Finding::InUnits { bound, .. }) => {
            of(bound).map(|own| Bound { column: None, ..own }).into_iter().collect()
        }
        Some(Finding::InUnitsOfTwo { bounds }) => {
            bounds.into_iter().flatten().filter_map(of).collect()
        }
        Some(Finding::Histogram { .. }) | None => return Vec::new(),
    };
    let written = Finding::as_written(&measure.clause.text);
    let named = if written.len() > LONG_TEXT { heading() } else { None };
    let shown = named.unwrap_or(written);
    // A line meets x = 0 where 0 is in the middle of its second column.
    let is_intercept = measure.clause.joint() == Some(Joint::RegrIntercept);
    let notes = found.iter().enumerate().map(|(at, bound)| {
        let clamped = clamped(written, bound).filter(|_| halves(measure, release, &found));
        let is_last = at + 1 == found.len();
        let is_symmetric = !measure.clause.has_any_middle() || (is_intercept && is_last);
        note(shown, bound, is_symmetric, clamped.as_deref())
    });
    notes.collect()
}

/// The note on a bound.
fn note(text: &str, bound: &Bound, is_symmetric: bool, clamped: Option<&str>) -> String {
    let value = float_text(bound.value);
    let values = match &bound.column {
        Some(column) => format!("values of {column}"),
        None => "values".to_owned(),
    };
    let ends = match bound.lo.filter(|lo| *lo >= 0.0 && !is_symmetric) {
        Some(_) => format!("0 .. {value}"),
        None => format!("± {value}"),
    };
    if bound.stands_out {
        let halved = clamped
            .map_or_else(String::new, |written| format!("; {written} would have halved the error"));
        format!(
            "{text}: {values} were cut to {ends}, the bound found at {}, and its ± does not count what was cut{halved}",
            bound.price
        )
    } else {
        format!(
            "{text}: {values} were cut to {ends}, and this bound may be far off: no bucket had a noisy count of {} or more, so it is \
             that of the largest one; a larger epsilon, or a declared domain, gives a better one",
            bound.least
        )
    }
}
