//! The passes of the operator, each over all partitions at once, and what each partition then yields.
//!
//! In: the input. Out: for each partition its own rows of units within the bounds, and the chosen rows of some buckets. The first
//! partition that is read makes the passes for all of them. Each pass waits for the one before: a unit may have rows in every
//! partition, so its rows are counted when all have arrived, and chosen when all were collected.
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
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use tokio::sync::OnceCell;

use super::choose::{Chooser, Suspects};
use super::collect::{Collected, Task};
use super::hold::{Apart, Holder, counters, together};
use crate::exec::operator::bound_contributions::{Crowded, Row, RowCounts, at_once};
use crate::grid::failed;

/// One run of the operator, of which each partition takes its own part.
#[derive(Default)]
pub(super) struct Run {
    begun: Mutex<BTreeSet<usize>>,
    parts: OnceCell<Vec<Mutex<Option<Kept>>>>,
}

/// Private rows are left out.
impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}

impl Run {
    /// Notes that a partition is read; false if it was read before.
    pub(super) fn begin(&self, partition: usize) -> bool {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(partition)
    }

    /// What one partition yields.
    pub(super) async fn part(
        self: Arc<Self>,
        partition: usize,
        input: Arc<dyn ExecutionPlan>,
        task: Task,
        context: Arc<TaskContext>,
    ) -> Result<Kept> {
        let parts = self.parts.get_or_try_init(|| parts(input, task, context)).await?;
        let own = parts.get(partition).ok_or_else(failed)?;
        own.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(failed)
    }
}

/// The rows that a partition yields: those of units within the bounds first, then those that are chosen.
pub(super) struct Kept {
    /// Each batch with its bytes.
    whole: Vec<(RecordBatch, usize)>,
    /// The memory of these batches.
    reservation: MemoryReservation,
    chooser: Chooser,
}

/// Makes all passes.
async fn parts(
    input: Arc<dyn ExecutionPlan>,
    task: Task,
    context: Arc<TaskContext>,
) -> Result<Vec<Mutex<Option<Kept>>>> {
    let unit_type = input.schema().field(task.unit).data_type().clone();
    let (task, mut readers) = (Arc::new(task), Vec::new());
    let memory = |partition: usize| {
        let consumer = MemoryConsumer::new(format!("SampleContributionsExec[{partition}]"));
        consumer.register(context.memory_pool())
    };
    for partition in 0..input.output_partitioning().partition_count() {
        let rows = input.execute(partition, Arc::clone(&context))?;
        readers.push((rows, Holder::new(Arc::clone(&task), &unit_type)?, memory(partition)));
    }
    let held = at_once(readers, |(rows, holder, reservation)| hold(rows, holder, reservation));
    let (names, held) = together(held.await?)?;
    let renumbered = at_once(held, |mut part| async move {
        part.renumber()?;
        Ok(part)
    });
    let mut held = renumbered.await?;
    let mut crowded = None;
    if let Some(counts) = counters(&task, &held) {
        let counted = at_once(held, |part| {
            let (task, counts) = (Arc::clone(&task), counts.clone());
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
    let apart = at_once(held, |part| part.split(Arc::clone(&task), crowded.clone())).await?;
    let (mut whole, mut collected) = (Vec::new(), Collected::default());
    for Apart { whole: rows, reservation, collected: of_part } in apart {
        whole.push((rows, reservation));
        collected.absorb(of_part)?;
    }
    let Collected { batches, buckets, bytes } = collected;
    let shared = whole.first().map(|(_, first)| first.new_empty()).ok_or_else(failed)?;
    let rows: usize = buckets.iter().map(Vec::capacity).sum();
    shared.try_resize(bytes + rows * size_of::<Row>()).map_err(|_| failed())?;
    let suspects = Arc::new(Suspects { batches, _reservation: shared });
    let mut of_parts: Vec<Vec<Vec<Row>>> = whole.iter().map(|_| Vec::new()).collect();
    let partitions = of_parts.len();
    for (i, bucket) in buckets.into_iter().enumerate() {
        of_parts[i % partitions].push(bucket);
    }
    let kept = whole.into_iter().zip(of_parts).map(|((whole, reservation), buckets)| {
        let (names, suspects) = (Arc::clone(&names), Arc::clone(&suspects));
        let chooser = Chooser::new(names, suspects, buckets, reservation.new_empty())?;
        Ok(Mutex::new(Some(Kept { whole, reservation, chooser })))
    });
    kept.collect()
}

/// Reads one partition.
async fn hold(
    mut rows: SendableRecordBatchStream,
    mut holder: Holder,
    reservation: MemoryReservation,
) -> Result<(Holder, MemoryReservation)> {
    while let Some(batch) = rows.next().await {
        holder.push(&batch?)?;
        reservation.try_resize(holder.size()).map_err(|_| failed())?;
    }
    Ok((holder, reservation))
}

/// The next batch of kept rows.
pub(super) async fn next(mut kept: Kept) -> Result<Option<(RecordBatch, Kept)>> {
    loop {
        // A dropped query stops between two batches, and between two buckets.
        tokio::task::yield_now().await;
        if let Some((batch, bytes)) = kept.whole.pop() {
            kept.reservation.shrink(bytes.min(kept.reservation.size()));
            if batch.num_rows() > 0 {
                return Ok(Some((batch, kept)));
            }
            continue;
        }
        if let Some(batch) = kept.chooser.next_batch() {
            return Ok(Some((batch, kept)));
        }
        if !kept.chooser.next_bucket()? {
            return Ok(None);
        }
    }
}
