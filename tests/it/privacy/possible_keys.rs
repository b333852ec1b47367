//! The keys that a statement lists are those that a row of the domain can have which meets its
//! conditions: no fewer, and no more.
//!
//! A public table has every value of the domain. What plain SQL finds there, with the same key and
//! the same conditions, is compared with the keys of a private table without a row.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hushql::{Analyst, Engine, Session};

const MINUTE: i64 = 60_000_000;
const DAY: i64 = 1_440 * MINUTE;

/// The days of 2023-11-01 to 2025-02-28, and the open end of a register.
fn days() -> Vec<i32> {
    (19_662..=20_147).chain([2_932_896]).collect()
}

/// The first and the last moment of each half hour from 2024-02-27 to 2024-06-25, and those beside
/// it.
fn moments() -> Vec<i64> {
    let begins = (19_780 * 48..19_900 * 48).map(|half| half * 30 * MINUTE);
    begins.flat_map(|begin| [begin, begin + 1, begin + 30 * MINUTE - 1]).collect()
}

/// A public table with all values, and private ones of which the domains say the same.
async fn session() -> Analyst {
    let engine = Engine::in_memory().unwrap();
    let columns: [(&str, ArrayRef, &str); 6] = [
        (
            "d",
            Arc::new(Date32Array::from(days())),
            "BETWEEN (DATE '1900-01-01', DATE '9999-12-31')",
        ),
        ("bare", Arc::new(Date32Array::from(days())), ""),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(moments())),
            "BETWEEN ('2024-02-27', '2024-06-25 23:59:59.999999')",
        ),
        (
            "fee",
            Arc::new(
                Decimal128Array::from_iter_values(0..=10_000)
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
            "BETWEEN (0, 100)",
        ),
        ("n", Arc::new(Int64Array::from_iter_values(-50..=1_200)), "BETWEEN (-50, 1200)"),
        (
            "k",
            Arc::new(StringArray::from_iter_values(["a", "B", "cc", "a d", "2024"])),
            "IN ('a', 'B', 'cc', 'a d', '2024')",
        ),
    ];
    let owner = engine.owner();
    let mut tables = Vec::new();
    for (name, values, domain) in columns {
        let public = RecordBatch::try_from_iter([(name, Arc::clone(&values))]).unwrap();
        engine.register_batch(&format!("all_{name}"), public).unwrap();
        owner.execute(&format!("ALTER TABLE all_{name} SET PUBLIC")).await.unwrap();
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values([]));
        let none = RecordBatch::try_from_iter([("id", id), (name, values.slice(0, 0))]).unwrap();
        engine.register_batch(&format!("no_{name}"), none).unwrap();
        owner
            .execute(&format!("ALTER TABLE no_{name} SET PRIVACY UNIT (id) UNIQUE"))
            .await
            .unwrap();
        if !domain.is_empty() {
            let declare =
                format!("ALTER TABLE no_{name} ALTER COLUMN {name} SET PRIVACY DOMAIN {domain}");
            owner.execute(&declare).await.unwrap();
        }
        tables.push(format!("no_{name}"));
    }
    for table in tables {
        let budget = format!("CREATE PRIVACY BUDGET {table} FOR {table} LIMIT (epsilon=1000000)");
        owner.execute(&budget).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

/// The values of the first column that are not NULL, and whether one is.
async fn keys(lab: &Session, sql: &str) -> Result<(BTreeSet<String>, bool), String> {
    let answer = lab.query(sql).await.map_err(|error| error.to_string())?;
    let (mut keys, mut has_null) = (BTreeSet::new(), false);
    for batch in answer.batches() {
        let column = batch.column(0);
        let texts = ArrayFormatter::try_new(column, &FormatOptions::default()).unwrap();
        for row in 0..column.len() {
            match column.is_null(row) {
                true => has_null = true,
                false => {
                    let text = texts.value(row).to_string();
                    assert!(keys.insert(without_zeros(&text)), "{sql}: {text} comes twice");
                }
            }
        }
    }
    Ok((keys, has_null))
}

/// The rows, without the last columns.
async fn rows(lab: &Session, sql: &str, dropped: usize) -> Result<BTreeSet<String>, String> {
    let answer = lab.query(sql).await.map_err(|error| error.to_string())?;
    let mut all = BTreeSet::new();
    for batch in answer.batches() {
        let options = FormatOptions::default().with_null("NULL");
        let kept = batch.columns().len() - dropped;
        let columns = batch.columns().iter().take(kept);
        let columns: Vec<_> =
            columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let row: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            assert!(all.insert(row.join(", ")), "{sql}: {row:?} comes twice");
        }
    }
    Ok(all)
}

