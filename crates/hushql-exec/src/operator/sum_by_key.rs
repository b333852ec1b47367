//! `SumByKeyExec`: counts rows and adds up values by key, for tables in which each row is a unit.
//!
//! In: rows with key columns and arguments. Out: for each partition one row for every key of a
//! listed key space, with the exact integer of every aggregate (zero for keys without rows). If
//! each row is a unit, clamping its values to their interval is the only bound that it needs. Rows
//! are added up as they arrive, and none is kept. It guarantees that the output rows of all
//! partitions add up to the integers of all rows, exactly, for every order, batching and
//! partitioning of the rows.
//!
//! ```text
//! PrivatizeExec                                          adds the partitions' integers up
//!   SumByKeyExec: keys=[city@0], inputs=2
//!     PrivateScanExec
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use super::bound_contributions::{
    AggregateInput, ColumnSums, KeyIndex, KeySpace, ValueSources, check, is_sum_of_rows,
    output_schema, reserved, with_keys,
};
use crate::grid::failed;

#[cfg(test)]
mod tests;

/// The operator. The key columns come first; arguments and FILTERs may be any columns. It has as
/// many partitions as its input.
#[derive(Debug)]
pub struct SumByKeyExec {
    input: Arc<dyn ExecutionPlan>,
    space: KeySpace,
    inputs: Arc<Vec<AggregateInput>>,
    sources: Arc<ValueSources>,
    properties: Arc<PlanProperties>,
    /// The memory of all partitions. The first one reserves it for all: rows of one partition must
    /// not decide whether there is memory for another.
    memory: Mutex<Option<MemoryReservation>>,
}

impl SumByKeyExec {
    /// Checks the columns and builds the operator.
    ///
    /// The input's first columns are the keys, in the order of `space`. The output has these
    /// columns, and the outputs of every aggregate as Decimal128(38, 0).
    ///
    /// # Guarantee
    /// For all inputs, the output rows of all partitions with one key add up to the aggregates over
    /// the input rows with this key; rows with other keys are not counted. With b the largest
    /// magnitude of a value (1 for counts), removing one row changes an aggregate by at most b, and
    /// only for one key. For AVG, b is hi − lo and covers both outputs together; for variances, b
    /// is w² of its steps and covers all three. Exact.
    ///
    /// # Errors
    /// A planning error when a column is missing or of the wrong type, an interval is empty, the
    /// keys are undeclared, or an aggregate is not a sum over rows.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        space: KeySpace,
        inputs: Vec<AggregateInput>,
    ) -> Result<Self> {
        let schema = input.schema();
        let keys: Vec<usize> = (0..space.columns().len()).collect();
        check(&schema, &keys, &space, &inputs)?;
        if space.is_of_the_data() {
            return plan_err!("rows are added up by keys that are known");
        }
        if !inputs.iter().all(is_sum_of_rows) {
            return plan_err!("a row that is a unit of its own is only added up");
        }
        let schema = output_schema(&schema, &keys, &inputs)?;
        let sources = Arc::new(ValueSources::new(&inputs)?);
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        let (inputs, memory) = (Arc::new(inputs), Mutex::new(None));
        Ok(Self { input, space, inputs, sources, properties, memory })
    }

    /// The key space and the aggregates.
    pub fn parts(&self) -> (&KeySpace, &[AggregateInput]) {
        (&self.space, &self.inputs)
    }

    /// The bytes that each partition reserves. They do not depend on the rows.
    pub fn reserved(&self) -> usize {
        reserved(&self.inputs, &self.space)
    }

    /// Reserves the memory of all partitions, unless it is already reserved. The operator holds it.
    ///
    /// # Errors
    /// An error with a constant text if there is too little.
    fn reserve(&self, context: &TaskContext) -> Result<()> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.is_none() {
            let partitions = self.properties.partitioning.partition_count();
            let all = MemoryConsumer::new(self.name()).register(context.memory_pool());
            all.try_resize(self.reserved().saturating_mul(partitions)).map_err(|_| failed())?;
            *memory = Some(all);
        }
        Ok(())
    }
}

impl DisplayAs for SumByKeyExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let name = |column: usize| format!("{}@{column}", schema.field(column).name());
        let keys = (0..self.space.columns().len()).map(name).collect::<Vec<_>>().join(", ");
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "SumByKeyExec: keys=[{keys}], inputs={}", self.inputs.len())
            }
            DisplayFormatType::TreeRender => writeln!(f, "keys=[{keys}]"),
        }
    }
}

/// Methods that are not overridden keep DataFusion's defaults, and a test checks these: no fetch,
/// no limit, no filter passed down, no statistics.
impl ExecutionPlan for SumByKeyExec {
    fn name(&self) -> &'static str {
        "SumByKeyExec"
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
            return internal_err!("SumByKeyExec has one input");
        };
        Ok(Arc::new(Self::new(input, self.space.clone(), self.inputs.to_vec())?))
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
        self.reserve(&context)?;
        let mut rows = self.input.execute(partition, context)?;
        let (inputs, sources) = (Arc::clone(&self.inputs), Arc::clone(&self.sources));
        let mut totals = PartitionTotals::new(self.space.clone(), inputs, sources)?;
        let schema = self.schema();
        let summed = async move {
            while let Some(batch) = rows.next().await {
                totals.add(&batch?)?;
            }
            totals.finish(schema)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(summed))))
    }
}

/// The totals of one partition.
struct PartitionTotals {
    space: KeySpace,
    inputs: Arc<Vec<AggregateInput>>,
    sources: Arc<ValueSources>,
    index: KeyIndex,
    columns: Option<ColumnSums>,
    places: Vec<u32>,
}

impl PartitionTotals {
    fn new(
        space: KeySpace,
        inputs: Arc<Vec<AggregateInput>>,
        sources: Arc<ValueSources>,
    ) -> Result<Self> {
        let index = space.index()?;
        let columns = ColumnSums::new(&inputs, &sources, space.len());
        Ok(Self { space, inputs, sources, index, columns, places: Vec::new() })
    }

    /// Adds up the rows of a batch.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (rows, groups) = (batch.num_rows(), self.space.columns().len());
        if let Some(columns) = self.columns.as_mut().filter(|_| rows > 0) {
            let keys = batch.columns().get(..groups).ok_or_else(failed)?;
            self.index.locate(keys, rows, &mut self.places)?;
            let places = (groups > 0).then_some(self.places.as_slice());
            columns.add(&self.sources.read(batch)?, places, rows, self.space.len())?;
        }
        Ok(())
    }

    /// One row for every key.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice.
    fn finish(self, schema: SchemaRef) -> Result<RecordBatch> {
        let outputs = self.inputs.iter().map(AggregateInput::outputs).sum();
        let mut sums = vec![vec![0_i128; self.space.len()]; outputs];
        if let Some(columns) = self.columns {
            columns.add_to(&self.inputs, &self.sources, &mut sums)?;
        }
        with_keys(schema, self.space.columns(), self.space.len(), sums)
    }
}
