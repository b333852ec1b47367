//! `CountPlacesExec`: counts rows by group and place, for quantiles and other choices on a line.
//!
//! In: bounded rows, with group columns and a place on the axis of candidates. Out: the groups, the place and the number of
//! rows, for every group of a known key space and every place that a row has. The places of an axis are few, so that each
//! group and place has a counter of its own, where a general aggregation looks up texts in a hash table as large as all of
//! them. It guarantees that partitions add up: each output row counts rows of its own partition, each once.
//!
//! ```text
//! PrivatizeExec                                          adds the partitions' rows up
//!   CountPlacesExec: groups=[city@0], place=place@1
//!     SampleContributionsExec: unit=user_id@0, groups=[city@1], …
//! ```

use std::fmt;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
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
use futures::{StreamExt, TryStreamExt, stream};

use super::bound_contributions::{KeyIndex, KeySpace, OUTSIDE};
use crate::grid::{failed, passing};

#[cfg(test)]
mod tests;

/// The most counters in a partition: 16 MiB.
const MOST_COUNTERS: usize = 1 << 21;

/// The rows of one output batch.
const BATCH: usize = 8_192;

/// The operator. The group columns come first, then the place; the FILTER may be any column.
#[derive(Debug)]
pub(crate) struct CountPlacesExec {
    input: Arc<dyn ExecutionPlan>,
    space: KeySpace,
    /// The number of places on the axis.
    places: u64,
    filter: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl CountPlacesExec {
    /// Whether the counters of so many groups and places are few enough.
    pub(crate) fn fits(groups: usize, places: u64) -> bool {
        let width = usize::try_from(places).ok().and_then(|places| places.checked_add(1));
        width.and_then(|width| width.checked_mul(groups)).is_some_and(|n| n <= MOST_COUNTERS)
    }

    /// Checks the columns and builds the operator.
    ///
    /// The input's first columns are the groups, in the order of `space`, and behind them the place, an Int64. The output has
    /// these columns, and `sum0`, the number of rows that pass `filter`, as an Int64.
    ///
    /// # Guarantee
    /// For all inputs, the output rows of all partitions with one group and place add up to the number of input rows that have
    /// this group and place, and pass the filter. Every place beyond the axis counts as the first one behind it. Rows with other
    /// groups, and rows without a place, count nowhere. Exact.
    ///
    /// # Errors
    /// A planning error when a column is missing or of the wrong type, or the counters are too many.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        space: KeySpace,
        places: u64,
        filter: Option<usize>,
    ) -> Result<Self> {
        let schema = input.schema();
        let groups = space.columns();
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type()).collect();
        let of_groups = groups.iter().map(|column| column.data_type());
        if !of_groups.zip(&types).all(|(group, own)| group == *own)
            || types.get(groups.len()) != Some(&&DataType::Int64)
        {
            return plan_err!("a group or the place is missing, or has another type");
        }
        if filter.is_some_and(|filter| types.get(filter) != Some(&&DataType::Boolean)) {
            return plan_err!("a filter is not a Boolean column");
        }
        if !Self::fits(space.len(), places) {
            return plan_err!("there are too many places");
        }
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(output_schema(&schema, groups.len())),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Ok(Self { input, space, places, filter, properties })
    }
}

fn output_schema(input: &Schema, groups: usize) -> SchemaRef {
    let keys = input.fields().iter().take(groups + 1);
    let keys =
        keys.map(|field| -> FieldRef { Arc::new(field.as_ref().clone().with_nullable(true)) });
    let count: FieldRef = Arc::new(Field::new("sum0", DataType::Int64, false));
    Arc::new(Schema::new(keys.chain([count]).collect::<Vec<_>>()))
}

impl DisplayAs for CountPlacesExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let name = |column: usize| format!("{}@{column}", schema.field(column).name());
        let groups = (0..self.space.columns().len()).map(name).collect::<Vec<_>>().join(", ");
        let place = name(self.space.columns().len());
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "CountPlacesExec: groups=[{groups}], place={place}")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "groups=[{groups}]")?;
                writeln!(f, "place={place}")
            }
        }
    }
}

