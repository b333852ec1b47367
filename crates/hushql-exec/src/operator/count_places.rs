//! `CountPlacesExec`: counts rows by group and place, for quantiles and other choices on a line.
//!
//! In: bounded rows, with group columns and a place on the axis of candidates. Out: the group, the
//! place and the number of rows, for every pair of a listed group and a place that occurs, in the
//! order of groups and places. If all pairs are few, each has a counter. Otherwise the number of
//! each row's pair is listed, until counters for all pairs would take less memory; the list is
//! sorted at the end. If memory is short, counts come out several times, each time for the rows so
//! far. So no text is looked up in a hash table of all pairs. It guarantees that output rows add
//! up: each counts rows of its own partition, each once.
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
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use num_integer::Integer;

use super::bound_contributions::{KeyIndex, KeySpace, OUTSIDE};
use crate::grid::{failed, passing};

mod radix;
#[cfg(test)]
mod tests;

/// The number of counters that a partition has from the start: 8 MiB. If there are more pairs of
/// group and place, their numbers are listed at first.
const MANY: usize = 1 << 21;

/// Up to this number of groups, each has a list of its own, which takes half the space.
const LISTS: usize = 1_024;

/// After this many rows and the rest of a batch, counts come out.
const MOST_ROWS: u64 = 1 << 31;

/// The rows of one output batch. Unit tests use fewer, so that groups end where batches do.
const BATCH: usize = if cfg!(test) { 64 } else { 8_192 };

