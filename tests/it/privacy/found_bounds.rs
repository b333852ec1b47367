//! Bounds that the engine finds: they are those of the rows, and the answer tells what is known of
//! its error.
//!
//! Whole statements with fresh noise. With bounds that hold every value, the ± must cover the exact
//! sum as often as it says. Each test states how often it fails by chance.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use hushql::{AccuracyKind, Analyst, Answer, Engine};

/// A table of whole numbers in a column of each type, every row a unit.
async fn numbers(values: RangeInclusive<i64>) -> (Engine, Analyst) {
    let engine = Engine::in_memory().unwrap();
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(values.clone()));
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values(values.map(|i| i as f64)));
    let batch = RecordBatch::try_from_iter([("id", id), ("x", x)]).unwrap();
    engine.register_batch("t", batch).unwrap();
    for statement in [
        "ALTER TABLE t SET PRIVACY UNIT ROW",
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100000)",
    ] {
        engine.owner().execute(statement).await.unwrap();
    }
    let session = engine.analyst("lab").unwrap();
    (engine, session)
}

fn number(answer: &Answer, column: usize) -> f64 {
    let values = answer.batches()[0].column(column);
    match values.as_primitive_opt::<Int64Type>() {
        Some(whole) => whole.value(0) as f64,
        None => values.as_primitive::<Float64Type>().value(0),
    }
}

/// The ± of a column.
fn within(answer: &Answer, column: &str) -> f64 {
    let own = |a: &&hushql::Accuracy| a.column == column && a.kind == AccuracyKind::Within;
    answer.accuracy().iter().find(own).unwrap_or_else(|| panic!("{answer}")).value
}

/// 200 sums of 1,000 rows below 1,024. Another bound comes of an empty bucket, which 1 in 5,000
/// runs of this test keeps at most; that less than 168 of 200 are within a ± of 95 % has a
/// probability below 10⁻⁶. With a threshold of 5 % about five bounds were too large, by up to 2⁵³.
#[tokio::test]
async fn found_bounds_are_those_of_the_rows() {
    let (_engine, session) = numbers(1..=1_000).await;
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=2) SUM(id) AS s FROM t";
    let mut covered = 0;
    for _ in 0..200 {
        let answer = session.query(sql).await.unwrap();
        let note = &answer.notes()[0];
        assert!(note.starts_with("sum(id): values were cut to ± 1024, the bound found"), "{note}");
        // The sum of x/b has noise of scale 1: 3 are exceeded with 2.6 %, and a grid of 2⁻³⁹ makes
        // that 3.0.
        let within = within(&answer, "s");
        assert!((3_060.0..3_080.0).contains(&within), "{within}");
        covered += u32::from((number(&answer, 0) - 500_500.0).abs() <= within);
    }
    assert!(covered >= 168, "{covered} of 200 within ±");
}

/// Means and spreads have a ± in their own unit too; next to no noise is left at this ε.
#[tokio::test]
async fn errors_come_in_the_unit_of_the_answer() {
    let (_engine, session) = numbers(1..=1_000).await;
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=4000) SUM(x) AS s, AVG(x) AS m, VAR_POP(x) AS v, STDDEV_POP(x) AS d FROM t";
    let answer = session.query(sql).await.unwrap();
    // The scale is 1/500 of a row of 1,024 for a sum, and for a mean as much of two sums, divided
    // by 1,000.
    let off: Vec<f64> = ["s", "m", "v", "d"].iter().map(|name| within(&answer, name)).collect();
    assert!((5.0..8.0).contains(&off[0]), "{off:?}");
    // No negative values stand out, so means and spreads are measured from 0 to 1,024.
    assert!((0.005..0.015).contains(&off[1]), "{off:?}");
    assert!((1.25..15.0).contains(&off[2]) && (0.0025..0.05).contains(&off[3]), "{off:?}");
    for (column, exact) in [500_500.0, 500.5, 83_333.25, 83_333.25_f64.sqrt()].iter().enumerate() {
        // A hundredfold ± is exceeded by none.
        assert!((number(&answer, column) - exact).abs() <= 100.0 * off[column], "{answer}");
    }
}

