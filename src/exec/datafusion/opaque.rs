//! What operators say of their rows is believed only where it is true.
//!
//! In: a physical plan before its rows are distributed and ordered. Out: the same, with an operator that hands rows on and
//! says nothing of them where DataFusion says too much, or where others would pay for it.
//!
//! What is said and is not so:
//!
//! - An outer join pads rows with NULL, and says that what was one constant on the padded side is one.
//! - A filter takes `m / 2 = 5` to leave `m = 10` alone, and says that m is a constant; 11 passes too.
//! - A window that counts in a frame says that all its rows come in the order of that number, where those of one
//!   partition do at best; one with a running extreme says that NULL comes last, where it comes first.
//!
//! What goes by it: orders are left out, and aggregates and windows believe that rows with equal keys come together. An
//! aggregate then gives a group away when another comes, and a window begins anew: a person's rows were counted as
//! others' lay between them, so that one person could change what all others add. So no aggregate goes by the order
//! of its rows, be it true or not, and each window has its rows put in order just below it.
//!
//! ```text
//! Aggregate by [id, tag]                 Aggregate by [id, tag]
//!   RightJoin                      →       ForgetExec
//!     Projection: id, 'q' AS tag             RightJoin …
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowExpr};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputOrderMode, PlanProperties, ReplaceChildrenOptions,
};

/// The rule; it runs before all that go by what operators say.
#[derive(Debug)]
pub(crate) struct Forget;

impl PhysicalOptimizerRule for Forget {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if let Some(aggregate) = node.downcast_ref::<AggregateExec>()
                && !(aggregate.input().is::<AggregateExec>() && goes_by_no_order(aggregate))
            {
                return over_nothing_said(&node, aggregate.input()).map(Transformed::yes);
            }
            if let Some(input) = input_of_window(&node) {
                let window = over_nothing_said(&node, input)?;
                return Ok(Transformed::yes(Arc::new(OpaqueExec::new(window))));
            }
            if pads_constants(&node) || finds_constants(&node) {
                return Ok(Transformed::yes(Arc::new(OpaqueExec::new(node))));
            }
            Ok(Transformed::no(node))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "forget"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator over the same rows, of which nothing is said.
fn over_nothing_said(
    node: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = Arc::new(OpaqueExec::new(Arc::clone(input)));
    let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(node).replace_children(vec![input], recompute)
}

/// Whether an aggregate keeps its groups until all rows have come.
pub(crate) fn goes_by_no_order(aggregate: &AggregateExec) -> bool {
    *aggregate.input_order_mode() == InputOrderMode::Linear
}

/// The rows of a window, where this is one.
fn input_of_window(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let bounded = node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::input);
    bounded.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::input))
}

/// The functions of a window, where this is one.
fn functions(node: &Arc<dyn ExecutionPlan>) -> &[Arc<dyn WindowExpr>] {
    let bounded =
        node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    let functions =
        bounded.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr));
    functions.unwrap_or_default()
}

/// Whether the rows of a window, if this is one, are moved and put in order only where nothing is said of them, and in the
/// order of all its functions: the operator asks for that of the first.
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

/// Whether a filter says of columns that they are one constant.
fn finds_constants(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<FilterExec>() && !node.equivalence_properties().constants().is_empty()
}

/// Whether a join pads rows of a side that has constants.
fn pads_constants(node: &Arc<dyn ExecutionPlan>) -> bool {
    let (join_type, left, right) = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        (join.join_type(), join.left(), join.right())
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        (join.join_type(), join.left(), join.right())
    } else {
        return false;
    };
    let padded: &[JoinSide] = match join_type {
        JoinType::Left => &[JoinSide::Right],
        JoinType::Right => &[JoinSide::Left],
        JoinType::Full => &[JoinSide::Left, JoinSide::Right],
        JoinType::Inner
        | JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => &[],
    };
    padded.iter().any(|side| {
        let side = if *side == JoinSide::Left { left } else { right };
        !side.equivalence_properties().constants().is_empty()
    })
}

