//! Rows that every task reads completely: the side of a join that is kept in memory.
//!
//! In: a verified plan. Out: the same plan, in which the kept side of a join looks like one leaf to
//! `datafusion-distributed`, if the join yields no row for the kept side alone. Each task then
//! keeps all rows of that side and reads a piece of the other side, so that together they yield
//! each row of the join once. Files of public tables are described at their scans, like those of
//! private tables.
//!
//! ```text
//! HashJoinExec: CollectLeft, Inner         HashJoinExec: CollectLeft, Inner
//!   DataSourceExec: nation             →     Whole                            read by each of four tasks
//!   PrivateScanExec: visits                  PrivateScanExec: visits          a quarter for each of four tasks
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::datasource::physical_plan::{
    FileGroupPartitioner, FileScanConfig, FileScanConfigBuilder,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use datafusion_distributed::DistributedLeafExec;
use hushql_engine::exec::PrivateScanExec;

/// A plan that each task runs as a whole. It has no inputs, so that nothing divides it.
#[derive(Debug)]
pub(crate) struct Whole {
    inner: Arc<dyn ExecutionPlan>,
}

/// The scan of a public table's files, which are opened where it is decoded. It is one leaf,
/// because its conditions may contain functions; see `carried`.
#[derive(Debug)]
pub(crate) struct Opened {
    scan: Arc<dyn ExecutionPlan>,
}

/// Whether each task may keep the whole left side of this join, because the join yields no row for
/// a left row alone.
pub(crate) fn takes_whole(join: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(join) = join.downcast_ref::<HashJoinExec>() {
        let collects = *join.partition_mode() == PartitionMode::CollectLeft;
        return collects && !join.null_aware && yields_right_rows(*join.join_type());
    }
    if let Some(join) = join.downcast_ref::<NestedLoopJoinExec>() {
        return yields_right_rows(*join.join_type());
    }
    join.is::<CrossJoinExec>()
}

/// Whether a join keeps all rows of its left side in memory.
pub(crate) fn keeps_a_side(join: &Arc<dyn ExecutionPlan>) -> bool {
    let hash = join.downcast_ref::<HashJoinExec>();
    hash.is_some_and(|join| *join.partition_mode() != PartitionMode::Partitioned)
        || join.is::<NestedLoopJoinExec>()
        || join.is::<CrossJoinExec>()
}

/// Whether every output row comes from one row of the right side.
fn yields_right_rows(kind: JoinType) -> bool {
    match kind {
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => true,
        JoinType::Left
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::LeftMark => false,
    }
}

impl Whole {
    /// Turns the kept sides of the plan's joins into wholes.
    pub(crate) fn kept(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Opened::all(plan)?
            .transform_down(|node| {
                if !takes_whole(&node) {
                    return Ok(Transformed::no(node));
                }
                let mut inputs: Vec<_> = node.children().into_iter().cloned().collect();
                match inputs.first_mut() {
                    Some(left) if !left.is::<Self>() => {
                        *left = Arc::new(Self { inner: Arc::clone(left) });
                    }
                    Some(_) | None => return Ok(Transformed::no(node)),
                }
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                node.replace_children(inputs, options).map(Transformed::yes)
            })
            .data()
    }

    /// The plan that each task runs.
    pub(crate) fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }
}

