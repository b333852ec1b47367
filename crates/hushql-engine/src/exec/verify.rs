//! The last check before the charge: the finished physical plan is the one that the charge pays
//! for.
//!
//! In: the plan of one private aggregate, after every optimizer. Out: nothing, or a refusal to run.
//! A node's own checks cannot notice that the node is missing, so the whole tree is walked. The
//! root privatizes exactly this release; every leaf is a scan of this aggregate's private table (or
//! empty); and every operator in between keeps rows separate.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{Distribution, Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::datafusion::limited_joins::{LimitedJoinExec, may_spill};
use super::datafusion::opaque::{OpaqueExec, goes_by_no_order, orders_its_rows};
use super::privatize::PrivatizeExec;
use super::source::ledger::LedgerExec;
use crate::analysis::PrivateAggregate;
use crate::exec::draw::draw_plan::Specification;
use hushql_exec::operator::bound_contributions::BoundContributionsExec;
use hushql_exec::operator::count_places::CountPlacesExec;
use hushql_exec::operator::look_up::LookUpExec;
use hushql_exec::operator::private_scan::PrivateScanExec;
use hushql_exec::operator::sample_rows::SampleContributionsExec;
use hushql_exec::operator::sum_by_key::SumByKeyExec;

/// A finished plan that differs from the analyzed one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the finished plan is not the analyzed one: {0}")]
pub struct VerifyError(String);

/// What the plan of a private aggregate may read, and whether it must bound a unit's rows.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    /// The private tables.
    pub(super) tables: &'a [String],
    /// Whether the plan reads public rows, too.
    pub(super) public: bool,
    /// Whether a column names the unit.
    pub(super) bounded: bool,
}

impl<'a> Expected<'a> {
    pub(super) fn for_part(part: &'a PrivateAggregate) -> Self {
        Self {
            tables: part.subject().tables(),
            public: !part.public().is_empty(),
            bounded: part.has_unit(),
        }
    }
}

/// Checks the plan of one private aggregate.
///
/// # Guarantee
/// Succeeds only if the root is the privatizing operator of `specification`, no other operator of
/// the plan privatizes, and every plan below the root passes [`verify_feed`].
///
/// # Errors
/// [`VerifyError`], naming the operator.
pub(super) fn verify(
    plan: &Arc<dyn ExecutionPlan>,
    specification: &Arc<Specification>,
    expected: &Expected<'_>,
) -> Result<(), VerifyError> {
    let Some(root) = plan.downcast_ref::<PrivatizeExec>() else {
        return Err(VerifyError(format!("its root is {}", plan.name())));
    };
    if !Arc::ptr_eq(root.specification(), specification) {
        return Err(VerifyError("its root releases something else".to_owned()));
    }
    plan.children().into_iter().try_for_each(|bounded_input| verify_feed(bounded_input, expected))
}

/// Checks the plan of a bounded input of a private aggregate.
///
/// # Guarantee
/// Succeeds only if the plan consists of known operators. Every leaf is a private scan of one of
/// the tables, a public scan if one is expected, or empty. Every other operator is a filter,
/// projection, join, union, aggregate (of whole groups), window (over rows that are sorted below it
/// as its functions need), sort, contribution bounding, or a move between partitions. Rows that an
/// operator needs together are moved into one partition just below it. No nested-loop join may
/// write files. Exactly one operator bounds contributions, by aggregates or by rows, and none if
/// every row is a unit.
///
/// # Errors
/// [`VerifyError`], naming the operator.
pub(super) fn verify_feed(
    plan: &Arc<dyn ExecutionPlan>,
    expected: &Expected<'_>,
) -> Result<(), VerifyError> {
    let times = times_bounded(plan);
    verify_below(plan, expected, expected.bounded || times > 0)?;
    if times == usize::from(expected.bounded) {
        Ok(())
    } else {
        Err(VerifyError(format!("contributions are bounded {times} times")))
    }
}

fn times_bounded(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if plan.is::<PrivateScanExec>() {
        return 0;
    }
    let below: usize = plan.children().into_iter().map(times_bounded).sum();
    below + usize::from(bounds_contributions(plan))
}

fn bounds_contributions(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<BoundContributionsExec>() || plan.is::<SampleContributionsExec>()
}

/// Checks the public plan.
///
/// # Guarantee
/// Succeeds only if no operator of the plan scans a private table.
///
/// # Errors
/// [`VerifyError`], naming the table.
pub(super) fn verify_public(plan: &Arc<dyn ExecutionPlan>) -> Result<(), VerifyError> {
    if let Some(scan) = plan.downcast_ref::<PrivateScanExec>() {
        return Err(VerifyError(format!("its public plan reads {}", scan.table())));
    }
    plan.children().into_iter().try_for_each(|child| {
        refuse_spilling_join(child, plan)?;
        verify_public(child)
    })
}

/// Refuses a nested-loop join that may write files, because it may then emit a row several times.
fn refuse_spilling_join(
    plan: &Arc<dyn ExecutionPlan>,
    parent: &Arc<dyn ExecutionPlan>,
) -> Result<(), VerifyError> {
    match may_spill(plan, parent) {
        true => Err(VerifyError(format!("its {} may write files", plan.name()))),
        false => Ok(()),
    }
}

