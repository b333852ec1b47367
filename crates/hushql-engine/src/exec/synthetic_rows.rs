//! The rows of a synthetic table: planned, paid for and read.
//!
//! In: a planned synthetic table. Out: first [`PreparedRows`] (planned and verified, without
//! opening anything), then, for a [`Charge`], the rows as public codes. These rows answer nothing
//! but counts over sets of columns. The rows are read and bounded once, by the operators of any
//! other release, so that all counts are of the same rows.
//!
//! ```text
//! read                                            what is counted
//!   SampleContributionsExec (unit = column)         codes per column, a weight per row
//!     …enforced rows: unit, age, city
//! ```

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::SessionState;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::datafusion::memory::{Advance, context};
use super::paid::PaidFor;
use super::plan::rows::in_partitions;
use super::verify::{Expected, verify_feed};
use crate::analysis::private_rows::PrivateRows;
use crate::ledger::{Charge, Due, plan_hash};
use crate::release::synthetic_release::SyntheticRelease;
use crate::sampler::QueryRng;
use hushql_exec::encoded_rows::{CodedRows, Coding, ReadingLimits, encode_rows};
use hushql_exec::operator::bound_contributions::{EnforcedBounds, HashKey, LateKey};
use hushql_exec::operator::sample_rows::SampleContributionsExec;

/// Rows that are planned and verified, and wait for their charge.
#[derive(Debug)]
pub(crate) struct PreparedRows {
    due: Due,
    plan: Arc<dyn ExecutionPlan>,
    key: LateKey,
}

impl PreparedRows {
    /// The finished plan, for tests that examine it; it does not run without a charge.
    #[cfg(test)]
    pub(crate) fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// The number of bytes that its operators take regardless of the number of rows; no row is read
    /// for it.
    pub(crate) fn memory(&self, state: &SessionState) -> usize {
        advance(&self.plan, state).bytes()
    }
}

/// Plans the rows of a synthetic table.
///
/// # Guarantee
/// Opens no table. The plan was verified: it reads only enforced rows of the private tables, and if
/// a column names the unit, one operator bounds the rows of each unit.
///
/// # Errors
/// DataFusion's planning errors (it has seen no data), and [`VerifyError`](super::VerifyError).
pub(crate) async fn prepare_rows(
    release: &SyntheticRelease,
    state: &SessionState,
) -> Result<PreparedRows> {
    let key = LateKey::default();
    let plan = bounded(release, state, &key).await?;
    Ok(PreparedRows { due: due(release), plan, key })
}

/// What must be paid before these rows are read.
fn due(release: &SyntheticRelease) -> Due {
    Due {
        plan_hash: plan_hash(&release.plan_text()),
        losses: vec![release.loss().clone()],
        unit_domains: vec![release.rows().subject().unit_domain().to_owned()],
    }
}

/// The advance of the plan, and of the codes that are kept of each partition: for each row, at most
/// two bytes for each value, as much again to grow, and the unit.
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
/// The charge is for this release, and durable, before a row is read. The rows are bounded as the
/// release says: removing one unit removes its rows with their weights, and changes no other row.
///
/// # Errors
/// Any failure while running. The error may quote cells: it must never reach an analyst.
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
    // The rows are planned again, now that the numbers of rows may be used; the new plan is
    // verified like the one before the charge.
    let paid = PaidFor::by(charge).within(state);
    let plan = bounded(release, &paid, &key).await?;
    // The memory suffices for the plan that was checked before the charge, too.
    let context = context(state, advance(&checked, state).or(advance(&plan, state)))?;
    key.set(HashKey::new(rng.hash_key()));
    encode_rows(&plan, coding(release)?, &context, limits).await
}

/// The codes of a release's rows.
fn coding(release: &SyntheticRelease) -> Result<Coding> {
    let (rows, task) = (release.rows(), release.task());
    let encoders = rows.columns().iter().map(|column| column.codes.encoder());
    Ok(Coding {
        encoders: encoders.collect::<std::result::Result<_, _>>()?,
        sizes: task.sizes.clone(),
        sensitivity: rows.is_weighed().then_some(task.sensitivity),
    })
}
