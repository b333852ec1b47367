//! Draws the numbers of a CDF.
//!
//! In: the exact counts of the bins of every group. Out: for every group the noisy number of rows
//! up to the end of each bin, as a list.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;

use super::draw_plan::{DrawError, DrawPlan};
use crate::grid::failed;
use crate::mechanism::Cumulative;
use crate::sampler::QueryRng;
use hushql_exec::gather::Gathered;

/// The lists of all groups.
///
/// # Guarantee
/// For every group, the mechanism receives the exact counts of its bins once, and nothing else.
///
/// # Errors
/// An internal error for a gathered input that has no places, or for places beyond the bins.
pub(super) fn running_totals(
    draw_plan: &DrawPlan,
    mechanism: &Cumulative,
    gathered: &Gathered,
    rng: &mut QueryRng,
) -> Result<ArrayRef, DrawError> {
    let (Gathered::Places(groups), DataType::List(field)) =
        (gathered, &draw_plan.measure.data_type)
    else {
        return Err(failed().into());
    };
    let bins = mechanism.tree().bins();
    if draw_plan.measure.bins() != Some(bins) {
        return Err(failed().into());
    }
    let mut totals = Vec::with_capacity(groups.len() * bins);
    for group in groups {
        let mut counts = vec![0_i128; bins];
        for (place, rows) in group.points().iter() {
            let place = usize::try_from(*place).map_err(|_| failed())?;
            *counts.get_mut(place).ok_or_else(failed)? += *rows;
        }
        let drawn = mechanism.draw(&counts, rng)?;
        totals.extend(drawn.into_iter().map(|total| i64::try_from(total).unwrap_or(i64::MAX)));
    }
    let lengths = OffsetBuffer::from_lengths(std::iter::repeat_n(bins, groups.len()));
    let totals = Arc::new(Int64Array::from(totals));
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), lengths, totals, None)?))
}
