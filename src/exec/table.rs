//! Tables whose rows are private: scans that are marked, and tell no statistics.
//!
//! In: any [`TableProvider`]. Out: one whose scans are wrapped in [`PrivateScanExec`], so that the finished
//! plan can be searched for them, and which reports no statistics: `COUNT(*)`, `MIN` and `MAX` would else be
//! answered from a file's footer without reading a row. What a file format can do with filters and
//! partitions still reaches it.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};

/// A private table, as the planner sees it.
pub struct PrivateTable {
    name: String,
    inner: Arc<dyn TableProvider>,
    rows_of_a_unit: u32,
}

/// Its rows are not shown, which a table in memory would.
impl fmt::Debug for PrivateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateTable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PrivateTable {
    /// Wraps the provider of the private table of this name.
    pub fn new(name: impl Into<String>, inner: Arc<dyn TableProvider>) -> Self {
        Self { name: name.into(), inner, rows_of_a_unit: 1 }
    }

    /// The same, of which a unit has so many rows by what is declared: larger tables stream by smaller ones in joins.
    #[must_use]
    pub fn with_rows_of_a_unit(mut self, rows: u32) -> Self {
        self.rows_of_a_unit = rows;
        self
    }
}

#[async_trait]
impl TableProvider for PrivateTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // A source may prune by a filter; it is never trusted to have applied one.
        let inner = self.inner.supports_filters_pushdown(filters)?;
        Ok(inner
            .into_iter()
            .map(|support| match support {
                TableProviderFilterPushDown::Unsupported => support,
                TableProviderFilterPushDown::Inexact | TableProviderFilterPushDown::Exact => {
                    TableProviderFilterPushDown::Inexact
                }
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = self.inner.scan(state, projection, filters, None).await?;
        let (table, rows_of_a_unit) = (self.name.clone(), self.rows_of_a_unit);
        Ok(Arc::new(PrivateScanExec { table, input, rows_of_a_unit }))
    }
}

/// The scan of a private table: passes rows on, and nothing that is known about them beforehand.
#[derive(Clone)]
pub struct PrivateScanExec {
    table: String,
    input: Arc<dyn ExecutionPlan>,
    rows_of_a_unit: u32,
}

/// Its rows are not shown, which a scan of a table in memory would.
impl fmt::Debug for PrivateScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateScanExec").field("table", &self.table).finish_non_exhaustive()
    }
}

impl PrivateScanExec {
    /// The same scan of another plan.
    fn of(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { input, ..self.clone() })
    }

    /// How many rows a unit has, by what is declared.
    pub(super) fn rows_of_a_unit(&self) -> u32 {
        self.rows_of_a_unit
    }

    /// The table that is scanned.
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl DisplayAs for PrivateScanExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateScanExec: {}", self.table)
    }
}

impl ExecutionPlan for PrivateScanExec {
    fn name(&self) -> &'static str {
        "PrivateScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(self.of(input)),
            _ => internal_err!("PrivateScanExec has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let input = self.input.repartitioned(target_partitions, config)?;
        Ok(input.map(|input| self.of(input)))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(child_pushdown_result))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::common::stats::Precision;
    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

    use super::*;
    use crate::exec::session_state;

    /// How many rows there are is a secret, also to the planner, whose plans are shown.
    #[tokio::test]
    async fn nothing_is_told_of_private_rows_beforehand() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
        let rows = Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap());
        let state = session_state();
        let known = |plan: &Arc<dyn ExecutionPlan>, partition| {
            let args = StatisticsArgs::new().with_partition(partition);
            StatisticsContext::new().compute(plan.as_ref(), &args).unwrap()
        };
        let public = rows.scan(&state, None, &[], None).await.unwrap();
        let private = PrivateTable::new("t", rows);
        assert!(private.statistics().is_none());
        let private = private.scan(&state, None, &[], None).await.unwrap();
        for partition in [None, Some(0)] {
            assert_eq!(known(&public, partition).num_rows, Precision::Exact(3));
            assert_eq!(*known(&private, partition), Statistics::new_unknown(&private.schema()));
        }
    }
}
