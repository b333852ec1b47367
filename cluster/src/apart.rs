//! The last check of a plan that was divided among workers: rows that belong together reach the
//! same task.
//!
//! In: the plan that `datafusion-distributed` made of a verified bounded input, in stages of
//! several tasks each. Out: whether all of this holds: every operator below the bounds finds the
//! rows that it needs together in its own task; a task reads nothing as a whole but the kept side
//! of a join; exactly one operator bounds the rows of a unit, in the task that has all of them; and
//! one task reads each piece of each file. Any other plan is not sent, but runs in the process of
//! the driver.
//!
//! ```text
//! NetworkCoalesceExec
//!   BoundContributionsExec: unit=patient@0          task i of 4 has the patients whose hash is i
//!     NetworkShuffleExec
//!       RepartitionExec: Hash([patient@0], …)       task j of 4 read a quarter of the file
//!         …
//! ```

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DistributedExec, DistributedLeafExec, NetworkBoundaryExt, NetworkCoalesceExec,
    NetworkShuffleExec, Stage,
};
use hushql_engine::exec::distributed::bounded_unit;

use crate::carried::Carried;
use crate::codec::goes_by_name;
use crate::once::{Once, Step};
use crate::whole::{Opened, Whole, takes_whole};

/// Whether a distributed plan yields the integers of the plan that was divided.
///
/// # Guarantee
/// True only if all of this holds:
/// - Below the operator that bounds contributions, or everywhere if only the root bounds them, each
///   operator that needs rows together gets them from an operator directly below it that brings
///   them together within its task.
/// - The operator that bounds contributions reads rows that were distributed by the unit alone.
/// - Every leaf of a stage of several tasks is divided, and each piece of a file is read once.
pub(crate) fn is_divided_soundly(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(distributed) = plan.downcast_ref::<DistributedExec>() else { return false };
    let [head] = distributed.children()[..] else { return false };
    let is_bounded = holds_bounds(head);
    is_step(head, Step::Counted)
        && is_sound(head, &Within { tasks: 1, is_above_bounds: is_bounded, is_shuffled: false })
}

/// The position of an operator in the plan.
struct Within {
    /// The tasks of its stage.
    tasks: usize,
    /// Whether contributions are bounded below it.
    is_above_bounds: bool,
    /// Whether its rows are shuffled among tasks directly above it.
    is_shuffled: bool,
}

/// The keys by which an operator distributes rows. It must distribute them among all tasks.
fn distributed_by(plan: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn PhysicalExpr>]> {
    match plan.downcast_ref::<RepartitionExec>()?.partitioning() {
        Partitioning::Hash(by, _) => Some(by),
        _ => None,
    }
}

fn holds_bounds(plan: &Arc<dyn ExecutionPlan>) -> bool {
    bounded_unit(plan).is_some() || below(plan).into_iter().any(|(child, _)| holds_bounds(&child))
}

/// Whether an operator marks or checks rows in this step.
fn is_step(plan: &Arc<dyn ExecutionPlan>, step: Step) -> bool {
    plan.downcast_ref::<Once>().is_some_and(|once| once.step() == step)
}

/// Whether each row below a boundary carries its partition and the execution of that partition.
fn are_marked(boundary: &Arc<dyn ExecutionPlan>) -> bool {
    below(boundary).into_iter().all(|(head, _)| match head.downcast_ref::<RepartitionExec>() {
        Some(dealt) => is_step(dealt.input(), Step::Sent),
        None => is_step(&head, Step::Sent) || is_step(&head, Step::Numbered),
    })
}

/// The inputs of an operator, with their number of tasks if it differs.
fn below(plan: &Arc<dyn ExecutionPlan>) -> Vec<(Arc<dyn ExecutionPlan>, Option<usize>)> {
    match plan.as_network_boundary().map(|boundary| boundary.input_stage()) {
        Some(Stage::Local(stage)) => vec![(Arc::clone(&stage.plan), Some(stage.tasks))],
        Some(Stage::Remote(_)) => Vec::new(),
        None => plan.children().into_iter().map(|child| (Arc::clone(child), None)).collect(),
    }
}

