//! Rows of texts, for answers of the server itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};

use super::client::Failed;
use super::encode::EncodedTable;
use super::sqlstate::said;

/// Rows of texts.
pub(super) fn texts(columns: &[(&str, Vec<String>)]) -> Result<EncodedTable, Failed> {
    let columns = columns.iter().map(|(name, texts)| {
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        (*name, column)
    });
    let batch = RecordBatch::try_from_iter(columns);
    let batch = batch.map_err(|_| said("XX000", "these rows cannot be made"))?;
    Ok(EncodedTable { schema: batch.schema(), batches: vec![batch] })
}
