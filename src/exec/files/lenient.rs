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
use datafusion::common::{DataFusionError, Result};
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

fn csv_rows(
    file: File,
    header: bool,
    delimiter: u8,
    rows: &mut Rows,
    emit: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(header)
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(BufReader::with_capacity(1 << 20, file));
    let mut record = csv::ByteRecord::new();
    let external = |e: csv::Error| DataFusionError::External(Box::new(e));
    while reader.read_byte_record(&mut record).map_err(external)? {
        let whole = record.len() == rows.columns.len();
        let cells = record
            .iter()
            .map(|cell| std::str::from_utf8(cell).ok().filter(|text| whole && !text.is_empty()));
        if rows.push(cells) && !emit(rows.batch()?) {
            break;
        }
    }
    Ok(())
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
