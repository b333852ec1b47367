//! The passes of the operator, each over all partitions at once, and the output of each partition.
//!
//! In: the input. Out: for each partition its own rows of units within the bounds, and the chosen
//! rows of some buckets. The first output partition that is read runs the passes for all of them.
//! Each pass waits for the one before. A unit may have rows in every partition, so its rows are
//! counted when all rows have arrived, and chosen when all of them are collected.
//!
//! ```text
//! partition 0 ─ hold ─┐          ┌─ count ─┐           ┌─ split ─┐         ┌─ whole rows of 0, buckets 0, 2, …
//!                     ├ together ┤         ├ suspects ─┤         ├ buckets ┤
//! partition 1 ─ hold ─┘          └─ count ─┘           └─ split ─┘         └─ whole rows of 1, buckets 1, 3, …
//! ```

use std::collections::BTreeSet;
use std::mem::size_of;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use tokio::sync::OnceCell;

use super::choose::{Chooser, Suspects};
use super::hold::{
    HeldFile, Holder, SampledPartition, SeparatedRows, SharedNames, Whole, collected, counters,
    packed_schema, together, unpack,
};
use super::row_collector::{Collected, Collector, SamplingTask};
use crate::grid::failed;
use crate::operator::bound_contributions::{Crowded, RowCounts, UnitRow, at_once};
use crate::operator::shelf::{Shelf, SpilledFile, turns};

/// One run of the operator. Each output partition takes its own part of it.
#[derive(Default)]
pub(super) struct Run {
    begun: Mutex<BTreeSet<usize>>,
    parts: OnceCell<Vec<Mutex<Option<KeptRows>>>>,
}

/// Leaves out private rows.
impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}

impl Run {
    /// Notes that a partition is read; false if it was already read.
    pub(super) fn begin(&self, partition: usize) -> bool {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(partition)
    }

    /// The output of one partition.
    pub(super) async fn part(
        self: Arc<Self>,
        partition: usize,
        input: Arc<dyn ExecutionPlan>,
        task: SamplingTask,
        context: Arc<TaskContext>,
    ) -> Result<KeptRows> {
        let parts = self.parts.get_or_try_init(|| parts(input, task, context)).await?;
        let own = parts.get(partition).ok_or_else(failed)?;
        own.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(failed)
    }
}

/// The output of one partition: the rows of units within the bounds first, then the chosen rows.
pub(super) struct KeptRows {
    whole: Vec<Whole>,
    /// The memory of these batches.
    reservation: MemoryReservation,
    /// Batches in files, which also have rows of units that may exceed a bound.
    files: Vec<HeldFile>,
    crowded: Option<Arc<Crowded>>,
    names: Arc<SharedNames>,
    /// Chooses among the rows in memory; `None` between two turns.
    chooser: Option<Chooser>,
    /// The turns of this partition; each has one file of every partition.
    turns: Vec<Vec<Arc<dyn SpillFile>>>,
}

/// Runs all passes.
async fn parts(
    input: Arc<dyn ExecutionPlan>,
    task: SamplingTask,
    context: Arc<TaskContext>,
) -> Result<Vec<Mutex<Option<KeptRows>>>> {
    let unit_type = input.schema().field(task.unit).data_type().clone();
    let (task, mut readers) = (Arc::new(task), Vec::new());
    let memory = |partition: usize| {
        let consumer = MemoryConsumer::new(format!("SampleContributionsExec[{partition}]"));
        consumer.register(context.memory_pool())
    };
    let partitions = input.output_partitioning().partition_count();
    for partition in 0..partitions {
        let rows = input.execute(partition, Arc::clone(&context))?;
        let shelf = Shelf::new(&context, packed_schema(&task.schema), partitions);
        let holder = Holder::new(Arc::clone(&task), &unit_type, shelf)?;
        readers.push((rows, holder, memory(partition)));
    }
    let held = at_once(readers, |(rows, holder, reservation)| hold(rows, holder, reservation));
    let (names, held) = together(held.await?)?;
    let renumbered = at_once(held, |mut part| async move {
        part.renumber()?;
        Ok(part)
    });
    let mut held = renumbered.await?;
    let mut crowded = None;
    if let Some(counts) = counters(&context, &task, &held) {
        let counted = at_once(held, |part| {
            let (task, counts) = (Arc::clone(&task), counts.emptied());
            async move { part.counted(&task, counts).await }
        });
        let (parts, of_parts): (Vec<_>, Vec<RowCounts>) = counted.await?.into_iter().unzip();
        let sum = of_parts.into_iter().reduce(|mut sum, part| {
            sum.absorb(&part);
            sum
        });
        crowded = sum.map(RowCounts::finish).filter(Crowded::any).map(Arc::new);
        held = parts;
    }
    let in_turns = in_turns(&context, &mut held, crowded.as_deref())?;
    let apart = at_once(held, |part| part.split(Arc::clone(&task), crowded.clone(), in_turns));
    let (mut whole, mut collected) = (Vec::new(), Collected::default());
    let mut dealt: Vec<Vec<Arc<dyn SpillFile>>> = vec![Vec::new(); in_turns];
    for SeparatedRows { whole: rows, files, reservation, collected: of_part, dealt: of_turns } in
        apart.await?
    {
        whole.push((rows, reservation, files));
        collected.absorb(of_part)?;
        of_turns.into_iter().zip(&mut dealt).for_each(|(file, turn)| turn.push(file));
    }
    let Collected { batches, buckets, bytes } = collected;
    let shared = whole.first().map(|(_, first, _)| first.new_empty()).ok_or_else(failed)?;
    let rows: usize = buckets.iter().map(Vec::capacity).sum();
    shared.try_resize(bytes + rows * size_of::<UnitRow>()).map_err(|_| failed())?;
    let suspects = Arc::new(Suspects { batches, _reservation: shared });
    let mut of_parts: Vec<Vec<Vec<UnitRow>>> = whole.iter().map(|_| Vec::new()).collect();
    for (i, bucket) in buckets.into_iter().enumerate() {
        of_parts[i % partitions].push(bucket);
    }
    let mut turns: Vec<Vec<_>> = whole.iter().map(|_| Vec::new()).collect();
    for (i, turn) in dealt.into_iter().enumerate() {
        turns[i % partitions].push(turn);
    }
    let kept = whole.into_iter().zip(of_parts).zip(turns);
    let kept = kept.map(|(((whole, reservation, files), buckets), turns)| {
        let (names, suspects) = (Arc::clone(&names), Arc::clone(&suspects));
        let chooser = Chooser::new(Arc::clone(&names), suspects, buckets, reservation.new_empty())?;
        let (crowded, chooser) = (crowded.clone(), Some(chooser));
        Ok(Mutex::new(Some(KeptRows { whole, reservation, files, crowded, names, chooser, turns })))
    });
    kept.collect()
}

