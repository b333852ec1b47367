//! The ± of every number: of each row, and of numbers that are computed from released ones.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use hushql::{Analyst, Answer, Engine};

const ROWS: i64 = 6_000;

/// Each number of these questions has a ±, but for ranks. `{t}` is the table.
const QUESTIONS: [&str; 11] = [
    "SELECT k, AVG(x) AS a, STDDEV_POP(x) AS s FROM {t} GROUP BY k ORDER BY k",
    "SELECT k, COUNT(*) FILTER (WHERE x < 30) * 100.0 / COUNT(*) AS pct, COUNT(*) AS n FROM {t} GROUP BY k ORDER BY k",
    "WITH c AS (SELECT k, COUNT(*) AS n FROM {t} GROUP BY k)
     SELECT k, n, n - LAG(n) OVER (ORDER BY k) AS more, SUM(n) OVER (ORDER BY k) AS running,
            ROUND(100.0 * n / SUM(n) OVER (), 1) AS share, LEAD(n, 1, 7) OVER (ORDER BY k) AS then FROM c ORDER BY k",
    "WITH c AS (SELECT k, COUNT(*) AS n FROM {t} GROUP BY k) SELECT SUM(n), AVG(n), MAX(n), MIN(n + 1), SUM(n) * 1.0 / COUNT(*), CAST(AVG(n) AS DECIMAL(12, 2)) AS cents FROM c",
    "SELECT 'all' AS w, COUNT(*) AS n FROM {t} UNION ALL SELECT 'few', COUNT(*) * 2 FROM {t} WHERE x > 90 ORDER BY w",
    "WITH a AS (SELECT k, COUNT(*) AS n FROM {t} GROUP BY k), b AS (SELECT k, SUM(x) AS s FROM {t} GROUP BY k)
     SELECT a.k, n, s, s * 1.0 / n AS mean FROM a LEFT JOIN b ON a.k = b.k ORDER BY a.k",
    "SELECT k, COALESCE(SUM(x), 0) / NULLIF(COUNT(*), 0) AS q, CAST(COUNT(*) * 1.5 AS BIGINT) AS c, -COUNT(*) AS m,
            CASE WHEN k = 1 THEN COUNT(*) / 2.0 ELSE SUM(x) * -3.5 END AS either FROM {t} GROUP BY k ORDER BY k",
    "SELECT k, (n - m) * 100.0 / m AS growth FROM
        (SELECT k, COUNT(*) AS n, COUNT(*) FILTER (WHERE x >= 40) AS m FROM {t} GROUP BY k) ORDER BY k",
    "SELECT k, n * 100.0 / (SELECT COUNT(*) FROM {t}) AS pct, ABS(n - 500) AS away, GREATEST(n, 0) AS g, LEAST(n, m) AS l
        FROM (SELECT k, COUNT(*) AS n, COUNT(*) FILTER (WHERE x >= 40) AS m FROM {t} GROUP BY k) ORDER BY k",
    "SELECT k, SQRT(n) AS root, LN(n) AS ln, EXP(n / 1000.0) AS e, CASE WHEN m > 0 THEN n * 1.0 / m END AS ratio, COALESCE(m * 1.0 / NULLIF(n, 0), 0) AS c
        FROM (SELECT k, COUNT(*) AS n, COUNT(*) FILTER (WHERE x >= 40) AS m FROM {t} GROUP BY k) ORDER BY k",
    "WITH c AS (SELECT k, COUNT(*) AS n FROM {t} GROUP BY k) SELECT SUM(n) FILTER (WHERE k < 2) AS few, SUM(n) FILTER (WHERE k = 1) * 100.0 / SUM(n) AS pct FROM c",
];

/// The same rows as a private table `p` and a public one `t`; the classes have very different
/// sizes.
pub(super) async fn lab() -> Analyst {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|id| id * 7 % 101)));
    let class = |id: i64| if id % 3 == 0 { 2 } else { i64::from(id % 11 == 0) };
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(class)));
    let rows = RecordBatch::try_from_iter([("id", ids), ("k", keys), ("x", values)]).unwrap();
    let engine = Engine::in_memory().unwrap();
    engine.register_batch("p", rows.clone()).unwrap();
    engine.register_batch("t", rows).unwrap();
    for declaration in [
        "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE p ALTER COLUMN k SET PRIVACY DOMAIN IN (0, 1, 2)",
        "ALTER TABLE p ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 100)",
        "ALTER TABLE t SET PUBLIC",
        "CREATE PRIVACY BUDGET b FOR p LIMIT (epsilon=1000000) PER QUERY (default=2)",
    ] {
        engine.owner().execute(declaration).await.unwrap();
    }
    engine.analyst("lab").unwrap()
}

