//! What a file of an answer holds beside the columns of the query: the ± of its numbers as columns,
//! and what was said about the answer as metadata.
//!
//! In: an answer. Out: its rows with a column `n_error` after each column `n` that has a ±, and
//! texts by their names:
//!
//! ```text
//! hushql.cost      ε = 1
//! hushql.charge    17
//! hushql.accuracy  n: ± 3.00 with 95 %
//! ```
//!
//! What the budgets have left is not among them: it has changed by the time somebody reads the
//! file.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::answer::{Accuracy, AccuracyKind, Answer};
use crate::visible;

/// The name of the column with the errors of a column.
pub(crate) fn error_name(column: &str) -> String {
    format!("{column}_error")
}

/// The rows of an answer, with a column of errors (DOUBLE) after each column of numbers whose ± is
/// known. An error is NULL where no ± is known.
///
/// # Errors
/// None for the columns of an answer; the type is that of Arrow.
pub(crate) fn with_error_columns(
    answer: &Answer,
) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let schema = answer.schema();
    let errors: Vec<Option<Vec<Option<f64>>>> = (0..schema.fields().len())
        .map(|column| has_errors(answer, column).then(|| answer.errors(column).collect()))
        .collect();
    let fields = schema.fields().iter().zip(&errors).flat_map(|(field, errors)| {
        let name = error_name(field.name());
        let error = errors.as_ref().map(|_| Field::new(name, DataType::Float64, true));
        std::iter::once(Arc::clone(field)).chain(error.map(Arc::new))
    });
    let wide = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut first = 0;
    let batches = answer.batches().iter().map(|batch| {
        let rows = batch.num_rows();
        let columns = batch.columns().iter().zip(&errors).flat_map(|(column, errors)| {
            let own = errors.as_ref().map(|errors| {
                let own = errors.iter().skip(first).take(rows).copied();
                Arc::new(own.collect::<Float64Array>()) as ArrayRef
            });
            std::iter::once(Arc::clone(column)).chain(own)
        });
        let columns = columns.collect();
        first += rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&wide), columns, &options)
    });
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    Ok((wide, batches))
}

/// Whether a column has a ±, in one row or for all of them: an answer without rows has it, too.
fn has_errors(answer: &Answer, column: usize) -> bool {
    let schema = answer.schema();
    let Some(field) = schema.fields().get(column) else { return false };
    let within = |one: &Accuracy| one.column == *field.name() && one.kind == AccuracyKind::Within;
    answer.accuracy.iter().any(within) || answer.errors(column).any(|error| error.is_some())
}

/// What was said about an answer, for the metadata of its file: what it cost, the charges that paid
/// for it, how accurate it is, and its notes. An answer of public rows has none of these.
pub(crate) fn file_metadata(answer: &Answer) -> Vec<(String, String)> {
    let receipt = answer.receipt();
    let lines = |lines: Vec<String>| (!lines.is_empty()).then(|| lines.join("\n"));
    let notes = answer.notes.iter().map(|note| visible::line(note).into_owned());
    let entries = [
        ("cost", receipt.map(|receipt| receipt.spent.neat().to_string())),
        (
            "charge",
            receipt.map(|receipt| receipt.sequence).filter(|n| *n > 0).map(|n| n.to_string()),
        ),
        ("replayed", receipt.and_then(|receipt| receipt.replayed_text())),
        ("refined", receipt.and_then(|receipt| receipt.refined_text())),
        ("cells", receipt.and_then(|receipt| lines(receipt.cells.clone()))),
        ("accuracy", lines(answer.accuracy.iter().filter_map(Accuracy::line).collect())),
        ("notes", lines(notes.collect())),
    ];
    let known = entries.into_iter().filter_map(|(name, text)| Some((name, text?)));
    known.map(|(name, text)| (format!("hushql.{name}"), text)).collect()
}
