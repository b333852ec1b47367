//! `LookUpExec`: joins rows with a table by an index of the table, which may be kept for later
//! statements.
//!
//! In: rows, and the plan of a table. Out: the rows whose key is in the table, with or without the
//! columns of the matching table rows. It yields exactly the rows of the hash join that it
//! replaces. The table is read once for all partitions, and not at all if its index was kept. An
//! index is kept only if the table comes from files that were verified and stay open. The engine
//! reserves the memory for all kept indexes when it starts.
//!
//! ```text
//! LookUpExec: l_orderkey = o_orderkey
//!   PrivateScanExec: lineitem
//!   LookUpExec: o_custkey = c_custkey, semi         not run if the index of orders is kept
//!     PrivateScanExec: orders
//!     PrivateScanExec: customer
//! ```

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{TryFutureExt, ready};
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::grid::failed;
use row_keys::NONE;

mod close;
mod index;
mod kept;
mod row_keys;
#[cfg(test)]
mod tests;

pub use index::{LookUp, OF_A_ROW};
use kept::InUse;
pub use kept::{KeptLookUps, RowsIdentity};

/// How long a statement waits for an index that another one makes. After that it makes its own.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 20_000 });

/// Which columns come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookUpColumns {
    /// The columns of the rows.
    Rows,
    /// The columns of the rows, then those of the table.
    RowsThenTable,
    /// The columns of the table, then those of the rows.
    TableThenRows,
}

/// The keys, the columns, and where the index is kept.
#[derive(Debug, Clone)]
pub struct By {
    /// The key's column in the rows.
    pub of_rows: usize,
    /// The key's column in the table.
    pub of_table: usize,
    /// Which columns come out.
    pub columns: LookUpColumns,
    /// Where the index is kept.
    pub kept: Arc<KeptLookUps>,
    /// Identifies the index: the rows of the table, and the column that is the key.
    pub identity: RowsIdentity,
}

/// The operator.
pub struct LookUpExec {
    rows: Arc<dyn ExecutionPlan>,
    table: Arc<dyn ExecutionPlan>,
    by: By,
    index: Arc<OnceCell<ReservedIndex>>,
    properties: Arc<PlanProperties>,
}

/// Leaves out private rows.
impl fmt::Debug for LookUpExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookUpExec").field("by", &self.by).finish_non_exhaustive()
    }
}

impl LookUpExec {
    /// Joins `rows` with `table`, whose rows `by` identifies. The output columns have this schema.
    pub fn new(
        rows: Arc<dyn ExecutionPlan>,
        table: Arc<dyn ExecutionPlan>,
        by: By,
        schema: SchemaRef,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(rows.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { rows, table, by, index: Arc::default(), properties }
    }

    /// The rows whose keys are looked up.
    pub fn rows(&self) -> &Arc<dyn ExecutionPlan> {
        &self.rows
    }

    /// The parameters of the join.
    pub fn by(&self) -> &By {
        &self.by
    }
}

impl DisplayAs for LookUpExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |plan: &Arc<dyn ExecutionPlan>, at: usize| {
            plan.schema().fields().get(at).map_or_else(String::new, |field| field.name().clone())
        };
        let (own, other) = (name(&self.rows, self.by.of_rows), name(&self.table, self.by.of_table));
        write!(f, "LookUpExec: {own} = {other}, {:?}", self.by.columns)
    }
}

impl ExecutionPlan for LookUpExec {
    fn name(&self) -> &'static str {
        "LookUpExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.rows, &self.table]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(table), Some(rows), true) = (children.pop(), children.pop(), children.is_empty())
        else {
            return internal_err!("LookUpExec has two inputs");
        };
        Ok(Arc::new(Self::new(rows, table, self.by.clone(), self.schema())))
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

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let make = Make {
            schema: self.schema(),
            columns: self.by.columns,
            of_rows: self.by.of_rows,
            most: context.session_config().batch_size(),
        };
        let rows = self.rows.execute(partition, Arc::clone(&context))?;
        let (table, by) = (Arc::clone(&self.table), self.by.clone());
        let index = indexed(Arc::clone(&self.index), table, by, context);
        let joined = index.map_ok(move |look_up| {
            rows.and_then(move |batch| ready(make.clone().joined(&look_up, batch))).try_flatten()
        });
        let joined = joined.try_flatten_stream();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), joined)))
    }
}

