//! Chooses the side of a hash join to keep in memory: the side whose rows need less. A small side
//! is kept once for all partitions.
//!
//! In: a physical plan before its rows are distributed. Out: the same joins, each with a hash table
//! built from the side that has fewer rows, or much narrower ones. If building it once costs less
//! than moving the rows of both sides between partitions, the rows of the other side are not moved.
//! DataFusion chooses by statistics, but private tables report none, and a plan that is shown or
//! charged must not depend on private rows; [`super::sizes`] says what is known when.
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
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::memory::width;
use super::sizes::{RowEstimate, Sizes};

/// Up to this number of rows, a side is always kept once for all partitions.
const FEW: f64 = 1e5;
/// The number of bytes that can be copied while one row is put into a hash table.
const HASHED: u32 = 32;
/// The number of rows that can be moved between partitions while one row is put into a hash table.
const MOVED: f64 = 2.0;

/// The rule. It runs before DataFusion's own choice, which then finds nothing to improve.
#[derive(Debug)]
pub(crate) struct BuildSide {
    sizes: Sizes,
    collects: bool,
    /// The number of processes that run the plan together.
    processes: usize,
}

impl BuildSide {
    /// The rule for private rows, which this number of processes read.
    pub(crate) fn new(sizes: Sizes, processes: usize) -> Self {
        Self { sizes, collects: true, processes }
    }

    /// The rule for public rows, which are distributed over all partitions.
    pub(crate) fn of_others() -> Self {
        Self { sizes: Sizes::Declared, collects: false, processes: 1 }
    }
}

impl PhysicalOptimizerRule for BuildSide {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sizes = self.sizes.for_plan(&plan);
        let partitions = config.execution.target_partitions.saturating_mul(self.processes);
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let (left, right) = (sizes.estimate(join.left()), sizes.estimate(join.right()));
            let swaps = can_swap(*join.join_type())
                && left.rows * cost(join.left()) > right.rows * cost(join.right());
            let (kind, built, other) = match swaps {
                true => (join.join_type().swap(), right, left),
                false => (*join.join_type(), left, right),
            };
            let once = self.collects && is_built_once(kind) && !join.null_aware;
            let mode = match once && is_worth_it(built, other, partitions) {
                true => PartitionMode::CollectLeft,
                false => *join.partition_mode(),
            };
            if swaps {
                return join.swap_inputs(mode).map(Transformed::yes);
            }
            let join = join.builder().with_partition_mode(mode).build_exec()?;
            Ok(Transformed::yes(join))
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

/// The cost of keeping a row, in bytes to copy.
fn cost(rows: &Arc<dyn ExecutionPlan>) -> f64 {
    f64::from(HASHED + u32::try_from(width(&rows.schema())).unwrap_or(u32::MAX / 2))
}

/// Whether either side of a join may be built.
fn can_swap(kind: JoinType) -> bool {
    matches!(kind, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi)
}

/// Whether the built side may serve all partitions. A join that yields rows of the built side waits
/// for all partitions, and nobody may ever ask one of them for rows.
fn is_built_once(kind: JoinType) -> bool {
    matches!(
        kind,
        JoinType::Inner
            | JoinType::Right
            | JoinType::RightSemi
            | JoinType::RightAnti
            | JoinType::RightMark
    )
}

/// Whether building one hash table of these rows takes less time than distributing both sides and
/// building several tables.
fn is_worth_it(built: RowEstimate, other: RowEstimate, partitions: usize) -> bool {
    let others = f64::from(u32::try_from(partitions).unwrap_or(u32::MAX)) - 1.0;
    built.rows <= FEW || MOVED * built.rows * others <= built.rows + other.rows
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col, lit};
    use datafusion::physical_plan::{collect, displayable};

    use super::*;
    use crate::exec::datafusion::private_plans::planned;
    use crate::exec::paid::PaidFor;
    use crate::exec::{PrivateTable, session_state};
    use hushql_exec::operator::private_scan::PrivateScanExec;

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

    /// A join along a link must not build its hash table from the longest table, which takes ten
    /// times as long.
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

    /// Before the charge, a plan follows from declarations alone; afterwards, it follows from the
    /// rows.
    #[tokio::test]
    async fn the_numbers_of_private_rows_count_after_the_charge() {
        let few: Vec<i64> = (0..10).collect();
        let many: Vec<i64> = (0..40_000).collect();
        let mut shown = Vec::new();
        for (items, people, after) in [(&few, &many, "items"), (&many, &few, "people")] {
            let (items, people) = (table("items", 50, items), table("people", 1, people));
            let keys = (vec!["items_id"], vec!["people_id"]);
            let join = LogicalPlanBuilder::from(items).join(people, JoinType::Inner, keys, None);
            let join = join.and_then(LogicalPlanBuilder::build).unwrap();
            let mut state = session_state();
            // The number of rows decides how a table in memory is partitioned.
            state.config_mut().options_mut().execution.target_partitions = 1;
            let before = planned(&join, &state, 1).await.unwrap();
            assert_eq!(built(&before).as_deref(), Some("people"));
            shown.push(displayable(before.as_ref()).indent(true).to_string());
            let paid = PaidFor::for_tests().within(&state);
            let plan = planned(&join, &paid, 1).await.unwrap();
            assert_eq!(built(&plan).as_deref(), Some(after));
            let rows = collect(plan, state.task_ctx()).await.unwrap();
            assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
        }
        assert_eq!(shown[0], shown[1]);
    }

    /// A row of the larger table leads to a row of the smaller one. So a condition on the smaller
    /// one keeps the same share of both.
    #[tokio::test]
    async fn a_condition_on_one_table_leaves_fewer_rows_of_the_join() {
        let half = |name: &str, rows, below: i64| {
            let values: Vec<i64> = (0..10).collect();
            let rows = LogicalPlanBuilder::from(table(name, rows, &values));
            rows.filter(col(format!("{name}_id")).lt(lit(below))).unwrap().build().unwrap()
        };
        let keys = |l: &str, r: &str| (vec![format!("{l}_id")], vec![format!("{r}_id")]);
        // 100 · 0.4 · 0.4 rows of a, which leads to c, are fewer than the 50 rows of b.
        let (a, b, c) = (half("a", 100, 5), table("b", 50, &[1, 2, 3, 7]), half("c", 1, 3));
        let plan = LogicalPlanBuilder::from(a)
            .join(c, JoinType::Inner, keys("a", "c"), None)
            .and_then(|rows| rows.join(b, JoinType::Inner, keys("a", "b"), None))
            .and_then(LogicalPlanBuilder::build)
            .unwrap();
        let mut state = session_state();
        state.config_mut().options_mut().execution.target_partitions = 2;
        let plan = planned(&plan, &state, 1).await.unwrap();
        assert_eq!(
            built(&plan).as_deref(),
            Some("c"),
            "{}",
            displayable(plan.as_ref()).indent(true)
        );
        let rows = collect(plan, state.task_ctx()).await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    }
}
