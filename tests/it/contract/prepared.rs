//! Prepared queries: nothing is charged before they are executed, they are what the written query
//! is, and a value of a parameter is never more than a value.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use hushql::{
    Declaration, Engine, Error, PrivacyBudget, PrivacyDomain, PrivacyUnit, Reason, Session, Value,
};

/// What is spent of the first budget, in 10⁻⁹.
pub(crate) fn spent(session: &Session) -> i64 {
    session.budgets().unwrap().iter().map(|state| state.spent.nano).sum()
}

pub(crate) fn reason(error: &Error) -> Option<Reason> {
    match error {
        Error::Refused(refusal) => Some(refusal.reason()),
        _ => None,
    }
}

#[tokio::test]
async fn what_is_said_before_is_what_comes_out() {
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    for sql in [
        "SELECT LAPLACE(eps=0.1) COUNT(*) AS n FROM adult",
        "SELECT LAPLACE(eps=0.1) COUNT(*) + 1 AS n FROM adult",
        "SELECT status, LAPLACE(eps=0.1) COUNT(*) AS n FROM adult GROUP BY status",
        "SELECT ARGMAX EXPONENTIAL(eps=0.1) status FROM adult GROUP BY status",
        "SELECT LAPLACE(eps=0.1) AVG(price) AS mean FROM orders",
        "SELECT LAPLACE(eps=0.1) STDDEV(price) AS deviation FROM orders",
        "ANALYZE PRIVACY DOMAIN orders(price) WITH (eps=0.1)",
        "SELECT 1 AS one",
    ] {
        let before = spent(&lab);
        let query = lab.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(query.cost(), lab.cost(sql).unwrap(), "{sql}");
        assert_eq!(*query.explanation(), lab.explain(sql).unwrap(), "{sql}");
        assert_eq!(spent(&lab), before, "{sql}: preparing is free");
        let answer = query.execute().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(answer.schema(), query.schema(), "{sql}");
        let cost = answer.receipt().map(|receipt| receipt.spent).unwrap_or_default();
        assert_eq!(cost, query.cost(), "{sql}");
        // What is known of the noise beforehand is what the answer says; of a mean, and of what is
        // computed, it is not known.
        for accuracy in query.accuracy() {
            assert!(answer.accuracy().contains(accuracy), "{sql}: {accuracy:?}");
        }
        let later = ["AVG", "STDDEV", "+ 1"].iter().any(|computed| sql.contains(computed));
        assert_eq!(query.accuracy().is_empty(), answer.accuracy().is_empty() || later, "{sql}");
    }
}

/// An aggregate whose bound is found is measured in units of the bound, which nobody knows before.
#[tokio::test]
async fn what_is_not_known_before_is_not_said() {
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    let sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(order_id) AS s FROM orders";
    let Ok(query) = lab.prepare(sql) else { panic!("{:?}", lab.prepare(sql)) };
    assert!(query.accuracy().is_empty(), "{:?}", query.accuracy());
}

#[tokio::test]
async fn every_execution_is_charged() {
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    let query = lab.prepare("SELECT LAPLACE(eps=0.25) COUNT(*) FROM adult").unwrap();
    for times in 1..=3 {
        query.execute().await.unwrap();
        assert_eq!(spent(&lab), times * 250_000_000);
    }
    // Beyond the budget: refused when it is prepared.
    let dear = lab.prepare("SELECT LAPLACE(eps=900) COUNT(*) FROM adult").unwrap_err();
    assert!(matches!(dear, Error::Budget(_)), "{dear:?}");
}

#[tokio::test]
async fn refusals_come_when_a_query_is_prepared() {
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    for (sql, code) in [
        ("SELECT age FROM adult", "HQ001"),
        ("SELECT LAPLACE(within=5) SUM(order_id) FROM orders", "HQ007"),
        ("SHOW TABLES", "HQ003"),
        ("DROP TABLE adult", "HQ003"),
    ] {
        assert_eq!(lab.prepare(sql).unwrap_err().code(), Some(code), "{sql}");
    }
    assert!(matches!(lab.prepare("SELECT FROM WHERE"), Err(Error::Syntax { .. })));
}

