//! Decides which numbers are shown under an owner's floor of people.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, BooleanArray, new_null_array};
use arrow::compute::nullif;

use crate::exec::draw::draw_plan::{DrawError, DrawPlan, DrawnFloor, Specification};
use crate::grid::failed;

/// The drawn counts of people, by measure.
pub(super) type PeopleCounts = BTreeMap<usize, Vec<i128>>;

/// Replaces the numbers of too few people with NULL, and what is beside them.
///
/// # Guarantee
/// A number stays exactly if the noisy count that decides about it is at least its limit; its side
/// column stays with it. Whether it stays follows from drawn counts alone. The counts themselves
/// are not released.
///
/// # Errors
/// An internal error for a count that was not drawn, and for columns that do not match the plan.
pub(super) fn hide_numbers(
    specification: &Specification,
    people: &PeopleCounts,
    columns: &mut [ArrayRef],
    beside: &mut [ArrayRef],
) -> Result<(), DrawError> {
    for DrawnFloor { count, of, at_least } in &specification.floors {
        let counts = people.get(count).ok_or_else(failed)?;
        let least = i128::from(*at_least);
        let few: BooleanArray = counts.iter().map(|count| Some(*count < least)).collect();
        for measure in of {
            hide(columns.get_mut(*measure), &few)?;
            if let Some(at) = side_column(&specification.draw_plans, *measure) {
                hide(beside.get_mut(at), &few)?;
            }
        }
        let own = columns.get_mut(*count).ok_or_else(failed)?;
        *own = new_null_array(own.data_type(), own.len());
    }
    Ok(())
}

fn hide(column: Option<&mut ArrayRef>, few: &BooleanArray) -> Result<(), DrawError> {
    let column = column.ok_or_else(failed)?;
    let shown = nullif(column.as_ref(), few)?;
    *column = shown;
    Ok(())
}

/// The position of the side column of a measure among all side columns, if it has one.
fn side_column(plans: &[DrawPlan], measure: usize) -> Option<usize> {
    let has_one = |plan: &&DrawPlan| {
        let measure = &plan.measure;
        measure.is_mean() || measure.moments().is_some() || measure.joint().is_some()
    };
    plans.get(measure).filter(has_one)?;
    Some(plans.iter().take(measure).filter(has_one).count())
}
