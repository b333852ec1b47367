//! Differences of moments beside intervals. The planner would compare both as intervals, whose
//! nanoseconds hold 292 years.
//!
//! In: a plan before the planner's coercion. Out: the plan with comparisons of constant intervals
//! as durations in microseconds. A month has 30 days there, as in PostgreSQL.
//!
//! ```text
//! until - since > INTERVAL '1000 days'      until of 9999-12-31 is 2.5 · 10¹⁷ microseconds away
//! ```

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Between;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};

use super::temporal::{compares, constant};

/// Compares differences of moments with constant intervals in microseconds.
///
/// # Errors
/// Those of planning.
pub(super) fn in_durations(plan: LogicalPlan) -> Result<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|part| {
                Ok(match compared(&part, &schema) {
                    Some(compared) => Transformed::yes(compared),
                    None => Transformed::no(part),
                })
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(done.data)
}

/// The comparison of a difference of moments with constant intervals, in microseconds; `None` for
/// every other expression.
fn compared(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let is_span = |side: &Expr| {
        matches!(side, Expr::BinaryExpr(_))
            && side
                .get_type(schema)
                .is_ok_and(|own| own == DataType::Duration(TimeUnit::Microsecond))
    };
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr
        && compares(*op)
    {
        let (left, right) = match (is_span(left), is_span(right)) {
            (true, false) => (left.as_ref().clone(), duration(right)?),
            (false, true) => (duration(left)?, right.as_ref().clone()),
            (true, true) | (false, false) => return None,
        };
        return Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))));
    }
    if let Expr::Between(Between { expr: span, negated, low, high }) = expr
        && is_span(span)
    {
        let (low, high) = (Box::new(duration(low)?), Box::new(duration(high)?));
        return Some(Expr::Between(Between::new(span.clone(), *negated, low, high)));
    }
    None
}

/// A constant interval as a duration.
fn duration(interval: &Expr) -> Option<Expr> {
    Some(Expr::Literal(constant_microseconds(interval)?, None))
}

/// A constant interval in microseconds.
pub(super) fn constant_microseconds(interval: &Expr) -> Option<ScalarValue> {
    const DAYS_OF_A_MONTH: i64 = 30;
    const MICROSECONDS_OF_A_DAY: i64 = 86_400_000_000;
    let ScalarValue::IntervalMonthDayNano(Some(by)) = constant(interval)? else { return None };
    let days = i64::from(by.months) * DAYS_OF_A_MONTH + i64::from(by.days);
    let whole = (by.nanoseconds % 1_000 == 0).then_some(by.nanoseconds / 1_000)?;
    let microseconds = days.checked_mul(MICROSECONDS_OF_A_DAY)?.checked_add(whole)?;
    Some(ScalarValue::DurationMicrosecond(Some(microseconds)))
}
