//! Tables of a server, as declarations and as tables of the planner.
//!
//! In: CREATE EXTERNAL TABLE … STORED AS POSTGRES. Out: a [`Table`] with its columns; and later a
//! [`TableProvider`] that asks the server for nothing before it runs.
//!
//! ```text
//! LOCATION 'postgresql://reader@db/clinic' OPTIONS (table 'ward.visits')     →  Source::Postgres
//! ```

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use sqlparser::ast as sql;

use super::check::OpenFiles;
use super::external_table::{Partition, column, refuse_reserved};
use super::postgres;
use super::server_location::{Address, Relation};
use crate::catalog::{Privacy, Source, Table};
use crate::error::Error;

/// The owner's declaration of a server's table.
#[derive(Debug)]
pub(crate) struct Served<'a> {
    pub(crate) name: &'a str,
    pub(crate) columns: &'a [(String, sql::DataType)],
    pub(crate) partitioned_by: &'a [Partition],
    pub(crate) location: &'a str,
    pub(crate) options: &'a [(String, String)],
}

/// Declares a server's table. Its columns are read from the server's catalog now, and stay fixed.
///
/// # Errors
/// [`Error::Catalog`] for a location with a password, a table that cannot be read, and columns of
/// types that are not supported.
pub(crate) async fn served(written: &Served<'_>) -> Result<Table, Error> {
    let Served { name, columns, partitioned_by, location, options } = *written;
    let address = Address::parse(location)?;
    if !partitioned_by.is_empty() {
        return Err(Error::catalog(
            "PARTITIONED BY is for folders whose names hold values: leave it out, since a server's table has all of its columns",
        ));
    }
    let mut relation = None;
    for (key, value) in options {
        match key.as_str() {
            "table" => relation = Some(Relation::parse(value)?),
            _ => {
                return Err(Error::catalog(format!(
                    "a table of a server has no option `{key}`: write OPTIONS (table 'schema.name')"
                )));
            }
        }
    }
    let relation = relation.unwrap_or_else(|| Relation::in_public(name));
    let columns = columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let columns = postgres::columns(name, columns, &address, &relation).await?;
    refuse_reserved(&columns)?;
    let Relation { schema, name: table } = relation;
    Ok(Table {
        name: name.to_owned(),
        source: Source::Postgres { location: location.to_owned(), schema, table },
        privacy: Privacy::Undeclared,
        columns,
    })
}

/// A declared table of a server.
pub(super) struct ServedTable {
    table: Arc<Table>,
    schema: SchemaRef,
    open: Arc<OpenFiles>,
}

impl ServedTable {
    pub(super) fn new(table: Arc<Table>, schema: SchemaRef, open: Arc<OpenFiles>) -> Self {
        Self { table, schema, open }
    }
}

/// Addresses must not appear in plans and messages.
impl fmt::Debug for ServedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedTable").field("name", &self.table.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for ServedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::common::Result<Vec<TableProviderFilterPushDown>> {
        // The server may compare values differently, so it filters nothing.
        Ok(vec![TableProviderFilterPushDown::Unsupported; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let (table, open) = (Arc::clone(&self.table), Arc::clone(&self.open));
        let rows = Arc::new(ServerRows { table, schema: Arc::clone(&schema), open });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![rows], None, [], false, None)?))
    }
}

/// The rows of a table, with some of its columns.
struct ServerRows {
    table: Arc<Table>,
    schema: SchemaRef,
    open: Arc<OpenFiles>,
}

impl fmt::Debug for ServerRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("name", &self.table.name).finish_non_exhaustive()
    }
}

impl PartitionStream for ServerRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.open.served(&self.table, &self.schema)
    }
}
