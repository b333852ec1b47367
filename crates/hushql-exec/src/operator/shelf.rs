//! Batches that an operator reads several times: in memory as far as it suffices, otherwise in
//! files.
//!
//! In: batches in whatever form the operator holds them, and a way to write them as Arrow arrays.
//! Out: the same batches, from memory and from files, in no particular order, as often as needed.
//! The files are in the folder that the owner chose; they have no names, and are gone with their
//! last handle. Without a folder nothing is written, and exceeding the memory is an error. If the
//! later work on these rows does not fit into memory at once, they are [dealt](Dealt) to several
//! files, all rows of a unit to the same file.
//!
//! ```text
//! push ─▶ in memory ── too little of it ──▶ write_out ─▶ file
//!             └──────── read once more ◀─────────────────┘
//! ```

use std::io::BufWriter;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::buffer::Buffer;
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryReservation};
use datafusion::execution::spill_file::{SpillFile, SpillWriter};
use datafusion::object_store::PutPayload;
use futures::{Stream, StreamExt};

use crate::grid::failed;

#[cfg(test)]
pub(crate) mod tests;

/// A part of a file's bytes.
type Bytes = <PutPayload as IntoIterator>::Item;

/// The most files to which the rows of all partitions are dealt.
const MOST_FILES: usize = 256;

/// The batches of one partition.
pub(crate) struct Shelf<T> {
    /// The batches in memory.
    pub(crate) held: Vec<T>,
    folder: ShelfFolder,
    open: Option<Open>,
    written: Vec<Arc<dyn SpillFile>>,
    /// The number of files that were written before units and keys were renumbered.
    own_numbers: usize,
    /// The most bytes to hold in memory, if there is a folder for the rest.
    share: Option<usize>,
}

/// Where batches of one schema are written.
#[derive(Clone)]
struct ShelfFolder {
    disk: Arc<DiskManager>,
    schema: SchemaRef,
}

/// A file that is still written.
struct Open {
    writer: StreamWriter<BufWriter<Box<dyn SpillWriter>>>,
    file: Arc<dyn SpillFile>,
}

impl ShelfFolder {
    fn open(&self) -> Result<Open> {
        let file = self.disk.create_tmp_file("rows").map_err(|_| failed())?;
        let writer = file.open_writer().map_err(|_| failed())?;
        let writer = StreamWriter::try_new_buffered(writer, &self.schema).map_err(|_| failed())?;
        Ok(Open { writer, file })
    }
}

impl Open {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(|_| failed())
    }

    fn close(mut self) -> Result<Arc<dyn SpillFile>> {
        self.writer.finish().map_err(|_| failed())?;
        self.writer.get_mut().get_mut().finish().map_err(|_| failed())?;
        Ok(self.file)
    }
}

impl<T> Shelf<T> {
    /// An empty shelf of one of `readers` partitions. Its batches in files have this schema.
    ///
    /// All readers together hold at most half of the engine's memory. The other half is left for
    /// their results.
    pub(crate) fn new(context: &TaskContext, schema: SchemaRef, readers: usize) -> Self {
        let disk = Arc::clone(&context.runtime_env().disk_manager);
        let share = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) if disk.tmp_files_enabled() => {
                Some(limit / 2 / readers.max(1))
            }
            MemoryLimit::Finite(_) | MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        };
        let folder = ShelfFolder { disk, schema };
        Self { held: Vec::new(), folder, open: None, written: Vec::new(), own_numbers: 0, share }
    }

    /// Whether any batch was written.
    pub(crate) fn is_in_file(&self) -> bool {
        self.open.is_some() || !self.written.is_empty()
    }

    /// Whether batches can be written.
    pub(crate) fn has_folder(&self) -> bool {
        self.folder.disk.tmp_files_enabled()
    }

    /// Reserves memory for `bytes`; false if there is too little, or if `bytes` exceeds the share
    /// of one reader.
    pub(crate) fn fits(&self, reservation: &MemoryReservation, bytes: usize) -> bool {
        self.share.is_none_or(|share| bytes <= share) && reservation.try_resize(bytes).is_ok()
    }

    /// Moves all batches from memory into a file.
    ///
    /// # Errors
    /// An error with a constant text without a folder, or if it is full.
    pub(crate) fn write_out(&mut self, pack: impl Fn(T) -> Result<RecordBatch>) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(self.folder.open()?),
        };
        for held in std::mem::take(&mut self.held) {
            open.push(&pack(held)?)?;
        }
        Ok(())
    }

    /// Notes that units and keys are renumbered now. Batches in files keep their old numbers.
    /// Returns whether there are such files.
    ///
    /// # Errors
    /// An error with a constant text if the file cannot be finished.
    pub(crate) fn renumbered(&mut self) -> Result<bool> {
        self.close()?;
        self.own_numbers = self.written.len();
        Ok(self.own_numbers > 0)
    }

    fn close(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            self.written.push(open.close()?);
        }
        Ok(())
    }

    /// The files that are written so far. Later batches go to another file.
    ///
    /// # Errors
    /// An error with a constant text if a file cannot be finished or opened.
    pub(crate) fn written(&mut self) -> Result<Vec<SpilledFile>> {
        self.close()?;
        let files = self.written.iter().enumerate();
        files.map(|(i, file)| SpilledFile::new(file.as_ref(), i < self.own_numbers)).collect()
    }

    /// Files to which the rows of one of `readers` partitions are dealt, at most `turns`.
    ///
    /// # Errors
    /// An error with a constant text without a folder, or if it is full.
    pub(crate) fn deal(&self, turns: usize) -> Result<Dealt> {
        let open: Vec<Open> = (0..turns).map(|_| self.folder.open()).collect::<Result<_>>()?;
        Ok(Dealt { rows: vec![Vec::new(); turns], open })
    }
}