/// Decides in how many turns rows are chosen. If the rows to choose from do not fit into memory at
/// once, and there is a folder for files, all rows are first written into files.
fn in_turns(
    context: &TaskContext,
    parts: &mut [SampledPartition],
    crowded: Option<&Crowded>,
) -> Result<usize> {
    let Some(crowded) = crowded else { return Ok(1) };
    // All partitions read a turn of their own at the same time, and the chosen rows may wait in an
    // operator above, in as much memory.
    let readers = parts.len();
    let wanted = collected(parts, crowded).saturating_mul(readers).saturating_mul(2);
    if turns(context, wanted, readers) == 1 || !parts.iter().all(|part| part.shelf.has_folder()) {
        return Ok(1);
    }
    for part in parts.iter_mut() {
        part.write_out()?;
    }
    Ok(turns(context, wanted, readers))
}

impl KeptRows {
    /// Begins the next turn; false if none is left.
    ///
    /// # Errors
    /// An error with a constant text if a file cannot be read, and if there is not enough memory.
    async fn next_turn(&mut self) -> Result<bool> {
        // Frees the memory of the previous turn.
        self.chooser = None;
        let Some(files) = self.turns.pop() else { return Ok(false) };
        let task = &self.names.task;
        let reservation = self.reservation.new_empty();
        let mut collector = Collector::new(Arc::clone(task));
        for file in files {
            let mut file = SpilledFile::new(file.as_ref(), false)?;
            while let Some(batch) = file.next().await? {
                let (units, rows) = unpack(task, &batch)?;
                collector.push(&units, rows)?;
                reservation.try_resize(collector.size()).map_err(|_| failed())?;
            }
        }
        let Collected { batches, buckets, .. } = collector.finish()?;
        let own = reservation.new_empty();
        let suspects = Arc::new(Suspects { batches, _reservation: reservation });
        self.chooser = Some(Chooser::new(Arc::clone(&self.names), suspects, buckets, own)?);
        Ok(true)
    }
}

/// Reads one partition.
async fn hold(
    mut rows: SendableRecordBatchStream,
    mut holder: Holder,
    reservation: MemoryReservation,
) -> Result<(Holder, MemoryReservation)> {
    while let Some(batch) = rows.next().await {
        holder.push(&batch?)?;
        holder.make_room(&reservation)?;
    }
    Ok((holder, reservation))
}

/// The next batch of kept rows.
pub(super) async fn next(mut kept: KeptRows) -> Result<Option<(RecordBatch, KeptRows)>> {
    loop {
        // A dropped query stops between two batches or two buckets.
        tokio::task::yield_now().await;
        if let Some(whole) = kept.whole.pop() {
            let bytes = whole.bytes;
            let batch = whole.rows()?;
            kept.reservation.shrink(bytes.min(kept.reservation.size()));
            if batch.num_rows() > 0 {
                return Ok(Some((batch, kept)));
            }
            continue;
        }
        if let Some(file) = kept.files.last_mut() {
            match file.next_whole(&kept.names.task, kept.crowded.as_deref()).await? {
                Some(batch) if batch.num_rows() > 0 => return Ok(Some((batch, kept))),
                Some(_) => {}
                None => drop(kept.files.pop()),
            }
            continue;
        }
        let chosen = match &mut kept.chooser {
            Some(chooser) => match chooser.next_batch() {
                Some(batch) => return Ok(Some((batch, kept))),
                None => chooser.next_bucket()?,
            },
            None => false,
        };
        if !chosen && !kept.next_turn().await? {
            return Ok(None);
        }
    }
}
