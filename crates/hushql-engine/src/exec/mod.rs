//! Stages 5 and 7: [`Release`] → verified physical plans → rows.
//!
//! In: a calibrated release. Out: first a [`Prepared`] query (planned, optimized and verified,
//! without opening anything), then, for a [`Charge`], the answer's batches. The private aggregates
//! run first, each once. Each is a DataFusion plan whose root is the privatizing operator, and
//! yields a small released table. The public plan then runs as ordinary DataFusion over released
//! and public tables.
//!
//! The privatizing and bounding operators are put on top of the finished plan of the enforced rows,
//! so that no optimizer ever sees them.
//!
//! ```text
//! PrivatizeExec                    PrivatizeExec
//!   CoalescePartitionsExec           CoalescePartitionsExec
//!     SumByKeyExec (unit = row)        BoundContributionsExec (unit = column)
//!       …                                …
//! ```

mod consistent_numbers;
mod datafusion;
pub mod distributed;
mod draw;
mod error_columns;
mod paid;
mod plan;
mod privatize;
mod rehearsal;
mod released_table;
mod shared_vault;
mod side_columns;
pub(crate) mod source;
mod synthetic_rows;
pub(crate) mod target;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use datafusion::collected::Collected;
pub(crate) use datafusion::kept_public::KeptPublic;
pub(crate) use datafusion::planning::Planning;
pub use datafusion::session_state::PlannedTables;
pub use datafusion::session_state::session_state;
pub(crate) use datafusion::session_state::{columns_of_public, exact_rows, session_state_within};
pub(crate) use error_columns::at_end;
pub(crate) use hushql_exec::deadline::Deadline;
pub(crate) use hushql_exec::encoded_rows::ReadingLimits;
pub(crate) use hushql_exec::operator::kept_columns::KeptColumns;
pub(crate) use hushql_exec::operator::look_up::KeptLookUps;
pub use hushql_exec::operator::private_scan::{PrivateScanExec, PrivateTable};
pub(crate) use rehearsal::fails_on_any_row;
pub(crate) use shared_vault::SharedVault;
pub(crate) use source::ledger::{LedgerSight, LedgerTable, vault_error};
pub(crate) use synthetic_rows::{PreparedRows, prepare_rows, read_rows};
#[cfg(any(test, feature = "testing"))]
pub use testing::{Draws, Exact, ExactSums, ScoredRuns};
pub use verify::VerifyError;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use ::datafusion::common::tree_node::{Transformed, TreeNode};
use ::datafusion::common::{DataFusionError, Result, internal_err};
use ::datafusion::datasource::provider_as_source;
use ::datafusion::execution::{SendableRecordBatchStream, SessionState};
use ::datafusion::logical_expr::{LogicalPlan, TableScanBuilder};
use ::datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use ::datafusion::physical_plan::joins::HashJoinExec;
use ::datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::analysis::outcome::released_part;
use crate::analysis::{InputShape, Measure, PrivateAggregate, Value};
use crate::ledger::{Charge, Due, plan_hash};
use crate::release::Release;
use crate::release::people_limits::PeopleLimit;
use crate::sampler::QueryRng;
use crate::visible::heading;
use consistent_numbers::{DrawnPart, WaitingParts};
use datafusion::memory::Advance;
use distributed::site_of;
use draw::draw_plan::{DrawPlan, DrawnFloor, Specification};
use error_columns::{Margin, margins};
use hushql_exec::operator::bound_contributions::{HashKey, LateKey};
use paid::PaidFor;
use plan::unknown_groups::extra_columns;
use plan::{BoundedInput, bounded_inputs};
use privatize::{Permit, PrivatizeExec};
use rehearsal::rehearse;
use released_table::ReleasedTable;
use side_columns::{Beside, split, with_columns_beside};
use verify::{Expected, verify, verify_public};

/// A query that is planned and verified, and waits for its charge.
#[derive(Debug)]
pub struct Prepared {
    due: Due,
    parts: Vec<PreparedPart>,
    /// The released values, each with the plan over released tables that computes it.
    values: Vec<(Value, Arc<dyn ExecutionPlan>)>,
    public_plan: Arc<dyn ExecutionPlan>,
    /// The answer's columns, as the binder named them.
    schema: SchemaRef,
    /// The memory that the operators reserve regardless of the number of rows.
    advance: Advance,
}

#[derive(Debug)]
struct PreparedPart {
    source: PartSource,
    released: ReleasedTable,
    columns: usize,
    /// The side column of each measure, if it has one.
    beside: Vec<Option<Beside>>,
    /// For each measure, whether its bound is chosen.
    is_chosen: Vec<bool>,
    /// The ± of the numbers, in the order of the columns that follow the released ones.
    margins: Vec<Margin>,
}

