//! What a Parquet file says of its own rows: one person's value in it hides nobody else's row.
//!
//! Files are written with honest statistics, which are then replaced by those that some writer
//! makes of one row's value, which is the last one. With and without that row, a query must count
//! what plain rows in memory count.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow::datatypes::Int64Type;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::data_type::{ByteArray, FixedLenByteArray};
use datafusion::parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
};
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use datafusion::parquet::file::statistics::Statistics;
use hushql::{Analyst, Engine, Session};

use crate::privacy::draws::declared;

/// What a writer says of a column `x`, in the place of what is so.
type Said = fn(&ColumnChunkMetaData) -> Option<Statistics>;

/// A column, what is said of it, and conditions on it.
struct Case {
    name: &'static str,
    values: ArrayRef,
    said: Said,
    conditions: &'static [&'static str],
}

const NUMBERS: &[&str] = &[
    "x < 5",
    "x <= 5",
    "x > 5",
    "x >= 5",
    "x = 5",
    "x <> 5",
    "5 > x",
    "x = 0",
    "x <= 0",
    "x < 0",
    "x >= 0",
    "NOT x > 5",
    "x BETWEEN 2 AND 7",
    "x IN (1, 5, 9)",
    "x NOT IN (1, 5)",
    "x IS NULL",
    "x IS NOT NULL",
    "x + 1 < 6",
    "ABS(x) < 5",
    "CAST(x AS DOUBLE) < 5.5",
    "x < 5 OR x > 8",
    "x < 5 AND x > 1",
];

const TEXTS: &[&str] = &[
    "x = 'zzzz'",
    "x = 'b'",
    "x > 'm'",
    "x >= 'zzzz'",
    "x < 'm'",
    "x <= 'é'",
    "x LIKE 'zz%'",
    "x NOT LIKE 'a%'",
    "x IN ('b', 'zzzz')",
    "x IS NULL",
    "x IS NOT NULL",
    "x BETWEEN 'b' AND 'zzzz'",
];

fn floats(last: f64) -> ArrayRef {
    let values = [1.0, 2.0, 5.0, 7.0, 9.0, 0.0, -3.0].map(Some);
    Arc::new(values.into_iter().chain([None, Some(last)]).collect::<Float64Array>())
}

fn double(lo: f64, hi: f64) -> Option<Statistics> {
    Some(Statistics::double(Some(lo), Some(hi), None, Some(1), false))
}

/// A decimal as 16 bytes, the first one first.
fn bytes(value: i128) -> FixedLenByteArray {
    FixedLenByteArray::from(value.to_be_bytes().to_vec())
}

fn text(text: &str) -> ByteArray {
    ByteArray::from(text.as_bytes().to_vec())
}

