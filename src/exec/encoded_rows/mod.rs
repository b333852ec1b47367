//! Coded rows: the door between private rows and synthetic ones.
//!
//! In: a planned synthetic table. Out: first [`PreparedRows`] (planned and verified; nothing has been opened), then, for a
//! [`Charge`], the rows as public codes, of which nothing can be asked but counts over sets of columns. The rows are read and
//! bounded once, by the operators of any other release, so that all counts are of the same rows.
//!
//! ```text
//! read                                            what is counted
//!   SampleContributionsExec (unit = column)         codes per column, a weight per row
//!     …enforced rows: unit, age, city
//! ```

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::datafusion::memory::{Advance, context};
use super::deadline::Deadline;
use super::operator::bound_contributions::{EnforcedBounds, HashKey, LateKey, at_once};
use super::operator::sample_rows::SampleContributionsExec;
use super::paid::PaidFor;
use super::plan::rows::in_partitions;
use super::verify::{Expected, verify_feed};
use crate::analysis::private_rows::PrivateRows;
use crate::codes::Encoder;
use crate::ledger::{Charge, Due, plan_hash};
use crate::release::synthetic::SyntheticRelease;
use crate::sampler::QueryRng;
use chunk::{Chunk, CodingReader};

mod chunk;
mod column;
mod count;
mod joint;
mod weigh;

pub(crate) use count::CodedRows;

/// What reading and counting may take.
#[derive(Debug)]
pub(crate) struct ReadingLimits {
    /// When nobody waits any more.
    pub(crate) deadline: Deadline,
    /// Bytes that counts, models and rows made will take; public.
    pub(crate) memory: usize,
}

/// Rows that are planned and verified, and wait to be paid for.
#[derive(Debug)]
pub(crate) struct PreparedRows {
    due: Due,
    plan: Arc<dyn ExecutionPlan>,
    key: LateKey,
}

impl PreparedRows {
    /// The finished plan, for tests that look at it; without a charge it does not run.
    #[cfg(test)]
    pub(crate) fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// Bytes of memory that its operators take before the number of rows matters; known without one.
    pub(crate) fn memory(&self, state: &SessionState) -> usize {
        advance(&self.plan, state).bytes()
    }
}

/// Plans the rows of a synthetic table.
///
/// # Guarantee
/// Opens no table. The plan was verified: only enforced rows of the private tables are read, and where a column names the unit, one
/// operator bounds the rows of each.
///
/// # Errors
/// What DataFusion says while planning (it has seen no data), and [`VerifyError`](super::VerifyError).
pub(crate) async fn prepare_rows(
    release: &SyntheticRelease,
    state: &SessionState,
) -> Result<PreparedRows> {
    let key = LateKey::default();
    let plan = bounded(release, state, &key).await?;
    Ok(PreparedRows { due: due(release), plan, key })
}

/// What has to be paid before these rows are read.
fn due(release: &SyntheticRelease) -> Due {
    Due {
        plan_hash: plan_hash(&release.plan_text()),
        losses: vec![release.loss().clone()],
        unit_domains: vec![release.rows().subject().unit_domain().to_owned()],
    }
}

/// Whoever codes the rows of a partition keeps them, too: at most two bytes for each value, with as much to grow, and its unit.
fn advance(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Advance {
    let config = state.config();
    let (batch, threads) = (config.batch_size(), config.target_partitions());
    let row = plan.schema().fields().len().saturating_mul(4).saturating_add(128);
    let partitions = threads.max(plan.output_partitioning().partition_count());
    Advance::for_plan(plan, batch, threads).beside(partitions + 1, batch.saturating_mul(row))
}

/// The finished and verified plan of the bounded rows.
async fn bounded(
    release: &SyntheticRelease,
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = release.rows();
    let plan = in_partitions(rows.input(), state).await?;
    let plan = match (rows.has_unit(), release.most()) {
        (false, None) => plan,
        (true, Some(most)) => {
            let limits =
                EnforcedBounds { total: Some(most), per_partition: Some(most), l0: Some(1) };
            Arc::new(SampleContributionsExec::new(plan, 0, Vec::new(), limits, key.clone())?)
        }
        (true, None) | (false, Some(_)) => {
            return internal_err!("rows of units are bounded, and no others");
        }
    };
    verify_feed(&plan, &expected(rows)).map_err(|e| DataFusionError::External(Box::new(e)))?;
    Ok(plan)
}

fn expected(rows: &PrivateRows) -> Expected<'_> {
    Expected {
        tables: rows.subject().tables(),
        public: !rows.public().is_empty(),
        bounded: rows.has_unit(),
    }
}