/// Where the rows of a private aggregate come from.
#[derive(Debug)]
enum PartSource {
    /// From a draw, once, after the charge.
    Drawn(Box<ToDraw>),
    /// From an earlier draw, which is shown again.
    Shown(RecordBatch),
}

/// A private aggregate that draws.
#[derive(Debug)]
struct ToDraw {
    plan: Arc<dyn ExecutionPlan>,
    specification: Arc<Specification>,
    permit: Permit,
    key: LateKey,
}

impl PreparedPart {
    fn to_draw(&self) -> Option<&ToDraw> {
        match &self.source {
            PartSource::Drawn(draw) => Some(draw),
            PartSource::Shown(_) => None,
        }
    }
}

impl Prepared {
    /// The finished plans of the private aggregates, for tests that examine them. None of them runs
    /// without a charge.
    #[doc(hidden)]
    pub fn plans(&self) -> impl Iterator<Item = &Arc<dyn ExecutionPlan>> {
        self.parts.iter().filter_map(PreparedPart::to_draw).map(|draw| &draw.plan)
    }

    /// The answer's columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// The query with these headings for its columns, as [`under`].
    pub(crate) fn under(self, headings: &[Option<String>]) -> Self {
        Self { schema: under(&self.schema, headings), ..self }
    }

    /// The number of bytes that its operators take regardless of the number of rows; no row is read
    /// for it.
    pub(crate) fn memory(&self) -> usize {
        self.advance.bytes()
    }
}

/// What the private aggregates of a query drew, once each. Accuracy and notes follow from this and
/// the release.
#[derive(Debug)]
pub(crate) struct Drawn {
    /// The answer's columns.
    pub schema: SchemaRef,
    /// For each private aggregate, by measure: the least noisy number of rows behind a mean, or the
    /// largest ± of a variance; `None` for other measures.
    pub mean_rows: Vec<Vec<Option<f64>>>,
    /// For each private aggregate, by measure: the position of the chosen bound on the ladder;
    /// `None` without a ladder, and if no row came out.
    pub rungs: Vec<Vec<Option<usize>>>,
    /// The released tables of the private aggregates, in order.
    pub released: Vec<RecordBatch>,
    /// The released values that later private aggregates used, as numbers; `None` for a value that
    /// is not a number.
    pub values: Vec<Option<f64>>,
    /// What each private aggregate drew, with the side columns of its measures.
    pub batches: Vec<RecordBatch>,
}

/// A query after its draws. Its rows are computed when they are asked for.
pub(crate) struct Running {
    /// What its private aggregates drew.
    pub drawn: Drawn,
    /// The answer's rows, in order. They come from public and released rows only. After the
    /// answer's columns follow the errors of its numbers.
    pub rows: SendableRecordBatchStream,
    /// The charge that paid for it.
    pub charge: Option<Charge>,
}

/// Plans the private aggregates of a release.
///
/// # Guarantee
/// Opens no table and draws nothing, and the site accepts every plan that will run there. The
/// public plan is planned over released tables without their rows, so that a query that cannot be
/// planned is not charged; it holds no private scan. The finished plan of each private aggregate
/// was verified: its root is the privatizing operator of this release, below which only enforced
/// rows of the aggregate's own tables are read.
///
/// # Errors
/// DataFusion's planning errors (it has seen no data), [`VerifyError`], and a plan that cannot run
/// at the session's site.
pub async fn prepare(release: &Release, state: &SessionState) -> Result<Prepared> {
    let mut parts = Vec::new();
    for (i, part) in release.analysis().parts().iter().enumerate() {
        let schema = with_columns_beside(&part.released_schema(), part.measures());
        let source = match shown_again(release, i, &schema)? {
            Some(batch) => PartSource::Shown(batch),
            None => {
                let key = LateKey::default();
                let bounded_inputs = bounded_inputs(part, state, &key).await?;
                let specification = specification(release, i, &bounded_inputs)?;
                let permit = Permit::default();
                let plan = privatized(part, bounded_inputs, &specification, &permit)?;
                accepted(&plan, state)?;
                PartSource::Drawn(Box::new(ToDraw { plan, specification, permit, key }))
            }
        };
        let released = ReleasedTable::new(release.error_bars().released(part), part.rows());
        let columns = part.released_schema().fields().len();
        let beside = part.measures().iter().map(Beside::for_measure).collect();
        let margins = margins(release, i);
        let is_chosen = part.measures().iter().map(|measure| measure.ladder.is_some()).collect();
        parts.push(PreparedPart { source, released, columns, beside, is_chosen, margins });
    }
    let released: Vec<ReleasedTable> = parts.iter().map(|part| part.released.clone()).collect();
    // now() has one value in the whole query. Without it, now() would fail after the charge.
    let mut state = state.clone();
    let options = Arc::clone(state.config_options());
    state.execution_props_mut().mark_start_execution(options);
    let mut values = Vec::new();
    for value in release.analysis().values() {
        values.push((value.clone(), over_released(value.plan(), &released, &state).await?));
    }
    let schema = columns_of(release);
    let public_plan = over_released(release.error_bars().plan(), &released, &state).await?;
    // A query without a release costs nothing, so its failures need no rehearsal.
    if !parts.is_empty() {
        for value in release.analysis().values() {
            rehearse(value.plan(), &state).await?;
        }
        rehearse(release.error_bars().plan(), &state).await?;
    }
    let own = parts.iter().filter_map(PreparedPart::to_draw).map(|draw| &draw.plan);
    let plans = own.chain(values.iter().map(|(_, plan)| plan));
    // The plans run one after the other.
    let advance = plans
        .chain([&public_plan])
        .map(|plan| advance_of(plan, &state))
        .reduce(Advance::or)
        .unwrap_or_default();
    Ok(Prepared { due: due(release), parts, values, public_plan, schema, advance })
}

