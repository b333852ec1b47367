//! Tables of Python: all objects with `__arrow_c_stream__` or `__arrow_c_array__`.
//!
//! In: an object. Out: batches in our own memory. They are copied once, because private rows are
//! read again for each query, and shared memory could be overwritten meanwhile. They are validated,
//! because kernels trust their offsets.
//!
//! # Guarantee
//! An error quotes no value. A library that fails to convert a column quotes the value in its
//! message, so only the name of the exception is shown.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::{Array, RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use hushql::Error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::errors;

/// A table: its columns and its rows.
pub(crate) type Rows = (SchemaRef, Vec<RecordBatch>);

/// The rows of an object, copied.
pub(crate) fn copied(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Rows> {
    let of_type =
        || data.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let has = |name| data.hasattr(name).unwrap_or(false);
    if !has("__arrow_c_stream__") && !has("__arrow_c_array__") {
        return Err(PyTypeError::new_err(format!(
            "a table has __arrow_c_stream__, as those of pandas, polars, pyarrow and DuckDB have; this is a {}",
            of_type()
        )));
    }
    let unread = |error: PyErr| {
        let name = error.get_type(py).name();
        let name = name.map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
        if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
            return error;
        }
        let message = format!(
            "this {} cannot be read as a table of Arrow: {name}, whose message is left out because it may quote a cell",
            of_type()
        );
        errors::of_kind(py, "catalog", &message)
    };
    let taken = catch_unwind(AssertUnwindSafe(|| data.extract::<AnyRecordBatch>()?.into_reader()));
    let reader = taken.map_err(|_| errors::raised(py, &Error::Internal))?.map_err(unread)?;
    // The stream of another library takes the GIL itself if it needs it.
    let copy = AssertUnwindSafe(|| py.detach(move || copy(reader)));
    match catch_unwind(copy) {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(_)) => Err(errors::of_kind(
            py,
            "catalog",
            &format!("the rows of this {} are not valid in Arrow's format", of_type()),
        )),
        Err(_) => Err(errors::raised(py, &Error::Internal)),
    }
}

fn copy(reader: Box<dyn RecordBatchReader + Send>) -> Result<Rows, ArrowError> {
    let schema = reader.schema();
    let mut batches = Vec::new();
    for batch in reader {
        let batch = batch?;
        if batch.num_rows() > 0 {
            for column in batch.columns() {
                column.to_data().validate_full()?;
            }
            batches.push(copy_of(&batch)?);
        }
    }
    Ok((schema, batches))
}

/// A batch in memory of its own. Only its own rows are copied, not the whole buffers of which it is
/// a slice.
fn copy_of(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    let bytes = writer.into_inner()?;
    let copied = StreamReader::try_new(bytes.as_slice(), None)?.next();
    copied.unwrap_or_else(|| Err(ArrowError::ComputeError("no batch".to_owned())))
}