/// What is computed from a number with a found bound has the ± of the number, computed the same
/// way: the bound is a scale, and no ± counts what it cuts. Whole numbers are off by one more at
/// most.
#[tokio::test]
async fn what_is_computed_has_an_error_too() {
    let (_engine, session) = numbers(1..=1_000).await;
    for (x, more) in [("id", 0.02), ("x", 1e-6)] {
        let sql = format!(
            "WITH a AS (SELECT LAPLACE(eps=20) SUM({x}) AS s FROM t) SELECT s, s / 100.0 AS c, CLAMP(s, 0, 900000) AS l FROM a"
        );
        let answer = session.query(&sql).await.unwrap();
        let [s, c, l] = ["s", "c", "l"].map(|name| within(&answer, name));
        assert!(s > 200.0 && (c - s / 100.0).abs() < more, "{x}: {s} {c}");
        assert!((l - s).abs() <= 100.0 * more, "{x}: {s} {l}");
        // A value that no histogram is behind stays one with noise.
        let sql = format!(
            "SELECT LAPLACE(eps=20) SUM({x}) / (SELECT LAPLACE(eps=0.05) COUNT(*) FROM t) AS m FROM t"
        );
        let answer = session.query(&sql).await.unwrap();
        assert!(within(&answer, "m") > 15.0, "{answer}");
    }
}

/// Where too few rows are there for any bucket to stand out, the fullest by its noisy count is
/// taken, and that is told. At this ε noise of scale 100 is on every count, so that a bucket with 3
/// rows reaches the threshold, 2,500 and more, with less than 10⁻⁶.
#[tokio::test]
async fn what_does_not_stand_out_is_told() {
    let (engine, session) = numbers(1..=3).await;
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.02) SUM(id) AS s FROM t";
    let answer = session.query(sql).await.unwrap();
    let note = answer.notes().join("\n");
    assert!(note.contains("this bound may be far off: no bucket had a noisy count of"), "{note}");
    assert!(within(&answer, "s") > 0.0);
    // ANALYZE proposes the bucket itself: no more than a factor of two between its ends, where it
    // once was all integers.
    let found = engine.owner().execute("ANALYZE PRIVACY DOMAIN t(id) WITH (eps=0.01)").await;
    let hushql::Output::Answer(answer) = found.unwrap() else { panic!("an answer") };
    let batch = &answer.batches()[0];
    let end = |name: &str| {
        let column = batch.column_by_name(name).unwrap();
        column.as_primitive::<Int64Type>().value(0) as f64
    };
    let (lo, hi) = (end("lo").abs(), end("hi").abs());
    assert!(f64::max(lo, hi) <= 2.0 * f64::min(lo, hi).max(0.5), "{answer}");
    let [note] = answer.notes() else { panic!("{answer}") };
    assert!(note.starts_with("no bucket has a noisy count of"), "{note}");
}

/// 25 rows in one bucket, at a scale of 2: the threshold is 37, which they reach in 0.2 % of all
/// histograms, and another bucket has more in 0.04 %. That 5 of 20 bounds are others has a
/// probability below 10⁻⁹.
#[tokio::test]
async fn the_fullest_bucket_is_taken_where_none_stands_out() {
    let (_engine, session) = numbers(64..=88).await;
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(id) AS s FROM t";
    let mut expected = 0;
    for _ in 0..20 {
        let answer = session.query(sql).await.unwrap();
        let note = "sum(id): values were cut to ± 128, and this bound may be far off";
        expected += u32::from(answer.notes()[0].starts_with(note));
    }
    assert!(expected > 15, "{expected} of 20");
}

/// The ± of a mean or spread is that of its group: nine times as many rows have a far smaller one.
/// Next to no noise is left at this ε.
#[tokio::test]
async fn each_group_has_its_own_error() {
    let (_engine, session) = numbers(1..=1_000).await;
    let sql = "SELECT CASE WHEN id > 900 THEN 'few' ELSE 'many' END AS g, LAPLACE(eps=40) AVG(x) AS m, LAPLACE(eps=40) STDDEV_POP(x) AS d FROM t GROUP BY g ORDER BY g";
    let answer = session.query(sql).await.unwrap();
    for column in [1, 2] {
        let errors: Vec<f64> = answer.errors(column).map(Option::unwrap).collect();
        let [few, many] = errors.as_slice() else { panic!("{answer}") };
        assert!(*few > 3.0 * many && *many > 0.0, "{answer}");
    }
    let means = answer.batches()[0].column(1).as_primitive::<Float64Type>().clone();
    for (mean, exact) in means.values().iter().zip([950.5, 450.5]) {
        assert!((mean - exact).abs() < 50.0, "{answer}");
    }
}

