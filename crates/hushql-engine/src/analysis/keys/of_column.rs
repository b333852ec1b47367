//! The keys of a column that no table declares, from public rows or from a subquery's expression.
//!
//! In: an expression over private rows, and the origin of its columns. Out: its scope, in which
//! these columns have the keys that a row can have.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::key_image::{key_image, keys_that_pass};
use super::matched_rows::matched;
use super::{MOST_KEYS, known_keys, possible};
use crate::analysis::below::column_origin::{Below, Definition, Trace};
use crate::analysis::below::public_side::public_keys;
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{Facts, KeySource, Scope, never_null};
use crate::analysis::expr::shape::{is_string, type_of};

/// A scope in which the columns of an expression have keys: the keys of their public rows, or keys
/// that are computed for them.
///
/// # Guarantee
/// On every row each such column is NULL, NaN, or one of its keys. The keys depend only on the
/// query, the declarations and public rows.
pub(crate) fn with_known_keys(
    expr: &Expr,
    scope: &Scope,
    traces: &[Trace],
    tables: &dyn Tables,
) -> Scope {
    let left = |plan: &Arc<LogicalPlan>| rows_left(plan, scope, traces, tables);
    with_keys(expr, scope, traces, &left, tables)
}

/// The public rows of a plan that a private row can match.
///
/// # Guarantee
/// As for [`matched`].
pub(super) fn rows_left(
    plan: &Arc<LogicalPlan>,
    scope: &Scope,
    traces: &[Trace],
    tables: &dyn Tables,
) -> Arc<LogicalPlan> {
    matched(plan, scope, traces, &|other| all_keys_of(other, scope, traces, tables))
}

/// The keys that a column is known to have, also those of public rows that no private row matches.
pub(super) fn all_keys_of(
    column: &Column,
    scope: &Scope,
    traces: &[Trace],
    tables: &dyn Tables,
) -> Option<Vec<ScalarValue>> {
    let scope = with_all_keys(&Expr::Column(column.clone()), scope, traces, tables);
    let facts = scope.facts_of(column).filter(|facts| !facts.is_unit)?;
    let index = scope.schema.index_of_column(column).ok()?;
    let data_type = scope.schema.field(index).data_type();
    let known = || Some(possible(known_keys(facts, data_type, "", false).ok()?, facts));
    keys_that_pass(column, &scope, tables).or_else(known)
}

/// A scope with the keys that all public rows have, also those that no private row matches.
fn with_all_keys(expr: &Expr, scope: &Scope, traces: &[Trace], tables: &dyn Tables) -> Scope {
    with_keys(expr, scope, traces, &Arc::clone, tables)
}

/// The public rows that are left of some public rows.
type Left<'a> = &'a dyn Fn(&Arc<LogicalPlan>) -> Arc<LogicalPlan>;

fn with_keys(
    expr: &Expr,
    scope: &Scope,
    traces: &[Trace],
    left: Left<'_>,
    tables: &dyn Tables,
) -> Scope {
    let mut known = scope.clone();
    for column in expr.column_refs() {
        let Some(index) = scope.schema.maybe_index_of_column(column) else { continue };
        let (Some(trace), Some(facts)) = (traces.get(index), known.facts.get_mut(index)) else {
            continue;
        };
        let listed = matches!(facts.keys, Some(KeySource::Values(_) | KeySource::Ticks(_)));
        let is_boolean = scope.schema.field(index).data_type() == &DataType::Boolean;
        if facts.is_unit {
            continue;
        }
        if listed && !(is_boolean && trace.public.is_some()) {
            if let Some(keys) = trace.definition.as_deref().and_then(|d| narrowed(d, facts, tables))
            {
                facts.keys = Some(keys);
            }
            continue;
        }
        if facts.keys.is_none() || is_boolean {
            *facts = of_public_rows(column, facts, trace, &scope.conditions, left, tables);
        }
        let Some(definition) = &trace.definition else { continue };
        if let Some(keys) = keys_of(definition, tables) {
            if let (KeySource::Values(values), true, false) =
                (&keys, definition.decides_null, trace.padded)
            {
                facts.null_key &= values.iter().any(ScalarValue::is_null);
            }
            facts.keys = Some(keys);
        }
    }
    known
}

