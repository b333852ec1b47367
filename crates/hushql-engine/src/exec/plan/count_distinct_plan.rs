//! `COUNT(DISTINCT x)`: the plan that counts the distinct values of a group, bounded per unit.
//!
//! In: a private aggregate and its measure, or rows of a unit, group keys and a value. Out: a plan
//! that yields the keys and one integer. A unit's rows become pairs of a group and a value. The
//! unit keeps as many distinct pairs as its bounds allow, chosen by a keyed hash of its own groups
//! and values alone. Only then are equal pairs of different units merged, so that no unit's choice
//! depends on the rows of others. If a choice preferred values that no other unit has, one person
//! could change many counts.
//!
//! ```text
//! CoalescePartitionsExec                            adds the partitions' counts up
//!   AggregateExec: gby=[city]  count                one for every pair
//!     AggregateExec: gby=[city, product]            every distinct pair once
//!       RepartitionExec: Hash([city, product], 2)   equal pairs in one partition
//!         SampleContributionsExec: distinct values, …          at most m of a unit in a group, M in all, C groups
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use crate::analysis::{Measure, PrivateAggregate};
use crate::exec::plan::rows::{column, conditions, in_partitions, planned};
use hushql_exec::aggregate::terms::{Term, TermKind, summed};
use hushql_exec::operator::bound_contributions::{EnforcedBounds, LateKey};
use hushql_exec::operator::sample_rows::SampleContributionsExec;

#[cfg(test)]
mod tests;

/// Plans the counts of distinct values of the input's column `value`.
///
/// # Guarantee
/// For all data, removing one unit lowers the count of a group by at most the number of pairs that
/// the unit keeps there, and changes nothing else. These pairs obey the measure's limits. If every
/// row is a unit, no choice is necessary: a row has one pair.
///
/// # Errors
/// DataFusion's planning errors; planning has seen no data.
pub(crate) async fn different(
    part: &PrivateAggregate,
    measure: &Measure,
    value: usize,
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = part.input();
    let groups = part.key_names().len();
    // NULL is not counted, and a row that FILTER drops adds no value. Both are dropped before the
    // bounds, so that they use up none of them.
    let mut condition = column(input, value).is_not_null();
    if let Some(filter) = measure.filter {
        condition = condition.and(column(input, filter));
    }
    if let Some(keys) = conditions(part, measure) {
        condition = condition.and(keys);
    }
    let wanted = (0..part.arguments_start()).chain([value]);
    let plan = LogicalPlanBuilder::from(input.clone())
        .filter(condition)?
        .project(wanted.map(|i| column(input, i)))?
        .build()?;
    let count = Term { kind: TermKind::Count, filter: None };
    if !part.has_unit() {
        let pairs: Vec<Expr> = (0..=groups).map(|i| column(&plan, i)).collect();
        let keys: Vec<Expr> = pairs.iter().take(groups).cloned().collect();
        let once = LogicalPlanBuilder::from(plan).aggregate(pairs, Vec::<Expr>::new())?.build()?;
        let count = count.logical(once.schema())?.alias("sum0");
        return planned(&LogicalPlanBuilder::from(once).aggregate(keys, [count])?.build()?, state)
            .await;
    }
    let limits = EnforcedBounds {
        total: measure.limits.total,
        per_partition: Some(measure.limits.per_partition),
        l0: measure.limits.l0,
    };
    counted(in_partitions(&plan, state).await?, limits, key)
}

/// Counts distinct values. Each row has a unit, group keys and a value, in this order.
///
/// The columns of the result are the keys and an Int64 count. A group may have one row in each
/// partition; their counts add up.
///
/// # Guarantee
/// For every group, its counts add up to the number of distinct values that units keep there. Each
/// unit keeps at most m values in a group, M in all, in at most C groups. The choice depends on the
/// unit, its own groups and values, and the key alone. Exact.
///
/// # Errors
/// A planning error for a missing column, or for values that cannot be compared.
fn counted(
    rows: Arc<dyn ExecutionPlan>,
    limits: EnforcedBounds,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    // The unit and the value are not group keys.
    let groups = rows.schema().fields().len().saturating_sub(2);
    let keys = (1..=groups).collect();
    let mut pairs: Arc<dyn ExecutionPlan> =
        Arc::new(SampleContributionsExec::distinct(rows, 0, keys, limits, key.clone())?);
    let schema = pairs.schema();
    let columns: Vec<(Arc<dyn PhysicalExpr>, String)> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), i));
            (column, field.name().clone())
        })
        .collect();
    let partitions = pairs.output_partitioning().partition_count();
    if partitions > 1 {
        // Equal pairs of two units may be in two partitions, and must count as one pair.
        let by_pair = columns.iter().map(|(column, _)| Arc::clone(column)).collect();
        pairs = Arc::new(RepartitionExec::try_new(pairs, Partitioning::Hash(by_pair, partitions))?);
    }
    let by_pair = PhysicalGroupBy::new_single(columns);
    let once = AggregateExec::try_new(
        AggregateMode::Single,
        by_pair,
        Vec::new(),
        Vec::new(),
        pairs,
        schema,
    )?;
    let count = Term { kind: TermKind::Count, filter: None };
    summed(Arc::new(once), &(0..groups).collect::<Vec<_>>(), &[count])
}
