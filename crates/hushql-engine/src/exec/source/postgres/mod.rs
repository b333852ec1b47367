//! Tables of a PostgreSQL server.
//!
//! In: an address and a name, as the owner declares them. Out: a table whose columns come from the
//! server's catalog, and its rows when a statement reads them. All scans of a statement see one
//! snapshot. No row is read before the charge, and no message tells what went wrong after it.
//!
//! ```text
//! declared     id BIGINT, fee DECIMAL(9, 2)             from the catalog, or as the declaration writes them
//! checked      the same columns of the same types       before the charge, in the transaction that reads
//! read         COPY (SELECT id, fee FROM …) TO STDOUT   after it
//! ```

mod connect;
mod decode;
mod server_types;
mod snapshot;
mod tls;

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result as DataResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use tokio::sync::{mpsc, oneshot};

use self::connect::{TaskGuard, Trouble};
use self::decode::Decoder;
use self::server_types::{ServerColumn, ServerColumnType, WireEncoding};
use self::snapshot::{ReadColumn, Snapshot};
use super::file_columns::schema_of_columns;
use super::server_location::{Address, Relation, place};
use crate::catalog::{Column, Table, quoted};
use crate::error::Error;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// The snapshots of one statement, by database.
#[derive(Debug, Default)]
pub(super) struct Servers(Mutex<BTreeMap<Address, Arc<Snapshot>>>);