/// A column of numbers; `None` for a column of another type.
fn numbers(answer: &Answer, column: usize) -> Option<Vec<Option<f64>>> {
    let of = |batch: &RecordBatch| {
        let floats = cast(batch.column(column), &DataType::Float64).unwrap();
        floats.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()
    };
    let is_number = answer.schema().field(column).data_type().is_numeric();
    is_number.then(|| answer.batches().iter().flat_map(of).collect())
}

/// In 60 draws, a number is off by more than its ± 17 times or more with probability below 1e-8 if
/// that happens with 5 %: below 1e-6 for all of them together. Each ± is that of its row, and none
/// is a multiple of what it need be.
#[tokio::test]
async fn numbers_are_within_their_errors() {
    const DRAWS: usize = 60;
    const MOST_OFF: usize = 16;
    let lab = lab().await;
    for question in QUESTIONS {
        let exact = lab.query(&question.replace("{t}", "t")).await.unwrap();
        let columns = exact.schema().fields().len();
        let mut off =
            vec![vec![0_usize; exact.batches().iter().map(RecordBatch::num_rows).sum()]; columns];
        let mut nearest = vec![f64::INFINITY; columns];
        for _ in 0..DRAWS {
            let answer = lab.query(&question.replace("{t}", "p")).await.unwrap();
            for column in 0..columns {
                let Some(truth) = numbers(&exact, column) else { continue };
                let values = numbers(&answer, column).unwrap();
                let errors: Vec<Option<f64>> = answer.errors(column).collect();
                assert_eq!((values.len(), errors.len()), (truth.len(), truth.len()), "{question}");
                let is_key = answer.schema().field(column).name() == "k";
                for (row, ((value, truth), error)) in
                    values.iter().zip(truth).zip(&errors).enumerate()
                {
                    assert_eq!(error.is_some(), value.is_some() && !is_key, "{question} {column}");
                    let (Some(value), Some(truth), Some(error)) = (value, truth, error) else {
                        continue;
                    };
                    let distance = (value - truth).abs();
                    assert!(error.is_finite() && *error >= 0.0);
                    // Floats are rounded.
                    off[column][row] += usize::from(distance > error + 1e-9 * value.abs());
                    // A rounded share may be exact in all draws.
                    if distance > 0.0 {
                        nearest[column] = nearest[column].min(error / distance);
                    }
                }
            }
        }
        assert!(off.iter().flatten().all(|times| *times <= MOST_OFF), "{question}: {off:?}");
        let told = nearest.iter().filter(|ratio| ratio.is_finite());
        assert!(told.clone().all(|ratio| *ratio < 12.0), "{question}: {nearest:?}");
        assert!(told.count() > 0, "{question}");
    }
}

/// A large group is told more exactly than a small one, a mean is never off by more than its range
/// is wide, and an empty group says nothing.
#[tokio::test]
async fn each_row_has_its_own_error() {
    let lab = lab().await;
    let sql = "SELECT k, AVG(x) AS a FROM p WHERE x < 90 GROUP BY k ORDER BY k";
    let answer = lab.query(sql).await.unwrap();
    let errors: Vec<f64> = answer.errors(1).map(Option::unwrap).collect();
    assert!(errors[0] < errors[2] && errors[2] < errors[1], "{errors:?}");
    assert!(answer.to_string().contains("a: ± "), "{answer}");
    let sql = "SELECT LAPLACE(eps=0.001) AVG(x) AS a FROM p WHERE x < 3";
    let errors = lab.query(sql).await.unwrap().errors(0).flatten().collect::<Vec<_>>();
    assert!(errors.iter().all(|error| *error <= 100.1), "{errors:?}");
}

