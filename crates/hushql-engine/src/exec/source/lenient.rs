//! Reads CSV and newline-delimited JSON so that no row can make the reading fail.
//!
//! In: a text file and the declared columns. Out: batches of those columns. A cell that does not
//! fit its column's type is NULL. A line is not a row if it has another number of cells or an open
//! quotation, or is not a JSON object; it belongs to no privacy unit. (Where each row is a privacy
//! unit, a row of NULLs would be another person, and a text with a line break would make two people
//! of one.) Bytes that are not UTF-8 are NULL, and so is a cell of more than 16 MiB. Only a disk
//! error or a damaged compressed file makes the reading fail. Each line is at most one row, so one
//! person's text never affects how another person's line is read.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;

use super::compressed::Compression;
use super::open_files::{FileReader, OpenFile};
use crate::functions::with_seconds;

/// The most rows in a batch.
const BATCH: usize = 8_192;

/// The number of bytes of text at which a batch is full: long cells make short batches, far below
/// the limit of a text array.
const BATCH_BYTES: usize = 16 << 20;

/// The text format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextFormat {
    /// Comma-separated values.
    Csv {
        /// Whether the first line names the columns.
        header: bool,
        /// The separator of cells.
        delimiter: u8,
        /// How the file is compressed.
        compression: Compression,
    },
    /// One JSON object in each line.
    Json {
        /// How the file is compressed.
        compression: Compression,
    },
}

impl TextFormat {
    /// The same format with another compression.
    pub(super) fn compressed(self, compression: Compression) -> Self {
        match self {
            Self::Csv { header, delimiter, .. } => Self::Csv { header, delimiter, compression },
            Self::Json { .. } => Self::Json { compression },
        }
    }

    /// Whether the file itself names its columns.
    pub(super) fn has_names(self) -> bool {
        !matches!(self, Self::Csv { header: false, .. })
    }

    /// The lines of a file of this format.
    ///
    /// # Errors
    /// If there is not enough memory to expand a compressed file.
    pub(super) fn lines(self, file: FileReader) -> io::Result<LineReader> {
        let (Self::Csv { compression, .. } | Self::Json { compression }) = self;
        Ok(LineReader::new(compression.text(file)?))
    }
}

/// One text file, and the cells that its folders add to each of its rows: those of the last
/// columns.
pub(super) struct TextFile {
    pub(super) held: Arc<OpenFile>,
    pub(super) shape: TextFormat,
    pub(super) behind: Vec<Option<String>>,
}

/// Text files with declared columns, one after the other.
pub(super) struct LenientFiles {
    files: Vec<TextFile>,
    schema: SchemaRef,
}

impl fmt::Debug for LenientFiles {
    /// Paths and the number of files must not appear in plans and messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LenientFiles").finish_non_exhaustive()
    }
}

impl LenientFiles {
    pub(super) fn new(files: Vec<TextFile>, schema: SchemaRef) -> Self {
        Self { files, schema }
    }
}

impl PartitionStream for LenientFiles {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let output = builder.tx();
        let files = self.files.iter();
        let files = files.map(|file| (file.held.reader(), file.shape, file.behind.clone()));
        let (files, schema) = (files.collect::<Vec<_>>(), Arc::clone(&self.schema));
        builder.spawn_blocking(move || {
            let mut rows = TextRows::new(&schema);
            let mut emit = |batch: RecordBatch| output.blocking_send(Ok(batch)).is_ok();
            for (file, shape, behind) in files {
                if output.is_closed() {
                    break;
                }
                rows.behind = behind;
                let lines = shape.lines(file)?;
                match shape {
                    TextFormat::Csv { header, delimiter, .. } => {
                        csv_rows(lines, header, delimiter, &mut rows, &mut emit)?;
                    }
                    TextFormat::Json { .. } => json_rows(lines, &mut rows, &mut emit)?,
                }
            }
            if rows.len > 0 {
                emit(rows.batch()?);
            }
            Ok(())
        });
        builder.build()
    }
}

