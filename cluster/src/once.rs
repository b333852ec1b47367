//! Ensures that rows arrive once: the rows of a stage are marked where they are made, and checked
//! where they are taken.
//!
//! In: a verified plan. Out: the same plan with four more operators, which yield the same rows or
//! fail. If a stage runs twice, or rows arrive twice, no integer changes: all rows of a partition
//! come from one execution of it.
//!
//! ```text
//! Counted                       each partition 0 … n - 1 was ended, by one execution, without a gap; what came again is left out
//!   CoalescePartitionsExec
//!     Numbered                  partition, execution and place of each row; a last row that says how many they were
//!       BoundContributionsExec
//!         Taken                 fails if rows of one partition come from two executions of it
//!           RepartitionExec
//!             Sent              partition and execution of each row, in one number
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use datafusion_distributed::DistributedTaskContext;
use futures::{StreamExt, future, stream};
use hushql::sampler::QueryRng;

/// The number of low bits of a mark that identify the execution. The bits above are the partition.
const BITS: u32 = 40;

/// The number of columns that are added after those of the rows.
const BEHIND: usize = 3;

/// What an operator does with rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Marks rows before they are distributed.
    Sent,
    /// Checks rows that were distributed, and removes the marks.
    Taken,
    /// Marks the rows of a stage that go to the driver.
    Numbered,
    /// Checks these rows in the driver.
    Counted,
}

impl Step {
    /// The byte that encodes it. The last check is never sent.
    pub(crate) fn byte(self) -> Option<u8> {
        match self {
            Self::Sent => Some(0),
            Self::Taken => Some(1),
            Self::Numbered => Some(2),
            Self::Counted => None,
        }
    }

    /// The step of a byte.
    pub(crate) fn of_byte(byte: u8) -> Option<Self> {
        [Self::Sent, Self::Taken, Self::Numbered].into_iter().find(|one| one.byte() == Some(byte))
    }
}

/// An operator that marks rows, or checks their marks.
#[derive(Debug)]
pub(crate) struct Once {
    step: Step,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Once {
    /// The operator over an input.
    ///
    /// # Errors
    /// If it checks marks, and the input has none.
    pub(crate) fn new(step: Step, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let fields = input.schema().fields().clone();
        let mark = |name: &str| Arc::new(Field::new(name, DataType::UInt64, false));
        let without = |marks: usize| match fields.len().checked_sub(marks) {
            Some(own) => Ok(fields.iter().take(own).cloned().collect::<Vec<_>>()),
            None => internal_err!("rows are checked that were not marked"),
        };
        let fields = match step {
            Step::Sent => fields.iter().cloned().chain([mark("sent")]).collect(),
            Step::Taken => without(1)?,
            Step::Numbered => {
                // The last row of a partition has no values. The name records which columns are not
                // nullable in all other rows.
                let own = fields.iter().map(|field| {
                    let name = match field.is_nullable() {
                        true => format!("?{}", field.name()),
                        false => format!("!{}", field.name()),
                    };
                    Arc::new(field.as_ref().clone().with_name(name).with_nullable(true))
                });
                own.chain(["number", "execution", "place"].map(mark)).collect()
            }
            Step::Counted => {
                let own = without(BEHIND)?.into_iter().map(|field| {
                    let (nullable, name) = match field.name().strip_prefix('!') {
                        Some(name) => (false, name),
                        None => (true, field.name().strip_prefix('?').unwrap_or(field.name())),
                    };
                    let name = name.to_owned();
                    Arc::new(field.as_ref().clone().with_name(name).with_nullable(nullable))
                });
                own.collect()
            }
        };
        let schema = Arc::new(Schema::new(fields));
        let partitions = input.output_partitioning().partition_count();
        let partitioning = match step {
            Step::Sent | Step::Taken => input.output_partitioning().clone(),
            Step::Numbered | Step::Counted => Partitioning::UnknownPartitioning(partitions),
        };
        let PlanProperties { emission_type, boundedness, .. } = input.properties().as_ref();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            partitioning,
            *emission_type,
            *boundedness,
        );
        Ok(Self { step, input, properties: Arc::new(properties) })
    }

    /// The plan with its stages marked and checked.
    ///
    /// # Errors
    /// DataFusion's errors.
    pub(crate) fn all(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let numbered = match plan.is::<CoalescePartitionsExec>() {
            true => over(&plan, |input| Self::new(Step::Numbered, marked(input)?))?,
            false => Arc::new(Self::new(Step::Numbered, marked(plan)?)?),
        };
        Ok(Arc::new(Self::new(Step::Counted, numbered)?))
    }

