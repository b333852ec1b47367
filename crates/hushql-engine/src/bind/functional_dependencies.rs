//! Removes functional dependencies from plans.
//!
//! DataFusion records that a GROUP BY has one row for each of its keys, and relies on that. Its
//! planner adds to `GROUP BY k` the columns that k determines, in case the query displays them. Its
//! optimizer drops keys that other keys determine. In a release, added columns would become
//! additional keys. The records can also be wrong: for
//! `SELECT DISTINCT q.k, t.e FROM t JOIN q ON q.k = t.k` with q grouped by k, DataFusion believes
//! that k determines e. It then counts, joins and orders rows as if each k occurred once. So
//! nothing may rely on these records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

use super::merged::{Joins, merges, plan_joins, shown, without_hidden};

/// The plan without any functional dependencies.
pub(crate) fn without_dependencies(plan: LogicalPlan) -> Result<LogicalPlan> {
    let forgotten = plan.transform_up_with_subqueries(|node| {
        if node.schema().functional_dependencies().is_empty() {
            return Ok(Transformed::no(node));
        }
        if let LogicalPlan::Aggregate(mut aggregate) = node {
            aggregate.schema = schema_without_dependencies(&aggregate.schema)?;
            return Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)));
        }
        if let LogicalPlan::TableScan(mut scan) = node {
            scan.projected_schema = schema_without_dependencies(&scan.projected_schema)?;
            return Ok(Transformed::yes(LogicalPlan::TableScan(scan)));
        }
        // Other nodes derive their dependencies from their inputs.
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    Ok(forgotten.data)
}

fn schema_without_dependencies(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    let schema = schema.as_ref().clone();
    Ok(Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?))
}

/// Plans the relations of FROM as usual, except joins that merge columns, and removes their
/// functional dependencies.
#[derive(Debug)]
pub(super) struct Forgetful {
    /// True if this planner has already been called for the relation: the context calls it a second
    /// time.
    asked: AtomicBool,
    /// The joins of the statement that merge columns.
    joins: Arc<Joins>,
}

impl Forgetful {
    pub(super) fn new(joins: Arc<Joins>) -> Self {
        Self { asked: AtomicBool::new(false), joins }
    }

    /// The plan of a relation as the planner makes it on its own.
    fn usual(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        self.asked.store(true, Ordering::Relaxed);
        context.plan(relation)
    }
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
        let (plan, alias) = match relation {
            TableFactor::NestedJoin { table_with_joins, alias } if merges(&table_with_joins) => {
                let plan = plan_joins(*table_with_joins, &self.joins, context)?;
                let plan = if alias.is_some() { shown(without_hidden(plan)?)? } else { plan };
                (plan, alias)
            }
            // The columns need their own names before the alias becomes the name of their table.
            TableFactor::Derived { lateral, subquery, alias, sample } if !self.joins.is_empty() => {
                let subquery = TableFactor::Derived { lateral, subquery, alias: None, sample };
                (shown(self.usual(subquery, context)?)?, alias)
            }
            relation => (self.usual(relation, context)?, None),
        };
        let plan = without_dependencies(plan)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}
