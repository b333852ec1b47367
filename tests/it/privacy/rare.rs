//! Everything the dialect computes, on columns of every type that Arrow has: refused, or answered
//! where rows are.
//!
//! Public rows and registered tables may hold values of whatever type. What fails on the first row
//! of one, and answers without, tells that a row is there; so a statement is refused before it is
//! charged, or it runs.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch,
    StringArray, StructArray, UnionArray, new_null_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, IntervalUnit, TimeUnit, UnionFields};
use hushql::{Analyst, Engine, Error, Session};

const ROWS: usize = 4;

/// A column of each type.
fn columns() -> Vec<ArrayRef> {
    use DataType as T;
    let whole: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(1), None]));
    let short = cast(&whole, &T::Int32).unwrap();
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), None]));
    let bytes: ArrayRef =
        Arc::new(BinaryArray::from(vec![Some(&b"a"[..]), Some(b"b"), Some(b"\xff"), None]));
    let dictionary = |of: T| T::Dictionary(Box::new(T::Int8), Box::new(of));
    let item = |of: T| Arc::new(Field::new("item", of, true));
    let runs = |of: T| {
        let ends = Field::new("run_ends", T::Int32, false);
        T::RunEndEncoded(Arc::new(ends), Arc::new(Field::new("values", of, true)))
    };
    let zoned = |unit| T::Timestamp(unit, Some("+02:00".into()));
    let of_whole = [
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float16,
        T::Float32,
        T::Float64,
        T::Decimal32(5, 1),
        T::Decimal64(12, 0),
        T::Decimal128(10, 2),
        T::Decimal128(5, -2),
        T::Decimal256(50, 3),
        T::Decimal256(50, -3),
        T::Date64,
        T::Time64(TimeUnit::Microsecond),
        T::Time64(TimeUnit::Nanosecond),
        T::Timestamp(TimeUnit::Second, None),
        T::Timestamp(TimeUnit::Nanosecond, None),
        zoned(TimeUnit::Millisecond),
        zoned(TimeUnit::Microsecond),
        T::Duration(TimeUnit::Second),
        dictionary(T::Int64),
        dictionary(T::Float64),
        runs(T::Int64),
        T::List(item(T::Int64)),
        T::LargeList(item(T::Int64)),
        T::FixedSizeList(item(T::Int64), 1),
    ];
    let of_short = [T::Date32, T::Time32(TimeUnit::Second), T::Time32(TimeUnit::Millisecond)];
    let of_text =
        [T::Utf8, T::LargeUtf8, T::Utf8View, dictionary(T::Utf8), dictionary(T::Utf8View)];
    let of_bytes = [T::Binary, T::LargeBinary, T::BinaryView, T::FixedSizeBinary(1)];
    let pairs = [
        (&whole, &of_whole[..]),
        (&short, &of_short[..]),
        (&text, &of_text[..]),
        (&bytes, &of_bytes[..]),
    ];
    let mut columns: Vec<ArrayRef> = pairs
        .into_iter()
        .flat_map(|(from, types)| types.iter().map(move |to| cast(from, to).unwrap()))
        .collect();

    let field = Arc::new(Field::new("a", T::Int64, true));
    let object: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::clone(&whole))]));
    let each = || OffsetBuffer::from_lengths([1; ROWS]);
    let listed = Arc::new(Field::new("item", object.data_type().clone(), true));
    columns.push(Arc::new(ListArray::new(listed, each(), Arc::clone(&object), None)));
    let lists =
        ListArray::from_iter_primitive::<Int64Type, _, _>((0..ROWS).map(|_| Some(vec![Some(1)])));
    let field = Arc::new(Field::new("l", lists.data_type().clone(), true));
    columns.push(Arc::new(StructArray::from(vec![(field, Arc::new(lists) as ArrayRef)])));
    columns.push(object);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["k"; ROWS]));
    let entries = StructArray::from(vec![
        (Arc::new(Field::new("keys", T::Utf8, false)), keys),
        (Arc::new(Field::new("values", T::Int64, true)), Arc::clone(&whole)),
    ]);
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    columns.push(Arc::new(MapArray::new(field, each(), entries, None, false)));
    let fields = UnionFields::from_fields([Field::new("i", T::Int64, true)]);
    let tags = ScalarBuffer::from(vec![0_i8; ROWS]);
    columns.push(Arc::new(UnionArray::try_new(fields, tags, None, vec![whole]).unwrap()));
    for of in [IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano] {
        columns.push(new_null_array(&T::Interval(of), ROWS));
    }
    columns.push(new_null_array(&T::Null, ROWS));
    columns
}