/// An index, and the statement's memory for it.
struct ReservedIndex {
    look_up: Arc<LookUp>,
    /// Where concurrent statements find the index, and the memory for it; `None` if the engine's
    /// reserved memory holds the index.
    _in_use: Option<(Arc<InUse>, Arc<MemoryReservation>)>,
}

/// The index of a table, made by the first partition that needs it.
async fn indexed(
    once: Arc<OnceCell<ReservedIndex>>,
    table: Arc<dyn ExecutionPlan>,
    by: By,
    context: Arc<TaskContext>,
) -> Result<Arc<LookUp>> {
    let index = once.get_or_try_init(|| index(&table, &by, &context)).await?;
    Ok(Arc::clone(&index.look_up))
}

/// The index of a table: the kept one, the one that another statement is making, or a new one.
async fn index(
    table: &Arc<dyn ExecutionPlan>,
    by: &By,
    context: &Arc<TaskContext>,
) -> Result<ReservedIndex> {
    if let Some(look_up) = by.kept.find(&by.identity) {
        return Ok(ReservedIndex { look_up, _in_use: None });
    }
    let pool = context.memory_pool();
    let memory = Arc::new(MemoryConsumer::new("LookUpExec").register(pool));
    let in_use = by.kept.in_use(&by.identity);
    let look_up = shared(&in_use, table, by, context, &memory).await?;
    memory.try_resize(look_up.most())?;
    Ok(ReservedIndex { look_up, _in_use: Some((in_use, memory)) })
}

/// The index that another statement is making, or one that this statement makes for all.
async fn shared(
    in_use: &InUse,
    table: &Arc<dyn ExecutionPlan>,
    by: &By,
    context: &Arc<TaskContext>,
    memory: &Arc<MemoryReservation>,
) -> Result<Arc<LookUp>> {
    let begun = AtomicBool::new(false);
    let make = || {
        begun.store(true, Ordering::Relaxed);
        made(table, by, context, memory)
    };
    {
        let mut shared = pin!(in_use.get_or_try_init(make));
        if let Ok(made) = timeout(PATIENCE, &mut shared).await {
            return made.map(Arc::clone);
        }
        if begun.load(Ordering::Relaxed) {
            return shared.await.map(Arc::clone);
        }
    }
    // The other statement may hang. This one makes its own index without blocking any statement,
    // and later ones find it.
    let own = made(table, by, context, memory).await?;
    let _ = in_use.set(Arc::clone(&own));
    Ok(own)
}

/// Makes the index of a table, and reserves memory while it does.
async fn made(
    table: &Arc<dyn ExecutionPlan>,
    by: &By,
    context: &Arc<TaskContext>,
    memory: &Arc<MemoryReservation>,
) -> Result<Arc<LookUp>> {
    let mut reading = Vec::new();
    for partition in 0..table.output_partitioning().partition_count() {
        let rows = table.execute(partition, Arc::clone(context))?;
        reading.push(SpawnedTask::spawn(read(rows, Arc::clone(memory))));
    }
    let mut batches = Vec::new();
    for partition in reading {
        batches.append(&mut partition.join().await.map_err(|_| failed())??);
    }
    // The rows are copied. The memory that is reserved for the index, now and later, is the most
    // that it may take: one key far from all others decides the form of the index, and must not
    // decide whether there is memory for it.
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    memory.try_grow(memory.size().saturating_add(rows.saturating_mul(OF_A_ROW)))?;
    let look_up = Arc::new(LookUp::new(&table.schema(), &batches, by.of_table)?);
    by.kept.keep(by.identity.clone(), &look_up);
    Ok(look_up)
}

/// All rows of one partition.
async fn read(
    mut rows: SendableRecordBatchStream,
    memory: Arc<MemoryReservation>,
) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        memory.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(batches)
}

/// The matches of the rows of a batch, from some row on.
struct Matches {
    look_up: Arc<LookUp>,
    batch: RecordBatch,
    /// For each row, the last place of its key.
    last: Vec<u32>,
    row: usize,
    /// The next place for this row; `None` before its last place.
    next: Option<u32>,
}

