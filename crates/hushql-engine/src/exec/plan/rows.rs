//! Plans the rows of a private aggregate, partitions them, and adds them up.

use std::sync::Arc;

use datafusion::common::{Column, Result, ScalarValue, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use crate::analysis::{
    Input, InputShape, JointMoments, Measure, PrivateAggregate, VarianceMoments,
};
use crate::exec::datafusion::private_plans;
use crate::exec::distributed::site_of;
use crate::functions::{clamp, only_listed};
use hushql_exec::operator::bound_contributions::{AggregateInput, EnforcedBounds, InputKind};

/// Optimizes and plans private rows for the session's site.
///
/// # Errors
/// DataFusion's planning errors; planning has seen no row.
pub(super) async fn planned(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    private_plans::planned(plan, state, site_of(state.config()).processes()).await
}

/// The enforced rows, in as many partitions as there are threads, even if they come from a union of
/// many tables; the unit is the first column. A unit may have rows in each partition, unless the
/// session's site wants them together.
pub(crate) async fn in_partitions(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = planned(plan, state).await?;
    if site_of(state.config()).partitions_by_unit() {
        let partitions = state.config().target_partitions();
        let schema = rows.schema();
        let Some(unit) = schema.fields().first() else {
            return internal_err!("the first column is the unit");
        };
        let unit: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(unit.name(), 0));
        let together = Partitioning::Hash(vec![unit], partitions);
        return Ok(Arc::new(RepartitionExec::try_new(rows, together)?));
    }
    spread(rows, state)
}

/// Rows in as many partitions as there are threads, if each row may be in any partition.
pub(crate) fn spread(
    rows: Arc<dyn ExecutionPlan>,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let partitions = state.config().target_partitions();
    if rows.output_partitioning().partition_count() == partitions {
        return Ok(rows);
    }
    Ok(Arc::new(RepartitionExec::try_new(rows, Partitioning::RoundRobinBatch(partitions))?))
}

/// The enforced rows. Their keys are clamped here if the analysis left that to their reader.
pub(crate) fn with_clamped_keys(part: &PrivateAggregate) -> Result<LogicalPlan> {
    let rows = part.input().clone();
    if part.late_clamps().iter().all(Option::is_none) {
        return Ok(rows);
    }
    let clamped = (0..rows.schema().fields().len()).map(|i| {
        let name = rows.schema().field(i).name().clone();
        match part.late_clamps().get(i) {
            Some(Some((lo, hi))) => clamp(column(&rows, i), lo.clone(), hi.clone()).alias(name),
            Some(None) | None => column(&rows, i).alias(name),
        }
    });
    let clamped: Vec<Expr> = clamped.collect();
    LogicalPlanBuilder::from(rows).project(clamped)?.build()
}

pub(crate) fn column(plan: &LogicalPlan, i: usize) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(i)))
}

/// A measure in the form that the bounding operator computes.
pub(crate) fn aggregate_inputs(measure: &Measure) -> Result<Vec<AggregateInput>> {
    let Measure { filter, grid, lo, hi, .. } = *measure;
    let within = |input: &Input, column: Option<usize>, filter, lo: i128, hi: i128| {
        Ok(match (input, column) {
            (Input::Rows, _) => InputKind::CountRows { filter },
            (Input::Values(_), Some(column)) => InputKind::CountValues { column, filter },
            (Input::Units, _) => InputKind::CountUnits { filter },
            (Input::Sum(_), Some(column)) => InputKind::Sum { column, filter, grid, lo, hi },
            (Input::Mean(_), Some(column)) => InputKind::Mean { column, filter, grid, lo, hi },
            (Input::Moments(VarianceMoments { shift, .. }), Some(column)) => {
                InputKind::Moments { column, filter, grid, lo, hi, shift: *shift }
            }
            (Input::Joint(joint), Some(column)) => {
                InputKind::Products { column, filter, pairs: joint.pairs }
            }
            (Input::MeanPerUnit(_), Some(column)) => {
                InputKind::MeanPerUnit { column, filter, grid, lo, hi }
            }
            _ => return internal_err!("this input is not one sum of a key"),
        })
    };
    let simple = |input: &Input, column| within(input, column, filter, lo, hi);
    let kinds = match &measure.input {
        Input::SumPerUnit(column) => {
            // One value may be as large as the whole sum; the sum itself is clamped.
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
            .map(|term| within(kind, term.value, term.filter, term.lo, term.hi))
            .collect::<Result<_>>()?,
        Input::Values(c)
        | Input::Sum(c)
        | Input::Mean(c)
        | Input::Moments(VarianceMoments { column: c, .. })
        | Input::Joint(JointMoments { column: c, .. })
        | Input::MeanPerUnit(c) => {
            vec![simple(&measure.input, Some(*c))?]
        }
        Input::Distinct(_) => return internal_err!("distinct values are not a sum over rows"),
        Input::Rows | Input::Units => vec![simple(&measure.input, None)?],
        Input::Places { .. } | Input::Bins { .. } => {
            return internal_err!("places are not sums of a key");
        }
    };
    let limits = EnforcedBounds {
        total: measure.limits.total,
        per_partition: (!measure.once_per_group()).then_some(measure.limits.per_partition),
        l0: measure.limits.l0,
    };
    let ladder = measure.ladder.as_ref().map(|ladder| ladder.rungs.clone());
    let by_rows = measure.ladder.as_ref().is_some_and(|ladder| ladder.is_of_rows);
    let input = |kind| AggregateInput {
        ladder: ladder.clone(),
        by_rows,
        ..AggregateInput::new(kind, limits)
    };
    Ok(kinds.into_iter().map(input).collect())
}

/// The condition for rows that count: they have a position, and keys of the key space.
///
/// This filter goes before the bounds, so that rows that do not count use up none of them.
pub(crate) fn conditions(part: &PrivateAggregate, measure: &Measure) -> Option<Expr> {
    let input = part.input();
    let unit = usize::from(part.has_unit());
    let mut conditions = Vec::new();
    if let Input::Places { place, .. } | Input::Bins { place, .. } = &measure.input {
        conditions.push(column(input, *place).is_not_null());
    }
    for i in 0..part.key_names().len() {
        let key = column(input, unit + i);
        match measure.input_shape() {
            InputShape::Keys => conditions.push(key.is_not_null()),
            InputShape::Sums
            | InputShape::Distinct
            | InputShape::Places
            | InputShape::Groups { .. } => {
                let keys = part.keys().of_column(i);
                // If the groups are those of the data, columns without declared keys have any.
                if part.unknown_partitions().is_none() || !keys.is_empty() {
                    conditions.push(is_asked_for(&key, keys));
                }
            }
        }
    }
    conditions.into_iter().reduce(Expr::and)
}

/// Whether a key is in the key space.
pub(crate) fn is_asked_for(key: &Expr, keys: &[ScalarValue]) -> Expr {
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
