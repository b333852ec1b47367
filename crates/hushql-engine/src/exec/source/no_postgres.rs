//! PostgreSQL servers in a program that was built without them: nothing is read.
//!
//! In: a declaration, or a declared table. Out: an error. The feature `postgres` of the crate
//! builds `postgres` instead.

use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;

use super::server_location::{Address, Relation};
use crate::catalog::{Column, Table};
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

/// The command that builds it in.
const BUILD: &str = "cargo build --release --features postgres";

/// The snapshots of one statement; none exists.
#[derive(Debug, Default)]
pub(super) struct Servers(());

impl Servers {
    /// Whether the statement has asked a server for anything: never.
    #[allow(clippy::unused_self, reason = "it has the shape of what is built in its place")]
    pub(super) fn are_used(&self) -> bool {
        false
    }

    /// Refuses every table.
    ///
    /// # Errors
    /// Always.
    pub(super) fn check(&self, table: &Table) -> Result<(), Error> {
        let message =
            format!("the table {} is on a server, which this program cannot read", table.name);
        let write = format!("the owner starts a program that is built with `{BUILD}`");
        Err(Refusal::new(Reason::ChangedFile, &table.name, message, write).into())
    }

    /// Fails always.
    pub(super) fn rows(&self, _table: &Table, schema: &SchemaRef) -> SendableRecordBatchStream {
        let failed = stream::once(async { Err(crate::grid::failed()) });
        Box::pin(RecordBatchStreamAdapter::new(SchemaRef::clone(schema), failed))
    }
}

/// Refuses every table.
///
/// # Errors
/// Always.
#[allow(clippy::unused_async, reason = "it has the shape of what is built in its place")]
pub(super) async fn columns(
    _name: &str,
    _written: Vec<Column>,
    _address: &Address,
    _relation: &Relation,
) -> Result<Vec<Column>, Error> {
    Err(Error::catalog(format!(
        "this program was built without PostgreSQL: build it with `{BUILD}`"
    )))
}
