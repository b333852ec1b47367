//! Finds out whether a number with a point takes part in an expression.
//!
//! In: an expression, and the plans that it reads. Out: whether a number with a point takes part in
//! its value, even if it was written in a subquery or a CTE. Such values are averaged as floats: a
//! mean of decimals has only four places more than its column, which is too few for a share such as
//! `AVG(n * 1.0)`.
//!
//! ```text
//! SELECT AVG(a) FROM (SELECT n * 1.5 AS a FROM t)      a comes from 1.5
//! ```

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

use crate::functions::written;

/// The deepest level of subqueries that is searched.
const DEEPEST: usize = 100;

/// True if a number with a point takes part in an expression over the columns of these plans.
pub(super) fn has_point(expr: &Expr, inputs: &[&LogicalPlan]) -> bool {
    within(expr, inputs, DEEPEST)
}

fn within(expr: &Expr, inputs: &[&LogicalPlan], depth: usize) -> bool {
    let mut found = false;
    let walked = expr.apply(|part| -> Result<TreeNodeRecursion> {
        found |= match part {
            Expr::Column(column) => of_column(column, inputs, depth),
            part => written(part).is_some(),
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_ok() && found
}

fn of_column(column: &Column, inputs: &[&LogicalPlan], depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    inputs.iter().any(|input| {
        let place = input.schema().maybe_index_of_column(column);
        place.is_some_and(|place| at(input, place, depth))
    })
}

/// True if a number with a point takes part in one column of a plan.
fn at(plan: &LogicalPlan, place: usize, depth: usize) -> bool {
    let of = |expr: Option<&Expr>, input: &LogicalPlan| {
        expr.is_some_and(|expr| within(expr, &[input], depth))
    };
    let below = |input: &LogicalPlan, place: usize| match depth.checked_sub(1) {
        Some(depth) => at(input, place, depth),
        None => false,
    };
    match plan {
        LogicalPlan::Projection(node) => of(node.expr.get(place), &node.input),
        LogicalPlan::Aggregate(node) => {
            let first = node.schema.fields().len().saturating_sub(node.aggr_expr.len());
            let expr = match place.checked_sub(first) {
                Some(place) => node.aggr_expr.get(place),
                None => node.group_expr.get(place),
            };
            of(expr, &node.input)
        }
        LogicalPlan::Window(node) => match place.checked_sub(node.input.schema().fields().len()) {
            Some(place) => of(node.window_expr.get(place), &node.input),
            None => below(&node.input, place),
        },
        LogicalPlan::Join(node) => {
            let left = node.left.schema().fields().len();
            match place.checked_sub(left) {
                Some(place) => below(&node.right, place),
                None => below(&node.left, place),
            }
        }
        LogicalPlan::Union(node) => node.inputs.iter().any(|input| below(input, place)),
        LogicalPlan::Filter(node) => below(&node.input, place),
        LogicalPlan::Sort(node) => below(&node.input, place),
        LogicalPlan::Limit(node) => below(&node.input, place),
        LogicalPlan::Repartition(node) => below(&node.input, place),
        LogicalPlan::SubqueryAlias(node) => below(&node.input, place),
        LogicalPlan::Subquery(node) => below(&node.subquery, place),
        LogicalPlan::Distinct(Distinct::All(input)) => below(input, place),
        LogicalPlan::Distinct(Distinct::On(node)) => of(node.select_expr.get(place), &node.input),
        LogicalPlan::RecursiveQuery(node) => below(&node.static_term, place),
        LogicalPlan::Values(node) => node
            .values
            .iter()
            .any(|row| row.get(place).is_some_and(|cell| within(cell, &[], depth))),
        // Rows of tables, and plans without rows, contain no such number.
        LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::DescribeTable(_)
        | LogicalPlan::Unnest(_) => false,
    }
}