/// Extremes find their bounds, too. At this ε, each looks for about the eighth value from its end,
/// and is 40 ranks beside it with a probability below 10⁻⁷⁰.
#[tokio::test]
async fn extremes_find_their_bounds() {
    let (engine, session) = numbers(1..=1_000).await;
    let sql =
        "SELECT EXPONENTIAL(eps=20) MAX(id) AS most, EXPONENTIAL(eps=20) MIN(x) AS least FROM t";
    let answer = session.query(sql).await.unwrap();
    let (most, least) = (number(&answer, 0), number(&answer, 1));
    assert!((940.0..=1_000.0).contains(&most), "{answer}");
    assert!((1.0..60.0).contains(&least), "{answer}");
    let notes = answer.notes().join("\n");
    for cut in ["max(id): values were cut to ± 1024", "min(x): values were cut to ± 1024"] {
        assert!(notes.contains(cut), "{notes}");
    }
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 40");
    // Both of one argument share one histogram, and cost no more than two declared ones.
    done(&engine, "ALTER PRIVACY BUDGET t SET PER QUERY (default=4)").await;
    let explained = session.explain("SELECT MIN(x), MAX(x) FROM t").unwrap().to_string();
    assert_eq!(explained.matches("bounds of ").count(), 2, "{explained}");
    assert_eq!(session.cost("SELECT MIN(x), MAX(x) FROM t").unwrap().to_string(), "ε = 4");
    // What is not known before its range is still refused, and so is what has no order.
    for sql in ["SELECT LAPLACE(within=5) SUM(id) FROM t", "SELECT MAX(CAST(id AS VARCHAR)) FROM t"]
    {
        assert!(session.cost(sql).is_err(), "{sql}");
    }
}

/// In plain SQL the default is shared as without bounds to be found: of two shares, COUNT(*) has
/// one, and SUM half of the other. Noise and ± are those of the share, and the answer costs the
/// default.
#[tokio::test]
async fn plain_sql_finds_bounds_at_half_of_a_share() {
    let (engine, session) = numbers(1..=1_000).await;
    done(&engine, "ALTER PRIVACY BUDGET t SET PER QUERY (default=4)").await;
    let sql = "SELECT COUNT(*) AS n, SUM(id) AS s FROM t";
    assert_eq!(session.cost(sql).unwrap().to_string(), "ε = 4");
    let mut covered = 0;
    for _ in 0..100 {
        let answer = session.query(sql).await.unwrap();
        let note = &answer.notes()[0];
        assert!(
            note.starts_with("sum(t.id): values were cut to ± 1024, the bound found at eps=1,"),
            "{note}"
        );
        assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 4");
        // ε = 1 for the sum of x/1024: 3 scales.
        let within = within(&answer, "s");
        assert!((3_060.0..3_080.0).contains(&within), "{within}");
        covered += u32::from((number(&answer, 1) - 500_500.0).abs() <= within);
    }
    // At 95 %, fewer than 80 of 100 have a probability below 10⁻⁷.
    assert!(covered >= 80, "{covered} of 100 within ±");
    // Three releases of one argument share one histogram.
    let three = "SELECT SUM(x) AS s, AVG(x) AS a, STDDEV_POP(x) AS d FROM t";
    let explained = session.explain(three).unwrap().to_string();
    assert_eq!(explained.matches("bounds of ").count(), 2, "{explained}");
    assert_eq!(session.cost(three).unwrap().to_string(), "ε = 3.999999996");
    // Medians and sums of two arguments have histograms of their own.
    let answer = session.query("SELECT MEDIAN(x) AS m, SUM(id) AS s FROM t").await.unwrap();
    assert!((number(&answer, 0) - 500.0).abs() < 200.0, "{answer}");
    assert_eq!(answer.receipt().unwrap().spent.to_string(), "ε = 4");
}

