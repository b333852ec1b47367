//! Tables of SQLite files.
//!
//! In: an open file and the name of a table in it. Out: the table's columns, and batches of its
//! rows. The file is opened for reading only, and as one that nobody changes: no lock is taken and
//! nothing is written beside it. Changes that are beside the file and not yet in it are refused. No
//! text of a user reaches SQLite: the statements here name one table and its columns. A value is
//! read as a cell of a text file, since SQLite lets any value stand in any column.
//!
//! ```text
//! CREATE TABLE visits (id INTEGER, day DATE, fee REAL)     →     id BIGINT, day DATE, fee DOUBLE
//! (7, '2024-01-05', 'unknown')                             →     7, 2024-01-05, NULL
//! ```

use std::fmt;
use std::fs;
use std::io::Read;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::Result as DataResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::column_type::column_type;
use super::fitting_types::CellCounts;
use super::lenient::{CellValue, TextRows};
use super::open_files::OpenFile;
use crate::catalog::{Column, Source, Table, quoted};
use crate::error::Error;
use crate::sql_type::sql_type;

/// The option that names the table in the file.
pub(super) const TABLE: &str = "table";

/// How an SQLite file begins.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Where the number of the program is that wrote it, and the number of a vault.
const APPLICATION: std::ops::Range<usize> = 68..72;
const VAULT: &[u8] = b"Hush";

/// Why a table cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The file is no SQLite file.
    NoDatabase,
    /// The file is a vault.
    Vault,
    /// Changes lie beside the file.
    Unsaved,
    /// Another file has its name now.
    Replaced,
    /// The file has no such table.
    NoTable,
    /// It is a view, or is computed by a module.
    NotATable,
    /// Its bytes are no database that SQLite can read.
    Damaged,
    /// It cannot be read for another reason.
    Failed,
}

impl From<rusqlite::Error> for Trouble {
    /// The text of SQLite may hold names and values.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged,
            Some(_) | None => Self::Failed,
        }
    }
}

/// A column of a table in a file.
struct StoredColumn {
    name: String,
    /// The type as its CREATE TABLE has it.
    written: String,
    /// Whether SQLite computes its values.
    is_computed: bool,
}

/// Opens the database in a file.
fn connect(held: &OpenFile) -> Result<Connection, Trouble> {
    let path = held.path().ok_or(Trouble::Failed)?;
    has_no_changes_beside(path)?;
    let mut uri = String::from("file:");
    for byte in path.bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    // What the file says is no program.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.execute_batch("PRAGMA query_only = 1; PRAGMA cell_size_check = 1;")?;
    // SQLite opened the file by its name.
    match held.is_at(path) {
        true => Ok(connection),
        false => Err(Trouble::Replaced),
    }
}

/// Changes of a transaction that is not yet in the file are beside it.
fn has_no_changes_beside(path: &str) -> Result<(), Trouble> {
    for end in ["-wal", "-journal"] {
        if fs::metadata(format!("{path}{end}")).is_ok_and(|beside| beside.len() > 0) {
            return Err(Trouble::Unsaved);
        }
    }
    Ok(())
}

/// Checks the beginning of a file, and opens it.
fn database(held: &Arc<OpenFile>) -> Result<Connection, Trouble> {
    let mut header = Vec::new();
    held.reader().take(100).read_to_end(&mut header).map_err(|_| Trouble::Failed)?;
    if !header.starts_with(MAGIC) {
        return Err(Trouble::NoDatabase);
    }
    if header.get(APPLICATION) == Some(VAULT) {
        return Err(Trouble::Vault);
    }
    connect(held)
}

