//! Hides an operator's claims about its rows from the operators above it.
//!
//! In: a physical plan before its rows are distributed and ordered. Out: the same plan, with an
//! operator that passes rows on without claims, below each operator that could use claims:
//! aggregates, windows, joins, unions and sorts.
//!
//! Some claims of DataFusion's operators are wrong:
//!
//! - An outer join pads rows with NULL, and claims that a constant of the padded side is still a
//!   constant.
//! - A filter assumes that `m / 2 = 5` leaves only `m = 10`, and claims that m is a constant; 11
//!   passes too.
//! - A window that counts in a frame claims that all its rows come in the order of that count,
//!   although at best those of one partition do. A window with a running extreme claims that NULL
//!   comes last, although it comes first.
//!
//! DataFusion then leaves out sorts, and its aggregates and windows assume that rows with equal
//! keys are adjacent. An aggregate emits a group when another one begins, and a window restarts. So
//! the rows of one person would count differently if rows of others lay between them, and one
//! person could change the contributions of all others. Therefore every aggregate keeps its groups
//! until the end, each window sorts its rows just below it, and each join and aggregate has its
//! rows distributed just below it.
//!
//! ```text
//! Aggregate by [id, tag]                 Aggregate by [id, tag]
//!   RightJoin                      →       OpaqueExec
//!     Projection: id, 'q' AS tag             RightJoin …
//! ```
//!
//! Upstream: docs/upstream.md, 1 to 4. Delete when no claim is wrong, and only for the public plan:
//! a private plan trusts no claim.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowExpr};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputOrderMode, PlanProperties, ReplaceChildrenOptions,
};

/// The rule; it runs before all rules that read claims.
#[derive(Debug)]
pub(crate) struct HideProperties;

impl PhysicalOptimizerRule for HideProperties {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            // The second step of an aggregate reads the rows of its first step.
            if !uses_claims(&node) || is_second_step(&node) {
                return Ok(Transformed::no(node));
            }
            let hide = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
                Arc::new(OpaqueExec::new(Arc::clone(input)))
            };
            let inputs = node.children().into_iter().map(hide).collect();
            let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(inputs, recompute).map(Transformed::yes)
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "hide_properties"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an operator could use the claims of its inputs. Other operators pass the claims on, to
/// such an operator or to the end of the plan.
fn uses_claims(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<AggregateExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<WindowAggExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<UnionExec>()
        || node.downcast_ref::<SortExec>().is_some_and(|sort| !is_read_in_order(sort.input()))
}

/// Whether these rows come in the order of their source. A source that is read from its end must
/// not be sorted again.
fn is_read_in_order(rows: &Arc<dyn ExecutionPlan>) -> bool {
    let finds_constants =
        rows.is::<FilterExec>() && !rows.equivalence_properties().constants().is_empty();
    match rows.children().as_slice() {
        [] => true,
        [below] => {
            (rows.is::<ProjectionExec>() || rows.is::<FilterExec>())
                && !finds_constants
                && is_read_in_order(below)
        }
        _ => false,
    }
}

fn is_second_step(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        aggregate.input().is::<AggregateExec>() && goes_by_no_order(aggregate)
    })
}

/// Whether an aggregate keeps its groups until all rows have arrived.
pub(crate) fn goes_by_no_order(aggregate: &AggregateExec) -> bool {
    *aggregate.input_order_mode() == InputOrderMode::Linear
}

/// The input of a window; `None` for other operators.
fn input_of_window(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let bounded = node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::input);
    bounded.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::input))
}

/// The functions of a window; empty for other operators.
fn functions(node: &Arc<dyn ExecutionPlan>) -> &[Arc<dyn WindowExpr>] {
    let bounded =
        node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    let functions =
        bounded.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr));
    functions.unwrap_or_default()
}

