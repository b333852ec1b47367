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
#[derive(Debug)]
pub struct PrivateTable {
    name: String,
    inner: Arc<dyn TableProvider>,
}

impl PrivateTable {
    /// Wraps the provider of the private table of this name.
    pub fn new(name: impl Into<String>, inner: Arc<dyn TableProvider>) -> Self {
        Self { name: name.into(), inner }
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
        Ok(Arc::new(PrivateScanExec::new(self.name.clone(), input)))
    }
}

/// The scan of a private table: passes rows on, and nothing that is known about them beforehand.
#[derive(Debug, Clone)]
pub struct PrivateScanExec {
    table: String,
    input: Arc<dyn ExecutionPlan>,
}

impl PrivateScanExec {
    fn new(table: String, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { table, input }
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
            (Some(input), true) => Ok(Arc::new(Self::new(self.table.clone(), input))),
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
        Ok(input.map(|input| -> Arc<dyn ExecutionPlan> {
            Arc::new(Self::new(self.table.clone(), input))
        }))
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
