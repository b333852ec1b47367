//! Which combinations of keys a row can have, if several keys are computed from one column, or
//! conditions concern several keys.
//!
//! In: the keys of GROUP BY, and the conditions of the query. Out: the combinations that can occur,
//! computed from the domains.
//!
//! ```text
//! GROUP BY EXTRACT(YEAR FROM ts), EXTRACT(MONTH FROM ts)   ts from 2024-11 to 2025-02: 4 of 2 × 4
//! WHERE a = 'x' AND b = 'y' OR a = 'y' AND b = 'x' GROUP BY a, b        2 of 2 × 2
//! ```

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::DataType;
use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::{Aggregate, Expr};

use super::group_keys::{keys_of, keys_together};
use super::joined_keys::joined_keys;
use super::key_image::joint_keys;
use super::of_column::with_known_keys;
use super::public_row_keys::Together;
use super::siblings::SiblingRows;
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::below::walk::Tables;
use crate::analysis::call::input_columns::{Group, KeyRequest};
use crate::analysis::call::lookup::Lookups;
use crate::analysis::context::Context;
use crate::analysis::expr::calendar::key_in_calendar;
use crate::analysis::expr::facts::Scope;

/// The combinations that can occur, for keys that restrict each other.
///
/// # Guarantee
/// No row of the relation has a combination that is left out. Depends only on the query, the
/// declarations and public rows.
pub(crate) fn keys_that_occur(
    aggregate: &Aggregate,
    groups: &[Group],
    asked: &KeyRequest,
    flow: &PrivateRelation,
    sources: &Context<'_>,
) -> Vec<Together> {
    let mut known = keys_together(aggregate, flow, sources.tables);
    // If a δ asks for the groups in the data, nothing is computed.
    if !asked.states_delta {
        let joined = joined(aggregate, groups, flow, sources.lookups, sources.tables);
        let is_within = |one: &Together, other: &Together| {
            one.columns.iter().all(|place| other.columns.contains(place))
        };
        known.retain(|one| !joined.iter().any(|other| is_within(one, other)));
        let is_apart = |one: &Together| {
            let shares =
                |other: &Together| other.columns.iter().any(|place| one.columns.contains(place));
            !known.iter().any(shares)
        };
        let joined: Vec<Together> = joined.into_iter().filter(is_apart).collect();
        known.extend(joined);
        known.extend(jointly(aggregate, groups, &known, flow, sources.lookups, sources.tables));
    }
    known
}

/// Leaves out the keys of each group that no combination has.
pub(crate) fn leave_out_keys(groups: &mut [Group], together: &[Together], lookups: &Lookups) {
    for one in together {
        for (i, place) in one.columns.iter().enumerate() {
            let Some(group) = groups.get_mut(*place) else { continue };
            let Ok(keys) = keys_of(group, None, lookups) else { continue };
            let occurring: HashSet<&ScalarValue> =
                one.rows.iter().filter_map(|row| row.get(i)).collect();
            let left: Vec<ScalarValue> =
                keys.iter().filter(|key| occurring.contains(key)).cloned().collect();
            if !left.is_empty() && left.len() < keys.len() {
                group.passing = Some(left);
            }
        }
    }
}

/// The combinations of keys that conditions connect with public rows.
fn joined(
    aggregate: &Aggregate,
    groups: &[Group],
    flow: &PrivateRelation,
    lookups: &Lookups,
    tables: &dyn Tables,
) -> Vec<Together> {
    let keys = |place: usize| keys_of(groups.get(place)?, None, lookups).ok();
    let mut places = Vec::new();
    let (mut written, mut own) = (Vec::new(), Vec::new());
    for (place, expr) in aggregate.group_expr.iter().enumerate() {
        let Some(keys) = keys(place) else { continue };
        let Some(first) = keys.first() else { continue };
        places.push(place);
        written.push(expr.clone());
        own.push((first.data_type(), keys.iter().any(ScalarValue::is_null)));
    }
    let (scope, traces) = (flow.scope.clone(), flow.traces.clone());
    let SiblingRows { exprs, scope, traces } =
        SiblingRows { exprs: written, scope, traces }.with_all_conditions();
    let exprs = exprs.into_iter().zip(&own).map(|(expr, (_, has_null))| (expr, *has_null));
    let exprs: BTreeMap<usize, (Expr, bool)> = exprs.enumerate().collect();
    let found = joined_keys(&exprs, &scope, &traces, tables).into_iter().filter_map(|joined| {
        let types: Vec<&DataType> =
            joined.places.iter().filter_map(|i| own.get(*i)).map(|(own, _)| own).collect();
        let typed = |row: Vec<ScalarValue>| {
            let values = row.iter().zip(&types);
            let values = values.map(|(value, to)| key_in_calendar(value.cast_to(to).ok()?));
            values.collect::<Option<Vec<_>>>()
        };
        let rows = joined.rows.into_iter().map(typed).collect::<Option<Vec<_>>>()?;
        let columns = joined.places.iter().filter_map(|i| places.get(*i)).copied().collect();
        Some(Together { columns, rows })
    });
    found.collect()
}

