//! An answer: its rows as an Arrow stream, as texts and as values of Python, and its accuracy,
//! notes and receipt.
//!
//! ```text
//! Answer ─▶ __arrow_c_stream__ ─▶ pyarrow, pandas, polars, DuckDB
//!        └▶ rows, texts, errors, accuracy, notes, receipt
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hushql::Error;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};

use crate::errors;
use crate::told::{self, AccuracyParts, ReceiptParts};

/// The answer to a query. It is in memory, so reading it again costs nothing.
#[pyclass(frozen, module = "hushql._hushql")]
pub(crate) struct Answer(hushql::Answer);

impl Answer {
    pub(crate) fn new(answer: hushql::Answer) -> Self {
        Self(answer)
    }

    /// The rows. With errors, a column `name ±` follows each column that has errors.
    fn shown(&self, with_errors: bool) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
        let schema = self.0.schema();
        if !with_errors {
            return Ok((schema, self.0.batches().to_vec()));
        }
        let errors: Vec<Vec<Option<f64>>> =
            (0..schema.fields().len()).map(|column| self.0.errors(column).collect()).collect();
        let mut fields = Vec::new();
        for (field, errors) in schema.fields().iter().zip(&errors) {
            fields.push(Arc::clone(field));
            if errors.iter().any(Option::is_some) {
                let name = format!("{} ±", field.name());
                fields.push(Arc::new(Field::new(name, DataType::Float64, true)));
            }
        }
        let shown = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let mut first = 0;
        let mut batches = Vec::new();
        for batch in self.0.batches() {
            let mut columns: Vec<ArrayRef> = Vec::new();
            for (column, errors) in batch.columns().iter().zip(&errors) {
                columns.push(Arc::clone(column));
                if errors.iter().any(Option::is_some) {
                    let own = errors.iter().skip(first).take(batch.num_rows()).copied();
                    columns.push(Arc::new(own.collect::<Float64Array>()));
                }
            }
            first += batch.num_rows();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let shown = SchemaRef::clone(&shown);
            batches.push(RecordBatch::try_new_with_options(shown, columns, &options)?);
        }
        Ok((shown, batches))
    }
}

#[pymethods]
impl Answer {
    #[pyo3(signature = (requested_schema=None, with_errors=false))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
        with_errors: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let failed = |_| errors::raised(py, &Error::Internal);
        let (schema, batches) = self.shown(with_errors).map_err(failed)?;
        let field = Field::new_struct("", schema.fields().clone(), false);
        let field = Arc::new(field.with_metadata(schema.metadata().clone()));
        let arrays = batches.into_iter().map(|batch| {
            let array: ArrayRef = Arc::new(StructArray::from(batch));
            Ok(array)
        });
        let reader = Box::new(ArrayIterator::new(arrays, field));
        Ok(to_stream_pycapsule(py, reader, requested_schema)?)
    }

    /// The names of the columns, and whether each holds numbers.
    fn columns(&self) -> Vec<(String, bool)> {
        let schema = self.0.schema();
        let column = |field: &Arc<Field>| (field.name().clone(), field.data_type().is_numeric());
        schema.fields().iter().map(column).collect()
    }

    fn num_rows(&self) -> usize {
        self.0.batches().iter().map(RecordBatch::num_rows).sum()
    }

    /// The rows as tuples of None, bool, int, float and str. Values of other types are texts.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut rows = Vec::new();
        for batch in self.0.batches() {
            let columns = batch.columns().iter().map(|column| values(py, column));
            let columns = columns.collect::<PyResult<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                let cells: Vec<_> = columns.iter().filter_map(|column| column.get(row)).collect();
                rows.push(PyTuple::new(py, cells)?);
            }
        }
        Ok(rows)
    }

    /// The first rows as texts; None for NULL.
    fn texts(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<Vec<Option<String>>>> {
        let failed = |_| errors::raised(py, &Error::Internal);
        let mut rows = Vec::new();
        for batch in self.0.batches() {
            let options = FormatOptions::default().with_null("NULL");
            let formatters = batch.columns().iter();
            let formatters = formatters.map(|column| ArrayFormatter::try_new(column, &options));
            let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            // Not `is_null`, which is false for every row of a column of the type NULL.
            let nulls: Vec<_> =
                batch.columns().iter().map(|column| column.logical_nulls()).collect();
            for row in 0..batch.num_rows().min(limit.saturating_sub(rows.len())) {
                let cells = formatters.iter().zip(&nulls).map(|(formatter, nulls)| {
                    match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                        true => Ok(None),
                        false => formatter.value(row).try_to_string().map(Some),
                    }
                });
                rows.push(cells.collect::<Result<Vec<_>, _>>().map_err(failed)?);
            }
        }
        Ok(rows)
    }

    /// The largest error of each number of a column, row by row.
    fn errors(&self, column: usize) -> Vec<Option<f64>> {
        self.0.errors(column).collect()
    }

    fn accuracy(&self) -> Vec<AccuracyParts> {
        told::accuracy(self.0.accuracy())
    }

    fn notes(&self) -> Vec<String> {
        self.0.notes().to_vec()
    }

    fn remarks(&self) -> Vec<String> {
        self.0.remarks().collect()
    }

    fn receipt(&self) -> Option<ReceiptParts> {
        self.0.receipt().map(told::receipt)
    }

    /// The table, its accuracy and its receipt.
    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// The values of a column.
fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let failed = |_| errors::raised(py, &Error::Internal);
    let into = |to: &DataType| cast(column, to).map_err(failed);
    let data_type = column.data_type();
    if *data_type == DataType::Boolean {
        return column.as_boolean().iter().map(|value| python(py, value)).collect();
    }
    if data_type.is_unsigned_integer() {
        let numbers = into(&DataType::UInt64)?;
        return numbers.as_primitive::<UInt64Type>().iter().map(|v| python(py, v)).collect();
    }
    if data_type.is_integer() {
        let numbers = into(&DataType::Int64)?;
        return numbers.as_primitive::<Int64Type>().iter().map(|v| python(py, v)).collect();
    }
    if data_type.is_floating() {
        let numbers = into(&DataType::Float64)?;
        return numbers.as_primitive::<Float64Type>().iter().map(|v| python(py, v)).collect();
    }
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(column, &options).map_err(failed)?;
    let nulls = column.logical_nulls();
    let text = |row| match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
        true => python(py, None::<String>),
        false => python(py, Some(formatter.value(row).try_to_string().map_err(failed)?)),
    };
    if data_type.is_decimal() {
        let decimal = py.import("decimal")?.getattr("Decimal")?;
        let number = |row| {
            let digits = text(row)?;
            if digits.is_none() { Ok(digits) } else { decimal.call1((digits,)) }
        };
        return (0..column.len()).map(number).collect();
    }
    (0..column.len()).map(text).collect()
}

fn python<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    value: Option<T>,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        None => Ok(py.None().into_bound(py)),
        Some(value) => match value.into_pyobject(py) {
            Ok(object) => Ok(pyo3::BoundObject::into_bound(object).into_any()),
            Err(error) => Err(error.into()),
        },
    }
}
