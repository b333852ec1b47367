//! The columns of data files, from their options, footers, headers or first rows.
//!
//! In: open files and the options of their table. Out: a schema with types that the engine reads.
//! The types of CSV files are inferred from the first rows, of several files together. Several
//! files must have the same columns to be a table. For JSON, see [`json_columns`].
//!
//! [`json_columns`]: super::json_columns
//!
//! ```text
//! a.csv: id,fee ⏎ 1,2      b.csv: id,fee ⏎ 2,0.5     →   id BIGINT, fee DOUBLE
//! a.csv: id,fee            b.csv: fee,id             →   an error
//! ```

use std::collections::BTreeMap;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::physical_plan::parquet::Int96Coercer;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use datafusion::parquet::basic::LogicalType;
use datafusion::parquet::file::metadata::ParquetMetaDataReader;
use datafusion::parquet::schema::types::SchemaDescriptor;

use super::compressed::Compression;
use super::csv_format::CsvFormat;
use super::foreign_files::refuse_foreign;
use super::json_columns::{INFERRED_ROWS, JsonKeys, OFFSETS};
use super::lenient::TextFormat;
use super::open_files::{Chunks, FileReader, OpenFile};
use super::struct_columns::without_structs;
use super::unreadable_files::{known_in_arrow, known_in_parquet, no_column, not_in, wrong_format};
use crate::catalog::{Column, FileFormat, Source, Table, quoted};
use crate::error::Error;
use crate::functions::{UUID, counts_as_whole, declared_type, has_offset, widens};
use crate::sql_type::sql_type;

/// The option that says how a table's file is identified: by its bytes at each statement
/// (`'true'`), or not at all (`'false'`). Without it, the bytes are hashed again if the file system
/// shows a change.
pub(super) const CONTENT_HASH: &str = "content_hash";

