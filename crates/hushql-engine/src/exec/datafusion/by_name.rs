//! Moves filters towards the scans only if column names are unique.
//!
//! In: DataFusion's rule that moves filters below operators, and a physical plan. Out: the rule's
//! result if no operator has two columns of the same name; otherwise the unchanged plan, with its
//! filters in place.
//!
//! The rule looks columns up by name and takes the last or the first match. After it swaps the
//! sides of a join, `a RIGHT JOIN b ON a.n = b.n WHERE COALESCE(a.n, 7) = 2` tests `b.n`.
//!
//! Upstream: docs/upstream.md, 10. Delete with the release that has apache/datafusion #25259.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// The prefix of the names of DataFusion's rules that look columns up by name.
pub(crate) const BY_NAME: &str = "FilterPushdown";

/// Such a rule, restricted to plans in which column names are unique.
#[derive(Debug)]
pub(crate) struct WhereNamesDiffer(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for WhereNamesDiffer {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match plan.exists(|node| Ok(has_duplicate_names(node)))? {
            true => Ok(plan),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether two columns of an operator have the same name.
fn has_duplicate_names(node: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = node.schema();
    let mut names = HashSet::new();
    schema.fields().iter().any(|field| !names.insert(field.name()))
}