fn cases() -> Vec<Case> {
    let case = |name, values, said, conditions| Case { name, values, said, conditions };
    let texts = |last: &str| -> ArrayRef {
        Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("n"), None, Some(last)]))
    };
    let decimals = |precision, scale| -> ArrayRef {
        let values = [100, 200, 500, 700, 900, 0, -300].map(Some);
        let values: Decimal128Array = values.into_iter().chain([None, Some(-1)]).collect();
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let integers: ArrayRef = Arc::new(
        [1, 2, 5, 7, 9, 0, -3, 5].map(Some).into_iter().chain([None]).collect::<Int64Array>(),
    );
    vec![
        case("NaN is noted", floats(f64::NAN), |_| double(f64::NAN, f64::NAN), NUMBERS),
        case("NaN is the greatest", floats(f64::NAN), |_| double(-3.0, f64::NAN), NUMBERS),
        // `if !(value >= least) { least = value }` begins anew after a NaN, and no row came after
        // it.
        case("NaN begins anew", floats(f64::NAN), |_| double(1e300, -1e300), NUMBERS),
        case("a row before NaN is lost", floats(f64::NAN), |_| double(9.0, 9.0), NUMBERS),
        case(
            "NaN counts as NULL",
            floats(f64::NAN),
            |_| Some(Statistics::double(None, None, None, Some(9), false)),
            NUMBERS,
        ),
        case(
            "NaN in single precision",
            Arc::new(Float32Array::from(vec![1.0, 2.0, 5.0, 9.0, f32::NAN])),
            |_| Some(Statistics::float(Some(f32::NAN), Some(f32::NAN), None, None, false)),
            NUMBERS,
        ),
        case(
            "one zero for both",
            Arc::new(Float64Array::from(vec![0.0, 0.0, -0.0])),
            |_| double(0.0, 0.0),
            NUMBERS,
        ),
        case(
            "the other zero for both",
            Arc::new(Float64Array::from(vec![-0.0, 0.0, 0.0])),
            |_| double(-0.0, -0.0),
            NUMBERS,
        ),
        // The greatest text is cut to two letters, and not rounded up.
        case(
            "a bound is cut",
            texts("zzzzzz"),
            |_| {
                let (lo, hi) = (Some(text("a")), Some(text("zz")));
                Some(Statistics::byte_array(lo, hi, None, Some(1), false))
            },
            TEXTS,
        ),
        // Bytes beyond 127 are negative to old writers.
        case(
            "texts as signed bytes",
            texts("éz"),
            |_| {
                let (lo, hi) = (Some(text("éz")), Some(text("n")));
                Some(Statistics::byte_array(lo, hi, None, Some(1), true))
            },
            TEXTS,
        ),
        case(
            "unsigned as signed, 32 bits",
            Arc::new(UInt32Array::from(vec![1, 2, 5, 7, u32::MAX])),
            |_| Some(Statistics::int32(Some(-1), Some(7), None, Some(0), true)),
            NUMBERS,
        ),
        case(
            "unsigned as signed, 64 bits",
            Arc::new(UInt64Array::from(vec![1, 2, 5, 7, u64::MAX])),
            |_| Some(Statistics::int64(Some(-1), Some(7), None, Some(0), false)),
            NUMBERS,
        ),
        case(
            "decimals as unsigned bytes",
            decimals(30, 2),
            |_| {
                let (lo, hi) = (Some(bytes(0)), Some(bytes(-1)));
                Some(Statistics::fixed_len_byte_array(lo, hi, None, Some(1), true))
            },
            NUMBERS,
        ),
        case(
            "decimals of other places",
            decimals(18, 2),
            |_| Some(Statistics::int64(Some(90_000), Some(-1), None, Some(1), false)),
            NUMBERS,
        ),
        case(
            "no number of NULLs",
            Arc::clone(&integers),
            |_| Some(Statistics::int64(Some(-3), Some(9), None, None, false)),
            NUMBERS,
        ),
        case(
            "all are NULL, and bounds",
            integers,
            |_| Some(Statistics::int64(Some(-3), Some(9), None, Some(0), false)),
            NUMBERS,
        ),
        // In a zone, clocks are put back: the last row of a file may be the first by its clock.
        case(
            "times",
            Arc::new(
                TimestampMicrosecondArray::from(vec![1_000_000, 2_000_000, 9_000_000])
                    .with_timezone("+02:00"),
            ),
            |_| None,
            &[
                "x <= '1970-01-01 02:00:02'",
                "x > '1970-01-01 00:00:05'",
                "x < '1970-01-01 00:00:05'",
                "x IS NOT NULL",
            ],
        ),
    ]
}

/// Writes rows as one row group of pages of two rows, and then what is said of `x` in its footer.
fn write(
    path: &Path,
    rows: &RecordBatch,
    said: impl Fn(ColumnChunkMetaData) -> ColumnChunkMetaData,
) {
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_bloom_filter_enabled(true)
        .set_data_page_row_count_limit(2)
        .set_write_batch_size(2)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap());
    let metadata = metadata.unwrap();
    let groups = metadata.row_groups().iter().map(|group| {
        let columns =
            group.columns().iter().map(|column| match column.column_path().string().as_str() {
                "x" => said(column.clone()),
                _ => column.clone(),
            });
        let columns = columns.collect();
        group.clone().into_builder().set_column_metadata(columns).build().unwrap()
    });
    let groups = groups.collect();
    let metadata = metadata.into_builder().set_row_groups(groups).build();
    let mut file = fs::read(path).unwrap();
    let end = file.len() - 8;
    let footer = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    file.truncate(end - footer);
    ParquetMetaDataWriter::new(&mut file, &metadata).finish().unwrap();
    fs::write(path, file).unwrap();
}

