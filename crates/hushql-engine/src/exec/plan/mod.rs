//! Bounded inputs: the plans that yield the exact integers of a private aggregate.
//!
//! In: a private aggregate. Out: one physical plan for all measures that are sums over public keys,
//! and one for each measure that needs more of its rows: their positions on a candidate axis,
//! distinct values, or undeclared keys. Every plan bounds a unit's contributions before it adds
//! anything up.
//!
//! ```text
//! sums      keys, integers of every measure          SumByKeyExec, or BoundContributionsExec
//! places    outer keys, place, one integer           CountPlacesExec or AggregateExec over SampleContributionsExec
//! keys      key, one integer                         AggregateExec over SampleContributionsExec
//! distinct  keys, one integer                        AggregateExec over distinct pairs, see [`count_distinct_plan`]
//! groups    keys, integers of every number           as sums, for undeclared keys; places beside it have them all as outer keys
//! ```

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;

use crate::analysis::{
    CandidateSource, Input, InputShape, KeySpace, Measure, PrivateAggregate, UnknownPartitions,
};
use crate::exec::plan::rows::{
    aggregate_inputs, column, conditions, in_partitions, planned, spread, with_clamped_keys,
};
use count_distinct_plan::different;
use hushql_exec::aggregate::terms::{Term, TermKind, summed};
use hushql_exec::operator::bound_contributions as bound;
use hushql_exec::operator::bound_contributions::{BoundContributionsExec, EnforcedBounds, LateKey};
use hushql_exec::operator::count_places::CountPlacesExec;
use hushql_exec::operator::sample_rows::SampleContributionsExec;
use hushql_exec::operator::sum_by_key::SumByKeyExec;
use unknown_groups::{input_shape, summed_measures, unknown_partition_sums};

pub(crate) mod count_distinct_plan;
pub(crate) mod rows;
pub(crate) mod sums;
pub(crate) mod unknown_groups;

/// A plan, and the shape of its output.
#[derive(Debug)]
pub(super) struct BoundedInput {
    pub(super) input_shape: InputShape,
    /// The measures that read it, by their position in the private aggregate.
    pub(super) measures: Vec<usize>,
    pub(super) plan: Arc<dyn ExecutionPlan>,
}

/// Plans the bounded inputs of a private aggregate.
///
/// # Guarantee
/// For all data, removing one unit changes the output of a plan by no more than the limits and
/// ranges of its measures allow: the plan itself bounds the unit's rows and partial results.
///
/// # Errors
/// DataFusion's planning errors; planning has seen no data.
pub(super) async fn bounded_inputs(
    part: &PrivateAggregate,
    state: &SessionState,
    key: &LateKey,
) -> Result<Vec<BoundedInput>> {
    let mut bounded_inputs = Vec::new();
    if let Some(groups) = part.unknown_partitions() {
        return of_unknown_groups(part, groups, state, key).await;
    }
    let (mut summed, mut single) = (Vec::new(), Vec::new());
    for (i, measure) in part.measures().iter().enumerate() {
        match measure.input_shape() {
            InputShape::Sums => summed.push(i),
            InputShape::Distinct
            | InputShape::Places
            | InputShape::Keys
            | InputShape::Groups { .. } => single.push((i, measure)),
        }
    }
    if !summed.is_empty() {
        let measures: Vec<&Measure> =
            summed.iter().filter_map(|i| part.measures().get(*i)).collect();
        let plan = sums(part, &measures, state, key).await?;
        bounded_inputs.push(BoundedInput { input_shape: InputShape::Sums, measures: summed, plan });
    }
    for (i, measure) in single {
        let plan = if let Input::Distinct(value) = measure.input {
            different(part, measure, value, state, key).await?
        } else {
            rows(part, measure, state, key).await?
        };
        bounded_inputs.push(BoundedInput {
            input_shape: measure.input_shape(),
            measures: vec![i],
            plan,
        });
    }
    Ok(bounded_inputs)
}

/// The bounded inputs of undeclared groups: first that of their integers and numbers of units,
/// which says what groups there are, then one for each quantile or extreme.
async fn of_unknown_groups(
    part: &PrivateAggregate,
    groups: &UnknownPartitions,
    state: &SessionState,
    key: &LateKey,
) -> Result<Vec<BoundedInput>> {
    let summed = summed_measures(part);
    let input_shape = input_shape(groups, part.measures(), &summed);
    let plan = unknown_partition_sums(part, groups, state, key).await?;
    let mut bounded_inputs = vec![BoundedInput { input_shape, measures: summed, plan }];
    for (i, measure) in part.measures().iter().enumerate() {
        match measure.input_shape() {
            InputShape::Sums => {}
            InputShape::Places => bounded_inputs.push(BoundedInput {
                input_shape: InputShape::Places,
                measures: vec![i],
                plan: rows(part, measure, state, key).await?,
            }),
            InputShape::Distinct | InputShape::Keys | InputShape::Groups { .. } => {
                return internal_err!("undeclared groups have sums and places");
            }
        }
    }
    Ok(bounded_inputs)
}

