//! `BoundContributionsExec`: bounds what each unit contributes, and aggregates, in one operator.
//!
//! In: rows with a unit, key columns and arguments. Out: one row for every key of a known key space, with the raw
//! integer of every aggregate (zero for keys without rows), or for every key in the rows, in no particular order. It
//! assumes that all rows of a unit are in one partition, requests that from the planner and checks it again when it
//! runs. It guarantees that removing one unit changes each aggregate by no more than its bounds and [`EnforcedBounds`]
//! allow, exactly, in integers, for every order, batching and partitioning of the rows.
//!
//! A unit's groups are served in the order of a keyed hash: group j keeps k_j = min(rows_j, m, rest of M) rows, and at
//! most C groups keep any. Rows without a unit and rows with other keys are dropped before that. Nearly all units are
//! within their bounds; all rows are added up column by column, and those of units that may not be are taken away again.
//!
//! ```text
//! PrivatizeExec                                     adds the partitions' rows up
//!   BoundContributionsExec: unit=user_id@0, keys=[city@1], inputs=2
//!     RepartitionExec: Hash([user_id@0], 2)
//! ```

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, Partitioning, PartitioningSatisfaction, PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildSatisfactionOptions, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use crate::exec::aggregate::fixed_sum::SUM_TYPE;
use crate::grid::failed;
use hold::Holder;
use lanes::Sources;
use split::Counting;
use task::Task;

pub(crate) use crowded::{Crowded, RowCounts};
pub(crate) use keys::{KeyIndex, KeySpace, OUTSIDE};
pub(crate) use keys::{canonical, is_float};
pub(crate) use order::{HashKey, LateKey};
pub(crate) use partial::{AggregateInput, EnforcedBounds, InputKind};
pub(crate) use units::{BUCKETS, HeldUnits, Row, UnitCodes, UnitNames, Units, place_of};

mod collect;
mod columns;
mod crowded;
mod hold;
mod keys;
mod lanes;
mod order;
mod partial;
mod payload;
mod rungs;
mod split;
mod task;
#[cfg(test)]
mod tests;
mod units;

/// The parameters of the operator, except the hash key, which is set when the query is paid for.
#[derive(Debug)]
struct Plan {
    unit: usize,
    keys: Vec<usize>,
    inputs: Vec<AggregateInput>,
    hash: LateKey,
}

/// The operator. Each output partition contains every key; the reader adds the partitions up.
#[derive(Debug)]
pub(crate) struct BoundContributionsExec {
    input: Arc<dyn ExecutionPlan>,
    space: KeySpace,
    plan: Arc<Plan>,
    properties: Arc<PlanProperties>,
}

impl BoundContributionsExec {
    /// Checks the columns and builds the operator.
    ///
    /// `unit` and `keys` are positions in the input; `keys` correspond to the columns of `space` one by one.
    ///
    /// # Guarantee
    /// With b the largest magnitude of a value (1 for counts), the outputs of an aggregate with limits M, m and C change by at
    /// most min(C·m, M)·b in sum when one unit is removed. For AVG, b is hi − lo and covers both outputs together; for
    /// variances, b is w² of its steps and covers all three. For an aggregate that counts a unit once per group, m is 1.
    ///
    /// # Errors
    /// A planning error when a column is missing or of the wrong type, or an interval is empty.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        unit: usize,
        keys: Vec<usize>,
        space: KeySpace,
        inputs: Vec<AggregateInput>,
        hash: LateKey,
    ) -> Result<Self> {
        let schema = input.schema();
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type()).collect();
        if unit >= types.len() {
            return plan_err!("the unit column is missing");
        }
        if keys.len() != space.columns().len() {
            return plan_err!("the key space has other columns than the keys");
        }
        for (key, column) in keys.iter().zip(space.columns()) {
            if types.get(*key) != Some(&column.data_type()) {
                return plan_err!("a key is missing or has another type than its key space");
            }
        }
        for input in &inputs {
            input.kind.check(&types)?;
            if input.ladder.as_ref().is_some_and(|rungs| !rungs.is_sorted() || rungs.is_empty()) {
                return plan_err!("the bounds of a ladder ascend");
            }
        }
        let schema = output_schema(&schema, &keys, &inputs)?;
        let properties = Arc::new(properties(&input, schema));
        let plan = Arc::new(Plan { unit, keys, inputs, hash });
        Ok(Self { input, space, plan, properties })
    }

    fn unit_column(&self) -> Arc<dyn PhysicalExpr> {
        let schema = self.input.schema();
        Arc::new(Column::new(schema.field(self.plan.unit).name(), self.plan.unit))
    }
}