/// A session on rows in a file, or in memory.
async fn session(rows: &RecordBatch, file: Option<&Path>) -> Analyst {
    let engine = Engine::in_memory().unwrap();
    let mut statements = Vec::new();
    match file {
        None => engine.register_batch("t", rows.clone()).unwrap(),
        Some(path) => statements.push(format!(
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{}'",
            path.display()
        )),
    }
    statements.push("ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 1".to_owned());
    statements.push("CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=1000000)".to_owned());
    declared(&engine, &statements).await
}

/// How many rows satisfy a condition: at this ε another number has a probability below 10⁻⁴⁰⁰. None
/// where it is refused.
async fn count(session: &Session, condition: &str) -> Option<i64> {
    let sql = format!("SELECT LAPLACE(eps=1000) COUNT(*) AS n FROM t WHERE {condition}");
    match session.query(&sql).await {
        Ok(answer) => Some(answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0)),
        Err(hushql::Error::Refused(_)) => None,
        Err(error) => panic!("{sql}: {error}"),
    }
}

fn rows_of(values: &ArrayRef) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..values.len() as i64));
    RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("x", Arc::clone(values), true)])
        .unwrap()
}

/// `COUNT(*) … WHERE x < 5` was 0 with one person's NaN in the file and 99 without, where 1 was
/// claimed.
#[tokio::test]
async fn what_is_said_of_one_value_hides_no_other_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    for case in cases() {
        let all = rows_of(&case.values);
        let last = all.num_rows() - 1;
        let said = |column: ColumnChunkMetaData| match (case.said)(&column) {
            Some(said) => column.into_builder().set_statistics(said).build().unwrap(),
            None => column,
        };
        write(&path, &all, said);
        let (with, plain) = (session(&all, Some(&path)).await, session(&all, None).await);
        let rest = all.slice(0, last);
        write(&path.with_extension("rest"), &rest, |column| column);
        let without = session(&rest, Some(&path.with_extension("rest"))).await;
        let mut answered = 0;
        for condition in case.conditions {
            let found = count(&with, condition).await;
            // Rows in memory have their zone, and no text is compared with them.
            if let Some((found, plain)) = found.zip(count(&plain, condition).await) {
                assert_eq!(found, plain, "{}: {condition}", case.name);
            }
            let Some((with, without)) = found.zip(count(&without, condition).await) else {
                continue;
            };
            assert!((with - without).abs() <= 1, "{}: {condition}: {with}, {without}", case.name);
            answered += 1;
        }
        assert!(answered > 0, "{}: everything is refused", case.name);
    }
}

/// Nor does what is said beside the bounds of a row group: the filters of its values, and the
/// bounds of its pages.
#[tokio::test]
async fn bloom_filters_and_page_indexes_hide_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(100..140));
    let rows = rows_of(&values);
    let ids = std::cell::Cell::new((None, None));
    // The ids' page index for that of x: their values are others.
    write(&path, &rows, |column| column);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(&path).unwrap());
    let metadata = metadata.unwrap();
    let id = metadata.row_group(0).column(0);
    ids.set((id.column_index_offset(), id.column_index_length()));
    write(&path, &rows, |column| {
        let (offset, length) = ids.get();
        column
            .into_builder()
            .set_column_index_offset(offset)
            .set_column_index_length(length)
            .build()
            .unwrap()
    });
    // A filter without one bit has seen nothing.
    let x = metadata.row_group(0).column(1);
    let length = x.bloom_filter_length().unwrap() as usize;
    let end = x.bloom_filter_offset().unwrap() as usize + length;
    let mut file = fs::read(&path).unwrap();
    // Blocks of 32 bytes, behind a few that say how many.
    file[end - length / 32 * 32..end].fill(0);
    fs::write(&path, file).unwrap();
    let (in_file, plain) = (session(&rows, Some(&path)).await, session(&rows, None).await);
    for condition in ["x = 105", "x IN (100, 139)", "x > 130", "x < 105", "x >= 0", "x IS NOT NULL"]
    {
        let found = count(&in_file, condition).await;
        assert!(found.is_some(), "{condition}");
        assert_eq!(found, count(&plain, condition).await, "{condition}");
    }
}
