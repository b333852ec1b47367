//! Holds the batches of one partition, and passes on the rows of units that keep all of them.
//!
//! In: the batches of each partition. Out: the same rows without the unit column and without rows
//! that have no unit. Rows are counted by unit when all partitions have arrived. Nearly all units
//! are within the bounds; their rows come out unchanged, and are [packed](Packed) until then. All
//! rows of a unit that may exceed a bound go to the [`Collector`]. It guarantees that every row
//! takes one of these two ways, and that all rows of a unit take the same way, whatever partitions
//! they are in. Rows that exceed the memory wait in files. If the rows to choose from exceed it,
//! too, they are dealt to one file for each turn.
//!
//! ```text
//! held ─ together ─ count ─┬ within the bounds ─▶ out, as it is
//!                          └ maybe beyond ─▶ Collector ─▶ Chooser ─▶ out, bounded
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;

use super::packed::{Packed, Packer};
use super::row_collector::{Collected, Collector, SamplingTask, bytes_of};
use crate::grid::failed;
use crate::operator::bound_contributions::{
    Counting, Crowded, HeldUnits, RowCounts, UnitCodes, UnitNames, UnitRow, canonical,
};
use crate::operator::shelf::{Dealt, Shelf, SpilledFile, room};

/// The rows of a batch that have a unit, and their units.
pub(super) struct HeldRows {
    units: HeldUnits,
    rows: Packed,
    /// The bytes in use.
    bytes: usize,
}

/// The schema of held batches in a file: the rows, and the codes of their units.
pub(super) fn packed_schema(rows: &Schema) -> SchemaRef {
    let unit: FieldRef = Arc::new(Field::new("unit", DataType::UInt64, false));
    Arc::new(Schema::new(rows.fields().iter().cloned().chain([unit]).collect::<Vec<_>>()))
}

impl HeldRows {
    /// The batch as it is written into a file.
    fn pack(self) -> Result<RecordBatch> {
        let mut units = Vec::new();
        self.units.codes(&mut units);
        with_units(&self.rows.rows(None)?, units)
    }
}

/// Rows and the codes of their units, without the memory that texts of a column share with other
/// batches.
fn with_units(rows: &RecordBatch, units: Vec<u64>) -> Result<RecordBatch> {
    let own = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    };
    let mut columns: Vec<ArrayRef> = rows.columns().iter().map(own).collect();
    columns.push(Arc::new(UInt64Array::from(units)));
    RecordBatch::try_new(packed_schema(&rows.schema()), columns).map_err(|_| failed())
}

/// The codes of the units of a packed batch, and its rows.
pub(super) fn unpack(task: &SamplingTask, batch: &RecordBatch) -> Result<(Vec<u64>, RecordBatch)> {
    let Some((units, columns)) = batch.columns().split_last() else { return Err(failed()) };
    let units = units.as_primitive_opt::<UInt64Type>().ok_or_else(failed)?.values().to_vec();
    let options = RecordBatchOptions::new().with_row_count(Some(units.len()));
    let rows =
        RecordBatch::try_new_with_options(Arc::clone(&task.schema), columns.to_vec(), &options);
    Ok((units, rows.map_err(|_| failed())?))
}

/// The first pass: reads batches.
pub(super) struct Holder {
    task: Arc<SamplingTask>,
    codes: UnitCodes,
    packer: Packer,
    shelf: Shelf<HeldRows>,
    rows: usize,
    /// The bytes of the batches in memory, and the unpacked bytes of all rows.
    bytes: usize,
    all_bytes: usize,
}

impl Holder {
    pub(super) fn new(
        task: Arc<SamplingTask>,
        unit_type: &DataType,
        shelf: Shelf<HeldRows>,
    ) -> Result<Self> {
        let codes = UnitCodes::new(unit_type)?;
        let packer = Packer::new(Arc::clone(&task.schema));
        Ok(Self { task, codes, packer, shelf, rows: 0, bytes: 0, all_bytes: 0 })
    }

    /// Reserves memory for the held batches, or writes them into a file if there is too little.
    ///
    /// # Errors
    /// An error with a constant text if there is too little memory, and no folder for files.
    pub(super) fn make_room(&mut self, reservation: &MemoryReservation) -> Result<()> {
        if self.shelf.fits(reservation, self.size()) {
            return Ok(());
        }
        if self.shelf.has_folder() {
            self.shelf.write_out(HeldRows::pack)?;
            self.bytes = 0;
        }
        reservation.try_resize(self.size()).map_err(|_| failed())
    }