/// The plan that yields the exact integers of every public key, bounded per unit.
async fn sums(
    part: &PrivateAggregate,
    measures: &[&Measure],
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = measures.iter().map(|m| aggregate_inputs(m)).collect::<Result<Vec<_>>>()?;
    let inputs = inputs.into_iter().flatten().collect();
    let space = key_space(part.keys().all())?;
    if !part.has_unit() {
        let rows = spread(planned(&with_clamped_keys(part)?, state).await?, state)?;
        return Ok(Arc::new(SumByKeyExec::new(rows, space, inputs)?));
    }
    let rows = in_partitions(part.input(), state).await?;
    let keys: Vec<usize> = (1..=part.key_names().len()).collect();
    Ok(Arc::new(BoundContributionsExec::new(rows, 0, keys, space, inputs, key.clone())?))
}

/// The rows that one measure needs, bounded per unit, and added up by the keys and the position.
async fn rows(
    part: &PrivateAggregate,
    measure: &Measure,
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = part.input();
    let unit = usize::from(part.has_unit());
    let mut wanted: Vec<usize> = (0..unit + part.key_names().len()).collect();
    let groups = part.key_names().len();
    // The sums are grouped by the keys, and by the position if there is one.
    let mut keys = groups;
    if let Input::Places { place, .. } | Input::Bins { place, .. } = &measure.input {
        wanted.push(*place);
        keys += 1;
    }
    let mut take = |column: usize| {
        wanted.push(column);
        wanted.len() - 1
    };
    let filter = measure.filter.map(&mut take);
    let value = match &measure.input {
        Input::Values(column) | Input::Sum(column) => Some(take(*column)),
        Input::Places { weight, .. } => weight.map(&mut take),
        Input::Rows | Input::Units | Input::Bins { .. } => None,
        Input::Distinct(_)
        | Input::Mean(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. } => return internal_err!("this input has no rows of its own"),
    };
    let conditions = conditions(part, measure);
    let mut builder = LogicalPlanBuilder::from(input.clone());
    if let Some(condition) = conditions {
        builder = builder.filter(condition)?;
    }
    let plan = builder.project(wanted.iter().map(|i| column(input, *i)))?.build()?;
    // The term is computed over the columns without the unit.
    let at = |column: usize| column - unit;
    let kind = match (&measure.input, value) {
        (Input::Values(_), Some(column)) => TermKind::CountValues(at(column)),
        (_, Some(column)) => TermKind::Sum {
            column: at(column),
            grid: measure.grid,
            lo: measure.lo,
            hi: measure.hi,
            measured: hushql_exec::aggregate::fixed_sum::Measured::Value,
        },
        (_, None) => TermKind::Count,
    };
    let term = Term { kind, filter: filter.map(at) };
    if unit == 0 {
        let schema = plan.schema();
        let keys: Vec<Expr> = (0..keys).map(|i| column(&plan, i)).collect();
        let sum = term.logical(schema)?.alias("sum0");
        let sums = LogicalPlanBuilder::from(plan.clone()).aggregate(keys, vec![sum])?.build()?;
        return planned(&sums, state).await;
    }
    let rows = in_partitions(&plan, state).await?;
    let limits = EnforcedBounds {
        total: measure.limits.total,
        per_partition: Some(measure.limits.per_partition),
        l0: measure.limits.l0,
    };
    let kept = SampleContributionsExec::new(rows, 0, (1..=groups).collect(), limits, key.clone())?;
    if let (Some(places), TermKind::Count) = (places_of(measure), &term.kind) {
        let space = key_space(part.keys().outer())?;
        let is_listed = part.unknown_partitions().is_none();
        if is_listed && CountPlacesExec::fits(space.len(), places) {
            return Ok(Arc::new(CountPlacesExec::new(Arc::new(kept), space, places, term.filter)?));
        }
    }
    let keys: Vec<usize> = (0..keys).collect();
    summed(Arc::new(kept), &keys, &[term])
}

/// The number of positions on a choice's axis, or of bins.
fn places_of(measure: &Measure) -> Option<u64> {
    if let Some(bins) = measure.bins() {
        return u64::try_from(bins).ok();
    }
    match measure.choice().map(|choice| &choice.source) {
        Some(CandidateSource::Line { axis, .. }) => Some(axis.count()),
        Some(
            CandidateSource::Keys(_) | CandidateSource::Each(_) | CandidateSource::Unknown { .. },
        )
        | None => None,
    }
}

/// The key space in the form of the bounding operator.
fn key_space(keys: &KeySpace) -> Result<bound::KeySpace> {
    match keys.columns() {
        [] => Ok(bound::KeySpace::global()),
        columns => bound::KeySpace::new(columns),
    }
}