/// Whether the owner wants the file to be identified by its bytes at each statement.
pub(crate) fn hashes_content(options: &BTreeMap<String, String>) -> bool {
    options.get(CONTENT_HASH).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Whether the owner lets the file change without a declaration.
pub(crate) fn may_change(options: &BTreeMap<String, String>) -> bool {
    options.get(CONTENT_HASH).is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

/// The option that says whether declarations of the table refuse what is not read as declared.
pub(super) const STRICT: &str = "strict";

/// Whether declarations of the table refuse what is not read as declared.
pub(crate) fn is_strict(options: &BTreeMap<String, String>) -> bool {
    options.get(STRICT).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Makes a table strict, or ends that.
pub(crate) fn set_strict(options: &mut BTreeMap<String, String>, strict: bool) {
    match strict {
        true => drop(options.insert(STRICT.to_owned(), true.to_string())),
        false => drop(options.remove(STRICT)),
    }
}

/// Where the metadata of an Arrow column name a type beyond Arrow's own, and the name for UUIDs.
const EXTENSION_TYPE_NAME_KEY: &str = "ARROW:extension:name";
const UUID_NAME: &str = "arrow.uuid";

/// The columns of a schema, in the catalog's form.
pub(crate) fn columns_of(schema: &SchemaRef) -> Vec<Column> {
    schema
        .fields()
        .iter()
        .map(|field| Column {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            nullable: field.is_nullable(),
            domain: None,
            zone: None,
        })
        .collect()
}

/// The text format of a table's files.
///
/// # Errors
/// [`Error::Catalog`] for options with unknown values.
pub(super) fn shape(
    format: FileFormat,
    options: &BTreeMap<String, String>,
) -> Result<TextFormat, Error> {
    Ok(match format {
        FileFormat::Json => {
            let compression = Compression::of_options(options)?;
            TextFormat::Json { compression, over_lines: false }
        }
        FileFormat::Csv | FileFormat::Parquet | FileFormat::Arrow | FileFormat::Sqlite => {
            TextFormat::Csv(CsvFormat::of_options(options)?)
        }
    })
}

/// The text format of a table's files, whose records go over several lines if a declaration found
/// these files well formed.
///
/// # Errors
/// [`Error::Catalog`] for options with unknown values; [`Error::Internal`] for a table that has no
/// files.
pub(super) fn shape_of(table: &Table) -> Result<TextFormat, Error> {
    let Source::File { format, options, fingerprint, .. } = &table.source else {
        return Err(Error::Internal);
    };
    let over_lines = fingerprint.as_ref().is_some_and(|pinned| pinned.over_lines);
    Ok(shape(*format, options)?.over_lines(over_lines))
}

/// The columns of a file, from its footer or its rows.
///
/// # Errors
/// [`Error::Catalog`] when it cannot be read or is not in its format.
pub(super) fn plain_columns(
    held: &Arc<OpenFile>,
    format: FileFormat,
    shape: &TextFormat,
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
    held: &Arc<OpenFile>,
    format: FileFormat,
    shape: &TextFormat,
    shown: &str,
) -> Result<SchemaRef, Error> {
    let wrong = |e: arrow::error::ArrowError| Error::catalog_from(not_in(shown, format), e);
    let read = |e| Error::catalog_from(format!("{shown} cannot be read"), e);
    let schema = match (format, shape) {
        (FileFormat::Parquet, _) => in_parquet(held, shown)?,
        (FileFormat::Arrow, _) => {
            known_in_arrow(held, shown)?;
            let reader = arrow::ipc::reader::FileReader::try_new(held.reader(), None);
            reader.map_err(|_| wrong_format(held, format, shown))?.schema()
        }
        (FileFormat::Csv, TextFormat::Csv(csv)) => {
            refuse_foreign(held, shape, shown)?;
            let first = Sample::first(held, csv).map_err(read)?;
            first.has_rows(shown)?;
            let found = inferred(&first.text, csv).map_err(wrong)?;
            held.stored.get_or_init(|| with_offsets(&found, &first.text));
            found
        }
        (FileFormat::Sqlite, _) => return Err(Error::Internal),
        (FileFormat::Csv | FileFormat::Json, _) => {
            refuse_foreign(held, shape, shown)?;
            let file = (Arc::clone(held), shape.clone());
            let keys = JsonKeys::of(&[file], None).map_err(read)?;
            held.stored.get_or_init(|| keys.with_offsets());
            keys.columns(shown)?
        }
    };
    if let FileFormat::Csv | FileFormat::Json = format {
        return checked(&schema, format, shown);
    }
    let keys = held.keys.get().map(Vec::as_slice).unwrap_or_default();
    let (schema, structs) = without_structs(&schema, keys);
    if let Some(structs) = structs {
        held.structs.get_or_init(|| structs);
    }
    held.stored.get_or_init(|| Arc::clone(&schema));
    checked(&schema, format, shown)
}

/// The columns that the footer of a Parquet file describes. The number of its rows is kept.
///
/// # Errors
/// [`Error::Catalog`] when it cannot be read or is not a Parquet file.
pub(super) fn in_parquet(held: &Arc<OpenFile>, shown: &str) -> Result<SchemaRef, Error> {
    let wrong = |_| wrong_format(held, FileFormat::Parquet, shown);
    let footer = ParquetMetaDataReader::new().parse_and_finish(&Chunks(Arc::clone(held)));
    let footer = Arc::new(footer.map_err(wrong)?);
    known_in_parquet(&footer, shown)?;
    let footer =
        ArrowReaderMetadata::try_new(footer, ArrowReaderOptions::default()).map_err(wrong)?;
    let file = Chunks(Arc::clone(held));
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer);
    if let Ok(rows) = usize::try_from(reader.metadata().file_metadata().num_rows()) {
        held.rows.get_or_init(|| rows);
    }
    // Timestamps of 96 bits, which Spark, Impala and Hive write, would wrap beyond the years that
    // nanoseconds can hold.
    let columns =
        Int96Coercer::new(reader.parquet_schema(), reader.schema(), &TimeUnit::Microsecond)
            .coerce()
            .map_or_else(|| Arc::clone(reader.schema()), Arc::new);
    Ok(with_uuids(&columns, reader.parquet_schema()))
}

/// The columns inferred from the text of a sample.
fn inferred(text: &[u8], csv: &CsvFormat) -> Result<SchemaRef, arrow::error::ArrowError> {
    let format =
        arrow::csv::reader::Format::default().with_header(csv.header).with_truncated_rows(true);
    Ok(Arc::new(format.infer_schema(text, None)?.0))
}

/// The columns of a CSV file. Columns whose first rows have moments with an offset get a zone; all
/// others become texts.
fn with_offsets(found: &SchemaRef, text: &[u8]) -> SchemaRef {
    let mut moved = vec![false; found.fields().len()];
    let mut record = csv::ByteRecord::new();
    // A sample is written anew, with commas.
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
    while matches!(reader.read_byte_record(&mut record), Ok(true)) {
        let cells = record.iter().map(std::str::from_utf8);
        for (seen, cell) in moved.iter_mut().zip(cells) {
            *seen |= cell.is_ok_and(has_offset);
        }
    }
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some(OFFSETS.into()));
    let fields = found.fields().iter().zip(moved).map(|(field, moved)| {
        Field::new(field.name(), if moved { zoned.clone() } else { DataType::Utf8 }, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns of a schema with the types that their cells are read as.
fn checked(schema: &SchemaRef, format: FileFormat, shown: &str) -> Result<SchemaRef, Error> {
    if schema.fields().is_empty() {
        return Err(no_column(shown));
    }
    if schema.fields().iter().any(|f| f.name().chars().any(char::is_control)) {
        return Err(Error::catalog(not_in(shown, format)));
    }
    let fields: Vec<_> = schema.fields().iter().map(|f| plain(f, format)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// The columns of several files, which must be the same.
///
/// # Errors
/// [`Error::Catalog`] for a file that cannot be read, is not in its format, or has other columns
/// than the file before it.
pub(super) fn common_columns(
    files: &[(Arc<OpenFile>, TextFormat)],
    format: FileFormat,
    shown: &str,
) -> Result<Option<SchemaRef>, Error> {
    let Some((_, shape)) = files.first() else { return Ok(None) };
    let other = |differ: String| Error::catalog(format!("`{shown}` is not one table: {differ}"));
    let a_file = format!("a file of `{shown}`");
    if let FileFormat::Parquet | FileFormat::Arrow = format {
        let mut common: Option<SchemaRef> = None;
        for (held, shape) in files {
            let columns = plain_columns(held, format, shape, &a_file)?;
            common = Some(match common {
                None => columns,
                Some(before) => wider(&before, &columns, format).map_err(other)?,
            });
        }
        return Ok(common);
    }
    let read = |e| Error::catalog_from(format!("{a_file} cannot be read"), e);
    let TextFormat::Csv(csv) = shape else {
        for (held, shape) in files {
            refuse_foreign(held, shape, &a_file)?;
        }
        let keys = JsonKeys::of(files, None).map_err(read)?;
        if let Some((first, _)) = files.first() {
            first.stored.get_or_init(|| keys.with_offsets());
        }
        let of_folders = files.first().and_then(|(first, _)| first.keys.get());
        let of_folders = of_folders.map(Vec::as_slice).unwrap_or_default();
        let (own, _) = without_structs(&keys.columns(&a_file)?, of_folders);
        return checked(&own, format, &a_file).map(Some);
    };
    let mut sample = Sample::default();
    let mut cells: Option<csv::ByteRecord> = None;
    for (held, shape) in files {
        refuse_foreign(held, shape, &a_file)?;
        if let TextFormat::Csv(format) = shape {
            let first = first_cells(held, format).map_err(read)?;
            // A text without lines has no rows.
            let Some(first) = first else { continue };
            if first.is_empty() {
                return Err(no_column(&a_file));
            }
            let known = cells.get_or_insert_with(|| first.clone());
            let is_same = if format.header { *known == first } else { known.len() == first.len() };
            if !is_same {
                let differ = "one of its files has other columns than the others";
                return Err(other(differ.to_owned()));
            }
            let over_lines = Sample::first(held, format).map_err(read)?.over_lines;
            let format = CsvFormat { over_lines, ..format.clone() };
            sample.add(held.reader(), &format).map_err(read)?;
        }
    }
    sample.has_rows(&a_file)?;
    let wrong = |e| Error::catalog_from(not_in(&a_file, format), e);
    let found = inferred(&sample.text, csv).map_err(wrong)?;
    if let Some((first, _)) = files.first() {
        first.stored.get_or_init(|| with_offsets(&found, &sample.text));
    }
    checked(&found, format, &a_file).map(Some)
}

/// The cells of the first line of a CSV file; `None` if it has no line.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn first_cells(
    held: &Arc<OpenFile>,
    format: &CsvFormat,
) -> io::Result<Option<csv::ByteRecord>> {
    let mut lines = format.lines(held.reader())?;
    let Some(line) = lines.next()? else { return Ok(None) };
    let mut record = csv::ByteRecord::new();
    format.read_cells(line, &mut record);
    Ok(Some(record))
}

/// The first rows of CSV files, as records with commas, decimal points and ISO dates. Other lines
/// are not rows, and have no types. Only the first file's header is among them.
#[derive(Default)]
pub(super) struct Sample {
    text: Vec<u8>,
    rows: usize,
    /// The lines that are records, also those that are not UTF-8.
    records: usize,
    width: Option<usize>,
    /// Whether the first of the whole lines is a header.
    header: bool,
    /// The first line that is not a row: its number, and how many cells it has.
    misfit: Option<(u64, usize)>,
    /// The first line whose quotation does not end, so that it is not a row.
    open: Option<u64>,
    /// Whether rows go over several lines.
    pub(super) over_lines: bool,
}

impl Sample {
    /// The first rows of a file. Quotations go on in the next line if all of these rows are then
    /// well formed.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn first(held: &Arc<OpenFile>, format: &CsvFormat) -> io::Result<Self> {
        let mut by_lines = Self::default();
        by_lines.add(held.reader(), format)?;
        if by_lines.open.is_some() {
            let mut over_lines = Self { over_lines: true, ..Self::default() };
            let format = CsvFormat { over_lines: true, ..format.clone() };
            over_lines.add(held.reader(), &format)?;
            if over_lines.misfit.is_none() && over_lines.records > 0 {
                return Ok(over_lines);
            }
        }
        Ok(by_lines)
    }

    fn add(&mut self, file: FileReader, format: &CsvFormat) -> io::Result<()> {
        let mut lines = format.lines(file)?;
        if self.rows > 0 && format.header {
            lines.next()?;
        }
        let mut record = csv::ByteRecord::new();
        while self.rows < INFERRED_ROWS {
            let Some(line) = lines.next()? else { break };
            let is_text = std::str::from_utf8(line).is_ok();
            let is_closed = format.read_cells(line, &mut record);
            let is_whole = !format.over_lines || !line.contains(&b'\n') || format.is_strict(line);
            let is_record = is_closed
                && is_whole
                && (is_text || self.rows > 0)
                && *self.width.get_or_insert(record.len()) == record.len();
            self.records += usize::from(is_record);
            match is_record && is_text {
                true => self.write(&record, format)?,
                // Without a first line, the number of columns is unknown.
                false if self.rows == 0 => {
                    self.open = (!is_closed).then(|| lines.first_line());
                    return Ok(());
                }
                false if is_record => {}
                false => {
                    let number = lines.first_line();
                    self.misfit.get_or_insert((number, record.len()));
                    if !is_closed {
                        self.open.get_or_insert(number);
                    }
                }
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// Adds a record of a CSV file. The first one may be a header, whose names stay as they are.
    fn write(&mut self, record: &csv::ByteRecord, format: &CsvFormat) -> io::Result<()> {
        let is_header = format.header && self.rows == 0;
        self.header |= is_header;
        let mut writer = csv::Writer::from_writer(&mut self.text);
        for cell in record {
            let text = std::str::from_utf8(cell).unwrap_or_default();
            match is_header {
                true => writer.write_field(cell)?,
                false => writer.write_field(format.cells.usual(text).as_ref())?,
            }
        }
        writer.write_record(None::<&[u8]>)?;
        writer.flush()
    }

    /// Refuses files of which no line is a row, although there are lines below the header.
    ///
    /// # Errors
    /// [`Error::Catalog`], with the number of the first such line.
    fn has_rows(&self, shown: &str) -> Result<(), Error> {
        if let (0, Some(line)) = (self.records, self.open) {
            return Err(Error::catalog(format!(
                "{shown} is not a CSV file: line {line} has an open quotation mark, and the lines behind it are no text over several lines; OPTIONS ('quote' '') reads quotation marks as text, and OPTIONS ('escape' '\\') a mark behind a backslash"
            )));
        }
        match (self.misfit, self.width) {
            (Some((line, cells)), Some(width)) if self.header && self.records == 1 => {
                Err(no_row(shown, line, cells, width))
            }
            _ => Ok(()),
        }
    }
}

fn no_row(shown: &str, line: u64, cells: usize, width: usize) -> Error {
    let are = |n: usize| if n == 1 { "1 cell".to_owned() } else { format!("{n} cells") };
    // A line with an open quotation mark has no cells.
    Error::catalog(match cells == 0 {
        false => format!(
            "no line of {shown} below its header is a row: the header has {}, and line {line} has {}; give the header a name for each cell, or write OPTIONS ('has_header' 'false')",
            are(width),
            are(cells)
        ),
        true => format!(
            "no line of {shown} below its header is a row: line {line} has an open quotation mark; OPTIONS ('quote' '') reads quotation marks as text, and OPTIONS ('escape' '\\') a mark behind a backslash"
        ),
    })
}

/// A column with the type that its cells are read as. Dates are in days and moments in
/// microseconds, whatever a file holds, and all texts have one type. Otherwise the writer or the
/// rows would decide the type.
pub(super) fn plain(field: &Field, format: FileFormat) -> Field {
    let data_type = match (field.data_type(), declared_type(field.data_type())) {
        // Lists and objects in a text file are read as text, because a cell must fit its column's
        // type.
        (nested, _) if nested.is_nested() && format == FileFormat::Json => DataType::Utf8,
        (_, _) if is_uuid(field) => DataType::Utf8,
        // Parquet's reader looks the words of dictionaries up.
        (_, DataType::Dictionary(_, value)) if format != FileFormat::Arrow => *value,
        (_, own) => own,
    };
    Field::new(field.name(), data_type, true)
}

/// Whether the bytes of a column are UUIDs, as its file says.
pub(super) fn is_uuid(field: &Field) -> bool {
    let says = field.metadata().get(EXTENSION_TYPE_NAME_KEY);
    *field.data_type() == UUID && says.is_some_and(|name| name == UUID_NAME)
}

/// The columns of a Parquet file. Some writers say only in Parquet's own types which are UUIDs.
fn with_uuids(columns: &Schema, parquet: &SchemaDescriptor) -> SchemaRef {
    let roots = parquet.root_schema().get_fields();
    let fields = columns.fields().iter().zip(roots).map(|(field, root)| {
        match root.get_basic_info().logical_type_ref() {
            Some(LogicalType::Uuid) if *field.data_type() == UUID => {
                let says = (EXTENSION_TYPE_NAME_KEY.to_owned(), UUID_NAME.to_owned());
                Arc::new(field.as_ref().clone().with_metadata([says].into()))
            }
            Some(_) | None => Arc::clone(field),
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns as which the rows of two files are read.
///
/// # Errors
/// How they differ, if they cannot be one table.
fn wider(one: &SchemaRef, other: &SchemaRef, format: FileFormat) -> Result<SchemaRef, String> {
    if one.fields().len() != other.fields().len() {
        return Err(format!(
            "one of its files has {} columns, and another one {}",
            one.fields().len(),
            other.fields().len()
        ));
    }
    let fields = one.fields().iter().zip(other.fields()).map(|(a, b)| {
        let (to, from) = (a.data_type(), b.data_type());
        if a.name() == b.name() && is_wider(from, to, format) {
            Ok(a.as_ref().clone())
        } else if a.name() == b.name() && is_wider(to, from, format) {
            Ok(b.as_ref().clone())
        } else {
            let said = [a, b]
                .map(|field| format!("{} {}", quoted(field.name()), sql_type(field.data_type())));
            let [one, other] = said;
            Err(format!("one of its files has {one}, and another one {other} in its place"))
        }
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>, String>>()?)))
}

/// Whether a column of one file can be read as that of another: the types are equal, or this one is
/// wider. Some programs write whole numbers if a file has no fractions.
fn is_wider(from: &DataType, to: &DataType, format: FileFormat) -> bool {
    let whole = matches!(from, DataType::Int32 | DataType::Int64);
    let has_types = matches!(format, FileFormat::Parquet | FileFormat::Arrow);
    let is_double = has_types && whole && *to == DataType::Float64;
    from == to || is_double || widens(from, to)
}

/// Whether a column of a file can be read as a column of a declared type: of a wider type, or of
/// whole numbers where the file has floats.
pub(super) fn is_read_as(from: &DataType, to: &DataType, format: FileFormat) -> bool {
    is_wider(from, to, format) || counts_as_whole(from, to)
}

/// How the columns of a file differ from the declared ones; `None` if they do not.
pub(super) fn other_columns(
    schema: &SchemaRef,
    table: &Table,
    format: FileFormat,
) -> Option<String> {
    let declared = table.file_columns();
    let said: Vec<String> = schema
        .fields()
        .iter()
        .zip(declared)
        .filter(|(field, column)| !fits(field, column, format))
        .map(|(field, column)| {
            let to = DataType::from_str(&column.data_type).unwrap_or(DataType::Null);
            let (own, name) = (quoted(field.name()), quoted(&column.name));
            let (is, to) = (sql_type(field.data_type()), sql_type(&to));
            format!("{own} {is} in the place of {name} {to}")
        })
        .take(MOST_NAMED)
        .collect();
    match (schema.fields().len(), declared.len()) {
        (has, of) if has != of => Some(format!("{has} columns, not {of}")),
        _ if said.is_empty() => None,
        _ => Some(said.join(", ")),
    }
}

/// The most columns that a message about a file names.
const MOST_NAMED: usize = 5;

/// Whether a column of a file is read as a declared column.
fn fits(field: &Field, column: &Column, format: FileFormat) -> bool {
    let declared = DataType::from_str(&column.data_type);
    let is_own = field.data_type().to_string() == column.data_type;
    *field.name() == column.name
        && (is_own
            || declared.is_ok_and(|to| is_read_as(field.data_type(), &declared_type(&to), format)))
}

/// The declared columns as a schema.
///
/// # Errors
/// [`Error::Catalog`] for a type that this version does not know.
pub(super) fn schema_of_columns(columns: &[Column]) -> Result<SchemaRef, Error> {
    let fields = columns
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
