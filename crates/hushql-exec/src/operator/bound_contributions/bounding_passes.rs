//! The passes of the operator, each over all partitions at once.
//!
//! In: the input, and the key space. Out: one row for every key. Each pass waits for the one
//! before. A unit may have rows in every partition, so its rows are counted when all rows have
//! arrived, and bounded when all of them are collected. Rows stay with the task that read them
//! until they are bounded; then each bucket goes to one task. If memory is short, rows wait in
//! files and are bounded in several turns. A turn has all rows of its units. A query that is
//! dropped stops between two batches or two buckets, but not while the numberings of the partitions
//! are merged.
//!
//! ```text
//! partition 0 ─ hold ─┐          ┌─ count ─┐           ┌─ split ─┐         ┌─ buckets 0, 2, … ─┐
//!                     ├ together ┤         ├ suspects ─┤         ├ buckets ┤                   ├ sums
//! partition 1 ─ hold ─┘          └─ count ─┘           └─ split ─┘         └─ buckets 1, 3, … ─┘
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::task::BoundingTask;
use crate::grid::failed;
use crate::operator::bound_contributions::columns::held_batches::Holder;
use crate::operator::bound_contributions::columns::spill_format;
use crate::operator::bound_contributions::exact::collect::Collector;
use crate::operator::bound_contributions::exact::merge_partitions::{
    HeldPartition, PartitionNames, balance, close_units, together,
};
use crate::operator::bound_contributions::exact::rows_by_unit::BUCKETS;
use crate::operator::bound_contributions::exact::totals::{CollectedShape, Totals, add};
use crate::operator::bound_contributions::exact::unit_buckets::Waited;
use crate::operator::bound_contributions::keys::key_space::KeySpace;
use crate::operator::bound_contributions::screen::over_bound::{
    By, CollectedPart, Least, Split, Suspects, Ways,
};
use crate::operator::bound_contributions::screen::partitioned_counting::Counting;
use crate::operator::bound_contributions::screen::row_count_filter::RowCounts;
use crate::operator::shelf::{Shelf, room, turns};

/// Reads all partitions and returns the totals for every key.
pub(super) async fn run(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    space: KeySpace,
    task: Arc<BoundingTask>,
    schema: SchemaRef,
) -> Result<RecordBatch> {
    let unit_type = input.schema().field(task.unit).data_type().clone();
    let mut readers = Vec::new();
    let partitions = input.output_partitioning().partition_count();
    for partition in 0..partitions {
        let consumer = MemoryConsumer::new(format!("BoundContributionsExec[{partition}]"));
        let reservation = consumer.register(context.memory_pool());
        let rows = input.execute(partition, Arc::clone(&context))?;
        let shelf = Shelf::new(&context, spill_format::schema(&task.sources), partitions);
        let holder = Holder::new(Arc::clone(&task), space.index()?, &unit_type, shelf)?;
        reservation.try_resize(holder.size()).map_err(|_| failed())?;
        readers.push((rows, holder, reservation));
    }
    let held = at_once(readers, |(rows, holder, reservation)| hold(rows, holder, reservation));
    let (names, parts) = together(held.await?)?;
    let renumbered = at_once(parts, |mut part| {
        let names = Arc::clone(&names);
        async move {
            part.renumber(&names)?;
            Ok(part)
        }
    });
    let parts = renumbered.await?;
    let close = close_units(&parts);
    let (mut parts, suspects) = suspects(&context, &names, parts).await?;
    let ways = Arc::new(Ways::new(&task, suspects, close));
    let mut sums = vec![vec![0; names.keys.len]; ways.outputs];
    if !ways.by_column {
        balance(&mut parts);
    }
    let (in_turns, mut parts) = dealt(&context, &names, &ways, parts).await?;
    for turn in 0..in_turns {
        let apart = at_once(parts, |part| {
            Split::new(Arc::clone(&names), Arc::clone(&ways), part).run(turn)
        });
        parts = bounded(&names, &ways, apart.await?, &mut sums).await?;
    }
    for columns in parts.iter().filter_map(|part| part.columns.as_ref()) {
        columns.add_to(&task.inputs, &task.sources, &mut sums)?;
    }
    drop(parts);
    with_keys(schema, &names.keys.columns, names.keys.len, sums)
}

