//! Keeps joins with NULL-matching keys separate from other joins, and adds no keys to them.
//!
//! In: a plan with joins on `x IS NOT DISTINCT FROM y`, or from INTERSECT and EXCEPT. Out: a plan
//! whose rows no rule changes. DataFusion records for a whole join that NULL matches NULL, and
//! ignores it in later rules. If such a join is merged with a neighbouring join, either its own
//! NULLs no longer match or those of the other join do. An `=` that is moved into it matches NULLs.
//!
//! ```text
//! Join b.k = c.k                                    Join b.k = c.k
//!   Join a.k IS NOT DISTINCT FROM b.k      →          Projection
//!                                                       Join a.k IS NOT DISTINCT FROM b.k
//! ```
//!
//! Upstream: docs/upstream.md, 7. Delete when joins by `=` and joins that match NULLs are no longer
//! merged.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::Rule;

/// The rule that adds keys to joins, restricted to joins whose keys do not match NULLs.
#[derive(Debug)]
pub(super) struct NoMoreKeys(pub(super) Rule);

impl OptimizerRule for NoMoreKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if matches_nulls(&plan) {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// Puts a projection between joins that match NULLs and other joins, which prevents merging.
#[derive(Debug)]
pub(super) struct NullKeyBarrier;

impl OptimizerRule for NullKeyBarrier {
    fn name(&self) -> &str {
        "null_keys_apart"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let apart = plan.transform_up_with_subqueries(|node| {
            if !matches_nulls(&node) {
                return Ok(Transformed::no(node));
            }
            let node = node.map_children(|input| match input {
                LogicalPlan::Join(_) => all_columns(input).map(Transformed::yes),
                other => Ok(Transformed::no(other)),
            })?;
            all_columns(node.data).map(Transformed::yes)
        })?;
        Ok(Transformed::no(apart.data))
    }
}

/// All columns of a plan.
fn all_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// Whether this is a join in which two NULL keys are equal, as in INTERSECT and EXCEPT.
fn matches_nulls(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull)
}