/// Asks the site whether the bounded inputs of this plan can run there.
fn accepted(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<()> {
    let site = site_of(state.config());
    for input in plan.children() {
        site.accepts(input, state.config()).map_err(|e| DataFusionError::External(Box::new(e)))?;
    }
    Ok(())
}

/// The columns of a private aggregate that only shows earlier draws; `None` if it draws anything.
fn shown_again(release: &Release, at: usize, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
    let Some(part) = release.analysis().parts().get(at).filter(|_| release.is_shown(at)) else {
        return Ok(None);
    };
    let columns = match release.shown().whole(at) {
        Some(batch) => batch.columns().to_vec(),
        None => {
            let shown = (0..part.measures().len()).map(|i| release.shown().measure(at, i));
            let Some(shown) = shown.collect::<Option<Vec<_>>>() else {
                return internal_err!("what is shown again was drawn before");
            };
            draw::shown_again(part, &shown)?
        }
    };
    Ok(Some(RecordBatch::try_new(Arc::clone(schema), columns)?))
}

/// The finished and verified plan of a private aggregate over its bounded inputs.
fn privatized(
    part: &PrivateAggregate,
    bounded_inputs: Vec<BoundedInput>,
    specification: &Arc<Specification>,
    permit: &Permit,
) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs =
        bounded_inputs.into_iter().map(|bounded_input| single(bounded_input.plan)).collect();
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(PrivatizeExec::new(inputs, Arc::clone(specification), permit.clone()));
    verify(&plan, specification, &Expected::for_part(part))
        .map_err(|e| DataFusionError::External(Box::new(e)))?;
    Ok(plan)
}

impl ToDraw {
    /// Plans a private aggregate with joins again, now that the numbers of rows may be used.
    ///
    /// # Guarantee
    /// The plan has the specification that was charged, and was verified like the plan before the
    /// charge. It yields the same rows. Only two things may differ: which side of a join is kept in
    /// memory, and whether its rows are distributed.
    ///
    /// # Errors
    /// As [`prepare`]. Private rows may decide whether there is an error, so it must never reach an
    /// analyst.
    async fn planned_by_size(
        &mut self,
        analyzed: &PrivateAggregate,
        paid: &SessionState,
    ) -> Result<()> {
        let is_listed_now = |node: &Arc<dyn ExecutionPlan>| {
            node.downcast_ref::<PrivateScanExec>().is_some_and(PrivateScanExec::is_listed_when_paid)
        };
        if self.plan.exists(|node| Ok(node.is::<HashJoinExec>() || is_listed_now(node)))? {
            let bounded_inputs = bounded_inputs(analyzed, paid, &self.key).await?;
            self.plan = privatized(analyzed, bounded_inputs, &self.specification, &self.permit)?;
        }
        Ok(())
    }
}

/// The columns of the answer to a release, before they get the headings of its query.
pub(crate) fn columns_of(release: &Release) -> SchemaRef {
    columns_of_plan(release.analysis().public_plan())
}

/// The columns of the answer to this plan, before they get the headings of its query.
pub(crate) fn columns_of_plan(plan: &LogicalPlan) -> SchemaRef {
    headed(plan.schema().as_arrow(), |_, name| match heading(name) {
        Cow::Borrowed(_) => None,
        Cow::Owned(name) => Some(name),
    })
}

