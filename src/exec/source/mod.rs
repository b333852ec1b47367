//! Data files as tables: an owner declares them, and queries that are paid for open them.
//!
//! In: a declared file. Out: a [`TableProvider`] with the declared columns. CSV and JSON are read leniently: a cell that does
//! not parse is NULL and a malformed line is a row of NULLs, so that no person's row can make a query fail. The columns are
//! fixed when the table is created. A statement opens each file once, and reads the file that it checked: see [`held`].

pub(crate) mod ledger;

mod check;
mod compressed;
mod held;
mod lenient;
pub(crate) mod same;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::{fmt, fs};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Statistics};
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::physical_plan::ExecutionPlan;
use sqlparser::ast as sql;

pub(crate) use check::{OpenFiles, register};
use compressed::{COMPRESSION, Compression};
pub(crate) use held::HeldFiles;
use held::{Held, Reader};
use lenient::{LenientFile, Shape, read_cells, read_object};

use crate::catalog::{Column, FileFormat, Privacy, RESERVED, Source, Table};
use crate::error::Error;
use crate::exec::datafusion::sizes::PaidFor;
use crate::exec::operator::private_scan::PinnedFile;

/// The option of a table whose file is identified by its bytes: `'true'` or `'false'`.
const CONTENT_HASH: &str = "content_hash";

/// Whether the owner wants the file to be identified by its bytes.
pub(crate) fn hashes_content(options: &BTreeMap<String, String>) -> bool {
    options.get(CONTENT_HASH).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The number of rows from which the types of a CSV or JSON file are inferred.
const INFERRED_ROWS: usize = 10_000;

/// A file declared as a table; its columns are read now and do not change.
///
/// # Errors
/// [`Error::Catalog`] when the file is missing, empty or not in its format.
pub(crate) fn declared(
    name: &str,
    columns: &[(String, sql::DataType)],
    format: FileFormat,
    location: &str,
    options: &[(String, String)],
) -> Result<Table, Error> {
    let path = absolute(location)?;
    let mut known = BTreeMap::new();
    for (key, value) in options {
        let key = key.trim_start_matches("format.");
        match (format, key) {
            (FileFormat::Csv, "has_header" | "delimiter")
            | (FileFormat::Csv | FileFormat::Json, COMPRESSION)
            | (_, CONTENT_HASH) => {}
            _ => return Err(Error::catalog(format!("{format} files have no option `{key}`"))),
        }
        known.insert(key.to_owned(), value.clone());
    }
    is_true(known.get(CONTENT_HASH), CONTENT_HASH, false)?;
    if let (FileFormat::Csv | FileFormat::Json, Some(named)) =
        (format, Compression::by_name(location))
    {
        known.entry(COMPRESSION.to_owned()).or_insert_with(|| named.to_owned());
    }
    let shape = shape(format, &known)?;
    let shown = path.to_string_lossy();
    let read = |e| Error::catalog_from(format!("`{shown}` cannot be read"), e);
    let held = Arc::new(Held::open(&shown, 0).map_err(read)?);
    let inferred = plain_columns(&held, format, &shape, &shown)?;
    let columns = if columns.is_empty() {
        columns_of(&inferred)
    } else {
        given(columns, &inferred, format, shape.has_names())?
    };
    refuse_reserved(&columns)?;
    Ok(Table {
        name: name.to_owned(),
        source: Source::File {
            format,
            location: shown.into_owned(),
            options: known,
            fingerprint: None,
        },
        privacy: Privacy::Undeclared,
        columns,
    })
}

/// The columns of a schema, as the catalog keeps them.
pub(crate) fn columns_of(schema: &SchemaRef) -> Vec<Column> {
    schema
        .fields()
        .iter()
        .map(|field| Column {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            nullable: field.is_nullable(),
            domain: None,
        })
        .collect()
}

/// A column with the name of one of the engine's hidden columns could replace it.
pub(crate) fn refuse_reserved(columns: &[Column]) -> Result<(), Error> {
    match columns.iter().find(|c| c.name.to_lowercase().starts_with(RESERVED)) {
        None => Ok(()),
        Some(column) => Err(Error::catalog(format!(
            "the column `{}` cannot be used: names that begin with {RESERVED} belong to the engine",
            column.name
        ))),
    }
}

fn absolute(location: &str) -> Result<PathBuf, Error> {
    let cannot = |e| Error::catalog_from(format!("there is no readable file `{location}`"), e);
    let path = fs::canonicalize(location).map_err(cannot)?;
    let metadata = fs::metadata(&path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Error::catalog(format!("`{location}` is not a file")));
    }
    if metadata.len() == 0 {
        return Err(Error::catalog(format!("the file `{location}` is empty")));
    }
    Ok(path)
}

