//! The moment of a statement: `now()` and `current_date` have one value in all of its parts.
//!
//! In: a plan as the planner makes it. Out: the plan with literals in place of these functions. The
//! clock is read once, when the statement is bound and before anything private is read, so the
//! moment depends on no row. It is in UTC and has no time zone, like the timestamps in files.

use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Replaces the functions of the moment by the present moment.
///
/// # Errors
/// Errors of planning, if a function had another type.
pub(super) fn at_one_moment(plan: LogicalPlan) -> Result<LogicalPlan> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let fixed = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|part| {
                Ok(match literal(&part, now) {
                    Some(value) => Transformed::yes(Expr::Literal(value, None)),
                    None => Transformed::no(part),
                })
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        match changed.transformed {
            true => changed.map_data(LogicalPlan::recompute_schema),
            false => Ok(changed),
        }
    })?;
    Ok(fixed.data)
}

/// True if every scalar function of a plan is immutable, so that it reads its arguments alone and
/// no clock. Aggregates and window functions read only rows.
///
/// # Errors
/// None: the walk does not fail.
pub(super) fn is_timeless(plan: &LogicalPlan) -> Result<bool> {
    let mut all = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarFunction(call) = part {
                    all &= call.func.signature().volatility == Volatility::Immutable;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(all)
}

/// The value of a function of the moment.
fn literal(expr: &Expr, now: i64) -> Option<ScalarValue> {
    let Expr::ScalarFunction(call) = expr else { return None };
    if !call.args.is_empty() {
        return None;
    }
    match call.func.name() {
        "now" => Some(ScalarValue::TimestampMicrosecond(Some(now), None)),
        "current_date" => Some(ScalarValue::Date32(Some(i32::try_from(now.div_euclid(DAY)).ok()?))),
        _ => None,
    }
}