/// The same for keys that `known` does not cover.
fn jointly(
    aggregate: &Aggregate,
    groups: &[Group],
    known: &[Together],
    flow: &PrivateRelation,
    lookups: &Lookups,
    tables: &dyn Tables,
) -> Vec<Together> {
    let is_free = |place: &usize| !known.iter().any(|one| one.columns.contains(place));
    let keys = |place: &usize| keys_of(groups.get(*place)?, None, lookups).ok();
    let listed = |place: &usize| Some(keys(place)?.first()?.data_type());
    let has_null =
        |place: &usize| keys(place).is_some_and(|keys| keys.iter().any(ScalarValue::is_null));
    let places = (0..groups.len()).filter(|place| is_free(place) && listed(place).is_some());
    let places: Vec<usize> = places.collect();
    let written = places.iter().filter_map(|place| aggregate.group_expr.get(*place)).cloned();
    let (scope, traces) = (flow.scope.clone(), flow.traces.clone());
    let source = SiblingRows { exprs: written.collect(), scope, traces };
    let SiblingRows { exprs, scope, traces } = source.at_the_bottom();
    let exprs: BTreeMap<usize, Expr> = places.into_iter().zip(exprs).collect();
    let jointly = components(&exprs, &scope.conditions).into_iter().filter_map(|places| {
        let own = places.iter().filter_map(|place| exprs.get(place)).cloned();
        let own: Vec<Expr> = own.collect();
        let with_keys = |scope: Scope, expr| with_known_keys(expr, &scope, &traces, tables);
        let scope = own.iter().fold(scope.clone(), with_keys);
        let null_keys: Vec<bool> = places.iter().map(has_null).collect();
        let rows = joint_keys(&own, &null_keys, &scope, tables)?;
        let types = places.iter().map(listed).collect::<Option<Vec<_>>>()?;
        let typed = |row: Vec<ScalarValue>| {
            let values = row.iter().zip(&types);
            let values = values.map(|(value, to)| key_in_calendar(value.cast_to(to).ok()?));
            values.collect::<Option<Vec<_>>>()
        };
        let rows = rows.into_iter().map(typed).collect::<Option<Vec<_>>>()?;
        Some(Together { columns: places, rows })
    });
    jointly.collect()
}

/// Sets of several keys that share columns, or that one condition connects. Keys are given by their
/// positions.
fn components(exprs: &BTreeMap<usize, Expr>, conditions: &[Expr]) -> Vec<Vec<usize>> {
    let all: BTreeSet<&Column> = exprs.values().flat_map(Expr::column_refs).collect();
    let decided = conditions
        .iter()
        .map(|condition| condition.column_refs().into_iter().collect::<BTreeSet<&Column>>());
    let decided: Vec<BTreeSet<&Column>> = decided.filter(|named| named.is_subset(&all)).collect();
    let mut parts: Vec<(BTreeSet<usize>, BTreeSet<&Column>)> = Vec::new();
    let own = exprs
        .iter()
        .map(|(place, expr)| (BTreeSet::from([*place]), expr.column_refs().into_iter().collect()));
    for (place, named) in own.chain(decided.into_iter().map(|named| (BTreeSet::new(), named))) {
        let touches =
            |(_, known): &(BTreeSet<usize>, BTreeSet<&Column>)| !known.is_disjoint(&named);
        let (joined, mut rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(touches);
        let (mut places, mut columns) = (place, named);
        for (more, others) in joined {
            places.extend(more);
            columns.extend(others);
        }
        rest.push((places, columns));
        parts = rest;
    }
    let mut parts: Vec<Vec<usize>> =
        parts.into_iter().map(|(places, _)| places.into_iter().collect()).collect();
    parts.retain(|places| places.len() > 1);
    parts.sort();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn keys_are_joined_by_columns_and_by_conditions() {
        let exprs = [col("a"), col("b"), col("a") + lit(1), col("c"), col("d")];
        let conditions =
            [col("b").eq(col("c")), col("d").eq(lit(1)), col("c").lt(col("d") + col("x"))];
        let exprs: BTreeMap<usize, Expr> = exprs.into_iter().enumerate().collect();
        assert_eq!(components(&exprs, &conditions), [vec![0, 2], vec![1, 3]]);
        assert_eq!(components(&exprs, &[]), [vec![0, 2]]);
    }
}
