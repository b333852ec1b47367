//! Feeds: the plans that yield a part's exact integers.
//!
//! In: a private part. Out: one physical plan for all measures that are sums of public keys, and one for each
//! measure that needs more of its rows: their places on a line, different values, or keys that only the data know. Every plan
//! bounds what a unit contributes before anything is added up.
//!
//! ```text
//! sums      keys, integers of every measure          AggregateExec, or BoundContributionsExec
//! places    outer keys, place, one integer           AggregateExec over KeepRowsExec
//! keys      key, one integer                         AggregateExec over KeepRowsExec
//! distinct  keys, one integer                        AggregateExec over distinct pairs, see [`count_distinct`]
//! groups    keys, integers of every measure          as sums, for keys that only the data know
//! ```

pub(crate) mod count_distinct;
pub(crate) mod sums;
pub(crate) mod unknown_groups;

use std::sync::Arc;

use datafusion::common::{Column, Result, ScalarValue, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::operator::bound_contributions as bound;
use super::operator::bound_contributions::{
    BoundContributionsExec, BoundedInput, InputKind, LateKey, Limits,
};
use super::operator::sample_rows::KeepRowsExec;
use crate::analysis::{Gathering, Input, Measure, Moments, Part, TermColumns};
use crate::functions::{clamp, only_listed};
use count_distinct::different;
use sums::{Term, TermKind, summed};
use unknown_groups::{gathering, groups_of_the_data};

/// A plan, and how what it yields is read.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) gathering: Gathering,
    /// The measures that it feeds, by their position in the part.
    pub(super) measures: Vec<usize>,
    pub(super) plan: Arc<dyn ExecutionPlan>,
}

/// Plans the feeds of a part.
///
/// # Guarantee
/// For all data, removing one unit changes what a feed yields by no more than the limits and ranges of its
/// measures say: the unit's rows and partial results are bounded in the plan itself.
///
/// # Errors
/// What DataFusion says while planning; it has seen no data.
pub(super) async fn feeds(part: &Part, state: &SessionState, key: &LateKey) -> Result<Vec<Feed>> {
    let mut feeds = Vec::new();
    if let Some(groups) = part.data_groups() {
        let plan = groups_of_the_data(part, groups, state, key).await?;
        let measures = (0..part.measures().len()).collect();
        return Ok(vec![Feed { gathering: gathering(groups, part.measures()), measures, plan }]);
    }
    let (mut summed, mut single) = (Vec::new(), Vec::new());
    for (i, measure) in part.measures().iter().enumerate() {
        match measure.gathering() {
            Gathering::Sums => summed.push(i),
            Gathering::Distinct
            | Gathering::Places
            | Gathering::Keys
            | Gathering::Groups { .. } => single.push((i, measure)),
        }
    }
    if !summed.is_empty() {
        let measures: Vec<&Measure> =
            summed.iter().filter_map(|i| part.measures().get(*i)).collect();
        let plan = sums(part, &measures, state, key).await?;
        feeds.push(Feed { gathering: Gathering::Sums, measures: summed, plan });
    }
    for (i, measure) in single {
        let plan = if let Input::Distinct(value) = measure.input {
            different(part, measure, value, state, key).await?
        } else {
            rows(part, measure, state, key).await?
        };
        feeds.push(Feed { gathering: measure.gathering(), measures: vec![i], plan });
    }
    Ok(feeds)
}

/// The plan that yields the exact integers of every public key, bounded per unit.
async fn sums(
    part: &Part,
    measures: &[&Measure],
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !part.has_unit() {
        return planned(&row_sums(part, part.input().clone(), measures, false)?, state).await;
    }
    let rows = by_unit(part.input(), state).await?;
    let keys: Vec<usize> = (1..=part.key_names().len()).collect();
    let inputs = measures.iter().map(|m| bounded_inputs(m)).collect::<Result<Vec<_>>>()?;
    let space = match part.keys().all().columns() {
        [] => bound::KeySpace::global(),
        columns => bound::KeySpace::new(columns)?,
    };
    let inputs = inputs.into_iter().flatten().collect();
    Ok(Arc::new(BoundContributionsExec::new(rows, 0, keys, space, inputs, key.clone())?))
}

