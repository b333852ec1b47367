//! Attacks that once worked, each with its story; none may work again.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use hushql::{Engine, Error, Output, Session};

async fn outcome(session: &Session, sql: &str) -> Result<String, Error> {
    match session.execute(sql).await? {
        Output::Answer(answer) => Ok(answer.to_string()),
        other => Ok(format!("{other:?}")),
    }
}

fn spent(session: &Session) -> i64 {
    session.budgets().unwrap().iter().map(|b| b.spent.nano).sum()
}

fn visits() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["ann", "bob", "eve"]));
    RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
}

/// A name with a dot led past the catalog: `hospital.visits` was read as the table `visits` of a
/// schema, which nobody had declared private, and shown row by row.
#[tokio::test]
async fn a_dotted_name_leads_nowhere() {
    let engine = Engine::in_memory().unwrap();
    for name in ["hospital.visits", "__hushql_released_0", "hushql.ledger"] {
        assert!(engine.register_batch(name, visits()).is_err(), "{name}");
    }
    engine.register_batch("visits", visits()).unwrap();
    let analyst = engine.analyst("lab").unwrap();
    for sql in [
        "SELECT * FROM visits",
        "SELECT * FROM public.visits",
        "SELECT * FROM datafusion.public.visits",
        "SELECT * FROM hushql.visits",
        "SELECT * FROM \"hospital.visits\"",
    ] {
        assert!(outcome(&analyst, sql).await.is_err(), "{sql}");
    }
}

/// A quoted alias forged the hidden unit column, so that rows were bounded by another column than
/// the unit.
#[tokio::test]
async fn the_unit_cannot_be_forged() {
    let engine = Engine::demo().unwrap();
    let analyst = engine.analyst("lab").unwrap();
    for sql in [
        "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT age AS '__hushql_unit', status FROM adult) t",
        "WITH t('__hushql_unit', s) AS (SELECT age, status FROM adult) SELECT LAPLACE(eps=1) COUNT(*) FROM t",
        "SELECT LAPLACE(eps=1) COUNT(*) FROM (SELECT age AS \"__HushQL_unit\" FROM adult) t",
    ] {
        assert!(matches!(outcome(&analyst, sql).await, Err(Error::Syntax { .. })), "{sql}");
    }
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("__hushql_unit", column)]).unwrap();
    assert!(engine.register_batch("t", batch).is_err());
    assert_eq!(spent(&analyst), 0);
}