/// The output batch: the keys, then the `len` totals of each output.
///
/// # Errors
/// DataFusion's error if the columns do not match the schema.
pub(crate) fn with_keys(
    schema: SchemaRef,
    keys: &[ArrayRef],
    len: usize,
    sums: Vec<Vec<i128>>,
) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = keys.to_vec();
    for sums in sums {
        columns.push(Arc::new(Decimal128Array::from(sums).with_precision_and_scale(38, 0)?));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(len));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// Runs `work` on each item, in a task of its own.
///
/// # Errors
/// The first error of a task, and an error with a constant text for a task that panics.
pub(crate) async fn at_once<T, R, F>(each: Vec<T>, work: impl Fn(T) -> F) -> Result<Vec<R>>
where
    F: Future<Output = Result<R>> + Send + 'static,
    R: Send + 'static,
{
    let tasks: Vec<_> = each.into_iter().map(|one| SpawnedTask::spawn(work(one))).collect();
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        done.push(task.join().await.map_err(|_| failed())??);
    }
    Ok(done)
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

/// Finds the units that may exceed a bound.
async fn suspects(
    context: &TaskContext,
    names: &Arc<PartitionNames>,
    mut parts: Vec<HeldPartition>,
) -> Result<(Vec<HeldPartition>, Suspects)> {
    // Each part counts its rows; then the counts are added.
    let room = room(context) / (parts.len() + 1);
    let rows = parts.iter().map(|part| part.rows).sum();
    let least = Least::new(&names.task, names.keys.len, rows);
    let (mut suspects, hash) = (Suspects::default(), names.task.hash);
    if let Some(most) = least.of_unit {
        let (by, counts) = (By::Unit(hash), RowCounts::new(most, rows, room));
        if let Some(share) = counts.of_a_share() {
            let counted;
            (parts, counted) = counted_by(by, names, parts, share).await?;
            suspects.units = counted.all_if_usual().map(|all| (by, all));
        }
        if suspects.units.is_none() {
            let counted;
            (parts, counted) = counted_by(by, names, parts, counts.emptied()).await?;
            let mut found = (by, counted.finish());
            // Where runs of consecutive unit codes overlap in the counters, many units share one:
            // this depends on the hash key. Then units are counted again, each scattered by itself.
            if found.1.rows() > Some(few(rows)) {
                let by = By::ScatteredUnit(hash);
                let counted;
                (parts, counted) = counted_by(by, names, parts, counts).await?;
                let scattered = counted.finish();
                if scattered.rows() < found.1.rows() {
                    found = (by, scattered);
                }
            }
            suspects.units = Some(found);
        }
    }
    if let Some(most) = least.of_group.filter(|_| !suspects.are_usual()) {
        let counts = RowCounts::new(most, rows, room);
        let by = By::UnitAndGroup(hash);
        let counted;
        (parts, counted) = counted_by(by, names, parts, counts).await?;
        suspects.groups = Some((by, counted.finish()));
    }
    Ok((parts, suspects))
}

/// The number of suspect rows up to which a finer screen saves nothing.
fn few(rows: usize) -> u64 {
    u64::try_from(rows / 16).unwrap_or(u64::MAX)
}