/// The columns of the output: the keys, then every aggregate's outputs as Decimal128(38, 0).
///
/// # Errors
/// A planning error when a key column is missing.
pub(crate) fn output_schema(
    input: &Schema,
    keys: &[usize],
    inputs: &[AggregateInput],
) -> Result<SchemaRef> {
    let mut fields: Vec<FieldRef> = Vec::new();
    for key in keys {
        let Some(field) = input.fields().get(*key) else {
            return plan_err!("a key column is missing");
        };
        fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
    }
    for (i, input) in inputs.iter().enumerate() {
        for part in 0..input.outputs() {
            fields.push(Arc::new(Field::new(format!("bounded_{i}_{part}"), SUM_TYPE, false)));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// No promise of the input about its values or their order holds for the output.
fn properties(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
        EmissionType::Final,
        Boundedness::Bounded,
    )
}

impl DisplayAs for BoundContributionsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let name = |column: &usize| format!("{}@{column}", schema.field(*column).name());
        let unit = name(&self.plan.unit);
        let keys = self.plan.keys.iter().map(name).collect::<Vec<_>>().join(", ");
        let inputs = self.plan.inputs.len();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BoundContributionsExec: unit={unit}, keys=[{keys}], inputs={inputs}")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "unit={unit}")?;
                writeln!(f, "keys=[{keys}]")
            }
        }
    }
}

/// Methods that are not overridden keep DataFusion's defaults, and tests check these: no fetch, no limit, no filter
/// passed down, no projection swapped, no statistics. Each would change what is counted or reveal it.
impl ExecutionPlan for BoundContributionsExec {
    fn name(&self) -> &'static str {
        "BoundContributionsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::KeyPartitioned(vec![
            self.unit_column(),
        ])])
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
            return internal_err!("BoundContributionsExec has one input");
        };
        let Plan { unit, keys, inputs, hash } = self.plan.as_ref();
        let space = self.space.clone();
        Ok(Arc::new(Self::new(input, *unit, keys.clone(), space, inputs.clone(), hash.clone())?))
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
        // A unit with rows in several partitions would be bounded once in each of them.
        let satisfied = self.input_distribution_requirements().child_satisfaction(
            0,
            self.input.as_ref(),
            ChildSatisfactionOptions::new(),
        )?;
        if satisfied != PartitioningSatisfaction::Exact {
            return internal_err!("the rows of a unit are spread over partitions");
        }
        let reservation = MemoryConsumer::new(format!("BoundContributionsExec[{partition}]"))
            .register(context.memory_pool());
        let rows = self.input.execute(partition, context)?;
        let Some(hash) = self.plan.hash.key() else {
            return internal_err!("contributions are bounded after the query is charged");
        };
        let Plan { unit, keys, inputs, hash: _ } = self.plan.as_ref();
        let sources = Sources::new(inputs)?;
        let task = Task { unit: *unit, keys: keys.clone(), inputs: inputs.clone(), sources, hash };
        let (space, task) = (self.space.clone(), Arc::new(task));
        let batch = run(rows, space, task, self.schema(), reservation);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(batch))))
    }
}

/// Reads one partition and returns its totals for every key.
async fn run(
    mut rows: SendableRecordBatchStream,
    space: KeySpace,
    task: Arc<Task>,
    schema: SchemaRef,
    reservation: MemoryReservation,
) -> Result<RecordBatch> {
    let input = rows.schema();
    let unit_type = input.field(task.unit).data_type();
    let mut holder = Holder::new(&task, space.index()?, unit_type)?;
    while let Some(batch) = rows.next().await {
        holder.push(&batch?)?;
        reservation.try_resize(holder.size()).map_err(|_| failed())?;
    }
    // A dropped query stops between two batches, and between two buckets.
    let mut counting = Counting::new(holder)?;
    reservation.try_resize(counting.size()).map_err(|_| failed())?;
    while counting.next_batch()? {
        tokio::task::yield_now().await;
    }
    let mut split = counting.split();
    while split.next_batch()? {
        reservation.try_resize(split.size()).map_err(|_| failed())?;
        tokio::task::yield_now().await;
    }
    let mut totals = split.totals()?;
    while totals.next_bucket()? {
        tokio::task::yield_now().await;
    }
    let (keys, sums) = totals.into_sums();
    let mut columns: Vec<ArrayRef> = keys.columns;
    for sums in sums {
        columns.push(Arc::new(Decimal128Array::from(sums).with_precision_and_scale(38, 0)?));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(keys.len));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