/// The enforced rows with all rows of a unit in one partition; the unit is the first column.
pub(super) async fn by_unit(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = planned(plan, state).await?;
    let partitions = state.config().target_partitions();
    if partitions <= 1 && rows.output_partitioning().partition_count() <= 1 {
        return Ok(rows);
    }
    let name = rows.schema().field(0).name().clone();
    let unit: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(&name, 0));
    Ok(Arc::new(RepartitionExec::try_new(rows, Partitioning::Hash(vec![unit], partitions))?))
}

/// Optimizes and plans rows that the analysis rewrote.
pub(super) async fn planned(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let typed =
        state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {})?;
    // The analysis has proved things about these very expressions; type coercion must not change them.
    if typed != *plan {
        return internal_err!("the analyzed plan is not fully typed");
    }
    let optimized = state.optimizer().optimize(typed, state, |_, _| {})?;
    state.query_planner().create_physical_plan(&optimized, state).await
}

/// Sums over rows of a part's input, for tables in which every row is a unit; the number of rows behind them if
/// `counted`.
pub(super) fn row_sums(
    part: &Part,
    rows: LogicalPlan,
    measures: &[&Measure],
    counted: bool,
) -> Result<LogicalPlan> {
    let schema = Arc::clone(rows.schema());
    let keys: Vec<Expr> = (0..part.key_names().len()).map(|i| column(&rows, i)).collect();
    let mut sums = Vec::new();
    for measure in measures {
        for term in Term::of(measure)? {
            sums.push(term.logical(&schema)?.alias(format!("sum{}", sums.len())));
        }
    }
    if counted {
        let count = Term { kind: TermKind::Count, filter: None };
        sums.push(count.logical(&schema)?.alias(format!("sum{}", sums.len())));
    }
    let sums = LogicalPlanBuilder::from(rows).aggregate(keys, sums)?.build()?;
    if part.late_clamps().iter().all(Option::is_none) {
        return Ok(sums);
    }
    // What was grouped by raw keys: few groups are clamped instead of many rows.
    let clamped = (0..sums.schema().fields().len()).map(|i| {
        let name = sums.schema().field(i).name().clone();
        match part.late_clamps().get(i) {
            Some(Some((lo, hi))) => clamp(column(&sums, i), lo.clone(), hi.clone()).alias(name),
            Some(None) | None => column(&sums, i).alias(name),
        }
    });
    let clamped: Vec<Expr> = clamped.collect();
    LogicalPlanBuilder::from(sums).project(clamped)?.build()
}

pub(super) fn column(plan: &LogicalPlan, i: usize) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(i)))
}

/// A measure as the bounding operator computes it.
pub(super) fn bounded_inputs(measure: &Measure) -> Result<Vec<BoundedInput>> {
    let Measure { filter, grid, lo, hi, .. } = *measure;
    let simple = |input: &Input, column: Option<usize>, filter| {
        Ok(match (input, column) {
            (Input::Rows, _) => InputKind::CountRows { filter },
            (Input::Values(_), Some(column)) => InputKind::CountValues { column, filter },
            (Input::Units, _) => InputKind::CountUnits { filter },
            (Input::Sum(_), Some(column)) => InputKind::Sum { column, filter, grid, lo, hi },
            (Input::Mean(_), Some(column)) => InputKind::Mean { column, filter, grid, lo, hi },
            (Input::Moments(Moments { shift, .. }), Some(column)) => {
                InputKind::Moments { column, filter, grid, lo, hi, shift: *shift }
            }
            (Input::MeanPerUnit(_), Some(column)) => {
                InputKind::MeanPerUnit { column, filter, grid, lo, hi }
            }
            _ => return internal_err!("this input is not one sum of a key"),
        })
    };
    let kinds = match &measure.input {
        Input::SumPerUnit(column) => {
            // One value may be as large as the whole sum; the sum is what is clamped.
            let most = lo.unsigned_abs().max(hi.unsigned_abs());
            let most = i128::try_from(most).unwrap_or(i128::MAX);
            vec![InputKind::SumPerUnit {
                column: *column,
                filter,
                grid,
                lo: most.saturating_mul(-1_024),
                hi: most.saturating_mul(1_024),
                per_group_lo: lo,
                per_group_hi: hi,
            }]
        }
        Input::Terms { kind, columns } => columns
            .iter()
            .map(|TermColumns { value, filter }| simple(kind, *value, *filter))
            .collect::<Result<_>>()?,
        Input::Values(c)
        | Input::Sum(c)
        | Input::Mean(c)
        | Input::Moments(Moments { column: c, .. })
        | Input::MeanPerUnit(c) => {
            vec![simple(&measure.input, Some(*c), filter)?]
        }
        Input::Distinct(_) => return internal_err!("different values are no sum over rows"),
        Input::Rows | Input::Units => vec![simple(&measure.input, None, filter)?],
        Input::Places { .. } => return internal_err!("places are no sums of a key"),
    };
    let limits = Limits {
        rows_per_unit: measure.limits.rows_in_all,
        rows_per_group: (!measure.once_per_group()).then_some(measure.limits.rows_per_group),
        groups: measure.limits.groups,
    };
    Ok(kinds.into_iter().map(|kind| BoundedInput { kind, limits }).collect())
}

