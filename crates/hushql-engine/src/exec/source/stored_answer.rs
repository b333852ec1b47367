//! Stored answers as bytes, and as tables that queries read.
//!
//! In: the rows of an answer, and the error of each number if it is known row by row. Out: Arrow's
//! stream format, with the errors as further columns; and back. A release table reads its answer
//! from the vault when it is scanned.
//!
//! ```text
//! status, n | errors of n   →   status, n, __hushql_error_1   →   bytes in the vault
//! ```

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::file_columns::schema_of_columns;
use crate::catalog::{Column, RESERVED};
use crate::error::Error;
use crate::exec::shared_vault::SharedVault;
use crate::ledger::Vault;

/// Rows, each batch with the errors of its columns.
pub(crate) type AnswerRows = Vec<(RecordBatch, Vec<Option<ArrayRef>>)>;

/// Whether the vault can keep columns of this type.
pub(crate) fn is_storable(data_type: &DataType) -> bool {
    DataType::from_str(&data_type.to_string()).is_ok_and(|read| read == *data_type)
        && *data_type != DataType::Null
}

/// The rows of an answer as bytes.
///
/// # Errors
/// Arrow's own.
pub(crate) fn encoded(schema: &SchemaRef, rows: &AnswerRows) -> Result<Vec<u8>, ArrowError> {
    let width = schema.fields().len();
    let has_errors =
        |i: usize| rows.iter().any(|(_, errors)| matches!(errors.get(i), Some(Some(_))));
    let told: Vec<usize> = (0..width).filter(|i| has_errors(*i)).collect();
    let mut fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), field.data_type().clone(), true))
        .collect();
    fields.extend(told.iter().map(|i| Field::new(error_name(*i), DataType::Float64, true)));
    let schema = Arc::new(Schema::new(fields));
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    for (batch, errors) in rows {
        let mut columns = batch.columns().to_vec();
        for i in &told {
            let own = errors.get(*i).and_then(Option::as_ref).map(Arc::clone);
            let none = || arrow::array::new_null_array(&DataType::Float64, batch.num_rows());
            columns.push(own.unwrap_or_else(none));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        writer.write(&RecordBatch::try_new_with_options(
            Arc::clone(&schema),
            columns,
            &options,
        )?)?;
    }
    writer.into_inner()
}

/// The rows of a stored answer with these columns.
///
/// # Errors
/// Arrow's own, also for bytes of other columns.
pub(crate) fn decoded(bytes: &[u8], schema: &SchemaRef) -> Result<AnswerRows, ArrowError> {
    let width = schema.fields().len();
    let own: Vec<usize> = (0..width).collect();
    let mut rows = Vec::new();
    for batch in StreamReader::try_new(bytes, None)? {
        let batch = batch?;
        let errors =
            own.iter().map(|i| batch.column_by_name(&error_name(*i)).map(Arc::clone)).collect();
        let batch = batch.project(&own)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        rows.push((batch, errors));
    }
    Ok(rows)
}

/// The batches that a query's private aggregates drew, as bytes.
///
/// # Errors
/// Arrow's own.
pub(crate) fn encoded_draw(batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut all = Vec::new();
    for batch in batches {
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
        writer.write(batch)?;
        let bytes = writer.into_inner()?;
        all.extend(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        all.extend(bytes);
    }
    Ok(all)
}

/// The batches that a query's private aggregates drew, from their bytes.
///
/// # Errors
/// Arrow's own, also for bytes in another format.
pub(crate) fn decoded_draw(mut bytes: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
    let broken = || ArrowError::IpcError("a kept draw is cut off".to_owned());
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(broken)?;
        let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| broken())?;
        let (own, rest) = rest.split_at_checked(length).ok_or_else(broken)?;
        let batch = StreamReader::try_new(own, None)?.next().ok_or_else(broken)?;
        batches.push(batch?);
        bytes = rest;
    }
    Ok(batches)
}

/// The name of the column that holds the errors of a column.
fn error_name(column: usize) -> String {
    format!("{RESERVED}_error_{column}")
}

/// A release table. Its rows are read when it is scanned.
///
/// # Errors
/// [`Error::Catalog`] for a type that this version does not know.
pub(crate) fn stored(
    vault: &SharedVault,
    sequence: i64,
    columns: &[Column],
) -> Result<Arc<dyn TableProvider>, Error> {
    let (vault, schema) = (vault.clone(), schema_of_columns(columns)?);
    Ok(Arc::new(StoredAnswer { vault, sequence, schema }))
}

/// The rows of a stored answer with these columns, from the vault.
///
/// # Errors
/// The vault's own, and [`DataFusionError::Execution`] if the answer is no longer there.
pub(crate) fn stored_rows(
    vault: &Vault,
    sequence: i64,
    schema: &SchemaRef,
) -> datafusion::common::Result<AnswerRows> {
    let bytes = vault
        .stored_answer(sequence)
        .map_err(|error| DataFusionError::External(Box::new(error)))?
        .ok_or_else(|| DataFusionError::Execution("the release table is gone".to_owned()))?;
    Ok(decoded(&bytes, schema)?)
}

/// The schema of these columns.
///
/// # Errors
/// [`Error::Catalog`] for a type that this version does not know.
pub(crate) fn schema_of_answer(columns: &[Column]) -> Result<SchemaRef, Error> {
    schema_of_columns(columns)
}

#[derive(Debug)]
struct StoredAnswer {
    vault: SharedVault,
    sequence: i64,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for StoredAnswer {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let rows = stored_rows(&self.vault, self.sequence, &self.schema)?;
        let batches = rows.into_iter().map(|(batch, _)| batch).collect();
        let table = MemTable::try_new(Arc::clone(&self.schema), vec![batches])?;
        table.scan(state, projection, filters, limit).await
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array, Int64Array, StringArray, StringViewArray};
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn answers_are_read_as_they_were_stored() {
        let decimals = Decimal128Array::from(vec![Some(12), None]).with_precision_and_scale(9, 2);
        let columns: [(&str, ArrayRef); 4] = [
            ("a", Arc::new(StringArray::from(vec![Some("x"), None]))),
            ("n", Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))),
            ("v", Arc::new(StringViewArray::from(vec![Some("a text that is long"), None]))),
            ("d", Arc::new(decimals.unwrap())),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let fields = batch.schema();
        let fields = fields.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = batch.with_schema(Arc::clone(&schema)).unwrap();
        let errors: ArrayRef = Arc::new(Float64Array::from(vec![Some(3.5), None]));
        let rows: AnswerRows =
            vec![(batch.clone(), vec![None, Some(errors), None, None]), (batch, vec![None; 4])];
        let read = decoded(&encoded(&schema, &rows).unwrap(), &schema).unwrap();
        assert_eq!(read[0], rows[0]);
        assert_eq!(read[1].0, rows[1].0);
        assert!(read[1].1[0].is_none() && read[1].1[1].as_ref().unwrap().null_count() == 2);
        assert_eq!(decoded(&encoded(&schema, &Vec::new()).unwrap(), &schema).unwrap(), []);
        assert!(decoded(b"nothing", &schema).is_err());
    }

    #[test]
    fn types_that_are_stored_can_be_read() {
        let zone = Some("UTC".into());
        for kept in [
            DataType::Int64,
            DataType::UInt64,
            DataType::Float64,
            DataType::Utf8,
            DataType::Utf8View,
            DataType::Boolean,
            DataType::Date32,
            DataType::Decimal128(38, 10),
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Timestamp(TimeUnit::Second, zone),
        ] {
            assert!(is_storable(&kept), "{kept}");
        }
        assert!(!is_storable(&DataType::Null));
    }
}
