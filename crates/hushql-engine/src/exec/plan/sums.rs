//! The terms of a measure: the columns of exact integers that are added up for it.
//!
//! In: a measure over rows that each count. Out: its terms, in the order of the measure's outputs.
//!
//! ```text
//! AVG(x), x between lo and hi     Σ(x − lo), Σ(hi − x)
//! ```

use datafusion::common::{Result, internal_err};

use crate::analysis::{Input, JointMoments, Measure, TermColumns, VarianceMoments};
use hushql_exec::aggregate::fixed_sum::Measured;
use hushql_exec::aggregate::terms::{Term, TermKind};

/// The terms of a measure over rows that each count, in the order of its outputs.
///
/// # Errors
/// An internal error for a measure that counts a unit once per group, which terms of rows cannot
/// express.
pub(crate) fn terms_of_measure(measure: &Measure) -> Result<Vec<Term>> {
    let Measure { filter, grid, lo, hi, .. } = *measure;
    let sum = |column, measured| TermKind::Sum { column, grid, lo, hi, measured };
    let kinds = match &measure.input {
        Input::Rows => vec![TermKind::Count],
        Input::Values(column) => vec![TermKind::CountValues(*column)],
        Input::Sum(column) => vec![sum(*column, Measured::Value)],
        Input::Mean(column) => {
            vec![sum(*column, Measured::AboveLow), sum(*column, Measured::BelowHigh)]
        }
        Input::Moments(VarianceMoments { column, shift, .. }) => {
            let shift = *shift;
            vec![
                sum(*column, Measured::BelowHighSquared { shift }),
                sum(*column, Measured::TwiceBoth { shift }),
                sum(*column, Measured::AboveLowSquared { shift }),
            ]
        }
        Input::Joint(JointMoments { column, pairs, .. }) => {
            let product = |which| sum(*column, Measured::Product { pairs: *pairs, which });
            (0..pairs.products()).map(product).collect()
        }
        Input::Distinct(_) => return internal_err!("distinct values are not a sum over rows"),
        Input::Terms { kind, columns } => {
            let term = |one: &TermColumns| {
                let kind = match (kind.as_ref(), one.value) {
                    (Input::Rows, _) => TermKind::Count,
                    (Input::Values(_), Some(column)) => TermKind::CountValues(column),
                    (Input::Sum(_), Some(column)) => {
                        let (lo, hi, measured) = (one.lo, one.hi, Measured::Value);
                        TermKind::Sum { column, grid, lo, hi, measured }
                    }
                    _ => return internal_err!("a candidate counts rows or sums values"),
                };
                Ok(Term { kind, filter: one.filter })
            };
            return columns.iter().map(term).collect();
        }
        Input::Places { .. } | Input::Bins { .. } => {
            return internal_err!("places are not sums of a key");
        }
        Input::Units | Input::SumPerUnit(_) | Input::MeanPerUnit(_) => {
            return internal_err!("a row that is its own unit counts once anyway");
        }
    };
    Ok(kinds.into_iter().map(|kind| Term { kind, filter }).collect())
}
