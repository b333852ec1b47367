//! Which bounds of a query cut rows that the declarations allow: the ± of a number does not count
//! them.
//!
//! In: a private aggregate and one of its measures. Out: the bounds in words. They follow from the
//! query and the declarations alone; whether anybody has more is not told.

use super::mechanism::Predicted;
use crate::analysis::{Input, InputShape, Measure, PrivateAggregate, ReleaseKind};

/// Whether the query writes bounds on a unit's rows, and the declarations allow more.
pub(crate) fn may_cut(part: &PrivateAggregate, measure: &Measure) -> bool {
    part.subject().max_rows() != Some(1)
        && measure.ladder.is_none()
        && beyond(part, measure).is_some_and(|bound| bound.is_of_rows)
}

/// Whether the values of rows are added up, so that those of few rows are a share of all.
pub(crate) fn is_of_values(measure: &Measure) -> bool {
    // Of other rows a choice takes so many, one by one.
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
        | Input::Places { .. } => false,
    }
}

/// What is said of the bounds that the query writes, if a unit may have more by the declarations
/// and the result has an accuracy: `1 row of a unit in a group, and 2 groups of it; the ± does not
/// include what is cut`.
pub(crate) fn cut_text(
    part: &PrivateAggregate,
    measure: &Measure,
    accuracy: Predicted,
) -> Option<String> {
    if measure.ladder.is_some() || part.subject().is_row() {
        return None;
    }
    let accuracy = accuracy_of(accuracy)?;
    let bound = beyond(part, measure)?;
    let share = match bound.is_of_rows && is_of_values(measure) {
        true => ", of more each by the same share",
        false => "",
    };
    let idle = match bound.is_idle {
        true => ", which lowers no noise, since all rows of a unit are bounded already",
        false => "",
    };
    Some(format!("{}{share}{idle}; {accuracy} does not include what is cut", bound.most))
}

/// A bound that the query writes.
struct Bound {
    /// What a unit counts with at most.
    most: String,
    /// Whether it cuts a unit's rows in a group, and not its groups alone.
    is_of_rows: bool,
    /// Whether it bounds groups, and the noise is the same without it.
    is_idle: bool,
}

/// The bounds that the query writes, if a unit may have more by the declarations.
fn beyond(part: &PrivateAggregate, measure: &Measure) -> Option<Bound> {
    let (limits, written) = (&measure.limits, &measure.clause.parameters);
    if written.rows.is_none() && written.groups.is_none() && written.total_rows.is_none() {
        return None;
    }
    let some = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let is_grouped = !part.key_names().is_empty();
    let declared = part.subject().max_rows();
    let may_have_more = |most: u64| declared.is_none_or(|declared| declared > most);
    // The candidates of a choice are no groups of the answer.
    let groups_there = match measure.release_kind {
        ReleaseKind::Number(_) => u64::try_from(part.keys().most_groups()).unwrap_or(u64::MAX),
        ReleaseKind::Choice(_) => u64::MAX,
    };
    let groups = written.groups.and(limits.l0);
    let groups = groups.filter(|n| is_grouped && may_have_more(*n) && *n < groups_there);
    if measure.once_per_group() {
        let groups = limits.l0.filter(|n| is_grouped && may_have_more(*n) && *n < groups_there)?;
        let most = format!("{} of a unit", some(groups, "group"));
        return Some(Bound { most, is_of_rows: false, is_idle: false });
    }
    let in_groups = limits.l0.map(|groups| limits.per_partition.saturating_mul(groups));
    let most = limits.total.into_iter().chain(in_groups).min();
    let what = if let Input::Distinct(_) = measure.input { "value" } else { "row" };
    let in_a_group = || format!("{} of a unit in a group", some(limits.per_partition, what));
    let Some(most) = most.filter(|most| may_have_more(*most)) else {
        // All rows of a unit may be in one group, or each of them in its own.
        let rows = written.rows.filter(|_| is_grouped && may_have_more(limits.per_partition));
        let most = match (rows, groups) {
            (Some(_), Some(groups)) => {
                format!("{}, and {} of it", in_a_group(), some(groups, "group"))
            }
            (Some(_), None) => in_a_group(),
            (None, Some(groups)) => format!("{} of a unit", some(groups, "group")),
            (None, None) => return None,
        };
        return Some(Bound { most, is_of_rows: rows.is_some(), is_idle: groups.is_some() });
    };
    let most = match limits.l0 {
        Some(groups) if is_grouped && limits.total.is_none_or(|total| most < total) => {
            format!("{}, and {} of it", in_a_group(), some(groups, "group"))
        }
        Some(_) | None => format!("{} of a unit", some(most, what)),
    };
    Some(Bound { most, is_of_rows: true, is_idle: false })
}

/// What an accuracy is called of which noise alone decides; `None` for others.
fn accuracy_of(accuracy: Predicted) -> Option<&'static str> {
    match accuracy {
        Predicted::Within(_) | Predicted::WithinOverCount(_) | Predicted::Spread { .. } => {
            Some("the ±")
        }
        Predicted::Winner { .. } | Predicted::WinnerBySize { .. } => {
            Some("the distance from the best")
        }
        Predicted::Rank { .. } | Predicted::Truthful(_) | Predicted::Nothing => None,
    }
}
