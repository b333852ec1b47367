//! Counts of the people that meet a condition, as funnels write them.
//!
//! In: calls over private rows. Out: the same calls; those that count the unit in a CASE without
//! another branch count it under a FILTER. A unit is then one value at most, and not as many values
//! as it has rows.
//!
//! ```text
//! COUNT(DISTINCT CASE WHEN product = 'tea' THEN user_id END)      COUNT(DISTINCT user_id) FILTER (WHERE product = 'tea')
//! ```

use datafusion::logical_expr::Expr;

use super::Call;
use crate::analysis::below::relation::PrivateRelation;
use crate::dialect::{AggregateCall, AggregateName, Operand};

/// Writes the condition of a counted unit as a FILTER.
///
/// # Guarantee
/// Both count the same values: CASE is NULL where its condition is false or NULL, and NULL is not
/// counted.
pub(crate) fn filter_units(calls: &mut [Call], flow: &PrivateRelation) {
    for call in calls {
        let Operand::Aggregate(aggregate) = &call.clause.operand else { continue };
        if aggregate.function != AggregateName::Count || !aggregate.distinct {
            continue;
        }
        let counted = call.params.args.first().and_then(only_branch);
        let Some((condition, unit)) = counted.filter(|(_, value)| is_unit(value, flow)) else {
            continue;
        };
        let filter = match call.params.filter.take() {
            Some(filter) => filter.and(condition),
            None => condition,
        };
        call.params.filter = Some(Box::new(filter));
        call.params.args = vec![unit];
    }
}

/// The argument of COUNT(DISTINCT …) if it is the unit, or the unit padded with NULL by an outer
/// join. One unit then has at most one value.
pub(crate) fn padded_unit<'a>(
    call: &'a Call,
    aggregate: &AggregateCall,
    flow: &PrivateRelation,
) -> Option<&'a Expr> {
    let counts = aggregate.function == AggregateName::Count && aggregate.distinct;
    let argument = call.params.args.first().filter(|_| counts)?;
    flow.trace(argument)?.unit_or_null.then_some(argument)
}

/// The condition and the value of a CASE with one branch, which is NULL elsewhere.
fn only_branch(expr: &Expr) -> Option<(Expr, Expr)> {
    let Expr::Case(case) = expr else { return None };
    let [(condition, value)] = case.when_then_expr.as_slice() else { return None };
    let otherwise = case.else_expr.as_deref();
    let is_null = |e: &Expr| {
        let value = if let Expr::Cast(cast) = e { &cast.expr } else { e };
        matches!(value, Expr::Literal(value, _) if value.is_null())
    };
    let is_whole = case.expr.is_none() && otherwise.is_none_or(is_null);
    is_whole.then(|| (condition.as_ref().clone(), value.as_ref().clone()))
}

fn is_unit(expr: &Expr, flow: &PrivateRelation) -> bool {
    let column =
        expr.try_as_col().and_then(|column| flow.scope.schema.maybe_index_of_column(column));
    column.and_then(|at| flow.scope.facts.get(at)).is_some_and(|facts| facts.is_unit)
}