    /// What it does with rows.
    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// The rows that it marks or checks.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The number of marked partitions below.
    fn numbered(&self) -> usize {
        let coalesced = self.input.downcast_ref::<CoalescePartitionsExec>();
        let numbered = coalesced.map_or(&self.input, CoalescePartitionsExec::input);
        numbered.output_partitioning().partition_count()
    }
}

/// The plan with marks where rows leave a task, and checks where they are taken.
fn marked(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let dealt = node.downcast_ref::<RepartitionExec>().map(RepartitionExec::partitioning);
        let leave =
            matches!(dealt, Some(Partitioning::Hash(..))) || node.is::<CoalescePartitionsExec>();
        if !leave {
            return Ok(Transformed::no(node));
        }
        let rows = over(&node, |input| Once::new(Step::Sent, input))?;
        Ok(Transformed::yes(Arc::new(Once::new(Step::Taken, rows)?) as _))
    })
    .data()
}

/// Wraps an operator and its input in this one.
fn over(
    plan: &Arc<dyn ExecutionPlan>,
    step: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Once>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = plan.children().into_iter();
    let inputs = inputs.map(|input| Ok(Arc::new(step(Arc::clone(input))?) as _));
    let inputs = inputs.collect::<Result<Vec<Arc<dyn ExecutionPlan>>>>()?;
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(inputs, options)
}

/// The number of a partition among those of all tasks, and a random number for this execution.
fn this_one(partitions: usize, partition: usize, context: &Arc<TaskContext>) -> Result<(u64, u64)> {
    let task = DistributedTaskContext::from_ctx(context);
    let number = task.task_index.checked_mul(partitions).and_then(|n| n.checked_add(partition));
    let number = number.and_then(|number| u64::try_from(number).ok());
    let nonce = QueryRng::nonce().map_err(|e| DataFusionError::External(Box::new(e)))?;
    let execution = nonce.iter().take(8).fold(0, |all, byte| (all << 8) | u64::from(*byte));
    match number.filter(|number| *number < 1 << (63 - BITS)) {
        Some(number) => Ok((number, execution)),
        None => internal_err!("there are too many partitions"),
    }
}

/// The rows with these columns appended.
fn with(batch: &RecordBatch, behind: Vec<ArrayRef>, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().cloned().chain(behind).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn same(value: u64, rows: usize) -> ArrayRef {
    Arc::new(UInt64Array::from_value(value, rows))
}

/// The numbers in a column of marks.
fn marks(batch: &RecordBatch, from_behind: usize) -> Result<&[u64]> {
    let at = batch.num_columns().checked_sub(from_behind);
    let column = at.and_then(|at| batch.columns().get(at));
    match column.and_then(|column| column.as_primitive_opt::<UInt64Type>()) {
        Some(marks) => Ok(marks.values()),
        None => internal_err!("rows are checked that were not marked"),
    }
}

/// The executions whose rows were taken, by partition.
#[derive(Debug, Default)]
struct Executions {
    of: HashMap<u64, u64>,
    last: Option<u64>,
}

impl Executions {
    /// Fails if a partition was executed twice.
    fn take(&mut self, marks: &[u64]) -> Result<()> {
        for mark in marks {
            if self.last == Some(*mark) {
                continue;
            }
            if *self.of.entry(mark >> BITS).or_insert(*mark) != *mark {
                return exec_err!("rows of a stage came twice");
            }
            self.last = Some(*mark);
        }
        Ok(())
    }
}

/// What has arrived from the partitions of the last stage.
#[derive(Debug)]
struct Arrived {
    partitions: Vec<Option<Partition>>,
}

/// What has arrived from one partition.
#[derive(Debug, Clone, Copy)]
struct Partition {
    execution: u64,
    rows: u64,
    is_ended: bool,
}

impl Arrived {
    fn new(partitions: usize) -> Self {
        Self { partitions: vec![None; partitions] }
    }

    /// Whether this row is kept: it arrives for the first time, and belongs to the execution whose
    /// rows arrived first.
    fn takes(&mut self, number: u64, execution: u64, place: u64) -> Result<bool> {
        let at = usize::try_from(number >> 1).ok();
        let Some(slot) = at.and_then(|at| self.partitions.get_mut(at)) else {
            return exec_err!("rows came from an unknown partition");
        };
        let new = Partition { execution, rows: 0, is_ended: false };
        let partition = slot.get_or_insert(new);
        let ends = number & 1 == 1;
        if partition.execution != execution {
            return Ok(false);
        }
        match (ends, place == partition.rows) {
            (true, true) => {
                partition.is_ended = true;
                Ok(false)
            }
            (false, true) if !partition.is_ended => {
                partition.rows += 1;
                Ok(true)
            }
            (false, false) if place < partition.rows => Ok(false),
            _ => exec_err!("rows of a stage are missing"),
        }
    }

    /// The rows of a batch that are kept, without their marks.
    fn take(&mut self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let (numbers, executions, places) = (marks(batch, 3)?, marks(batch, 2)?, marks(batch, 1)?);
        let rows = numbers.iter().zip(executions).zip(places);
        let kept = rows.map(|((number, execution), place)| self.takes(*number, *execution, *place));
        let kept = BooleanArray::from(kept.collect::<Result<Vec<bool>>>()?);
        let kept = filter_record_batch(batch, &kept)?;
        let own = kept.columns().iter().take(schema.fields().len()).cloned().collect();
        Ok(RecordBatch::try_new(Arc::clone(schema), own)?)
    }

    /// Fails unless all partitions have ended.
    fn ended(&self) -> Result<()> {
        match self.partitions.iter().all(|one| one.is_some_and(|partition| partition.is_ended)) {
            true => Ok(()),
            false => exec_err!("rows of a stage are missing"),
        }
    }
}

impl DisplayAs for Once {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Once: {:?}", self.step)
    }
}

