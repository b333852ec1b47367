//! Reads some columns of Parquet and Arrow files for an owner's declaration, outside of any plan.
//!
//! In: an open file, and places of columns in it. Out: batches of these columns.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::common::Result;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use super::open_files::{Chunks, OpenFile};
use super::version_columns::selected_rows;
use crate::catalog::FileFormat;

/// Rows, or the reason why they cannot be read.
type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>>>;

/// The rows of these columns, by their places in the file, without those that a log of Delta Lake
/// deletes.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn batches_of(
    held: &Arc<OpenFile>,
    format: FileFormat,
    columns: &[usize],
) -> Result<Batches> {
    if format == FileFormat::Arrow {
        let projection = Some(columns.to_vec());
        return Ok(Box::new(arrow::ipc::reader::FileReader::try_new(held.reader(), projection)?));
    }
    let file = || Chunks(Arc::clone(held));
    let footer = ArrowReaderMetadata::load(&file(), ArrowReaderOptions::default())?;
    let rows = ParquetRecordBatchReaderBuilder::new_with_metadata(file(), footer);
    let only = ProjectionMask::roots(rows.parquet_schema(), columns.iter().copied());
    let rows = rows.with_projection(only);
    let rows = match selected_rows(held)? {
        Some(selected) => rows.with_row_selection(selected),
        None => rows,
    };
    Ok(Box::new(rows.build()?))
}