fn verify_below(
    plan: &Arc<dyn ExecutionPlan>,
    expected: &Expected<'_>,
    is_above_bounds: bool,
) -> Result<(), VerifyError> {
    if let Some(scan) = plan.downcast_ref::<PrivateScanExec>() {
        // The table provider is responsible for everything below the marked scan.
        return if expected.tables.iter().any(|table| table == scan.table()) {
            Ok(())
        } else {
            Err(VerifyError(format!("it reads {}", scan.table())))
        };
    }
    let bounding = bounds_contributions(plan);
    let is_above_bounds = is_above_bounds && !bounding;
    // An aggregate that emits a group before it has all its rows may emit the group twice; so may a
    // window that restarts.
    let waits = plan.downcast_ref::<AggregateExec>().is_none_or(goes_by_no_order);
    if !waits || !orders_its_rows(plan) {
        return Err(VerifyError(format!("its {} relies on the order of rows", plan.name())));
    }
    let known = bounding
        || plan.is::<AggregateExec>()
        || (is_above_bounds && plan.is::<CountPlacesExec>())
        || (!expected.bounded && plan.is::<SumByKeyExec>())
        || plan.is::<OpaqueExec>()
        || plan.is::<LimitedJoinExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<LookUpExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<UnionExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<EmptyExec>()
        // Private tables are read only through marked scans, at which this function returned above.
        || (expected.public && is_source(plan));
    if !known {
        return Err(VerifyError(format!("it holds a {}", plan.name())));
    }
    if plan.fetch().is_some() {
        return Err(VerifyError(format!("its {} stops early", plan.name())));
    }
    let children = plan.children();
    let is_public = expected.public && is_source(plan);
    if children.is_empty() && !plan.is::<EmptyExec>() && !is_public {
        return Err(VerifyError(format!("its rows come from a {}", plan.name())));
    }
    children.into_iter().try_for_each(|child| {
        refuse_spilling_join(child, plan)?;
        verify_below(child, expected, is_above_bounds)
    })?;
    // Above the bounds, the reader adds up the sums of all partitions.
    if !is_above_bounds && !gathers_its_rows(plan) {
        return Err(VerifyError(format!(
            "rows that its {} needs together may be apart",
            plan.name()
        )));
    }
    Ok(())
}

/// Whether the rows that an operator needs together are brought together just below it. It does not
/// suffice that an operator further below claims it.
fn gathers_its_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let needs = plan.input_distribution_requirements();
    let inputs = plan.children();
    let counts = inputs.iter().map(|input| input.output_partitioning().partition_count());
    let alike = counts.clone().all(|count| Some(count) == counts.clone().next());
    inputs.iter().enumerate().all(|(i, input)| {
        let single = input.output_partitioning().partition_count() == 1;
        match needs.child_distribution(i) {
            None | Some(Distribution::UnspecifiedDistribution) => true,
            Some(Distribution::SinglePartition) => single,
            #[expect(deprecated, reason = "an operator may still say it by its former name")]
            Some(Distribution::HashPartitioned(keys) | Distribution::KeyPartitioned(keys)) => {
                alike && (single || is_distributed_by(input, keys))
            }
        }
    })
}

/// Whether these rows were partitioned by some of these keys, and at most sorted afterwards.
fn is_distributed_by(rows: &Arc<dyn ExecutionPlan>, keys: &[Arc<dyn PhysicalExpr>]) -> bool {
    if let Some(sort) = rows.downcast_ref::<SortExec>() {
        return is_distributed_by(sort.input(), keys);
    }
    let partitioning = rows.downcast_ref::<RepartitionExec>().map(RepartitionExec::partitioning);
    match partitioning {
        Some(Partitioning::Hash(by, _)) => {
            !by.is_empty() && by.iter().all(|expr| keys.contains(expr))
        }
        _ => false,
    }
}

/// Whether this operator reads a table.
fn is_source(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<DataSourceExec>() || plan.is::<StreamingTableExec>() || plan.is::<LedgerExec>()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{JoinType, NullEquality};
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::joins::PartitionMode;
    use datafusion::physical_plan::projection::ProjectionExpr;

    use super::*;

    /// It does not suffice that an operator claims to keep rows together: they must be brought
    /// together.
    #[test]
    fn rows_are_brought_together_just_below() {
        let fields = ["id", "x"].map(|name| Field::new(name, DataType::Int64, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let id = || col("id", &schema).unwrap();
        let empty: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let by = |key: &str| -> Arc<dyn ExecutionPlan> {
            let keys = Partitioning::Hash(vec![col(key, &schema).unwrap()], 2);
            Arc::new(RepartitionExec::try_new(Arc::clone(&empty), keys).unwrap())
        };
        let projected: Arc<dyn ExecutionPlan> = {
            let columns = ["id", "x"].map(|name| ProjectionExpr {
                expr: col(name, &schema).unwrap(),
                alias: name.to_owned(),
            });
            Arc::new(ProjectionExec::try_new(columns, by("id")).unwrap())
        };
        let joined = |right: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
            let (on, mode) = (vec![(id(), id())], PartitionMode::Partitioned);
            let join = HashJoinExec::try_new(
                by("id"),
                right,
                on,
                None,
                &JoinType::Inner,
                None,
                mode,
                NullEquality::NullEqualsNothing,
                false,
            );
            Arc::new(join.unwrap())
        };
        assert!(gathers_its_rows(&joined(by("id"))));
        assert!(!gathers_its_rows(&joined(by("x"))), "by another column");
        assert!(!gathers_its_rows(&joined(projected)), "somewhere further below");
        assert!(
            !gathers_its_rows(&joined(Arc::clone(&empty))),
            "fewer partitions than on the other side"
        );
    }
}
