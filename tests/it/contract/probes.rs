//! What clients send to learn the columns of an answer: no row can come out, so it costs nothing,
//! and the columns are those that the statement has without the probe.

use arrow::array::Array;
use hushql::{Cost, Session};

use super::errors::lab;

/// What is left of all budgets.
fn left(session: &Session) -> Vec<String> {
    session.budgets().unwrap().iter().map(|state| state.left.to_string()).collect()
}

const STATEMENTS: [&str; 8] = [
    "SELECT k, COUNT(*) AS n FROM p GROUP BY k",
    "SELECT k, LAPLACE(eps=0.5) SUM(x) AS s, LAPLACE(eps=0.5) AVG(x) AS a FROM p GROUP BY k HAVING COUNT(*) > 3",
    "SELECT LAPLACE(eps=1) COUNT(*) AS n, LAPLACE(eps=1) MEDIAN(x) AS m FROM p",
    "SELECT k, n * 100.0 / SUM(n) OVER () AS share FROM (SELECT k, COUNT(*) AS n FROM p GROUP BY k) AS c",
    "WITH c AS (SELECT k, COUNT(*) AS n FROM p GROUP BY k) SELECT a.k, b.n FROM c AS a JOIN c AS b ON a.k = b.k",
    "SELECT k, COUNT(*) AS n FROM p GROUP BY k UNION ALL SELECT -1, COUNT(*) FROM p",
    "SELECT DISTINCT k, CAST(n AS DECIMAL(12, 2)) AS d FROM (SELECT k, COUNT(*) AS n FROM p GROUP BY k) AS c ORDER BY k",
    "SELECT k, STDDEV_POP(x) AS s, COUNT(DISTINCT id) AS people FROM p GROUP BY k",
];

/// The columns are those of the statement, and there is no row; nothing is charged, now or in
/// EXPLAIN.
#[tokio::test]
async fn an_answer_without_rows_has_its_columns_for_nothing() {
    let lab = lab().await;
    let before = left(&lab);
    for sql in STATEMENTS {
        let schema = lab.prepare(sql).unwrap().schema();
        for probe in [
            format!("SELECT * FROM ({sql}) AS q LIMIT 0"),
            format!("SELECT * FROM ({sql}) AS q WHERE 1 = 0"),
            format!("SELECT * FROM ({sql}) AS q WHERE 1 > 2 OR 'a' = 'b'"),
            format!("SELECT * FROM ({sql}) AS q WHERE NULL"),
            format!("SELECT * FROM ({sql}) AS q WHERE FALSE LIMIT 10"),
            format!("SELECT * FROM (SELECT * FROM ({sql}) AS q LIMIT 0) AS r"),
        ] {
            let prepared = lab.prepare(&probe).unwrap_or_else(|error| panic!("{probe}: {error}"));
            assert_eq!(prepared.cost(), Cost::default(), "{probe}");
            assert_eq!(lab.cost(&probe).unwrap(), Cost::default(), "{probe}");
            assert!(lab.explain(&probe).unwrap().to_string().contains("nothing private is read"));
            let answer = lab.query(&probe).await.unwrap_or_else(|error| panic!("{probe}: {error}"));
            assert!(answer.receipt().is_none(), "{probe}");
            assert!(
                answer.batches().iter().all(|batch| batch.num_rows() == 0),
                "{probe}: {answer}"
            );
            let columns = |schema: &arrow::datatypes::Schema| {
                let of = |field: &std::sync::Arc<arrow::datatypes::Field>| {
                    (field.name().clone(), field.data_type().clone())
                };
                schema.fields().iter().map(of).collect::<Vec<_>>()
            };
            assert_eq!(columns(&answer.schema()), columns(&schema), "{probe}");
        }
    }
    assert_eq!(left(&lab), before);
}

/// So has a table of private rows, which are in no other answer.
#[tokio::test]
async fn the_columns_of_a_private_table_are_seen_without_its_rows() {
    let lab = lab().await;
    let before = left(&lab);
    for probe in [
        "SELECT * FROM p LIMIT 0",
        "SELECT k, x + 1 AS y FROM p WHERE 1 = 0",
        "SELECT * FROM p WHERE FALSE AND x > 3 ORDER BY k",
        "SELECT a.k FROM p AS a JOIN p AS b ON a.id = b.id WHERE 0 = 1",
        "SELECT k, COUNT(*) AS n FROM p WHERE 1 = 2 GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM p GROUP BY k HAVING FALSE",
        "SELECT COUNT(*) AS n FROM p HAVING 1 > 2",
    ] {
        let answer = lab.query(probe).await.unwrap_or_else(|error| panic!("{probe}: {error}"));
        assert!(!answer.schema().fields().is_empty() && answer.receipt().is_none(), "{probe}");
        assert!(answer.batches().iter().all(|batch| batch.num_rows() == 0), "{probe}: {answer}");
    }
    assert_eq!(left(&lab), before);
    // Rows may come out of these.
    for sql in [
        "SELECT * FROM p",
        "SELECT * FROM p LIMIT 1",
        "SELECT * FROM p WHERE NOT (NULL AND x > 3)",
        "SELECT * FROM p WHERE 1 = 0 OR x > 3",
        "SELECT * FROM p WHERE 1 = 0 UNION ALL SELECT * FROM p",
        "SELECT p.k FROM p LEFT JOIN (SELECT * FROM p LIMIT 0) AS b ON p.id = b.id",
    ] {
        assert!(lab.query(sql).await.is_err(), "{sql}");
    }
    assert_eq!(left(&lab), before);
    // A name that does not exist is one here too, and an answer that nobody paid for is not stored.
    assert!(lab.query("SELECT nothing FROM p LIMIT 0").await.is_err());
    assert!(lab.query("SELECT * FROM nothing LIMIT 0").await.is_err());
    assert!(
        lab.execute("CREATE RELEASE TABLE r AS SELECT k, COUNT(*) AS n FROM p GROUP BY k LIMIT 0")
            .await
            .is_err()
    );
}

/// Totals over no rows are one row: what plain SQL says of them, exactly.
#[tokio::test]
async fn totals_over_no_rows_are_exact() {
    let lab = lab().await;
    let before = left(&lab);
    let sql = "SELECT COUNT(*) AS n, LAPLACE(eps=1) SUM(x) AS s, COUNT(x) + 1 AS m, COUNT(DISTINCT id) AS people, AVG(x) AS a, MAX(x) AS most FROM p WHERE 0 = 1";
    let schema = lab.prepare(&sql.replace("0 = 1", "x >= 0")).unwrap().schema();
    let answer = lab.query(sql).await.unwrap();
    let [batch] = answer.batches() else { panic!("{answer}") };
    assert_eq!(batch.num_rows(), 1);
    let shown: Vec<String> = (0..batch.num_columns())
        .map(|i| match batch.column(i).is_null(0) {
            true => "NULL".to_owned(),
            false => arrow::util::display::array_value_to_string(batch.column(i), 0).unwrap(),
        })
        .collect();
    assert_eq!(shown, ["0", "NULL", "1", "0", "NULL", "NULL"]);
    for (own, of) in answer.schema().fields().iter().zip(schema.fields()) {
        assert_eq!((own.name(), own.data_type()), (of.name(), of.data_type()));
    }
    assert_eq!(left(&lab), before);
}
