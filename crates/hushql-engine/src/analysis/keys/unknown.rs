//! Which queries may ask for groups with undeclared keys.
//!
//! In: the releases of a GROUP BY, and whether its keys are public. Out: nothing, or a refusal.
//! Unknown groups can release numbers, quantiles and extremes, and only with a δ. Options about
//! unknown groups are refused if there are none. `measure/unknown_partitions` hides the groups of
//! few units.
//!
//! ```text
//! GROUP BY zip, LAPLACE(eps=1, delta=1e-6) COUNT(*)           accepted
//! GROUP BY zip, EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(x)      accepted: half of ε counts units
//! GROUP BY zip, LAPLACE(eps=1) COUNT(*)                       refused: the keys of zip are unknown
//! ```

use crate::analysis::call::Call;
use crate::dialect::{AggregateName, GroupStrategy, GroupingClause, Operand};
use crate::refusal::{Reason, Refusal};

/// True if OPTIONS ask for a threshold.
pub(crate) fn asks_for_threshold(grouping: &GroupingClause) -> bool {
    grouping.strategy == Some(GroupStrategy::Threshold)
        || grouping.min_units.is_some()
        || grouping.threshold.is_some()
}

/// Accepts unknown partitions if a release states δ, and no release is a selection: all are
/// numbers, or values of the range of a column.
///
/// # Errors
/// Without δ, the refusal that explains why the keys are unknown. Otherwise, the reason why a
/// threshold does not help.
pub(crate) fn accept_unknown(calls: &[Call], unknown: Refusal) -> Result<(), Refusal> {
    if !matches!(unknown.reason(), Reason::UnknownKeys | Reason::TooManyKeys) {
        return Err(unknown);
    }
    let public = |call: &&Call| {
        call.clause.grouping.as_ref().and_then(|g| g.strategy) == Some(GroupStrategy::Public)
    };
    if calls.iter().any(|call| public(&call)) {
        return Err(Refusal::new(
            Reason::UnknownKeys,
            "group_selection_strategy=PUBLIC_GROUPS",
            format!("the keys of {} are not public", unknown.clause()),
            format!(
                "GROUP BY {} KEYS (…), or declare the column's domain, or LAPLACE_THRESHOLD with a delta",
                unknown.clause()
            ),
        ));
    }
    if let Some(call) = calls.iter().find(|call| !has_value_in_each_group(call)) {
        return Err(no_choice(call, &unknown));
    }
    if calls.iter().all(|call| call.clause.parameters.delta.is_none()) {
        let asked =
            calls.iter().any(|c| c.clause.grouping.as_deref().is_some_and(asks_for_threshold));
        return Err(match asked {
            true => Refusal::new(
                Reason::NoDelta,
                "OPTIONS(…)",
                "unknown groups are released by a threshold, which needs a delta",
                "OPTIONS(epsilon=1, delta=1e-6, …)",
            ),
            false => unknown,
        });
    }
    Ok(())
}

/// The refusal of a selection for each group, if it is refused because the keys are not declared.
pub(crate) fn no_choice_in_unknown(calls: &[Call], unknown: Refusal) -> Refusal {
    let selection = calls.iter().find(|call| !has_value_in_each_group(call));
    match selection.filter(|_| unknown.reason() == Reason::UnknownKeys) {
        Some(call) => no_choice(call, &unknown),
        None => unknown,
    }
}

/// The refusal of a selection for each group whose keys are not declared, with the list to write.
fn no_choice(call: &Call, unknown: &Refusal) -> Refusal {
    // The refusal of the keys starts with such a list, whose values have the type of the key.
    let list = unknown.hint().split_once(", or ").map(|(list, _)| list);
    let list = list.filter(|list| list.starts_with("GROUP BY ") && list.contains(" KEYS ("));
    let list =
        list.map_or_else(|| format!("GROUP BY {} KEYS (…)", unknown.clause()), ToOwned::to_owned);
    Refusal::new(
        Reason::UnknownKeys,
        &call.clause.text,
        "groups whose keys are not declared can have counts, sums, means, variances, quantiles and extremes so far, not selections",
        format!(
            "{list}, with the keys that LAPLACE(eps=1, delta=1e-6) COUNT(*) for the same groups finds"
        ),
    )
}

/// True if OPTIONS ask for a threshold by its strategy alone.
fn of_strategy(grouping: &GroupingClause) -> bool {
    grouping.min_units.is_none() && grouping.threshold.is_none()
}

/// True if a call releases one value in each group: a number, or a value of a column's range.
fn has_value_in_each_group(call: &Call) -> bool {
    match &call.clause.operand {
        Operand::Aggregate(aggregate) => match aggregate.function {
            AggregateName::Count
            | AggregateName::Sum
            | AggregateName::Avg
            | AggregateName::Min
            | AggregateName::Max
            | AggregateName::Median
            | AggregateName::Quantile
            | AggregateName::Quantiles
            | AggregateName::Cdf
            | AggregateName::Spread(_)
            | AggregateName::Joint(_)
            | AggregateName::Unsupported(_) => true,
            AggregateName::Revenue => false,
        },
        Operand::Selection(_) | Operand::Response => false,
    }
}

/// Refuses options about groups that would have no effect, because all groups are public or the
/// release is a selection.
/// The strategy alone says nothing about a query without groups.
pub(crate) fn refuse_idle_options(
    calls: &[Call],
    known: bool,
    has_groups: bool,
) -> Result<(), Refusal> {
    for call in calls {
        let Some(grouping) = &call.clause.grouping else { continue };
        if !known && grouping.strategy == Some(GroupStrategy::Public) {
            return Err(Refusal::new(
                Reason::UnknownCandidates,
                "group_selection_strategy=PUBLIC_GROUPS",
                format!("the candidates for {} are not public", call.clause.text),
                "a declared domain, or OPTIONS without group_selection_strategy",
            ));
        }
        if !asks_for_threshold(grouping) || !has_groups && of_strategy(grouping) {
            continue;
        }
        let option = match (grouping.min_units, &grouping.threshold) {
            (Some(_), _) => "min_privacy_units_per_group",
            (None, Some(_)) => "group_selection_epsilon",
            (None, None) => "group_selection_strategy=LAPLACE_THRESHOLD",
        };
        return Err(Refusal::new(
            Reason::Parameter,
            option,
            "all groups here are public and are released, even the empty ones, so there is nothing to hide",
            "OPTIONS without it; HAVING drops groups by a released number",
        ));
    }
    Ok(())
}
