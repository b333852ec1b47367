//! Hides functional dependencies from the rules that read them.
//!
//! In: a plan. Out: the same plan without recorded functional dependencies, because they can be
//! wrong: see [`crate::bind::functional_dependencies`]. Rules record them anew, so this runs before
//! each rule that reads them.
//!
//! Upstream: docs/upstream.md, 9. Delete when an aggregate no longer widens the dependencies of its
//! input.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::bind::functional_dependencies::without_dependencies;

/// Removes functional dependencies.
#[derive(Debug)]
pub(super) struct Forget;

impl OptimizerRule for Forget {
    fn name(&self) -> &str {
        "forget_dependencies"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        without_dependencies(plan).map(Transformed::no)
    }
}
