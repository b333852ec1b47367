//! The bounds that were found for aggregates without a range.
//!
//! In: a release, and what it drew. Out: the bound of each such aggregate, what it cost, and the
//! note that says so. All of it follows from released values.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use crate::analysis::{Measure, PrivateAggregate};
use crate::buckets::float_text;
use crate::dialect::Finding;
use crate::exec::Drawn;
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
    Some(Bound {
        text: text.to_owned(),
        value,
        unit: if squared { value * value } else { value },
        least,
        stands_out: i128::from(most) >= least,
        price: loss_text(&release.mechanisms(part).first()?.loss, in_rho),
    })
}

/// The notes on bounds that were found.
pub(super) fn found_bounds_notes<'a>(
    release: &'a Release,
    drawn: &'a Drawn,
) -> impl Iterator<Item = String> + 'a {
    let measures = release.analysis().parts().iter().flat_map(PrivateAggregate::measures);
    measures.filter_map(move |measure| {
        let bound = bound_of(measure, release, drawn)?;
        let value = float_text(bound.value);
        let text = &bound.text;
        Some(if bound.stands_out {
            format!(
                "{text}: values were cut to ± {value}, the bound found at {}, and its ± does not count what was cut",
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