/// How to read the cells of a column before they are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    /// Unchanged.
    Text,
    /// Without blanks at both ends.
    Plain,
    /// Without blanks, and without a fraction of zeros: some programs write 5 as `5.0` if other
    /// values are missing.
    Whole,
    /// Without blanks, and with seconds if the moment ends with its minutes.
    Moment,
}

impl CellKind {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            text if text.is_string() => Self::Text,
            DataType::Timestamp(..) | DataType::Date32 => Self::Moment,
            whole if whole.is_integer() => Self::Whole,
            _ => Self::Plain,
        }
    }

    fn read(self, cell: &str) -> Cow<'_, str> {
        match self {
            Self::Text => Cow::Borrowed(cell),
            Self::Plain => Cow::Borrowed(cell.trim_ascii()),
            Self::Moment => with_seconds(cell.trim_ascii()),
            Self::Whole => Cow::Borrowed(without_zeros(cell.trim_ascii())),
        }
    }
}

/// A whole number without its fraction of zeros; any other text unchanged.
fn without_zeros(cell: &str) -> &str {
    match cell.split_once('.') {
        Some((whole, zeros))
            if whole.ends_with(|digit: char| digit.is_ascii_digit())
                && !zeros.is_empty()
                && zeros.bytes().all(|digit| digit == b'0') =>
        {
            whole
        }
        Some(_) | None => cell,
    }
}

/// Cells as text, collected until a batch is full.
struct TextRows {
    schema: SchemaRef,
    columns: Vec<StringBuilder>,
    kinds: Vec<CellKind>,
    /// The cells of the last columns, the same in every row.
    behind: Vec<Option<String>>,
    len: usize,
    bytes: usize,
    /// For each column, the number of cells with a text that does not fit its type.
    unfit: Vec<u64>,
}

impl TextRows {
    fn new(schema: &SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|_| StringBuilder::new()).collect();
        let kinds: Vec<CellKind> =
            schema.fields().iter().map(|field| CellKind::of(field.data_type())).collect();
        let behind = Vec::new();
        let unfit = vec![0; kinds.len()];
        Self { schema: Arc::clone(schema), columns, kinds, behind, len: 0, bytes: 0, unfit }
    }

    /// The number of cells that a row has in the file.
    fn own(&self) -> usize {
        self.columns.len().saturating_sub(self.behind.len())
    }

    /// Adds a row; true if the batch is full.
    fn push<'a>(&mut self, cells: impl Iterator<Item = Option<&'a str>>) -> bool {
        let own = self.own();
        let mut cells = cells.chain(std::iter::repeat(None));
        let mut behind = self.behind.iter().map(Option::as_deref);
        for (i, (column, kind)) in self.columns.iter_mut().zip(&self.kinds).enumerate() {
            let cell = if i < own { cells.next() } else { behind.next() };
            // A batch's text array must stay below its limit, so a longer cell is NULL.
            let cell = cell.flatten().filter(|cell| cell.len() <= BATCH_BYTES);
            let cell = cell.map(|cell| kind.read(cell));
            let cell = cell.filter(|cell| !cell.is_empty() || *kind == CellKind::Text);
            self.bytes += cell.as_deref().map_or(0, str::len);
            column.append_option(cell);
        }
        self.len += 1;
        self.len == BATCH || self.bytes >= BATCH_BYTES
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        let lenient = CastOptions { safe: true, ..CastOptions::default() };
        let columns = self
            .columns
            .iter_mut()
            .zip(self.schema.fields())
            .zip(&mut self.unfit)
            .map(|((builder, field), unfit)| {
                let text: ArrayRef = Arc::new(builder.finish());
                let values = cast_with_options(&text, field.data_type(), &lenient)?;
                let lost = values.null_count().saturating_sub(text.null_count());
                *unfit = unfit.saturating_add(u64::try_from(lost).unwrap_or(u64::MAX));
                Ok::<_, ArrowError>(values)
            })
            .collect::<Result<Vec<_>, _>>()?;
        (self.len, self.bytes) = (0, 0);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// For each column of a file, the number of cells with a text that does not fit the column's type;
/// each of them is NULL.
///
/// # Errors
/// If the disk fails, or a compressed file is damaged.
pub(super) fn unfit_cells(
    file: &Arc<OpenFile>,
    shape: TextFormat,
    schema: &SchemaRef,
) -> Result<Vec<u64>> {
    let mut rows = TextRows::new(schema);
    let lines = shape.lines(file.reader())?;
    match shape {
        TextFormat::Csv { header, delimiter, .. } => {
            csv_rows(lines, header, delimiter, &mut rows, &mut |_| true)?;
        }
        TextFormat::Json { .. } => json_rows(lines, &mut rows, &mut |_| true)?,
    }
    rows.batch()?;
    Ok(rows.unfit)
}

fn csv_rows(
    mut lines: LineReader,
    header: bool,
    delimiter: u8,
    rows: &mut TextRows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    if header {
        lines.next()?;
    }
    let mut record = csv::ByteRecord::new();
    while let Some(line) = lines.next()? {
        if !read_cells(line, delimiter, &mut record) || record.len() != rows.own() {
            continue;
        }
        let cells = record
            .iter()
            .map(|cell| std::str::from_utf8(cell).ok().filter(|text| !text.is_empty()));
        if rows.push(cells) && !emit(rows.batch()?) {
            break;
        }
    }
    Ok(())
}

/// The lines of a text file without their line endings. It skips empty lines and a byte order mark.
pub(super) struct LineReader {
    reader: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    first: bool,
}

impl LineReader {
    fn new(text: Box<dyn Read + Send>) -> Self {
        let reader = BufReader::with_capacity(1 << 20, text);
        Self { reader, line: Vec::new(), first: true }
    }

    /// The next line.
    ///
    /// # Errors
    /// If the disk fails, or a compressed file is damaged.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            self.line.clear();
            if self.reader.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.first && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            self.first = false;
            while self.line.pop_if(|byte| matches!(byte, b'\n' | b'\r')).is_some() {}
            if !self.line.is_empty() {
                return Ok(Some(&self.line));
            }
        }
    }
}

