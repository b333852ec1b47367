//! Which bounds of a query cut rows that the declarations allow. The ± of a number does not cover
//! the rows that are cut.
//!
//! In: a private aggregate and one of its measures. Out: the bounds in words. They follow from the
//! query and the declarations alone, so they do not tell whether any unit has more rows.

use super::mechanism::Predicted;
use crate::analysis::{Input, InputShape, Measure, PrivateAggregate};

/// True if the query writes bounds on a unit's rows and the declarations allow more rows.
pub(crate) fn may_cut(part: &PrivateAggregate, measure: &Measure) -> bool {
    part.subject().max_rows() != Some(1)
        && measure.ladder.is_none()
        && beyond(part, measure).is_some()
}

/// True if the measure adds up the values of rows. The rows of a unit above its bound are then
/// scaled down, not dropped.
pub(crate) fn is_of_values(measure: &Measure) -> bool {
    // Any other shape takes single rows up to the bound.
    let is_added_up = measure.input_shape() == InputShape::Sums;
    match measure.input {
        Input::Sum(_) | Input::Mean(_) | Input::Moments(_) | Input::Joint(_) => is_added_up,
        Input::Rows
        | Input::Values(_)
        | Input::Units
        | Input::Distinct(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => false,
    }
}

/// The bounds that the query writes, such as `1 row of a unit in a group, and 2 groups`. `None` if
/// the declarations allow a unit no more than that, or if the number has no ±.
pub(crate) fn cut_text(
    part: &PrivateAggregate,
    measure: &Measure,
    accuracy: Predicted,
) -> Option<String> {
    if measure.ladder.is_some() || part.subject().is_row() || !is_distance(accuracy) {
        return None;
    }
    let share =
        if is_of_values(measure) { ", each by the same share if there are more" } else { "" };
    beyond(part, measure).map(|most| format!("{most}{share}"))
}

/// The bounds that the query writes, if the declarations allow a unit more.
fn beyond(part: &PrivateAggregate, measure: &Measure) -> Option<String> {
    let (limits, written) = (&measure.limits, &measure.clause.parameters);
    if written.rows.is_none() && written.groups.is_none() && written.total_rows.is_none() {
        return None;
    }
    let some = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let is_grouped = !part.key_names().is_empty();
    let declared = part.subject().max_rows();
    let may_have_more = |most: u64| declared.is_none_or(|declared| declared > most);
    if measure.once_per_group() {
        let groups = limits.l0.filter(|groups| is_grouped && may_have_more(*groups))?;
        return Some(format!("{} of a unit", some(groups, "group")));
    }
    let in_groups = limits.l0.map(|groups| limits.per_partition.saturating_mul(groups));
    let most =
        limits.total.into_iter().chain(in_groups).min().filter(|most| may_have_more(*most))?;
    let what = if let Input::Distinct(_) = measure.input { "value" } else { "row" };
    Some(match limits.l0 {
        Some(groups) if is_grouped && limits.total.is_none_or(|total| most < total) => format!(
            "{} of a unit in a group, and {} of it",
            some(limits.per_partition, what),
            some(groups, "group")
        ),
        Some(_) | None => format!("{} of a unit", some(most, what)),
    })
}

/// True if noise alone decides by how much a number is off.
fn is_distance(accuracy: Predicted) -> bool {
    match accuracy {
        Predicted::Within(_) | Predicted::WithinOverCount(_) | Predicted::Spread { .. } => true,
        Predicted::Winner { .. }
        | Predicted::WinnerBySize { .. }
        | Predicted::Rank { .. }
        | Predicted::Truthful(_)
        | Predicted::Nothing => false,
    }
}
