//! Undeclared groups: their plan, their integers, and which of them come out.
//!
//! In: a private aggregate whose group keys are not declared. Out: a plan that yields, for every
//! group that contains a unit, the integers of every number and the number of units, all bounded
//! per unit. The rows of quantiles and extremes have plans of their own, and only those of the
//! groups of this one count. The integers are added up in the order of the keys, and the groups
//! whose noisy number of units reaches the threshold come out. The threshold must be calibrated for
//! the limits that the plan enforces. All released numbers of a hidden group are hidden: its draws
//! affect the output only in that the group is missing.
//!
//! ```text
//! PrivatizeExec                                      adds partitions up, draws for every group, hides the small ones
//!   CoalescePartitionsExec
//!     BoundContributionsExec (keys of the data)      AggregateExec by key, where every row is a unit
//!       FilterExec                                   columns with public keys: those keys
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;

use crate::analysis::{InputShape, Measure, PrivateAggregate, UnknownPartitions};
use crate::exec::plan::rows::{aggregate_inputs, column, in_partitions, is_asked_for, planned};
use crate::exec::plan::sums::terms_of_measure;
use hushql_exec::aggregate::terms::{Term, TermKind};
use hushql_exec::operator::bound_contributions as bound;
use hushql_exec::operator::bound_contributions::{
    AggregateInput, BoundContributionsExec, EnforcedBounds, InputKind, LateKey,
};

/// The measures of undeclared groups that are sums over their rows, by their positions in the
/// private aggregate. The others are chosen by the places of rows on an axis.
pub(crate) fn summed_measures(part: &PrivateAggregate) -> Vec<usize> {
    let measures = part.measures().iter().enumerate();
    measures.filter(|(_, one)| one.input_shape() == InputShape::Sums).map(|(i, _)| i).collect()
}

/// The shape of the output of a plan with undeclared groups: which of its integer columns is the
/// number of units. `summed` are the measures of the plan.
pub(crate) fn input_shape(
    groups: &UnknownPartitions,
    measures: &[Measure],
    summed: &[usize],
) -> InputShape {
    let before = summed.iter().filter(|i| groups.counter.is_none_or(|counter| **i < counter));
    let before = before.filter_map(|i| measures.get(*i));
    InputShape::Groups { counter: before.map(Measure::width).sum() }
}

/// The number of integer columns besides those of the measures, which have `own`.
pub(crate) fn extra_columns(input_shape: InputShape, own: usize) -> usize {
    match input_shape {
        InputShape::Groups { counter } => usize::from(counter == own),
        InputShape::Sums | InputShape::Distinct | InputShape::Places | InputShape::Keys => 0,
    }
}

/// The plan that yields the exact integers of every undeclared group and its number of units,
/// bounded per unit.
///
/// # Guarantee
/// For all data, removing one unit changes the integers of the groups by no more than the limits
/// and ranges of the measures allow, and the number of units by at most 1 in each of at most C
/// groups. The groups in which a unit is counted depend on its own rows and the key of the hash
/// alone.
///
/// # Errors
/// DataFusion's planning errors; planning has seen no data.
pub(crate) async fn unknown_partition_sums(
    part: &PrivateAggregate,
    groups: &UnknownPartitions,
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    let summed = summed_measures(part);
    let measures: Vec<&Measure> = summed.iter().filter_map(|i| part.measures().get(*i)).collect();
    let rows = only_known_keys(part)?;
    if !part.has_unit() {
        // Every row is a unit, and belongs to one group.
        let counted = groups.counter.is_none();
        return planned(&row_sums(part, rows, &measures, counted)?, state).await;
    }
    let keys: Vec<usize> = (1..=part.key_names().len()).collect();
    let rows = in_partitions(&rows, state).await?;
    let mut inputs = Vec::new();
    for measure in measures {
        inputs.extend(aggregate_inputs(measure)?);
    }
    if groups.counter.is_none() {
        let limits = EnforcedBounds {
            total: groups.limits.total,
            per_partition: Some(1),
            l0: Some(groups.groups),
        };
        inputs.push(AggregateInput::new(InputKind::CountUnits { filter: None }, limits));
    }
    let schema = rows.schema();
    let types = keys.iter().filter_map(|i| schema.fields().get(*i)).map(|f| f.data_type());
    let space = bound::KeySpace::of_the_data(types);
    Ok(Arc::new(BoundContributionsExec::new(rows, 0, keys, space, inputs, key.clone())?))
}

/// Sums of rows by their keys, for tables in which every row is a unit; followed by the number of
/// rows if `counted`.
fn row_sums(
    part: &PrivateAggregate,
    rows: LogicalPlan,
    measures: &[&Measure],
    counted: bool,
) -> Result<LogicalPlan> {
    let schema = Arc::clone(rows.schema());
    let keys: Vec<Expr> = (0..part.key_names().len()).map(|i| column(&rows, i)).collect();
    let mut sums = Vec::new();
    for measure in measures {
        for term in terms_of_measure(measure)? {
            sums.push(term.logical(&schema)?.alias(format!("sum{}", sums.len())));
        }
    }
    if counted {
        let count = Term { kind: TermKind::Count, filter: None };
        sums.push(count.logical(&schema)?.alias(format!("sum{}", sums.len())));
    }
    LogicalPlanBuilder::from(rows).aggregate(keys, sums)?.build()
}

/// Drops the rows whose value in a column with public keys is not one of these keys. This filter
/// goes before the bounds, so that rows that do not count use up none of them.
fn only_known_keys(part: &PrivateAggregate) -> Result<LogicalPlan> {
    let input = part.input();
    let unit = usize::from(part.has_unit());
    let known = (0..part.key_names().len())
        .map(|i| (i, part.keys().of_column(i)))
        .filter(|(_, keys)| !keys.is_empty())
        .map(|(i, keys)| is_asked_for(&column(input, unit + i), keys));
    match known.reduce(Expr::and) {
        Some(condition) => LogicalPlanBuilder::from(input.clone()).filter(condition)?.build(),
        None => Ok(input.clone()),
    }
}
