//! Keeps joins and windows within the limits of their statement.
//!
//! In: a plan with joins and windows. Out: the same plan, with an operator above each join that
//! ends the join at the statement's deadline, lets others run, and prevents nested-loop joins from
//! writing files.
//! Above windows, the same operator divides the rows into batches, because a window may emit all
//! rows at once.
//!
//! A join can make many rows from few without asking its inputs for more. Meanwhile the operators
//! above and below it cannot end the query, and whoever waits for it cannot cancel it. When a
//! nested-loop join runs out of memory and may write files, DataFusion restarts it and processes
//! its left rows in pieces, separately in each partition. Each partition then knows only its own
//! matches, and outer, semi and anti joins emit one left row several times. The number of copies
//! would depend on the number of other rows.
//!
//! ```text
//! NestedLoopJoinExec: Left, t.x < u.y     →     LimitedJoinExec
//!                                                 NestedLoopJoinExec: Left, t.x < u.y
//! ```
//!
//! Upstream: docs/upstream.md, 24. With the release that has apache/datafusion #24675, delete the
//! part that keeps joins from writing files; the deadline stays.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err, resources_err};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SplitMetrics};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::{BatchSplitStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;

use super::planning::Planning;
use hushql_exec::operator::look_up::LookUpExec;

/// The rule; it runs after all other rules.
#[derive(Debug)]
pub(crate) struct LimitJoins;

impl PhysicalOptimizerRule for LimitJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if is_join(&node) {
                return Ok(Transformed::yes(Arc::new(LimitedJoinExec::new(node))));
            }
            // Operators that need the rows of a window in their order or position stay just above
            // it.
            match (
                node.is::<ProjectionExec>() || node.is::<FilterExec>(),
                node.children().as_slice(),
            ) {
                (true, [window]) if is_window(window) => {
                    let window = Arc::new(LimitedJoinExec::new(Arc::clone(window)));
                    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                    Ok(Transformed::yes(node.replace_children(vec![window], options)?))
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "limit_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<LookUpExec>()
}

fn is_window(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>()
}

/// Whether an operator is a nested-loop join that may write files below `parent`.
pub(crate) fn may_spill(plan: &Arc<dyn ExecutionPlan>, parent: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<NestedLoopJoinExec>() && !parent.is::<LimitedJoinExec>()
}

/// Passes on the rows of a join or window until the statement's deadline, in batches of the
/// statement's size.
#[derive(Debug)]
pub(crate) struct LimitedJoinExec {
    input: Arc<dyn ExecutionPlan>,
}

impl LimitedJoinExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }
}

impl DisplayAs for LimitedJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitedJoinExec")
    }
}

impl ExecutionPlan for LimitedJoinExec {
    fn name(&self) -> &'static str {
        "LimitedJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("LimitedJoinExec has one input");
        };
        Ok(Arc::new(Self { input }))
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let context = match self.input.is::<NestedLoopJoinExec>() {
            true => without_files(&context)?,
            false => context,
        };
        let deadline = Planning::of_config(context.session_config()).deadline().clone();
        let most = context.session_config().batch_size();
        let rows = self.input.execute(partition, context)?;
        let metrics = SplitMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
        let rows = BatchSplitStream::new(rows, most, metrics);
        let in_time = rows.map(move |rows| match deadline.is_over() {
            // This is not an error of a row, so the code that reports failures of public rows
            // ignores it.
            true => resources_err!("the time is over"),
            false => rows,
        });
        // Inputs yield for each of their batches, and a join of few batches never asks for another.
        // Without this, nobody could cancel it.
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.schema(), in_time))))
    }
}