impl ExecutionPlan for Once {
    fn name(&self) -> &'static str {
        "Once"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(self.step, input)?)),
            _ => internal_err!("marks are those of one input"),
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
        let partitions = self.input.output_partitioning().partition_count();
        let this_one = this_one(partitions, partition, &context);
        let rows = self.input.execute(partition, context)?;
        let schema = self.schema();
        let rows = match self.step {
            Step::Sent => {
                let (number, execution) = this_one?;
                let mark = (number << BITS) | (execution >> (64 - BITS));
                let marked = move |batch: RecordBatch| {
                    let marks = same(mark, batch.num_rows());
                    with(&batch, vec![marks], &schema)
                };
                rows.map(move |batch| batch.and_then(&marked)).boxed()
            }
            Step::Taken => {
                let mut executions = Executions::default();
                let mut taken = move |batch: RecordBatch| {
                    executions.take(marks(&batch, 1)?)?;
                    let own = batch.columns().iter().take(schema.fields().len()).cloned();
                    Ok(RecordBatch::try_new(Arc::clone(&schema), own.collect())?)
                };
                rows.map(move |batch| batch.and_then(&mut taken)).boxed()
            }
            Step::Numbered => numbered(rows, this_one?, schema),
            Step::Counted => counted(rows, self.numbered(), schema),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

type Rows = stream::BoxStream<'static, Result<RecordBatch>>;

/// Rows with their places, and after them a row with their number.
fn numbered(
    rows: SendableRecordBatchStream,
    (number, execution): (u64, u64),
    schema: SchemaRef,
) -> Rows {
    enum At {
        Rows(SendableRecordBatchStream, u64),
        End,
    }
    let columns = schema.fields().len().saturating_sub(BEHIND);
    let next = move |at: At| {
        let schema = Arc::clone(&schema);
        async move {
            let At::Rows(mut rows, place) = at else { return Ok(None) };
            match rows.next().await {
                Some(Err(error)) => Err(error),
                Some(Ok(batch)) => {
                    let rows_here = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
                    let end = place.saturating_add(rows_here);
                    let behind: Vec<ArrayRef> = vec![
                        same(number << 1, batch.num_rows()),
                        same(execution, batch.num_rows()),
                        Arc::new(UInt64Array::from_iter_values(place..end)),
                    ];
                    Ok(Some((with(&batch, behind, &schema)?, At::Rows(rows, end))))
                }
                None => {
                    let own = schema.fields().iter().take(columns);
                    let own = own.map(|field| new_null_array(field.data_type(), 1));
                    let behind = [(number << 1) | 1, execution, place].map(|mark| same(mark, 1));
                    let last = own.chain(behind).collect();
                    Ok(Some((RecordBatch::try_new(schema, last)?, At::End)))
                }
            }
        }
    };
    stream::try_unfold(At::Rows(rows, 0), next).boxed()
}

/// The rows of `partitions` partitions, each row once.
fn counted(rows: SendableRecordBatchStream, partitions: usize, schema: SchemaRef) -> Rows {
    let mut arrived = Arrived::new(partitions);
    // A last item triggers the final check.
    let items = rows.map(Some).chain(stream::iter([None]));
    let kept = items.map(move |item| match item {
        Some(batch) => batch.and_then(|batch| arrived.take(&batch, &schema)).map(Some),
        None => arrived.ended().map(|()| None),
    });
    kept.filter_map(|batch| future::ready(batch.transpose())).boxed()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::physical_plan::collect;
    use futures::TryStreamExt;

    use super::*;

    /// Two partitions, the second without rows.
    fn rows() -> Arc<dyn ExecutionPlan> {
        let batch = |from: i64| {
            let keys: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "b"]));
            let sums: ArrayRef = Arc::new(Int64Array::from(vec![from, from + 1]));
            RecordBatch::try_from_iter([("key", keys), ("sum", sums)]).unwrap()
        };
        let partitions = [vec![batch(1), batch(10), batch(100)], vec![]];
        MemorySourceConfig::try_new_exec(&partitions, batch(0).schema(), None).unwrap()
    }

    fn numbered_rows() -> Arc<dyn ExecutionPlan> {
        Arc::new(Once::new(Step::Numbered, rows()).unwrap())
    }

    async fn execution(plan: &Arc<dyn ExecutionPlan>, partition: usize) -> Vec<RecordBatch> {
        let rows = plan.execute(partition, Arc::default()).unwrap();
        rows.try_collect().await.unwrap()
    }

    async fn checked(batches: Vec<RecordBatch>) -> Result<i64> {
        let plan = numbered_rows();
        let counted = Once::new(Step::Counted, Arc::clone(&plan)).unwrap();
        assert_eq!(counted.schema(), rows().schema());
        let arriving = stream::iter(batches.into_iter().map(Ok));
        let arriving = Box::pin(RecordBatchStreamAdapter::new(plan.schema(), arriving));
        let kept: Vec<RecordBatch> =
            super::counted(arriving, counted.numbered(), counted.schema()).try_collect().await?;
        let sums = kept.iter().map(|batch| {
            batch
                .column(1)
                .as_primitive::<arrow::datatypes::Int64Type>()
                .values()
                .iter()
                .sum::<i64>()
        });
        Ok(sums.sum())
    }

    /// A stage that runs twice, and batches that arrive twice, change no integer. Missing rows are
    /// noticed.
    #[tokio::test]
    async fn what_comes_again_is_left_out_and_what_is_missing_is_noticed() {
        let plan = numbered_rows();
        let (first, other) = (execution(&plan, 0).await, execution(&plan, 1).await);
        let again = execution(&plan, 0).await;
        assert_eq!((first.len(), other.len()), (4, 1));
        let sum = 225;
        let all = |parts: &[&[RecordBatch]]| parts.concat();
        for came in [
            all(&[&first, &other]),
            all(&[&other, &first]),
            // Batches again, immediately and at the end.
            all(&[&first[..2], &first[..2], &first[2..], &other, &other, &first]),
            // The stage again, afterwards and concurrently.
            all(&[&first, &other, &again]),
            all(&[&first[..1], &again[..3], &first[1..], &again[3..], &other]),
        ] {
            assert_eq!(checked(came).await.unwrap(), sum);
        }
        for missing in [
            all(&[&first]),
            all(&[&other]),
            all(&[&first[..3], &other]),
            all(&[&first[1..], &other]),
            all(&[&first[..1], &first[2..], &other]),
            // Half of one execution, and the other half of another.
            all(&[&first[..2], &again[2..], &other]),
        ] {
            let error = checked(missing).await.unwrap_err().to_string();
            assert!(error.contains("missing"), "{error}");
        }
    }

    /// The number of rows that are taken of a stage that runs `times` times.
    async fn taken(times: usize) -> Result<usize> {
        let sent: Arc<dyn ExecutionPlan> = Arc::new(Once::new(Step::Sent, rows())?);
        let mut batches = Vec::new();
        for _ in 0..times {
            batches.extend(collect(Arc::clone(&sent), Arc::default()).await?);
        }
        let came = MemorySourceConfig::try_new_exec(&[batches], sent.schema(), None)?;
        let taken: Arc<dyn ExecutionPlan> = Arc::new(Once::new(Step::Taken, came)?);
        assert_eq!(taken.schema(), rows().schema());
        let taken = collect(taken, Arc::default()).await?;
        Ok(taken.iter().map(RecordBatch::num_rows).sum())
    }

    /// Rows of a stage that ran twice are not bounded twice: the operator that takes them fails.
    #[tokio::test]
    async fn rows_of_two_executions_are_not_taken() {
        assert_eq!(taken(1).await.unwrap(), 6);
        let error = taken(2).await.unwrap_err().to_string();
        assert!(error.contains("came twice"), "{error}");
    }
}
