//! Stage 6: [`Release`] → rows.
//!
//! In: a calibrated release. Out: first a [`Prepared`] query (planned, optimized, verified; nothing has been
//! opened), then, for a [`Charge`], the answer's batches. The private parts run first, each once, each
//! as a DataFusion plan whose root is the privatizing operator; what comes out is a small released table.
//! The remainder then runs as ordinary DataFusion over released and public tables.
//!
//! The privatizing and bounding operators are put on top of the finished plan of the enforced rows, so
//! that no optimizer ever sees them.
//!
//! ```text
//! PrivatizeExec                    PrivatizeExec
//!   CoalescePartitionsExec           CoalescePartitionsExec
//!     AggregateExec (unit = row)       BoundContributionsExec (unit = column)
//!       …                                RepartitionExec by unit
//! ```

pub mod bound;
mod draw;
pub(crate) mod files;
pub mod keep;
mod physical;
mod session;
pub mod sum;
mod table;
mod term;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use session::exact_rows;
pub use session::session_state;
pub use table::{PrivateScanExec, PrivateTable};
pub use verify::VerifyError;

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DataFusionError, Result, internal_err};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, collect};

use bound::{BoundContributionsExec, BoundedInput, HashKey, InputKind, LateKey, Limits};
use draw::Recipe;
use physical::{Permit, PrivatizeExec, Specification};
use term::Term;
use verify::verify;

use crate::analysis::{Input, Measure, Part, released_part};
use crate::bind::coerce;
use crate::ledger::Charge;
use crate::release::Release;
use crate::sampler::QueryRng;

/// A query that is planned and verified, and waits to be paid for.
#[derive(Debug)]
pub struct Prepared {
    parts: Vec<PreparedPart>,
    remainder: LogicalPlan,
}

#[derive(Debug)]
struct PreparedPart {
    plan: Arc<dyn ExecutionPlan>,
    permit: Permit,
    key: LateKey,
    columns: usize,
}

/// What a query answered.
#[derive(Debug)]
pub struct Rows {
    /// The answer's columns.
    pub schema: SchemaRef,
    /// The answer's rows, in order.
    pub batches: Vec<RecordBatch>,
    /// For each part, the least noisy number of rows behind its means, by measure; `None` for the others.
    pub mean_rows: Vec<Vec<Option<f64>>>,
}

/// Plans the private parts of a release.
///
/// # Guarantee
/// Opens no table and draws nothing; the remainder is planned over empty released tables, so that what
/// cannot be planned is not charged, and holds no private scan. Each part's finished plan was verified: its root is the privatizing
/// operator of this release, below which only enforced rows of the part's own table are read.
///
/// # Errors
/// What DataFusion says while planning (it has seen no data), and [`VerifyError`].
pub async fn prepare(release: &Release, state: &SessionState) -> Result<Prepared> {
    let mut parts = Vec::new();
    for (i, part) in release.analysis().parts().iter().enumerate() {
        let recipes: Vec<Recipe> = part
            .measures()
            .iter()
            .zip(release.mechanisms(i))
            .map(|(measure, mechanized)| Recipe::new(measure, mechanized))
            .collect();
        if recipes.len() != part.measures().len() {
            return internal_err!("every measure has a mechanism");
        }
        let released = with_mean_rows(&part.released_schema(), &recipes);
        let specification =
            Arc::new(Specification { keys: part.keys().clone(), recipes, released });
        let key = LateKey::default();
        let sums = sums_plan(part, state, &key).await?;
        let permit = Permit::default();
        let single: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(sums));
        let plan: Arc<dyn ExecutionPlan> =
            Arc::new(PrivatizeExec::new(single, Arc::clone(&specification), permit.clone()));
        verify(&plan, &specification, part.table(), part.has_unit())
            .map_err(|e| DataFusionError::External(Box::new(e)))?;
        let columns = part.released_schema().fields().len();
        parts.push(PreparedPart { plan, permit, key, columns });
    }
    let remainder = release.analysis().remainder().clone();
    let empty: Vec<RecordBatch> = release
        .analysis()
        .parts()
        .iter()
        .map(|part| RecordBatch::new_empty(part.released_schema()))
        .collect();
    let plan = remainder_plan(remainder.clone(), &empty, state).await?;
    verify::verify_public(&plan).map_err(|e| DataFusionError::External(Box::new(e)))?;
    Ok(Prepared { parts, remainder })
}

