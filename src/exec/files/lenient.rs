//! CSV and newline-delimited JSON, read so that no row can make the reading fail.
//!
//! In: a text file and the declared columns. Out: batches of those columns. A cell that is no value of its
//! column's type is NULL; a line with another number of cells, or that is no JSON object, is a row of
//! NULLs; bytes that are no UTF-8 are NULL. Only the disk can fail.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;

/// Rows a batch.
const BATCH: usize = 8_192;

/// The text format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Comma-separated values.
    Csv {
        /// Whether the first line names the columns.
        header: bool,
        /// What separates cells.
        delimiter: u8,
    },
    /// One JSON object a line.
    Json,
}

/// A text file with declared columns.
pub(super) struct LenientFile {
    path: PathBuf,
    shape: Shape,
    schema: SchemaRef,
}

impl fmt::Debug for LenientFile {
    /// Paths stay out of plans and messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LenientFile").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl LenientFile {
    pub(super) fn new(path: &str, shape: Shape, schema: SchemaRef) -> Self {
        Self { path: PathBuf::from(path), shape, schema }
    }
}

impl PartitionStream for LenientFile {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let output = builder.tx();
        let (path, shape, schema) = (self.path.clone(), self.shape, Arc::clone(&self.schema));
        builder.spawn_blocking(move || {
            let mut rows = Rows::new(&schema);
            let mut emit = |batch: RecordBatch| output.blocking_send(Ok(batch)).is_ok();
            match shape {
                Shape::Csv { header, delimiter } => {
                    csv_rows(File::open(path)?, header, delimiter, &mut rows, &mut emit)?;
                }
                Shape::Json => json_rows(File::open(path)?, &mut rows, &mut emit)?,
            }
            if rows.len > 0 {
                emit(rows.batch()?);
            }
            Ok(())
        });
        builder.build()
    }
}

/// Cells as text, until a batch is full.
struct Rows {
    schema: SchemaRef,
    columns: Vec<StringBuilder>,
    len: usize,
}

impl Rows {
    fn new(schema: &SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|_| StringBuilder::new()).collect();
        Self { schema: Arc::clone(schema), columns, len: 0 }
    }

    /// Adds a row; true when the batch is full.
    fn push<'a>(&mut self, cells: impl Iterator<Item = Option<&'a str>>) -> bool {
        let mut cells = cells;
        for column in &mut self.columns {
            column.append_option(cells.next().flatten());
        }
        self.len += 1;
        self.len == BATCH
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        let lenient = CastOptions { safe: true, ..CastOptions::default() };
        let columns = self
            .columns
            .iter_mut()
            .zip(self.schema.fields())
            .map(|(builder, field)| {
                let text: ArrayRef = Arc::new(builder.finish());
                cast_with_options(&text, field.data_type(), &lenient)
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.len = 0;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// Reads line by line: a quotation that never ends spoils its own line, not the rest of the file.
fn csv_rows(
    file: File,
    header: bool,
    delimiter: u8,
    rows: &mut Rows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    let mut cells = Cells::new(delimiter);
    if header {
        reader.read_until(b'\n', &mut line)?;
    }
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = line.trim_ascii_end();
        if text.is_empty() {
            continue;
        }
        let whole = cells.split(text) == Some(rows.columns.len());
        let row = cells.iter().map(|cell| cell.filter(|text| whole && !text.is_empty()));
        if rows.push(row) && !emit(rows.batch()?) {
            return Ok(());
        }
    }
}

/// The names in the first line of a CSV file.
pub(super) fn header(path: &std::path::Path, delimiter: u8) -> std::io::Result<Vec<String>> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?).read_until(b'\n', &mut line)?;
    let mut cells = Cells::new(delimiter);
    cells.split(line.trim_ascii_end());
    Ok(cells.iter().map(|cell| cell.unwrap_or_default().to_owned()).collect())
}

/// The cells of one line; the buffers are used again for the next.
struct Cells {
    reader: csv_core::Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Cells {
    fn new(delimiter: u8) -> Self {
        let reader = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Self { reader, bytes: Vec::new(), ends: vec![0; 64], count: 0 }
    }

    /// Splits a line; the number of its cells, `None` when its quotation marks do not pair.
    fn split(&mut self, line: &[u8]) -> Option<usize> {
        self.count = 0;
        self.reader.reset();
        if self.bytes.len() < line.len() {
            self.bytes.resize(line.len(), 0);
        }
        // One cell more than there are bytes is more than there can be.
        if self.ends.len() < line.len() + 2 {
            self.ends.resize(line.len() + 2, 0);
        }
        let (_, read, written, ended) =
            self.reader.read_record(line, &mut self.bytes, &mut self.ends);
        let rest = self.ends.get_mut(ended..)?;
        // An empty input tells the reader that the line is over.
        let (_, _, _, last) = self.reader.read_record(&[], self.bytes.get_mut(written..)?, rest);
        self.count = ended + last;
        let quotes = line.iter().filter(|byte| **byte == b'"').count();
        (read == line.len() && quotes.is_multiple_of(2)).then_some(self.count)
    }

    /// The cells as text; `None` for bytes that are no UTF-8.
    fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        let ends = self.ends.iter().take(self.count).copied();
        ends.scan(0, |start, end| {
            let cell = self.bytes.get(*start..end).unwrap_or_default();
            *start = end;
            Some(std::str::from_utf8(cell).ok())
        })
    }
}

fn json_rows(file: File, rows: &mut Rows, emit: &mut dyn FnMut(RecordBatch) -> bool) -> Result<()> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    let names: Vec<String> = rows.schema.fields().iter().map(|f| f.name().clone()).collect();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let object: Option<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_slice(&line).ok();
        let cells: Vec<Option<String>> = names
            .iter()
            .map(|name| match object.as_ref()?.get(name)? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            })
            .collect();
        if rows.push(cells.iter().map(Option::as_deref)) && !emit(rows.batch()?) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An open quotation once swallowed every line behind it, so that one person changed a count by all others.
    #[test]
    fn a_line_spoils_itself_only() {
        let mut cells = Cells::new(b',');
        assert_eq!(cells.split(br#"1,"a ""b"",c",3"#), Some(3));
        let found: Vec<_> = cells.iter().collect();
        assert_eq!(found, [Some("1"), Some(r#"a "b",c"#), Some("3")]);
        assert_eq!(cells.split(br#"5000,"eve,40"#), None);
        assert_eq!(cells.split(b"7,,x"), Some(3));
        assert_eq!(cells.iter().collect::<Vec<_>>(), [Some("7"), Some(""), Some("x")]);
        assert_eq!(cells.split(b"8,\xff"), Some(2));
        assert_eq!(cells.iter().collect::<Vec<_>>(), [Some("8"), None]);
        assert_eq!(cells.split(b"a"), Some(1));
        assert_eq!(cells.split(b",,,"), Some(4));
    }
}
