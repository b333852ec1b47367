//! What stands in for tables under a finished plan, and looks into it: rows that can be swapped,
//! rows that are seen.

use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use hushql_engine::analysis::Lookups;
use hushql_engine::bind::Bound;
use hushql_vault::catalog::Catalog;

/// Rows that a plan reads anew each time it runs.
#[derive(Debug, Clone)]
pub struct Swap {
    schema: SchemaRef,
    batches: Arc<RwLock<Vec<RecordBatch>>>,
}

impl Swap {
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema, batches: Arc::default() }
    }

    pub fn set(&self, batches: Vec<RecordBatch>) {
        *self.batches.write().unwrap() = batches;
    }

    pub fn table(&self) -> Arc<dyn TableProvider> {
        let partition = Arc::new(self.clone());
        Arc::new(StreamingTable::try_new(Arc::clone(&self.schema), vec![partition]).unwrap())
    }
}

impl PartitionStream for Swap {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.batches.read().unwrap().clone();
        let stream = futures::stream::iter(batches.into_iter().map(Ok));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// Passes rows on, and keeps them to be looked at.
#[derive(Debug, Clone)]
pub struct Tap {
    input: Arc<dyn ExecutionPlan>,
    seen: Seen,
}

/// The rows that went through a [`Tap`].
pub type Seen = Arc<Mutex<Vec<RecordBatch>>>;

impl Tap {
    pub fn new(input: Arc<dyn ExecutionPlan>, seen: &Seen) -> Self {
        Self { input, seen: Arc::clone(seen) }
    }
}

impl DisplayAs for Tap {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

impl ExecutionPlan for Tap {
    fn name(&self) -> &'static str {
        "Tap"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        Ok(Arc::new(Self { input: children.remove(0), seen: Arc::clone(&self.seen) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let seen = Arc::clone(&self.seen);
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        let rows = rows.inspect(move |batch| {
            if let Ok(batch) = batch {
                seen.lock().unwrap().push(batch.clone());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The columns of public tables that a query's clauses name, out of one batch for each table.
pub fn looked_up(
    bound: &Bound,
    catalog: &Catalog,
    rows: impl Fn(&str) -> RecordBatch,
) -> Result<Lookups, hushql::Refusal> {
    let mut lookups = Lookups::default();
    for lookup in Lookups::needed(bound.releases(), catalog)? {
        let rows = rows(&lookup.table);
        let column = |name: &String| Arc::clone(rows.column_by_name(name).unwrap());
        let columns = lookup.columns.iter().map(column).collect();
        lookups.insert(lookup, columns);
    }
    Ok(lookups)
}
