//! Plans that say nothing of which columns determine which.
//!
//! DataFusion notes that a GROUP BY has one row for each of its keys, and goes by that: its planner adds to `GROUP BY k` what
//! k determines below, for who may want to show it, and its optimizer leaves keys out that others determine. As keys
//! of a release the added ones would be combined with each other. And the notes are not right: of `SELECT DISTINCT
//! q.k, t.e FROM t JOIN q ON q.k = t.k` it believes that k determines e where q is grouped by k, and so counts, joins
//! and orders rows as if each k came once. Nothing may go by them.
//!
//! Upstream: docs/upstream.md, 9. Keep while the planner adds keys to GROUP BY.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

/// The plan, none of whose columns is known to determine another.
pub(crate) fn without_dependencies(plan: LogicalPlan) -> Result<LogicalPlan> {
    let forgotten = plan.transform_up_with_subqueries(|node| {
        if node.schema().functional_dependencies().is_empty() {
            return Ok(Transformed::no(node));
        }
        if let LogicalPlan::Aggregate(mut aggregate) = node {
            aggregate.schema = forgetful(&aggregate.schema)?;
            return Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)));
        }
        if let LogicalPlan::TableScan(mut scan) = node {
            scan.projected_schema = forgetful(&scan.projected_schema)?;
            return Ok(Transformed::yes(LogicalPlan::TableScan(scan)));
        }
        // The others hand on what their inputs say.
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    Ok(forgotten.data)
}

fn forgetful(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    let schema = schema.as_ref().clone();
    Ok(Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?))
}

/// Plans what stands in FROM as ever, and forgets.
#[derive(Debug, Default)]
pub(super) struct Forgetful {
    /// Whether the next relation is the one that is being planned.
    asked: AtomicBool,
}

impl RelationPlanner for Forgetful {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if self.asked.swap(false, Ordering::Relaxed) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        self.asked.store(true, Ordering::Relaxed);
        let plan = without_dependencies(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}
