//! Statements of which no row can come out, by their text alone: what clients send to learn the
//! columns of an answer.
//!
//! In: a plan after type coercion. Out: for such a statement, a plan without rows that has the same
//! columns and reads no table; for one row of totals over no rows, that row: counts are 0, and
//! everything else is NULL. Any other plan stays as it is.
//!
//! ```text
//! SELECT * FROM visits WHERE 1 = 0                    no row
//! SELECT city, COUNT(*) … GROUP BY city LIMIT 0       no row
//! SELECT COUNT(*), SUM(cost) FROM visits WHERE FALSE  0, NULL
//! ```
//!
//! # Guarantee
//! Literals decide, and no row, domain or size of a table.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::logical_plan::{FetchType, Projection};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, EmptyRelation, Expr, Filter, Join, JoinType, LogicalPlan, Operator,
};

use super::marker::marker_counts;
use crate::functions::interval_end;

/// The plan without rows, or with one row of totals over none, that has the columns of a plan;
/// `None` where rows may come out.
///
/// # Errors
/// Those of planning, for a node whose expressions no longer fit; this does not happen to a plan of
/// the planner's.
pub(super) fn without_rows(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let emptied = plan.clone().transform_up(|node| {
        if yields_nothing(&node) {
            return Ok(Transformed::yes(nothing(&node)));
        }
        match totals_over_nothing(&node)? {
            Some(row) => Ok(Transformed::yes(row)),
            None => Ok(Transformed::no(node)),
        }
    })?;
    match emptied.transformed && reads_nothing(&emptied.data)? {
        true => Ok(Some(emptied.data)),
        false => Ok(None),
    }
}

fn nothing(node: &LogicalPlan) -> LogicalPlan {
    let schema = Arc::clone(node.schema());
    LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
}

fn is_nothing(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, .. }))
}

/// Whether a node, whose inputs are done, has no row.
fn yields_nothing(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let is_never_true =
                |condition: &Expr| matches!(truth(condition), Some(None | Some(false)));
            is_nothing(input) || split_conjunction(predicate).into_iter().any(is_never_true)
        }
        LogicalPlan::Limit(limit) => {
            let fetched = limit.get_fetch_type();
            is_nothing(&limit.input) || matches!(fetched, Ok(FetchType::Literal(Some(0))))
        }
        LogicalPlan::Projection(Projection { input, .. }) => is_nothing(input),
        LogicalPlan::Sort(sort) => is_nothing(&sort.input),
        LogicalPlan::SubqueryAlias(alias) => is_nothing(&alias.input),
        LogicalPlan::Window(window) => is_nothing(&window.input),
        LogicalPlan::Distinct(distinct) => is_nothing(distinct.input()),
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| is_nothing(input)),
        LogicalPlan::Aggregate(Aggregate { input, group_expr, .. }) => {
            let is_plain = |key: &Expr| !matches!(key, Expr::GroupingSet(_));
            is_nothing(input) && !group_expr.is_empty() && group_expr.iter().all(is_plain)
        }
        LogicalPlan::Join(join) => joins_nothing(join),
        LogicalPlan::Repartition(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::DescribeTable(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_) => false,
    }
}

fn joins_nothing(join: &Join) -> bool {
    let (left, right) = (is_nothing(&join.left), is_nothing(&join.right));
    match join.join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => left || right,
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => left,
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => right,
        JoinType::Full => left && right,
    }
}

/// The one row of aggregates without keys over no rows; `None` for any other node.
fn totals_over_nothing(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, schema, .. }) = node
    else {
        return Ok(None);
    };
    if !is_nothing(input) || !group_expr.is_empty() {
        return Ok(None);
    }
    let mut totals = Vec::with_capacity(aggr_expr.len());
    for (aggregate, field) in aggr_expr.iter().zip(schema.fields()) {
        let value = match counts(aggregate) {
            true => ScalarValue::new_zero(field.data_type())?,
            false => ScalarValue::try_new_null(field.data_type())?,
        };
        totals.push(Expr::Literal(value, None).alias(field.name()));
    }
    let one = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    Ok(Some(LogicalPlan::Projection(Projection::try_new(totals, Arc::new(one))?)))
}

/// Whether an aggregate is a count, with a mechanism or without.
fn counts(aggregate: &Expr) -> bool {
    match aggregate {
        Expr::Alias(alias) => counts(&alias.expr),
        Expr::AggregateFunction(call) => call.func.name() == "count" || marker_counts(&call.func),
        _ => false,
    }
}

/// Whether a plan reads no table, in subqueries neither, and asks for no end of an interval.
fn reads_nothing(plan: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        reads |= matches!(node, LogicalPlan::TableScan(_) | LogicalPlan::Aggregate(_));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarFunction(call) = part {
                    reads |= interval_end(&call.func).is_some();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(!reads)
}

/// What a condition is on every row, NULL included; `None` where that takes a row.
fn truth(condition: &Expr) -> Option<Option<bool>> {
    match condition {
        Expr::Literal(ScalarValue::Boolean(value), _) => Some(*value),
        Expr::Literal(ScalarValue::Null, _) => Some(None),
        Expr::Not(inner) => truth(inner).map(|value| value.map(|value| !value)),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            match (truth(left), truth(right)) {
                (Some(Some(false)), _) | (_, Some(Some(false))) => Some(Some(false)),
                (Some(Some(true)), Some(Some(true))) => Some(Some(true)),
                (Some(_), Some(_)) => Some(None),
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            match (truth(left), truth(right)) {
                (Some(Some(true)), _) | (_, Some(Some(true))) => Some(Some(true)),
                (Some(Some(false)), Some(Some(false))) => Some(Some(false)),
                (Some(_), Some(_)) => Some(None),
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            compared(&constant(left)?, *op, &constant(right)?)
        }
        _ => None,
    }
}

/// A comparison of two constants of one type.
fn compared(left: &ScalarValue, op: Operator, right: &ScalarValue) -> Option<Option<bool>> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    // Both zeros of floats are equal, and their order has no NaN.
    if left.data_type() != right.data_type() || left.data_type().is_floating() {
        return None;
    }
    let of = |holds: &[std::cmp::Ordering]| match left.is_null() || right.is_null() {
        true => Some(None),
        false => left.partial_cmp(right).map(|order| Some(holds.contains(&order))),
    };
    match op {
        Operator::Eq => of(&[Equal]),
        Operator::NotEq => of(&[Less, Greater]),
        Operator::Lt => of(&[Less]),
        Operator::LtEq => of(&[Less, Equal]),
        Operator::Gt => of(&[Greater]),
        Operator::GtEq => of(&[Greater, Equal]),
        _ => None,
    }
}

/// A literal, or a cast of one that succeeds.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(Cast { expr, field }) => constant(expr)?.cast_to(field.data_type()).ok(),
        _ => None,
    }
}