/// Values of rows, of `q`.
const VALUES: [&str; 71] = [
    "q",
    "abs(q)",
    "floor(q)",
    "ceil(q)",
    "round(q)",
    "trunc(q)",
    "lower(q)",
    "upper(q)",
    "btrim(q)",
    "reverse(q)",
    "character_length(q)",
    "octet_length(q)",
    "bit_length(q)",
    "ascii(q)",
    "starts_with(q, 'a')",
    "contains(q, 'a')",
    "strpos(q, 'a')",
    "left(q, 1)",
    "substr(q, 1, 1)",
    "coalesce(q, q)",
    "nullif(q, q)",
    "least(q, q)",
    "greatest(q, q)",
    "date_part('year', q)",
    "date_part('epoch', q)",
    "date_trunc('day', q)",
    "CLAMP(q, 0, 1)",
    "q = q",
    "q < q",
    "q IS DISTINCT FROM q",
    "q IS NULL",
    "q IN (q, NULL)",
    "q BETWEEN q AND q",
    "CASE WHEN id = 1 THEN q END",
    "CASE q WHEN q THEN 1 END",
    "q + q",
    "q - q",
    "q * 2",
    "q / 2",
    "q % 2",
    "q / q",
    "mod(q, 2)",
    "round(q, -1)",
    "round(q, 1)",
    "trunc(q, 2)",
    "width_bucket(q, 0, 10, 5)",
    "date_bin(INTERVAL '10 days', q)",
    "date_bin(INTERVAL '2 months', q, '2025-01-31')",
    "strftime(q, '%Y-%m-%d %H')",
    "q || q",
    "concat(q, 'a')",
    "concat_ws('-', q, q)",
    "-q",
    "NOT q",
    "q LIKE 'a%'",
    "CAST(q AS VARCHAR)",
    "CAST(q AS BIGINT)",
    "CAST(q AS DOUBLE)",
    "CAST(q AS TIMESTAMP)",
    "MIN(q) OVER (PARTITION BY id)",
    "MAX(q) OVER (PARTITION BY id ORDER BY q)",
    "SUM(q) OVER (PARTITION BY id)",
    "COUNT(q) OVER (PARTITION BY id, q)",
    "RANK() OVER (PARTITION BY id ORDER BY q)",
    "LAG(q) OVER (PARTITION BY id ORDER BY k)",
    "LEAD(q, 2, NULL) OVER (PARTITION BY id ORDER BY q)",
    "LAG(q, 1, 0) OVER (PARTITION BY id ORDER BY k)",
    "LAST_VALUE(q) OVER (PARTITION BY id ORDER BY k ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)",
    "ROW_NUMBER() OVER (PARTITION BY id ORDER BY q)",
    "COUNT(*) OVER (PARTITION BY id ORDER BY k ROWS BETWEEN CURRENT ROW AND 18446744073709551614 FOLLOWING)",
    "COUNT(*) OVER (PARTITION BY id ORDER BY k ROWS BETWEEN CURRENT ROW AND 18446744073709551615 FOLLOWING)",
];

