//! `CountPlacesExec`: counts rows by group and place, for quantiles and other choices on a line.
//!
//! In: bounded rows, with group columns and a place on the axis of candidates. Out: the groups, the
//! place and the number of rows, for every group of a known key space and every place that a row
//! has, in the order of groups and places. Where these are few, each has a counter of its own.
//! Otherwise the number of each row's group and place is written down, until counters for all would
//! take less; the numbers are sorted. Where memory is short, this is done several times, each time
//! for the rows so far. Neither looks up texts in a hash table as large as all groups and places.
//! It guarantees that output rows add up: each counts rows of its own partition, each once.
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

/// So many counters a partition has from the start, 8 MiB; numbers of more groups and places are
/// written down at first.
const MANY: usize = 1 << 21;

/// Where groups are no more than these, each has a list of its own, which takes half the space.
const LISTS: usize = 1_024;

/// Rows are counted up to so many, and some of a batch; then counts come out.
const MOST_ROWS: u64 = 1 << 31;

/// The rows of one output batch. Fewer in unit tests, so that groups end where batches do.
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
    /// Whether so many groups and places can be numbered.
    pub fn fits(groups: usize, places: u64) -> bool {
        numbered(groups, places).is_some()
    }

    /// Checks the columns and builds the operator.
    ///
    /// The input's first columns are the groups, in the order of `space`, and behind them the
    /// place, an Int64. The output has these columns, and `sum0`, the number of rows that pass
    /// `filter`, as an Int64.
    ///
    /// # Guarantee
    /// For all inputs, the output rows of all partitions with one group and place add up to the
    /// number of input rows that have this group and place, and pass the filter. Every place beyond
    /// the axis counts as the first one behind it. Rows with other groups, and rows without a
    /// place, count nowhere. Exact.
    ///
    /// # Errors
    /// A planning error when a column is missing or of the wrong type, or the counters are too
    /// many.
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

/// How many numbers groups and places take, one for each group and place, and one for each group
/// beyond the axis.
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
        // What the rows below need has precedence.
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

/// The counts of one partition. The number of a group and place is the group's times the width, and
/// the place.
struct PartitionCounts {
    columns: Vec<ArrayRef>,
    index: KeyIndex,
    numbers: PlaceNumbers,
    /// How many numbers there are.
    all: u64,
    /// The places of the axis, and one for all beyond it.
    width: u64,
    filter: Option<usize>,
    located: Vec<u32>,
    /// The rows since counts came out.
    rows: u64,
}

/// What is known of the numbers of groups and places.
enum PlaceNumbers {
    /// How many rows have each number.
    Counted(Vec<u32>),
    /// The number of each row, less the group's; a list for each group.
    Places(Vec<Vec<u32>>),
    /// The number of each row.
    Listed(Vec<u64>),
}

impl PlaceNumbers {
    /// None, for so many groups and places of each; `few` if they may all have counters.
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

    /// Counts rows of these groups and places, or writes their numbers down.
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

    /// The bytes of what is written down.
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

    /// Brings what is written down into order, with room for so many numbers.
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

    /// For how many numbers a sort by bytes takes room.
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

    /// The bytes of counters for all numbers, if numbers are written down and take as much already.
    fn counters(&self) -> Option<usize> {
        let bytes = usize::try_from(self.all).ok()?.checked_mul(size_of::<u32>())?;
        self.numbers.listed().filter(|listed| *listed >= bytes).map(|_| bytes)
    }

    /// Counts the numbers that are written down.
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

    /// Counts the rows of a batch, or writes their numbers down.
    ///
    /// # Errors
    /// A constant text for a place below the axis, and for a batch with more rows than a counter
    /// can hold besides [`MOST_ROWS`].
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

    /// The first group and place from `next` on that a row has, how many rows have them, and where
    /// to look for those behind them.
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

/// Where the next number is: in which list, and where in it.
type Next = (usize, usize);

/// Counts a row. There are fewer than 2³² since counts came out.
fn count_one(counts: &mut [u32], number: u64) -> Result<()> {
    let at = usize::try_from(number).map_err(|_| failed())?;
    let count = counts.get_mut(at).ok_or_else(failed)?;
    *count = count.checked_add(1).ok_or_else(failed)?;
    Ok(())
}

/// The output of one partition.
struct Counted {
    /// What is not counted yet.
    rows: Option<SendableRecordBatchStream>,
    counts: PartitionCounts,
    schema: SchemaRef,
    next: Next,
    /// The memory of the counts, until all have come out.
    reservation: MemoryReservation,
    /// The most bytes for a list of numbers.
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
    /// Counts the rows that are left, as far as there is memory for them.
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
        // Where memory is limited, it is left to the partitions that still read.
        let room = if self.most == usize::MAX { self.counts.numbers.room() } else { 0 };
        self.counts.numbers.sort(room);
        Ok(())
    }

    /// The next counts that are not 0.
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
