//! Data files as tables: what an owner declares, opened when a query is paid for.
//!
//! In: a declared file. Out: a [`TableProvider`] with the declared columns. CSV and JSON are read leniently:
//! a cell that does not parse is NULL and a malformed line is a row of NULLs, so that no one person's row can
//! make a query fail. The columns are fixed when the table is created.

mod lenient;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sha2::{Digest, Sha256};
use sqlparser::ast as sql;

use lenient::{LenientFile, Lines, Shape, read_cells, read_object};

use crate::catalog::{Column, FileFormat, Fingerprint, Privacy, RESERVED, Source, Table, Unit};
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

/// How many rows the types of a CSV or JSON file are inferred from.
const INFERRED_ROWS: usize = 10_000;

/// A file declared as a table; its columns are read now and fixed.
///
/// # Errors
/// [`Error::Catalog`] when the file is missing, empty or not of its format.
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
            (FileFormat::Csv, "has_header" | "delimiter") => {}
            _ => return Err(Error::catalog(format!("{format} files take no option `{key}`"))),
        }
        known.insert(key.to_owned(), value.clone());
    }
    let shape = shape(format, &known)?;
    let inferred = schema_of(&path, format, &shape)?;
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
            location: path.to_string_lossy().into_owned(),
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

/// A column named like the engine's hidden ones could stand in for them.
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

fn shape(format: FileFormat, options: &BTreeMap<String, String>) -> Result<Shape, Error> {
    let header = match options.get("has_header").map(|v| v.to_lowercase()) {
        None => true,
        Some(value) if value == "true" => true,
        Some(value) if value == "false" => false,
        Some(value) => {
            return Err(Error::catalog(format!("has_header is true or false, not {value}")));
        }
    };
    let delimiter = match options.get("delimiter").map(String::as_bytes) {
        None => b',',
        Some([byte]) => *byte,
        Some(_) => return Err(Error::catalog("the delimiter of a CSV file is one character")),
    };
    Ok(match format {
        FileFormat::Json => Shape::Json,
        FileFormat::Csv | FileFormat::Parquet | FileFormat::Arrow => {
            Shape::Csv { header, delimiter }
        }
    })
}