/// The name of a table as its file has it, and its columns.
fn stored(connection: &Connection, table: &str) -> Result<(String, Vec<StoredColumn>), Trouble> {
    let found: Option<(String, String, String)> = connection
        .query_row(
            "SELECT name, type, coalesce(sql, '') FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE",
            [table],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    let (name, kind, created) = found.ok_or(Trouble::NoTable)?;
    let is_virtual =
        created.trim_start().get(..14).is_some_and(|s| s.eq_ignore_ascii_case("CREATE VIRTUAL"));
    if kind != "table" || is_virtual || name.to_ascii_lowercase().starts_with("sqlite_") {
        return Err(Trouble::NotATable);
    }
    let mut columns = connection
        .prepare("SELECT name, coalesce(type, ''), hidden FROM pragma_table_xinfo(?1, 'main')")?;
    let columns = columns.query_map([&name], |row| {
        let hidden: i64 = row.get(2)?;
        Ok(StoredColumn { name: row.get(0)?, written: row.get(1)?, is_computed: hidden != 0 })
    })?;
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok((name, columns))
}

/// The type as which a column is read that its owner does not declare. Whole numbers of SQLite have
/// 64 bits, and its floats, too.
fn read_as(column: &StoredColumn) -> Option<DataType> {
    let written = column.written.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| written.contains(word));
    if column.is_computed {
        return None;
    }
    if has(&["INT"]) && !has(&["POINT", "INTERVAL"]) {
        return Some(DataType::Int64);
    }
    if has(&["REAL", "FLOA", "DOUB"]) {
        return Some(DataType::Float64);
    }
    if has(&["CHAR", "CLOB", "TEXT"]) {
        return Some(DataType::Utf8);
    }
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect).try_with_sql(&column.written).ok()?;
    column_type(&column.name, &parser.parse_data_type().ok()?).ok()
}

/// The columns of a new table, and the name that its file has for it.
///
/// # Errors
/// [`Error::Catalog`] if the table or one of these columns cannot be read.
pub(super) fn columns(
    held: &Arc<OpenFile>,
    name: &str,
    table: &str,
    written: Vec<Column>,
    shown: &str,
) -> Result<(String, Vec<Column>), Error> {
    let found = database(held).and_then(|connection| stored(&connection, table));
    let (stored_name, found) = found.map_err(|trouble| told(trouble, held, table, shown))?;
    let columns = match written.is_empty() {
        true => all(name, &found)?,
        false => given(written, &found)?,
    };
    Ok((stored_name, columns))
}

fn all(name: &str, found: &[StoredColumn]) -> Result<Vec<Column>, Error> {
    let declared = |(column, data_type): (&StoredColumn, DataType)| Column {
        name: column.name.clone(),
        data_type: data_type.to_string(),
        nullable: true,
        domain: None,
        zone: None,
    };
    let is_named = |column: &StoredColumn| !column.name.chars().any(char::is_control);
    let read: Vec<(&StoredColumn, DataType)> = found
        .iter()
        .filter(|column| is_named(column))
        .filter_map(|column| Some((column, read_as(column)?)))
        .collect();
    if read.len() == found.len() && !read.is_empty() {
        return Ok(read.into_iter().map(declared).collect());
    }
    let others = found.iter().filter(|column| !is_named(column) || read_as(column).is_none());
    let others: Vec<String> = others
        .map(|column| match (column.is_computed, column.written.as_str()) {
            (true, _) => format!("{} is computed by SQLite on each read", quoted(&column.name)),
            (false, "") => format!("{} has no type", quoted(&column.name)),
            (false, written) => format!("{} is {written}", quoted(&column.name)),
        })
        .collect();
    let columns: Vec<String> = read
        .iter()
        .map(|(column, data_type)| format!("{} {}", quoted(&column.name), sql_type(data_type)))
        .collect();
    Err(Error::catalog(format!(
        "not every column can be read as it is ({}): name those that are read, with their types, as in CREATE EXTERNAL TABLE {} ({}) STORED AS SQLITE …",
        others.join(", "),
        quoted(name),
        columns.join(", ")
    )))
}