fn visits() -> Engine {
    let engine = Engine::in_memory().unwrap();
    let patient: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    let minutes: ArrayRef = Arc::new(Int64Array::from_iter_values((0..50).map(|i| i % 10)));
    let rows = RecordBatch::try_from_iter([("patient", patient), ("minutes", minutes)]).unwrap();
    engine.register_batch("visits", rows).unwrap();
    engine
}

/// What was quoted is what is charged: where declarations have changed what a query releases,
/// nothing is.
#[tokio::test]
async fn a_query_is_executed_as_it_was_quoted_or_not_at_all() {
    let engine = visits();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    owner.declare(PrivacyUnit::column("visits", "patient").max_rows(2)).await.unwrap();
    owner.declare(PrivacyDomain::between("visits", "minutes", 0, 10)).await.unwrap();
    owner.declare(PrivacyBudget::epsilon("study", "visits", 5.0)).await.unwrap();
    let sum = lab.prepare("SELECT LAPLACE(eps=1) SUM(minutes) FROM visits").unwrap();
    let count = lab.prepare("SELECT LAPLACE(eps=1) COUNT(*) FROM visits").unwrap();

    owner.declare(PrivacyDomain::between("visits", "minutes", 0, 1_000)).await.unwrap();
    let error = sum.execute().await.unwrap_err();
    assert!(error.to_string().contains("prepare it again"), "{error}");
    assert_eq!(spent(&lab), 0);
    // The other one does not depend on what has changed.
    count.execute().await.unwrap();
    assert_eq!(spent(&lab), 1_000_000_000);

    owner.declare(Declaration::public("visits")).await.unwrap();
    assert!(count.execute().await.is_err());
    assert_eq!(spent(&lab), 1_000_000_000);
}

/// A query of public tables costs nothing, and its columns are part of what was said of it.
#[tokio::test]
async fn columns_are_those_that_were_prepared() {
    let engine = visits();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    owner.declare(Declaration::public("visits")).await.unwrap();
    owner.execute("CREATE VIEW v AS SELECT patient FROM visits").await.unwrap();
    let query = lab.prepare("SELECT * FROM v").unwrap();
    assert_eq!(query.execute().await.unwrap().schema(), query.schema());

    owner.execute("CREATE OR REPLACE VIEW v AS SELECT patient > 3 AS x FROM visits").await.unwrap();
    let error = query.execute().await.unwrap_err();
    assert!(error.to_string().contains("prepare it again"), "{error}");
}

/// The mechanism is the same, but other people pay, in other notions.
#[tokio::test]
async fn the_budgets_that_pay_are_those_that_were_quoted() {
    let engine = visits();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    owner.declare(PrivacyUnit::row("visits")).await.unwrap();
    owner.declare(PrivacyBudget::epsilon("study", "visits", 5.0)).await.unwrap();
    let query = lab.prepare("SELECT LAPLACE(eps=1) COUNT(*) FROM visits").unwrap();
    query.execute().await.unwrap();
    assert_eq!(query.cost().to_string(), "ε = 1");

    owner.declare(PrivacyBudget::rho("rounds", "visits", 5.0)).await.unwrap();
    let error = query.execute().await.unwrap_err();
    assert!(error.to_string().contains("prepare it again"), "{error}");
    let again = lab.prepare("SELECT LAPLACE(eps=1) COUNT(*) FROM visits").unwrap();
    let answer = again.execute().await.unwrap();
    assert_eq!(answer.receipt().map(|receipt| receipt.spent), Some(again.cost()));
    assert_ne!(again.cost(), query.cost());
}