/// The value of a Boolean option.
fn is_true(value: Option<&String>, option: &str, unless: bool) -> Result<bool, Error> {
    match value.map(|v| v.to_lowercase()).as_deref() {
        None => Ok(unless),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(value) => Err(Error::catalog(format!("{option} is true or false, not {value}"))),
    }
}

fn shape(format: FileFormat, options: &BTreeMap<String, String>) -> Result<Shape, Error> {
    let header = is_true(options.get("has_header"), "has_header", true)?;
    let delimiter = match options.get("delimiter").map(String::as_bytes) {
        None => b',',
        Some([byte]) => *byte,
        Some(_) => return Err(Error::catalog("the delimiter of a CSV file is one character")),
    };
    let compression = Compression::of_options(options)?;
    Ok(match format {
        FileFormat::Json => Shape::Json { compression },
        FileFormat::Csv | FileFormat::Parquet | FileFormat::Arrow => {
            Shape::Csv { header, delimiter, compression }
        }
    })
}

/// The columns of a file, from its footer or its first rows.
fn plain_columns(
    held: &Arc<Held>,
    format: FileFormat,
    shape: &Shape,
    shown: &str,
) -> Result<SchemaRef, Error> {
    match held.columns.get() {
        Some(columns) => Ok(Arc::clone(columns)),
        None => {
            let columns = schema_of(held, format, shape, shown)?;
            Ok(Arc::clone(held.columns.get_or_init(|| columns)))
        }
    }
}