/// The columns under these headings; unchanged if the number of headings differs, or if two columns
/// would get the same name.
pub(crate) fn under(schema: &SchemaRef, headings: &[Option<String>]) -> SchemaRef {
    if headings.len() != schema.fields().len() {
        return Arc::clone(schema);
    }
    let under = headed(schema, |at, _| headings.get(at).cloned().flatten());
    let mut names = BTreeSet::new();
    match under.fields().iter().all(|field| names.insert(field.name().clone())) {
        true => under,
        false => Arc::clone(schema),
    }
}

/// The columns of an answer under their headings; those without one keep their names.
fn headed(schema: &Schema, heading: impl Fn(usize, &str) -> Option<String>) -> SchemaRef {
    let headed = |(at, field): (usize, &Arc<Field>)| match heading(at, field.name()) {
        None => Arc::clone(field),
        Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
    };
    let fields: Vec<_> = schema.fields().iter().enumerate().map(headed).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// What must be paid before this release runs.
fn due(release: &Release) -> Due {
    Due {
        plan_hash: plan_hash(&release.plan_text()),
        losses: release.charges().map(|(_, loss)| loss).collect(),
        unit_domains: release.unit_domains(),
    }
}

/// The memory that a plan's operators take regardless of the number of rows.
fn advance_of(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Advance {
    let config = state.config();
    Advance::for_plan(plan, config.batch_size(), config.target_partitions())
}

/// All rows of a plan in one partition.
fn single(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(CoalescePartitionsExec::new(plan))
}

/// The number of integer columns of a bounded input.
fn width(part: &PrivateAggregate, bounded_input: &BoundedInput) -> usize {
    let own: usize = bounded_input
        .measures
        .iter()
        .filter_map(|i| part.measures().get(*i))
        .map(Measure::width)
        .sum();
    own + extra_columns(bounded_input.input_shape, own)
}

/// What a private aggregate releases.
fn specification(
    release: &Release,
    part: usize,
    bounded_inputs: &[BoundedInput],
) -> Result<Arc<Specification>> {
    let Some(analyzed) = release.analysis().parts().get(part) else {
        return internal_err!("a release has its parts");
    };
    let draw_plans = draw_plans(release, part, bounded_inputs)?;
    let hidden = match (
        release.partition_selection(part),
        bounded_inputs.first().map(|bounded_input| bounded_input.input_shape),
    ) {
        (Some(hidden), Some(InputShape::Groups { counter })) => Some((hidden.clone(), counter)),
        (None, Some(InputShape::Groups { .. })) | (Some(_), _) => {
            return internal_err!("groups of the data have a threshold, and no others");
        }
        (None, _) => None,
    };
    Ok(Arc::new(Specification {
        keys: analyzed.keys().clone(),
        released: with_columns_beside(&analyzed.released_schema(), analyzed.measures()),
        draw_plans,
        hidden,
        floors: release.people_limits(part).iter().map(drawn_floor).collect(),
        bounded_inputs: bounded_inputs
            .iter()
            .map(|bounded_input| (bounded_input.input_shape, width(analyzed, bounded_input)))
            .collect(),
    }))
}

fn drawn_floor(limit: &PeopleLimit) -> DrawnFloor {
    let PeopleLimit { count, of, at_least, floor: _ } = limit;
    DrawnFloor { count: *count, of: of.clone(), at_least: *at_least }
}

/// How to draw each measure of a private aggregate: its mechanism, and where its integers are.
fn draw_plans(
    release: &Release,
    part: usize,
    bounded_inputs: &[BoundedInput],
) -> Result<Vec<DrawPlan>> {
    let Some(measures) = release.analysis().parts().get(part).map(PrivateAggregate::measures)
    else {
        return internal_err!("a release has its parts");
    };
    let mut draw_plans = Vec::with_capacity(measures.len());
    for (i, measure) in measures.iter().enumerate() {
        let Some(mechanized) = release.mechanisms(part).get(i) else {
            return internal_err!("every measure has a mechanism");
        };
        let Some(bounded_input) =
            bounded_inputs.iter().position(|bounded_input| bounded_input.measures.contains(&i))
        else {
            return internal_err!("every measure has a feed");
        };
        let before = bounded_inputs
            .get(bounded_input)
            .map_or(&[][..], |bounded_input| &bounded_input.measures);
        let before = before.iter().take_while(|m| **m != i).filter_map(|m| measures.get(*m));
        draw_plans.push(DrawPlan {
            measure: measure.clone(),
            mechanism: mechanized.mechanism.clone(),
            accuracy: mechanized.accuracy,
            together: mechanized.together.clone(),
            rank: mechanized.rank,
            shown: release.shown().measure(part, i).map(<[_]>::to_vec),
            refined: release.refined(part, i).cloned(),
            bounded_input,
            first: before.map(Measure::width).sum(),
        });
    }
    Ok(draw_plans)
}

/// The finished and verified public plan, over released tables.
async fn over_released(
    plan: &LogicalPlan,
    released: &[ReleasedTable],
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(part) = released_part(scan.table_name.table()) else {
            return Ok(Transformed::no(node));
        };
        let Some(table) = released.get(part) else {
            return internal_err!("every part has a released table");
        };
        let source = provider_as_source(Arc::new(table.clone()));
        // Columns with ± may follow the analyzed columns.
        let all = || (0..scan.projected_schema.fields().len()).collect();
        let scan = TableScanBuilder::new(scan.table_name.clone(), source)
            .with_projection(Some(scan.projection.clone().unwrap_or_else(all)))
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    let plan = state.create_physical_plan(&plan.data).await?;
    verify_public(&plan).map_err(|e| DataFusionError::External(Box::new(e)))?;
    Ok(plan)
}

/// Runs the private aggregates of a paid query, and starts the public plan.
///
/// # Guarantee
/// The charge is for this release, consumed, and durable, before the first random draw. When this
/// returns, every private aggregate has drawn once, or shows its earlier draw again. The public
/// plan, whose rows are still to come, sees released and public tables only. If nothing is drawn,
/// nothing private is read, except for public columns of people whose presence is public.
///
/// # Errors
/// Any failure while running. The error may quote cells: it must never reach an analyst.
pub(crate) async fn run(
    prepared: Prepared,
    release: &Release,
    charge: Option<Charge>,
    state: &SessionState,
) -> Result<Running> {
    let Prepared { due, mut parts, values, public_plan, schema, mut advance } = prepared;
    if self::due(release) != due {
        return internal_err!("what was prepared is what runs");
    }
    match &charge {
        Some(charge) if !charge.settles(&due) => {
            return internal_err!("a charge pays for its own release");
        }
        None if parts
            .iter()
            .enumerate()
            .any(|(i, part)| part.to_draw().is_some() && !release.is_free(i)) =>
        {
            return internal_err!("a private part runs after a charge");
        }
        Some(_) | None => {}
    }
    if let Some(charge) = &charge {
        let paid = PaidFor::by(charge).within(state);
        for (part, analyzed) in parts.iter_mut().zip(release.analysis().parts()) {
            let PartSource::Drawn(draw) = &mut part.source else { continue };
            Box::pin(draw.planned_by_size(analyzed, &paid)).await?;
            advance = advance.or(advance_of(&draw.plan, state));
        }
    }
    let context = datafusion::memory::context(state, advance)?;
    let (mut mean_rows, mut chosen, mut released) = (Vec::new(), Vec::new(), Vec::new());
    let mut numbers = vec![None; values.len()];
    let entropy = |e| DataFusionError::External(Box::new(e));
    let mut hash = None;
    let mut all = Vec::new();
    let mut waiting = WaitingParts::default();
    for (i, part) in parts.into_iter().enumerate() {
        let needed = values.iter().zip(&mut numbers);
        for ((value, plan), number) in needed.filter(|((value, _), _)| value.before() == i) {
            *number = value.give(&collect(Arc::clone(plan), Arc::clone(&context)).await?)?;
        }
        let batches = match &part.source {
            PartSource::Shown(batch) => vec![batch.clone()],
            PartSource::Drawn(draw) => {
                let mut rng = QueryRng::from_os().map_err(entropy)?;
                // All private aggregates use one key, so that a unit keeps the same groups wherever
                // the query bounds it.
                let key = *hash.get_or_insert_with(|| HashKey::new(rng.hash_key()));
                draw.key.set(key);
                draw.permit.grant(rng);
                collect(Arc::clone(&draw.plan), Arc::clone(&context)).await?
            }
        };
        let [batch] = batches.as_slice() else { return internal_err!("a release is one batch") };
        all.push(batch.clone());
        let (columns, rows, rungs) = split(batch, part.columns, &part.beside, &part.is_chosen)?;
        mean_rows.push(rows);
        chosen.push(rungs.clone());
        released.push(columns.clone());
        let batch = batch.clone();
        waiting.give(DrawnPart { index: i, part, batch, columns, rungs }, release)?;
    }
    let rows = execute_stream(public_plan, context)?;
    let drawn = Drawn { schema, mean_rows, rungs: chosen, released, values: numbers, batches: all };
    Ok(Running { drawn, rows, charge })
}
