//! The keys of a column that no table declares: of public rows, or of a subquery's expression.
//!
//! In: an expression over private rows, and where its columns come from. Out: its scope, in which these columns have
//! the keys that a row can have.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::image::key_image;
use super::{MOST_KEYS, known_keys};
use crate::analysis::below::public_side::public_keys;
use crate::analysis::below::trace::{Below, Definition, Trace};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::facts::{Facts, KeySource, Scope};
use crate::analysis::expr::shape::{is_string, type_of};
use crate::analysis::expr::total;

/// A scope in which the columns of an expression have the keys that their public rows have, or that are computed for them.
///
/// # Guarantee
/// On every row each such column is NULL, NaN, or one of its keys. They depend on declarations, on public rows and on the
/// query alone.
pub(crate) fn with_known_keys(
    expr: &Expr,
    scope: &Scope,
    traces: &[Trace],
    tables: &dyn Tables,
) -> Scope {
    let mut known = scope.clone();
    for column in expr.column_refs() {
        let Some(index) = scope.schema.maybe_index_of_column(column) else { continue };
        let (Some(trace), Some(facts)) = (traces.get(index), known.facts.get_mut(index)) else {
            continue;
        };
        let listed = matches!(facts.keys, Some(KeySource::Values(_) | KeySource::Ticks(_)));
        if listed || facts.is_unit {
            continue;
        }
        if let (None, Some((plan, name))) = (&facts.keys, &trace.public) {
            facts.keys = of_public_rows(plan, name, tables);
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

/// The values of a column of public rows, if there are some and not too many.
fn of_public_rows(
    plan: &Arc<LogicalPlan>,
    column: &Column,
    tables: &dyn Tables,
) -> Option<KeySource> {
    let keys = public_keys(tables, plan, column, MOST_KEYS).filter(|keys| !keys.is_empty());
    keys.map(|keys| KeySource::Values(Arc::new(keys)))
}

/// The keys of a computed column: those of all its branches, each once.
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
    let known = || total(expr, &scope).ok()?.facts.keys;
    key_image(expr, &scope, tables).or_else(known)
}

/// The keys of expressions of which each row has one, in their order where they are not texts.
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