impl Servers {
    fn snapshot(&self, address: Address) -> Arc<Snapshot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot =
            known.entry(address).or_insert_with_key(|at| Arc::new(Snapshot::new(at.clone())));
        Arc::clone(snapshot)
    }

    /// Whether the statement has asked a server for anything.
    pub(super) fn are_used(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Checks that a table has the declared columns, and locks it until the statement ends. Reads
    /// no row.
    ///
    /// # Errors
    /// A refusal that says what is wrong, but not where the table is.
    pub(super) fn check(&self, table: &Table) -> Result<(), Error> {
        let (address, relation) = place(&table.source)?;
        let snapshot = self.snapshot(address);
        let (done, answer) = sync_channel(1);
        let _task = TaskGuard::spawn(async move {
            // The receiver may be gone.
            let _ = done.send(snapshot.columns(&relation).await);
        })
        .map_err(|trouble| refused(table, trouble))?;
        let found = answer.recv().unwrap_or(Err(Trouble::Failed));
        let found = found.map_err(|trouble| refused(table, trouble))?;
        match read_columns(&found, &table.columns)? {
            Some(_) => Ok(()),
            None => Err(refusal(
                table,
                "has other columns on its server than were declared",
                "the owner declares it anew, or gives the columns back their names and types",
            )),
        }
    }

    /// The rows of a table, with the columns of a schema.
    pub(super) fn rows(&self, table: &Table, schema: &SchemaRef) -> SendableRecordBatchStream {
        let rows = self.reading(table, schema);
        let rows = stream::try_unfold(rows, |mut rows| async move {
            let next = match &mut rows {
                Ok(rows) => rows.next().await?,
                Err(_) => return Err(crate::grid::failed()),
            };
            Ok(next.map(|batch| (batch, rows)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows))
    }

    fn reading(&self, table: &Table, schema: &SchemaRef) -> Result<CopyRows, Error> {
        let (address, relation) = place(&table.source)?;
        let snapshot = self.snapshot(address);
        let column = |name: &str| table.column(name).cloned().ok_or(Error::Internal);
        let wanted = schema.fields().iter().map(|field| column(field.name()));
        let (wanted, declared) = (wanted.collect::<Result<Vec<_>, _>>()?, table.columns.clone());
        let (to, blocks) = mpsc::channel(2);
        let (tell, kinds) = oneshot::channel();
        let task = TaskGuard::spawn(async move {
            let Ok(found) = snapshot.columns(&relation).await else { return };
            // Compares all declared columns, even if the scan reads only some.
            let is_declared = read_columns(&found, &declared).is_ok_and(|all| all.is_some());
            let Ok(Some(read)) = read_columns(&found, &wanted) else { return };
            let kinds: Vec<WireEncoding> = read.iter().map(|column| column.kind).collect();
            if is_declared && tell.send(kinds).is_ok() {
                // If it fails, the end of the format is missing, and the decoder notices.
                let _ = snapshot.copy(&relation, &read, &to).await;
            }
        })
        .map_err(|_| Error::Execution)?;
        Ok(CopyRows {
            schema: Arc::clone(schema),
            kinds: Some(kinds),
            blocks,
            decoder: None,
            _task: task,
        })
    }
}

/// The rows of one COPY.
struct CopyRows {
    schema: SchemaRef,
    /// The encodings of the columns, as soon as they are known.
    kinds: Option<oneshot::Receiver<Vec<WireEncoding>>>,
    blocks: mpsc::Receiver<Vec<u8>>,
    decoder: Option<Decoder>,
    _task: TaskGuard,
}

impl CopyRows {
    /// The next rows; `None` after the last.
    ///
    /// # Errors
    /// The same error for every cause.
    async fn next(&mut self) -> DataResult<Option<RecordBatch>> {
        if let Some(kinds) = self.kinds.take() {
            let kinds = kinds.await.map_err(|_| crate::grid::failed())?;
            self.decoder = Some(Decoder::new(Arc::clone(&self.schema), &kinds));
        }
        let Some(decoder) = &mut self.decoder else { return Ok(None) };
        loop {
            if let Some(batch) = decoder.next().map_err(|_| crate::grid::failed())? {
                return Ok(Some(batch));
            }
            match self.blocks.recv().await {
                Some(block) => decoder.push(&block),
                None => {
                    let last = decoder.finish().map_err(|_| crate::grid::failed())?;
                    self.decoder = None;
                    return Ok(last);
                }
            }
        }
    }
}

/// The encodings of declared columns; `None` if the server has other columns.
fn read_columns(
    found: &[ServerColumn],
    declared: &[Column],
) -> Result<Option<Vec<ReadColumn>>, Error> {
    let schema = schema_of_columns(declared)?;
    let read = schema.fields().iter().map(|field| {
        let column = found.iter().find(|column| column.name == *field.name())?;
        let kind = column.found.read_as(field.data_type())?;
        Some(ReadColumn { name: column.name.clone(), kind })
    });
    Ok(read.collect())
}

/// The columns of a server's table: those in the declaration, or all.
///
/// # Errors
/// [`Error::Catalog`] if the table or one of these columns cannot be read.
pub(super) async fn columns(
    name: &str,
    written: Vec<Column>,
    address: &Address,
    relation: &Relation,
) -> Result<Vec<Column>, Error> {
    let snapshot = Snapshot::new(address.clone());
    let of = relation.clone();
    let (done, answer) = oneshot::channel();
    let _task = TaskGuard::spawn(async move {
        // The receiver may be gone.
        let _ = done.send(snapshot.columns(&of).await);
    });
    let found = answer.await.unwrap_or(Err(Trouble::Failed));
    let found = found.map_err(|trouble| Error::catalog(told(trouble, address, relation)))?;
    match written.is_empty() {
        true => all(name, &found),
        false => given(written, &found),
    }
}

/// The type with which a column is declared, or a type that the owner may write for it.
fn proposed(found: ServerColumnType) -> Option<DataType> {
    match found {
        ServerColumnType::Readable(kind) => Some(kind.data_type()),
        ServerColumnType::Unconstrained => Some(DataType::Decimal128(18, 2)),
        ServerColumnType::Computed | ServerColumnType::Unreadable => None,
    }
}

fn all(name: &str, found: &[ServerColumn]) -> Result<Vec<Column>, Error> {
    if let Some(column) = found.iter().find(|column| column.name.chars().any(char::is_control)) {
        return Err(Error::catalog(format!(
            "the name of a column, {:?}, holds a control character: rename it on the server, or write the other columns as CREATE EXTERNAL TABLE {} (column TYPE, …) STORED AS POSTGRES …",
            column.name,
            quoted(name)
        )));
    }
    let columns: Option<Vec<Column>> = found
        .iter()
        .map(|column| match column.found {
            ServerColumnType::Readable(kind) => {
                let zone = column.shown.contains("with time zone").then(|| "UTC".to_owned());
                Some(Column { zone, ..declared(&column.name, &kind.data_type()) })
            }
            ServerColumnType::Unconstrained
            | ServerColumnType::Computed
            | ServerColumnType::Unreadable => None,
        })
        .collect();
    match columns {
        Some(columns) if columns.is_empty() => Err(Error::catalog("the table has no columns")),
        Some(columns) => Ok(columns),
        None => Err(unreadable(name, found)),
    }
}

fn declared(name: &str, data_type: &DataType) -> Column {
    let (name, data_type) = (name.to_owned(), data_type.to_string());
    Column { name, data_type, nullable: true, domain: None, zone: None }
}

/// Why a column that is generated when it is read, as in PostgreSQL 18, is not.
const COMPUTED: &str = "the server computes it at each read, and may fail on the row of one person";

/// Says which columns cannot be read, and what to write.
fn unreadable(name: &str, found: &[ServerColumn]) -> Error {
    let of = |wanted: fn(ServerColumnType) -> bool| {
        let columns = found.iter().filter(|column| wanted(column.found));
        let columns = columns.map(|column| format!("{} {}", quoted(&column.name), column.shown));
        columns.collect::<Vec<_>>().join(", ")
    };
    let numbers = of(|found| matches!(found, ServerColumnType::Unconstrained));
    let computed = of(|found| matches!(found, ServerColumnType::Computed));
    let others = of(|found| matches!(found, ServerColumnType::Unreadable));
    let mut said = Vec::new();
    if !numbers.is_empty() {
        said.push(format!(
            "{numbers}: a number needs a precision of at most 38 digits and a scale, so write the digits that you want; values are rounded to them, and larger ones are NULL"
        ));
    }
    if !computed.is_empty() {
        said.push(format!("{computed}: {COMPUTED}; leave the column out, or store it"));
    }
    if !others.is_empty() {
        said.push(format!(
            "{others}: HushQL has no such type; leave the column out, or read a view that converts it, as in CREATE VIEW … AS SELECT …, column::text"
        ));
    }
    let columns: Vec<String> = found
        .iter()
        .filter_map(|column| {
            Some(format!("{} {}", quoted(&column.name), sql_type(&proposed(column.found)?)))
        })
        .collect();
    Error::catalog(format!(
        "not every column can be read ({}): write CREATE EXTERNAL TABLE {} ({}) STORED AS POSTGRES …",
        said.join("; "),
        quoted(name),
        columns.join(", ")
    ))
}

/// The declared columns, if the server has them.
fn given(written: Vec<Column>, found: &[ServerColumn]) -> Result<Vec<Column>, Error> {
    let schema = schema_of_columns(&written)?;
    for field in schema.fields() {
        let name = quoted(field.name());
        let Some(column) = found.iter().find(|column| column.name == *field.name()) else {
            let names: Vec<String> = found.iter().map(|column| quoted(&column.name)).collect();
            return Err(Error::catalog(format!(
                "the server's table has no column {name}; it has {}",
                names.join(", ")
            )));
        };
        if column.found.read_as(field.data_type()).is_some() {
            continue;
        }
        return Err(Error::catalog(match (column.found, proposed(column.found)) {
            (ServerColumnType::Computed, _) => format!(
                "the server's column {name} is not stored: {COMPUTED}; leave it out, or store it, as GENERATED ALWAYS AS (…) STORED"
            ),
            (_, Some(proposed)) => format!(
                "the server's column {name} is {}, not {}: write {name} {}",
                column.shown,
                sql_type(field.data_type()),
                sql_type(&proposed)
            ),
            (_, None) => format!(
                "the server's column {name} is {}, a type that HushQL does not have: leave it out, or read a view that converts it, as in CREATE VIEW … AS SELECT …, {name}::text",
                column.shown
            ),
        }));
    }
    Ok(written)
}

/// Describes the trouble to the owner who declares the table.
fn told(trouble: Trouble, address: &Address, relation: &Relation) -> String {
    let Address { host, port, database, .. } = address;
    match trouble {
        Trouble::Unreachable => format!("no server answers at `{host}`, port {port}"),
        Trouble::Busy => format!("the server at `{host}` takes no more connections now"),
        Trouble::NoUser => {
            "no user is named: write LOCATION 'postgresql://user@host:5432/database', or set PGUSER"
                .to_owned()
        }
        Trouble::Refused => format!(
            "the server at `{host}` does not accept the user or the password: give the program the password in PGPASSWORD, or in the file that PGPASSFILE names (else ~/.pgpass), which only you may read (chmod 600)"
        ),
        Trouble::NoDatabase => format!("the server at `{host}` has no database `{database}`"),
        Trouble::Untrusted => format!(
            "the server at `{host}` shows no certificate for this name that is trusted here: name the file of its authority in PGSSLROOTCERT, or, where nobody can read along, write ?sslmode=disable behind the database"
        ),
        Trouble::Old => "the server is older than PostgreSQL 11".to_owned(),
        Trouble::Encoding => format!(
            "the database `{database}` does not keep its texts in UTF-8, so reading some of them would fail: copy its table into a database WITH ENCODING 'UTF8'"
        ),
        Trouble::NoTable => format!(
            "the database `{database}` has no table {relation}: write OPTIONS (table 'schema.name')"
        ),
        Trouble::NotATable => format!("{relation} is not a table or a view"),
        Trouble::Foreign => format!(
            "{relation}, or what it is made of, is on another server, which has no snapshot in common with this one: name that server as the LOCATION"
        ),
        Trouble::NoRight => {
            format!(
                "the user may not read {relation}: on the server, write GRANT SELECT ON {relation} TO …"
            )
        }
        Trouble::Locked => format!("{relation} is locked by somebody who changes it: try again"),
        Trouble::Failed => {
            format!("the server at `{host}` could not say which columns {relation} has")
        }
    }
}

fn refusal(table: &Table, what: &str, write: &str) -> Error {
    let message = format!("the table {} {what}", table.name);
    Refusal::new(Reason::ChangedFile, &table.name, message, write).into()
}

/// Describes the trouble with a declared table to everyone, without its address and without any
/// text of the server.
fn refused(table: &Table, trouble: Trouble) -> Error {
    let (what, write) = match trouble {
        Trouble::Unreachable | Trouble::Busy => (
            "is on a server that does not answer",
            "try again, or the owner starts the server, or declares the table anew with its address",
        ),
        Trouble::NoUser | Trouble::Refused | Trouble::NoDatabase => (
            "is on a server that does not let the program in",
            "the owner starts the program with the present PGUSER and PGPASSWORD, or PGPASSFILE",
        ),
        Trouble::Untrusted => (
            "is on a server whose certificate is not trusted",
            "the owner starts the program with PGSSLROOTCERT, the file of the authority",
        ),
        Trouble::Old | Trouble::Encoding | Trouble::NotATable | Trouble::Foreign => {
            ("is on a server from which it cannot be read", "the owner declares it anew")
        }
        Trouble::NoTable => ("is no longer on its server", "the owner declares it anew"),
        Trouble::NoRight => (
            "is on a server that does not let the program read it",
            "the owner grants SELECT on it to the user of its location",
        ),
        Trouble::Locked => ("is locked by somebody who changes it", "try again"),
        Trouble::Failed => ("cannot be read from its server", "try again"),
    };
    refusal(table, what, write)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column that PostgreSQL 18 computes at each read is of a type that exists here.
    #[test]
    fn computed_columns_are_refused_for_what_they_are() {
        let column = |name: &str, found| ServerColumn {
            name: name.to_owned(),
            found,
            shown: "integer".to_owned(),
        };
        let found = [
            column("id", ServerColumnType::Readable(WireEncoding::Int4)),
            column("twice", ServerColumnType::Computed),
        ];
        let refused = all("t", &found).unwrap_err().to_string();
        for words in ["(twice integer: the server computes it at each read", "t (id INT) STORED AS"]
        {
            assert!(refused.contains(words), "{refused}");
        }
        let refused = given(vec![declared("twice", &DataType::Int32)], &found);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("column twice is not stored"), "{refused}");
        assert!(!refused.contains("a type that HushQL does not have"), "{refused}");
        assert_eq!(given(vec![declared("id", &DataType::Int32)], &found).unwrap().len(), 1);
    }
}