/// Half of the memory that this statement can still take, because lists grow by doubling.
pub(crate) fn room(context: &TaskContext) -> usize {
    let pool = context.memory_pool();
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => limit.saturating_sub(pool.reserved()) / 2,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// The number of turns in which the rows of `readers` partitions are read, given their bytes; 1 if
/// they fit.
pub(crate) fn turns(context: &TaskContext, bytes: usize, readers: usize) -> usize {
    bytes.div_ceil(room(context).max(1)).clamp(1, (MOST_FILES / readers.max(1)).max(2))
}

/// Files of rows. Each file has all rows of its units.
pub(crate) struct Dealt {
    open: Vec<Open>,
    /// For each file, the rows of the current batch that go to it.
    rows: Vec<Vec<u32>>,
}

impl Dealt {
    /// Writes each row of a batch to the file of its unit's bucket. Rows without a bucket are
    /// skipped.
    ///
    /// # Errors
    /// An error with a constant text if a folder is full.
    pub(crate) fn push(
        &mut self,
        batch: &RecordBatch,
        buckets: impl Iterator<Item = Option<u8>>,
    ) -> Result<()> {
        let turns = self.rows.len();
        self.rows.iter_mut().for_each(Vec::clear);
        for (row, bucket) in (0..).zip(buckets) {
            if let Some(bucket) = bucket {
                self.rows[usize::from(bucket) % turns].push(row);
            }
        }
        for (open, rows) in self.open.iter_mut().zip(&mut self.rows) {
            if !rows.is_empty() {
                let rows = UInt32Array::from(rows.clone());
                open.push(&take_record_batch(batch, &rows).map_err(|_| failed())?)?;
            }
        }
        Ok(())
    }

    /// Finishes the files.
    ///
    /// # Errors
    /// An error with a constant text if a file cannot be finished.
    pub(crate) fn close(self) -> Result<Vec<Arc<dyn SpillFile>>> {
        self.open.into_iter().map(Open::close).collect()
    }
}

/// The batches of one file.
pub(crate) struct SpilledFile {
    bytes: Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>,
    left: Buffer,
    decoder: StreamDecoder,
    /// Whether units and keys still have the numbers of their partition.
    pub(crate) own_numbers: bool,
}

impl SpilledFile {
    /// The batches of a finished file.
    ///
    /// # Errors
    /// An error with a constant text if it cannot be opened.
    pub(crate) fn new(file: &dyn SpillFile, own_numbers: bool) -> Result<Self> {
        let bytes = file.read_stream().map_err(|_| failed())?;
        Ok(Self { bytes, left: Buffer::default(), decoder: StreamDecoder::new(), own_numbers })
    }

    /// The next batch.
    ///
    /// # Errors
    /// An error with a constant text if the file cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.decoder.decode(&mut self.left).map_err(|_| failed())? {
                return Ok(Some(batch));
            }
            match self.bytes.next().await {
                Some(bytes) => self.left = Buffer::from(bytes.map_err(|_| failed())?),
                None => {
                    // A file that ends in the middle of a batch is incomplete.
                    self.decoder.finish().map_err(|_| failed())?;
                    return Ok(None);
                }
            }
        }
    }
}