/// The same context without files for its operators.
fn without_files(context: &Arc<TaskContext>) -> Result<Arc<TaskContext>> {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled).build()?;
    let runtime = context.runtime_env();
    let runtime = RuntimeEnv { disk_manager: Arc::new(disk), ..runtime.as_ref().clone() };
    Ok(Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        Arc::new(runtime),
    )))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::Schema;
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::common::JoinSide;
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::functions_aggregate::expr_fn::count;
    use datafusion::logical_expr::{JoinType, LogicalPlan, LogicalPlanBuilder, Operator, col, lit};
    use datafusion::physical_expr::expressions::{BinaryExpr, Column};
    use datafusion::physical_plan::collect;
    use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};

    use super::*;
    use crate::exec::session_state_within;

    /// 500 rows with one key and long texts in each partition.
    fn batches(key: &str, value: i64, partitions: usize) -> Vec<Vec<RecordBatch>> {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values([value; 100]));
        let texts = (0..100).map(|i| format!("{i:01000}"));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([(key, keys), ("text", texts)]).unwrap();
        vec![vec![batch; 5]; partitions]
    }

    fn rows(key: &str, value: i64, partitions: usize) -> Arc<dyn ExecutionPlan> {
        let batches = batches(key, value, partitions);
        MemorySourceConfig::try_new_exec(&batches, batches[0][0].schema(), None).unwrap()
    }

    /// `x < y`
    fn less(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> JoinFilter {
        let fields = [left.schema().field(0).clone(), right.schema().field(0).clone()];
        let sides = [JoinSide::Left, JoinSide::Right];
        let indices = sides.map(|side| ColumnIndex { index: 0, side });
        let [x, y] =
            [0, 1].map(|i| Arc::new(Column::new(fields[i].name(), i)) as Arc<dyn PhysicalExpr>);
        let expression = Arc::new(BinaryExpr::new(x, Operator::Lt, y));
        JoinFilter::new(expression, indices.to_vec(), Arc::new(Schema::new(fields.to_vec())))
    }

    fn table(name: &str, key: &str, value: i64, partitions: usize) -> LogicalPlanBuilder {
        let rows = batches(key, value, partitions);
        let table = MemTable::try_new(rows[0][0].schema(), rows).unwrap();
        LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None).unwrap()
    }

    /// A join of 500 rows that match none of 1,500 others, which are distributed over three
    /// partitions.
    fn joined(kind: JoinType) -> LogicalPlan {
        let others = table("u", "y", -1, 3).build().unwrap();
        // The comparison keeps the texts of both sides in memory.
        let none = col("t.x").lt(col("u.y")).and(col("t.text").lt_eq(col("u.text")));
        let rows = table("t", "x", 7, 1).join_on(others, kind, [none]);
        let counted = count(col("t.text")).alias("n");
        let counted =
            rows.unwrap().aggregate(Vec::<datafusion::logical_expr::Expr>::new(), [counted]);
        counted.unwrap().project([col("n") + lit(0_i64)]).unwrap().build().unwrap()
    }

    /// If a nested-loop join runs out of memory and may write files, each partition emits all rows
    /// that have no match in it. The join is built by hand, because the operators that a planner
    /// puts below it may prevent it from running so short of memory.
    #[tokio::test]
    async fn no_row_comes_several_times_for_want_of_memory() {
        let folder = tempfile::tempdir().unwrap();
        let left = rows("x", 7, 1);
        let right = rows("y", -1, 3);
        for kind in [JoinType::Left, JoinType::LeftAnti] {
            let (mut failed, mut answered) = (0, 0);
            for memory in [50_000, 100_000, 200_000, 400_000, 700_000, 1_000_000, 30_000_000] {
                let state = session_state_within(Some(memory), Some(folder.path())).unwrap();
                // A join reads its left side once and remembers it, so each run needs a new join.
                let (left, right) = (Arc::clone(&left), Arc::clone(&right));
                let filter = less(&left, &right);
                let join = NestedLoopJoinExec::try_new(left, right, Some(filter), &kind, None);
                let join = LimitJoins.optimize(Arc::new(join.unwrap()), &ConfigOptions::default());
                match collect(join.unwrap(), state.task_ctx()).await {
                    Err(_) => failed += 1,
                    Ok(batches) => {
                        let n: usize = batches.iter().map(RecordBatch::num_rows).sum();
                        assert_eq!(n, 500, "{kind} in {memory}");
                        answered += 1;
                    }
                }
            }
            assert!(failed > 0 && answered > 0, "{kind}: {failed} {answered}");
        }
    }

    /// Each join is below an operator that enforces its limits. A plan without that operator is
    /// refused before it runs.
    #[tokio::test]
    async fn every_join_has_its_limits() {
        fn joins(plan: &Arc<dyn ExecutionPlan>, parent: Option<&Arc<dyn ExecutionPlan>>) -> usize {
            let one = is_join(plan);
            if one {
                assert!(parent.is_some_and(|parent| parent.is::<LimitedJoinExec>()));
            }
            let below = plan.children().into_iter().map(|child| joins(child, Some(plan)));
            usize::from(one) + below.sum::<usize>()
        }
        let state = crate::exec::session_state();
        let plan = state.create_physical_plan(&joined(JoinType::Left)).await.unwrap();
        assert_eq!(joins(&plan, None), 1);
        let equal = table("t", "x", 7, 1)
            .join(
                table("u", "y", 7, 3).build().unwrap(),
                JoinType::Inner,
                (vec!["x"], vec!["y"]),
                None,
            )
            .and_then(LogicalPlanBuilder::build)
            .unwrap();
        assert_eq!(joins(&state.create_physical_plan(&equal).await.unwrap(), None), 1);

        fn bare(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
            let bare = plan.transform_up(|node| match node.downcast_ref::<LimitedJoinExec>() {
                Some(limited) => Ok(Transformed::yes(Arc::clone(&limited.input))),
                None => Ok(Transformed::no(node)),
            });
            bare.unwrap().data
        }
        assert_eq!(crate::exec::verify::verify_public(&plan), Ok(()));
        let error = crate::exec::verify::verify_public(&bare(plan)).unwrap_err().to_string();
        assert!(error.contains("may write files"), "{error}");
    }
}
