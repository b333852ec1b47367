//! Answers with text columns, for statements that show declarations and accounts.
//!
//! ```text
//! [("table", ["adult", "bids"]), ("privacy", ["private", "public"])]   →   two columns of two rows
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};

use crate::answer::Answer;
use crate::error::Error;

/// An answer with text columns.
pub(crate) fn table(columns: &[(&str, Vec<String>)]) -> Result<Answer, Error> {
    let columns = columns
        .iter()
        .map(|(name, values)| (*name, Arc::new(StringArray::from(values.clone())) as ArrayRef));
    answer(columns)
}

/// An answer with these columns.
pub(super) fn answer<'a>(
    columns: impl Iterator<Item = (&'a str, ArrayRef)>,
) -> Result<Answer, Error> {
    let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
    Ok(Answer::public(batch))
}
