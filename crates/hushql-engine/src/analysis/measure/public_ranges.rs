//! The range of a public column without a declaration: from its least value to its greatest.
//!
//! In: private rows that were joined with public ones, and the arguments of aggregates over them.
//! Out: the same rows, with ranges for their public columns. Only public rows are read, so the
//! ranges depend on no privacy unit.
//!
//! ```text
//! SUM(o.qty * p.cost), p public      cost between 0.5 and 80, read from the rows of p
//! ```

use std::sync::Arc;

use datafusion::common::{Column, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use crate::analysis::below::column_origin::{Definition, Trace};
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::below::walk::Tables;
use crate::analysis::call::Call;
use crate::analysis::expr::facts::{Scope, rational};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::type_of;
use crate::analysis::expr::total;
use crate::analysis::recursion::deeper;
use crate::functions::without_nan;
use crate::privacy::Rational;

/// The rows, with ranges for public columns without a range that arguments or filters of the calls
/// read.
///
/// # Guarantee
/// On every row each such column is NULL, NaN, or in its range. The ranges depend only on the
/// query, the declarations and public rows. They are for releases, which clamp to them. No proof
/// that an expression never fails uses them.
pub(crate) fn with_public_ranges(
    mut flow: PrivateRelation,
    calls: &[Call],
    tables: &dyn Tables,
) -> PrivateRelation {
    for call in calls {
        for expr in call.params.args.iter().chain(call.params.filter.as_deref()) {
            narrow(expr, &mut flow.scope, &flow.traces, tables);
        }
    }
    flow
}

/// Gives ranges to the columns of an expression that have none, if public rows supply them.
fn narrow(expr: &Expr, scope: &mut Scope, traces: &[Trace], tables: &dyn Tables) {
    for column in expr.column_refs() {
        let Some(index) = scope.schema.maybe_index_of_column(column) else { continue };
        let is_number = scope.schema.field(index).data_type().is_numeric();
        let (Some(trace), Some(facts)) = (traces.get(index), scope.facts.get_mut(index)) else {
            continue;
        };
        if !is_number || facts.is_unit || facts.range.bounds().is_some() {
            continue;
        }
        let found = match (&trace.public, &trace.definition) {
            (Some((plan, name)), _) => range_of(plan, name, tables),
            (None, Some(definition)) => deeper(|| of_definition(definition, tables)),
            (None, None) => None,
        };
        if let Some(found) = found {
            facts.range = facts.range.intersect(&found);
        }
    }
}

/// The range of a computed column: the union over all its branches.
fn of_definition(definition: &Definition, tables: &dyn Tables) -> Option<Interval> {
    let mut hull = Interval::empty();
    for (expr, below) in &definition.branches {
        let mut scope = below.scope.clone();
        narrow(expr, &mut scope, &below.traces, tables);
        hull = hull.union(&total(expr, &scope).ok()?.facts.range);
    }
    hull.bounds().is_some().then_some(hull)
}

/// From the least value of a public column to its greatest; `None` if it has no finite ends. A
/// column without values has the range of 0 alone, so that nobody pays to find its range.
fn range_of(plan: &Arc<LogicalPlan>, column: &Column, tables: &dyn Tables) -> Option<Interval> {
    let of = Expr::Column(column.clone());
    let data_type = type_of(&of, plan.schema()).ok()?;
    // Otherwise NaN would be the greatest value.
    let number = without_nan(of, &data_type);
    let ends = vec![min(number.clone()).alias("lo"), max(number).alias("hi")];
    let plan = LogicalPlanBuilder::from(plan.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), ends)
        .and_then(LogicalPlanBuilder::build)
        .ok()?;
    let row = tables.read(&plan)?;
    let end = |i: usize| ScalarValue::try_from_array(row.columns().get(i)?, 0).ok();
    let (lo, hi) = (end(0)?, end(1)?);
    if lo.is_null() && hi.is_null() {
        return Some(Interval::point(Rational::from_integer(0.into())));
    }
    Some(Interval::between(rational(&lo)?, rational(&hi)?))
}