/// Each execution is planned anew: nothing of a plan differs by how often that was done.
#[tokio::test]
async fn a_prepared_query_is_executed_again_and_by_many_at_once() {
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    let sql = "SELECT status, LAPLACE(eps=0.1) COUNT(*) AS n FROM adult \
        WHERE age > (SELECT MIN(v.x) FROM (VALUES ($1), ($2)) AS v(x)) \
        AND status IN (SELECT $3) GROUP BY status KEYS ('Divorced')";
    let values = [Value::from(30), Value::from(40), Value::from("Divorced")];
    let query = lab.prepare_with(sql, values).unwrap_or_else(|e| panic!("{e}"));
    let before = spent(&lab);
    let running: Vec<_> = (0..4)
        .map(|_| {
            let query = query.clone();
            tokio::spawn(async move { query.execute().await.map(|answer| answer.schema()) })
        })
        .collect();
    for done in running {
        assert_eq!(done.await.unwrap().unwrap(), query.schema());
    }
    assert_eq!(spent(&lab) - before, 400_000_000);
}

/// The rows of a public table by prepared conditions: exact, so that it is seen which values were
/// compared.
#[tokio::test]
async fn values_are_values() {
    let engine = visits();
    engine.owner().declare(Declaration::public("visits")).await.unwrap();
    let lab = engine.analyst("lab").unwrap();
    let counted = async |condition: &str, values: Vec<Value>| -> i64 {
        let sql = format!("SELECT COUNT(*) FROM visits WHERE {condition}");
        let query = lab.prepare_with(&sql, values).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let answer = query.execute().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        answer.batches()[0].column(0).as_primitive::<Int64Type>().value(0)
    };
    assert_eq!(counted("minutes = $1", vec![3.into()]).await, 5);
    assert_eq!(counted("minutes > $1 + $2", vec![3.into(), 2.5.into()]).await, 20);
    assert_eq!(counted("minutes - $1 = 1", vec![(-1).into()]).await, 5);
    assert_eq!(counted("$1 AND minutes < $2", vec![true.into(), i64::MAX.into()]).await, 50);
    assert_eq!(counted("minutes > $1", vec![i64::MIN.into()]).await, 50);
    assert_eq!(counted("minutes = $1", vec![None::<i64>.into()]).await, 0);
    assert_eq!(counted("minutes IN ($2, $1, $2)", vec![1.into(), 2.into()]).await, 10);
    assert_eq!(counted("minutes = - $1", vec![(-3).into()]).await, 5);
    assert_eq!(counted("minutes = $1::INT + 7", vec![(-4).into()]).await, 5);
    assert_eq!(counted("7 / $1 = 3.5", vec![2.0.into()]).await, 50);
    assert_eq!(counted("7 / $1 = 3", vec![2.into()]).await, 50);
    let days = "CAST($1 AS DATE) + INTERVAL $2 = CAST('2026-03-03' AS DATE)";
    assert_eq!(counted(days, vec!["2026-02-28".into(), "3 days".into()]).await, 50);
    for text in ["x' OR '1' = '1", "'; DROP TABLE visits; --", "\\' OR 1=1 --", "$1", "\u{0}\n"] {
        let compared = counted("CAST(minutes AS VARCHAR) = $1", vec![text.into()]).await;
        assert_eq!(compared, 0, "{text}");
        let itself = counted("$1 = $2", vec![text.into(), text.into()]).await;
        assert_eq!(itself, 50, "{text}");
    }
}

/// A query with values costs what the same query costs with the values written in it, and is
/// explained alike.
#[tokio::test]
async fn a_prepared_query_is_the_written_one() {
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    let written = "SELECT LAPLACE(eps=0.5) SUM(CLAMP(price, 0, 50)) AS s FROM orders WHERE city NOT LIKE 'it''s'";
    let with =
        "SELECT LAPLACE(eps=0.5) SUM(CLAMP(price, 0, $1)) AS s FROM orders WHERE city NOT LIKE $2";
    let query = lab.prepare_with(with, [Value::from(50), Value::from("it's")]).unwrap();
    assert_eq!(query.cost(), lab.cost(written).unwrap());
    let accuracy = lab.prepare(written).unwrap().accuracy().to_vec();
    assert_eq!(query.accuracy(), accuracy);
    query.execute().await.unwrap();

    // The ledger keeps the query as it was written, and its values behind it.
    let ledger = lab.query("SELECT statement FROM hushql.ledger").await.unwrap().to_string();
    assert!(ledger.contains("city NOT LIKE $2"), "{ledger}");
    assert!(ledger.contains("-- $1 = 50, $2 = 'it''s'"), "{ledger}");
}

