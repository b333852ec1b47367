//! How often a join with public rows repeats a private row: as often as the statement says at most,
//! and no more than public rows share one value of what the condition equates.
//!
//! A public table has every row that a person could have. The most matches that plain SQL finds for
//! one of them are compared with what the analysis takes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Engine};

const DAY: i64 = 86_400_000_000;

/// Rows that a person can have, and public rows, of which several share values.
async fn lab() -> Analyst {
    let rows = || (0..12_i64).flat_map(|n| (0..3_usize).map(move |k| (n, k)));
    let texts = |of: [&'static str; 3]| -> ArrayRef {
        Arc::new(rows().map(|(_, k)| Some(of[k])).collect::<StringArray>())
    };
    let numbers = rows().map(|(n, _)| n);
    let all: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(numbers.clone().map(Some).collect::<Int64Array>())),
        ("k", texts(["a", "b", "B"])),
        ("day", Arc::new(rows().map(|(n, _)| i32::try_from(n).ok()).collect::<Date32Array>())),
        ("ts", Arc::new(numbers.map(|n| Some(n * DAY / 2)).collect::<TimestampMicrosecondArray>())),
    ];
    let listed: Vec<i64> = vec![1, 1, 2, 3, 4, 5, 6, 7, 7, 7];
    let cents = listed.iter().map(|n| i128::from(*n) * 100);
    let codes: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(listed.clone()))),
        ("small", Arc::new(Int32Array::from_iter_values([1, 1, 2, 3, 4, 5, 6, 7, 7, 7]))),
        ("unlike", Arc::new(Int64Array::from_iter_values(0..10))),
        ("k", Arc::new(StringArray::from(vec!["a", "A", "b", "B", "c", "c", "d", "e", "f", "g"]))),
        ("long", Arc::new(StringArray::from_iter_values((0..10).map(|i| format!("a{i}"))))),
        ("x", Arc::new(Float64Array::from_iter_values((0..10).map(|i| f64::from(i) / 4.0)))),
        (
            "fee",
            Arc::new(
                Decimal128Array::from_iter_values(cents).with_precision_and_scale(12, 2).unwrap(),
            ),
        ),
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values((0..10).map(|i| i * DAY / 4)))),
        ("some", Arc::new(Int64Array::from_iter((0..10).map(|i| (i > 4).then_some(i % 2))))),
    ];
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    let all = RecordBatch::try_from_iter(all).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..36));
    let columns = [("id", ids)].into_iter();
    let columns = columns.chain(["n", "k", "day", "ts"].into_iter().zip(all.columns().to_vec()));
    let people = RecordBatch::try_from_iter(columns).unwrap();
    for (name, batch) in [
        ("everybody", people.clone()),
        ("codes", RecordBatch::try_from_iter(codes).unwrap()),
        ("people", people.clone()),
        ("loose", people),
    ] {
        engine.register_batch(name, batch).unwrap();
    }
    for declare in [
        "ALTER TABLE everybody SET PUBLIC",
        "ALTER TABLE codes SET PUBLIC",
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 11)",
        "ALTER TABLE loose SET PRIVACY UNIT ROW",
        "ALTER TABLE loose ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 11)",
        "CREATE PRIVACY BUDGET p FOR people LIMIT (epsilon=1000000)",
        "CREATE PRIVACY BUDGET l FOR loose LIMIT (epsilon=1000000)",
    ] {
        owner.execute(declare).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

/// The number that an explanation says: how often the join repeats a row at most.
fn said(explained: &str) -> i64 {
    let (_, rest) = explained.split_once("[public, each row ").unwrap();
    match rest.strip_prefix("at most ") {
        Some(rest) => rest.split(' ').next().unwrap().parse().unwrap(),
        None => i64::from(rest.starts_with("once")),
    }
}

#[tokio::test]
async fn a_join_repeats_a_row_as_often_as_public_rows_share_a_value() {
    let lab = lab().await;
    for (condition, expected) in [
        ("p.n = c.n", 3),
        // Of private columns alone.
        ("p.n + 1 = c.n", 3),
        ("c.n = p.n * 2 - 1", 3),
        ("c.unlike = p.n + 3", 1),
        ("EXTRACT(DAY FROM p.day) = c.unlike", 1),
        ("p.n % 4 = c.n AND c.unlike > 1", 3),
        ("p.n % 4 = c.n AND upper(p.k) = upper(c.k)", 2),
        ("p.n % 4 = c.n AND p.k = c.k", 1),
        ("CASE WHEN p.k = 'a' THEN p.n ELSE 7 END = c.n", 3),
        ("p.n / 2 = c.small", 3),
        ("CAST(p.n AS DECIMAL(12, 2)) + 1 = c.fee", 3),
        ("p.n - 4 = c.some", 3),
        // Of public columns alone: values that a function or a cast makes equal.
        ("p.n = c.n / 4", 6),
        ("p.n = c.unlike / 5 * 5", 5),
        ("upper(p.k) = upper(c.k)", 2),
        ("p.k = left(c.long, 1)", 10),
        ("p.n = CAST(c.x AS BIGINT)", 4),
        ("p.day = CAST(c.ts AS DATE)", 4),
        ("p.ts = c.ts", 1),
        ("p.day = c.ts", 1),
        // Of both, with other conditions, or of floats: all public rows.
        ("p.n + c.n = 8", 10),
        ("p.n = c.n + p.n * 0", 10),
        ("p.n + 1 = c.n OR p.k = c.k", 10),
        ("p.n + 1 >= c.n", 10),
        ("p.n + 0.5 = c.x", 10),
    ] {
        for kind in ["JOIN", "LEFT JOIN"] {
            for table in ["people", "loose"] {
                let from = format!("FROM {table} AS p {kind} codes AS c ON {condition}");
                let sql = format!("SELECT LAPLACE(eps=1) COUNT(*) {from}");
                let explained = lab.explain(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
                let most = said(&explained.to_string());
                let from = from.replace(table, "everybody");
                let plain =
                    format!("SELECT MAX(n) FROM (SELECT COUNT(*) AS n {from} GROUP BY p.id) q");
                let answer = lab.query(&plain).await.unwrap_or_else(|e| panic!("{plain}: {e}"));
                let found = answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0);
                assert!(found <= most, "{sql}: {found} of {most}");
                assert_eq!(most, expected, "{sql}: {found} rows match");
            }
        }
    }
}