/// Whole statements, of `q`.
const STATEMENTS: [&str; 21] = [
    "SELECT LAPLACE(eps=1, rows=2) COUNT(q) FROM t",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(DISTINCT q) FROM t",
    "SELECT LAPLACE(eps=1, rows=2) SUM(CLAMP(q, 0, 1)) FROM t",
    "SELECT LAPLACE(eps=1, rows=2) AVG(CLAMP(q, 0, 1)) FROM t",
    "SELECT EXPONENTIAL(eps=1, rows=2) MEDIAN(CLAMP(q, 0, 1)) FROM t",
    "SELECT q, LAPLACE(eps=1, delta=0.001, rows=2, groups=2) COUNT(*) FROM t GROUP BY q",
    "SELECT ARGMAX EXPONENTIAL(eps=1, delta=0.001, rows=1, groups=2) q FROM t GROUP BY q",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, MIN(q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, MAX(q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, SUM(q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, AVG(q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, MEDIAN(q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, STDDEV(CLAMP(q, 0, 1)) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, VAR_POP(q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, BOOL_AND(q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, COUNT(DISTINCT q) AS x FROM t GROUP BY id)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM (SELECT id, q FROM t GROUP BY id, q)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM (SELECT DISTINCT id, q FROM t)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM t a JOIN t b ON a.id = b.id AND a.q = b.q",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM t WHERE id IN (SELECT id FROM t WHERE q IS NOT NULL)",
    "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM (SELECT id, q FROM t UNION ALL SELECT id, q FROM t)",
];

/// Asks; whether it was answered. What is neither answered nor refused is an error.
pub async fn answered(lab: &Session, sql: &str) -> Result<bool, String> {
    match lab.query(sql).await {
        Ok(_) => Ok(true),
        Err(Error::Execution) => Err("it failed while it ran".to_owned()),
        Err(Error::Internal) => Err("the engine's own checks failed".to_owned()),
        Err(error) if error.message().is_empty() => Err(format!("{error:?}")),
        Err(_) => Ok(false),
    }
}

/// An engine with a table of this column, of which a person has all rows or none.
async fn session(column: &ArrayRef, unit: &str, n: usize) -> Result<Analyst, Error> {
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1; ROWS]));
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let columns = [("id", ids, true), ("k", k, true), ("q", Arc::clone(column), true)];
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("t", rows.slice(0, n)).unwrap();
    for statement in [
        format!("ALTER TABLE t SET PRIVACY UNIT {unit}"),
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000, delta=0.5)".to_owned(),
    ] {
        engine.owner().execute(&statement).await?;
    }
    engine.analyst("lab")
}

#[tokio::test]
async fn no_type_fails_where_a_row_is() {
    let mut wrong = Vec::new();
    let (mut asked, mut answers) = (0, 0);
    for column in columns() {
        let with = session(&column, "(id) MAX ROWS 4", ROWS).await.unwrap();
        let values = VALUES.iter().map(|value| {
            format!("SELECT LAPLACE(eps=1, rows=2) COUNT(x) FROM (SELECT id, {value} AS x FROM t)")
        });
        for sql in values.chain(STATEMENTS.map(str::to_owned)) {
            asked += 1;
            match answered(&with, &sql).await {
                Ok(yes) => answers += usize::from(yes),
                Err(how) => wrong.push(format!("{}: {sql}: {how}", column.data_type())),
            }
        }
    }
    println!("{answers} of {asked} statements were answered");
    assert!(answers > 800, "{answers} of {asked} statements were answered");
    assert!(wrong.is_empty(), "{} statements:\n{}", wrong.len(), wrong.join("\n"));
}

/// A table whose people are named by values of a rare type answers nothing, or whatever rows it
/// has.
#[tokio::test]
async fn no_unit_fails_where_a_row_is() {
    let (mut wrong, mut declared) = (Vec::new(), 0);
    for column in columns() {
        for n in [0, ROWS] {
            // The owner is told of a type that names nobody.
            let Ok(lab) = session(&column, "(q) MAX ROWS 4", n).await else { continue };
            declared += 1;
            for sql in [
                "SELECT LAPLACE(eps=1, rows=2) COUNT(*) FROM t",
                "SELECT LAPLACE(eps=1) COUNT(DISTINCT q) FROM t",
                "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT q, MAX(k) AS x FROM t GROUP BY q)",
                "SELECT LAPLACE(eps=1, rows=2) COUNT(DISTINCT k) FROM t",
            ] {
                if let Err(how) = answered(&lab, sql).await {
                    wrong.push(format!("{}: {sql}: {how}", column.data_type()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(declared > 20, "{declared}");
}