/// The finished plan of the public remainder over these released tables.
async fn remainder_plan(
    remainder: LogicalPlan,
    released: &[RecordBatch],
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let optimized = state.optimize(&over_released(remainder, released)?)?;
    state.query_planner().create_physical_plan(&optimized, state).await
}

/// The released table, and behind it for every mean the noisy number of rows that its accuracy depends on.
fn with_mean_rows(released: &SchemaRef, recipes: &[Recipe]) -> SchemaRef {
    let mut fields = released.fields().to_vec();
    for (i, _) in recipes.iter().enumerate().filter(|(_, recipe)| recipe.width() == 2) {
        fields.push(Arc::new(Field::new(format!("rows{i}"), DataType::Float64, true)));
    }
    Arc::new(Schema::new(fields))
}

/// The plan that yields the exact integers of every key, bounded per unit.
async fn sums_plan(
    part: &Part,
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !part.has_unit() {
        return planned(&row_sums(part)?, state).await;
    }
    let rows = planned(part.input(), state).await?;
    let partitions = state.config().target_partitions();
    let rows: Arc<dyn ExecutionPlan> =
        if partitions > 1 || rows.output_partitioning().partition_count() > 1 {
            let name = rows.schema().field(0).name().clone();
            let unit: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(&name, 0));
            Arc::new(RepartitionExec::try_new(rows, Partitioning::Hash(vec![unit], partitions))?)
        } else {
            rows
        };
    let keys: Vec<usize> = (1..=part.key_names().len()).collect();
    let inputs = part.measures().iter().map(bounded_input).collect();
    let space = match part.keys().columns() {
        [] => bound::KeySpace::global(),
        columns => bound::KeySpace::new(columns)?,
    };
    Ok(Arc::new(BoundContributionsExec::new(rows, 0, keys, space, inputs, key.clone())?))
}

/// Optimizes and plans rows that the analysis rewrote.
async fn planned(plan: &LogicalPlan, state: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
    // The analysis has proved things about these very expressions; type coercion must not change them.
    let coerced = coerce(plan.clone(), state.config_options())?;
    if coerced != *plan {
        return internal_err!("the analyzed plan is not fully typed");
    }
    state.create_physical_plan(plan).await
}

/// Sums over rows, for tables in which every row is a unit.
fn row_sums(part: &Part) -> Result<LogicalPlan> {
    let schema = part.input().schema();
    let column = |i: usize| Expr::Column(Column::from(schema.qualified_field(i)));
    let keys: Vec<Expr> = (0..part.key_names().len()).map(column).collect();
    let mut sums = Vec::new();
    for measure in part.measures() {
        for term in Term::of(measure)? {
            sums.push(term.logical(schema)?.alias(format!("sum{}", sums.len())));
        }
    }
    LogicalPlanBuilder::from(part.input().clone()).aggregate(keys, sums)?.build()
}

/// A measure as the bounding operator computes it.
fn bounded_input(measure: &Measure) -> BoundedInput {
    let Measure { filter, grid, lo, hi, .. } = *measure;
    let kind = match measure.input {
        Input::Rows => InputKind::CountRows { filter },
        Input::Values(column) => InputKind::CountValues { column, filter },
        Input::Units => InputKind::CountUnits { filter },
        Input::Sum(column) => InputKind::Sum { column, filter, grid, lo, hi },
        Input::Mean(column) => InputKind::Mean { column, filter, grid, lo, hi },
        Input::MeanPerUnit(column) => InputKind::MeanPerUnit { column, filter, grid, lo, hi },
        Input::SumPerUnit(column) => {
            // One value may be as large as the whole sum; the sum is what is clamped.
            let most = lo.unsigned_abs().max(hi.unsigned_abs());
            let most = i128::try_from(most).unwrap_or(i128::MAX);
            InputKind::SumPerUnit {
                column,
                filter,
                grid,
                lo: most.saturating_mul(-1_024),
                hi: most.saturating_mul(1_024),
                per_group_lo: lo,
                per_group_hi: hi,
            }
        }
    };
    let per_unit =
        matches!(measure.input, Input::Units | Input::SumPerUnit(_) | Input::MeanPerUnit(_));
    let limits = Limits {
        rows_per_unit: measure.limits.rows_in_all,
        rows_per_group: (!per_unit).then_some(measure.limits.rows_per_group),
        groups: measure.limits.groups,
    };
    BoundedInput { kind, limits }
}

