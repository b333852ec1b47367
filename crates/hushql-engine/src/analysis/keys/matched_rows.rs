//! The public rows that a private row can match: only their values are keys.
//!
//! In: the public rows that a join reads, and what is known of the private rows that are joined
//! with them. Out: the same public rows, without those that no private row matches.
//!
//! ```text
//! v JOIN days d ON v.day = d.day WHERE v.day = 2 GROUP BY d.label      of days, the row of day 2
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator};

use super::trial::is_late;
use crate::analysis::below::column_origin::Trace;
use crate::analysis::below::join_conditions::widened;
use crate::analysis::expr::facts::{Facts, Scope};
use crate::analysis::expr::shape::type_of;
use crate::analysis::expr::total;

/// A column with more keys than this leaves out no public rows.
const MOST_LISTED: usize = 4_096;

/// The rows of a public plan that a private row can match: they meet the conditions on their own
/// columns, and their columns have values that the columns have which equal them. `keys_of` tells
/// these values, as far as they are known.
///
/// # Guarantee
/// No private row matches a public row that is left out. Depends on declarations, on public rows
/// and on the query alone.
pub(crate) fn matched(
    plan: &Arc<LogicalPlan>,
    scope: &Scope,
    traces: &[Trace],
    keys_of: &dyn Fn(&Column) -> Option<Vec<ScalarValue>>,
) -> Arc<LogicalPlan> {
    let own = |column: &Column| of_plan(column, plan, scope, traces);
    let mut met: Vec<Expr> = Vec::new();
    for condition in &scope.conditions {
        let columns = condition.column_refs();
        if !columns.is_empty()
            && !is_late(condition)
            && columns.iter().all(|column| own(column).is_some())
        {
            met.extend(written(condition, &own, plan));
        }
    }
    for (column, trace) in scope.schema.columns().iter().zip(traces) {
        let Some(name) = own(column) else { continue };
        // Without a match, a column that an outer join fills with NULL equals nothing.
        if trace.padded {
            continue;
        }
        let others = equal_columns(column, scope).into_iter();
        for other in others.filter(|other| own(other).is_none()) {
            met.push(Expr::Column(name.clone()).is_not_null());
            met.extend(keys_of(&other).and_then(|keys| one_of(&name, &keys, plan)));
        }
    }
    let left = conjunction(met).and_then(|met| {
        let rows = LogicalPlanBuilder::from(plan.as_ref().clone()).filter(met);
        rows.and_then(LogicalPlanBuilder::build).ok()
    });
    left.map_or_else(|| Arc::clone(plan), Arc::new)
}

/// The name that a column has in a public plan, if it comes from it.
fn of_plan(
    column: &Column,
    plan: &Arc<LogicalPlan>,
    scope: &Scope,
    traces: &[Trace],
) -> Option<Column> {
    let (own, name) = traces.get(scope.schema.maybe_index_of_column(column)?)?.public.as_ref()?;
    Arc::ptr_eq(own, plan).then(|| name.clone())
}

/// A condition over the rows of a public plan, in which nothing fails.
fn written(
    condition: &Expr,
    own: &dyn Fn(&Column) -> Option<Column>,
    plan: &LogicalPlan,
) -> Option<Expr> {
    let renamed = condition.clone().transform_up(|part| {
        let name = if let Expr::Column(column) = &part { own(column) } else { None };
        Ok(name.map_or_else(
            || Transformed::no(part.clone()),
            |name| Transformed::yes(Expr::Column(name)),
        ))
    });
    let facts = plan.schema().fields().iter().map(|field| Facts::of_type(field.data_type()));
    let scope = Scope::new(Arc::clone(plan.schema()), facts.collect());
    Some(total(&renamed.ok()?.data, &scope).ok()?.expr)
}

/// That a column has one of these keys.
fn one_of(name: &Column, keys: &[ScalarValue], plan: &LogicalPlan) -> Option<Expr> {
    let column = Expr::Column(name.clone());
    let data_type = type_of(&column, plan.schema()).ok()?;
    let present = keys.iter().filter(|key| !key.is_null());
    let listed = present.filter_map(|key| key.cast_to(&data_type).ok());
    let listed: Vec<Expr> = listed.map(|key| Expr::Literal(key, None)).collect();
    (listed.len() <= MOST_LISTED).then(|| column.in_list(listed, false))
}

/// The columns that equal this one on every row, directly or through other columns.
pub(super) fn equal_columns(column: &Column, scope: &Scope) -> Vec<Column> {
    let side = |expr: &Expr| widened(expr, &scope.schema).cloned();
    let pair = |condition: &Expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            return None;
        };
        side(left).zip(side(right))
    };
    let pairs: Vec<(Column, Column)> = scope.conditions.iter().filter_map(pair).collect();
    let mut found = vec![column.clone()];
    let mut next = 0;
    while let Some(one) = found.get(next).cloned() {
        for (l, r) in &pairs {
            let other = if *l == one { r } else { l };
            if (*l == one || *r == one) && !found.contains(other) {
                found.push(other.clone());
            }
        }
        next += 1;
    }
    found.split_off(1)
}