/// The declared columns, if the table has them. Any type reads any column.
fn given(written: Vec<Column>, found: &[StoredColumn]) -> Result<Vec<Column>, Error> {
    for column in &written {
        let name = quoted(&column.name);
        match found.iter().find(|found| found.name == column.name) {
            Some(found) if !found.is_computed => {}
            Some(_) => {
                return Err(Error::catalog(format!(
                    "{name} is computed by SQLite on each read: leave it out"
                )));
            }
            None => {
                let names: Vec<String> = found.iter().map(|found| quoted(&found.name)).collect();
                return Err(Error::catalog(format!(
                    "the table has no column {name}; it has {}",
                    names.join(", ")
                )));
            }
        }
    }
    Ok(written)
}

/// What the table in a file lacks; `None` if it has the declared columns. No row is read.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn missing(held: &Arc<OpenFile>, table: &Table) -> Result<Option<String>, Trouble> {
    let (_, found) = stored(&database(held)?, table_of(table).ok_or(Trouble::Failed)?)?;
    let is_there =
        |column: &Column| found.iter().any(|found| found.name == column.name && !found.is_computed);
    let missing = table.columns.iter().filter(|column| !is_there(column));
    let missing: Vec<String> = missing.map(|column| quoted(&column.name)).collect();
    Ok((!missing.is_empty()).then(|| format!("no {}", missing.join(", "))))
}

/// The name of the table in its file.
pub(super) fn table_of(table: &Table) -> Option<&str> {
    match &table.source {
        Source::File { options, .. } => options.get(TABLE).map(String::as_str),
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => None,
    }
}

/// Describes the trouble to the owner who declares the table.
fn told(trouble: Trouble, held: &Arc<OpenFile>, table: &str, shown: &str) -> Error {
    let table = quoted(table);
    Error::catalog(match trouble {
        Trouble::NoDatabase => format!("{shown} is not an SQLITE file"),
        Trouble::Vault => format!("{shown} is a vault, whose tables are no data"),
        Trouble::Unsaved => format!(
            "{shown} has changes that are beside it and not yet in it (in a file that ends with -wal or -journal): close the programs that write to it, or run sqlite3 {} 'PRAGMA wal_checkpoint(TRUNCATE)'",
            held.path().unwrap_or_default()
        ),
        Trouble::Replaced => format!("{shown} was replaced while it was opened: try again"),
        Trouble::NoTable => {
            let names = names(held).unwrap_or_default();
            format!(
                "{shown} has no table {table}: write OPTIONS ('table' 'name'){}",
                if names.is_empty() {
                    String::new()
                } else {
                    format!("; it has {}", names.join(", "))
                }
            )
        }
        Trouble::NotATable => format!(
            "{table} of {shown} is a view or a virtual table, which SQLite computes: write its rows into a table, as in CREATE TABLE rows_of_it AS SELECT * FROM {table}"
        ),
        Trouble::Damaged | Trouble::Failed => format!("{shown} cannot be read as an SQLITE file"),
    })
}

/// The tables of a file.
fn names(held: &Arc<OpenFile>) -> Result<Vec<String>, Trouble> {
    let connection = database(held)?;
    let mut names = connection.prepare(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name LIMIT 20",
    )?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<Result<Vec<_>, _>>()?;
    Ok(names.iter().map(|name| quoted(name)).collect())
}

/// The rows of a table, for a scan.
pub(super) struct SqliteRows {
    held: Arc<OpenFile>,
    table: String,
    schema: SchemaRef,
}

impl SqliteRows {
    pub(super) fn new(held: Arc<OpenFile>, table: String, schema: SchemaRef) -> Self {
        Self { held, table, schema }
    }
}

/// Names must not appear in plans and messages.
impl fmt::Debug for SqliteRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteRows").finish_non_exhaustive()
    }
}