/// Methods that are not overridden keep DataFusion's defaults, and a test checks these: no fetch, no limit, no filter passed
/// down, no statistics.
impl ExecutionPlan for CountPlacesExec {
    fn name(&self) -> &'static str {
        "CountPlacesExec"
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
            return internal_err!("CountPlacesExec has one input");
        };
        Ok(Arc::new(Self::new(input, self.space.clone(), self.places, self.filter)?))
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
        let reservation = MemoryConsumer::new(format!("CountPlacesExec[{partition}]"))
            .register(context.memory_pool());
        let counters = Counters::new(&self.space, self.places, self.filter)?;
        let bytes = counters.counts.capacity() * size_of::<u64>();
        reservation.try_resize(bytes).map_err(|_| failed())?;
        let rows = self.input.execute(partition, context)?;
        let counted = Counted { counters, schema: self.schema(), next: 0, _held: reservation };
        let batches = stream::once(read(rows, counted))
            .map_ok(|counted| stream::try_unfold(counted, next))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// The counters of one partition: for each group, one for each place, and one for all places beyond the axis.
struct Counters {
    columns: Vec<ArrayRef>,
    index: KeyIndex,
    counts: Vec<u64>,
    width: usize,
    filter: Option<usize>,
    located: Vec<u32>,
}

impl Counters {
    fn new(space: &KeySpace, places: u64, filter: Option<usize>) -> Result<Self> {
        let width = usize::try_from(places).map_err(|_| failed())? + 1;
        Ok(Self {
            columns: space.columns().to_vec(),
            index: space.index()?,
            counts: vec![0; space.len() * width],
            width,
            filter,
            located: Vec::new(),
        })
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = self.columns.len();
        self.index.locate(&batch.columns()[..groups], batch.num_rows(), &mut self.located)?;
        let place = batch.column(groups).as_primitive_opt::<Int64Type>().ok_or_else(failed)?;
        let filter = self.filter.map(|filter| passing(batch.column(filter).as_boolean()));
        let nulls = place.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, (group, place)) in self.located.iter().zip(place.values()).enumerate() {
            let passes = nulls.is_none_or(|nulls| nulls.is_valid(row))
                && filter.as_ref().is_none_or(|filter| filter.is_valid(row));
            if passes && *group != OUTSIDE {
                let place = usize::try_from(*place).map_err(|_| failed())?.min(self.width - 1);
                self.counts[*group as usize * self.width + place] += 1;
            }
        }
        Ok(())
    }
}

/// The output of one partition.
struct Counted {
    counters: Counters,
    schema: SchemaRef,
    /// The next counter.
    next: usize,
    /// The memory of the counters, until they have come out.
    _held: MemoryReservation,
}

/// Counts the rows of one partition.
async fn read(mut rows: SendableRecordBatchStream, mut counted: Counted) -> Result<Counted> {
    while let Some(batch) = rows.next().await {
        counted.counters.add(&batch?)?;
    }
    Ok(counted)
}

/// The next batch of counts.
async fn next(mut counted: Counted) -> Result<Option<(RecordBatch, Counted)>> {
    Ok(counted.next_batch()?.map(|batch| (batch, counted)))
}

impl Counted {
    /// The next counters that are not 0.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Counters { columns, counts, width, .. } = &self.counters;
        let (mut groups, mut place, mut count) = (Vec::new(), Vec::new(), Vec::new());
        while let (Some(rows), true) = (counts.get(self.next), count.len() < BATCH) {
            if *rows > 0 {
                groups.push(u32::try_from(self.next / width).map_err(|_| failed())?);
                place.push(i64::try_from(self.next % width).map_err(|_| failed())?);
                count.push(i64::try_from(*rows).map_err(|_| failed())?);
            }
            self.next += 1;
        }
        if count.is_empty() {
            return Ok(None);
        }
        let groups = UInt32Array::from(groups);
        let keys = columns.iter().map(|column| take(column, &groups, None));
        let mut all = keys.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
        all.push(Arc::new(Int64Array::from(place)));
        all.push(Arc::new(Int64Array::from(count)));
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), all)?))
    }
}
