//! A table whose rows can be swapped under a finished plan.

use std::sync::{Arc, RwLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

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