/// Splits a line of a CSV file into cells; false if it is not one record.
///
/// A quotation ends with its line at the latest. Otherwise one person's open quotation mark would
/// hide the lines of all people after it.
pub(super) fn read_cells(line: &[u8], delimiter: u8, record: &mut csv::ByteRecord) -> bool {
    record.clear();
    if !line.contains(&b'"') {
        line.split(|byte| *byte == delimiter).for_each(|cell| record.push_field(cell));
        return true;
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .flexible(true)
        .buffer_capacity(line.len())
        .from_reader(line);
    let closed = line.iter().filter(|byte| **byte == b'"').count() % 2 == 0;
    closed
        && matches!(reader.read_byte_record(record), Ok(true))
        && !matches!(reader.read_byte_record(&mut csv::ByteRecord::new()), Ok(true))
}

fn json_rows(
    mut lines: LineReader,
    rows: &mut TextRows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    let own = rows.schema.fields().iter().take(rows.own());
    let names: Vec<String> = own.map(|f| f.name().clone()).collect();
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Some(object) = read_object(line) else { continue };
        let cells: Vec<Option<String>> = names
            .iter()
            .map(|name| match object.get(name)? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            })
            .collect();
        if rows.push(cells.iter().map(Option::as_deref)) && !emit(rows.batch()?) {
            break;
        }
    }
    Ok(())
}