impl Matches {
    /// The next rows, at most `most`, each with a place. If each row of the batch has exactly one,
    /// all of them at once.
    fn pairs(&mut self, most: usize) -> Result<(FoundRows, Vec<u32>)> {
        if self.row == 0 && self.each_has_one() {
            return Ok((FoundRows::Every, std::mem::take(&mut self.last)));
        }
        let likely = most.min(self.last.len());
        let (mut rows, mut places) = (Vec::with_capacity(likely), Vec::with_capacity(likely));
        while let Some(last) = self.last.get(self.row) {
            let place = self.next.unwrap_or(*last);
            if place == NONE {
                (self.row, self.next) = (self.row + 1, None);
                continue;
            }
            if rows.len() == most {
                break;
            }
            rows.push(u32::try_from(self.row).map_err(|_| failed())?);
            places.push(place);
            self.next = Some(self.look_up.before(place));
        }
        Ok((FoundRows::These(rows), places))
    }

    /// Whether each row of a batch has exactly one place.
    fn each_has_one(&self) -> bool {
        !self.last.is_empty() && self.look_up.is_unique() && !self.last.contains(&NONE)
    }

    /// All rows that have a place, each once.
    fn found(&mut self) -> FoundRows {
        let last = std::mem::take(&mut self.last);
        if !last.is_empty() && !last.contains(&NONE) {
            return FoundRows::Every;
        }
        let found = (0..).zip(last).filter(|(_, place)| *place != NONE).map(|(row, _)| row);
        FoundRows::These(found.collect())
    }
}

/// Rows of a batch.
enum FoundRows {
    Every,
    These(Vec<u32>),
}

impl FoundRows {
    /// The columns of these rows.
    fn of(self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let Self::These(rows) = self else { return Ok(columns.to_vec()) };
        let rows = UInt32Array::from(rows);
        columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
    }
}

/// How output batches are built of rows and places.
#[derive(Clone)]
struct Make {
    schema: SchemaRef,
    columns: LookUpColumns,
    of_rows: usize,
    most: usize,
}

impl Make {
    /// The matches of a batch, as output batches.
    fn joined(
        self,
        look_up: &Arc<LookUp>,
        batch: RecordBatch,
    ) -> Result<impl Stream<Item = Result<RecordBatch>> + use<>> {
        let keys = batch.columns().get(self.of_rows).ok_or_else(failed)?;
        let last = look_up.last(keys)?;
        let matches = Matches { look_up: Arc::clone(look_up), batch, last, row: 0, next: None };
        Ok(stream::try_unfold(matches, move |matches| ready(self.batch(matches))))
    }

    /// The next output batch of these matches; `None` after the last row.
    fn batch(&self, mut matches: Matches) -> Result<Option<(RecordBatch, Matches)>> {
        let most = if matches.look_up.is_unique() { usize::MAX } else { self.most };
        let (found, places) = match self.columns {
            LookUpColumns::Rows => (matches.found(), Vec::new()),
            LookUpColumns::RowsThenTable | LookUpColumns::TableThenRows => matches.pairs(most)?,
        };
        if matches!(&found, FoundRows::These(rows) if rows.is_empty()) {
            return Ok(None);
        }
        let own = found.of(matches.batch.columns())?;
        let columns = match self.columns {
            LookUpColumns::Rows => own,
            LookUpColumns::RowsThenTable => {
                let table = self.of_places(&matches.look_up, places, &own)?;
                own.into_iter().chain(table).collect()
            }
            LookUpColumns::TableThenRows => {
                let mut table = self.of_places(&matches.look_up, places, &own)?;
                table.extend(own);
                table
            }
        };
        Ok(Some((RecordBatch::try_new(Arc::clone(&self.schema), columns)?, matches)))
    }

    /// The table's columns at these places. The key comes from the rows.
    fn of_places(
        &self,
        look_up: &LookUp,
        places: Vec<u32>,
        own: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>> {
        let places = UInt32Array::from(places);
        let key = own.get(self.of_rows).ok_or_else(failed)?;
        let column = |column: &Option<ArrayRef>| {
            Ok(match column {
                Some(column) => take(column, &places, None)?,
                None => Arc::clone(key),
            })
        };
        look_up.columns().iter().map(column).collect()
    }
}