    /// Holds one batch. Rows without a unit are ignored.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let units = batch.column(self.task.unit);
        if units.logical_nulls().is_some_and(|nulls| nulls.null_count() > 0) {
            let known = filter_record_batch(batch, &is_not_null(units)?)?;
            return self.push_known(&known);
        }
        self.push_known(batch)
    }

    fn push_known(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let units = self.codes.hold(batch.column(self.task.unit))?;
        let mut columns = batch.columns().to_vec();
        columns.remove(self.task.unit);
        for group in &self.task.group {
            // GROUP BY treats 0.0 and −0.0 as one group; if they were two groups here, that group
            // could keep twice its rows.
            columns[*group] = canonical(&columns[*group]);
        }
        if self.task.distinct {
            for other in &self.task.other {
                columns[*other] = canonical(&columns[*other]);
            }
        }
        // Collected rows are not packed, so their full length counts.
        self.all_bytes += units.size() + bytes_of(&columns)?;
        let rows = self.packer.pack(columns, batch.num_rows())?;
        let bytes = units.size() + rows.size()?;
        self.rows += rows.num_rows();
        self.bytes += bytes;
        self.shelf.held.push(HeldRows { units, rows, bytes });
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(super) fn size(&self) -> usize {
        let batches = self.bytes + self.shelf.held.capacity() * size_of::<HeldRows>();
        batches + self.codes.size() + self.packer.size()
    }
}

/// The state that all partitions share.
pub(super) struct SharedNames {
    pub(super) task: Arc<SamplingTask>,
    pub(super) units: UnitNames,
}

/// The held rows of one partition, and the memory that is reserved for them.
pub(super) struct SampledPartition {
    pub(super) shelf: Shelf<HeldRows>,
    rows: usize,
    bytes: usize,
    all_bytes: usize,
    reservation: MemoryReservation,
    /// The new code of each unit; `None` if the old codes hold for all partitions.
    units: Option<Arc<Vec<u64>>>,
}

/// Merges the numberings of all partitions: each unit gets one code in all of them.
///
/// # Errors
/// An error with a constant text if there is no partition.
pub(super) fn together(
    holders: Vec<(Holder, MemoryReservation)>,
) -> Result<(Arc<SharedNames>, Vec<SampledPartition>)> {
    let (mut parts, mut all) = (Vec::new(), None);
    for (holder, reservation) in holders {
        let Holder { task, codes, packer: _, shelf, rows, bytes, all_bytes } = holder;
        let units = match &mut all {
            None => {
                all = Some((task, codes));
                None
            }
            Some((_, all)) => all.absorb(codes)?,
        };
        let units = units.map(Arc::new);
        parts.push(SampledPartition { shelf, rows, bytes, all_bytes, reservation, units });
    }
    let (task, codes) = all.ok_or_else(failed)?;
    // The names of units take about as much memory as their codes did.
    if let Some(first) = parts.first_mut() {
        first.bytes += codes.size();
    }
    Ok((Arc::new(SharedNames { task, units: codes.finish(true)? }), parts))
}

/// Counters for the rows of each unit; `None` if no unit can exceed a bound.
pub(super) fn counters(
    context: &TaskContext,
    task: &SamplingTask,
    parts: &[SampledPartition],
) -> Option<RowCounts> {
    let rows = parts.iter().map(|part| part.rows).sum();
    let most = task.limits.spared(!task.group.is_empty());
    // If a bound is not less than the number of rows, no unit can exceed it.
    let most = most.filter(|most| usize::try_from(*most).is_ok_and(|most| most < rows));
    // Each part counts its rows; then the counts are added.
    let room = room(context) / (parts.len() + 1);
    most.map(|most| RowCounts::new(most, rows, room))
}

/// The most bytes that collecting takes for all parts.
pub(super) fn collected(parts: &[SampledPartition], crowded: &Crowded) -> usize {
    let rows: usize = parts.iter().map(|part| part.rows).sum();
    let bytes: usize = parts.iter().map(|part| part.all_bytes).sum();
    let own = crowded.rows().and_then(|own| usize::try_from(own).ok());
    let own = own.map_or(rows, |own| own.min(rows));
    own.saturating_mul(bytes.div_ceil(rows.max(1)) + size_of::<UnitRow>())
}