/// Hands rows on, and says nothing of their values and their order.
#[derive(Debug)]
pub(crate) struct OpaqueExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OpaqueExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
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
        write!(f, "ForgetExec")
    }
}

impl ExecutionPlan for OpaqueExec {
    fn name(&self) -> &'static str {
        "ForgetExec"
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
            return internal_err!("ForgetExec has one input");
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

    /// A session with the table t(id, a), whose rows come one by one.
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

    /// The look before the charge knows plans whose windows go by what is said of their rows.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows that nobody owns"
    )]
    #[tokio::test]
    async fn windows_that_go_by_what_is_said_are_seen() {
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

    /// Two functions that were written over one order, of which one needs more of it, once shared an operator: the other's
    /// order decided which of a person's rows came first, and with equal keys that was whichever lay there.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows that nobody owns"
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
        reason = "a test of the session, over rows that nobody owns"
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

    /// Person 1 once had three groups with 7, of one, two and one rows, since rows of 2 and 3 lie between.
    #[tokio::test]
    async fn groups_come_whole_whoever_comes_between() {
        let found = numbers(
            "SELECT t.id, COUNT(*) FROM (SELECT id, a, 7 AS tag FROM t WHERE a > 5) q RIGHT JOIN t ON t.id = q.id AND t.a = q.a GROUP BY t.id, q.tag ORDER BY t.id",
        );
        assert_eq!(found.await, [[1, 4], [2, 2], [3, 1]]);
    }

    /// Filters by whole numbers divided were once taken to leave one number, and its order was left out: rows came as they
    /// lay in the table, which was split where others' rows ended.
    #[tokio::test]
    async fn what_passes_a_division_is_no_constant() {
        let found = numbers(
            "SELECT id, m, CAST(RANK() OVER (PARTITION BY id ORDER BY m) AS BIGINT) FROM (SELECT id, a, MAX(a) AS m FROM t GROUP BY id, a) WHERE m / 2 = 4 OR m / 2 = 4 ORDER BY id, m",
        );
        assert_eq!(found.await, [[1, 8, 1], [1, 9, 2]]);
        let found = numbers("SELECT a FROM t WHERE a / 2 = 4 ORDER BY a LIMIT 1");
        assert_eq!(found.await, [[8]]);
    }

    /// The count was said to grow over all rows: the window above it began anew in every batch.
    #[tokio::test]
    async fn a_count_in_a_frame_orders_nobody_elses_rows() {
        let found = numbers(
            "SELECT id, c, COUNT(*) OVER (PARTITION BY id, c ORDER BY id) FROM (SELECT id, COUNT(*) OVER (PARTITION BY id, a % 2 ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c FROM t) ORDER BY id, c",
        );
        let expected =
            [[1, 1, 2], [1, 1, 2], [1, 2, 2], [1, 2, 2], [2, 1, 2], [2, 1, 2], [3, 1, 1]];
        assert_eq!(found.await, expected);
    }

    /// A running extreme begins with NULL, and was said to end with it.
    #[tokio::test]
    async fn a_running_extreme_begins_with_null() {
        let found = numbers(
            "SELECT id, CAST(RANK() OVER (PARTITION BY id ORDER BY m DESC NULLS LAST) AS BIGINT) FROM (SELECT id, MIN(x) OVER (PARTITION BY id ORDER BY a) AS m FROM (SELECT id, a, CASE WHEN a > 6 THEN a END AS x FROM t)) WHERE id = 1 ORDER BY id, 2",
        );
        assert_eq!(found.await, [[1, 1], [1, 1], [1, 1], [1, 4]]);
    }

    /// NULL once came first.
    #[tokio::test]
    async fn padded_constants_are_put_in_order() {
        let found = numbers(
            "SELECT q.tag FROM (SELECT DISTINCT id, a, 7 AS tag FROM t WHERE a > 5) q FULL JOIN t ON t.id = q.id AND t.a + 1 = q.a ORDER BY q.tag NULLS LAST LIMIT 4",
        );
        assert_eq!(found.await, [[7], [7], [7], [7]]);
    }
}
