//! Scans of files whose columns have other types than the declared ones.
//!
//! In: the declared columns, and those of a file. Out: the columns as the file's reader yields
//! them, and above its scan a projection to the declared ones. Readers would fail for a value that
//! the declared type cannot hold, or not cast at all; the functions of the projection give NULL.
//! What Parquet's reader converts without failing is left to it.
//!
//! ```text
//! ProjectionExec: file_values(id), in_microseconds(ts)    id BIGINT, ts in microseconds, without a zone
//!   DataSourceExec: id, ts                                id DOUBLE, ts in nanoseconds, in Europe/Berlin
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::file_columns::{is_read_as, is_uuid};
use super::open_files::OpenFile;
use crate::catalog::FileFormat;
use crate::functions::{
    computed_type, declared_type, file_values_function, in_microseconds_function,
};

/// The declared columns as the file's reader yields them: with the file's own types where a
/// projection converts them.
pub(super) fn as_stored(declared: &SchemaRef, held: &OpenFile, format: FileFormat) -> SchemaRef {
    let Some(stored) = held.stored.get() else { return Arc::clone(declared) };
    let types = stored.fields().iter().map(Some).chain(std::iter::repeat(None));
    let fields = declared.fields().iter().zip(types).map(|(field, stored)| match stored {
        Some(stored) if is_converted(stored, field.data_type(), format) => {
            Arc::new(field.as_ref().clone().with_data_type(stored.data_type().clone()))
        }
        Some(_) | None => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether a projection converts a column of a file to this type.
fn is_converted(stored: &Field, to: &DataType, format: FileFormat) -> bool {
    let from = stored.data_type();
    if from == to {
        return false;
    }
    if computes_as(from, to) {
        return true;
    }
    if format == FileFormat::Parquet {
        // The reader makes views of texts, looks words of dictionaries up, and casts whole numbers
        // to floats.
        let is_cast = *to == DataType::Float64 && matches!(from, DataType::Int32 | DataType::Int64);
        let is_text = from.is_string() || *from == DataType::Null;
        if is_cast || is_text || matches!(from, DataType::Dictionary(..)) {
            return false;
        }
    }
    let of_file = if is_uuid(stored) { DataType::Utf8 } else { declared_type(from) };
    let both_texts = of_file.is_string() && to.is_string();
    both_texts || of_file == *to || is_read_as(&of_file, to, format)
}

fn computes_as(stored: &DataType, declared: &DataType) -> bool {
    stored != declared && computed_type(stored).as_ref() == Some(declared)
}

/// Casts the rows of a scan of stored columns to the declared columns.
///
/// # Errors
/// DataFusion's, for columns that do not correspond; this does not happen to those of
/// [`as_stored`].
pub(super) fn as_declared(
    scan: Arc<dyn ExecutionPlan>,
    declared: &Schema,
) -> Result<Arc<dyn ExecutionPlan>> {
    let stored = scan.schema();
    let both = stored.fields().iter().zip(declared.fields());
    let is_same = |(stored, declared): (&Arc<Field>, &Arc<Field>)| {
        stored.data_type() == declared.data_type() && stored.name() == declared.name()
    };
    if both.clone().all(is_same) {
        return Ok(scan);
    }
    let mut columns = Vec::with_capacity(stored.fields().len());
    for (i, (stored_field, field)) in both.enumerate() {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(stored_field.name(), i));
        let (from, to) = (stored_field.data_type(), field.data_type());
        let of_type = |function, inputs| {
            ScalarFunctionExpr::try_new(function, inputs, &stored, Arc::default())
        };
        let expr = if from == to {
            column
        } else if computes_as(from, to) {
            Arc::new(of_type(in_microseconds_function(), vec![column])?)
        } else {
            let null: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::try_from(to)?));
            Arc::new(of_type(file_values_function(), vec![column, null])?)
        };
        columns.push(ProjectionExpr { expr, alias: field.name().clone() });
    }
    Ok(Arc::new(ProjectionExec::try_new(columns, scan)?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use arrow::array::{
        Array, ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray,
    };
    use arrow::datatypes::{Date32Type, TimestampMicrosecondType};
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::parquet::data_type::{Int64Type, Int96, Int96Type};
    use datafusion::parquet::file::properties::WriterProperties;
    use datafusion::parquet::file::writer::SerializedFileWriter;
    use datafusion::parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::engine::Engine;

    /// The last second of year 9999, and the first of year 1.
    const ENDS: [i64; 2] = [253_402_300_799, -62_135_596_800];

    /// Seconds since 1970 in the notation of Spark, Impala and Hive: the day of the Julian
    /// calendar, and nanoseconds of the day.
    fn of_96_bits(seconds: i64) -> Int96 {
        let day = u32::try_from(seconds.div_euclid(86_400) + 2_440_588).unwrap();
        let nanoseconds = (seconds.rem_euclid(86_400) * 1_000_000_000).cast_unsigned();
        let (low, high) = (nanoseconds & u64::from(u32::MAX), nanoseconds >> 32);
        let mut moment = Int96::new();
        moment.set_data(u32::try_from(low).unwrap(), u32::try_from(high).unwrap(), day);
        moment
    }

    fn write_96_bits(path: &Path, seconds: &[i64]) {
        let schema = "message spark { REQUIRED INT64 id; REQUIRED INT96 at; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let file = File::create(path).unwrap();
        let mut file = SerializedFileWriter::new(file, schema, properties).unwrap();
        let mut rows = file.next_row_group().unwrap();
        let mut ids = rows.next_column().unwrap().unwrap();
        let numbers: Vec<i64> = (0..).take(seconds.len()).collect();
        ids.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
        ids.close().unwrap();
        let mut moments = rows.next_column().unwrap().unwrap();
        let values: Vec<Int96> = seconds.iter().map(|s| of_96_bits(*s)).collect();
        moments.typed::<Int96Type>().write_batch(&values, None, None).unwrap();
        moments.close().unwrap();
        rows.close().unwrap();
        file.close().unwrap();
    }

    fn write_arrow(path: &Path, at: ArrayRef) {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..).take(at.len())));
        let rows = RecordBatch::try_from_iter([("id", ids), ("at", at)]).unwrap();
        let file = File::create(path).unwrap();
        if path.extension().is_some_and(|end| end == "parquet") {
            let mut file = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
            file.write(&rows).unwrap();
            file.close().unwrap();
        } else {
            let mut file = arrow::ipc::writer::FileWriter::try_new(file, &rows.schema()).unwrap();
            file.write(&rows).unwrap();
            file.finish().unwrap();
        }
    }

    /// Reads a table over these files: its moments in microseconds, and its dates.
    async fn read(location: &Path, format: &str) -> (Vec<Option<i64>>, Vec<Option<i32>>) {
        let engine = Engine::in_memory().unwrap();
        let owner = engine.owner();
        for declaration in [
            format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{}'", location.display()),
            "ALTER TABLE t SET PUBLIC".to_owned(),
        ] {
            owner.execute(&declaration).await.unwrap();
        }
        let lab = engine.analyst("lab").unwrap();
        let answer = lab.query("SELECT at, CAST(at AS DATE) AS day FROM t ORDER BY at").await;
        let (mut moments, mut days) = (Vec::new(), Vec::new());
        for batch in answer.unwrap().batches() {
            moments.extend(batch.column(0).as_primitive::<TimestampMicrosecondType>().iter());
            days.extend(batch.column(1).as_primitive::<Date32Type>().iter());
        }
        (moments, days)
    }

    /// The year 9999 must not be read as 1816.
    #[tokio::test]
    async fn moments_of_96_bits_are_those_that_spark_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spark.parquet");
        write_96_bits(&path, &ENDS);
        let (moments, days) = read(&path, "PARQUET").await;
        assert_eq!(moments, [Some(ENDS[1] * 1_000_000), Some(ENDS[0] * 1_000_000)]);
        assert_eq!(days, [Some(-719_162), Some(2_932_896)]);
    }

    /// Files of one table may have different units. A moment that microseconds cannot hold is NULL,
    /// and fails nothing.
    #[tokio::test]
    async fn every_unit_and_zone_is_read_in_microseconds() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, at: ArrayRef| write_arrow(&folder.path().join(name), at);
        write(
            "ns.parquet",
            Arc::new(TimestampNanosecondArray::from(vec![-1]).with_timezone("UTC")),
        );
        let milliseconds = vec![ENDS[0] * 1_000, i64::MAX];
        write("ms.parquet", Arc::new(TimestampMillisecondArray::from(milliseconds)));
        write_96_bits(&folder.path().join("spark.parquet"), &ENDS[1..]);
        let expected = [Some(ENDS[1] * 1_000_000), Some(-1), Some(ENDS[0] * 1_000_000), None];
        let (moments, days) = read(folder.path(), "PARQUET").await;
        assert_eq!(moments, expected);
        assert_eq!(days, [Some(-719_162), Some(-1), Some(2_932_896), None]);
        for name in ["ns.parquet", "ms.parquet", "spark.parquet"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        let seconds = TimestampSecondArray::from(vec![ENDS[1], ENDS[0], i64::MIN]);
        write("s.arrow", Arc::new(seconds.with_timezone("Europe/Berlin")));
        let expected = [Some(ENDS[1] * 1_000_000), Some(ENDS[0] * 1_000_000), None];
        assert_eq!(read(folder.path(), "ARROW").await.0, expected);
        assert_eq!(read(&folder.path().join("s.arrow"), "ARROW").await.0, expected);
    }
}