/// The operator. The group columns come first, then the place; the FILTER may be any column.
#[derive(Debug)]
pub struct CountPlacesExec {
    input: Arc<dyn ExecutionPlan>,
    space: KeySpace,
    /// The number of places on the axis.
    places: u64,
    filter: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl CountPlacesExec {
    /// Whether all pairs of group and place can be numbered.
    pub fn fits(groups: usize, places: u64) -> bool {
        numbered(groups, places).is_some()
    }

    /// Checks the columns and builds the operator.
    ///
    /// The input's first columns are the groups, in the order of `space`, and then the place, an
    /// Int64. The output has these columns, and `sum0`, the number of rows that pass `filter`, as
    /// an Int64.
    ///
    /// # Guarantee
    /// For all inputs, the output rows of all partitions with one group and place add up to the
    /// number of input rows that have this group and place, and pass the filter. Every place beyond
    /// the axis counts as the first place after it. Rows with other groups, and rows without a
    /// place, are not counted. Exact.
    ///
    /// # Errors
    /// A planning error when a column is missing or of the wrong type, or there are too many
    /// counters.
    pub fn new(
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

    /// The groups, the number of places, and the position of the filter.
    pub fn parts(&self) -> (&KeySpace, u64, Option<usize>) {
        (&self.space, self.places, self.filter)
    }
}

/// The count of all numbers: one for each pair of group and place, and one for each group beyond
/// the axis.
fn numbered(groups: usize, places: u64) -> Option<u64> {
    places.checked_add(1)?.checked_mul(u64::try_from(groups).ok()?)
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

/// Methods that are not overridden keep DataFusion's defaults, and a test checks these: no fetch,
/// no limit, no filter passed down, no statistics.
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
        let counts = PartitionCounts::new(&self.space, self.places, self.filter)?;
        reservation.try_resize(counts.numbers.size()).map_err(|_| failed())?;
        // The operators below this one need memory more urgently.
        let partitions = self.properties.partitioning.partition_count();
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => limit / 8 / partitions.max(1),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let rows = Some(self.input.execute(partition, context)?);
        let schema = self.schema();
        let counted = Counted { rows, counts, schema, next: (0, 0), reservation, most };
        let batches = stream::try_unfold(counted, next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// The counts of one partition. The number of a pair is group · width + place.
struct PartitionCounts {
    columns: Vec<ArrayRef>,
    index: KeyIndex,
    numbers: PlaceNumbers,
    /// The count of all numbers.
    all: u64,
    /// The number of places on the axis, plus one for all places beyond it.
    width: u64,
    filter: Option<usize>,
    located: Vec<u32>,
    /// The number of rows since counts last came out.
    rows: u64,
}

/// The pairs of group and place that were read.
enum PlaceNumbers {
    /// The number of rows with each number.
    Counted(Vec<u32>),
    /// The place of each row, in a list for each group.
    Places(Vec<Vec<u32>>),
    /// The number of each row.
    Listed(Vec<u64>),
}

impl PlaceNumbers {
    /// No rows yet; `few` is the number of counters, if all pairs get one.
    fn new(groups: usize, width: u64, few: Option<usize>) -> Self {
        if let Some(few) = few {
            return Self::Counted(vec![0; few]);
        }
        if groups <= LISTS && width <= 1 << 32 {
            return Self::Places(vec![Vec::new(); groups]);
        }
        Self::Listed(Vec::new())
    }

    /// Forgets all rows.
    fn clear(&mut self) {
        match self {
            Self::Counted(counts) => counts.fill(0),
            Self::Places(lists) => lists.fill(Vec::new()),
            Self::Listed(numbers) => *numbers = Vec::new(),
        }
    }

    /// Counts rows of these groups and places, or lists their numbers.
    fn extend(&mut self, rows: impl Iterator<Item = (u32, u64)>, width: u64) -> Result<()> {
        match self {
            Self::Counted(counts) => {
                for (group, place) in rows {
                    count_one(counts, u64::from(group) * width + place)?;
                }
            }
            Self::Places(lists) => {
                for (group, place) in rows {
                    let list = lists.get_mut(group as usize).ok_or_else(failed)?;
                    list.push(u32::try_from(place).map_err(|_| failed())?);
                }
            }
            Self::Listed(numbers) => {
                numbers.extend(rows.map(|(group, place)| u64::from(group) * width + place));
            }
        }
        Ok(())
    }

    /// The bytes of the lists.
    fn listed(&self) -> Option<usize> {
        match self {
            Self::Counted(_) => None,
            Self::Places(lists) => Some(lists.iter().map(|list| size_of_val(&**list)).sum()),
            Self::Listed(listed) => Some(size_of_val(&**listed)),
        }
    }

    /// The bytes in use.
    fn size(&self) -> usize {
        match self {
            Self::Counted(counts) => counts.capacity() * size_of::<u32>(),
            Self::Places(lists) => {
                lists.iter().map(|list| list.capacity() * size_of::<u32>()).sum()
            }
            Self::Listed(numbers) => numbers.capacity() * size_of::<u64>(),
        }
    }

    /// Sorts the lists, with room for this many numbers.
    fn sort(&mut self, room: usize) {
        match self {
            Self::Places(lists) => {
                let mut room = vec![0; room];
                lists.iter_mut().for_each(|list| radix::sort(list, &mut room));
            }
            Self::Listed(numbers) => numbers.sort_unstable(),
            Self::Counted(_) => {}
        }
    }

    /// The number of numbers for which a sort by bytes takes room.
    fn room(&self) -> usize {
        match self {
            Self::Places(lists) => lists.iter().map(|list| radix::room(list)).max().unwrap_or(0),
            Self::Counted(_) | Self::Listed(_) => 0,
        }
    }
}

impl PartitionCounts {
    fn new(space: &KeySpace, places: u64, filter: Option<usize>) -> Result<Self> {
        let all = numbered(space.len(), places).ok_or_else(failed)?;
        let few = usize::try_from(all).ok().filter(|numbers| *numbers <= MANY);
        let width = places.saturating_add(1);
        Ok(Self {
            columns: space.columns().to_vec(),
            index: space.index()?,
            numbers: PlaceNumbers::new(space.len(), width, few),
            all,
            width,
            filter,
            located: Vec::new(),
            rows: 0,
        })
    }

    /// Forgets all rows.
    fn clear(&mut self) {
        self.rows = 0;
        self.numbers.clear();
    }

    /// The bytes of counters for all numbers, once lists take as much.
    fn counters(&self) -> Option<usize> {
        let bytes = usize::try_from(self.all).ok()?.checked_mul(size_of::<u32>())?;
        self.numbers.listed().filter(|listed| *listed >= bytes).map(|_| bytes)
    }

    /// Counts the listed numbers.
    fn count_listed(&mut self) -> Result<()> {
        let mut counts = vec![0; usize::try_from(self.all).map_err(|_| failed())?];
        match &self.numbers {
            PlaceNumbers::Counted(_) => return Ok(()),
            PlaceNumbers::Places(lists) => {
                for (group, list) in (0_u64..).zip(lists) {
                    let first = group * self.width;
                    let mut numbers = list.iter().map(|place| first + u64::from(*place));
                    numbers.try_for_each(|number| count_one(&mut counts, number))?;
                }
            }
            PlaceNumbers::Listed(listed) => {
                listed.iter().try_for_each(|number| count_one(&mut counts, *number))?;
            }
        }
        self.numbers = PlaceNumbers::Counted(counts);
        Ok(())
    }

    /// Counts the rows of a batch, or lists their numbers.
    ///
    /// # Errors
    /// An error with a constant text for a place below the axis, and for a batch with more rows
    /// than a counter can hold besides [`MOST_ROWS`].
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = u64::try_from(batch.num_rows()).ok().filter(|rows| *rows < MOST_ROWS);
        self.rows += rows.ok_or_else(failed)?;
        let groups = self.columns.len();
        self.index.locate(&batch.columns()[..groups], batch.num_rows(), &mut self.located)?;
        let place = batch.column(groups).as_primitive_opt::<Int64Type>().ok_or_else(failed)?;
        let filter = self.filter.map(|filter| passing(batch.column(filter).as_boolean()));
        let passing = NullBuffer::union(filter.as_ref(), place.nulls());
        let counts = |(row, (group, place)): (usize, (&u32, &i64))| {
            let passes = passing.as_ref().is_none_or(|passing| passing.is_valid(row));
            (*group != OUTSIDE && passes).then_some((*group, *place))
        };
        let rows = self.located.iter().zip(place.values()).enumerate().filter_map(counts);
        let mut is_below = false;
        let places = rows.map(|(group, place)| {
            is_below |= place < 0;
            (group, place.unsigned_abs().min(self.width - 1))
        });
        self.numbers.extend(places, self.width)?;
        if is_below { Err(failed()) } else { Ok(()) }
    }

    /// The first pair of group and place from `next` on that a row has, its number of rows, and the
    /// position after it.
    fn count(&self, (mut list, mut next): (usize, usize)) -> Option<(u64, u64, u64, Next)> {
        match &self.numbers {
            PlaceNumbers::Counted(counts) => {
                let at = next + counts.get(next..)?.iter().position(|count| *count > 0)?;
                let (group, place) = u64::try_from(at).ok()?.div_rem(&self.width);
                Some((group, place, counts[at].into(), (list, at + 1)))
            }
            PlaceNumbers::Places(sorted) => {
                while sorted.get(list)?.len() == next {
                    (list, next) = (list + 1, 0);
                }
                let equal = sorted[list].get(next..)?.chunk_by(u32::eq).next()?;
                let rows = u64::try_from(equal.len()).ok()?;
                let group = u64::try_from(list).ok()?;
                Some((group, equal[0].into(), rows, (list, next + equal.len())))
            }
            PlaceNumbers::Listed(sorted) => {
                let equal = sorted.get(next..)?.chunk_by(u64::eq).next()?;
                let (group, place) = equal[0].div_rem(&self.width);
                let rows = u64::try_from(equal.len()).ok()?;
                Some((group, place, rows, (list, next + equal.len())))
            }
        }
    }
}

/// The position of the next number: its list, and its place in the list.
type Next = (usize, usize);

/// Counts a row. Since counts last came out, there are fewer than 2³² rows.
fn count_one(counts: &mut [u32], number: u64) -> Result<()> {
    let at = usize::try_from(number).map_err(|_| failed())?;
    let count = counts.get_mut(at).ok_or_else(failed)?;
    *count = count.checked_add(1).ok_or_else(failed)?;
    Ok(())
}

/// The output of one partition.
struct Counted {
    /// The rows that are not counted yet.
    rows: Option<SendableRecordBatchStream>,
    counts: PartitionCounts,
    schema: SchemaRef,
    next: Next,
    /// The memory of the counts, held until all have come out.
    reservation: MemoryReservation,
    /// The most bytes for lists.
    most: usize,
}

/// The next batch of counts.
async fn next(mut counted: Counted) -> Result<Option<(RecordBatch, Counted)>> {
    loop {
        if let Some(batch) = counted.next_batch()? {
            return Ok(Some((batch, counted)));
        }
        let Some(rows) = counted.rows.take() else { return Ok(None) };
        counted.read(rows).await?;
    }
}

impl Counted {
    /// Counts the remaining rows, as far as the memory suffices.
    async fn read(&mut self, mut rows: SendableRecordBatchStream) -> Result<()> {
        self.next = (0, 0);
        self.counts.clear();
        while let Some(batch) = rows.next().await {
            self.counts.add(&batch?)?;
            let mut fits = self.reservation.try_resize(self.counts.numbers.size()).is_ok();
            if let Some(more) = self.counts.counters().filter(|_| fits) {
                let both = self.counts.numbers.size().saturating_add(more);
                if both <= self.most && self.reservation.try_resize(both).is_ok() {
                    self.counts.count_listed()?;
                    fits = self.reservation.try_resize(self.counts.numbers.size()).is_ok();
                }
            }
            let is_full = match self.counts.numbers {
                PlaceNumbers::Counted(_) if !fits => return Err(failed()),
                PlaceNumbers::Counted(_) => false,
                PlaceNumbers::Places(_) | PlaceNumbers::Listed(_) => {
                    !fits || self.counts.numbers.size() > self.most
                }
            };
            if is_full || self.counts.rows >= MOST_ROWS {
                self.rows = Some(rows);
                break;
            }
        }
        // If memory is limited, it is left to the partitions that still read.
        let room = if self.most == usize::MAX { self.counts.numbers.room() } else { 0 };
        self.counts.numbers.sort(room);
        Ok(())
    }

    /// The next counts other than 0.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut groups = Vec::with_capacity(BATCH);
        let (mut place, mut count) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let before = self.next.0;
        while count.len() < BATCH
            && let Some((group, at, rows, next)) = self.counts.count(self.next)
        {
            groups.push(u32::try_from(group).map_err(|_| failed())?);
            place.push(i64::try_from(at).map_err(|_| failed())?);
            count.push(i64::try_from(rows).map_err(|_| failed())?);
            self.next = next;
        }
        if let PlaceNumbers::Places(lists) = &mut self.counts.numbers {
            lists[before..self.next.0].fill(Vec::new());
        }
        if count.is_empty() {
            return Ok(None);
        }
        let groups = UInt32Array::from(groups);
        let keys = self.counts.columns.iter().map(|column| take(column, &groups, None));
        let mut all = keys.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
        all.push(Arc::new(Int64Array::from(place)));
        all.push(Arc::new(Int64Array::from(count)));
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), all)?))
    }
}
