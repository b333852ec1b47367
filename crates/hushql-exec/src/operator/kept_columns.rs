//! Keeps decoded columns of private files from one statement to the next.
//!
//! In: the batches that a scan of a verified file yields. Out: the same batches, for a later scan
//! of the same part of the same file. The file is the same if its device, inode, size and times
//! have not changed since it was verified; it stays open as long as a column of it is kept, so that
//! no other file can take its inode. What is kept changes how long a statement takes, and nothing
//! that it shows: each statement checks its files as if it read them.
//!
//! ```text
//! visits.csv, column age, part 1 of 1 ── [8192 values] [8192 values] [410 values]
//! visits.csv, rows of part 1 of 1     ──  8192          8192          410
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use futures::Stream;

use crate::pinned::Pinned;

/// The most bytes that an engine without a memory limit keeps.
const MOST_BYTES: usize = 256 << 20;

/// At most one part in this many of an engine's memory is kept; as much again is for columns that
/// are being read.
const PART: usize = 16;

/// An engine with less memory keeps no columns.
const LEAST_MEMORY: usize = 1 << 30;

/// A part of a file, as one partition of a scan reads it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FilePart {
    file: Pinned,
    /// How the file is divided into partitions.
    layout: String,
    partition: usize,
}

/// What is kept of a part of a file.
#[derive(Clone, PartialEq)]
enum Of {
    /// The number of rows of each batch.
    Rows,
    /// A column, by its name and type.
    Column(String, DataType),
}

struct Kept {
    part: FilePart,
    of: Of,
    /// The number of rows of each batch.
    rows: Arc<[usize]>,
    /// The values of each batch; none if `of` is the number of rows.
    values: Vec<ArrayRef>,
    bytes: usize,
}

#[derive(Default)]
struct Columns {
    /// The most recently used one last.
    kept: VecDeque<Kept>,
    bytes: usize,
    /// The bytes of columns that running statements read.
    growing: usize,
}

/// The columns that an engine keeps.
pub struct KeptColumns {
    columns: Mutex<Columns>,
    /// The most bytes that are kept, and the most of those that are being read.
    most: usize,
    _memory: Option<MemoryReservation>,
}

/// Leaves out private rows.
impl fmt::Debug for KeptColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptColumns").finish_non_exhaustive()
    }
}

impl KeptColumns {
    /// The columns of an engine with this memory; `None` if it is too little to keep any.
    ///
    /// # Guarantee
    /// The memory for all columns is reserved now, so whether one is kept never decides whether a
    /// statement has enough.
    pub fn within(memory: &Arc<dyn MemoryPool>) -> Option<Self> {
        match memory.memory_limit() {
            MemoryLimit::Infinite => Some(Self::with(MOST_BYTES, None)),
            MemoryLimit::Finite(limit) if limit >= LEAST_MEMORY => {
                let reserved = MemoryConsumer::new("columns").register(memory);
                let most = limit / PART;
                reserved.try_grow(most.saturating_mul(2)).ok()?;
                Some(Self::with(most, Some(reserved)))
            }
            MemoryLimit::Finite(_) | MemoryLimit::Unknown => None,
        }
    }

    fn with(most: usize, memory: Option<MemoryReservation>) -> Self {
        Self { columns: Mutex::default(), most, _memory: memory }
    }

    fn all(&self) -> MutexGuard<'_, Columns> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all columns and closes their files.
    pub fn clear(&self) {
        let mut all = self.all();
        all.kept.clear();
        all.bytes = 0;
    }