fn is_sound(plan: &Arc<dyn ExecutionPlan>, within: &Within) -> bool {
    let Within { tasks, is_above_bounds, is_shuffled } = *within;
    let unit = bounded_unit(plan);
    let is_above = is_above_bounds && unit.is_none();
    let here = if plan.is_network_boundary() {
        (plan.is::<NetworkShuffleExec>() || plan.is::<NetworkCoalesceExec>()) && are_marked(plan)
    } else if let Some(unit) = unit {
        is_bounded_apart(plan, unit, tasks)
    } else if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
        leaf.variants().len() == tasks && are_pieces(leaf)
    } else if plan.children().is_empty() {
        tasks == 1 || plan.is::<EmptyExec>()
    } else if let Some(by) = distributed_by(plan) {
        // In descriptions by `datafusion-distributed`, functions of the engine are lost.
        by.iter().all(goes_by_name) && (tasks == 1 || is_shuffled)
    } else {
        is_above || tasks == 1 || finds_its_rows(plan)
    };
    let is_shuffled = plan.is::<NetworkShuffleExec>();
    here && below(plan).into_iter().enumerate().all(|(i, (child, own))| {
        let tasks = own.unwrap_or(tasks);
        if child.is::<Whole>() {
            return tasks == 1 || (i == 0 && takes_whole(Carried::unwrapped(plan)));
        }
        is_sound(&child, &Within { tasks, is_above_bounds: is_above, is_shuffled })
    })
}

/// Whether a task that bounds the rows of a unit has all of them.
fn is_bounded_apart(plan: &Arc<dyn ExecutionPlan>, unit: usize, tasks: usize) -> bool {
    let [input] = plan.children()[..] else { return false };
    let schema = input.schema();
    let Some(field) = schema.fields().get(unit) else { return false };
    let unit: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), unit));
    tasks == 1 || is_shuffled_by(input, &[unit])
}

/// Whether these rows were distributed among tasks by some of these keys.
fn is_shuffled_by(rows: &Arc<dyn ExecutionPlan>, keys: &[Arc<dyn PhysicalExpr>]) -> bool {
    shuffled(rows, keys).is_some()
}

/// How rows were distributed among tasks: the positions of the keys, the number of partitions of a
/// task, and that of all tasks. `None` if they were not distributed, or by other expressions. They
/// may have been sorted since.
fn shuffled(
    rows: &Arc<dyn ExecutionPlan>,
    keys: &[Arc<dyn PhysicalExpr>],
) -> Option<(Vec<usize>, usize, usize)> {
    let operator = Carried::unwrapped(rows);
    if let Some(sort) = operator.downcast_ref::<SortExec>() {
        let each = sort.preserve_partitioning() && sort.fetch().is_none();
        return shuffled(sort.input(), keys).filter(|_| each);
    }
    // The operator that takes the rows checks that each stage below ran once.
    let rows = rows.downcast_ref::<Once>().filter(|once| once.step() == Step::Taken)?.input();
    if !rows.is::<NetworkShuffleExec>() {
        return None;
    }
    // The boundary and the plan below it must agree on how rows are distributed.
    let among = |partitioning: &Partitioning| match partitioning {
        Partitioning::Hash(by, partitions) if !by.is_empty() => {
            let place = |expr| keys.iter().position(|key| key == expr);
            Some((by.iter().map(place).collect::<Option<Vec<_>>>()?, *partitions))
        }
        _ => None,
    };
    let below = below(rows);
    let [(producer, _)] = below.as_slice() else { return None };
    let dealt = producer.downcast_ref::<RepartitionExec>()?;
    let ((own, partitions), (theirs, all)) =
        (among(rows.output_partitioning())?, among(dealt.partitioning())?);
    (own == theirs).then_some((own, partitions, all))
}

