//! Rows that no query gets, because nobody verified that they are what was declared.
//!
//! In: a private table with a single file that may change, whose footer differs from the
//! declaration in a way that one person's value can cause. Out: a scan that fails when it runs, so
//! behind the charge, and that remembers the table, so that it is refused until its next
//! declaration.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream;

use super::check::OpenFiles;
use crate::catalog::Table;

/// The rows of such a table.
pub(super) struct UnverifiedRows {
    table: Arc<Table>,
    schema: SchemaRef,
    open: Arc<OpenFiles>,
}

/// Names must not appear in plans and messages.
impl fmt::Debug for UnverifiedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnverifiedRows").finish_non_exhaustive()
    }
}

impl UnverifiedRows {
    pub(super) fn new(table: Arc<Table>, schema: SchemaRef, open: Arc<OpenFiles>) -> Self {
        Self { table, schema, open }
    }

    /// A scan of these columns.
    ///
    /// # Errors
    /// DataFusion's, for columns that do not exist.
    pub(super) fn scan(self, projection: Option<&Vec<usize>>) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::clone(&self.schema);
        let rows: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(self)];
        Ok(Arc::new(StreamingTableExec::try_new(schema, rows, projection, [], false, None)?))
    }
}

impl PartitionStream for UnverifiedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.open.found_damaged(&self.table);
        let failed = stream::once(async { Err(crate::grid::failed()) });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), failed))
    }
}
