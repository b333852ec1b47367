//! The candidate in expressions: the value that a selection scores.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;

use crate::dialect::candidate_of;

/// True if an expression mentions a candidate.
pub(crate) fn mentions(expr: &Expr) -> bool {
    let mut found = false;
    let outcome = expr.apply(|e| {
        found |= is_candidate(e);
        Ok(TreeNodeRecursion::Continue)
    });
    found || outcome.is_err()
}

pub(crate) fn is_candidate(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if candidate_of(call.func.name()).is_some())
}
