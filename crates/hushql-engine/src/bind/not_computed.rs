//! Refuses expressions that the planner accepts but cannot compute.
//!
//! In: a plan. Out: the same plan, or a refusal. Refused are LIKE with an ESCAPE other than the
//! backslash, and windows whose frames reach further than 2³¹ rows. Larger numbers of rows
//! overflow, but only if there are rows.
//!
//! ```text
//! city LIKE '50!%' ESCAPE '!'                        write LIKE '50\%'
//! ROWS BETWEEN 1 PRECEDING AND 5e9 FOLLOWING         write UNBOUNDED FOLLOWING
//! ```

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    Expr, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits,
};

use super::quoting::as_sql;
use crate::refusal::{Reason, Refusal};

/// The most rows or groups that a frame may reach to either side.
const MOST_AWAY: i64 = 1 << 31;

/// Checks that each LIKE and each frame can be computed, and returns the plan.
///
/// # Errors
/// The refusal.
pub(super) fn check(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| match refused(part) {
                Some(refusal) => Err(DataFusionError::External(Box::new(refusal))),
                None => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(plan)
}

fn refused(expr: &Expr) -> Option<Refusal> {
    let written = || as_sql(expr).unwrap_or_else(|_| expr.human_display().to_string());
    if let Expr::Like(like) = expr
        && like.escape_char.is_some_and(|escape| escape != '\\')
    {
        return Some(Refusal::new(
            Reason::Partial,
            written(),
            "no LIKE has an ESCAPE other than the backslash",
            "LIKE without ESCAPE, and \\% or \\_ for the character itself: x LIKE '50\\%'",
        ));
    }
    let Expr::WindowFunction(window) = expr else { return None };
    let WindowFrame { units, start_bound, end_bound, .. } = &window.params.window_frame;
    let counts = matches!(units, WindowFrameUnits::Rows | WindowFrameUnits::Groups);
    if !counts || !(is_far(start_bound) || is_far(end_bound)) {
        return None;
    }
    Some(Refusal::new(
        Reason::TooLarge,
        written(),
        format!("the frame of a window reaches at most {MOST_AWAY} rows or groups to either side"),
        "UNBOUNDED PRECEDING or UNBOUNDED FOLLOWING for all of them",
    ))
}

fn is_far(bound: &WindowFrameBound) -> bool {
    if let WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) = bound {
        return !by.is_null() && rows(by).is_none_or(|rows| !(0..=MOST_AWAY).contains(&rows));
    }
    false
}

/// The value of a literal number of rows.
fn rows(by: &ScalarValue) -> Option<i64> {
    let by = by.cast_to(&arrow::datatypes::DataType::Int64).ok()?;
    if let ScalarValue::Int64(rows) = by { rows } else { None }
}