/// Counts the rows of all parts, each starting from `empty`.
async fn counted_by(
    by: By,
    names: &Arc<PartitionNames>,
    parts: Vec<HeldPartition>,
    empty: RowCounts,
) -> Result<(Vec<HeldPartition>, RowCounts)> {
    let empty = Arc::new(empty);
    let counted = at_once(parts, |mut part| {
        let (names, empty) = (Arc::clone(names), Arc::clone(&empty));
        async move {
            let reserve =
                |bytes| part.reservation.try_resize(part.bytes + bytes).map_err(|_| failed());
            let mut counts = Counting::new(empty.emptied(), reserve)?;
            for held in &part.shelf.held {
                by.count(held, &mut counts);
                tokio::task::yield_now().await;
            }
            for mut file in part.shelf.written()? {
                while let Some(held) = part.read(&mut file, &names).await? {
                    by.count(&held, &mut counts);
                }
            }
            Ok((part, counts.finish()))
        }
    });
    let (mut parts, mut all): (Vec<_>, Option<RowCounts>) = (Vec::new(), None);
    for (part, counts) in counted.await? {
        match &mut all {
            Some(all) => all.absorb(&counts),
            None => all = Some(counts),
        }
        parts.push(part);
    }
    Ok((parts, all.unwrap_or_else(|| empty.emptied())))
}

/// Decides in how many turns rows are collected. If they do not fit into memory at once, and there
/// is a folder for files, the rows of each turn are written into files of their own.
async fn dealt(
    context: &TaskContext,
    names: &Arc<PartitionNames>,
    ways: &Arc<Ways>,
    mut parts: Vec<HeldPartition>,
) -> Result<(usize, Vec<HeldPartition>)> {
    let collected = ways.collected(&names.task, parts.iter().map(|part| part.rows).sum());
    let readers = parts.len();
    if turns(context, collected, readers) == 1 || !parts.iter().all(|p| p.shelf.has_folder()) {
        return Ok((1, parts));
    }
    for part in &mut parts {
        part.write_out(&names.task)?;
    }
    let turns = turns(context, collected, readers);
    if turns > 1 {
        parts = at_once(parts, |part| {
            Split::new(Arc::clone(names), Arc::clone(ways), part).deal(turns)
        })
        .await?;
    }
    Ok((turns, parts))
}

/// Bounds the rows that all parts collected, and adds them up.
async fn bounded(
    names: &Arc<PartitionNames>,
    ways: &Ways,
    apart: Vec<CollectedPart>,
    sums: &mut [Vec<i128>],
) -> Result<Vec<HeldPartition>> {
    let tasks = apart.len();
    let (mut beyond, mut bounded, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for one in apart {
        beyond.extend(one.beyond);
        bounded.extend(one.bounded);
        parts.push(one.part);
    }
    let mut dealt: Vec<Vec<(Arc<CollectedShape>, Vec<Waited>)>> = Vec::new();
    dealt.resize_with(tasks, Vec::new);
    for (shape, collectors) in [(&ways.beyond, beyond), (&ways.bounded, bounded)] {
        let Some(shape) = shape else { continue };
        for (i, bucket) in buckets(collectors).into_iter().enumerate() {
            dealt[i % tasks].push((Arc::clone(shape), bucket));
        }
    }
    dealt.retain(|buckets| !buckets.is_empty());
    let bounded = at_once(dealt, |buckets| {
        let mut totals = Totals::new(Arc::clone(names), ways.outputs, buckets);
        async move {
            while totals.next_bucket()? {
                tokio::task::yield_now().await;
            }
            Ok(totals.into_sums())
        }
    });
    for own in bounded.await? {
        for (sums, own) in sums.iter_mut().zip(own) {
            sums.iter_mut().zip(own).try_for_each(|(sum, part)| add(sum, part))?;
        }
    }
    for part in &parts {
        part.reservation.try_resize(part.bytes).map_err(|_| failed())?;
    }
    Ok(parts)
}

/// The rows that all parts collected, bucket by bucket, without empty ones.
fn buckets(collectors: Vec<Collector>) -> Vec<Vec<Waited>> {
    let mut parts: Vec<_> =
        collectors.into_iter().map(|collector| collector.into_buckets().into_iter()).collect();
    let all = (0..BUCKETS).map(|_| {
        let of_all = parts.iter_mut().filter_map(Iterator::next);
        of_all.filter(|bucket| !bucket.is_empty()).collect::<Vec<_>>()
    });
    all.filter(|bucket| !bucket.is_empty()).collect()
}
