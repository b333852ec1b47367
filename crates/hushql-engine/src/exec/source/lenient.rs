//! Reads CSV and newline-delimited JSON so that no row can make the reading fail.
//!
//! In: a text file and the declared columns. Out: batches of those columns. A cell that does not
//! fit its column's type is NULL. A line is not a row if it has another number of cells or an open
//! quotation, or is not a JSON object; it belongs to no privacy unit. (Where each row is a privacy
//! unit, a row of NULLs would be another person, and a text with a line break would make two people
//! of one.) Bytes that are not UTF-8 are NULL, and so is a cell of more than 16 MiB. Only a disk
//! error or a damaged compressed file makes the reading fail. Each line is at most one row, so one
//! person's text never affects how another person's line is read. A record has several lines only
//! in files that a declaration found well formed, and that did not change since (see
//! `well_formed`).

use std::fmt;
use std::io;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;

use super::cell_reader::{CellFormat, CellReader, ReadCell};
use super::compressed::Compression;
use super::csv_format::CsvFormat;
use super::fitting_types::CellCounts;
use super::json_objects::{DocumentState, read_object, written_values};
use super::line_reader::{LineReader, RecordKind};
use super::open_files::{FileReader, OpenFile};

/// The most rows in a batch.
const BATCH: usize = 8_192;

/// The number of bytes of text at which a batch is full: long cells make short batches, far below
/// the limit of a text array.
const BATCH_BYTES: usize = 16 << 20;

/// The text format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextFormat {
    /// Comma-separated values.
    Csv(CsvFormat),
    /// JSON objects.
    Json {
        /// How the file is compressed.
        compression: Compression,
        /// Whether the objects may go over several lines or be in an array; otherwise each line is
        /// one.
        over_lines: bool,
    },
}

impl TextFormat {
    /// The same format with another compression.
    pub(super) fn compressed(self, compression: Compression) -> Self {
        match self {
            Self::Csv(format) => Self::Csv(CsvFormat { compression, ..format }),
            Self::Json { over_lines, .. } => Self::Json { compression, over_lines },
        }
    }

    /// The same format with records that may go over several lines, or with one in each line.
    pub(super) fn over_lines(self, over_lines: bool) -> Self {
        match self {
            Self::Csv(format) => Self::Csv(CsvFormat { over_lines, ..format }),
            Self::Json { compression, .. } => Self::Json { compression, over_lines },
        }
    }

    /// Whether the file itself names its columns.
    pub(super) fn has_names(&self) -> bool {
        match self {
            Self::Csv(format) => format.header,
            Self::Json { .. } => true,
        }
    }

    /// How the file is compressed.
    pub(super) fn compression(&self) -> Compression {
        match self {
            Self::Csv(format) => format.compression,
            Self::Json { compression, .. } => *compression,
        }
    }

    /// How the cells are written.
    fn cells(&self) -> CellFormat {
        match self {
            Self::Csv(format) => format.cells.clone(),
            Self::Json { .. } => CellFormat::default(),
        }
    }

    /// The records of a file of this format.
    ///
    /// # Errors
    /// If there is not enough memory to expand a compressed file.
    pub(super) fn lines(&self, file: FileReader) -> io::Result<LineReader> {
        match self {
            Self::Csv(format) => format.lines(file),
            Self::Json { compression, over_lines } => {
                let kind = match over_lines {
                    true => RecordKind::Object(DocumentState::default()),
                    false => RecordKind::Line,
                };
                Ok(LineReader::new(compression.text(file)?, None, kind))
            }
        }
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
    /// All declared columns.
    declared: SchemaRef,
    /// The columns that are read, by their places among the declared ones.
    wanted: Vec<usize>,
    /// These columns.
    schema: SchemaRef,
}

impl fmt::Debug for LenientFiles {
    /// Paths and the number of files must not appear in plans and messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LenientFiles").finish_non_exhaustive()
    }
}

