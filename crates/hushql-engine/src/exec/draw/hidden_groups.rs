//! Decides which undeclared groups are shown.

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;

use crate::exec::draw::draw_plan::{DrawError, noise as drawn};
use crate::grid::failed;
use crate::release::PartitionSelection;
use crate::sampler::QueryRng;
use hushql_exec::gather::Gathered;

/// Hides the groups whose noisy number of units is below the threshold.
///
/// # Guarantee
/// A row stays exactly if the number that is compared is at least the threshold. That number is
/// either in `drawn_numbers`, the noisy integers of the measure that is compared, or a separate
/// draw for every group. Source: the numbers carry the noise of `hidden`.
///
/// # Errors
/// An internal error for columns that do not match the plan.
pub(crate) fn hide(
    hidden: &PartitionSelection,
    released: &RecordBatch,
    gathered: &Gathered,
    counter: usize,
    drawn_numbers: Option<&[i128]>,
    rng: &mut QueryRng,
) -> Result<RecordBatch, DrawError> {
    let least = i128::from(hidden.at_least());
    let shown: BooleanArray = match (hidden.noise(), hidden.counter()) {
        (None, Some(_)) => {
            let numbers = drawn_numbers.ok_or_else(failed)?;
            numbers.iter().map(|number| Some(*number >= least)).collect()
        }
        (Some(noise), None) => {
            let Gathered::Groups { sums, .. } = gathered else { return Err(failed().into()) };
            let counts = sums.get(counter).ok_or_else(failed)?;
            let compare =
                |count: &i128| Ok(Some(count.saturating_add(drawn(noise, rng)?) >= least));
            counts.iter().map(compare).collect::<Result<_, DrawError>>()?
        }
        (None, None) | (Some(_), Some(_)) => return Err(failed().into()),
    };
    if shown.len() != released.num_rows() || *shown.data_type() != DataType::Boolean {
        return Err(failed().into());
    }
    Ok(filter_record_batch(released, &shown)?)
}
