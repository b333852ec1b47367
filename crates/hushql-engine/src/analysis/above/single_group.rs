//! Released groups, and the one group of a key.
//!
//! In: a plan above a release. Out: whether its rows are groups, each once, and which of its
//! columns are their GROUP BY keys. A condition that fixes every key leaves one group at most.
//!
//! ```text
//! SELECT city AS c, COUNT(*) AS n … GROUP BY city ORDER BY n DESC LIMIT 5      groups by one key, which is c
//! … WHERE c = 'Oslo'                                                           one group at most
//! ```

use std::collections::BTreeSet;

use datafusion::common::Column;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::analysis::expr::aggregate_call::CallOf;
use crate::dialect::{MechanismName, Operand, ReleaseClause};

/// True if a statement names no mechanism, so that an aggregate over private rows is a release.
pub(crate) fn is_plain(releases: &[ReleaseClause]) -> bool {
    // Releases whose bounds are found in plain SQL name no mechanism either.
    releases.iter().all(|clause| {
        let marked = clause.mechanism == MechanismName::Default || clause.finding.is_some();
        marked && clause.grouping.is_none()
    })
}

/// True if a plan names a release, or is one in plain SQL.
pub(crate) fn is_released(plan: &LogicalPlan, releases: &[ReleaseClause]) -> bool {
    let names_one = plan
        .exists(|node| {
            let LogicalPlan::Aggregate(aggregate) = node else { return Ok(false) };
            Ok(aggregate.aggr_expr.iter().any(|e| CallOf::marker(e).is_some()))
        })
        .unwrap_or(false);
    names_one || is_plain(releases)
}

/// The input of a node that shows rows of its input, some of them, or some of their columns.
fn shown_rows(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    let shows = matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Filter(_)
    );
    plan.inputs().first().copied().filter(|_| shows)
}

/// The number of GROUP BY keys whose groups are the rows of a plan, or some of them. A group with
/// several chosen values has several rows, so it does not count.
pub(crate) fn number_of_keys(plan: &LogicalPlan, releases: &[ReleaseClause]) -> Option<usize> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return number_of_keys(shown_rows(plan)?, releases);
    };
    let is_set = |key: &Expr| matches!(key, Expr::GroupingSet(_));
    let selects = |expr: &Expr| {
        let release = CallOf::marker(expr).and_then(|number| releases.get(number));
        release.is_some_and(|release| matches!(release.operand, Operand::Selection(_)))
    };
    let keys = &aggregate.group_expr;
    let are_rows = !keys.iter().any(is_set) && !aggregate.aggr_expr.iter().any(selects);
    (are_rows && !keys.is_empty()).then_some(keys.len())
}

/// The place of the GROUP BY key that a column of such a plan is.
pub(crate) fn key_of_group(plan: &LogicalPlan, column: &Column) -> Option<usize> {
    let place = plan.schema().maybe_index_of_column(column)?;
    if let LogicalPlan::Aggregate(aggregate) = plan {
        return (place < aggregate.group_expr.len()).then_some(place);
    }
    let input = shown_rows(plan)?;
    if let LogicalPlan::Projection(projection) = plan {
        let own = projection.expr.get(place)?.clone().unalias();
        return key_of_group(input, own.try_as_col()?);
    }
    // These nodes have the columns of their input.
    key_of_group(input, input.schema().columns().get(place)?)
}

/// True for a literal, with a cast or without.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_constant(&cast.expr),
        expr => matches!(expr, Expr::Literal(..)),
    }
}

/// True if a plan shows one group of a release at most, because a condition fixes every key.
///
/// # Guarantee
/// The rows below the condition are groups of one aggregate. They differ in some key, so at most
/// one of them has these keys, whatever is drawn.
pub(crate) fn is_single_group(plan: &LogicalPlan, releases: &[ReleaseClause]) -> bool {
    if let LogicalPlan::Projection(projection) = plan {
        return is_single_group(&projection.input, releases);
    }
    if let LogicalPlan::SubqueryAlias(alias) = plan {
        return is_single_group(&alias.input, releases);
    }
    let LogicalPlan::Filter(filter) = plan else { return false };
    let fixed = |condition: &Expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            return None;
        };
        let is_literal = is_constant(right);
        key_of_group(&filter.input, left.try_as_col().filter(|_| is_literal)?)
    };
    let conditions = split_conjunction(&filter.predicate);
    let fixed: BTreeSet<usize> =
        conditions.iter().filter_map(|condition| fixed(condition)).collect();
    number_of_keys(&filter.input, releases) == Some(fixed.len())
}
