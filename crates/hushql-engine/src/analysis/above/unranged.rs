//! HISTOGRAM over rows without a declared range.
//!
//! In: the public plan. Out: a refusal if the plan asks for a histogram. Ranges are declared for
//! columns of private tables, which the public plan does not contain.
//!
//! ```text
//! SELECT HISTOGRAM(share, 4) FROM census      write width_bucket(share, 0, 100, 10)
//! ```

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::functions::is_histogram;
use crate::refusal::{Reason, Refusal};

/// Refuses histograms of public and of released rows.
///
/// # Errors
/// The refusal.
pub(crate) fn no_histogram(plan: &LogicalPlan) -> Result<(), NotAnalyzed> {
    let mut found = None;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if matches!(part, Expr::ScalarFunction(call) if is_histogram(&call.func)) {
                    found = Some(part.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.map_err(|e| internal(&e))?;
    let Some(Expr::ScalarFunction(call)) = found else { return Ok(()) };
    let x = call.args.first().map_or_else(|| "x".to_owned(), readable);
    Err(Refusal::new(
        Reason::Function,
        readable(&Expr::ScalarFunction(call)),
        "HISTOGRAM takes the range that is declared for a column of a private table",
        format!("width_bucket({x}, 0, 100, 10), with the range that the classes divide"),
    )
    .into())
}