/// Numbers that decide which rows are shown have no ±, nor has what is computed from them, and a
/// note says why.
#[tokio::test]
async fn what_decides_has_no_error() {
    let lab = lab().await;
    let counts = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM p GROUP BY k";
    for (sql, told) in [
        (
            format!("SELECT k, n * 2 AS d, s / 2.0 AS h FROM ({counts}) c WHERE n > 0"),
            [false, true],
        ),
        (
            format!(
                "SELECT k, n / 2.0 AS d, s * 1.0 / n AS h FROM ({counts}) c ORDER BY n LIMIT 2"
            ),
            [false; 2],
        ),
        (
            format!("SELECT k, n / 2.0 AS d, s * 1.0 / n AS h FROM ({counts}) c WHERE k < 2"),
            [true; 2],
        ),
        // A window over public keys says nothing of the numbers; a running total does.
        (
            format!(
                "SELECT k, n / 2.0 AS d, s * 1.0 / n AS h FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY k) AS place FROM ({counts}) c) r WHERE place < 3"
            ),
            [true; 2],
        ),
        (
            format!(
                "SELECT k, n / 2.0 AS d, s * 1.0 AS h FROM (SELECT *, SUM(n) OVER (ORDER BY k) AS total FROM ({counts}) c) r WHERE total > 0"
            ),
            [false, true],
        ),
    ] {
        let answer = lab.query(&sql).await.unwrap();
        for (column, told) in [1, 2].into_iter().zip(told) {
            assert!(answer.errors(column).all(|error| error.is_some() == told), "{sql}: {column}");
        }
        let notes = answer.notes().iter().filter(|note| note.contains(": no ±, since")).count();
        assert_eq!(
            notes,
            told.iter().filter(|told| !**told).count(),
            "{sql}: {:?}",
            answer.notes()
        );
    }
    let answer = lab.query("SELECT COUNT(*) % 7 AS rest FROM p").await.unwrap();
    assert!(answer.errors(0).all(|error| error.is_none()));
    assert!(
        answer.notes()[0].starts_with("rest: no ±, since no error is derived"),
        "{:?}",
        answer.notes()
    );
}

/// Where no row of a column has an error, a note says why; a branch that is NULL costs no other
/// branch its error. Nearly only noise is NULL at times, and far from zero at others: all of 100
/// answers are, with a probability below 1e-20.
#[tokio::test]
async fn a_column_without_errors_says_why() {
    let lab = lab().await;
    for (sql, why) in [
        ("SELECT STDDEV(x) / AVG(x) AS q FROM p", Some("a variance, correlation or line has a ±")),
        (
            "SELECT LAPLACE(eps=1e-4) REGR_SLOPE(x, k) AS q FROM p",
            Some("the noise may be larger than the number itself"),
        ),
        (
            "SELECT LAPLACE(eps=1e-4) SUM(x) * 1.0 / LAPLACE(eps=1e-4) SUM(k) AS q FROM p",
            Some("the noise may be as large as"),
        ),
        (
            "SELECT CASE WHEN COUNT(*) = 0 THEN NULL ELSE SUM(x) * 1.0 / COUNT(*) END AS q FROM p",
            None,
        ),
        ("SELECT SUM(x) * 1.0 / COUNT(*) AS q FROM p", None),
    ] {
        let mut answers = 0;
        loop {
            let answer = lab.query(sql).await.unwrap();
            let there = answer.batches()[0].column(0).is_valid(0);
            let known = answer.errors(0).all(|error| error.is_some());
            answers += 1;
            if there && known == why.is_none() {
                let said =
                    answer.notes().iter().find_map(|note| note.strip_prefix("q: no ±, since "));
                let is_said = said.zip(why).is_some_and(|(said, why)| said.starts_with(why));
                assert!(is_said || (said, why) == (None, None), "{sql}: {said:?}");
                break;
            }
            assert!(answers < 100, "{sql}: {answer}");
        }
    }
}

/// Where an end of a number is not known, none is told: not that of the number which would be shown
/// in its place.
#[tokio::test]
async fn an_unknown_end_is_not_that_of_another_number() {
    let lab = lab().await;
    // The noise of the divisor reaches beyond 0, so that the quotient may be anything.
    let counts =
        "SELECT LAPLACE(eps=1) SUM(x) AS s, LAPLACE(eps=0.0001) COUNT(*) AS n FROM p WHERE x < 3";
    for number in [
        "COALESCE(s * 1.0 / n, 0)",
        "GREATEST(s * 1.0 / n, -1e9)",
        "ABS(s * 1.0 / n)",
        "SQRT(ABS(s * 1.0 / n))",
        "CASE WHEN s > -1e9 THEN s * 1.0 / n ELSE 0 END",
        // Only its upper end is known.
        "LN(n + 9000)",
    ] {
        let mut unknown = 0;
        for _ in 0..8 {
            let sql =
                format!("SELECT {number} AS q, error_low({number}) AS lo, n FROM ({counts}) AS c");
            let answer = lab.query(&sql).await.unwrap();
            let n = numbers(&answer, 2).unwrap()[0].unwrap();
            // ± 37,000 or so: each draw that is nearer to 0 says nothing.
            if n.abs() < 20_000.0 {
                let errors: Vec<_> = answer.errors(0).chain(numbers(&answer, 1).unwrap()).collect();
                assert!(errors.iter().all(Option::is_none), "{number}: {answer}");
                unknown += 1;
            }
        }
        // The noise is farther than 20,000 in each of 8 draws with a probability of e^-16.
        assert!(unknown > 0, "{number}");
    }
}