/// What could fail on one person's row and not on another's is refused, or does not fail.
#[tokio::test]
async fn no_expression_fails_for_one_person() {
    let engine = Engine::demo().unwrap();
    let owner = engine.owner();
    let rows = [Some(0), Some(i64::MAX), Some(i64::MIN), Some(253_402_300_799_000_000), None];
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(rows.to_vec()));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
    let batch = RecordBatch::try_from_iter([("id", ids), ("t", times)]).unwrap();
    engine.register_batch("events", batch).unwrap();
    for sql in [
        "ALTER TABLE events SET PRIVACY UNIT (id) MAX ROWS 3",
        "CREATE PRIVACY BUDGET events FOR events LIMIT (epsilon=1000)",
        "ALTER PRIVACY BUDGET adult SET LIMIT (epsilon=1000)",
    ] {
        owner.execute(sql).await.unwrap();
    }
    // A domain whose bounds date functions cannot take brought failing values back.
    let far = "ALTER TABLE events ALTER COLUMN t SET PRIVACY DOMAIN BETWEEN ('2300-01-01', '10000-01-01')";
    assert!(owner.execute(far).await.is_err());
    let analyst = engine.analyst("lab").unwrap();
    let on = |value: &str, other: &str| format!("CASE WHEN age = 37 THEN {value} ELSE {other} END");
    for (table, condition) in [
        ("events", "date_trunc('month', t) = TIMESTAMP '2024-01-01'".to_owned()),
        ("events", "date_trunc('decade', t) = t".to_owned()),
        ("events", "id = 3 AND date_trunc('foo', t) = t".to_owned()),
        ("events", "date_part('year', t) = 2024".to_owned()),
        ("events", "CAST(t AS DATE) < DATE '2024-01-01'".to_owned()),
        ("events", "CAST(t AS VARCHAR) LIKE '2%'".to_owned()),
        ("adult", format!("CAST(CAST({} AS DATE) AS VARCHAR) = 'x'", on("2147483647", "0"))),
        ("adult", format!("left(CAST({} AS DATE), 2) = 'x'", on("2147483647", "0"))),
        (
            "adult",
            format!(
                "CAST(CAST({} AS TIMESTAMP(0)) AS DATE) < DATE '2020-01-01'",
                on("9223372036854775807", "0")
            ),
        ),
        (
            "adult",
            format!(
                "CAST(CLAMP(CAST({} AS DATE), DATE '2000-01-01', DATE '2001-01-01') AS VARCHAR) = 'x'",
                on("9", "0")
            ),
        ),
        ("adult", format!("CEIL(CAST({} AS DECIMAL(3,1))) > 0", on("'99.5'", "'0'"))),
        ("adult", format!("CAST(CAST({} AS DECIMAL(5,-2)) AS DECIMAL(38,37)) > 0", on("age", "0"))),
        (
            "adult",
            format!(
                "CAST({} AS DECIMAL(38,0)) + CAST('-9900000000000000000000000000' AS DECIMAL(38,10)) > 0",
                on("'19000000000000000000000000000'", "'0'")
            ),
        ),
        ("adult", format!("{} / 0 > 1 OR age % (age - age) = 0", on("1", "0"))),
        ("adult", format!("status = 5 OR CAST({} AS INT) = 1", on("'boom'", "'1'"))),
        ("adult", format!("substr(status, 1, {}) = 'B'", on("-1", "1"))),
        ("adult", format!("sqrt({}) > 0", on("-1", "1"))),
        ("adult", format!("repeat(status, {}) = 'x'", on("100000", "1"))),
    ] {
        let sql = format!("SELECT LAPLACE(eps=1) COUNT(*) FROM {table} WHERE {condition}");
        let result = outcome(&analyst, &sql).await;
        assert!(!matches!(result, Err(Error::Execution | Error::Internal)), "{sql}: {result:?}");
    }
    // Dates may be clamped, and the bounds are literals of the column's own type.
    for sql in [
        "SELECT LAPLACE(eps=1) COUNT(*) FROM orders WHERE CLAMP(ts, TIMESTAMP '2025-02-01', TIMESTAMP '2025-03-01') < TIMESTAMP '2025-02-15'",
        "SELECT LAPLACE(eps=1) SUM(ROUND(qty)) FROM orders",
        "SELECT LAPLACE(eps=1) SUM(FLOOR(price)) FROM orders WHERE date_trunc('month', ts) = TIMESTAMP '2025-02-01'",
    ] {
        outcome(&analyst, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

/// What is proved of a domain, or of an expression, holds of whatever a file has: the least integer
/// divided by −1 fails, and would fail for the one person who has it.
#[tokio::test]
async fn what_is_proved_of_a_range_holds_of_every_row() {
    let engine = Engine::in_memory().unwrap();
    let numbers = || -> ArrayRef { Arc::new(Int64Array::from(vec![2, 7, i64::MIN])) };
    let columns = ["ranged", "listed", "bare"].map(|name| (name, numbers()));
    engine.register_batch("t", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    for sql in [
        "ALTER TABLE t SET PRIVACY UNIT ROW",
        "ALTER TABLE t ALTER COLUMN ranged SET PRIVACY DOMAIN BETWEEN (0, 10)",
        "ALTER TABLE t ALTER COLUMN listed SET PRIVACY DOMAIN IN (2, 7)",
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=10)",
    ] {
        engine.owner().execute(sql).await.unwrap();
    }
    let analyst = engine.analyst("lab").unwrap();
    for (x, from, proved) in [
        ("ranged / -1", "t", true),
        ("listed / -1", "t", true),
        ("bare / -1", "t", false),
        // Under the name of another column, and in the second branch.
        ("listed / -1", "(SELECT bare AS listed FROM t) q", false),
        ("(CASE WHEN listed = 2 THEN 1 ELSE bare END) / -1", "t", false),
        ("(CASE WHEN listed = 2 THEN 1 ELSE ranged END) / -1", "t", true),
    ] {
        let sql = format!("SELECT LAPLACE(eps=1) SUM(CLAMP({x}, -9, 9)) FROM {from}");
        match outcome(&analyst, &sql).await {
            Ok(_) => assert!(proved, "{sql}"),
            Err(Error::Refused(refusal)) => assert!(!proved, "{sql}: {refusal}"),
            Err(error) => panic!("{sql}: {error}"),
        }
    }
}

/// Nested casts and subqueries doubled expressions at every level, before anything was charged.
#[tokio::test]
async fn expressions_do_not_explode() {
    let engine = Engine::demo().unwrap();
    let analyst = engine.analyst("lab").unwrap();
    let casts = (0..12).fold("age".to_owned(), |e, i| {
        format!("CAST({e} AS {})", if i % 2 == 0 { "TIMESTAMP" } else { "DATE" })
    });
    let sql = format!("SELECT LAPLACE(eps=1) COUNT({casts}) FROM adult");
    let _ = analyst.explain(&sql);
    let nested = (0..14).fold("adult".to_owned(), |from, i| {
        format!("(SELECT CLAMP(age * age, 0, 9) AS age FROM {from}) q{i}")
    });
    let sql = format!("SELECT LAPLACE(eps=1) SUM(age) FROM {nested}");
    assert!(matches!(outcome(&analyst, &sql).await, Err(Error::Refused(_))));
    assert_eq!(spent(&analyst), 0);
}

/// A remainder that cannot be planned was found out after the charge.
#[tokio::test]
async fn what_cannot_be_planned_is_not_charged() {
    let engine = Engine::demo().unwrap();
    let analyst = engine.analyst("lab").unwrap();
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM adult LIMIT (SELECT 1 + 1)";
    if outcome(&analyst, sql).await.is_err() {
        assert_eq!(spent(&analyst), 0);
    }
}

/// Beside a second group key, candidates from the data were read by an operator that expected one
/// column: the query failed while it ran if a row was there, and answered NULL if none was.
#[tokio::test]
async fn candidates_from_the_data_do_not_tell_whether_a_row_is_there() {
    let engine = Engine::demo().unwrap();
    let analyst = engine.analyst("lab").unwrap();
    for who in ["id = 5", "id = -5"] {
        for (shown, keys) in [("sex, ", "sex KEYS ('Male'), id"), ("", "id, TRUE"), ("", "'a', id")]
        {
            let sql = format!(
                "SELECT {shown}ARGMAX EXPONENTIAL(eps=0.000001, delta=1e-18) id FROM adult WHERE {who} GROUP BY {keys}"
            );
            let refusal = outcome(&analyst, &sql).await.unwrap_err().to_string();
            assert!(refusal.starts_with("HQ009"), "{sql}: {refusal}");
        }
    }
    assert_eq!(spent(&analyst), 0);
}

/// A list of astronomic length was charged, and then took all memory there is.
#[tokio::test]
async fn a_list_has_an_end() {
    let engine = Engine::demo().unwrap();
    let analyst = engine.analyst("lab").unwrap();
    for sql in [
        "SELECT TOP 4611686018427387904 EXPONENTIAL(eps=1) price IN RANGE(0, 5) BY REVENUE(bid, price) FROM bids",
        "SELECT TOP 1001 EXPONENTIAL(eps=1, delta=1e-6) id FROM adult GROUP BY id",
    ] {
        let refusal = outcome(&analyst, sql).await.unwrap_err().to_string();
        assert!(refusal.starts_with("HQ021"), "{sql}: {refusal}");
    }
    assert_eq!(spent(&analyst), 0);
}