impl SampledPartition {
    /// Replaces the codes of units in memory by those that hold for all partitions.
    ///
    /// # Errors
    /// An error with a constant text for a unit without a code, and if there is not enough memory.
    pub(super) fn renumber(&mut self) -> Result<()> {
        if let Some(units) = &self.units {
            let mut scratch = Vec::new();
            for held in &mut self.shelf.held {
                let before = held.units.size();
                held.units.renumber(units, &mut scratch)?;
                let grown = |bytes: usize| (bytes + held.units.size()).saturating_sub(before);
                (self.bytes, held.bytes) = (grown(self.bytes), grown(held.bytes));
            }
        }
        if !self.shelf.renumbered()? {
            self.units = None;
        }
        self.reserve(0)
    }

    /// Moves the batches in memory into a file.
    ///
    /// # Errors
    /// An error with a constant text without a folder for files, or if it is full.
    pub(super) fn write_out(&mut self) -> Result<()> {
        let bytes: usize = self.shelf.held.iter().map(|held| held.bytes).sum();
        self.shelf.write_out(HeldRows::pack)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.reserve(0)
    }

    fn reserve(&self, more: usize) -> Result<()> {
        self.reservation.try_resize(self.bytes + more).map_err(|_| failed())
    }

    /// Counts the rows of each unit.
    ///
    /// # Errors
    /// An error with a constant text if there is not enough memory, or a file cannot be read.
    pub(super) async fn counted(
        mut self,
        task: &SamplingTask,
        counts: RowCounts,
    ) -> Result<(Self, RowCounts)> {
        let mut counts = Counting::new(counts, |bytes| self.reserve(bytes))?;
        let mut scratch = Vec::new();
        for held in &self.shelf.held {
            held.units.codes(&mut scratch);
            scratch.iter().for_each(|unit| counts.add(task.hash.scatter(*unit)));
            tokio::task::yield_now().await;
        }
        for file in self.shelf.written()? {
            let mut file = self.file(file);
            while let Some((units, _)) = file.next(task).await? {
                units.iter().for_each(|unit| counts.add(task.hash.scatter(*unit)));
            }
        }
        Ok((self, counts.finish()))
    }

    fn file(&self, batches: SpilledFile) -> HeldFile {
        HeldFile { batches, units: self.units.clone() }
    }

    /// Separates the rows of units that may exceed a bound. If they are collected in several turns,
    /// they go to files.
    ///
    /// # Errors
    /// An error with a constant text if there is not enough memory, for too many rows, or if a file
    /// cannot be written or read.
    pub(super) async fn split(
        mut self,
        task: Arc<SamplingTask>,
        crowded: Option<Arc<Crowded>>,
        turns: usize,
    ) -> Result<SeparatedRows> {
        let own = crowded.as_ref().map_or(0, |crowded| crowded.size());
        let collector = Collector::new(Arc::clone(&task));
        let (whole, scratch) = (Vec::new(), Vec::new());
        let mut split = Split { collector, whole, scratch };
        for held in std::mem::take(&mut self.shelf.held) {
            split.push(held, crowded.as_deref())?;
            // A batch that is split stays in memory while its pieces are made.
            self.reserve(split.collector.size() + own)?;
            tokio::task::yield_now().await;
        }
        let mut dealt = (turns > 1).then(|| self.shelf.deal(turns)).transpose()?;
        if let Some(crowded) = &crowded {
            for file in self.shelf.written()? {
                let mut file = self.file(file);
                while let Some((units, rows)) = file.next(&task).await? {
                    match &mut dealt {
                        Some(dealt) => deal(units, &rows, crowded, &task, dealt)?,
                        None => split.collect(units, &rows, crowded)?,
                    }
                    self.reserve(split.collector.size() + own)?;
                }
            }
        }
        let (whole, collected) = (split.whole, split.collector.finish()?);
        let bytes = whole.iter().map(|whole| whole.bytes).sum();
        self.reservation.try_resize(bytes).map_err(|_| failed())?;
        let files = self.shelf.written()?.into_iter().map(|file| self.file(file)).collect();
        let dealt = dealt.map_or(Ok(Vec::new()), Dealt::close)?;
        Ok(SeparatedRows { whole, files, reservation: self.reservation, collected, dealt })
    }
}

/// Writes the rows of units that may exceed a bound to the files of their units.
fn deal(
    units: Vec<u64>,
    rows: &RecordBatch,
    crowded: &Crowded,
    task: &SamplingTask,
    dealt: &mut Dealt,
) -> Result<()> {
    let bucket = |unit: &u64| {
        let hash = task.hash.scatter(*unit);
        let [bucket, ..] = hash.to_be_bytes();
        crowded.has(hash).then_some(bucket)
    };
    let buckets: Vec<_> = units.iter().map(bucket).collect();
    dealt.push(&with_units(rows, units)?, buckets.into_iter())
}

