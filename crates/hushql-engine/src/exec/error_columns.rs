//! The ± of released numbers, row by row.
//!
//! In: the columns that a private aggregate drew, with the side columns of its measures. Out: the
//! released table, followed by the ± of each measure at each confidence that the public plan reads.

use std::sync::Arc;

use ::datafusion::common::{Result, internal_err};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch};
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};

use super::PreparedPart;
use super::draw::MOST_DIGITS;
use crate::analysis::{Measure, approximate};
use crate::privacy::Rational;
use crate::release::Release;
use crate::release::mechanism::Predicted;

/// How to compute the ± of a measure from the drawn columns.
#[derive(Debug, Clone)]
pub(super) struct Margin {
    measure: usize,
    accuracy: Predicted,
    /// The accuracy under each bound of a ladder, if the measure has one.
    rungs: Vec<Predicted>,
    /// An upper bound of the error: the width of the range of a mean.
    most: f64,
    /// True if the measure's side column was computed for this confidence.
    is_own: bool,
}

/// The width of the range of a measure's argument, in its own unit, rounded up.
fn width_of_range(measure: &Measure) -> f64 {
    let width = Rational::from_integer((measure.hi - measure.lo).into()) * measure.grid_unit();
    approximate(&width).next_up()
}

/// The margins of a private aggregate, in the order of the columns that follow its released ones.
pub(super) fn margins(release: &Release, part: usize) -> Vec<Margin> {
    let Some(own) = release.analysis().parts().get(part) else { return Vec::new() };
    let among = release.error_bars().among().iter();
    let of = |numbers: &u64| {
        let numbers = *numbers;
        own.measures().iter().enumerate().map(move |(i, measure)| Margin {
            measure: i,
            accuracy: release.accuracy_among(part, i, numbers),
            rungs: release.accuracies_under_bounds(part, i, numbers),
            most: width_of_range(measure),
            is_own: numbers == 1,
        })
    };
    among.flat_map(of).collect()
}

/// Marks the released numbers that lie at an end of their type, where larger numbers saturate;
/// `None` if there are none.
pub(crate) fn at_end(values: &ArrayRef) -> Option<BooleanArray> {
    let at_end: BooleanArray = match values.data_type() {
        DataType::Int64 => {
            let values = values.as_primitive::<Int64Type>().iter();
            values.map(|v| Some(matches!(v, Some(i64::MIN | i64::MAX)))).collect()
        }
        DataType::UInt64 => {
            let values = values.as_primitive::<UInt64Type>().iter();
            values.map(|v| Some(v == Some(u64::MAX))).collect()
        }
        DataType::Decimal128(..) => {
            let values = values.as_primitive::<Decimal128Type>().iter();
            values.map(|v| Some(v.is_some_and(|v| v.abs() == MOST_DIGITS))).collect()
        }
        _ => return None,
    };
    at_end.has_true().then_some(at_end)
}

/// The released columns of a private aggregate, followed by the ± of its measures. `drawn` also
/// holds the side columns, and `chosen` the positions of the chosen bounds.
pub(super) fn with_margins(
    drawn: &RecordBatch,
    released: &RecordBatch,
    chosen: &[Option<usize>],
    part: &PreparedPart,
) -> Result<RecordBatch> {
    let rows = released.num_rows();
    let mut behind = drawn.columns().iter().skip(part.columns);
    let beside: Vec<Option<&ArrayRef>> =
        part.beside.iter().map(|beside| beside.and_then(|_| behind.next())).collect();
    let mut columns = released.columns().to_vec();
    for margin in &part.margins {
        let own = beside.get(margin.measure).copied().flatten();
        let own = own.and_then(|own| own.as_primitive_opt::<Float64Type>());
        let rung = chosen.get(margin.measure).copied().flatten();
        let under_bound = rung.and_then(|rung| margin.rungs.get(rung)).copied();
        let column: Float64Array = match (under_bound.unwrap_or(margin.accuracy), own) {
            (Predicted::Within(error), _) => std::iter::repeat_n(Some(error), rows).collect(),
            (Predicted::WithinOverCount(error), Some(counts)) => {
                counts.iter().map(|count| Some((error / count?).min(margin.most))).collect()
            }
            (Predicted::Spread { .. }, Some(own)) if margin.is_own => {
                own.iter().map(|own| own.filter(|own| own.is_finite())).collect()
            }
            (Predicted::WithinOverCount(_) | Predicted::Spread { .. }, _)
            | (
                Predicted::Winner { .. }
                | Predicted::WinnerBySize { .. }
                | Predicted::Rank { .. }
                | Predicted::Truthful(_)
                | Predicted::Nothing,
                _,
            ) => std::iter::repeat_n(None, rows).collect(),
        };
        let measures = released.num_columns().checked_sub(part.beside.len());
        let values = measures.and_then(|first| released.columns().get(first + margin.measure));
        let column = match values.and_then(at_end) {
            Some(at_end) => nullif(&column, &at_end)?.as_primitive::<Float64Type>().clone(),
            None => column,
        };
        // A number that is not shown has no ±.
        let column = match values {
            Some(values) if values.null_count() > 0 && values.len() == column.len() => {
                nullif(&column, &is_null(values)?)?.as_primitive::<Float64Type>().clone()
            }
            Some(_) | None => column,
        };
        if column.len() != rows {
            return internal_err!("each released number has its own margin");
        }
        columns.push(Arc::new(column));
    }
    Ok(RecordBatch::try_new(part.released.columns(), columns)?)
}
