//! Refuses expressions that the planner accepts but cannot compute.
//!
//! In: a plan. Out: the same plan, or a refusal. Refused are LIKE with an ESCAPE other than the
//! backslash, windows whose frames reach further than 2³¹ rows (larger numbers of rows overflow,
//! but only if there are rows), frames that end before they begin, and aggregates that cannot take
//! a row out again in frames that move.
//!
//! ```text
//! city LIKE '50!%' ESCAPE '!'                        write LIKE '50\%'
//! ROWS BETWEEN 1 PRECEDING AND 5e9 FOLLOWING         write UNBOUNDED FOLLOWING
//! ROWS BETWEEN CURRENT ROW AND 1 PRECEDING           write 1 PRECEDING AND CURRENT ROW
//! ```

use std::cmp::Ordering;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
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
    if ends_before_it_begins(start_bound, end_bound) {
        return Some(Refusal::new(
            Reason::BadValue,
            written(),
            "the frame of a window ends before it begins",
            "the nearer end first: 2 PRECEDING AND 1 PRECEDING, or 1 FOLLOWING AND 2 FOLLOWING",
        ));
    }
    if !is_unbounded(start_bound) && keeps_what_left(window) {
        let name = window.fun.name();
        let distinct = if window.params.distinct { " of DISTINCT values" } else { "" };
        return Some(Refusal::new(
            Reason::Partial,
            written(),
            format!("{name}{distinct} is not computed in a frame whose start moves"),
            "a frame that starts at UNBOUNDED PRECEDING, or MIN, MAX, SUM, AVG or COUNT without DISTINCT",
        ));
    }
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

/// True if no row can lie between the ends of a frame. Distances that cannot be compared, such as
/// a month and 30 days, are left to the planner.
fn ends_before_it_begins(start: &WindowFrameBound, end: &WindowFrameBound) -> bool {
    let further = |a: &ScalarValue, b: &ScalarValue| {
        let widened = |x: &ScalarValue| x.cast_to(&DataType::Float64);
        match (widened(a), widened(b)) {
            (Ok(a), Ok(b)) => a.partial_cmp(&b) == Some(Ordering::Greater),
            _ => a.partial_cmp(b) == Some(Ordering::Greater),
        }
    };
    match (start, end) {
        (
            WindowFrameBound::CurrentRow | WindowFrameBound::Following(_),
            WindowFrameBound::Preceding(by),
        ) => !by.is_null(),
        (WindowFrameBound::Following(by), WindowFrameBound::CurrentRow) => !by.is_null(),
        // Without a value, a bound is unbounded.
        (WindowFrameBound::Preceding(first), WindowFrameBound::Preceding(last)) => {
            !first.is_null() && !last.is_null() && further(last, first)
        }
        (WindowFrameBound::Following(first), WindowFrameBound::Following(last)) => {
            !first.is_null() && !last.is_null() && further(first, last)
        }
        (
            WindowFrameBound::Preceding(_) | WindowFrameBound::CurrentRow,
            WindowFrameBound::CurrentRow | WindowFrameBound::Following(_),
        ) => false,
    }
}

fn is_unbounded(bound: &WindowFrameBound) -> bool {
    if let WindowFrameBound::Preceding(by) = bound { by.is_null() } else { false }
}

/// True if an aggregate cannot take a row out again when the row leaves the frame.
fn keeps_what_left(window: &WindowFunction) -> bool {
    const NEVER: [&str; 8] = [
        "any_value",
        "approx_distinct",
        "approx_percentile_cont_with_weight",
        "bit_and",
        "bit_or",
        "bool_and",
        "bool_or",
        "string_agg",
    ];
    const DISTINCT: [&str; 10] = [
        "approx_median",
        "avg",
        "median",
        "percentile_cont",
        "stddev",
        "stddev_pop",
        "sum",
        "var",
        "var_pop",
        "variance",
    ];
    let is_aggregate = matches!(window.fun, WindowFunctionDefinition::AggregateUDF(_));
    let name = window.fun.name();
    is_aggregate && (NEVER.contains(&name) || window.params.distinct && DISTINCT.contains(&name))
}

fn is_far(bound: &WindowFrameBound) -> bool {
    if let WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) = bound {
        return !by.is_null() && rows(by).is_none_or(|rows| !(0..=MOST_AWAY).contains(&rows));
    }
    false
}

/// The value of a literal number of rows.
fn rows(by: &ScalarValue) -> Option<i64> {
    let by = by.cast_to(&DataType::Int64).ok()?;
    if let ScalarValue::Int64(rows) = by { rows } else { None }
}