fn schema_of(
    held: &Arc<Held>,
    format: FileFormat,
    shape: &Shape,
    shown: &str,
) -> Result<SchemaRef, Error> {
    let wrong = |e: arrow::error::ArrowError| {
        Error::catalog_from(format!("`{shown}` is not a {format} file"), e)
    };
    let read = |e| Error::catalog_from(format!("`{shown}` cannot be read"), e);
    let schema = match (format, shape) {
        (FileFormat::Parquet, _) => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(held.handle().map_err(read)?)
                .map_err(|e| Error::catalog_from(format!("`{shown}` is not a {format} file"), e))?;
            if let Ok(rows) = usize::try_from(reader.metadata().file_metadata().num_rows()) {
                held.rows.get_or_init(|| rows);
            }
            Arc::clone(reader.schema())
        }
        (FileFormat::Arrow, _) => {
            let reader =
                arrow::ipc::reader::FileReader::try_new(held.reader(), None).map_err(wrong)?;
            reader.schema()
        }
        (FileFormat::Csv, Shape::Csv { header, delimiter, .. }) => {
            let format = arrow::csv::reader::Format::default()
                .with_header(*header)
                .with_delimiter(*delimiter)
                .with_truncated_rows(true);
            let sample = sample(held.reader(), shape).map_err(read)?;
            Arc::new(format.infer_schema(sample.as_slice(), None).map_err(wrong)?.0)
        }
        (FileFormat::Json, _) | (FileFormat::Csv, Shape::Json { .. }) => {
            let sample = sample(held.reader(), shape).map_err(read)?;
            let (schema, _) =
                arrow::json::reader::infer_json_schema(sample.as_slice(), None).map_err(wrong)?;
            Arc::new(schema)
        }
    };
    if schema.fields().is_empty()
        || schema.fields().iter().any(|f| f.name().chars().any(char::is_control))
    {
        return Err(Error::catalog(format!("`{shown}` is not a {format} file")));
    }
    let fields: Vec<_> = schema.fields().iter().map(|f| plain(f, format)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// The complete first lines of a text file; other lines are rows of NULLs and have no types.
fn sample(file: Reader, shape: &Shape) -> io::Result<Vec<u8>> {
    let (mut sample, mut rows, mut width) = (Vec::new(), 0, None);
    let mut record = csv::ByteRecord::new();
    let mut lines = shape.lines(file)?;
    while let Some(line) = lines.next()? {
        let whole = match shape {
            Shape::Csv { delimiter, .. } => {
                read_cells(line, *delimiter, &mut record)
                    && std::str::from_utf8(line).is_ok()
                    && *width.get_or_insert(record.len()) == record.len()
            }
            Shape::Json { .. } => read_object(line).is_some(),
        };
        if whole {
            sample.extend_from_slice(line);
            sample.push(b'\n');
        } else if rows == 0 && matches!(shape, Shape::Csv { .. }) {
            // Without a first line, the number of columns is unknown.
            return Ok(Vec::new());
        }
        rows += 1;
        if rows == INFERRED_ROWS {
            break;
        }
    }
    Ok(sample)
}

/// A column with the type that its cells are read as.
fn plain(field: &Field, format: FileFormat) -> Field {
    let data_type = match field.data_type() {
        // Arrow columns keep their types.
        own if format == FileFormat::Arrow => own.clone(),
        // Lists and objects in a text file are read as text: a cell must fit its column's type.
        nested if nested.is_nested() && format == FileFormat::Json => DataType::Utf8,
        DataType::Null => DataType::Utf8,
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true)
}

/// The columns that the owner declared, checked against the file.
fn given(
    columns: &[(String, sql::DataType)],
    inferred: &SchemaRef,
    format: FileFormat,
    header: bool,
) -> Result<Vec<Column>, Error> {
    if columns.len() != inferred.fields().len() {
        let found = inferred.fields().len();
        return Err(Error::catalog(format!("the file has {found} columns, not {}", columns.len())));
    }
    let mut given = Vec::new();
    for ((name, data_type), field) in columns.iter().zip(inferred.fields()) {
        let data_type = arrow_type(data_type)?;
        // The text of a CSV cell is read as any type, but a header still names its columns.
        let text = format == FileFormat::Csv;
        if (header && name != field.name()) || (!text && data_type != *field.data_type()) {
            return Err(Error::catalog(format!(
                "the file's column is {} {}, not {name} {data_type}",
                field.name(),
                field.data_type()
            )));
        }
        given.push(Column {
            name: name.clone(),
            data_type: data_type.to_string(),
            nullable: true,
            domain: None,
        });
    }
    Ok(given)
}

fn arrow_type(data_type: &sql::DataType) -> Result<DataType, Error> {
    use sql::DataType as S;
    Ok(match data_type {
        S::Boolean | S::Bool => DataType::Boolean,
        S::TinyInt(_) => DataType::Int8,
        S::SmallInt(_) => DataType::Int16,
        S::Int(_) | S::Integer(_) => DataType::Int32,
        S::BigInt(_) => DataType::Int64,
        S::Real | S::Float(_) => DataType::Float32,
        S::Double(_) | S::DoublePrecision => DataType::Float64,
        S::Varchar(_) | S::Text | S::String(_) | S::Char(_) => DataType::Utf8,
        S::Date => DataType::Date32,
        S::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
        S::Decimal(sql::ExactNumberInfo::PrecisionAndScale(precision, scale))
        | S::Numeric(sql::ExactNumberInfo::PrecisionAndScale(precision, scale)) => {
            let precision = u8::try_from(*precision).ok().filter(|p| (1..=38).contains(p));
            let scale = i8::try_from(*scale).ok().filter(|scale| *scale >= 0);
            match precision.zip(scale) {
                Some((precision, scale)) => DataType::Decimal128(precision, scale),
                None => return Err(Error::catalog(format!("there is no type {data_type}"))),
            }
        }
        other => return Err(Error::catalog(format!("a column cannot be of type {other}"))),
    })
}

fn schema(table: &Table) -> Result<SchemaRef, Error> {
    let fields = table
        .columns
        .iter()
        .map(|column| {
            let data_type = DataType::from_str(&column.data_type).map_err(|e| {
                Error::catalog_from(format!("column {} has an unknown type", column.name), e)
            })?;
            Ok(Field::new(&column.name, data_type, true))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// The same columns with texts as views, which Parquet reads without copying each text. Texts of other formats get the
/// same type, so that tables of either format can link to each other.
fn viewed(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A declared file as a table; opens nothing before it is scanned.
///
/// # Errors
/// [`Error::Catalog`] for a table that is not a file, or whose declaration is damaged.
pub(crate) fn provider(
    table: &Table,
    open: &Arc<OpenFiles>,
) -> Result<Arc<dyn TableProvider>, Error> {
    let Source::File { format, options, .. } = &table.source else {
        return Err(Error::Internal);
    };
    let (schema, shape) = (schema(table)?, shape(*format, options)?);
    let schema = match format {
        FileFormat::Arrow => schema,
        FileFormat::Parquet | FileFormat::Csv | FileFormat::Json => viewed(&schema),
    };
    let open = Arc::clone(open);
    Ok(Arc::new(FileTable { table: table.clone(), schema, shape, open }))
}

/// The file of a table as a statement has opened and verified it; `None` for a table whose file is not verified by its
/// properties.
pub(crate) fn pinned(table: &Table, open: &Arc<OpenFiles>) -> Option<PinnedFile> {
    let Source::File { fingerprint: Some(_), .. } = &table.source else { return None };
    let (table, open) = (table.clone(), Arc::clone(open));
    Some(Arc::new(move || open.pinned(&table)))
}

/// A declared file; a statement reads the file that it checked.
struct FileTable {
    table: Table,
    schema: SchemaRef,
    shape: Shape,
    open: Arc<OpenFiles>,
}

/// Paths must not appear in plans and messages.
impl fmt::Debug for FileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTable").field("name", &self.table.name).finish_non_exhaustive()
    }
}

impl FileTable {
    /// The rows of the file, opened and checked, and how many they are if its footer says so.
    fn rows(&self) -> datafusion::common::Result<(Arc<dyn TableProvider>, Option<usize>)> {
        let Source::File { format, location, .. } = &self.table.source else {
            return Err(crate::grid::failed());
        };
        self.open.check(&self.table).map_err(|e| DataFusionError::External(Box::new(e)))?;
        let held = self.open.held(location)?;
        let schema = Arc::clone(&self.schema);
        let known = held.rows.get().copied();
        let rows = match format {
            FileFormat::Parquet => {
                let format = ParquetFormat::default().with_options(options_of(&self.table));
                listing(&held, Arc::new(format), schema)?
            }
            FileFormat::Arrow => listing(&held, Arc::new(ArrowFormat), schema)?,
            FileFormat::Csv | FileFormat::Json => {
                let file = LenientFile::new(held, self.shape, Arc::clone(&schema));
                Arc::new(StreamingTable::try_new(schema, vec![Arc::new(file)])?)
            }
        };
        Ok((rows, known))
    }
}

/// A scan of a file that claims to have about so many rows. Nothing but the choice between equivalent plans follows from it;
/// the scan of a private table hides it.
fn with_rows(scan: Arc<dyn ExecutionPlan>, rows: usize) -> Arc<dyn ExecutionPlan> {
    let source = scan.downcast_ref::<DataSourceExec>();
    let files = source.and_then(|s| s.data_source().downcast_ref::<FileScanConfig>());
    let Some(files) = files else { return scan };
    let schema = files.file_schema();
    let claimed = Statistics::new_unknown(schema).with_num_rows(Precision::Inexact(rows));
    let files = FileScanConfigBuilder::from(files.clone()).with_statistics(claimed).build();
    DataSourceExec::from_data_source(files)
}

#[async_trait]
impl TableProvider for FileTable {
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
        // Readers decide by themselves which rows to skip.
        Ok(vec![TableProviderFilterPushDown::Unsupported; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let (rows, known) = self.rows()?;
        let scan = rows.scan(state, projection, filters, limit).await?;
        // Of a private table, nothing is claimed before the charge.
        let may_claim = self.table.is_public() || PaidFor::is_given(state.config());
        Ok(match known.filter(|_| may_claim) {
            Some(rows) => with_rows(scan, rows),
            None => scan,
        })
    }
}

/// A file that DataFusion reads.
fn listing(
    held: &Held,
    format: Arc<dyn datafusion::datasource::file_format::FileFormat>,
    schema: SchemaRef,
) -> datafusion::common::Result<Arc<dyn TableProvider>> {
    let url = ListingTableUrl::parse(held.url())?;
    let options = ListingOptions::new(format).with_file_extension("");
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The reader's options for Parquet. For a private table, it uses the statistics of row groups at most.
///
/// Bloom filters and page statistics would be further parts that must be correct, for the same answers. Filters that
/// the reader evaluates itself would replace the filters above it.
fn options_of(table: &Table) -> TableParquetOptions {
    let mut options = TableParquetOptions::default();
    options.global.pushdown_filters = false;
    if !table.is_public() {
        options.global.bloom_filter_on_read = false;
        options.global.enable_page_index = false;
    }
    options
}

/// Whether a file has the declared columns.
fn same_columns(schema: &SchemaRef, table: &Table) -> bool {
    schema.fields().len() == table.columns.len()
        && schema
            .fields()
            .iter()
            .zip(&table.columns)
            .all(|(f, c)| *f.name() == c.name && f.data_type().to_string() == c.data_type)
}
