//! Released tables: the public plan of a query is planned over them before they have rows.
//!
//! In: a schema, and later, once, the rows that a private aggregate released. Out: a table whose
//! scan never waits: it yields the given rows, or fails. So the verified plan from before the
//! charge runs unchanged after it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};

/// The table that a private aggregate releases.
#[derive(Clone)]
pub(crate) struct ReleasedTable {
    schema: SchemaRef,
    /// The number of rows, if it is known before the release.
    expected: Option<usize>,
    rows: Arc<OnceLock<RecordBatch>>,
}

/// Rows are left out, so that a plan prints the same text before and after the release.
impl fmt::Debug for ReleasedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReleasedTable").finish_non_exhaustive()
    }
}

impl ReleasedTable {
    /// A table without its rows; `expected` is the number of rows, if known.
    pub(crate) fn new(schema: SchemaRef, expected: Option<u64>) -> Self {
        let expected = expected.and_then(|rows| usize::try_from(rows).ok());
        Self { schema, expected, rows: Arc::default() }
    }

    pub(crate) fn columns(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Gives the rows to every scan of this table, whether it was planned before or after.
    ///
    /// # Errors
    /// If the rows have other columns, or rows were given before.
    pub(crate) fn give(&self, rows: &RecordBatch) -> Result<()> {
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), rows.columns().to_vec())?;
        match self.rows.set(rows) {
            Ok(()) => Ok(()),
            Err(_) => internal_err!("a table is released once"),
        }
    }
}

#[async_trait]
impl TableProvider for ReleasedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        // One partition, because the answer keeps the order of ranks.
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(ReleasedExec {
            table: self.clone(),
            projection: projection.cloned(),
            properties: Arc::new(properties),
        }))
    }
}

/// The scan of a released table.
#[derive(Debug)]
struct ReleasedExec {
    table: ReleasedTable,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for ReleasedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleasedExec")
    }
}

impl ExecutionPlan for ReleasedExec {
    fn name(&self) -> &'static str {
        "ReleasedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("ReleasedExec has no input") }
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
        if partition != 0 {
            return internal_err!("a released table has one partition");
        }
        let Some(rows) = self.table.rows.get() else {
            return internal_err!("a released table is read after it was released");
        };
        let most = context.session_config().batch_size();
        let batches = (0..rows.num_rows()).step_by(most);
        let batches = batches.map(|from| rows.slice(from, most.min(rows.num_rows() - from)));
        let schema = Arc::clone(self.properties.eq_properties.schema());
        let stream = MemoryStream::try_new(batches.collect(), schema, self.projection.clone())?;
        Ok(Box::pin(stream))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut known = Statistics::new_unknown(&self.schema());
        if let Some(rows) = self.table.expected {
            known.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(known))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::physical_plan::collect;

    use super::*;
    use crate::exec::session_state;

    fn schema() -> SchemaRef {
        let field = |name| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(vec![field("a"), field("b")]))
    }

    fn rows(number: i64) -> RecordBatch {
        let column =
            |from| -> ArrayRef { Arc::new(Int64Array::from_iter_values(from..from + number)) };
        RecordBatch::try_new(schema(), vec![column(0), column(100)]).unwrap()
    }

    /// A released table may be read in several places, and the release changes nothing else in a
    /// plan.
    #[tokio::test]
    async fn every_scan_yields_the_rows_in_their_order_once_they_are_there() {
        let state = session_state();
        let table = ReleasedTable::new(schema(), None);
        let scan_of_b = table.scan(&state, Some(&vec![1]), &[], None).await.unwrap();
        let whole = table.scan(&state, None, &[], None).await.unwrap();
        assert!(
            collect(Arc::clone(&scan_of_b), state.task_ctx()).await.is_err(),
            "not released yet"
        );

        table.give(&rows(20_000)).unwrap();
        let batches = collect(scan_of_b, state.task_ctx()).await.unwrap();
        let values = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values());
        assert!(values.copied().eq(100..20_100));
        assert!(batches.len() > 1, "large tables come in pieces");
        let batches = collect(whole, state.task_ctx()).await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 20_000);
        assert!(batches.iter().all(|batch| batch.schema() == schema()));
    }

    #[test]
    fn a_table_is_released_once_and_as_it_was_planned() {
        let table = ReleasedTable::new(schema(), Some(3));
        assert!(table.give(&rows(3).project(&[0]).unwrap()).is_err());
        table.give(&rows(3)).unwrap();
        assert!(table.give(&rows(3)).is_err());
        assert_eq!(format!("{table:?}"), "ReleasedTable { .. }");
    }
}
