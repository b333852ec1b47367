//! The DataFusion session for all plans, with a fixed list of optimizer rules.
//!
//! Upstream: docs/upstream.md, 22 (dynamic filters), 23 (size of spill files) and 25 (schema
//! check). Each switch names its entry.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use tokio::runtime::Builder;

use super::collected::Collected;
use super::kept_public::KeptPublic;
use super::memory::in_small_batches;
use super::planning::Planning;
use super::public_plans;
use super::sizes::Sizes;
use crate::analysis::Tables;
use crate::bind::sources::Sources;
use crate::catalog::{Catalog, RESERVED, Table};
use hushql_exec::deadline::Deadline;
use hushql_exec::operator::spill::SpillFolder;

/// The most public rows to read during planning: one more than the analysis keeps, so that it
/// notices the excess.
const MOST_PUBLIC_ROWS: usize = 1_000_001;

/// From this estimated number of public rows on, several threads pay off.
const MANY_PUBLIC_ROWS: f64 = 1e5;

/// The session of an engine.
///
/// # Guarantee
/// No rule answers an aggregate from a file's statistics. A rule that fails makes the query fail
/// and is never skipped. No filter is derived from rows while a query runs. No SQL statement can
/// change this: the engine runs no SET.
pub fn session_state() -> SessionState {
    in_runtime(Arc::default())
}

/// The session of an engine whose queries share `memory` bytes, and may write rows that do not fit
/// into memory to files below this folder. Without a folder they write no files.
///
/// # Errors
/// DataFusion's, if the folder cannot be used.
pub(crate) fn session_state_within(
    memory: Option<usize>,
    spill: Option<&Path>,
) -> Result<SessionState> {
    let disk = DiskManagerBuilder::default();
    let disk = match spill {
        Some(folder) => disk.with_temp_file_factory(Arc::new(SpillFolder::open(folder)?)),
        None => disk.with_mode(DiskManagerMode::Disabled),
    };
    let mut runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
    if let Some(bytes) = memory {
        // A greedy pool: an operator may use all memory that others leave.
        runtime = runtime.with_memory_limit(bytes, 1.0);
    }
    let mut state = in_runtime(runtime.build_arc()?);
    // Each batch gets its own file, because RepartitionExec waits forever for a batch in the newer
    // of two files that are written at the same time. (docs/upstream.md, 23. Delete with the
    // release that has apache/datafusion #24891.)
    let options = state.config_mut().options_mut();
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1)?;
    // Otherwise, a sort that may write files would reserve ten megabytes at its first row, and
    // nothing without rows.
    options.execution.sort_spill_reservation_bytes = 0;
    Ok(state)
}

fn in_runtime(runtime: Arc<RuntimeEnv>) -> SessionState {
    let mut config = SessionConfig::new()
        .with_information_schema(false)
        .with_collect_statistics(false)
        .with_repartition_file_scans(true);
    config.options_mut().optimizer.skip_failed_rules = false;
    // Readers do not filter rows. Operators above filter them, whatever a file claims about itself.
    config.options_mut().execution.parquet.pushdown_filters = false;
    // docs/upstream.md, 22. These filters stay off even after a fix, because with them private rows
    // would decide which rows are read. The filters come from the rows of one side of a join. Its
    // partitions wait for each other to build them, and if a join above has no rows in one of them,
    // they wait forever.
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // Scans divide their rows themselves. If batches were dealt out later, they would come back in
    // the order in which threads finish, and released rows would come out in another order each
    // time.
    optimizer.enable_round_robin_repartition = false;
    // For the same reason, each partition of a scan reads its own part of the files. If a partition
    // also read what another one has not begun yet, nobody could say whose rows it has: columns
    // that are kept of one partition would be joined to those of another, and a partition that is
    // read alone would read all files.
    config.options_mut().execution.enable_file_stream_work_stealing = false;
    // `x IS NOT TRUE` is nullable to the physical planner and not to the logical one. The check
    // that both agree would refuse the query, and nothing here relies on it. (docs/upstream.md, 25.
    // Delete with the release that has apache/datafusion #24244.)
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_optimizer_rules(public_plans::rules())
        .with_physical_optimizer_rules(public_plans::physical_rules())
        .build()
}