/// The JSON object in a line, if the line is one.
pub(super) fn read_object(line: &[u8]) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    /// The first cells of all rows, which are numbers.
    fn first_cells(shape: TextFormat, text: &'static str) -> Vec<Option<i64>> {
        let fields = [("id", DataType::Int64), ("note", DataType::Utf8View)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let mut rows = TextRows::new(&Arc::new(Schema::new(fields.to_vec())));
        let lines = LineReader::new(Box::new(text.as_bytes()));
        let mut emit = |_: RecordBatch| panic!("the batch is full");
        match shape {
            TextFormat::Csv { header, delimiter, .. } => {
                csv_rows(lines, header, delimiter, &mut rows, &mut emit).unwrap();
            }
            TextFormat::Json { .. } => json_rows(lines, &mut rows, &mut emit).unwrap(),
        }
        let batch = rows.batch().unwrap();
        assert_eq!(batch.column(1).len(), batch.num_rows());
        batch.column(0).as_primitive::<Int64Type>().iter().collect()
    }

    /// A cell is read as CAST reads a text: blanks at both ends and missing seconds are allowed.
    #[test]
    fn moments_are_read_without_seconds_and_with_blanks() {
        let micros = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
        let fields = [("at", micros), ("day", DataType::Date32), ("n", DataType::Int64)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let mut rows = TextRows::new(&Arc::new(Schema::new(fields.to_vec())));
        let of =
            |hour: i64, minute: i64| Some((19_727 * 24 * 60 + hour * 60 + minute) * 60_000_000);
        let cells = [
            ("2024-01-05 10:30", of(10, 30)),
            ("2024-01-05T10:30", of(10, 30)),
            (" 2024-01-05 10:30 ", of(10, 30)),
            ("2024-01-05 10:30+01", of(9, 30)),
            ("2024-01-05 10:30:00", of(10, 30)),
            (" 2024-01-05", of(0, 0)),
            ("2024-01-05\t", of(0, 0)),
            ("2024-01-05 10:3", None),
            ("5.1.2024", None),
            ("  ", None),
        ];
        for (text, _) in cells {
            assert!(!rows.push([text, " 2024-01-05 ", " 7 "].into_iter().map(Some)));
        }
        let batch = rows.batch().unwrap();
        let moments = batch.column(0).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        let expected = cells.map(|(_, moment)| moment);
        assert_eq!(moments.iter().collect::<Vec<_>>(), expected);
        assert!(
            (0..cells.len()).all(|i| batch.column(1).is_valid(i) && batch.column(2).is_valid(i))
        );
    }

    /// A whole number may have a fraction of zeros, and no other fraction, exponent or text.
    #[test]
    fn whole_numbers_may_have_zeros() {
        let shape = TextFormat::Csv {
            header: false,
            delimiter: b',',
            compression: Compression::Uncompressed,
        };
        let text = "5.0,a\n -7.000 ,a\n3,a\n5.,a\n.0,a\n-.0,a\n5.01,a\n5.0.0,a\n1.0e3,a\n+4.0,a\n";
        let expected = [Some(5), Some(-7), Some(3), None, None, None, None, None, None, Some(4)];
        assert_eq!(first_cells(shape, text), expected);
    }

    /// Where each row is a privacy unit, a record over two lines must not count as two people.
    #[test]
    fn a_line_that_cannot_be_read_is_no_row() {
        let csv = TextFormat::Csv {
            header: true,
            delimiter: b',',
            compression: Compression::Uncompressed,
        };
        for (text, expected) in [
            ("id,note\n1,one\n2,\"two\nlines\"\n3,three\n", vec![Some(1), Some(3)]),
            ("id,note\n1,one\n2,\"two\n\nmore, lines\"\n3,three\n", vec![Some(1), Some(3)]),
            ("id,note\n1,one,more\n2\n3,\"a \"\"b\"\"\"\n", vec![Some(3)]),
            // A cell that is not a number is NULL, in a row that can be read.
            ("id,note\nx,one\n,\n4,\"four\"\n", vec![None, None, Some(4)]),
            ("id,note\n", vec![]),
        ] {
            assert_eq!(first_cells(csv, text), expected, "{text}");
        }
        let json = TextFormat::Json { compression: Compression::Uncompressed };
        let text = "{\"id\": 1}\n[2]\n{\"id\"\n\n{\"note\": \"x\"}\n4\nnull\n{\"id\": 5, \"note\": \"a\\nb\"}\n";
        assert_eq!(first_cells(json, text), [Some(1), None, Some(5)]);
    }
}