/// Whether rows of both sides that have equal keys are in the same partition of the same task.
fn meet(join: &HashJoinExec) -> bool {
    let (left, right): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
    let left = shuffled(join.left(), &left);
    left.is_some() && left == shuffled(join.right(), &right)
}

/// Whether the rows that an operator needs together are together in its task.
fn finds_its_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let operator = Carried::unwrapped(plan);
    if let Some(join) = operator.downcast_ref::<HashJoinExec>() {
        match join.partition_mode() {
            PartitionMode::Partitioned => return meet(join),
            PartitionMode::CollectLeft => {}
            PartitionMode::Auto => return false,
        }
    }
    // Its output is brought together again, above a boundary.
    if operator.is::<CoalescePartitionsExec>() {
        return false;
    }
    let needs = operator.input_distribution_requirements();
    plan.children().into_iter().enumerate().all(|(i, input)| match needs.child_distribution(i) {
        _ if input.is::<Whole>() => i == 0 && takes_whole(operator),
        None | Some(Distribution::UnspecifiedDistribution) => true,
        Some(Distribution::SinglePartition) => false,
        #[expect(deprecated, reason = "an operator may still say it by its former name")]
        Some(Distribution::HashPartitioned(keys) | Distribution::KeyPartitioned(keys)) => {
            is_shuffled_by(input, keys)
        }
    })
}

/// The bytes of each file that a scan reads, as ranges.
fn ranges(scan: &Arc<dyn ExecutionPlan>) -> Option<Vec<(String, i64, i64)>> {
    let scan = scan.downcast_ref::<Opened>().map_or(scan, Opened::scan);
    let source = scan.downcast_ref::<DataSourceExec>()?;
    let files = source.data_source().downcast_ref::<FileScanConfig>()?;
    let files = files.file_groups.iter().flat_map(|group| group.files());
    let range = |file: &datafusion::datasource::listing::PartitionedFile| {
        let size = i64::try_from(file.object_meta.size).ok()?;
        let (from, to) = match &file.range {
            Some(range) => (range.start, range.end),
            None => (0, size),
        };
        Some((file.object_meta.location.to_string(), from, to))
    };
    files.map(range).collect()
}

/// Whether the variants of a leaf together read each byte of its files exactly once.
fn are_pieces(leaf: &DistributedLeafExec) -> bool {
    let variants: Option<Vec<_>> = leaf.variants().iter().map(ranges).collect();
    let (Some(variants), Some(whole)) = (variants, ranges(leaf.original())) else { return false };
    joined(variants.concat()).is_some_and(|read| Some(read) == joined(whole))
}

/// Merges adjacent ranges; `None` if two ranges overlap.
fn joined(mut ranges: Vec<(String, i64, i64)>) -> Option<Vec<(String, i64, i64)>> {
    ranges.retain(|(_, from, to)| from < to);
    ranges.sort();
    let mut joined: Vec<(String, i64, i64)> = Vec::new();
    for (file, from, to) in ranges {
        match joined.last_mut() {
            Some((last, _, end)) if *last == file && from < *end => return None,
            Some((last, _, end)) if *last == file && from == *end => *end = to,
            Some(_) | None => joined.push((file, from, to)),
        }
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_file_once() {
        let range = |file: &str, from, to| (file.to_owned(), from, to);
        let (a, b) = (range("a", 0, 10), range("b", 0, 7));
        let pieces = vec![range("a", 4, 10), b.clone(), range("a", 0, 4), range("a", 2, 2)];
        assert_eq!(joined(pieces), joined(vec![a.clone(), b.clone()]));
        assert_ne!(joined(vec![range("a", 0, 4), range("a", 5, 10), b]), joined(vec![a.clone()]));
        assert_eq!(joined(vec![a.clone(), range("a", 9, 10)]), None);
        assert_eq!(joined(vec![a.clone(), a]), None);
    }
}
