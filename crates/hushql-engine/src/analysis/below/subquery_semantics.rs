//! EXISTS and IN in places where the planner treats them differently from SQL.
//!
//! In: a plan over released or public rows, which DataFusion runs as it is. Out: nothing, or a
//! refusal. DataFusion turns subqueries into joins, which differ from SQL in two cases. A join does
//! not see the one row that an aggregate returns for no rows. And a join only knows whether there
//! is a match: where SQL returns NULL, it reports no match.

use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::refusal::{Reason, Refusal};

/// Refuses subqueries from which the planner would make a wrong join.
pub(crate) fn only_true_joins(plan: &LogicalPlan) -> Result<(), NotAnalyzed> {
    no_aggregate_of_nothing(plan)?;
    no_lost_null(plan)
}

/// Refuses IN and NOT IN where a NULL result matters.
///
/// As a condition, NULL has the same effect as false, and the planner has a NULL-aware join for NOT
/// IN with one key. In other places NULL gets lost: DataFusion never found `(x IN (…)) IS NULL`
/// true, and found `0 NOT IN (…)` true although one of the values was NULL.
fn no_lost_null(plan: &LogicalPlan) -> Result<(), NotAnalyzed> {
    let mut lost = None;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node {
            for condition in split_conjunction(&filter.predicate) {
                if !is_answered(condition)? {
                    lost = Some(condition.clone());
                }
            }
        } else {
            node.apply_expressions(|expr| {
                if !is_without(expr)? {
                    lost = Some(expr.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(|e| internal(&e))?;
    match lost {
        None => Ok(()),
        Some(condition) => Err(Refusal::new(
            Reason::Operator,
            readable(&condition),
            "a NULL among the values would change this result, and would get lost",
            "IN (SELECT …) or x NOT IN (SELECT …) as a condition of its own in WHERE or HAVING, with x a column and no outer column in the subquery; or [NOT] EXISTS (SELECT 1 FROM … WHERE … = …)",
        )
        .into()),
    }
}

/// True if the planner selects the correct rows for a condition.
fn is_answered(condition: &Expr) -> DataFusionResult<bool> {
    let (asked, flipped) =
        if let Expr::Not(inner) = condition { (inner.as_ref(), true) } else { (condition, false) };
    if let Expr::InSubquery(InSubquery { expr, subquery, negated }) = asked {
        let is_known = *negated == flipped
            || (subquery.outer_ref_columns.is_empty() && !expr.column_refs().is_empty());
        return Ok(is_known && is_without(expr)?);
    }
    is_monotone(condition)
}

/// True if a condition selects the same rows when FALSE replaces a NULL of IN.
fn is_monotone(condition: &Expr) -> DataFusionResult<bool> {
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) =
        condition
    {
        return Ok(is_monotone(left)? && is_monotone(right)?);
    }
    if let Expr::InSubquery(InSubquery { expr, negated: false, .. }) = condition {
        return is_without(expr);
    }
    is_without(condition)
}

/// True if an expression contains no IN with a subquery.
fn is_without(expr: &Expr) -> DataFusionResult<bool> {
    Ok(!expr.exists(|e| Ok(matches!(e, Expr::InSubquery(_))))?)
}

/// Refuses EXISTS and IN with an outer row over an aggregate without GROUP BY.
///
/// Such an aggregate has a row even if its input is empty. The planner joins its input, and finds
/// no group where the input has no row. So it found
/// `EXISTS (SELECT COUNT(*) FROM p y WHERE y.code = x.code)` false, although it is always true.
fn no_aggregate_of_nothing(plan: &LogicalPlan) -> Result<(), NotAnalyzed> {
    let mut found = None;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                let (word, subquery) =
                    if let Expr::Exists(Exists { subquery, .. }) = e {
                        ("EXISTS", subquery)
                    } else if let Expr::InSubquery(InSubquery { subquery, .. }) = e {
                        ("IN", subquery)
                    } else {
                        return Ok(TreeNodeRecursion::Continue);
                    };
                let of_all = |node: &LogicalPlan| {
                    matches!(node, LogicalPlan::Aggregate(all) if all.group_expr.is_empty())
                };
                if !subquery.outer_ref_columns.is_empty()
                    && subquery.subquery.exists(|node| Ok(of_all(node)))?
                {
                    found = Some(word);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.map_err(|e| internal(&e))?;
    match found {
        None => Ok(()),
        Some(word) => Err(Refusal::new(
            Reason::Operator,
            word,
            format!(
                "an aggregate without GROUP BY has a row even if its input is empty, and {word} with an outer row would miss it"
            ),
            "a comparison with the aggregate: (SELECT COUNT(*) FROM … WHERE …) = 0",
        )
        .into()),
    }
}