/// Runs a paid query.
///
/// # Guarantee
/// The charge is consumed, and durable, before the first random draw. Every part draws once; the remainder
/// sees released and public tables only.
///
/// # Errors
/// Whatever fails while running. The error may quote cells: it must never reach an analyst.
pub async fn run(
    prepared: Prepared,
    charge: Option<Charge>,
    state: &SessionState,
) -> Result<(Rows, Option<Charge>)> {
    let Prepared { parts, remainder } = prepared;
    if charge.is_none() && !parts.is_empty() {
        return internal_err!("a private part runs after a charge");
    }
    let mut released = Vec::new();
    let mut mean_rows = Vec::new();
    let entropy = |e| DataFusionError::External(Box::new(e));
    let mut hash = None;
    for part in parts {
        let mut rng = QueryRng::from_os().map_err(entropy)?;
        // One key for all parts: a unit keeps the same groups wherever the query bounds it.
        let key = *hash.get_or_insert_with(|| HashKey::new(rng.hash_key()));
        part.key.set(key);
        part.permit.grant(rng);
        let batches = collect(Arc::clone(&part.plan), state.task_ctx()).await?;
        let [batch] = batches.as_slice() else { return internal_err!("a release is one batch") };
        let (columns, rows) = split(batch, part.columns)?;
        released.push(columns);
        mean_rows.push(rows);
    }
    let schema: SchemaRef = Arc::new(remainder.schema().as_arrow().clone());
    let plan = remainder_plan(remainder, &released, state).await?;
    let batches = collect(plan, state.task_ctx()).await?;
    Ok((Rows { schema, batches, mean_rows }, charge))
}

/// The released columns of a batch, and the least row count behind each mean.
fn split(batch: &RecordBatch, columns: usize) -> Result<(RecordBatch, Vec<Option<f64>>)> {
    let schema = batch.schema();
    let indices: Vec<usize> = (0..columns).collect();
    let least = (columns..batch.num_columns())
        .map(|i| {
            let rows = batch.column(i).as_primitive_opt::<Float64Type>();
            let rows = rows.map(|rows| rows.iter().flatten().fold(f64::INFINITY, f64::min));
            (schema.field(i).name().clone(), rows)
        })
        .collect::<Vec<_>>();
    let measures = schema.fields().len();
    let mut by_measure = vec![None; measures];
    for (name, rows) in least {
        let index = name.strip_prefix("rows").and_then(|n| n.parse::<usize>().ok());
        if let Some(slot) = index.and_then(|i| by_measure.get_mut(i)) {
            *slot = rows;
        }
    }
    Ok((batch.project(&indices)?, by_measure))
}

/// Puts the released tables into the remainder.
fn over_released(remainder: LogicalPlan, released: &[RecordBatch]) -> Result<LogicalPlan> {
    let replaced = remainder.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(part) = released_part(scan.table_name.table()) else {
            return Ok(Transformed::no(node));
        };
        let Some(batch) = released.get(part) else {
            return internal_err!("every part has been released");
        };
        // One partition: rank order is a promise.
        let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]])?;
        let source = provider_as_source(Arc::new(table));
        let scan = TableScanBuilder::new(scan.table_name.clone(), source)
            .with_projection(scan.projection.clone())
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(replaced.data)
}

/// The exact integers of a part, without noise: what its mechanisms would be given.
///
/// For tests of the sensitivity alone, which plan once and run on many databases. Nothing that an
/// [`crate::Engine`] hands out leads here: it takes an [`crate::analysis::Analysis`] of one's own tables.
#[doc(hidden)]
#[derive(Debug)]
pub struct ExactSums {
    plan: Arc<dyn ExecutionPlan>,
    keys: crate::analysis::KeySpace,
    width: usize,
}

impl ExactSums {
    /// Plans the part's enforced rows and sums, as a paid query would.
    ///
    /// # Errors
    /// What DataFusion says while planning.
    pub async fn plan(part: &Part, state: &SessionState, hash: [u64; 4]) -> Result<Self> {
        let key = LateKey::default();
        key.set(HashKey::new(hash));
        let sums = sums_plan(part, state, &key).await?;
        let plan = Arc::new(CoalescePartitionsExec::new(sums));
        let width = part.measures().iter().map(Measure::width).sum();
        Ok(Self { plan, keys: part.keys().clone(), width })
    }

    /// One vector of integers per input column, one entry per key.
    ///
    /// # Errors
    /// Whatever fails while running; for an analyzed part, nothing may.
    pub async fn run(&self, state: &SessionState) -> Result<Vec<Vec<i128>>> {
        let rows = self.plan.execute(0, state.task_ctx())?;
        physical::sums(rows, &self.keys, self.width).await
    }
}