/// The exact rows of a plan, only for checking the owner's declarations.
pub(crate) async fn exact_rows(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Vec<RecordBatch>> {
    let plan = state.create_physical_plan(plan).await?;
    let context = in_small_batches(&plan, state);
    collect(plan, context).await
}

/// The columns of a public table, read during planning.
///
/// Planning is not asynchronous, and a file may need a runtime. So the read has its own thread and
/// runtime.
pub(crate) fn columns_of_public(
    provider: Arc<dyn TableProvider>,
    columns: &[String],
    state: &SessionState,
) -> Result<Vec<ArrayRef>> {
    let expressions: Vec<Expr> =
        columns.iter().map(|c| Expr::Column(Column::from_name(c))).collect();
    let plan = LogicalPlanBuilder::scan("public", provider_as_source(provider), None)?
        .project(expressions)?
        .build()?;
    Ok(rows_of_public(&plan, state)?.columns().to_vec())
}

/// All rows of a plan over public tables, in one batch: at most a million, read before the deadline
/// of planning. Several threads read many rows.
fn rows_of_public(plan: &LogicalPlan, state: &SessionState) -> Result<RecordBatch> {
    let failed = |_| crate::grid::failed();
    let planning = Planning::for_state(state);
    let batches = std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let mut runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
            let planned = in_time(planning.deadline(), state.create_physical_plan(plan));
            let plan = runtime.block_on(planned)?;
            if Sizes::Declared.estimate(&plan).rows > MANY_PUBLIC_ROWS {
                let threads = state.config().target_partitions().max(1);
                let mut several = Builder::new_multi_thread();
                let several = several.worker_threads(threads).enable_all();
                runtime = several.build().map_err(failed)?;
            }
            runtime.block_on(in_time(planning.deadline(), async {
                let context = in_small_batches(&plan, state);
                let collected = Collected::new(state);
                at_most(MOST_PUBLIC_ROWS, collected, execute_stream(plan, context)?).await
            }))
        });
        read.join().map_err(|_| crate::grid::failed())?
    })?;
    let schema = match batches.first() {
        Some(batch) => batch.schema(),
        None => Arc::new(plan.schema().as_arrow().clone()),
    };
    Ok(concat_batches(&schema, &batches)?)
}

/// Work on public rows until a deadline.
async fn in_time<T>(deadline: &Deadline, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        () = deadline.over() => Err(crate::grid::failed()),
        done = work => done,
    }
}

/// Collects rows, up to a limit, and as long as the engine's memory suffices.
async fn at_most(
    most_rows: usize,
    mut collected: Collected,
    mut answer: SendableRecordBatchStream,
) -> Result<Vec<RecordBatch>> {
    let (mut batches, mut rows) = (Vec::new(), 0_usize);
    while let Some(batch) = answer.try_next().await? {
        rows = rows.saturating_add(batch.num_rows());
        if rows > most_rows {
            return Err(DataFusionError::ResourcesExhausted("there are too many rows".to_owned()));
        }
        collected.add(&batch)?;
        batches.push(batch);
    }
    Ok(batches)
}

/// The tables of a query, and the public tables that are read during planning.
pub struct PlannedTables<'a> {
    /// The tables that the query may name.
    pub sources: &'a Sources,
    /// The declarations of these tables.
    pub catalog: &'a Catalog,
    /// The session in which public tables are read.
    pub state: &'a SessionState,
}

impl std::fmt::Debug for PlannedTables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlannedTables").finish_non_exhaustive()
    }
}