impl LenientFiles {
    /// The files of a table, of which these columns are read, by their places; all without
    /// `wanted`. Which lines are rows does not depend on it.
    ///
    /// # Errors
    /// Arrow's, for a column that does not exist.
    pub(super) fn new(
        files: Vec<TextFile>,
        declared: SchemaRef,
        wanted: Option<&Vec<usize>>,
    ) -> Result<Self> {
        let wanted: Vec<usize> = match wanted {
            Some(wanted) => wanted.clone(),
            None => (0..declared.fields().len()).collect(),
        };
        let schema = Arc::new(declared.project(&wanted)?);
        Ok(Self { files, declared, wanted, schema })
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
        let files = files.map(|file| (file.held.reader(), file.shape.clone(), file.behind.clone()));
        let files = files.collect::<Vec<_>>();
        let (declared, wanted) = (Arc::clone(&self.declared), self.wanted.clone());
        let schema = Arc::clone(&self.schema);
        // The files of a table have the same options.
        let cells = self.files.first().map(|file| file.shape.cells()).unwrap_or_default();
        builder.spawn_blocking(move || {
            let width = declared.fields().len();
            let mut rows = TextRows { width, wanted, ..TextRows::new(&schema, &cells) };
            let mut emit = |batch: RecordBatch| output.blocking_send(Ok(batch)).is_ok();
            for (file, shape, behind) in files {
                if output.is_closed() {
                    break;
                }
                rows.behind = behind;
                let lines = shape.lines(file)?;
                match shape {
                    TextFormat::Csv(format) => csv_rows(lines, &format, &mut rows, &mut emit)?,
                    TextFormat::Json { .. } => json_rows(lines, &declared, &mut rows, &mut emit)?,
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

/// A cell of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum CellValue<'a> {
    Null,
    Text(&'a str),
    /// No text, and so no value of any type: what the owner is told of it.
    Unfit(&'a str),
}

/// Cells as text, collected until a batch is full.
pub(super) struct TextRows {
    /// The columns that are read.
    schema: SchemaRef,
    /// Their places among all columns, and the number of all columns.
    wanted: Vec<usize>,
    width: usize,
    columns: Vec<StringBuilder>,
    /// How cells are written.
    cells: CellFormat,
    readers: Vec<CellReader>,
    /// The cells of the last columns, the same in every row.
    behind: Vec<Option<String>>,
    len: usize,
    bytes: usize,
    /// The counts for an owner. `None` where nobody asks for them.
    counts: Option<BatchCounts>,
}

/// The counts of each column, and the lines of the rows of the present batch.
struct BatchCounts {
    columns: Vec<CellCounts>,
    lines: Vec<u64>,
    /// What these numbers count: `line` or `row`.
    place: &'static str,
    schema: SchemaRef,
}

impl TextRows {
    /// Rows that count their cells, for an owner.
    pub(super) fn counting(schema: &SchemaRef, place: &'static str) -> Self {
        let counts = Some(BatchCounts { place, ..BatchCounts::new(schema) });
        Self { counts, ..Self::new(schema, &CellFormat::default()) }
    }

    /// The counts of each column.
    pub(super) fn into_counts(self) -> Vec<CellCounts> {
        self.counts.map(|counts| counts.columns).unwrap_or_default()
    }

    /// Whether no row was added since the last batch.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn new(schema: &SchemaRef, cells: &CellFormat) -> Self {
        let columns = schema.fields().iter().map(|_| StringBuilder::new()).collect();
        let reader = |field: &FieldRef| CellReader::new(field.data_type(), cells);
        let readers = schema.fields().iter().map(reader).collect();
        let (schema, cells, behind) = (Arc::clone(schema), cells.clone(), Vec::new());
        let width = schema.fields().len();
        let wanted = (0..width).collect();
        let (len, bytes, counts) = (0, 0, None);
        Self { schema, wanted, width, columns, cells, readers, behind, len, bytes, counts }
    }

    /// The number of cells that a row has in the file.
    fn own(&self) -> usize {
        self.width.saturating_sub(self.behind.len())
    }

    /// The places of the cells of a row in the file that are read.
    fn wanted_cells(&self) -> Vec<usize> {
        let own = self.own();
        self.wanted.iter().copied().filter(|place| *place < own).collect()
    }

    /// Counts the bytes of a row towards those of a batch, so that the columns that are read do not
    /// decide where a batch ends.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds the row of a line, given the cells of the file that are read; true if the batch is
    /// full.
    fn push<'a>(&mut self, line: u64, cells: impl Iterator<Item = Option<&'a str>>) -> bool {
        self.push_values(line, cells.map(|cell| cell.map_or(CellValue::Null, CellValue::Text)))
    }

    /// As [`TextRows::push`].
    pub(super) fn push_values<'a>(
        &mut self,
        line: u64,
        cells: impl Iterator<Item = CellValue<'a>>,
    ) -> bool {
        let own = self.own();
        let mut cells = cells.chain(std::iter::repeat(CellValue::Null));
        let behind = &self.behind;
        let columns = self.columns.iter_mut().zip(&self.readers).zip(&self.wanted);
        for (i, ((column, reader), place)) in columns.enumerate() {
            let cell = match place.checked_sub(own) {
                None => cells.next(),
                Some(at) => behind.get(at).and_then(Option::as_deref).map(CellValue::Text),
            };
            let cell = match cell {
                Some(CellValue::Text(cell)) => Some(cell),
                Some(CellValue::Unfit(what)) => {
                    if let Some(counts) = &mut self.counts {
                        counts.no_text(i, line, what);
                    }
                    None
                }
                Some(CellValue::Null) | None => None,
            };
            // A batch's text array must stay below its limit, so a longer cell is NULL.
            let cell = cell.filter(|cell| cell.len() <= BATCH_BYTES);
            match cell.map(|cell| (cell, reader.read(cell))) {
                Some((_, ReadCell::Text(text))) => column.append_value(text),
                Some((cell, ReadCell::Unfit)) => {
                    column.append_null();
                    if let Some(counts) = &mut self.counts {
                        counts.unfit(i, line, cell, &self.cells);
                    }
                }
                Some((_, ReadCell::Null)) | None => column.append_null(),
            }
        }
        if let Some(counts) = &mut self.counts {
            counts.lines.push(line);
        }
        self.len += 1;
        self.len == BATCH || self.bytes >= BATCH_BYTES
    }

    pub(super) fn batch(&mut self) -> Result<RecordBatch> {
        let lenient = CastOptions { safe: true, ..CastOptions::default() };
        let counts = &mut self.counts;
        let columns = self.columns.iter_mut().zip(self.schema.fields()).enumerate();
        let columns = columns.map(|(i, (builder, field))| {
            let text: ArrayRef = Arc::new(builder.finish());
            let values = cast_with_options(&text, field.data_type(), &lenient)?;
            if let Some(counts) = counts.as_mut() {
                counts.add(i, &text, &values);
            }
            Ok::<_, ArrowError>(values)
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        if let Some(counts) = &mut self.counts {
            counts.lines.clear();
        }
        // No column may be read, and the rows count.
        let len = RecordBatchOptions::new().with_row_count(Some(self.len));
        (self.len, self.bytes) = (0, 0);
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &len)?)
    }
}

impl BatchCounts {
    fn new(schema: &SchemaRef) -> Self {
        let columns = vec![CellCounts::default(); schema.fields().len()];
        Self { columns, lines: Vec::new(), place: "line", schema: Arc::clone(schema) }
    }

    /// Counts a cell of a column that does not fit, in this format.
    fn unfit(&mut self, column: usize, line: u64, cell: &str, cells: &CellFormat) {
        let both = (self.columns.get_mut(column), self.schema.fields().get(column));
        let (Some(counts), Some(field)) = both else { return };
        counts.unfit(line, self.place, cell);
        counts.narrow(field.data_type(), cells, cell);
    }

    /// Counts a cell that is no text.
    fn no_text(&mut self, column: usize, line: u64, what: &str) {
        if let Some(counts) = self.columns.get_mut(column) {
            counts.unfit(line, self.place, what);
        }
    }

    /// Counts the cells of a column of a batch, with their texts and values.
    fn add(&mut self, column: usize, texts: &ArrayRef, values: &ArrayRef) {
        let (texts, valid) = (texts.as_string::<i32>(), values.len() - values.null_count());
        let lost = texts.iter().enumerate().filter(|(row, _)| values.is_null(*row));
        let lost = lost.filter_map(|(row, text)| Some((*self.lines.get(row)?, text?.to_owned())));
        // These are texts as they are cast.
        let usual = CellFormat::default();
        for (line, text) in lost.collect::<Vec<_>>() {
            self.unfit(column, line, &text, &usual);
        }
        let Some(counts) = self.columns.get_mut(column) else { return };
        counts.valid = counts.valid.saturating_add(u64::try_from(valid).unwrap_or(u64::MAX));
        let data_type = values.data_type();
        if let DataType::Date32 | DataType::Decimal128(..) = data_type {
            let read = texts.iter().zip(&self.lines).enumerate();
            for (row, (text, line)) in read {
                if let (Some(text), true) = (text, values.is_valid(row)) {
                    counts.fit(data_type, (*line, self.place), text);
                }
            }
        }
    }
}

/// Whether the cells of a record fit the types of the columns.
///
/// # Errors
/// Arrow's, for a type that no text is cast to.
pub(super) fn cells_fit(
    record: &csv::ByteRecord,
    format: &CsvFormat,
    schema: &SchemaRef,
) -> Result<bool> {
    let mut rows = TextRows::new(schema, &format.cells);
    rows.counts = Some(BatchCounts::new(schema));
    rows.push(1, cells_of(record, &rows.wanted_cells()));
    rows.batch()?;
    Ok(rows.counts.is_some_and(|counts| counts.columns.iter().all(|column| column.unfit == 0)))
}

/// The cells of a record at these places as texts: those that are empty or not UTF-8 have none.
fn cells_of<'a>(
    record: &'a csv::ByteRecord,
    places: &[usize],
) -> impl Iterator<Item = Option<&'a str>> {
    let text = |cell| std::str::from_utf8(cell).ok().filter(|text| !text.is_empty());
    places.iter().map(move |place| record.get(*place).and_then(text))
}

/// The counts of each column of a file.
///
/// # Errors
/// If the disk fails, or a compressed file is damaged.
pub(super) fn count_cells(
    file: &Arc<OpenFile>,
    shape: &TextFormat,
    schema: &SchemaRef,
) -> Result<Vec<CellCounts>> {
    let mut rows = TextRows::new(schema, &shape.cells());
    rows.counts = Some(BatchCounts::new(schema));
    let lines = shape.lines(file.reader())?;
    match shape {
        TextFormat::Csv(format) => csv_rows(lines, format, &mut rows, &mut |_| true)?,
        TextFormat::Json { .. } => json_rows(lines, schema, &mut rows, &mut |_| true)?,
    }
    rows.batch()?;
    Ok(rows.into_counts())
}

fn csv_rows(
    mut lines: LineReader,
    format: &CsvFormat,
    rows: &mut TextRows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    if format.header {
        lines.next()?;
    }
    let (mut record, wanted) = (csv::ByteRecord::new(), rows.wanted_cells());
    while let Some(line) = lines.next()? {
        if !format.read_cells(line, &mut record) || record.len() != rows.own() {
            continue;
        }
        rows.add_bytes(record.as_slice().len());
        if rows.push(lines.first_line(), cells_of(&record, &wanted)) && !emit(rows.batch()?) {
            break;
        }
    }
    Ok(())
}

fn json_rows(
    mut lines: LineReader,
    declared: &SchemaRef,
    rows: &mut TextRows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    let fields = declared.fields();
    let names = rows.wanted_cells().into_iter().filter_map(|place| fields.get(place));
    let names: Vec<String> = names.map(|field| field.name().clone()).collect();
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Some(object) = read_object(line) else { continue };
        let mut written = None;
        let cells: Vec<Option<String>> = names
            .iter()
            .map(|name| match object.get(name)? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                // A parsed fraction may be rounded.
                serde_json::Value::Number(number) if number.is_f64() => {
                    let written = written.get_or_insert_with(|| written_values(line));
                    written.number(name).map(str::to_owned)
                }
                other => Some(other.to_string()),
            })
            .collect();
        let cells = cells.iter().map(Option::as_deref);
        rows.add_bytes(line.len());
        if rows.push(lines.first_line(), cells) && !emit(rows.batch()?) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Field, Int64Type, Schema};