async fn done(engine: &Engine, sql: &str) {
    engine.owner().execute(sql).await.unwrap();
}

/// A session may insist on declared bounds.
#[tokio::test]
async fn declared_bounds_are_refused_as_before() {
    let (engine, session) = numbers(1..=100).await;
    done(&engine, "ALTER PRIVACY BUDGET t SET PER QUERY (default=4)").await;
    let strict = hushql::Session::from(engine.analyst("lab").unwrap()).with_found_bounds(false);
    for sql in ["SELECT SUM(id) AS s FROM t", "SELECT AVG(x) AS a FROM t"] {
        for _ in 0..3 {
            assert!(session.query(sql).await.is_ok(), "{sql}");
        }
        let refused = strict.query(sql).await.unwrap_err().to_string();
        assert!(refused.contains("HQ007"), "{sql}: {refused}");
    }
    assert!(strict.query("SELECT SUM(CLAMP(id, 0, 9)) AS s FROM t").await.is_ok());
}

/// The same text asks another question where bounds must be declared, so neither session is shown
/// what was kept for the other.
#[tokio::test]
async fn answers_under_declared_bounds_are_kept_for_no_other_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let rows = (1..=28).map(|n| format!("{n},2024-02-{n:02},2024-03-{n:02}\n"));
    std::fs::write(&path, "id,day,until\n".to_owned() + &rows.collect::<String>()).unwrap();
    let engine = Engine::in_memory().unwrap();
    let create = format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, day DATE, until DATE) STORED AS CSV LOCATION '{}'",
        path.display()
    );
    done(&engine, &create).await;
    for statement in [
        "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE t ALTER COLUMN day SET PRIVACY DOMAIN BETWEEN (DATE '2020-01-01', DATE '2029-12-31')",
        "ALTER TABLE t ALTER COLUMN until SET PRIVACY DOMAIN BETWEEN (DATE '2020-01-01', DATE '2029-12-31')",
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=100)",
    ] {
        done(&engine, statement).await;
    }
    let usual = engine.analyst("lab").unwrap();
    let strict = hushql::Session::from(usual.clone()).with_found_bounds(false);
    let sql = "SELECT LAPLACE(eps=1) SUM(until - day) AS s FROM t";
    let mut declared = Vec::new();
    for _ in 0..4 {
        declared.push(within(&strict.query(sql).await.unwrap(), "s"));
    }
    let found = usual.query(sql).await.unwrap();
    assert!(!found.receipt().unwrap().is_replayed, "{found}");
    for _ in 0..4 {
        let again = usual.query(sql).await.unwrap();
        let off = |answer: &Answer| (within(answer, "s") - declared[0]).abs();
        assert!(again.receipt().unwrap().is_replayed, "{again}");
        assert!(off(&again) > 1.0, "{again}");
        assert!(off(&strict.query(sql).await.unwrap()) < 1e-9);
    }
}

/// Behind a mechanism, half of its cost finds the bound. The note names the CLAMP with half of the
/// error: its ± is that of all of ε.
#[tokio::test]
async fn mechanisms_find_bounds_at_half_of_their_cost() {
    let (_engine, session) = numbers(1..=1_000).await;
    let sql = "SELECT LAPLACE(eps=4) SUM(id) AS s FROM t";
    assert_eq!(session.cost(sql).unwrap().to_string(), "ε = 4");
    let mut covered = 0;
    for _ in 0..50 {
        let answer = session.query(sql).await.unwrap();
        let note = &answer.notes()[0];
        assert!(
            note.starts_with("sum(id): values were cut to ± 1024, the bound found at eps=2,"),
            "{note}"
        );
        assert!(note.ends_with("sum(CLAMP(id, 0, 1024)) would have halved the error"), "{note}");
        // ε = 2 for the sum of x/1024: 1.5 scales.
        let found = within(&answer, "s");
        assert!((1_530.0..1_545.0).contains(&found), "{found}");
        covered += u32::from((number(&answer, 0) - 500_500.0).abs() <= found);
    }
    // At 95 %, fewer than 38 of 50 have a probability below 10⁻⁵.
    assert!(covered >= 38, "{covered} of 50 within ±");
    let written = session.query("SELECT LAPLACE(eps=4) SUM(CLAMP(id, 0, 1024)) AS s FROM t").await;
    let written = within(&written.unwrap(), "s");
    assert!((760.0..775.0).contains(&written), "{written}");
    // Gaussian noise keeps all of its δ, and a median pays for its bound as well.
    for (sql, cost) in [
        ("SELECT EXPONENTIAL(eps=4) MEDIAN(id) AS m FROM t", "ε = 4"),
        ("SELECT LAPLACE(eps=1) AVG(x) AS a, LAPLACE(eps=1) COUNT(*) AS n FROM t", "ε = 2"),
    ] {
        assert_eq!(session.cost(sql).unwrap().to_string(), cost, "{sql}");
        assert!(session.query(sql).await.is_ok(), "{sql}");
    }
}