/// A number without the zeros at its end: places differ where only one side knows their number.
fn without_zeros(text: &str) -> String {
    match text.parse::<f64>().is_ok() && text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

/// Compares the keys of every expression under every condition; what differs.
async fn compared(column: &str, exprs: &[&str], conditions: &[&str]) -> Vec<String> {
    let lab = session().await;
    let mut wrong = Vec::new();
    for condition in conditions {
        for expr in exprs {
            let rest = format!("WHERE {condition} GROUP BY 1").replace('@', column);
            let expr = expr.replace('@', column);
            let plain = format!("SELECT {expr} AS key, COUNT(*) FROM all_{column} {rest}");
            let (expected, has_null) =
                keys(&lab, &plain).await.unwrap_or_else(|e| panic!("{plain}: {e}"));
            let private =
                format!("SELECT {expr} AS key, LAPLACE(eps=1) COUNT(*) FROM no_{column} {rest}");
            match keys(&lab, &private).await {
                Ok((found, null_too)) => {
                    let fewer: Vec<_> = expected.difference(&found).take(3).collect();
                    let more: Vec<_> = found.difference(&expected).take(3).collect();
                    if !fewer.is_empty() || !more.is_empty() || has_null && !null_too {
                        wrong.push(format!(
                            "{private}\n    {} keys of {}: without {fewer:?}, with {more:?}",
                            found.len(),
                            expected.len()
                        ));
                    }
                }
                Err(error) if !expected.is_empty() => wrong.push(format!("{private}\n    {error}")),
                Err(_) => {}
            }
        }
    }
    wrong
}

const DATE_KEYS: [&str; 14] = [
    "@",
    "date_trunc('month', @)",
    "date_trunc('week', @)",
    "date_bin(INTERVAL '10 days', @)",
    "EXTRACT(YEAR FROM @)",
    "EXTRACT(MONTH FROM @)",
    "EXTRACT(DOW FROM @)",
    "EXTRACT(YEAR FROM @) * 100 + EXTRACT(QUARTER FROM @)",
    "to_char(@, 'YYYY-MM')",
    "strftime(@, '%a')",
    "CAST(@ AS VARCHAR)",
    "CASE WHEN @ = DATE '9999-12-31' THEN 'open' ELSE 'closed' END",
    "CASE WHEN @ > DATE '2024-06-30' THEN 'late' WHEN EXTRACT(MONTH FROM @) = 2 THEN 'winter' ELSE 'early' END",
    "date_diff('month', DATE '2024-01-01', @)",
];

const DATE_CONDITIONS: [&str; 20] = [
    "@ = DATE '9999-12-31'",
    "@ BETWEEN '2024-01-10' AND '2024-02-03'",
    "@ BETWEEN '2024-01-01' AND '2024-01-31' OR @ = DATE '9999-12-31'",
    "EXTRACT(YEAR FROM @) = 2024",
    "EXTRACT(YEAR FROM @) = 2024 AND EXTRACT(MONTH FROM @) IN (2, 3)",
    "EXTRACT(YEAR FROM @) IN (2024, 9999) AND @ <> DATE '9999-12-30' AND (@ < '2024-02-01' OR @ >= '9999-12-31')",
    "date_trunc('month', @) = DATE '2024-03-01'",
    "date_trunc('quarter', @) IN (DATE '2024-01-01', DATE '2024-07-01')",
    "@ IN (DATE '2024-02-29', DATE '2024-12-31', DATE '9999-12-31')",
    "NOT (@ < DATE '2024-12-20' OR @ > DATE '2025-01-05')",
    "@ >= '2024-03-10' AND @ < DATE '2024-03-10' + INTERVAL '2 months'",
    "@ + INTERVAL '1 month' > DATE '2025-03-20' AND @ < DATE '2025-03-01'",
    "@ - DATE '2024-01-01' BETWEEN 0 AND 30",
    "to_char(@, 'YYYY-MM') = '2024-05'",
    "CAST(@ AS VARCHAR) LIKE '2024-06%'",
    "left(CAST(@ AS VARCHAR), 7) = '2024-06'",
    "(@ < DATE '2024-03-01') IS TRUE AND @ >= DATE '2024-02-01' AND EXTRACT(DOW FROM @) = 3",
    "CASE WHEN @ > DATE '2024-06-01' THEN @ < DATE '2024-06-05' ELSE @ = DATE '2024-01-01' END",
    "date_diff('week', DATE '2024-01-01', @) = 4",
    "@ BETWEEN DATE '2024-01-01' AND DATE '2024-12-31' AND @ NOT BETWEEN DATE '2024-01-15' AND DATE '2024-12-15'",
];

#[tokio::test]
async fn keys_of_dates_are_the_possible_ones() {
    let wrong = compared("d", &DATE_KEYS, &DATE_CONDITIONS).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn keys_of_dates_without_a_domain_are_the_possible_ones() {
    let exprs = [DATE_KEYS[0], DATE_KEYS[1], DATE_KEYS[4], DATE_KEYS[5], DATE_KEYS[12]];
    let wrong = compared("bare", &exprs, &DATE_CONDITIONS).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn keys_of_moments_are_the_possible_ones() {
    let exprs = [
        "date_trunc('month', @)",
        "date_trunc('hour', @)",
        "CAST(@ AS DATE)",
        "date_bin(INTERVAL '6 hours', @)",
        "EXTRACT(MONTH FROM @)",
        "EXTRACT(HOUR FROM @)",
        "EXTRACT(DOW FROM @) * 100 + EXTRACT(HOUR FROM @)",
        "to_char(@, 'YYYY-MM-DD')",
        "CASE WHEN @ < TIMESTAMP '2024-04-01 12:00:00' THEN 'before' WHEN EXTRACT(HOUR FROM @) < 6 THEN 'night' ELSE 'day' END",
    ];
    let conditions = [
        "@ IS NOT NULL",
        "@ BETWEEN '2024-03-10' AND '2024-06-20'",
        "@ >= TIMESTAMP '2024-05-31 18:30:00' AND @ < TIMESTAMP '2024-06-01 03:00:00'",
        "@ = TIMESTAMP '2024-04-01 12:00:00'",
        "@ IN (TIMESTAMP '2024-04-01 12:00:00', TIMESTAMP '2024-06-01 00:30:00')",
        "@ < TIMESTAMP '2024-02-28 06:00:00' OR @ > TIMESTAMP '2024-06-25 20:00:00'",
        "NOT (@ >= TIMESTAMP '2024-02-27 10:00:00' AND @ <= TIMESTAMP '2024-06-25 20:00:00')",
        "CAST(@ AS DATE) = DATE '2024-03-15'",
        "CAST(@ AS DATE) IN (DATE '2024-03-15', DATE '2024-05-01') AND EXTRACT(HOUR FROM @) BETWEEN 9 AND 11",
        "date_trunc('month', @) = DATE '2024-04-01'",
        "date_trunc('hour', @) <> TIMESTAMP '2024-04-01 12:00:00' AND date_trunc('day', @) = DATE '2024-04-01'",
        "date_trunc('month', @) <> DATE '2024-04-01' AND @ > TIMESTAMP '2024-03-30 00:00:00' AND @ < TIMESTAMP '2024-05-02 00:00:00'",
        "@ + INTERVAL '36 hours' > TIMESTAMP '2024-06-26 00:00:00'",
        "EXTRACT(MONTH FROM @) = 3 AND EXTRACT(DOW FROM @) = 1",
        "CAST(@ AS VARCHAR) LIKE '2024-05-0%'",
        "@ >= '2024-06-25' AND EXTRACT(HOUR FROM @) >= 22",
    ];
    let wrong = compared("ts", &exprs, &conditions).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn keys_of_decimals_are_the_possible_ones() {
    let exprs = [
        "@",
        "floor(@)",
        "ceil(@)",
        "round(@)",
        "round(@, 1)",
        "trunc(@, -1)",
        "floor(@ / 10) * 10",
        "CAST(@ AS BIGINT)",
        "CAST(@ AS BIGINT) % 7",
        "width_bucket(@, 0, 100, 8)",
        "CASE WHEN @ >= 97.5 THEN 'most' WHEN @ = 17 THEN 'some' ELSE 'other' END",
    ];
    let conditions = [
        "@ > 97",
        "@ IN (17, 18)",
        "@ IN (17.01, 99.99) OR @ = 0",
        "@ BETWEEN 16.5 AND 18.25",
        "@ < 3 OR @ > 98.5",
        "NOT @ BETWEEN 1.5 AND 99.5",
        "floor(@) = 42",
        "round(@) IN (3, 97)",
        "@ <> 100 AND @ > 98.98",
        "@ * 2 > 197",
        "CAST(@ AS BIGINT) = 12",
        "CAST(@ AS DOUBLE) < 0.5",
        "width_bucket(@, 0, 100, 50) = 3",
        "@ - 50 BETWEEN -1 AND 0",
    ];
    let wrong = compared("fee", &exprs, &conditions).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn keys_of_whole_numbers_are_the_possible_ones() {
    let exprs = [
        "@",
        "@ / 100",
        "@ / 100 * 100",
        "@ % 10",
        "abs(@)",
        "floor(@ / 7.0)",
        "round(@, -2)",
        "width_bucket(@, 0, 1000, 4)",
        "CAST(@ AS VARCHAR)",
        "CASE WHEN @ < 0 THEN 'negative' WHEN @ % 2 = 0 THEN 'even' ELSE 'odd' END",
    ];
    let conditions = [
        "@ > 1150",
        "@ IN (17, 18, -3)",
        "@ BETWEEN 95 AND 105 OR @ = -50",
        "@ / 100 = 3",
        "@ % 100 = 3",
        "abs(@) < 4",
        "NOT (@ < 1190)",
        "@ <> 1200 AND @ >= 1198",
        "@ * 3 + 1 BETWEEN 10 AND 20",
        "CAST(@ AS DOUBLE) / 2 < -20",
        "(@ < 0) = (@ > -10)",
    ];
    let wrong = compared("n", &exprs, &conditions).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn keys_of_texts_are_the_possible_ones() {
    let exprs = ["@", "upper(@)", "left(@, 1)", "length(@)", "CASE WHEN @ = 'a' THEN 1 ELSE 2 END"];
    let conditions = [
        "@ = 'a'",
        "@ IN ('a', 'cc')",
        "@ <> 'a'",
        "NOT @ IN ('a', 'B')",
        "@ LIKE 'a%'",
        "upper(@) = 'B' OR length(@) = 2",
        "@ BETWEEN 'a' AND 'b'",
        "CASE WHEN @ = 'a' THEN FALSE ELSE length(@) < 3 END",
    ];
    let wrong = compared("k", &exprs, &conditions).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Public tables with every combination of some columns' values, private ones without a row, and
/// public tables to join them with.
async fn joined_session() -> Analyst {
    let engine = Engine::in_memory().unwrap();
    let owner = engine.owner();
    let numbers: Vec<(i64, i64, i64)> = (0..10)
        .flat_map(|day| (0..3).flat_map(move |k| (-1..14).map(move |u| (day, k, u))))
        .collect();
    let column = |of: fn(&(i64, i64, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(numbers.iter().map(of)))
    };
    let letter = |k: i64| ["a", "b", "c"][usize::try_from(k).unwrap()];
    let texts = numbers.iter().map(|(_, k, _)| letter(*k));
    let of_days: [(&str, ArrayRef); 3] = [
        ("day", column(|(day, _, _)| *day)),
        ("k", Arc::new(StringArray::from_iter_values(texts))),
        ("u", column(|(_, _, u)| *u)),
    ];
    let moments: Vec<(i64, i64)> =
        moments().into_iter().flat_map(|ts| (0..3).map(move |k| (ts, k))).collect();
    let of_moments: [(&str, ArrayRef); 2] = [
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                moments.iter().map(|(ts, _)| *ts),
            )),
        ),
        ("k", Arc::new(StringArray::from_iter_values(moments.iter().map(|(_, k)| letter(*k))))),
    ];
    for (name, columns) in [("v", of_days.to_vec()), ("t", of_moments.to_vec())] {
        let all = RecordBatch::try_from_iter(columns).unwrap();
        engine.register_batch(&format!("all_{name}"), all.clone()).unwrap();
        owner.execute(&format!("ALTER TABLE all_{name} SET PUBLIC")).await.unwrap();
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values([]));
        let none = all.slice(0, 0);
        let schema = none.schema();
        let columns = schema.fields().iter().map(|field| field.name().clone());
        let columns = columns.zip(none.columns().to_vec()).collect::<Vec<_>>();
        let none = [("id".to_owned(), id)].into_iter().chain(columns);
        let none = RecordBatch::try_from_iter(none).unwrap();
        engine.register_batch(&format!("no_{name}"), none).unwrap();
        owner
            .execute(&format!("ALTER TABLE no_{name} SET PRIVACY UNIT (id) UNIQUE"))
            .await
            .unwrap();
    }
    for declare in [
        "ALTER TABLE no_v ALTER COLUMN day SET PRIVACY DOMAIN BETWEEN (0, 9)",
        "ALTER TABLE no_v ALTER COLUMN k SET PRIVACY DOMAIN IN ('a', 'b', 'c')",
        "ALTER TABLE no_t ALTER COLUMN k SET PRIVACY DOMAIN IN ('a', 'b', 'c')",
        "ALTER TABLE no_t ALTER COLUMN ts SET PRIVACY DOMAIN BETWEEN ('2024-02-27', '2024-06-25 23:59:59.999999')",
        "CREATE PRIVACY BUDGET v FOR no_v LIMIT (epsilon=1000000)",
        "CREATE PRIVACY BUDGET t FOR no_t LIMIT (epsilon=1000000)",
    ] {
        owner.execute(declare).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

/// Public rows, as joins write them.
const D: &str = "(VALUES (1, 'one', 'odd'), (2, 'two', 'even'), (3, 'three', 'odd'), (4, 'four', 'even'), (11, 'far', 'odd'), (NULL, 'none', 'even')) AS d(day, label, kind)";
const W: &str = "(VALUES (2, 'rain', 1), (3, 'sun', 2), (3, 'wind', 2), (5, 'snow', 3), (12, 'hail', 2)) AS w(day, sky, x)";
const P: &str = "(VALUES ('a', 'alpha', 1), ('b', 'beta', 2), ('z', 'zeta', 1), ('b', NULL, 3)) AS p(k, label, x)";
const M: &str =
    "(VALUES (1, 'jan'), (3, 'mar'), (4, 'apr'), (6, 'jun'), (12, 'dec')) AS m(month, name)";
const C: &str = "(VALUES (DATE '2024-02-29', 'leap'), (DATE '2024-03-31', 'easter'), (DATE '2024-12-25', 'xmas')) AS c(day, feast)";

/// Keys, joins and conditions over `@`.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_joined_rows_are_the_possible_ones() {
    let lab = joined_session().await;
    let d = |kind: &str, on: &str| format!("{kind} {D} ON {on}");
    let w = |kind: &str, on: &str| format!("{kind} {W} ON {on}");
    let p = |kind: &str, on: &str| format!("{kind} {P} ON {on}");
    let m = |on: &str| format!("JOIN {M} ON {on}");
    let c = |on: &str| format!("JOIN {C} ON {on}");
    let both = d("JOIN", "v.day = d.day") + " " + &w("JOIN", "v.day = w.day");
    let by_u = d("JOIN", "v.u = d.day") + " " + &w("JOIN", "v.u = w.day");
    let cases: Vec<(&str, String)> = vec![
        // Two public tables, joined by one private column.
        ("d.label, w.sky", format!("v {both}")),
        ("w.sky", format!("v {both}")),
        ("d.label, w.x", format!("v {both} WHERE w.x = 2")),
        ("d.kind", format!("v {both} WHERE w.sky <> 'rain'")),
        ("d.label, w.sky", format!("v {by_u}")),
        ("d.label", format!("v {by_u} WHERE w.sky = 'sun' OR w.sky = 'hail'")),
        ("d.kind, w.sky, v.day", format!("v {both}")),
        (
            "d.kind, v.k",
            format!("v {both} WHERE v.k = 'a' AND w.x = 1 OR v.k = 'b' AND d.kind = 'odd'"),
        ),
        ("d.label || w.sky", format!("v {both}")),
        // A second table that is joined with the first one.
        (
            "d.label, w.sky",
            format!(
                "v {} {} WHERE w.x > 1",
                d("JOIN", "v.day = d.day"),
                w("JOIN", "d.day < w.day")
            ),
        ),
        // Expressions.
        ("d.label", format!("v {}", d("JOIN", "v.day + 7 = d.day"))),
        ("w.sky", format!("v {}", w("JOIN", "v.day * 2 - 1 = w.day"))),
        ("w.sky, v.day", format!("v {} WHERE v.day > 4", w("JOIN", "v.day / 2 = w.day"))),
        (
            "w.sky",
            format!(
                "v {} WHERE v.day BETWEEN 6 AND 8",
                w("JOIN", "w.day BETWEEN v.day - 1 AND v.day + 1")
            ),
        ),
        ("p.label", format!("v {} WHERE v.day = p.x", p("JOIN", "upper(v.k) = upper(p.k)"))),
        (
            "d.kind, p.label",
            format!("v {} {}", d("JOIN", "v.day = d.day"), p("JOIN", "p.x = v.day")),
        ),
        ("p.label", format!("v {} WHERE v.day = p.x AND v.k > 'a'", p("JOIN", "v.k = p.k"))),
        // Outer joins.
        ("p.label", format!("v {} WHERE p.x = 1", p("LEFT JOIN", "p.k = v.k"))),
        ("p.label, p.x", format!("v {}", p("LEFT JOIN", "p.k = v.k"))),
        ("p.label", format!("v {} WHERE p.x IS NULL OR p.x > 2", p("LEFT JOIN", "p.k = v.k"))),
        (
            "p.x",
            format!("v {} WHERE COALESCE(p.label, 'beta') = 'beta'", p("LEFT JOIN", "p.k = v.k")),
        ),
        ("p.label", format!("v {} WHERE NOT (p.x = 2)", p("LEFT JOIN", "p.k = v.k"))),
        (
            "w.sky, d.label",
            format!(
                "v {} {} WHERE w.x = 1",
                d("JOIN", "v.day = d.day"),
                w("LEFT JOIN", "v.day = w.day")
            ),
        ),
        // Subqueries that hide the columns of the join.
        (
            "v.label",
            format!(
                "(SELECT @.*, d.label FROM @ {} {} WHERE w.x = 2) AS v",
                d("JOIN", "@.day = d.day"),
                w("JOIN", "@.day = w.day")
            ),
        ),
        (
            "v.label, v.sky",
            format!(
                "(SELECT @.*, d.label, w.sky, w.x FROM @ {} {}) AS v WHERE v.x = 2",
                d("JOIN", "@.day = d.day"),
                w("JOIN", "@.day = w.day")
            ),
        ),
        // Subqueries that compute the columns of the join, private ones and public ones.
        (
            "w.sky, s.q",
            format!(
                "(SELECT @.day * 2 AS x, @.day % 3 AS q FROM @) AS s {}",
                w("JOIN", "s.x - 1 = w.day")
            ),
        ),
        (
            "s.q",
            format!(
                "(SELECT @.day + 7 AS x, @.day % 4 AS q, @.k FROM @) AS s {} WHERE d.kind = 'odd' AND s.k = d.label OR s.k = 'a'",
                d("JOIN", "s.x = d.day")
            ),
        ),
        (
            "s.q",
            format!(
                "(SELECT @.day + 7 AS x, @.day % 4 AS q, @.k FROM @) AS s {} WHERE d.kind = 'odd' AND s.k = 'a'",
                d("JOIN", "s.x = d.day")
            ),
        ),
        (
            "s.y, d.label",
            format!(
                "(SELECT r.x + 1 AS y, r.k FROM (SELECT @.day + 1 AS x, @.k FROM @ WHERE @.day > 0) AS r WHERE r.k <> 'b') AS s {}",
                d("JOIN", "s.y = d.day")
            ),
        ),
        (
            "s.k, r.big",
            format!(
                "(SELECT @.day AS x, @.k FROM @) AS s {} JOIN (SELECT upper(p.k) AS big, p.x * 2 AS x FROM {P} WHERE p.x < 3) AS r ON r.x = s.x AND upper(s.k) = r.big",
                d("JOIN", "s.x = d.day")
            ),
        ),
        // Moments.
        ("m.name", format!("t {}", m("EXTRACT(MONTH FROM t.ts) = m.month"))),
        (
            "m.name, EXTRACT(QUARTER FROM t.ts)",
            format!("t {}", m("EXTRACT(MONTH FROM t.ts) = m.month")),
        ),
        (
            "t.ts::date",
            format!("t {} WHERE m.name = 'apr'", m("EXTRACT(MONTH FROM t.ts) = m.month")),
        ),
        (
            "m.name",
            format!(
                "t {} WHERE t.ts < '2024-04-10 12:00'",
                m("EXTRACT(MONTH FROM t.ts) = m.month")
            ),
        ),
        ("c.feast", format!("t {}", c("t.ts::date = c.day"))),
        ("c.feast, EXTRACT(MONTH FROM t.ts)", format!("t {}", c("t.ts::date = c.day"))),
        (
            "c.feast, m.name",
            format!("t {} {}", c("t.ts::date = c.day"), m("EXTRACT(MONTH FROM t.ts) = m.month")),
        ),
        ("c.feast", format!("t {}", c("t.ts < c.day"))),
        (
            "to_char(t.ts, 'YYYY-MM'), m.name",
            format!("t {} WHERE t.k = 'a'", m("EXTRACT(MONTH FROM t.ts) = m.month")),
        ),
    ];
    let mut wrong = Vec::new();
    for (keys, from) in cases {
        let name = if from.starts_with('t') { "t" } else { "v" };
        let over = |tables: &str, text: &str| {
            text.replace(&format!("FROM {name} "), &format!("FROM {tables}_{name} AS {name} "))
                .replace('@', &format!("{tables}_{name}"))
        };
        let plain = over("all", &format!("SELECT DISTINCT {keys} FROM {from}"));
        let expected = rows(&lab, &plain, 0).await.unwrap_or_else(|e| panic!("{plain}: {e}"));
        let private = format!("SELECT {keys}, LAPLACE(eps=1) COUNT(*) FROM {from} GROUP BY ALL");
        let private = over("no", &private);
        match rows(&lab, &private, 1).await {
            Ok(found) => {
                let fewer: Vec<_> = expected.difference(&found).take(3).collect();
                let more: Vec<_> = found.difference(&expected).take(3).collect();
                if !fewer.is_empty() || !more.is_empty() {
                    wrong.push(format!(
                        "{private}\n    {} keys of {}: without {fewer:?}, with {more:?}",
                        found.len(),
                        expected.len()
                    ));
                }
            }
            Err(error) if expected.is_empty() && error.contains("HQ025") => {}
            Err(error) => wrong.push(format!("{private}\n    {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}\n{} differ", wrong.join("\n"), wrong.len());
}

#[test]
fn the_table_has_what_the_domain_says() {
    assert_eq!(moments().first(), Some(&(19_780 * DAY)));
    assert_eq!(moments().last(), Some(&(19_900 * DAY - 1)));
}