    /// The number of kept columns, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn len(&self) -> usize {
        self.all().kept.iter().filter(|kept| kept.of != Of::Rows).count()
    }

    /// The batches of a part of a file with these columns, if all of them are kept.
    fn find(&self, part: &FilePart, schema: &SchemaRef) -> Option<Vec<RecordBatch>> {
        let columns = schema.fields().iter();
        let columns =
            columns.map(|field| Of::Column(field.name().clone(), field.data_type().clone()));
        let wanted: Vec<Of> = std::iter::once(Of::Rows).chain(columns).collect();
        let mut all = self.all();
        let place = |of: &Of| all.kept.iter().position(|kept| kept.of == *of && kept.part == *part);
        let mut places = wanted.iter().map(place).collect::<Option<Vec<_>>>()?;
        let found: Vec<&Kept> = places.iter().filter_map(|at| all.kept.get(*at)).collect();
        let (rows, columns) = found.split_first()?;
        if columns.iter().any(|column| column.rows != rows.rows) {
            return None;
        }
        let batch = |(at, rows): (usize, &usize)| {
            let values = columns.iter().map(|column| column.values.get(at).cloned());
            let options = RecordBatchOptions::new().with_row_count(Some(*rows));
            let values = values.collect::<Option<Vec<_>>>()?;
            RecordBatch::try_new_with_options(Arc::clone(schema), values, &options).ok()
        };
        let batches = rows.rows.iter().enumerate().map(batch).collect::<Option<Vec<_>>>()?;
        places.sort_unstable();
        for at in places.into_iter().rev() {
            let used = all.kept.remove(at);
            all.kept.extend(used);
        }
        Some(batches)
    }

    /// Makes room for columns that are being read; false if there is too little.
    fn grow(&self, bytes: usize) -> bool {
        let mut all = self.all();
        let grown = all.growing.saturating_add(bytes);
        let fits = grown <= self.most;
        if fits {
            all.growing = grown;
        }
        fits
    }

    fn shrink(&self, bytes: usize) {
        let mut all = self.all();
        all.growing = all.growing.saturating_sub(bytes);
    }

    /// Keeps the columns of a part of a file, and forgets the least recently used ones if all
    /// together are too large.
    fn keep(&self, part: &FilePart, schema: &SchemaRef, batches: &[RecordBatch]) {
        let rows: Arc<[usize]> = batches.iter().map(RecordBatch::num_rows).collect();
        let kept = |of: Of, values: Vec<ArrayRef>| {
            let size = |array: &ArrayRef| array.get_array_memory_size();
            let bytes = rows.len() * size_of::<usize>() + values.iter().map(size).sum::<usize>();
            Kept { part: part.clone(), of, rows: Arc::clone(&rows), values, bytes }
        };
        let mut all = self.all();
        let fields = schema.fields().iter().enumerate();
        let columns = fields.map(|(i, field)| {
            let values = batches.iter().map(|batch| Arc::clone(batch.column(i))).collect();
            kept(Of::Column(field.name().clone(), field.data_type().clone()), values)
        });
        for one in columns.chain([kept(Of::Rows, Vec::new())]) {
            all.forget(|old| old.of == one.of && old.part == one.part);
            all.bytes = all.bytes.saturating_add(one.bytes);
            all.kept.push_back(one);
        }
        while all.bytes > self.most
            && let Some(oldest) = all.kept.pop_front()
        {
            all.bytes = all.bytes.saturating_sub(oldest.bytes);
        }
    }
}

impl Columns {
    fn forget(&mut self, is_old: impl Fn(&Kept) -> bool) {
        self.kept.retain(|kept| !is_old(kept));
        self.bytes = self.kept.iter().map(|kept| kept.bytes).sum();
    }
}

/// A plan that reads a file, as far as it is known how it does.
struct Read {
    /// How it divides the file into partitions.
    layout: String,
    /// Whether it yields every row of the file.
    is_whole: bool,
}

/// How a plan reads its file; `None` for a plan that is not known to read one, and for one whose
/// partitions take work from each other: then nobody knows which rows a partition has, and one that
/// is read alone has all of them.
fn read_by(plan: &Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Option<Read> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let files = scan.data_source().downcast_ref::<FileScanConfig>()?;
        if options.execution.enable_file_stream_work_stealing {
            return None;
        }
        let groups = files.file_groups.iter();
        let ranges: Vec<Vec<_>> = groups
            .map(|group| {
                let ranges = group.files().iter().map(|file| file.range.as_ref());
                ranges.map(|range| range.map(|range| (range.start, range.end))).collect()
            })
            .collect();
        let is_whole = files.file_source().filter().is_none() && files.limit.is_none();
        return Some(Read { layout: format!("{ranges:?}"), is_whole });
    }
    if let Some(text) = plan.downcast_ref::<StreamingTableExec>() {
        let layout = format!("text in {}", text.partitions().len());
        return Some(Read { layout, is_whole: text.limit().is_none() });
    }
    // These change the types of columns, and no rows.
    let is_passed_on = plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>();
    match plan.children().as_slice() {
        [input] if is_passed_on => read_by(input, options),
        _ => None,
    }
}

