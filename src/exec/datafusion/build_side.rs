//! Chooses the side of a hash join that is kept in memory: the smaller one according to the declarations.
//!
//! In: a physical plan before its rows are distributed. Out: the same joins, each with a hash table built from the side that
//! has fewer rows. DataFusion chooses by statistics, but private tables report none, and a plan must not depend on private
//! rows. Public knowledge suffices: the rows of a unit in each table are bounded. A table at the start of a link is therefore
//! assumed to be larger than the table that the link leads to, and both to be larger than a public table.
//!
//! ```text
//! lineitem (350 a unit) ⋈ orders (50 a unit)   →   orders is built, lineitem streams by
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::JoinType;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::exec::operator::private_scan::PrivateScanExec;

/// The assumed number of units of a table; only the order of sizes matters.
const UNITS: f64 = 1e6;
/// The assumed rows of a public table of unknown size.
const PUBLIC: f64 = 1e5;
/// The assumed share of rows that a filter keeps, as in DataFusion.
const KEPT: f64 = 0.2;

/// The rule. It runs before DataFusion's own choice, which then finds nothing to improve.
#[derive(Debug)]
pub(crate) struct BuildSide;

impl PhysicalOptimizerRule for BuildSide {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let inner = *join.join_type() == JoinType::Inner;
            if !inner || rows(join.left()) <= rows(join.right()) {
                return Ok(Transformed::no(node));
            }
            let mode = *join.partition_mode();
            Ok(Transformed::yes(join.swap_inputs(mode)?))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "build_side"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The approximate number of rows that a plan yields, from public knowledge alone.
fn rows(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    if let Some(scan) = plan.downcast_ref::<PrivateScanExec>() {
        return UNITS * f64::from(scan.rows_of_a_unit());
    }
    let children = plan.children();
    if plan.is::<HashJoinExec>() {
        // Along a link, every row of the larger side matches one row of the smaller side.
        return children.into_iter().map(rows).fold(0.0, f64::max);
    }
    if plan.is::<FilterExec>() {
        return KEPT * children.into_iter().map(rows).sum::<f64>();
    }
    if children.is_empty() {
        let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok();
        let known = known.and_then(|statistics| statistics.num_rows.get_value().copied());
        return known.and_then(|n| u32::try_from(n).ok()).map_or(PUBLIC, f64::from);
    }
    children.into_iter().map(rows).sum()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
    use datafusion::physical_plan::collect;

    use super::*;
    use crate::exec::{PrivateTable, session_state};

    fn table(name: &str, rows_of_a_unit: u32, values: &[i64]) -> LogicalPlan {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let batch = RecordBatch::try_from_iter([(format!("{name}_id"), column)]).unwrap();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        let table = PrivateTable::new(name, Arc::new(table)).with_rows_of_a_unit(rows_of_a_unit);
        let scan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None);
        scan.unwrap().build().unwrap()
    }

    fn built(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
        fn table(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
            let scan = plan.downcast_ref::<PrivateScanExec>();
            scan.map(|s| s.table().to_owned())
                .or_else(|| plan.children().into_iter().find_map(table))
        }
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) => table(join.left()),
            None => plan.children().into_iter().find_map(built),
        }
    }

    /// Joins along links once built their hash tables from the longest table, and took ten times as long.
    #[tokio::test]
    async fn the_table_with_fewer_rows_a_unit_is_built() {
        for (kind, expected) in
            [(JoinType::Inner, "people"), (JoinType::Left, "items"), (JoinType::LeftAnti, "items")]
        {
            let (items, people) =
                (table("items", 50, &[1, 1, 2, 4]), table("people", 1, &[1, 2, 3]));
            let join = LogicalPlanBuilder::from(items)
                .join(people, kind, (vec!["items_id"], vec!["people_id"]), None)
                .and_then(LogicalPlanBuilder::build)
                .unwrap();
            let state = session_state();
            let plan = state.create_physical_plan(&join).await.unwrap();
            assert_eq!(built(&plan).as_deref(), Some(expected), "{kind}");
            let rows = collect(plan, state.task_ctx()).await.unwrap();
            let shown = pretty_format_batches(&rows).unwrap().to_string();
            let expected = match kind {
                JoinType::Inner => ["| 1        | 1         |", "| 2        | 2         |"],
                JoinType::Left => ["| 1        | 1         |", "| 4        |           |"],
                _ => ["items_id", "| 4        |"],
            };
            assert!(expected.iter().all(|row| shown.contains(row)), "{kind}\n{shown}");
        }
    }
}
