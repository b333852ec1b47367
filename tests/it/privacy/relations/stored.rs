//! Columns of every type from the few kinds of values, and files of them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::rows::Value;
use super::world::Kind;

/// Values as a column of a type; what the type cannot hold becomes the nearest that it can.
pub fn column<'a>(
    kind: Kind,
    values: impl Iterator<Item = &'a Value>,
    data_type: &DataType,
) -> ArrayRef {
    let column: ArrayRef = match kind {
        Kind::Int if *data_type == DataType::Int64 => {
            Arc::new(values.map(Value::int).collect::<Int64Array>())
        }
        Kind::Int => {
            let (lo, hi) = ends(data_type);
            let values = values.map(|v| v.int().map(|v| i128::from(v).clamp(lo, hi)));
            let values: Decimal128Array = values.collect();
            Arc::new(values.with_precision_and_scale(38, 0).unwrap())
        }
        Kind::Float => {
            // What is no number of a decimal is its largest.
            let most = match data_type {
                DataType::Decimal128(10, 2) => 99_999_999.99,
                DataType::Decimal128(..) => 1e30,
                _ => f64::INFINITY,
            };
            let fits = |v: f64| if v.is_nan() && most.is_finite() { most } else { v };
            let values = values.map(|v| v.float().map(|v| fits(v).clamp(-most, most)));
            Arc::new(values.collect::<Float64Array>())
        }
        Kind::Text => Arc::new(values.map(Value::text).collect::<StringArray>()),
        Kind::Time => {
            let most = match data_type {
                DataType::Timestamp(TimeUnit::Nanosecond, _) => 106_750,
                DataType::Timestamp(TimeUnit::Microsecond, _) => 100_000_000,
                _ => i32::MAX,
            };
            let days =
                values.map(|v| v.int().map(|v| i32::try_from(v).unwrap().clamp(-most, most)));
            Arc::new(days.collect::<Date32Array>())
        }
        Kind::Flag => Arc::new(values.map(|v| v.int().map(|v| v != 0)).collect::<BooleanArray>()),
    };
    if column.data_type() == data_type {
        return column;
    }
    let cast = cast(&column, data_type).unwrap();
    // A zone may move a day out of the calendar, and not every float becomes a long decimal.
    let some = matches!(data_type, DataType::Timestamp(_, Some(_)) | DataType::Decimal256(..));
    assert!(some || cast.null_count() == column.null_count(), "{data_type}");
    cast
}

/// The least and the greatest integer of a type.
fn ends(data_type: &DataType) -> (i128, i128) {
    match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// A table in a file, with two rows to a group.
pub fn parquet(
    path: &Path,
    rows: &RecordBatch,
    schema: SchemaRef,
    statistics: bool,
) -> Arc<dyn TableProvider> {
    let statistics = if statistics { EnabledStatistics::Page } else { EnabledStatistics::None };
    let properties = WriterProperties::builder()
        .set_statistics_enabled(statistics)
        .set_max_row_group_row_count(Some(2))
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    let url = ListingTableUrl::parse(path.to_str().unwrap()).unwrap();
    let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension("");
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
    Arc::new(ListingTable::try_new(config).unwrap())
}
