//! The ways into the library that are not SQL: files that a program registers, declarations as
//! values.
//!
//! Each is compared with the statement that says the same: the catalog, the answers and the
//! refusals are one.

use std::fs;
use std::path::Path;

use arrow::datatypes::DataType;
use hushql::{
    Declaration, Engine, Error, ExternalTable, Output, PrivacyBudget, PrivacyDomain, PrivacyUnit,
    Reason, Session,
};

async fn said(session: &Session, sql: &str) -> String {
    match session.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")) {
        Output::Answer(answer) => answer.to_string(),
        Output::Done(text) => text,
        other => panic!("{sql}: {other:?}"),
    }
}

fn reason(error: &Error) -> Option<Reason> {
    match error {
        Error::Refused(refusal) => Some(refusal.reason()),
        _ => None,
    }
}

fn files(folder: &Path) -> (String, String) {
    let (people, visits) = (folder.join("people.csv"), folder.join("visits.csv"));
    fs::write(&people, "id,age,ward\n1,30,north\n2,41,south\n3,52,north\n").unwrap();
    fs::write(&visits, "1|5\n1|7\n3|9\n").unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    (text(&people), text(&visits))
}

/// The same tables, units, domains and budgets, declared as values and in SQL, give the same
/// catalog and the same sentences.
#[tokio::test]
async fn values_declare_what_statements_declare() {
    let folder = tempfile::tempdir().unwrap();
    let (people, visits) = files(folder.path());
    let (by_value, in_sql) = (Engine::in_memory().unwrap(), Engine::in_memory().unwrap());
    let visits_table = ExternalTable::csv("visits", &visits)
        .header(false)
        .delimiter('|')
        .column("patient", DataType::Int64)
        .column("minutes", DataType::Float64);
    let declared: [(Declaration, String); 7] = [
        (
            ExternalTable::csv("people", &people).into(),
            format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{people}'"),
        ),
        (
            visits_table.into(),
            format!(
                "CREATE EXTERNAL TABLE visits (patient BIGINT, minutes DOUBLE) STORED AS CSV LOCATION '{visits}' \
                 OPTIONS (has_header FALSE, delimiter '|')"
            ),
        ),
        (
            PrivacyUnit::column("people", "id").unique().into(),
            "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE".into(),
        ),
        (
            PrivacyUnit::via("visits", ["patient"], "people", ["id"]).max_rows(5).into(),
            "ALTER TABLE visits SET PRIVACY UNIT VIA (patient) REFERENCES people(id) MAX ROWS 5"
                .into(),
        ),
        (
            PrivacyDomain::between("people", "age", 0, 120).into(),
            "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120)".into(),
        ),
        (
            PrivacyDomain::values("people", "ward", ["north", "it's"]).into(),
            "ALTER TABLE people ALTER COLUMN ward SET PRIVACY DOMAIN IN ('north', 'it''s')".into(),
        ),
        (
            PrivacyBudget::epsilon("study", "people", 2.5).delta(1e-6).min_epsilon(0.01).max_epsilon(1.0).into(),
            "CREATE PRIVACY BUDGET study FOR people LIMIT (epsilon=2.5, delta=1e-6) PER QUERY (min=0.01, max=1)"
                .into(),
        ),
    ];
    for (declaration, statement) in declared {
        let sentence = by_value.owner().declare(declaration).await.unwrap();
        assert_eq!(sentence, said(&in_sql.owner(), &statement).await, "{statement}");
    }
    for look in ["SHOW TABLES", "DESCRIBE people", "DESCRIBE visits", "SHOW PRIVACY"] {
        let (a, b) = (said(&by_value.owner(), look).await, said(&in_sql.owner(), look).await);
        assert_eq!(a, b, "{look}");
    }
    let question = "SELECT ward, LAPLACE(eps=1) COUNT(*) FROM people GROUP BY ward";
    let explained = |engine: &Engine| engine.analyst("lab").unwrap().explain(question).unwrap();
    assert_eq!(explained(&by_value), explained(&in_sql));
}

/// A registered file takes the path of a declared one: undeclared at first, verified, held to what
/// it was.
#[tokio::test]
async fn registered_files_are_declared_files() {
    let folder = tempfile::tempdir().unwrap();
    let (people, _) = files(folder.path());
    let engine = Engine::in_memory().unwrap();
    engine.register_csv("people", &people).await.unwrap();
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let question = "SELECT LAPLACE(eps=1) COUNT(*) FROM people";
    let refused = lab.query(question).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Reason::Undeclared));
    assert!(said(&owner, "DESCRIBE people").await.contains("BIGINT"));

    // A second table of the name is not made.
    let again = engine.register_csv("people", &people).await;
    assert!(matches!(again, Err(Error::Catalog { .. })), "{again:?}");

    // What is not so is found on the file.
    let two = folder.path().join("two.csv");
    fs::write(&two, "id\n1\n1\n").unwrap();
    engine.register_csv("two", &two).await.unwrap();
    let more = owner.declare(PrivacyUnit::column("two", "id").max_rows(1)).await;
    assert!(matches!(more, Err(Error::Catalog { .. })), "{more:?}");

    owner.declare(PrivacyUnit::column("people", "id").unique()).await.unwrap();
    owner.declare(PrivacyBudget::epsilon("study", "people", 1.0)).await.unwrap();
    assert_eq!(lab.cost(question).unwrap().to_string(), "ε = 1");
    fs::write(&people, "id,age,ward\n1,30,north\n2,41,south\n3,52,north\n4,1,east\n").unwrap();
    let changed = lab.query(question).await.unwrap_err();
    assert_eq!(reason(&changed), Some(Reason::ChangedFile), "{changed}");
}

#[tokio::test]
async fn files_that_cannot_be_tables_are_not_registered() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::in_memory().unwrap();
    let (missing, empty) = (folder.path().join("missing"), folder.path().join("empty"));
    fs::write(&empty, "").unwrap();
    for path in [&missing, &empty] {
        for result in
            [engine.register_csv("t", path).await, engine.register_parquet("t", path).await]
        {
            assert!(matches!(result, Err(Error::Catalog { .. })), "{result:?}");
        }
    }
    let (people, _) = files(folder.path());
    assert!(engine.register_parquet("t", &people).await.is_err(), "it is no Parquet file");
    assert!(engine.register_csv("__hushql_t", &people).await.is_err(), "the name is reserved");
    let narrow = ExternalTable::csv("t", &people).column("id", DataType::Int64);
    assert!(engine.owner().declare(narrow).await.is_err(), "the file has three columns");
}

/// An analyst has no method that declares, and a statement that does is refused without a path.
#[tokio::test]
async fn analysts_declare_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (people, _) = files(folder.path());
    let lab = Engine::demo().unwrap().analyst("lab").unwrap();
    for declaration in [
        "ALTER TABLE adult SET PUBLIC".to_owned(),
        "ALTER TABLE orders SET PRIVACY UNIT ROW".to_owned(),
        format!("CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{people}'"),
        "CREATE PRIVACY BUDGET mine FOR adult LIMIT (epsilon=1000)".to_owned(),
    ] {
        let error = lab.execute(&declaration).await.unwrap_err();
        assert_eq!(reason(&error), Some(Reason::Statement), "{error}");
        assert!(!error.to_string().contains(&people), "{error}");
    }
}