/// The rows that a measure needs by themselves, bounded per unit, and added up by what tells them apart.
async fn rows(
    part: &Part,
    measure: &Measure,
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    let input = part.input();
    let unit = usize::from(part.has_unit());
    let mut wanted: Vec<usize> = (0..unit + part.key_names().len()).collect();
    let groups = part.key_names().len();
    // What tells the added rows apart: the keys, and the place if there is one.
    let mut keys = groups;
    if let Input::Places { place, .. } = &measure.input {
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
        Input::Rows | Input::Units => None,
        Input::Distinct(_)
        | Input::Mean(_)
        | Input::Moments(_)
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
    // The term over the columns without the unit.
    let at = |column: usize| column - unit;
    let kind = match (&measure.input, value) {
        (Input::Values(_), Some(column)) => TermKind::CountValues(at(column)),
        (_, Some(column)) => TermKind::Sum {
            column: at(column),
            grid: measure.grid,
            lo: measure.lo,
            hi: measure.hi,
            measured: super::aggregate::fixed_sum::Measured::Value,
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
    let rows = by_unit(&plan, state).await?;
    let limits = Limits {
        rows_per_unit: measure.limits.rows_in_all,
        rows_per_group: Some(measure.limits.rows_per_group),
        groups: measure.limits.groups,
    };
    let kept = KeepRowsExec::new(rows, 0, (1..=groups).collect(), limits, key.clone())?;
    let keys: Vec<usize> = (0..keys).collect();
    summed(Arc::new(kept), &keys, &[term])
}

/// Which rows count: those with a place, and with keys that are asked for.
///
/// It comes before the bounds, so that rows that count for nothing use up none of them.
pub(super) fn conditions(part: &Part, measure: &Measure) -> Option<Expr> {
    let input = part.input();
    let unit = usize::from(part.has_unit());
    let mut conditions = Vec::new();
    if let Input::Places { place, .. } = &measure.input {
        conditions.push(column(input, *place).is_not_null());
    }
    for i in 0..part.key_names().len() {
        let key = column(input, unit + i);
        match measure.gathering() {
            Gathering::Keys => conditions.push(key.is_not_null()),
            Gathering::Sums
            | Gathering::Distinct
            | Gathering::Places
            | Gathering::Groups { .. } => {
                conditions.push(is_asked_for(&key, part.keys().of_column(i)));
            }
        }
    }
    conditions.into_iter().reduce(Expr::and)
}

/// Whether a key is one of those that come out.
pub(super) fn is_asked_for(key: &Expr, keys: &[ScalarValue]) -> Expr {
    let listed: Vec<ScalarValue> = keys.iter().filter(|k| !k.is_null()).cloned().collect();
    let known = match only_listed(key.clone(), &listed) {
        Some(looked_up) => looked_up.is_not_null(),
        None => {
            let literals = listed.iter().map(|k| Expr::Literal(k.clone(), None)).collect();
            Expr::InList(InList::new(Box::new(key.clone()), literals, false))
        }
    };
    if listed.len() < keys.len() { known.or(key.clone().is_null()) } else { known }
}