    use super::super::quotation::QuoteMarks;
    use super::*;

    /// The first cells of all rows, which are numbers.
    fn first_cells(shape: TextFormat, text: &'static str) -> Vec<Option<i64>> {
        let fields = [("id", DataType::Int64), ("note", DataType::Utf8View)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let mut rows = TextRows::new(&Arc::new(Schema::new(fields.to_vec())), &shape.cells());
        let comment = match &shape {
            TextFormat::Csv(format) => format.comment,
            TextFormat::Json { .. } => None,
        };
        let over_lines = shape.clone().over_lines(true) == shape;
        let kind = match (&shape, over_lines) {
            (TextFormat::Csv(_), true) => {
                RecordKind::Quoted(QuoteMarks { quote: b'"', escape: None })
            }
            (TextFormat::Json { .. }, true) => RecordKind::Object(DocumentState::default()),
            (_, false) => RecordKind::Line,
        };
        let lines = LineReader::new(Box::new(text.as_bytes()), comment, kind);
        let mut emit = |_: RecordBatch| panic!("the batch is full");
        match shape {
            TextFormat::Csv(format) => csv_rows(lines, &format, &mut rows, &mut emit).unwrap(),
            TextFormat::Json { .. } => {
                let declared = Arc::clone(&rows.schema);
                json_rows(lines, &declared, &mut rows, &mut emit).unwrap();
            }
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
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let mut rows = TextRows::new(&schema, &CellFormat::default());
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
            assert!(!rows.push(1, [text, " 2024-01-05 ", " 7 "].into_iter().map(Some)));
        }
        let batch = rows.batch().unwrap();
        let moments = batch.column(0).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        let expected = cells.map(|(_, moment)| moment);
        assert_eq!(moments.iter().collect::<Vec<_>>(), expected);
        assert!(
            (0..cells.len()).all(|i| batch.column(1).is_valid(i) && batch.column(2).is_valid(i))
        );
    }

    /// A whole number may have a fraction of zeros or an exponent, and no other fraction or text.
    #[test]
    fn whole_numbers_may_have_zeros() {
        let shape = TextFormat::Csv(CsvFormat::plain(false));
        let text = "5.0,a\n -7.000 ,a\n3,a\n5.,a\n.0,a\n-.0,a\n5.01,a\n5.0.0,a\n1.0e3,a\n+4.0,a\n";
        let expected =
            [Some(5), Some(-7), Some(3), Some(5), None, None, None, None, Some(1000), Some(4)];
        assert_eq!(first_cells(shape, text), expected);
    }

    /// Where each row is a privacy unit, a record over two lines must not count as two people.
    #[test]
    fn a_line_that_cannot_be_read_is_no_row() {
        let csv = TextFormat::Csv(CsvFormat::plain(true));
        for (text, expected) in [
            ("id,note\n1,one\n2,\"two\nlines\"\n3,three\n", vec![Some(1), Some(3)]),
            ("id,note\n1,one\n2,\"two\n\nmore, lines\"\n3,three\n", vec![Some(1), Some(3)]),
            ("id,note\n1,one,more\n2\n3,\"a \"\"b\"\"\"\n", vec![Some(3)]),
            // A cell that is not a number is NULL, in a row that can be read.
            ("id,note\nx,one\n,\n4,\"four\"\n", vec![None, None, Some(4)]),
            ("id,note\n", vec![]),
        ] {
            assert_eq!(first_cells(csv.clone(), text), expected, "{text}");
        }
        let json = TextFormat::Json { compression: Compression::Uncompressed, over_lines: false };
        let text = "{\"id\": 1}\n[2]\n{\"id\"\n\n{\"note\": \"x\"}\n4\nnull\n{\"id\": 5, \"note\": \"a\\nb\"}\n";
        assert_eq!(first_cells(json, text), [Some(1), None, Some(5)]);
    }

    /// In well-formed files, a record may have several lines.
    #[test]
    fn records_of_well_formed_files_may_have_several_lines() {
        let csv = TextFormat::Csv(CsvFormat { comment: Some(b'#'), ..CsvFormat::plain(true) });
        let text = "\u{feff}id,note\r\n1,one\r\n# \"\r\n2,\"two\r\n\r\n# lines, \"\"a\"\"\"\r\n\r\n3,three\n";
        assert_eq!(first_cells(csv.over_lines(true), text), [Some(1), Some(2), Some(3)]);
        let json = TextFormat::Json { compression: Compression::Uncompressed, over_lines: true };
        for text in [
            "[{\"id\": 1}, {\"id\": 2,\n\"note\": \"{\"},\n{\"id\": 3}]\n",
            "\u{feff}{\n\"id\": 1\n}\n{\"id\": 2}{\"id\": 3}",
        ] {
            assert_eq!(first_cells(json.clone(), text), [Some(1), Some(2), Some(3)], "{text}");
        }
    }

    /// Comments are lines that begin with the character, anywhere in the file, and no others.
    #[test]
    fn comments_are_no_rows() {
        let commented = CsvFormat { comment: Some(b'#'), ..CsvFormat::plain(true) };
        let text = "# made by X\n#\nid,note\n1,one\n#2,two\n3,#three\n \"#4\",four\n";
        assert_eq!(first_cells(TextFormat::Csv(commented), text), [Some(1), Some(3), None]);
    }

    /// Under every option, the lines of others are read the same with a person's line and without
    /// it, whatever that line is.
    #[test]
    fn no_line_changes_how_others_are_read() {
        let written = [
            ("quote", "'"),
            ("quote", ""),
            ("escape", "\\"),
            ("comment", "#"),
            ("null_value", "NA"),
            ("decimal", ","),
            ("date_format", "%d.%m.%Y"),
        ];
        let lines = [
            "2,\"open",
            "2,'open",
            "2,\"open \\",
            "\"",
            "'",
            "\\",
            "\\\"",
            "#",
            "# \"",
            "NA",
            "NA,NA",
            "2,\"a\"b\"",
            "2,\\\"\\",
            "2,1,3",
            "2e+00,\"\"\"",
            "\r2,\r",
            "2,\u{feff}",
            "",
        ];
        for (key, value) in written {
            let options = [(key.to_owned(), value.to_owned())].into();
            let shape = TextFormat::Csv(CsvFormat::of_options(&options).unwrap());
            for line in lines {
                let text = format!("id,note\n10,a\n{line}\n30,\"c\"\n40,'d'\n");
                let rows = first_cells(shape.clone(), text.leak());
                let others = rows.iter().flatten().filter(|id| **id >= 10);
                assert_eq!(others.collect::<Vec<_>>(), [&10, &30, &40], "{key} {value}: {line}");
                assert!(rows.len() <= 4, "{key} {value}: {line}");
            }
        }
    }
}
