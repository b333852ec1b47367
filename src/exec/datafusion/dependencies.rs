//! Rules that read which columns determine which run on plans that do not say.
//!
//! In: a plan. Out: the same plan without notes of functional dependencies, which are not always true: see
//! [`crate::bind::functional_dependencies`]. Rules make such notes anew, so this runs before each rule that reads them.
//!
//! Upstream: docs/upstream.md, 9. Delete when an aggregate no longer widens the dependencies of its input.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::bind::functional_dependencies::without_dependencies;

/// Forgets which columns determine which.
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