/// Whether the rows of a window are moved and sorted just below it, where no claims reach, in the
/// order of all its functions. (The operator requires only the order of the first one.) True for
/// other operators.
pub(crate) fn orders_its_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(mut input) = input_of_window(node) else { return true };
    let functions = functions(node);
    let alike = functions.iter().zip(functions.iter().skip(1)).all(|(one, other)| {
        one.partition_by() == other.partition_by() && one.order_by() == other.order_by()
    });
    if !alike {
        return false;
    }
    loop {
        let moved = input.is::<SortExec>()
            || input.is::<SortPreservingMergeExec>()
            || input.is::<CoalescePartitionsExec>()
            || input.is::<RepartitionExec>();
        match input.children().as_slice() {
            [below] if moved => input = below,
            _ => return input.is::<OpaqueExec>(),
        }
    }
}

/// Passes rows on without claims about their values and their order.
#[derive(Debug)]
pub(crate) struct OpaqueExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OpaqueExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, properties }
    }
}

impl DisplayAs for OpaqueExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpaqueExec")
    }
}

impl ExecutionPlan for OpaqueExec {
    fn name(&self) -> &'static str {
        "OpaqueExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("OpaqueExec has one input");
        };
        Ok(Arc::new(Self::new(input)))
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
        self.input.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use datafusion::common::config::ConfigNonZeroUsize;
    use datafusion::datasource::MemTable;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::exec::session_state;

    /// A session with the table t(id, a), which yields one row at a time.
    fn one_by_one() -> SessionContext {
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(Int64Array::from(vec![1, 2, 1, 2, 1, 3, 1]))),
            ("a", Arc::new(Int64Array::from(vec![9, 1, 8, 2, 7, 1, 6]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let batches = (0..rows.num_rows()).map(|i| rows.slice(i, 1)).collect();
        let table = MemTable::try_new(rows.schema(), vec![batches]).unwrap();
        let mut state = session_state();
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = 1;
        options.execution.batch_size = ConfigNonZeroUsize::try_new(1).unwrap();
        let state = SessionStateBuilder::new_from_existing(state).build();
        let context = SessionContext::new_with_state(state);
        context.register_table("t", Arc::new(table)).unwrap();
        context
    }

    /// The check before the charge detects windows that rely on claims about their rows.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows without owners"
    )]
    #[tokio::test]
    async fn windows_that_rely_on_claims_are_detected() {
        let ours = one_by_one();
        let plain = SessionContext::new();
        plain.register_table("t", ours.table_provider("t").await.unwrap()).unwrap();
        for (context, expected) in [(ours, true), (plain, false)] {
            let sql = "SELECT COUNT(*) OVER (PARTITION BY id ORDER BY a) FROM t";
            let rows = context.sql(sql).await.unwrap();
            let plan = rows.create_physical_plan().await.unwrap();
            let all = !plan.exists(|node| Ok(!orders_its_rows(node))).unwrap();
            assert_eq!(all, expected, "{plan:?}");
        }
    }

    /// Two functions over one written order, one of which needs a longer order, must not share an
    /// operator. Otherwise the other function's order decides which of a person's rows comes first,
    /// and among equal keys the storage order does.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows without owners"
    )]
    #[tokio::test]
    async fn functions_of_two_orders_in_one_window_are_seen() {
        let sql = "SELECT RANK() OVER (PARTITION BY id ORDER BY a), LAG(a) OVER (PARTITION BY id ORDER BY a, a % 2) FROM t";
        let rows = one_by_one().sql(sql).await.unwrap();
        let plan = rows.create_physical_plan().await.unwrap();
        let mut windows = Vec::new();
        plan.apply(|node| {
            windows.extend(input_of_window(node).is_some().then(|| Arc::clone(node)));
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        let [above, below] = windows.as_slice() else { panic!("two windows: {plan:?}") };
        let over = |all: Vec<Arc<dyn WindowExpr>>| -> Arc<dyn ExecutionPlan> {
            let input = Arc::clone(input_of_window(below).unwrap());
            Arc::new(
                BoundedWindowAggExec::try_new(all, input, InputOrderMode::Sorted, true).unwrap(),
            )
        };
        let (one, other) = (functions(above)[0].clone(), functions(below)[0].clone());
        assert!(orders_its_rows(&over(vec![one.clone(), one.clone()])));
        assert!(!orders_its_rows(&over(vec![one.clone(), other.clone()])));
        assert!(!orders_its_rows(&over(vec![other, one])));
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows without owners"
    )]
    async fn numbers(sql: &str) -> Vec<Vec<i64>> {
        let batches = one_by_one().sql(sql).await.unwrap().collect().await.unwrap();
        let mut rows = Vec::new();
        for batch in &batches {
            for i in 0..batch.num_rows() {
                let row = batch.columns().iter().map(|c| c.as_primitive::<Int64Type>().value(i));
                rows.push(row.collect());
            }
        }
        rows
    }

    /// Person 1 has one group with 7 and four rows. Rows of 2 and 3 between them must not split it
    /// into three.
    #[tokio::test]
    async fn groups_come_whole_whoever_comes_between() {
        let found = numbers(
            "SELECT t.id, COUNT(*) FROM (SELECT id, a, 7 AS tag FROM t WHERE a > 5) q RIGHT JOIN t ON t.id = q.id AND t.a = q.a GROUP BY t.id, q.tag ORDER BY t.id",
        );
        assert_eq!(found.await, [[1, 4], [2, 2], [3, 1]]);
    }

    /// A filter on a quotient of whole numbers may leave several numbers. If the sort by it is
    /// dropped, rows come in storage order, and groups split where others' rows end.
    #[tokio::test]
    async fn what_passes_a_division_is_no_constant() {
        let found = numbers(
            "SELECT id, m, CAST(RANK() OVER (PARTITION BY id ORDER BY m) AS BIGINT) FROM (SELECT id, a, MAX(a) AS m FROM t GROUP BY id, a) WHERE m / 2 = 4 OR m / 2 = 4 ORDER BY id, m",
        );
        assert_eq!(found.await, [[1, 8, 1], [1, 9, 2]]);
        let found = numbers("SELECT a FROM t WHERE a / 2 = 4 ORDER BY a LIMIT 1");
        assert_eq!(found.await, [[8]]);
    }

    /// The count does not grow over all rows. If it is claimed to, the window above it restarts in
    /// every batch.
    #[tokio::test]
    async fn a_count_in_a_frame_orders_nobody_elses_rows() {
        let found = numbers(
            "SELECT id, c, COUNT(*) OVER (PARTITION BY id, c ORDER BY id) FROM (SELECT id, COUNT(*) OVER (PARTITION BY id, a % 2 ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c FROM t) ORDER BY id, c",
        );
        let expected =
            [[1, 1, 2], [1, 1, 2], [1, 2, 2], [1, 2, 2], [2, 1, 2], [2, 1, 2], [3, 1, 1]];
        assert_eq!(found.await, expected);
    }

    /// A running extreme begins with NULL. DataFusion claims that it ends with it.
    #[tokio::test]
    async fn a_running_extreme_begins_with_null() {
        let found = numbers(
            "SELECT id, CAST(RANK() OVER (PARTITION BY id ORDER BY m DESC NULLS LAST) AS BIGINT) FROM (SELECT id, MIN(x) OVER (PARTITION BY id ORDER BY a) AS m FROM (SELECT id, a, CASE WHEN a > 6 THEN a END AS x FROM t)) WHERE id = 1 ORDER BY id, 2",
        );
        assert_eq!(found.await, [[1, 1], [1, 1], [1, 1], [1, 4]]);
    }

    /// NULL must come last.
    #[tokio::test]
    async fn padded_constants_are_put_in_order() {
        let found = numbers(
            "SELECT q.tag FROM (SELECT DISTINCT id, a, 7 AS tag FROM t WHERE a > 5) q FULL JOIN t ON t.id = q.id AND t.a + 1 = q.a ORDER BY q.tag NULLS LAST LIMIT 4",
        );
        assert_eq!(found.await, [[7], [7], [7], [7]]);
    }
}
