//! The bounds that were found for aggregates without a range.
//!
//! In: a release, and what it drew. Out: the bound of each such aggregate, what it cost, and the
//! note that says so. All of it follows from released values.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

use crate::analysis::Measure;
use crate::buckets::{float_text, is_negative};
use crate::dialect::Finding;
use crate::exec::Drawn;
use crate::release::mechanism::Mechanism;
use crate::release::{Release, loss_text};

/// A bound that was drawn for an aggregate.
pub(super) struct Bound {
    /// The text of the aggregate, as written.
    text: String,
    value: f64,
    /// The unit in which the aggregate is released: the bound, or its square.
    pub(super) unit: f64,
    /// The least noisy count at which a bucket stands out, and whether one did.
    least: i128,
    stands_out: bool,
    /// What it cost.
    price: String,
    /// The range that a reader may write instead, at half of the error; `None` if another one may
    /// be better.
    written: Option<String>,
}

/// The bound in whose units a measure is released. `None` for a measure in its own unit.
pub(super) fn bound_of(measure: &Measure, release: &Release, drawn: &Drawn) -> Option<Bound> {
    let Some(Finding::InUnits { bound, squared }) = measure.clause.finding else { return None };
    let (part, value, least) = release.analysis().histogram(bound)?;
    let value = drawn.values.get(value).copied().flatten()?;
    let counts = drawn.released.get(part)?.columns().last()?;
    let most = counts.as_primitive_opt::<Int64Type>()?.iter().flatten().max()?;
    let (text, _) = measure.clause.text.split_once(", released at ")?;
    let histogram = release.analysis().parts().get(part)?.measures().first()?;
    let in_rho = histogram.clause.parameters.rho.is_some();
    let mechanized = mechanism_of(measure, release);
    let halves = !in_rho && matches!(mechanized, Some(Mechanism::Laplace(_)));
    let kept = drawn.released.get(part).and_then(|batch| kept_sign(batch, least));
    let ends = kept.map(|negative| (if negative { -value } else { 0.0 }, value));
    let ends = ends.filter(|(lo, hi)| hi - lo <= WIDEST);
    let written = ends.filter(|_| halves).and_then(|ends| clamped(text, ends));
    Some(Bound {
        text: text.to_owned(),
        value,
        unit: if squared { value * value } else { value },
        least,
        stands_out: i128::from(most) >= least,
        written,
        price: loss_text(&release.mechanisms(part).first()?.loss, in_rho),
    })
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
/// out.
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
fn clamped(text: &str, (lo, hi): (f64, f64)) -> Option<String> {
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
    measures.filter_map(move |(part, at, measure)| {
        let bound = bound_of(measure, release, drawn)?;
        let value = float_text(bound.value);
        let heading = (bound.text.len() > LONG_TEXT).then(|| heading_of(part, at, release, drawn));
        let text = heading.flatten().unwrap_or(&bound.text);
        Some(if bound.stands_out {
            let halved = bound.written.as_ref().map_or_else(String::new, |written| {
                format!("; {written} would have halved the error")
            });
            format!(
                "{text}: values were cut to ± {value}, the bound found at {}, and its ± does not count what was cut{halved}",
                bound.price
            )
        } else {
            format!(
                "{text}: values were cut to ± {value}, and this bound may be far off: no bucket had a noisy count of {} or more, so it is \
                 that of the largest one; a larger epsilon, or a declared domain, gives a better one",
                bound.least
            )
        })
    })
}