/// The rows that a scan of a verified file yields: those that are kept, or those that it reads,
/// which are then kept. `read` begins to read them.
///
/// # Guarantee
/// They are the rows that `read` yields if nobody wrote to the file since it was verified, or more
/// rows of the file, where `plan` skips some.
///
/// # Errors
/// As `read`.
pub(super) fn rows_of(
    kept: &Arc<KeptColumns>,
    file: &Pinned,
    (plan, partition): (&Arc<dyn ExecutionPlan>, usize),
    options: &ConfigOptions,
    read: impl FnOnce() -> Result<SendableRecordBatchStream>,
) -> Result<SendableRecordBatchStream> {
    let Some(Read { layout, is_whole }) = read_by(plan, options) else { return read() };
    let part = FilePart { file: file.clone(), layout, partition };
    let schema = plan.schema();
    if let Some(batches) = kept.find(&part, &schema) {
        return Ok(Box::pin(MemoryStream::try_new(batches, schema, None)?));
    }
    let rows = read()?;
    if !is_whole {
        return Ok(rows);
    }
    let growing = Growing { kept: Arc::clone(kept), part, batches: Vec::new(), bytes: 0 };
    Ok(Box::pin(KeepingStream { schema, rows, growing: Some(growing) }))
}

/// Columns that are being read.
struct Growing {
    kept: Arc<KeptColumns>,
    part: FilePart,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Growing {
    /// Adds a batch; false if there is too little room.
    fn push(&mut self, batch: &RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        let fits = self.kept.grow(bytes);
        if fits {
            self.bytes = self.bytes.saturating_add(bytes);
            self.batches.push(batch.clone());
        }
        fits
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        self.kept.shrink(self.bytes);
    }
}

/// Passes rows on, and keeps them once all of them were read.
struct KeepingStream {
    schema: SchemaRef,
    rows: SendableRecordBatchStream,
    growing: Option<Growing>,
}

impl Stream for KeepingStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.rows.as_mut().poll_next(cx));
        match &next {
            Some(Ok(batch)) => {
                if self.growing.as_mut().is_some_and(|growing| !growing.push(batch)) {
                    self.growing = None;
                }
            }
            Some(Err(_)) => self.growing = None,
            None => {
                if let Some(growing) = self.growing.take() {
                    growing.kept.keep(&growing.part, &self.schema, &growing.batches);
                }
            }
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for KeepingStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use datafusion::catalog::TableProvider;
    use datafusion::catalog::streaming::StreamingTable;
    use datafusion::common::DataFusionError;
    use datafusion::execution::TaskContext;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::parquet::file::properties::WriterProperties;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::physical_plan::streaming::PartitionStream;
    use datafusion::physical_plan::{collect, execute_stream};
    use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
    use futures::{StreamExt, stream};

    use super::*;
    use crate::operator::private_scan::PrivateTable;

    /// A part of a table that counts how often it is read.
    #[derive(Debug)]
    struct Counted {
        batches: Vec<RecordBatch>,
        reads: Arc<AtomicUsize>,
        fails: bool,
    }

    impl PartitionStream for Counted {
        fn schema(&self) -> &SchemaRef {
            self.batches[0].schema_ref()
        }

        fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let failure = self.fails.then(|| Err(DataFusionError::Internal("failed".to_owned())));
            let rows = self.batches.clone().into_iter().map(Ok).chain(failure);
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.schema()), stream::iter(rows)))
        }
    }

    /// Two batches of two columns, which begin at a number.
    fn batches(from: i64) -> Vec<RecordBatch> {
        let batch = |from: i64, len: i64| {
            let ids: Vec<i64> = (from..from + len).collect();
            let texts: Vec<String> = ids.iter().map(|id| format!("text {id}")).collect();
            let ids: ArrayRef = Arc::new(Int64Array::from(ids));
            let texts: ArrayRef = Arc::new(StringArray::from(texts));
            RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap()
        };
        vec![batch(from, 5), batch(from + 5, 3)]
    }

    struct World {
        session: SessionContext,
        kept: Arc<KeptColumns>,
        reads: Arc<AtomicUsize>,
    }

    impl World {
        fn new(most: usize) -> Self {
            let kept = Arc::new(KeptColumns::with(most, None));
            let config = SessionConfig::new().with_extension(Arc::clone(&kept));
            Self { session: SessionContext::new_with_config(config), kept, reads: Arc::default() }
        }

        /// The plan that reads these columns of a table of several parts, in a file with a stamp.
        async fn plan(
            &self,
            (stamp, parts, fails): (&str, usize, bool),
            columns: &[usize],
        ) -> Arc<dyn ExecutionPlan> {
            let part = |at: usize| -> Arc<dyn PartitionStream> {
                let batches = batches(i64::try_from(at).unwrap() * 100);
                Arc::new(Counted { batches, reads: Arc::clone(&self.reads), fails })
            };
            let schema = batches(0)[0].schema();
            let rows = StreamingTable::try_new(schema, (0..parts).map(part).collect()).unwrap();
            let stamp = stamp.to_owned();
            let file = move || Some(Pinned::new(stamp.clone(), 100, Arc::new(())));
            let table = PrivateTable::new("t", Arc::new(rows)).in_file(Arc::new(file));
            table.scan(&self.session.state(), Some(&columns.to_vec()), &[], None).await.unwrap()
        }

        /// The rows, and how many parts were read for them.
        async fn read(
            &self,
            table: (&str, usize, bool),
            columns: &[usize],
        ) -> (Result<Vec<RecordBatch>>, usize) {
            let before = self.reads.load(Ordering::Relaxed);
            let rows = collect(self.plan(table, columns).await, self.session.task_ctx()).await;
            (rows, self.reads.load(Ordering::Relaxed) - before)
        }
    }

    /// The rows of a table of two parts, with these columns.
    fn expected(columns: &[usize]) -> Vec<RecordBatch> {
        let all = [batches(0), batches(100)].concat();
        all.iter().map(|batch| batch.project(columns).unwrap()).collect()
    }

    fn sorted(mut rows: Vec<RecordBatch>) -> Vec<RecordBatch> {
        rows.sort_by_key(|batch| format!("{batch:?}"));
        rows
    }

    /// Each column is read once for a state of a file, whichever columns a statement needs.
    #[tokio::test]
    async fn what_is_kept_is_what_was_read() {
        let world = World::new(1 << 20);
        let t = ("t", 2, false);
        for (columns, reads) in
            [(&[0][..], 2), (&[0], 0), (&[1], 2), (&[0, 1], 0), (&[1, 0], 0), (&[], 0)]
        {
            let (rows, read) = world.read(t, columns).await;
            assert_eq!(read, reads, "{columns:?}");
            let rows = sorted(rows.unwrap());
            assert_eq!(rows, sorted(expected(columns)), "{columns:?}");
        }
        assert_eq!(world.kept.len(), 4);
        // Another state of the file, and other parts.
        assert_eq!(world.read(("later", 2, false), &[0]).await.1, 2);
        assert_eq!(world.read(("t", 1, false), &[0]).await.1, 1);
        world.kept.clear();
        assert_eq!((world.kept.len(), world.read(t, &[0]).await.1), (0, 2));
    }

    /// Rows that were not read to their end are not taken for the whole file.
    #[tokio::test]
    async fn a_part_of_the_rows_is_not_kept() {
        let world = World::new(1 << 20);
        let (rows, _) = world.read(("t", 1, true), &[0]).await;
        assert!(rows.is_err() && world.kept.len() == 0);
        // Who reads on behind the failure reaches the end.
        let plan = world.plan(("t", 1, true), &[0]).await;
        let mut rows = execute_stream(plan, world.session.task_ctx()).unwrap();
        while rows.next().await.is_some() {}
        assert_eq!((world.kept.len(), world.kept.all().growing), (0, 0));
        let plan = world.plan(("t", 1, false), &[0]).await;
        let mut rows = execute_stream(plan, world.session.task_ctx()).unwrap();
        assert!(rows.next().await.is_some());
        drop(rows);
        assert_eq!((world.kept.len(), world.kept.all().growing), (0, 0));
        // A table without a verified file, and one of which nothing is known.
        let rows: Arc<dyn PartitionStream> =
            Arc::new(Counted { batches: batches(0), reads: Arc::default(), fails: false });
        let rows = StreamingTable::try_new(batches(0)[0].schema(), vec![rows]).unwrap();
        let table = PrivateTable::new("t", Arc::new(rows));
        let plan = table.scan(&world.session.state(), None, &[], None).await.unwrap();
        collect(plan, world.session.task_ctx()).await.unwrap();
        assert_eq!(world.kept.len(), 0);
    }

    /// What is kept stays within its limit, and the oldest goes first.
    #[tokio::test]
    async fn the_oldest_columns_make_room() {
        let size: usize = batches(0).iter().map(RecordBatch::get_array_memory_size).sum();
        let world = World::new(size * 5 / 2);
        for stamp in ["a", "b", "a", "c"] {
            world.read((stamp, 1, false), &[0, 1]).await.0.unwrap();
            let all = world.kept.all();
            assert!(all.bytes <= world.kept.most && all.growing == 0);
        }
        assert_eq!(world.read(("a", 1, false), &[0, 1]).await.1, 0);
        assert_eq!(world.read(("b", 1, false), &[0, 1]).await.1, 1);
        // What is too large alone is read each time.
        let world = World::new(size / 2);
        for _ in 0..2 {
            let (rows, read) = world.read(("a", 1, false), &[0, 1]).await;
            assert_eq!((rows.unwrap(), read), (batches(0), 1));
        }
        assert_eq!((world.kept.len(), world.kept.all().growing), (0, 0));
    }

    /// A file of two parts is read by two partitions, of which one is read first, and alone. Then
    /// both together yield each row once, and the values of a row stay together, whichever columns
    /// were read before.
    #[tokio::test]
    async fn the_partitions_of_a_file_have_each_row_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let column =
            |from: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(from..from + 1_000)) };
        let rows = [("a", column(0)), ("b", column(5_000))];
        let rows = RecordBatch::try_from_iter(rows).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(500));
        let file = std::fs::File::create(&path).unwrap();
        let mut file = ArrowWriter::try_new(file, rows.schema(), Some(properties.build())).unwrap();
        file.write(&rows).unwrap();
        file.close().unwrap();
        for takes_work in [true, false] {
            for first in [0, 1] {
                let kept = Arc::new(KeptColumns::with(1 << 20, None));
                let mut config = SessionConfig::new().with_extension(Arc::clone(&kept));
                let options = config.options_mut();
                options.execution.enable_file_stream_work_stealing = takes_work;
                options.optimizer.repartition_file_min_size = 0;
                let session = SessionContext::new_with_config(config);
                let path = path.to_str().unwrap();
                session.register_parquet("t", path, ParquetReadOptions::default()).await.unwrap();
                let table = session.table_provider("t").await.unwrap();
                let pinned = || Some(Pinned::new("t".to_owned(), 100, Arc::new(())));
                let table = PrivateTable::new("t", table).in_file(Arc::new(pinned));
                let plan = async |columns: &[usize]| {
                    let state = session.state();
                    let plan = table.scan(&state, Some(&columns.to_vec()), &[], None).await;
                    let plan = plan.unwrap();
                    let parts = plan.repartitioned(2, state.config_options()).unwrap();
                    let parts = parts.unwrap_or(plan);
                    assert_eq!(parts.properties().partitioning.partition_count(), 2);
                    parts
                };
                for (columns, alone) in
                    [(&[0][..], Some(first)), (&[0], None), (&[1], Some(1 - first)), (&[1], None)]
                {
                    let plan = plan(columns).await;
                    if let Some(alone) = alone {
                        let mut rows = plan.execute(alone, session.task_ctx()).unwrap();
                        while let Some(batch) = rows.next().await {
                            batch.unwrap();
                        }
                        continue;
                    }
                    let rows = collect(plan, session.task_ctx()).await.unwrap();
                    let rows = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
                    assert_eq!(rows, 1_000, "{takes_work} {columns:?}");
                }
                let rows = collect(plan(&[0, 1]).await, session.task_ctx()).await.unwrap();
                let mut found = Vec::new();
                for batch in rows {
                    let [a, b] = [0, 1].map(|i| batch.column(i).as_primitive::<Int64Type>());
                    found.extend(a.values().iter().copied().zip(b.values().iter().copied()));
                }
                found.sort_unstable();
                assert!(found.into_iter().eq((0..1_000).map(|a| (a, a + 5_000))), "{takes_work}");
                assert_eq!(kept.len(), if takes_work { 0 } else { 4 });
            }
        }
    }

    /// An engine reserves an eighth of its memory and keeps half of that, or nothing.
    #[test]
    fn what_is_kept_is_reserved() {
        let within = |limit: usize| {
            let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
            let kept = KeptColumns::within(&memory);
            (kept.as_ref().map(|kept| kept.most), memory.reserved())
        };
        for gibibytes in [1, 12, 100] {
            let share = (gibibytes << 30) / 16;
            assert_eq!(within(gibibytes << 30), (Some(share), share * 2));
        }
        assert_eq!(within((1 << 30) - 1), (None, 0));
    }
}
