//! The DataFusion session in which everything runs: its optimizers are a fixed list.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionConfig;

use crate::analysis::Tables;
use crate::bind::Sources;
use crate::catalog::{Catalog, RESERVED};

/// The session of an engine.
///
/// # Guarantee
/// No rule answers an aggregate from a file's statistics, failing rules fail the query (they are never
/// skipped), and no SQL statement can change either: the engine runs no SET.
pub fn session_state() -> SessionState {
    let mut config = SessionConfig::new()
        .with_information_schema(false)
        .with_collect_statistics(false)
        .with_repartition_file_scans(true);
    config.options_mut().optimizer.skip_failed_rules = false;
    // `x IS NOT TRUE` is nullable to the physical planner and not to the logical one; the check that they
    // agree would refuse the query, and nothing here relies on either.
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    let rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = PhysicalOptimizer::new()
        .rules
        .into_iter()
        .filter(|rule| rule.name() != "aggregate_statistics")
        .collect();
    SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_physical_optimizer_rules(rules)
        .build()
}

/// The exact rows of a plan: for what the owner's declarations are checked against, and for nobody else.
pub(crate) async fn exact_rows(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Vec<RecordBatch>> {
    collect(state.create_physical_plan(plan).await?, state.task_ctx()).await
}

/// The columns of a public table, read while a query is planned.
///
/// Planning is not asynchronous, and a file may want a runtime: the read has a thread and a runtime of its own.
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

/// All rows of a plan over public tables, in one batch.
fn rows_of_public(plan: &LogicalPlan, state: &SessionState) -> Result<RecordBatch> {
    let failed = |_| crate::grid::failed();
    let batches = std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(failed)?.block_on(exact_rows(plan, state))
        });
        read.join().map_err(|_| crate::grid::failed())?
    })?;
    let schema = match batches.first() {
        Some(batch) => batch.schema(),
        None => Arc::new(plan.schema().as_arrow().clone()),
    };
    Ok(concat_batches(&schema, &batches)?)
}

/// The tables of a query, and the public ones read while it is planned.
pub struct PlannedTables<'a> {
    /// The tables that the query may name.
    pub sources: &'a Sources,
    /// What is declared of them.
    pub catalog: &'a Catalog,
    /// Where public ones are read.
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
                // What was read before has a name of the engine's own.
                let name = scan.table_name.table();
                let table = self.catalog.table(name);
                public &= name.starts_with(RESERVED)
                    || table.is_some_and(|t| t.is_public() && super::files::check(t).is_ok());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .ok()?;
        if public { rows_of_public(plan, self.state).ok() } else { None }
    }

    fn pinned(&self, rows: RecordBatch) -> Option<Arc<dyn TableSource>> {
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).ok()?;
        Some(provider_as_source(Arc::new(table)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A COUNT(*) answered from a Parquet footer would be exact and free.
    #[test]
    fn statistics_answer_no_aggregate() {
        let state = session_state();
        let names: Vec<_> = state.physical_optimizers().iter().map(|r| r.name()).collect();
        assert!(!names.contains(&"aggregate_statistics"), "{names:?}");
        let all = PhysicalOptimizer::new().rules;
        assert!(all.iter().any(|r| r.name() == "aggregate_statistics"), "the rule has a new name");
    }
}