/// A statistic of two columns finds the bounds of both with a quarter of its cost each, and the ±
/// covers the exact value. Half of the cost is left, so declared ranges of the same size halve the
/// ±, but for its dependence on the drawn value.
#[tokio::test]
async fn statistics_of_two_columns_find_two_bounds() {
    let (engine, session) = numbers(1..=1_000).await;
    let of = |call: &str| format!("SELECT LAPLACE(eps=40) {call} AS v FROM t");
    for (call, declared, exact) in [
        ("CORR(id, x)", "CORR(CLAMP(id, 0, 1024), CLAMP(x, 0, 1024))", 1.0),
        ("COVAR_POP(id, x)", "COVAR_POP(CLAMP(id, 0, 1024), CLAMP(x, 0, 1024))", 83_333.25),
        ("REGR_SLOPE(x, id)", "REGR_SLOPE(CLAMP(x, 0, 1024), CLAMP(id, 0, 1024))", 1.0),
        ("REGR_INTERCEPT(x, id)", "REGR_INTERCEPT(CLAMP(x, 0, 1024), CLAMP(id, -1024, 1024))", 0.0),
    ] {
        let sql = of(call);
        assert_eq!(session.cost(&sql).unwrap().to_string(), "ε = 40", "{sql}");
        let mut covered = 0;
        let mut widths = Vec::new();
        for _ in 0..20 {
            let answer = session.query(&sql).await.unwrap();
            let notes = answer.notes().join("\n");
            let second = if call.contains("INTERCEPT") { "± 1024" } else { "0 .. 1024" };
            let first = if call.ends_with("(x, id)") { "x" } else { "id" };
            for column in ["id", "x"] {
                let ends = if column == first { "0 .. 1024" } else { second };
                let cut =
                    format!("values of t.{column} were cut to {ends}, the bound found at eps=10,");
                assert!(notes.contains(&cut), "{notes}");
            }
            let off = within(&answer, "v");
            covered += u32::from((number(&answer, 0) - exact).abs() <= off);
            widths.push(off);
        }
        // At 95 %, fewer than 12 of 20 have a probability below 10⁻⁷.
        assert!(covered >= 12, "{call}: {covered} of 20 within ±");
        let written = within(&session.query(&of(declared)).await.unwrap(), "v");
        let found = widths.iter().sum::<f64>() / 20.0;
        assert!((1.3..3.0).contains(&(found / written)), "{call}: {found} {written}");
    }
    done(&engine, "ALTER PRIVACY BUDGET t SET PER QUERY (default=4)").await;
    assert_eq!(session.cost("SELECT CORR(id, x) FROM t").unwrap().to_string(), "ε = 4");
    // Where one column has a range, one histogram has half of the cost, for two releases of it.
    let one =
        "SELECT CORR(CLAMP(id, 0, 1024), x) AS r, COVAR_SAMP(CLAMP(id, 0, 1024), x) AS c FROM t";
    let explained = session.explain(one).unwrap().to_string();
    assert_eq!(explained.matches("release      bounds of t.x in ").count(), 1, "{explained}");
    assert_eq!(session.cost(one).unwrap().to_string(), "ε = 4");
    let strict = hushql::Session::from(engine.analyst("lab").unwrap()).with_found_bounds(false);
    let refused = strict.query("SELECT CORR(id, x) FROM t").await.unwrap_err().to_string();
    assert!(refused.contains("HQ007"), "{refused}");
    // A column of nothing but NULL has no bucket, and the statistic no value.
    let none = "SELECT CORR(id, CASE WHEN x < 0 THEN x END) AS r FROM t";
    let answer = session.query(none).await.unwrap();
    let notes = answer.notes().join("\n");
    assert!(notes.contains("this bound may be far off"), "{answer}");
}