/// Reads the rows of a paid synthetic table into codes.
///
/// # Guarantee
/// The charge is for this release, and durable, before a row is read. The rows are bounded as the release says: removing one unit
/// removes its rows with their weights, and changes no other row.
///
/// # Errors
/// Whatever fails while running. The error may quote cells: it must never reach an analyst.
pub(crate) async fn read_rows(
    prepared: PreparedRows,
    release: &SyntheticRelease,
    charge: &Charge,
    state: &SessionState,
    limits: ReadingLimits,
    rng: &mut QueryRng,
) -> Result<CodedRows> {
    let PreparedRows { due, plan: checked, key } = prepared;
    if self::due(release) != due {
        return internal_err!("what was prepared is what runs");
    }
    if !charge.settles(&due) {
        return internal_err!("a charge pays for its own release");
    }
    // Planned once more, now that the numbers of rows may be used; and verified like the plan before the charge.
    let paid = PaidFor::by(charge).within(state);
    let plan = bounded(release, &paid, &key).await?;
    // What was checked before the charge is there, too.
    let context = context(state, advance(&checked, state).or(advance(&plan, state)))?;
    key.set(HashKey::new(rng.hash_key()));
    collected(&plan, release, &context, limits).await
}

/// All rows of a plan, as codes.
async fn collected(
    plan: &Arc<dyn ExecutionPlan>,
    release: &SyntheticRelease,
    context: &Arc<TaskContext>,
    ReadingLimits { deadline, memory }: ReadingLimits,
) -> Result<CodedRows> {
    let rows = release.rows();
    let encoders = rows.columns().iter().map(|column| column.codes.encoder());
    let encoders: Arc<Vec<Encoder>> = Arc::new(encoders.collect::<std::result::Result<_, _>>()?);
    let first = usize::from(rows.is_weighed());
    let unit = rows.is_weighed().then(|| plan.schema().field(0).data_type().clone());
    // What is known without a row is there, or it fails before a row is read.
    let pool = context.memory_pool();
    let all = MemoryConsumer::new("synthetic rows").register(pool);
    all.try_grow(memory)?;
    let mut readers = Vec::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let rows = plan.execute(partition, Arc::clone(context))?;
        let reserved = MemoryConsumer::new(format!("coded rows[{partition}]")).register(pool);
        let reader = CodingReader::new(Arc::clone(&encoders), first, unit.as_ref(), reserved)?;
        readers.push((rows, reader));
    }
    // Codes, too, count as memory of the statement, as rows do that operators keep.
    let read = at_once(readers, |(mut rows, mut reader)| async move {
        while let Some(batch) = rows.next().await {
            reader.read(&batch?)?;
        }
        Ok(reader.finish())
    });
    let (chunks, mut reserved): (Vec<Chunk>, Vec<MemoryReservation>) =
        read.await?.into_iter().unzip();
    if rows.is_weighed() {
        all.try_grow(weigh::bytes(&chunks))?;
    }
    reserved.push(all);
    let sensitivity = rows.is_weighed().then_some(release.task().sensitivity);
    let sizes = release.task().sizes.clone();
    let weighed = weigh::weighed(chunks, sensitivity)?;
    let coded = CodedRows::new(weighed, sizes, deadline, reserved);
    coded.map_err(|error| DataFusionError::External(Box::new(error)))
}