/// The facts of a column with the keys of its public rows, if it comes from public rows and there
/// are not too many keys. NULL is a key if a public row has NULL and the conditions do not rule it
/// out.
///
/// # Guarantee
/// Only public rows are read.
pub(crate) fn of_public_rows(
    column: &Column,
    facts: &Facts,
    trace: &Trace,
    conditions: &[Expr],
    left: Left<'_>,
    tables: &dyn Tables,
) -> Facts {
    let read = || {
        let (plan, name) = trace.public.as_ref()?;
        let mut keys = public_keys(tables, &left(plan), name, MOST_KEYS)
            .or_else(|| public_keys(tables, plan, name, MOST_KEYS))?;
        let has_null = keys.last().is_some_and(ScalarValue::is_null);
        keys.retain(|key| !key.is_null());
        let is_present = || conditions.iter().flat_map(never_null).any(|one| one == column);
        let null_key = facts.null_key || has_null && !is_present();
        let keys = Some(KeySource::Values(Arc::new(keys)));
        Some(Facts { keys, null_key, ..facts.clone() })
    };
    read().unwrap_or_else(|| facts.clone())
}

/// The keys of a list that the conditions leave, if there are conditions on the rows from which a
/// column is computed.
fn narrowed(definition: &Definition, facts: &Facts, tables: &dyn Tables) -> Option<KeySource> {
    let meets_some = |(_, below): &(Expr, Arc<Below>)| !below.scope.conditions.is_empty();
    if !definition.branches.iter().any(meets_some) {
        return None;
    }
    ordered_as(facts, &keys_of(definition, tables)?)
}

/// The keys of an image, in the order of the expression's known list. NULL comes last.
pub(crate) fn ordered_as(facts: &Facts, image: &KeySource) -> Option<KeySource> {
    let (Some(KeySource::Values(listed)), KeySource::Values(image)) = (&facts.keys, image) else {
        return None;
    };
    let Some(first) = image.first() else { return Some(KeySource::Values(Arc::clone(image))) };
    let data_type = first.data_type();
    let listed = listed.iter().map(|key| key.cast_to(&data_type));
    let listed = listed.collect::<Result<Vec<_>, _>>().ok()?;
    let places: HashMap<&ScalarValue, usize> =
        listed.iter().enumerate().map(|(place, key)| (key, place)).collect();
    let mut ordered = image.to_vec();
    ordered.sort_by_key(|key| (key.is_null(), places.get(key).copied().unwrap_or(usize::MAX)));
    Some(KeySource::Values(Arc::new(ordered)))
}

/// The keys of a computed column: the distinct keys of all its branches.
fn keys_of(definition: &Definition, tables: &dyn Tables) -> Option<KeySource> {
    let find = || match definition.branches.as_slice() {
        [(one, below)] => of_branch(one, below, tables),
        several => of_all(several, tables),
    };
    definition.keys.get_or_init(find).clone()
}

/// The keys of an expression over some rows.
fn of_branch(expr: &Expr, below: &Below, tables: &dyn Tables) -> Option<KeySource> {
    let scope = with_known_keys(expr, &below.scope, &below.traces, tables);
    let known = || exact(expr, &scope).ok()?.facts.keys;
    key_image(expr, &scope, tables).or_else(known)
}

/// The keys of expressions if each row has the value of one of them. Keys other than texts are
/// sorted.
fn of_all(branches: &[(Expr, Arc<Below>)], tables: &dyn Tables) -> Option<KeySource> {
    let type_of = |(expr, below): &(Expr, Arc<Below>)| type_of(expr, &below.scope.schema).ok();
    let data_type = branches.first().and_then(type_of)?;
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for branch in branches {
        let own = type_of(branch)?;
        let keys = Some(of_branch(&branch.0, &branch.1, tables)?);
        let facts = Facts { keys, ..Facts::of_type(&own) };
        for key in known_keys(&facts, &own, "", false).ok()? {
            let key = key.cast_to(&data_type).ok()?;
            if seen.insert(key.clone()) {
                all.push(key);
            }
        }
    }
    if !is_string(&data_type) {
        all.sort_by(|a, b| {
            let values = || a.partial_cmp(b).unwrap_or(Ordering::Equal);
            a.is_null().cmp(&b.is_null()).then_with(values)
        });
    }
    (all.len() <= MOST_KEYS).then(|| KeySource::Values(Arc::new(all)))
}