/// With `bounds=declared`, nobody finds bounds: in plain SQL, under OPTIONS or behind a mechanism.
#[tokio::test]
async fn an_owner_fixes_declared_bounds() {
    let (engine, session) = numbers(1..=100).await;
    let asked = [
        "SELECT SUM(id) AS s FROM t",
        "SELECT LAPLACE(eps=1) AVG(x) AS a FROM t",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) STDDEV(x) AS d FROM t",
    ];
    done(&engine, "ALTER PRIVACY BUDGET t SET PER QUERY (default=4, bounds=found)").await;
    for sql in asked {
        assert!(session.query(sql).await.is_ok(), "{sql}");
    }
    done(&engine, "ALTER PRIVACY BUDGET t SET PER QUERY (default=4, bounds=declared)").await;
    for sql in asked {
        let refused = session.query(sql).await.unwrap_err().to_string();
        assert!(
            refused.contains("HQ007") && refused.contains("budget `t` takes declared bounds alone"),
            "{sql}: {refused}"
        );
    }
    assert!(session.query("SELECT SUM(CLAMP(id, 0, 9)) AS s FROM t").await.is_ok());
    // One of several budgets suffices.
    done(&engine, "ALTER PRIVACY BUDGET t SET PER QUERY (default=4)").await;
    assert!(session.query(asked[0]).await.is_ok());
    done(
        &engine,
        "CREATE PRIVACY BUDGET strict FOR t LIMIT (epsilon=100) PER QUERY (bounds=declared)",
    )
    .await;
    assert!(session.query(asked[0]).await.is_err());
}

/// A number whose ± exceeds half of it says so, with what to write; one that does not says nothing.
#[tokio::test]
async fn drowned_numbers_say_what_to_write() {
    let (_engine, session) = numbers(1..=1_000).await;
    let note =
        |answer: &Answer| answer.notes().iter().any(|note| note.contains("exceeds half of it"));
    let clear = session.query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t").await.unwrap();
    assert!(!note(&clear), "{clear}");
    let drowned =
        session.query("SELECT LAPLACE(eps=0.01) COUNT(*) AS n FROM t WHERE id <= 20").await;
    let drowned = drowned.unwrap();
    assert!(
        note(&drowned) == (within(&drowned, "n") > number(&drowned, 0).abs() / 2.0),
        "{drowned}"
    );
}

/// A minimum above the maximum is told, from the released values alone: of three rows, at a small
/// ε, noise decides both.
#[tokio::test]
async fn extremes_that_cross_are_told() {
    let (_engine, session) = numbers(1..=3).await;
    let (mut crossed, mut told) = (0, 0);
    for (epsilon, range) in [("0.001", "0, 1000"), ("0.001", "1, 4"), ("1000", "0, 1000")] {
        for _ in 0..20 {
            let sql = format!(
                "SELECT EXPONENTIAL(eps={epsilon}) MIN(CLAMP(id, {range})) AS a, EXPONENTIAL(eps={epsilon}) MAX(CLAMP(id, {range})) AS b FROM t"
            );
            let answer = session.query(&sql).await.unwrap();
            let is_told = answer
                .notes()
                .iter()
                .any(|note| note.to_lowercase().contains(" is above max(clamp("));
            assert_eq!(is_told, number(&answer, 0) > number(&answer, 1), "{answer}");
            crossed += u32::from(is_told);
            told += u32::from(!is_told);
        }
    }
    assert!(crossed > 0 && told > 0, "{crossed} {told}");
}