impl Opened {
    /// Describes the files of the plan's public tables at their scans.
    fn all(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            // The files of private tables are described at their own scans.
            if node.is::<PrivateScanExec>() || node.is::<Self>() {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            Ok(match reads_files(&node) {
                true => Transformed::new(
                    Arc::new(Self { scan: node }) as _,
                    true,
                    TreeNodeRecursion::Jump,
                ),
                false => Transformed::no(node),
            })
        })
        .data()
    }

    /// The scan.
    pub(crate) fn scan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.scan
    }

    /// The scan in pieces, one for each task.
    ///
    /// # Errors
    /// DataFusion's errors.
    pub(crate) fn in_pieces(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Option<Pieces> {
        let scan = &plan.downcast_ref::<Self>()?.scan;
        let source = scan.downcast_ref::<DataSourceExec>()?;
        let files = source.data_source().downcast_ref::<FileScanConfig>()?;
        let partitions = scan.output_partitioning().partition_count();
        let groups = FileGroupPartitioner::new()
            .with_target_partitions(partitions.saturating_mul(tasks))
            .with_repartition_file_min_size(0)
            .repartition_file_groups(&files.file_groups)
            .unwrap_or_else(|| files.file_groups.clone());
        // Each task has the same number of partitions; some may be empty.
        let each = groups.len().div_ceil(tasks.max(1)).max(1);
        let mut groups = groups.into_iter();
        let pieces = (0..tasks).map(|_| {
            let own = (0..each).map(|_| groups.next().unwrap_or_default());
            let files =
                FileScanConfigBuilder::from(files.clone()).with_file_groups(own.collect()).build();
            Arc::new(Self { scan: DataSourceExec::from_data_source(files) }) as _
        });
        let pieces: Vec<Arc<dyn ExecutionPlan>> = pieces.collect();
        Some(DistributedLeafExec::try_new(Arc::clone(plan), pieces))
    }
}

/// The pieces of a scan.
type Pieces = Result<DistributedLeafExec>;

/// Whether this operator reads files, which can be divided; rows in memory are not.
pub(crate) fn reads_files(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let source = plan.downcast_ref::<DataSourceExec>();
    source.is_some_and(|source| source.data_source().is::<FileScanConfig>())
}

impl DisplayAs for Whole {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Whole")
    }
}

impl ExecutionPlan for Whole {
    fn name(&self) -> &'static str {
        "Whole"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a whole has no inputs"),
        }
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
        self.inner.execute(partition, context)
    }
}

impl DisplayAs for Opened {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened")
    }
}

impl ExecutionPlan for Opened {
    fn name(&self) -> &'static str {
        "Opened"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan has no inputs"),
        }
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
        self.scan.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::arrow::util::display::array_value_to_string;
    use datafusion::common::NullEquality;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::collect;

    use super::*;

    fn rows(name: &str, values: &[Option<i64>]) -> Arc<dyn ExecutionPlan> {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let batch = RecordBatch::try_from_iter_with_nullable([(name, column, true)]).unwrap();
        let schema = batch.schema();
        MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap()
    }

    /// Rows of the join of a whole side and some of the other's rows.
    async fn joined(kind: JoinType, right: &[Option<i64>]) -> (bool, Vec<String>) {
        let left = rows("l", &[Some(1), Some(2), Some(2), None, Some(7)]);
        let right = rows("r", right);
        let on = vec![(col("l", &left.schema()).unwrap(), col("r", &right.schema()).unwrap())];
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let join =
            HashJoinExec::try_new(left, right, on, None, &kind, None, mode, nulls, false).unwrap();
        let plan = Whole::kept(Arc::new(join)).unwrap();
        let is_kept = plan.children().first().is_some_and(|left| left.is::<Whole>());
        let mut shown = Vec::new();
        for batch in collect(plan, Arc::default()).await.unwrap() {
            for row in 0..batch.num_rows() {
                let cell = |column: &ArrayRef| array_value_to_string(column, row).unwrap();
                shown.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join(" "));
            }
        }
        shown.sort();
        (is_kept, shown)
    }

    /// A side is kept as a whole by exactly those joins whose pieces yield each row of the join
    /// once.
    #[tokio::test]
    async fn pieces_of_a_join_with_a_whole_side_are_the_join() {
        let right = [Some(2), None, Some(3), Some(2), Some(1), Some(9)];
        for kind in [
            JoinType::Inner,
            JoinType::Left,
            JoinType::Right,
            JoinType::Full,
            JoinType::LeftSemi,
            JoinType::LeftAnti,
            JoinType::LeftMark,
            JoinType::RightSemi,
            JoinType::RightAnti,
            JoinType::RightMark,
        ] {
            let (is_kept, all) = joined(kind, &right).await;
            let mut pieces = joined(kind, &right[..2]).await.1;
            pieces.extend(joined(kind, &right[2..]).await.1);
            pieces.sort();
            assert_eq!(is_kept, pieces == all, "{kind}: {pieces:?} {all:?}");
        }
    }
}
