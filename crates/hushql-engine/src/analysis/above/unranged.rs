//! HISTOGRAM, PERCENTILE_DISC, QUANTILES, CDF and quantiles of dates over rows that are no private
//! rows.
//!
//! In: the public plan. Out: a refusal if the plan asks for a histogram, whose range is declared
//! for columns of private tables, for CDF, which divides such a range, or for PERCENTILE_DISC or a
//! quantile of dates and the like, which are choices among it.
//!
//! ```text
//! SELECT HISTOGRAM(share, 4) FROM census      write width_bucket(share, 0, 100, 10)
//! ```

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::bind::{CDF, PERCENTILE_DISC, QUANTILES, is_moment_quantile};
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
                let discrete = CallOf::function(part)
                    .filter(|c| [PERCENTILE_DISC, QUANTILES, CDF].contains(&c.func.name()));
                let histogram =
                    matches!(part, Expr::ScalarFunction(call) if is_histogram(&call.func));
                if histogram || discrete.is_some() || is_moment_quantile(part) {
                    found = Some(part.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.map_err(|e| internal(&e))?;
    if let Some(expr) = found.as_ref().filter(|expr| is_moment_quantile(expr)) {
        return Err(Refusal::new(
            Reason::Function,
            readable(expr),
            "MEDIAN and QUANTILE of dates, times and timestamps choose among the values of a private column, and these rows are none",
            "MEDIAN(x - DATE '2000-01-01'), the days since then, or MEDIAN(EXTRACT(EPOCH FROM x)), the seconds since 1970",
        )
        .into());
    }
    if let Some(expr) = &found
        && let Some(call) = CallOf::function(expr)
    {
        let x = call.params.args.first().map_or_else(|| "x".to_owned(), readable);
        if call.func.name() == QUANTILES {
            return Err(Refusal::new(
                Reason::Function,
                readable(expr),
                "QUANTILES chooses among the values of a private column, and these rows are none",
                format!("QUANTILE({x}, 0.25), QUANTILE({x}, 0.5), QUANTILE({x}, 0.75)"),
            )
            .into());
        }
        if call.func.name() == CDF {
            return Err(Refusal::new(
                Reason::Function,
                readable(expr),
                "CDF divides the range of a private column, and these rows are none",
                format!("COUNT(*) FILTER (WHERE {x} <= 10), and one such count for each end"),
            )
            .into());
        }
        return Err(Refusal::new(
            Reason::Function,
            readable(expr),
            "PERCENTILE_DISC chooses among the values of a private column, and these rows are none",
            format!("PERCENTILE_CONT({x}, 0.5), which lies between two values"),
        )
        .into());
    }
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
