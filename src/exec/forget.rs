//! What operators say of their rows is believed only where it is true.
//!
//! In: a physical plan before its rows are distributed and ordered. Out: the same, with an operator that hands rows on and
//! says nothing of them where DataFusion says too much.
//!
//! An outer join pads rows with NULL, and still says that what was one constant on the padded side is one: orders by it are
//! left out then. And an aggregate believes that rows with equal keys come together where a key is a constant, and
//! gives a group away when another comes: a person's group came twice, or not, by whose rows lay between. So no
//! aggregate goes by the order of its rows, be it true or not, or only put in order later, for a window below it.
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
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputOrderMode, PlanProperties, ReplaceChildrenOptions,
};

/// The rule; it runs before all that go by what operators say.
#[derive(Debug)]
pub(super) struct Forget;

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
                let input = Arc::new(ForgetExec::new(Arc::clone(aggregate.input())));
                let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                return Ok(Transformed::yes(node.replace_children(vec![input], recompute)?));
            }
            if pads_constants(&node) {
                return Ok(Transformed::yes(Arc::new(ForgetExec::new(node))));
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

/// Whether an aggregate keeps its groups until all rows have come.
pub(super) fn goes_by_no_order(aggregate: &AggregateExec) -> bool {
    *aggregate.input_order_mode() == InputOrderMode::Linear
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
pub(super) struct ForgetExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ForgetExec {
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

impl DisplayAs for ForgetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForgetExec")
    }
}

impl ExecutionPlan for ForgetExec {
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

    /// NULL once came first.
    #[tokio::test]
    async fn padded_constants_are_put_in_order() {
        let found = numbers(
            "SELECT q.tag FROM (SELECT DISTINCT id, a, 7 AS tag FROM t WHERE a > 5) q FULL JOIN t ON t.id = q.id AND t.a + 1 = q.a ORDER BY q.tag NULLS LAST LIMIT 4",
        );
        assert_eq!(found.await, [[7], [7], [7], [7]]);
    }
}
