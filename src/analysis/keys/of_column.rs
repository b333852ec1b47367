//! The keys of a column that no table declares: of public rows, or of a subquery's expression.
//!
//! In: an expression over private rows, and where its columns come from. Out: its scope, in which these columns have
//! the keys that a row can have.

use std::sync::Arc;

use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::MOST_KEYS;
use super::image::key_image;
use crate::analysis::below::public_side::public_keys;
use crate::analysis::below::trace::Trace;
use crate::analysis::below::trace::{Below, Definition};
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::facts::{KeySource, Scope};

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
    let of_branch = |(expr, below): &(Expr, Arc<Below>)| {
        let scope = with_known_keys(expr, &below.scope, &below.traces, tables);
        match expr.try_as_col() {
            Some(column) => scope.facts_of(column)?.keys.clone(),
            None => key_image(expr, &scope, tables),
        }
    };
    let find = || match definition.branches.as_slice() {
        [one] => of_branch(one),
        several => {
            let listed = |branch| match of_branch(branch)? {
                KeySource::Values(values) => Some(values),
                KeySource::Integers(..) | KeySource::Ticks(_) => None,
            };
            let mut seen = HashSet::new();
            let all: Vec<_> = several.iter().map(listed).collect::<Option<_>>()?;
            let all = all.iter().flat_map(|values| values.iter());
            let each: Vec<_> = all.filter(|value| seen.insert((*value).clone())).cloned().collect();
            (each.len() <= MOST_KEYS).then(|| KeySource::Values(Arc::new(each)))
        }
    };
    definition.keys.get_or_init(find).clone()
}
