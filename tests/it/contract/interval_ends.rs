//! `error_low` and `error_high`: the ends of the ± of released numbers, in queries.
//!
//! Whole statements with fresh noise. The ends are those of the very draw that is shown, so that
//! what is compared here is exact up to the rounding of floats, and fails by chance never.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use hushql::{Answer, Error, Session};

use super::errors::lab;

/// A column of numbers, row by row.
fn column(answer: &Answer, name: &str) -> Vec<Option<f64>> {
    let of = |batch: &RecordBatch| {
        let column = batch.column_by_name(name).unwrap_or_else(|| panic!("{name}"));
        let floats = cast(column, &DataType::Float64).unwrap();
        floats.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
    };
    answer.batches().iter().flat_map(of).collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

async fn answer(session: &Session, sql: &str) -> Answer {
    session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The ends lie around each number, and the farther one is as far from it as the ± that is shown.
#[tokio::test]
async fn ends_are_those_of_the_error_that_is_shown() {
    let lab = lab().await;
    let counts = "SELECT k, COUNT(*) AS n, COUNT(*) FILTER (WHERE x >= 40) AS m, AVG(x) AS a, STDDEV_POP(x) AS s FROM p GROUP BY k";
    for number in [
        "n",
        "a",
        "s",
        "n + 1",
        "n - m",
        "m * 100.0 / n",
        "ROUND(a, 1)",
        "CAST(n AS DECIMAL(12, 2))",
        "SUM(n) OVER (ORDER BY k)",
        "n * 100.0 / (SELECT COUNT(*) FROM p)",
        "CASE WHEN n > 0 THEN m * 1.0 / n END",
        "ABS(n - 500)",
        "GREATEST(n, 0)",
        "SQRT(n)",
    ] {
        for sql in [
            format!(
                "SELECT k, {number} AS v, error_low({number}) AS lo, error_high({number}) AS hi FROM ({counts}) AS c ORDER BY k"
            ),
            format!(
                "WITH v AS (SELECT k, {number} AS v FROM ({counts}) AS c) SELECT k, v, error_low(v) AS lo, ERROR_HIGH(v) AS hi FROM v ORDER BY k"
            ),
        ] {
            let answer = answer(&lab, &sql).await;
            let errors: Vec<Option<f64>> = answer.errors(1).collect();
            let rows = column(&answer, "v").into_iter().zip(errors);
            let ends = column(&answer, "lo").into_iter().zip(column(&answer, "hi"));
            let mut told = 0;
            for ((value, error), (lo, hi)) in rows.zip(ends) {
                assert_eq!(error.is_some(), lo.is_some() && hi.is_some(), "{sql}: {answer}");
                let (Some(value), Some(error), Some(lo), Some(hi)) = (value, error, lo, hi) else {
                    continue;
                };
                assert!(lo <= value && value <= hi, "{sql}: {answer}");
                assert!(near((value - lo).max(hi - value), error), "{sql}: {answer}");
                told += 1;
            }
            assert_eq!(told, 3, "{sql}: {answer}");
            // An end has no ± of its own, and needs no note.
            assert!(answer.errors(2).chain(answer.errors(3)).all(|error| error.is_none()));
            assert!(answer.notes().is_empty(), "{:?}", answer.notes());
            assert!(answer.accuracy().iter().all(|one| one.column == "v"), "{answer}");
            for i in [2, 3] {
                assert_eq!(answer.schema().field(i).data_type(), &DataType::Float64);
            }
        }
    }
}

/// Beside an aggregate without a mechanism, a call reads the draw that is shown, at no further
/// cost.
#[tokio::test]
async fn a_call_beside_the_aggregate_is_the_same_draw() {
    let lab = lab().await;
    let sql = "SELECT k, COUNT(*) AS n, error_low(COUNT(*)) AS lo, error_high(COUNT(*)) AS hi FROM p GROUP BY k
        HAVING error_high(COUNT(*)) > -1000 ORDER BY error_low(COUNT(*)) DESC";
    let answer = answer(&lab, sql).await;
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 2");
    let (n, lo, hi) = (column(&answer, "n"), column(&answer, "lo"), column(&answer, "hi"));
    for ((n, lo), hi) in n.iter().zip(&lo).zip(&hi) {
        assert!(near(n.unwrap() * 2.0, lo.unwrap() + hi.unwrap()), "{answer}");
    }
    assert_eq!(n.len(), 3);
    assert!(lo.is_sorted_by(|a, b| a >= b), "{answer}");
}

/// Rows are chosen by an end: the number has no ± any more, and the ends say that they are those of
/// the draw.
#[tokio::test]
async fn rows_are_chosen_by_an_end() {
    let lab = lab().await;
    let counts = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM p GROUP BY k";
    let sql = format!(
        "SELECT k, n, error_low(n) AS lo, error_high(n) AS hi, s, error_low(s) AS ls FROM ({counts}) AS c WHERE error_low(n) > 1000 ORDER BY k"
    );
    let chosen = answer(&lab, &sql).await;
    assert_eq!(column(&chosen, "lo").len(), 2, "{chosen}");
    assert!(column(&chosen, "lo").iter().all(|lo| lo.unwrap() > 1000.0));
    assert!(chosen.errors(1).all(|error| error.is_none()) && chosen.errors(4).all(|e| e.is_some()));
    let notes = chosen.notes();
    assert!(notes.iter().any(|note| note.starts_with("n: no ±")), "{notes:?}");
    let drawn = |note: &&String| note.contains("as it was drawn");
    let drawn: Vec<&String> = notes.iter().filter(drawn).collect();
    assert_eq!(drawn.len(), 2, "{notes:?}");
    assert!(drawn[0].starts_with("error_low(") && drawn[1].starts_with("error_high("));
    // What is compared above is the number of a subquery below.
    let sql = format!(
        "SELECT k, lo FROM (SELECT k, n, error_low(n) AS lo FROM ({counts}) AS c) AS d WHERE lo > 1000"
    );
    assert_eq!(column(&answer(&lab, &sql).await, "lo").len(), 2);
}

/// A number that itself decides which rows come out has no interval; a condition that would go by
/// one is refused.
#[tokio::test]
async fn a_number_that_decides_has_no_interval() {
    let lab = lab().await;
    let counts = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM p GROUP BY k";
    for rest in ["WHERE n > 0", "WHERE n + s > 0", "ORDER BY n DESC LIMIT 2"] {
        let sql = format!(
            "SELECT k, n, error_low(n) AS lo, error_high(n) AS hi FROM ({counts}) AS c {rest}"
        );
        let answer = answer(&lab, &sql).await;
        let ends = column(&answer, "lo").into_iter().chain(column(&answer, "hi"));
        assert!(ends.clone().count() > 0 && ends.clone().all(|end| end.is_none()), "{answer}");
        let nulls = answer.notes().iter().filter(|note| note.contains(": NULL, since")).count();
        assert_eq!(nulls, 2, "{:?}", answer.notes());
    }
    // It makes no difference where the number decides.
    for sql in [
        format!(
            "SELECT k, lo FROM (SELECT k, n, error_low(n) AS lo FROM ({counts}) AS c) AS d WHERE n > 0"
        ),
        format!(
            "SELECT k, error_low(n) AS lo FROM (SELECT k, n FROM ({counts}) AS c WHERE n > 0) AS d"
        ),
    ] {
        let answer = answer(&lab, &sql).await;
        assert!(column(&answer, "lo").iter().all(Option::is_none), "{sql}: {answer}");
    }
    // The number that is compared with a threshold.
    let demo = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
    let sql = "SELECT price, n, error_high(n) AS hi, error_low(s) AS lo FROM
        (SELECT price, LAPLACE(eps=1, delta=1e-6, groups=1) COUNT(DISTINCT user_id) AS n, LAPLACE(eps=1, groups=1) SUM(qty) AS s FROM orders GROUP BY price) AS c";
    let shown = answer(&demo, sql).await;
    assert!(!column(&shown, "hi").is_empty(), "{shown}");
    assert!(column(&shown, "hi").iter().all(Option::is_none), "{shown}");
    assert!(column(&shown, "lo").iter().all(Option::is_some), "{shown}");
    let sql = format!("SELECT k FROM ({counts}) AS c WHERE n > 0 AND error_low(n) > 0");
    let Err(Error::Refused(refusal)) = lab.prepare(&sql).map(|_| ()) else { panic!("{sql}") };
    assert_eq!(refusal.code(), "HQ011", "{refusal}");
}

/// Ends are numbers like others: in views, windows, aggregates, prepared queries and streams.
#[tokio::test]
async fn ends_are_used_like_other_numbers() {
    let lab = lab().await;
    let counts = "SELECT k, COUNT(*) AS n FROM p GROUP BY k";
    let sql = format!(
        "SELECT AVG(error_high(n) - error_low(n)) / 2 AS off, MAX(n - error_low(n)) AS same FROM ({counts}) AS c"
    );
    let one = answer(&lab, &sql).await;
    assert_eq!(column(&one, "off"), column(&one, "same"));
    let sql = format!(
        "SELECT k, rank() OVER (ORDER BY error_low(n) DESC) AS place, SUM(error_low(n)) OVER () AS s FROM ({counts}) AS c ORDER BY k"
    );
    assert_eq!(column(&answer(&lab, &sql).await, "place").len(), 3);
    let sql = format!("SELECT k, error_low(n) AS lo FROM ({counts}) AS c WHERE error_low(n) > $1");
    let prepared = lab.prepare_with(&sql, [1000]).unwrap();
    assert_eq!(prepared.schema().field(1).data_type(), &DataType::Float64);
    assert_eq!(column(&prepared.execute().await.unwrap(), "lo").len(), 2);
    let mut stream = lab.stream(&sql.replace("$1", "0")).await.unwrap();
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.unwrap();
        assert_eq!(batch.column(1).null_count(), 0);
        rows += batch.num_rows();
    }
    assert_eq!(rows, 3);
}