#[tokio::test]
async fn parameters_are_matched_and_stand_in_no_clause() {
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    let one = || [Value::from(1)];
    for sql in [
        "SELECT LAPLACE(eps=0.1) COUNT(*) FROM adult",
        "SELECT LAPLACE(eps=0.1) COUNT(*) FROM adult WHERE age > $1 + $2",
        "SELECT LAPLACE(eps=0.1) COUNT(*) FROM adult WHERE age > ?",
        "ANALYZE PRIVACY DOMAIN orders(price) WITH (eps=0.1)",
    ] {
        let error = lab.prepare_with(sql, one()).unwrap_err();
        assert_eq!(reason(&error), Some(Reason::Parameter), "{sql}: {error}");
    }
    for sql in [
        "SELECT LAPLACE(eps=$1) COUNT(*) FROM adult",
        "SELECT LAPLACE(rho=$1) COUNT(*) FROM adult",
        "SELECT LAPLACE(eps=1, groups=$1) COUNT(*) FROM adult",
        "SELECT age, LAPLACE(eps=1) COUNT(*) FROM adult GROUP BY age KEYS ($1)",
    ] {
        let error = lab.prepare_with(sql, one()).unwrap_err().to_string();
        assert!(error.contains("a parameter is not allowed here"), "{sql}: {error}");
    }
    // A parameter is not a value where none is given.
    assert!(lab.prepare("SELECT LAPLACE(eps=1) COUNT(*) FROM adult WHERE age > $1").is_err());
    // A value is as large as a statement may be, at most.
    let long = "x".repeat(2 << 20);
    let sql = "SELECT LAPLACE(eps=1) COUNT(*) FROM adult WHERE status = $1";
    let error = lab.prepare_with(sql, [long]).unwrap_err();
    assert_eq!(reason(&error), Some(Reason::TooLarge), "{error}");
    assert_eq!(spent(&lab), 0);
}

/// A description follows from names and types alone. Its columns are those of the answer, also with
/// the names of PostgreSQL.
#[tokio::test]
async fn descriptions_have_the_columns_of_answers() {
    let engine = Engine::demo().unwrap();
    let owner = engine.owner();
    for table in ["adult", "bids", "orders"] {
        let raise = format!("ALTER PRIVACY BUDGET {table} SET LIMIT (epsilon=1000, delta=1e-3)");
        owner.execute(&raise).await.unwrap();
    }
    let compat = include_str!("../../compat/statements.sql");
    let written = super::grammar::blocks(include_str!("../../../grammar.md"));
    let texts = written.iter().map(|(_, _, block)| block.as_str()).chain([compat]);
    let session = Session::from(engine.analyst("lab").unwrap());
    let named = session.clone().with_postgres_names(true);
    let mut compared = 0;
    for text in texts {
        for statement in hushql::split_statements(text).unwrap() {
            for session in [&session, &named] {
                let Ok(query) = session.prepare(statement.text()) else { continue };
                let described = session.describe(statement.text(), &[]);
                let described = described.unwrap_or_else(|e| panic!("{}: {e}", statement.text()));
                let columns = |schema: &arrow::datatypes::SchemaRef| {
                    let fields = schema.fields().iter();
                    fields.map(|f| (f.name().clone(), f.data_type().clone())).collect::<Vec<_>>()
                };
                let expected = columns(&query.schema());
                assert_eq!(columns(described.schema()), expected, "{}", statement.text());
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared} compared");
}