/// Held batches in a file.
pub(super) struct HeldFile {
    batches: SpilledFile,
    units: Option<Arc<Vec<u64>>>,
}

impl HeldFile {
    /// The rows of the next batch, and the codes of their units that hold for all partitions.
    ///
    /// # Errors
    /// An error with a constant text if the file cannot be read, and for a unit without a code.
    async fn next(&mut self, task: &SamplingTask) -> Result<Option<(Vec<u64>, RecordBatch)>> {
        let Some(batch) = self.batches.next().await? else { return Ok(None) };
        let (mut units, rows) = unpack(task, &batch)?;
        if let Some(codes) = self.units.as_ref().filter(|_| self.batches.own_numbers) {
            for unit in &mut units {
                let code = usize::try_from(*unit).ok().and_then(|unit| codes.get(unit));
                *unit = *code.ok_or_else(failed)?;
            }
        }
        Ok(Some((units, rows)))
    }

    /// The rows of the next batch whose units are within the bounds.
    ///
    /// # Errors
    /// An error with a constant text if the file cannot be read.
    pub(super) async fn next_whole(
        &mut self,
        task: &SamplingTask,
        crowded: Option<&Crowded>,
    ) -> Result<Option<RecordBatch>> {
        let Some((units, rows)) = self.next(task).await? else { return Ok(None) };
        let Some(crowded) = crowded else { return Ok(Some(rows)) };
        let within = BooleanBuffer::collect_bool(units.len(), |row| {
            !crowded.has(task.hash.scatter(units[row]))
        });
        Ok(Some(filter_record_batch(&rows, &BooleanArray::new(within, None))?))
    }
}

/// The rows of a held batch whose units are within the bounds.
pub(super) struct Whole {
    rows: Packed,
    /// The kept rows; `None` if all are kept.
    within: Option<BooleanBuffer>,
    /// The bytes in use.
    pub(super) bytes: usize,
}

impl Whole {
    /// These rows.
    pub(super) fn rows(self) -> Result<RecordBatch> {
        self.rows.rows(self.within.map(|within| BooleanArray::new(within, None)).as_ref())
    }
}

/// The rows of one partition, separated by whether their units may exceed a bound.
pub(super) struct SeparatedRows {
    /// Batches in memory; only the rows within the bounds stay.
    pub(super) whole: Vec<Whole>,
    /// Batches in files; only the rows within the bounds stay.
    pub(super) files: Vec<HeldFile>,
    /// The memory of the batches in memory.
    pub(super) reservation: MemoryReservation,
    /// The rows of units that may exceed a bound.
    pub(super) collected: Collected,
    /// The same rows in files, one for each turn.
    pub(super) dealt: Vec<Arc<dyn SpillFile>>,
}

/// Separates batch by batch.
struct Split {
    collector: Collector,
    whole: Vec<Whole>,
    scratch: Vec<u64>,
}

impl Split {
    fn push(&mut self, held: HeldRows, crowded: Option<&Crowded>) -> Result<()> {
        let HeldRows { units, rows, bytes } = held;
        let Some(crowded) = crowded else {
            self.whole.push(Whole { rows, within: None, bytes });
            return Ok(());
        };
        units.codes(&mut self.scratch);
        let hash = self.collector.hash();
        let units = &mut self.scratch;
        let beyond = |unit: &u64| crowded.has(hash.scatter(*unit));
        let suspects = BooleanBuffer::collect_bool(units.len(), |row| beyond(&units[row]));
        match suspects.count_set_bits() {
            0 => self.whole.push(Whole { rows, within: None, bytes }),
            all if all == units.len() => self.collector.push(units, rows.rows(None)?)?,
            _ => {
                let within = Some(!&suspects);
                let suspects = BooleanArray::new(suspects, None);
                units.retain(beyond);
                self.collector.push(units, rows.rows(Some(&suspects))?)?;
                // The rows that stay are copied only when they come out, because they are most of
                // the batch.
                self.whole.push(Whole { rows, within, bytes });
            }
        }
        Ok(())
    }

    /// Collects the rows of a batch in a file whose units may exceed a bound.
    fn collect(
        &mut self,
        mut units: Vec<u64>,
        rows: &RecordBatch,
        crowded: &Crowded,
    ) -> Result<()> {
        let hash = self.collector.hash();
        let beyond = |unit: &u64| crowded.has(hash.scatter(*unit));
        let suspects = BooleanBuffer::collect_bool(units.len(), |row| beyond(&units[row]));
        units.retain(beyond);
        self.collector.push(&units, filter_record_batch(rows, &BooleanArray::new(suspects, None))?)
    }
}