impl PartitionStream for SqliteRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let output = builder.tx();
        let (held, table) = (Arc::clone(&self.held), self.table.clone());
        let schema = Arc::clone(&self.schema);
        builder.spawn_blocking(move || {
            let mut rows = TextRows::new(&schema, &Default::default());
            let mut emit = |batch: RecordBatch| output.blocking_send(Ok(batch)).is_ok();
            read(&held, &table, &schema, &mut rows, &mut emit)?;
            if !rows.is_empty() {
                emit(rows.batch()?);
            }
            Ok(())
        });
        builder.build()
    }
}

/// The counts of the values of each column, for the owner.
///
/// # Errors
/// The same error for every cause.
pub(super) fn count_stored(
    held: &Arc<OpenFile>,
    table: &str,
    schema: &SchemaRef,
) -> DataResult<Vec<CellCounts>> {
    let mut rows = TextRows::counting(schema, "row");
    read(held, table, schema, &mut rows, &mut |_| true)?;
    rows.batch()?;
    Ok(rows.into_counts())
}

/// Reads the rows of a table.
///
/// # Errors
/// The same error for every cause.
fn read(
    held: &Arc<OpenFile>,
    table: &str,
    schema: &SchemaRef,
    rows: &mut TextRows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> DataResult<()> {
    read_rows(held, table, schema, rows, emit).map_err(|trouble| match trouble {
        // This one is noted, since it would come again.
        Trouble::Damaged => ArrowError::ParseError("damaged".to_owned()).into(),
        Trouble::NoDatabase
        | Trouble::Vault
        | Trouble::Unsaved
        | Trouble::Replaced
        | Trouble::NoTable
        | Trouble::NotATable
        | Trouble::Failed => crate::grid::failed(),
    })
}

/// A value of SQLite as a text, or none.
enum StoredValue {
    Null,
    Text(String),
    Bytes,
}

fn read_rows(
    held: &Arc<OpenFile>,
    table: &str,
    schema: &SchemaRef,
    rows: &mut TextRows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<(), Trouble> {
    let connection = database(held)?;
    let (table, _) = stored(&connection, table)?;
    let names: Vec<String> =
        schema.fields().iter().map(|field| format!("r.{}", identifier(field.name()))).collect();
    // An index may hold other rows than the table.
    let sql =
        format!("SELECT {} FROM main.{} AS r NOT INDEXED", names.join(", "), identifier(&table));
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut line: u64 = 0;
    let mut values = Vec::with_capacity(names.len());
    while let Some(row) = found.next()? {
        line = line.saturating_add(1);
        values.clear();
        for column in 0..names.len() {
            values.push(value_of(row.get_ref(column)?));
        }
        let texts = values.iter().map(|value| match value {
            StoredValue::Text(text) => text.len(),
            StoredValue::Null | StoredValue::Bytes => 0,
        });
        rows.add_bytes(texts.sum());
        let cells = values.iter().map(|value| match value {
            StoredValue::Null => CellValue::Null,
            StoredValue::Text(text) => CellValue::Text(text),
            StoredValue::Bytes => CellValue::Unfit("a BLOB"),
        });
        if rows.push_values(line, cells) && !emit(rows.batch().map_err(|_| Trouble::Failed)?) {
            break;
        }
    }
    Ok(())
}

/// A value as a text that each type reads. Infinite numbers and texts that are not UTF-8 are NULL.
fn value_of(value: ValueRef<'_>) -> StoredValue {
    match value {
        ValueRef::Null => StoredValue::Null,
        ValueRef::Integer(number) => StoredValue::Text(number.to_string()),
        ValueRef::Real(number) if number.is_finite() => StoredValue::Text(format!("{number:?}")),
        ValueRef::Real(_) => StoredValue::Null,
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => StoredValue::Text(text.to_owned()),
            Err(_) => StoredValue::Null,
        },
        ValueRef::Blob(_) => StoredValue::Bytes,
    }
}

/// A name within a statement of SQLite.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