impl Tables for PlannedTables<'_> {
    fn source(&self, table: &str) -> Option<Arc<dyn TableSource>> {
        self.sources.get(table).cloned()
    }

    fn read(&self, plan: &LogicalPlan) -> Option<RecordBatch> {
        let mut public = true;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                // A table whose rows were already read has one of the engine's own names.
                let name = scan.table_name.table();
                let table = self.catalog.table(name);
                public &= name.starts_with(RESERVED) || table.is_some_and(Table::is_public);
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .ok()?;
        if !public {
            return None;
        }
        let read = || rows_of_public(plan, self.state).ok();
        let kept = self.state.config().get_extension::<KeptPublic>();
        Planning::for_state(self.state).once(plan, || match kept {
            Some(kept) => kept.or_read(plan, read),
            None => read(),
        })
    }

    fn most_rows_of_a_unit(&self) -> u64 {
        Planning::for_state(self.state).rows_of_a_unit()
    }

    fn pinned(&self, rows: RecordBatch) -> Option<Arc<dyn TableSource>> {
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).ok()?;
        Some(provider_as_source(Arc::new(table)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{Int64Array, StringArray};
    use datafusion::functions_aggregate::expr_fn::count;
    use datafusion::logical_expr::col;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// A query that writes files for lack of memory must end. Two partitions could each have a file
    /// open for a third partition, which would wait for a row in the older file forever.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn partitions_that_spill_at_once_do_not_wait_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = session_state_within(Some(2 << 20), Some(folder.path())).unwrap();
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = 2;
        // Small batches give many chances to wait: without the setting, every second round of
        // queries hangs.
        options.execution.batch_size = ConfigNonZeroUsize::try_new(64).unwrap();
        let batch = |from: i64| {
            let names: ArrayRef =
                Arc::new(StringArray::from_iter_values((0..2_000).map(|i| format!("{i:0300}"))));
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 2_000));
            RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
        };
        let rows: Vec<Vec<RecordBatch>> =
            (0..3).map(|p| (0..10).map(|i| batch(10 * p + i)).collect()).collect();
        let table = Arc::new(MemTable::try_new(batch(0).schema(), rows).unwrap());
        let plan = LogicalPlanBuilder::scan("t", provider_as_source(table), None)
            .and_then(|rows| rows.aggregate(vec![col("id"), col("name")], vec![count(col("id"))]))
            .and_then(LogicalPlanBuilder::build)
            .unwrap();
        let mut answered = 0;
        for _ in 0..20 {
            let rows = tokio::time::timeout(Duration::from_secs(60), exact_rows(&plan, &state));
            answered += usize::from(rows.await.expect("it ends").is_ok());
        }
        assert!(answered > 0, "there is not enough memory, whatever is written");
    }

    /// Columns are kept of each partition of a scan, so each must read its own part of the files.
    #[test]
    fn partitions_read_their_own_parts() {
        assert!(!session_state().config_options().execution.enable_file_stream_work_stealing);
    }

    /// If one side of a join has no row in a partition, a join below it must not wait forever for
    /// that partition's filter. Otherwise the presence of one person decides whether the query
    /// ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "DataFusion's own plan of written SQL is looked at"
    )]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn partitions_without_rows_are_waited_for_by_none() {
        let mut state = session_state();
        state.config_mut().options_mut().execution.target_partitions = 2;
        // The switches that make partitions wait for each other are off. The queries below never
        // made one wait.
        let optimizer = &state.config_options().optimizer;
        assert!(!optimizer.enable_dynamic_filter_pushdown);
        assert!(!optimizer.enable_join_dynamic_filter_pushdown);
        assert!(!optimizer.enable_topk_dynamic_filter_pushdown);
        assert!(!optimizer.enable_aggregate_dynamic_filter_pushdown);
        let context = SessionContext::new_with_state(state);
        let batch = |columns: [(&str, Vec<i64>); 2]| {
            let arrays = columns.map(|(n, v)| (n, Arc::new(Int64Array::from(v)) as ArrayRef));
            RecordBatch::try_from_iter(arrays).unwrap()
        };
        let visits = batch([("id", vec![3, 2, 5]), ("x", vec![1, 1, 1])]);
        let known = batch([("k", vec![1, 2]), ("l", vec![1, 2])]);
        context.register_batch("known", known).unwrap();
        let visits = MemTable::try_new(visits.schema(), vec![vec![visits]]).unwrap();
        let visits = Arc::new(crate::exec::PrivateTable::new("visits", Arc::new(visits)));
        context.register_table("visits", visits).unwrap();
        for id in 0..8 {
            let query = format!(
                "SELECT visits.id FROM visits JOIN known ON visits.x = known.k WHERE visits.id = {id}"
            );
            let rows = context.sql(&query).await.unwrap().collect();
            let rows = tokio::time::timeout(Duration::from_secs(60), rows).await;
            rows.expect("it ends").unwrap();
        }
    }
}
