//! Which rows have a listed key.
//!
//! In: a GROUP BY key, the facts about it, and the listed keys. Out: whether the groups together
//! contain all rows. They do if no value is outside the list, and if NULL is listed or occurs on no
//! row. No bound relies on it.
//!
//! ```text
//! domain IN ('A', 'B')                      all but NULL: other wards become NULL, which is not a key
//! … OR NULL, or WHERE ward IS NOT NULL      all
//! ward KEYS ('A')                           some
//! ```

use datafusion::common::{HashSet, ScalarValue};
use datafusion::logical_expr::Expr;

use crate::analysis::below::column_origin::Trace;
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::call::input_columns::Group;
use crate::analysis::context::Context;
use crate::analysis::expr::facts::{Scope, never_null};
use crate::analysis::expr::total;
use crate::analysis::keys::group_keys::keys_of;
use crate::analysis::recursion::deeper;
use crate::catalog::Catalog;

/// The rows that have one of the listed keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// All rows.
    All,
    /// The rows on which the key is not NULL. Its declaration does not rule NULL out.
    AllButNull,
    /// The rows with one of the keys that the query lists. Nothing is known about the others.
    Some,
}

/// The rows below that have one of these keys.
///
/// # Guarantee
/// Depends only on the query, the declarations and public tables, never on whether a private row is
/// NULL.
pub(crate) fn coverage(
    expr: &Expr,
    group: &Group,
    keys: &[ScalarValue],
    flow: &PrivateRelation,
    context: &Context<'_>,
) -> Coverage {
    let Ok(known) = keys_of(group, None, context.lookups) else { return Coverage::Some };
    let listed: HashSet<&ScalarValue> = keys.iter().collect();
    if !known.iter().all(|key| listed.contains(key)) {
        return Coverage::Some;
    }
    if keys.iter().any(ScalarValue::is_null) || !may_be_null(expr, &flow.scope) {
        return Coverage::All;
    }
    match admits_null(expr, &flow.scope, &flow.traces, context.catalog) {
        true => Coverage::AllButNull,
        false => Coverage::Some,
    }
}

/// True if an expression can be NULL on a row that meets the conditions of the query.
fn may_be_null(expr: &Expr, scope: &Scope) -> bool {
    // CONCAT skips NULL. It is NULL only if the text is too long, and such a text is never a key.
    if matches!(expr, Expr::ScalarFunction(call) if matches!(call.func.name(), "concat" | "concat_ws"))
    {
        return false;
    }
    let mut present = scope.clone();
    for column in scope.conditions.iter().flat_map(never_null) {
        let index = scope.schema.index_of_column(column).ok();
        if let Some(facts) = index.and_then(|i| present.facts.get_mut(i)) {
            facts.nullable = false;
        }
    }
    total(expr, &present).map_or(true, |total| total.facts.nullable)
}

/// True if an expression can be NULL according to the declarations of its columns and the
/// conditions of the query.
fn admits_null(expr: &Expr, scope: &Scope, traces: &[Trace], catalog: &Catalog) -> bool {
    let is_present = |column| scope.conditions.iter().flat_map(never_null).any(|one| one == column);
    may_be_null(expr, scope)
        && expr.column_refs().into_iter().any(|column| {
            let trace = scope.schema.maybe_index_of_column(column).and_then(|i| traces.get(i));
            !is_present(column) && trace.is_none_or(|trace| is_nullable(trace, catalog))
        })
}

/// True if a column can be NULL according to its declaration.
fn is_nullable(trace: &Trace, catalog: &Catalog) -> bool {
    if trace.padded {
        return true;
    }
    // If a public row has NULL, NULL is a key.
    if trace.present || trace.public.is_some() {
        return false;
    }
    if let Some(origin) = &trace.origin {
        let column = catalog.table(&origin.table).and_then(|table| table.column(&origin.column));
        return column.is_none_or(|column| column.nullable);
    }
    match trace.definition.as_deref().filter(|definition| definition.decides_null) {
        Some(definition) => definition.branches.iter().any(|(expr, below)| {
            deeper(|| admits_null(expr, &below.scope, &below.traces, catalog))
        }),
        None => true,
    }
}