/// The columns of a file, from its footer or its first rows.
fn schema_of(path: &Path, format: FileFormat, shape: &Shape) -> Result<SchemaRef, Error> {
    let shown = path.display();
    let wrong = |e: arrow::error::ArrowError| {
        Error::catalog_from(format!("`{shown}` is not a {format} file"), e)
    };
    let read = |e| Error::catalog_from(format!("`{shown}` cannot be read"), e);
    let open = || File::open(path).map_err(read);
    let schema = match (format, shape) {
        (FileFormat::Parquet, _) => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(open()?)
                .map_err(|e| Error::catalog_from(format!("`{shown}` is not a {format} file"), e))?;
            Arc::clone(reader.schema())
        }
        (FileFormat::Arrow, _) => {
            let reader = arrow::ipc::reader::FileReader::try_new(open()?, None).map_err(wrong)?;
            reader.schema()
        }
        (FileFormat::Csv, Shape::Csv { header, delimiter }) => {
            let format = arrow::csv::reader::Format::default()
                .with_header(*header)
                .with_delimiter(*delimiter)
                .with_truncated_rows(true);
            let sample = sample(open()?, shape).map_err(read)?;
            Arc::new(format.infer_schema(sample.as_slice(), None).map_err(wrong)?.0)
        }
        (FileFormat::Json, _) | (FileFormat::Csv, Shape::Json) => {
            let sample = sample(open()?, &Shape::Json).map_err(read)?;
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

/// The first lines of a text file that are whole: the others are rows of NULLs and have no types.
fn sample(file: File, shape: &Shape) -> io::Result<Vec<u8>> {
    let (mut sample, mut rows, mut width) = (Vec::new(), 0, None);
    let mut record = csv::ByteRecord::new();
    let mut lines = Lines::new(file);
    while let Some(line) = lines.next()? {
        let whole = match shape {
            Shape::Csv { delimiter, .. } => {
                read_cells(line, *delimiter, &mut record)
                    && std::str::from_utf8(line).is_ok()
                    && *width.get_or_insert(record.len()) == record.len()
            }
            Shape::Json => read_object(line).is_some(),
        };
        if whole {
            sample.extend_from_slice(line);
            sample.push(b'\n');
        } else if rows == 0 && *shape != Shape::Json {
            // Without a first line nothing says how many columns there are.
            return Ok(Vec::new());
        }
        rows += 1;
        if rows == INFERRED_ROWS {
            break;
        }
    }
    Ok(sample)
}

/// A column of the type that its cells are read as.
fn plain(field: &Field, format: FileFormat) -> Field {
    let data_type = match field.data_type() {
        // These are read as they are.
        own if format == FileFormat::Arrow => own.clone(),
        // Lists and objects in a text file are read as their text: a cell must fit its column's type.
        nested if nested.is_nested() && format == FileFormat::Json => DataType::Utf8,
        DataType::Null => DataType::Utf8,
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true)
}

/// The columns that the owner wrote, checked against the file.
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
        // The text of a cell is read as any type; a header still names its columns.
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

/// The same columns with texts as views, which Parquet is read into without copying each. Texts of other formats are of the
/// same type, so that tables of either lead to one another.
fn viewed(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A declared file as a table; opens nothing.
///
/// # Errors
/// [`Error::Catalog`] for a table that is no file, or whose declaration is damaged.
pub(crate) fn provider(table: &Table) -> Result<Arc<dyn TableProvider>, Error> {
    let Source::File { format, location, options, .. } = &table.source else {
        return Err(Error::Internal);
    };
    let schema = schema(table)?;
    let failed = |e| Error::catalog_from(format!("table {} cannot be opened", table.name), e);
    let listing = |format: Arc<dyn datafusion::datasource::file_format::FileFormat>, schema| {
        let url = ListingTableUrl::parse(location).map_err(failed)?;
        let options = ListingOptions::new(format).with_file_extension("");
        let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
        let table: Arc<dyn TableProvider> =
            Arc::new(ListingTable::try_new(config).map_err(failed)?);
        Ok(table)
    };
    match format {
        FileFormat::Parquet => {
            let format = ParquetFormat::default().with_options(options_of(table));
            listing(Arc::new(format), viewed(&schema))
        }
        FileFormat::Arrow => listing(Arc::new(ArrowFormat), schema),
        FileFormat::Csv | FileFormat::Json => {
            let schema = viewed(&schema);
            let file = LenientFile::new(location, shape(*format, options)?, Arc::clone(&schema));
            let table = StreamingTable::try_new(schema, vec![Arc::new(file)]).map_err(failed)?;
            Ok(Arc::new(table))
        }
    }
}

/// How Parquet is read: of a private table, by the statistics of row groups at most.
///
/// Bloom filters and the statistics of pages would be more that has to be right, for the same answers; filters that the
/// reader evaluates by itself would take the place of those above it.
fn options_of(table: &Table) -> TableParquetOptions {
    let mut options = TableParquetOptions::default();
    options.global.pushdown_filters = false;
    if !table.is_public() {
        options.global.bloom_filter_on_read = false;
        options.global.enable_page_index = false;
    }
    options
}

/// What a file looks like now.
///
/// # Errors
/// [`Error::Catalog`] when it cannot be read.
pub(crate) fn fingerprint(location: &str) -> Result<Fingerprint, Error> {
    let failed = |e| Error::catalog_from(format!("`{location}` cannot be read"), e);
    let mut file = File::open(location).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            break;
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Fingerprint {
        size: metadata.len(),
        modified_nanos: modified(&metadata),
        inode: metadata.ino(),
        sha256,
    })
}

fn modified(metadata: &fs::Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

/// Whether the file of a table is still the declared one; costs nothing and opens the file at most to hash it
/// or to read its columns.
///
/// # Guarantee
/// Of a file without verified constraints, nothing is looked at but its header or footer, never a row: a
/// refusal is free, and one that a person's row can cause would tell of that row for nothing.
///
/// # Errors
/// A refusal when it is missing, was changed since its constraints were verified, or has other columns.
pub(crate) fn check(table: &Table) -> Result<(), Error> {
    let Source::File { format, location, options, fingerprint: verified } = &table.source else {
        return Ok(());
    };
    let name = &table.name;
    let changed = |what: &str, write: String| -> Error {
        let message = format!("the file of {name} {what}");
        Refusal::new(Reason::ChangedFile, name, message, write).into()
    };
    let unread = |what| changed(what, "the owner puts the file back where it was".to_owned());
    let remade = |what| {
        changed(
            what,
            format!(
                "the owner puts a file with the columns of {name} in its place, or declares it under a new name"
            ),
        )
    };
    let metadata = fs::metadata(location).map_err(|_| unread("cannot be read"))?;
    if !metadata.is_file() {
        return Err(unread("is no file"));
    }
    if let Some(verified) = verified {
        let same = verified.size == metadata.len()
            && verified.modified_nanos == modified(&metadata)
            && verified.inode == metadata.ino();
        if !same {
            let now = fingerprint(location).map_err(|_| unread("cannot be read"))?;
            if now.sha256 != verified.sha256 {
                let unit = table.unit().map_or(String::new(), Unit::declaration);
                let write = format!(
                    "the owner verifies it again: ALTER TABLE {name} SET PRIVACY UNIT {unit}"
                );
                return Err(changed(
                    "was changed since MAX ROWS or UNIQUE was verified on it",
                    write,
                ));
            }
        }
    }
    let named = match (format, shape(*format, options)?) {
        (FileFormat::Csv, Shape::Csv { header: true, delimiter }) => {
            let header = header_of(location, delimiter).map_err(|_| unread("cannot be read"))?;
            header.iter().eq(table.columns.iter().map(|column| column.name.as_bytes()))
        }
        // Any line may be somebody's: nothing but the declaration says what is in these files.
        (FileFormat::Csv | FileFormat::Json, _) => true,
        (FileFormat::Parquet | FileFormat::Arrow, shape) => {
            let now = schema_of(Path::new(location), *format, &shape)
                .map_err(|_| remade("is no longer of its format"))?;
            same_names(&now, table)
                && now
                    .fields()
                    .iter()
                    .zip(&table.columns)
                    .all(|(field, column)| field.data_type().to_string() == column.data_type)
        }
    };
    if named { Ok(()) } else { Err(remade("has other columns than were declared")) }
}

/// The first line of a CSV file, taken apart.
fn header_of(location: &str, delimiter: u8) -> io::Result<csv::ByteRecord> {
    let mut record = csv::ByteRecord::new();
    if let Some(line) = Lines::new(File::open(location)?).next()? {
        read_cells(line, delimiter, &mut record);
    }
    Ok(record)
}

fn same_names(schema: &SchemaRef, table: &Table) -> bool {
    schema.fields().len() == table.columns.len()
        && schema.fields().iter().zip(&table.columns).all(|(f, c)| *f.name() == c.name)
}
