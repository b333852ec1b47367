//! What is shown because it came out large has no ±: an error of 95 % is that of a draw, not of
//! those draws that were large.
//!
//! Whole statements with fresh noise. Where a ± is shown for groups, it must cover as often as it
//! says; each test states how often it fails by chance.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use hushql::{Analyst, Answer, Engine};

/// People, each in one of 3,000 words that two have, with the value 7, and in one of three groups.
async fn people() -> (Engine, Analyst) {
    let engine = Engine::in_memory().unwrap();
    let ids = 0..6_000_i64;
    let word: ArrayRef =
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("w{}", id / 2))));
    let g: ArrayRef = Arc::new(StringArray::from_iter_values(
        ids.clone().map(|id| ["a", "b", "c"][id as usize % 3]),
    ));
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|_| 7)));
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let batch = RecordBatch::try_from_iter([("id", id), ("word", word), ("g", g), ("n", n)]);
    engine.register_batch("people", batch.unwrap()).unwrap();
    for statement in [
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN g SET PRIVACY DOMAIN IN ('a', 'b', 'c')",
        "ALTER TABLE people ALTER COLUMN n SET PRIVACY DOMAIN BETWEEN (0, 9)",
        "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=100000, delta=0.9)",
    ] {
        engine.owner().execute(statement).await.unwrap();
    }
    let session = engine.analyst("lab").unwrap();
    (engine, session)
}

/// What is said of a column's accuracy: kinds, and the value of the first.
fn said(answer: &Answer, column: &str) -> (Vec<String>, f64) {
    let own: Vec<_> = answer.accuracy().iter().filter(|a| a.column == column).collect();
    let value = own.first().map_or(f64::NAN, |a| a.value);
    (own.iter().map(|a| a.kind.to_string()).collect(), value)
}

/// How many values of a column are within a distance of what they are in each group.
fn covered(answer: &Answer, column: &str, exact: i64, within: f64) -> (u32, u32) {
    let (mut inside, mut all) = (0, 0);
    for batch in answer.batches() {
        for value in batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values() {
            inside += u32::from((value - exact).abs() as f64 <= within);
            all += 1;
        }
    }
    (inside, all)
}

/// Two people in each group, shown from 6 on at this δ: the numbers that are compared are all off
/// by 4 and more, with a ± of 3 as they are drawn. The sums beside them have noise of their own.
/// 350 groups and more come out, and of a fair 95 % of so many less than 88 % are within with a
/// probability below 10⁻⁶.
#[tokio::test]
async fn a_threshold_takes_the_error_of_what_it_compares() {
    let (_engine, session) = people().await;
    let sql = "SELECT word, LAPLACE(eps=1, delta=0.01) COUNT(DISTINCT id) AS c, LAPLACE(eps=1) SUM(n) AS s FROM people GROUP BY word";
    let (mut counts, mut sums, mut all) = (0, 0, 0);
    for _ in 0..12 {
        let answer = session.query(sql).await.unwrap();
        let (kinds, within) = said(&answer, "c");
        assert_eq!(kinds, ["drawn"], "{:?}", answer.notes());
        counts += covered(&answer, "c", 2, within).0;
        let (kinds, within) = said(&answer, "s");
        assert_eq!(kinds, ["within"]);
        let (inside, shown) = covered(&answer, "s", 14, within);
        (sums, all) = (sums + inside, all + shown);
        let note = answer.notes().iter().find(|note| note.starts_with("c: no ±")).unwrap();
        assert!(note.contains("it was drawn within 3.00 with 95 %"), "{note}");
    }
    assert!(all >= 350 && f64::from(sums) >= 0.88 * f64::from(all), "{sums} of {all}");
    assert_eq!(counts, 0, "of {all}: what had no ± needed none");
    // A number of units of its own for the threshold leaves both their errors.
    let sql = "SELECT word, LAPLACE(eps=2, delta=0.01) SUM(n) AS s FROM people GROUP BY word";
    let (mut inside, mut all) = (0, 0);
    for _ in 0..5 {
        let answer = session.query(sql).await.unwrap();
        let (kinds, within) = said(&answer, "s");
        assert_eq!(kinds, ["within"]);
        let (near, shown) = covered(&answer, "s", 14, within);
        (inside, all) = (inside + near, all + shown);
    }
    // Some 43 groups in each; less than 100 in all, or less than 80 % of them, have a probability
    // below 10⁻⁶.
    assert!(all > 100 && f64::from(inside) >= 0.8 * f64::from(all), "{inside} of {all}");
}

/// Filters and LIMITs above a release: what they look at has no ±, whatever way they come by it,
/// and all else has.
#[tokio::test]
async fn what_rows_are_chosen_by_has_no_error() {
    let (_engine, session) = people().await;
    let both =
        "SELECT g, LAPLACE(eps=1) COUNT(*) AS c, LAPLACE(eps=1) SUM(n) AS s FROM people GROUP BY g";
    for (sql, of_c, of_s) in [
        (both.to_owned(), "within", "within"),
        (format!("{both} HAVING c > 5"), "drawn", "within"),
        (format!("{both} HAVING s - 2 * c > 5"), "drawn", "drawn"),
        (format!("{both} HAVING g <> 'a'"), "within", "within"),
        (format!("{both} ORDER BY c DESC"), "within", "within"),
        (format!("{both} ORDER BY g LIMIT 2"), "within", "within"),
        (format!("{both} ORDER BY c DESC LIMIT 2"), "drawn", "within"),
        (format!("{both} ORDER BY g, s LIMIT 2"), "within", "drawn"),
        // Nothing is cut.
        (format!("{both} ORDER BY c DESC LIMIT 3"), "within", "within"),
        (format!("{both} ORDER BY c DESC LIMIT 3 OFFSET 1"), "drawn", "within"),
        (format!("SELECT * FROM ({both}) t WHERE c > 5"), "drawn", "within"),
        (
            format!(
                "SELECT * FROM (SELECT g, c, s, s / c AS mean FROM ({both}) t) u WHERE mean > 3"
            ),
            "drawn",
            "drawn",
        ),
        (
            format!("WITH t AS ({both}) SELECT * FROM t WHERE c = (SELECT MAX(c) FROM t)"),
            "drawn",
            "drawn",
        ),
        (
            format!("WITH t AS ({both}) SELECT * FROM t WHERE g IN (SELECT g FROM t WHERE s > 5)"),
            "drawn",
            "drawn",
        ),
    ] {
        let answer = session.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(said(&answer, "c").0, [of_c], "{sql}");
        assert_eq!(said(&answer, "s").0, [of_s], "{sql}");
        let told =
            |name: &str| answer.notes().iter().any(|n| n.starts_with(&format!("{name}: no ±")));
        assert_eq!((told("c"), told("s")), (of_c == "drawn", of_s == "drawn"), "{sql}");
        let text = answer.to_string();
        assert_eq!(text.contains("c: ± "), of_c == "within", "{text}");
    }
    for (rest, kinds) in [("", 2), (" WHERE w = 'a'", 0), (" ORDER BY w LIMIT 1", 2)] {
        let sql = format!(
            "SELECT * FROM (SELECT ARGMAX EXPONENTIAL(eps=1) g AS w FROM people GROUP BY g) t{rest}"
        );
        let answer = session.query(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(said(&answer, "w").0.len(), kinds, "{sql}: {answer}");
    }
}
