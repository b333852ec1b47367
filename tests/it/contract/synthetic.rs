//! Synthetic tables: paid for once, read for nothing, refused before anything is charged.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use hushql::{Engine, Output, Session};

use crate::contract::asked::{done, told, why};

/// A vault with people and their visits, and a budget for them.
async fn engine(folder: &Path, rows: i64, budget: &str) -> Engine {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut people = "id,city,age,member,born,fee\n".to_owned();
    let mut visits = "person,ward\n".to_owned();
    for id in 0..rows {
        let city = ["Oslo", "Rome", "", "Elsewhere"][usize::try_from(id % 4).unwrap()];
        let born = format!("19{:02}-01-15", 40 + id % 60);
        people += &format!("{id},{city},{},{},{born},{}.25\n", id % 100, id % 3 == 0, id % 50);
        for visit in 0..id % 5 {
            visits += &format!("{id},{}\n", ["A", "B"][usize::try_from(visit % 2).unwrap()]);
        }
    }
    std::fs::write(path("people.csv"), people).unwrap();
    std::fs::write(path("visits.csv"), visits).unwrap();
    let engine = Engine::init(folder.join("v.db")).unwrap();
    for sql in [
        &format!(
            "CREATE EXTERNAL TABLE people (id BIGINT, city VARCHAR, age BIGINT, member BOOLEAN, born DATE, fee DOUBLE) STORED AS CSV LOCATION '{}'",
            path("people.csv")
        ),
        &format!(
            "CREATE EXTERNAL TABLE visits (person BIGINT, ward VARCHAR) STORED AS CSV LOCATION '{}'",
            path("visits.csv")
        ),
        "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Oslo', 'Rome')",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 99)",
        "ALTER TABLE people ALTER COLUMN born SET PRIVACY DOMAIN BETWEEN ('1940-01-01', '1999-12-31')",
        "ALTER TABLE people ALTER COLUMN fee SET PRIVACY DOMAIN BETWEEN (0, 50)",
        "ALTER TABLE visits SET PRIVACY UNIT VIA (person) REFERENCES people(id) MAX ROWS 5",
        "ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('A', 'B')",
        &format!("CREATE PRIVACY BUDGET b FOR people LIMIT ({budget})"),
    ] {
        done(&engine.owner(), sql).await;
    }
    engine
}

const CREATE: &str = "CREATE SYNTHETIC TABLE s AS AIM(eps=1) SELECT city, age, member FROM people";

fn left(session: &Session) -> i64 {
    session.budgets().unwrap()[0].left.nano
}

async fn rows(session: &Session, sql: &str) -> RecordBatch {
    match session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")) {
        Output::Answer(answer) => {
            let schema = answer.schema();
            arrow::compute::concat_batches(&schema, answer.batches()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_synthetic_table_is_paid_once_and_read_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), 2_000, "epsilon=10, delta=1e-6").await;
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(lab.cost(CREATE).unwrap().to_string(), "ε = 1");
    let explained = lab.explain(CREATE).unwrap().to_string();
    assert!(explained.contains("city: 2 values and NULL"), "{explained}");
    assert_eq!(left(&lab), 10_000_000_000);
    let said = done(&lab, CREATE).await;
    assert!(
        said.contains("synthetic_table") && said.contains("cost ε = 1 · left b ε = 9"),
        "{said}"
    );
    assert!(said.contains("marginals are off by at most"), "{said}");
    let before = left(&lab);
    let all = rows(&lab, "SELECT * FROM s").await;
    let types: Vec<DataType> =
        all.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!((&types[1], &types[2]), (&DataType::Int64, &DataType::Boolean));
    assert!((1_800..2_200).contains(&all.num_rows()), "{}", all.num_rows());
    let ages = all.column(1).as_primitive::<Int64Type>();
    assert!(ages.iter().flatten().all(|age| (0..100).contains(&age)));
    // Half of the people have no city that is listed.
    let nulls = all.column(0).null_count();
    assert!((800..1_200).contains(&nulls), "{nulls}");
    let free = "SELECT city, COUNT(*) AS n, AVG(age) AS age FROM s GROUP BY city ORDER BY city";
    assert_eq!(done(&lab, free).await, done(&lab, free).await);
    let joined = "SELECT LAPLACE(eps=1) COUNT(*) FROM people p JOIN (SELECT DISTINCT city FROM s) t ON p.city = t.city";
    assert!(lab.explain(joined).unwrap().to_string().contains("LAPLACE"));
    let shown = done(&lab, "SHOW SYNTHETIC s").await;
    assert!(shown.contains("made by AIM(eps=1) with Laplace noise"), "{shown}");
    assert!(shown.contains("| city, age"), "{shown}");
    assert!(done(&lab, "SHOW TABLES").await.contains("synthetic table of lab"));
    assert_eq!(left(&lab), before);
    // Others see it when they may.
    let other = engine.analyst("other").unwrap();
    assert!(told(&other, "SELECT * FROM s").await.is_err());
    assert!(told(&other, "SHOW SYNTHETIC s").await.is_err());
    done(&lab, "GRANT SELECT ON s TO other").await;
    assert_eq!(rows(&other, "SELECT * FROM s").await, all);
    // It leaves as a file, and is there when another program opens the vault.
    let owner = engine.owner();
    let file = folder.path().join("s.parquet");
    done(&owner, &format!("COPY s TO '{}'", file.display())).await;
    assert!(file.exists());
    assert!(why(&lab, CREATE).await.contains("there is a release table `s` already"));
    let again = CREATE.replace("TABLE s", "TABLE IF NOT EXISTS s");
    assert_eq!(done(&lab, &again).await, "synthetic table s exists already; nothing was charged");
    assert_eq!(left(&lab), before);
    drop((lab, other, owner, engine));
    let engine = Engine::open(folder.path().join("v.db")).unwrap();
    let lab = engine.analyst("lab").unwrap();
    assert_eq!(rows(&lab, "SELECT * FROM s").await, all);
    assert_eq!(
        done(&lab, "DROP SYNTHETIC TABLE s").await,
        "synthetic table s is dropped; what it cost stays spent"
    );
    assert_eq!(left(&lab), before);
    assert!(done(&lab, "DROP SYNTHETIC TABLE IF EXISTS s").await.contains("nothing was dropped"));
}

/// The method of the ledger, which is never AUTO.
fn shown_as(method: &str) -> String {
    method.split('(').next().unwrap_or_default().replace("AUTO", "AIM")
}

#[tokio::test]
async fn each_notion_is_charged_as_it_is_stated() {
    for (budget, method, cost, noise) in [
        ("epsilon=9, delta=1e-6", "AIM(eps=1, delta=1e-9)", "ε = 1, δ = 1e-9", "Gaussian"),
        ("epsilon=9, delta=1e-6", "AUTO(eps=1, delta=1e-9)", "ε = 1", "Laplace"),
        ("rho=1, delta=1e-6", "AIM(rho=0.5)", "ρ = 0.5", "Gaussian"),
        ("rho=1, delta=1e-6", "AIM(eps=1, delta=1e-9)", "ρ = 0.014973057", "Gaussian"),
        ("rho=1, delta=1e-6", "AUTO(eps=1, delta=1e-9)", "ρ = 0.014973057", "Gaussian"),
        ("rho=1, delta=1e-6", "AIM(eps=1)", "ρ = 0.462117158", "Laplace"),
        ("rho=1, delta=1e-6", "MWEM(rho=0.5, rounds=2)", "ρ = 0.5", "Gaussian"),
        ("rho=1, delta=1e-6", "SMALL_DATABASE(eps=1, rows=2)", "ρ = 0.125", "no"),
        ("rho=1, delta=1e-6", "SMALL_DATABASE(rho=0.125, rows=2)", "ρ = 0.125", "no"),
        ("epsilon=9, delta=1e-6", "SMALL_DATABASE(eps=1, rows=2)", "ε = 1", "no"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 200, budget).await;
        let lab = engine.analyst("lab").unwrap();
        let sql = format!("CREATE SYNTHETIC TABLE s AS {method} SELECT city, member FROM people");
        assert_eq!(lab.cost(&sql).unwrap().to_string(), cost, "{method}");
        let said = done(&lab, &sql).await;
        assert!(said.contains(&format!("cost {cost} ·")), "{method}: {said}");
        let shown = done(&lab, "SHOW SYNTHETIC s").await;
        assert!(shown.contains(noise), "{method}: {shown}");
        let ledger = done(&lab, "SELECT mechanism, parameters FROM hushql.ledger").await;
        assert!(ledger.contains(&shown_as(method)), "{ledger}");
    }
    // A default of the budget, and its bounds.
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), 200, "epsilon=9, delta=1e-6").await;
    let (owner, lab) = (engine.owner(), engine.analyst("lab").unwrap());
    let bare = CREATE.replace("AIM(eps=1)", "AIM");
    assert!(why(&lab, &bare).await.contains("HQ015"));
    done(&owner, "ALTER PRIVACY BUDGET b SET PER QUERY (default=0.5, max=2)").await;
    assert_eq!(lab.cost(&bare).unwrap().to_string(), "ε = 0.5");
    let dear = CREATE.replace("AIM(eps=1)", "AIM(eps=3)");
    assert!(told(&lab, &dear).await.is_err());
    assert_eq!(left(&lab), 9_000_000_000);
    let in_rho = CREATE.replace("AIM(eps=1)", "AIM(rho=0.1)");
    assert!(why(&lab, &in_rho).await.contains("the budget b counts in epsilon"));
}

#[tokio::test]
async fn people_with_several_rows_count_as_they_are_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), 1_000, "epsilon=1000, delta=1e-6").await;
    let lab = engine.analyst("lab").unwrap();
    // 800 people have visits, 2,000 in all.
    for (name, with, method, expected) in [
        ("one", "", "AIM(eps=50)", 800),
        ("all", "", "AIM(eps=50, rows=5)", 2_000),
        ("persons", "WITH (weights=PERSON)", "AIM(eps=50)", 800),
        ("fixed", "WITH (rows=123)", "AIM(eps=50)", 123),
    ] {
        let sql =
            format!("CREATE SYNTHETIC TABLE {name} {with} AS {method} SELECT ward FROM visits");
        done(&lab, &sql).await;
        let made = rows(&lab, &format!("SELECT * FROM {name}")).await.num_rows();
        assert!(made.abs_diff(expected) <= expected / 20, "{name}: {made}");
    }
    // All types come out as what they are.
    let sql = "CREATE SYNTHETIC TABLE types AS AIM(eps=50) SELECT born, fee, age + 1 AS older, CASE WHEN age < 18 THEN 'child' ELSE 'grown' END AS kind FROM people WHERE age >= 10";
    done(&lab, sql).await;
    let made = rows(&lab, "SELECT * FROM types").await;
    assert_eq!(made.column(0).data_type(), &DataType::Date32);
    assert_eq!(made.column(1).data_type(), &DataType::Float64);
    let older = rows(&lab, "SELECT MIN(older) AS a, MAX(older) AS b FROM types").await;
    let older = |i: usize| older.column(i).as_primitive::<Int64Type>().value(0);
    assert!(older(0) >= 11 && older(1) <= 100);
    let kinds = done(&lab, "SELECT DISTINCT kind FROM types ORDER BY kind").await;
    assert!(kinds.contains("child") && kinds.contains("grown"), "{kinds}");
}

/// What is said before the charge, and what is spent, is the same whatever the rows are.
#[tokio::test]
async fn nothing_but_the_rows_made_depends_on_rows() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (
        engine(one.path(), 0, "epsilon=10, delta=1e-6").await,
        engine(other.path(), 3_000, "epsilon=10, delta=1e-6").await,
    );
    let (a, b) = (a.analyst("lab").unwrap(), b.analyst("lab").unwrap());
    for query in [
        "AIM(eps=1) SELECT city, age, member, born, fee FROM people",
        "AIM(eps=1, delta=1e-9) SELECT city, age FROM people WHERE age > 20",
        "AIM(eps=1, rows=2) SELECT ward FROM visits",
        "MWEM(eps=1) SELECT city, member FROM people",
        "SMALL_DATABASE(eps=1, rows=3) SELECT city, member FROM people",
        "AIM(eps=1e-9) SELECT city, age FROM people",
        "SMALL_DATABASE(eps=1, rows=90) SELECT city, age FROM people",
        "AIM(eps=1) SELECT id FROM people",
    ] {
        let sql = format!("EXPLAIN PRIVACY CREATE SYNTHETIC TABLE s AS {query}");
        assert_eq!(done(&a, &sql).await, done(&b, &sql).await);
        let sql = format!("EXPLAIN PRIVACY FORMAT JSON CREATE SYNTHETIC TABLE s AS {query}");
        assert_eq!(done(&a, &sql).await, done(&b, &sql).await);
    }
    for (name, method) in
        [("x", "AIM(eps=1)"), ("y", "MWEM(eps=1)"), ("z", "SMALL_DATABASE(eps=1, rows=2)")]
    {
        let sql =
            format!("CREATE SYNTHETIC TABLE {name} AS {method} SELECT city, member FROM people");
        let mut spent = Vec::new();
        for session in [&a, &b] {
            let said = done(session, &sql).await;
            spent.push((said.contains("cost ε = 1 ·"), left(session)));
            // All values are those that are declared, also of a table without rows.
            let cities = rows(session, &format!("SELECT DISTINCT city FROM {name}")).await;
            let known = arrow::compute::cast(cities.column(0), &DataType::Utf8).unwrap();
            let known =
                known.as_string::<i32>().iter().flatten().all(|c| ["Oslo", "Rome"].contains(&c));
            assert!(known);
        }
        assert_eq!(spent[0], spent[1]);
    }
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_before_the_charge() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), 50, "epsilon=10, delta=1e-6").await;
    let lab = engine.analyst("lab").unwrap();
    let refused: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("HQ009", &["AIM(eps=1) SELECT CAST(id AS VARCHAR) AS x, city FROM people"][..]),
        ("HQ013", &["AIM(eps=1) SELECT id, city FROM people"]),
        ("HQ015", &["AIM SELECT city FROM people"]),
        (
            "HQ018",
            &[
                "AIM(eps=1) SELECT city FROM people ORDER BY city",
                "AIM(eps=1) SELECT city FROM people LIMIT 5",
            ],
        ),
        (
            "HQ021",
            &[
                "MWEM(eps=1) SELECT city, age, born, fee, member FROM people",
                "SMALL_DATABASE(eps=1, rows=60) SELECT city, age FROM people",
            ],
        ),
        ("HQ026", &["AIM(eps=1e-9) SELECT city, age, born FROM people"]),
        (
            "HQ029",
            &[
                "SMALL_DATABASE(eps=1) SELECT city FROM people",
                "SMALL_DATABASE(eps=1, delta=1e-9, rows=2) SELECT city FROM people",
                "AIM(eps=1, rounds=3) SELECT city FROM people",
                "AIM(rho=0.1) SELECT city FROM people",
            ],
        ),
    ]);
    for (code, queries) in refused {
        for query in queries {
            let sql = format!("CREATE SYNTHETIC TABLE s AS {query}");
            let why = why(&lab, &sql).await;
            assert!(why.contains(code), "{sql}: {why}");
            let explained = done(&lab, &format!("EXPLAIN PRIVACY {sql}")).await;
            assert!(explained.contains(code), "{explained}");
        }
    }
    for (with, code) in [
        ("workload=((city, pay))", "HQ025"),
        ("buckets=(city (1, 2))", "HQ025"),
        ("buckets=(age (50, 20))", "HQ025"),
        ("buckets=(pay (50, 20))", "HQ025"),
        ("rows=100000000", "HQ021"),
    ] {
        let sql = format!(
            "CREATE SYNTHETIC TABLE s WITH ({with}) AS AIM(eps=1) SELECT city, age FROM people"
        );
        let why = why(&lab, &sql).await;
        assert!(why.contains(code), "{sql}: {why}");
    }
    // A public table, groups across people.
    let owner = engine.owner();
    done(&owner, "ALTER TABLE visits DROP PRIVACY UNIT").await;
    for query in [
        "AIM(eps=1) SELECT city, COUNT(*) AS n FROM people GROUP BY city",
        "AIM(eps=1) SELECT ward FROM visits",
        "AIM(eps=1) SELECT 1 AS x",
    ] {
        assert!(
            told(&lab, &format!("CREATE SYNTHETIC TABLE s AS {query}")).await.is_err(),
            "{query}"
        );
    }
    assert!(why(&lab, "SHOW SYNTHETIC s").await.contains('s'));
    assert_eq!(left(&lab), 10_000_000_000);
    // A release table is none.
    done(&lab, "CREATE RELEASE TABLE r AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people").await;
    assert!(why(&lab, "SHOW SYNTHETIC r").await.contains("SHOW RELEASE TABLE r"));
    assert!(why(&lab, "DROP SYNTHETIC TABLE r").await.contains("DROP RELEASE TABLE r"));
}

/// A refusal says what to write instead; written so, the statement is accepted.
#[tokio::test]
async fn what_is_written_instead_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), 50, "epsilon=10, delta=1e-6").await;
    let lab = engine.analyst("lab").unwrap();
    for (refused, says, instead) in [
        (
            "AS AIM(eps=1) SELECT id, city FROM people",
            "the query without id",
            "AS AIM(eps=1) SELECT city FROM people",
        ),
        ("AS AIM SELECT city FROM people", "AIM(eps=", "AS AIM(eps=1) SELECT city FROM people"),
        (
            "AS AIM(eps=1e-9) SELECT city, age, born FROM people",
            "eps=0.00000012 or more",
            "AS AIM(eps=0.000001) SELECT city, age, born FROM people",
        ),
        (
            "AS AIM(rho=0.1) SELECT city FROM people",
            "AIM(eps=1)",
            "AS AIM(eps=1) SELECT city FROM people",
        ),
        (
            "AS MWEM(eps=1) SELECT city, age, born, fee, member FROM people",
            "or AIM",
            "AS AIM(eps=1) SELECT city, age, born, fee, member FROM people",
        ),
        (
            "AS SMALL_DATABASE(eps=1, rows=60) SELECT city, age FROM people",
            "or AIM(eps=1)",
            "AS AIM(eps=1) SELECT city, age FROM people",
        ),
        (
            "AS SMALL_DATABASE(eps=1) SELECT city FROM people",
            "rows=",
            "AS SMALL_DATABASE(eps=1, rows=5) SELECT city FROM people",
        ),
        (
            "AS AIM(eps=1) SELECT city, LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city",
            "AS AIM(eps=1) SELECT",
            "AS AIM(eps=1) SELECT city FROM people",
        ),
        (
            "WITH (buckets=(city (1, 2))) AS AIM(eps=1) SELECT city, age FROM people",
            "BETWEEN lo AND hi",
            "WITH (buckets=(age (1, 20))) AS AIM(eps=1) SELECT city, age FROM people",
        ),
        (
            "WITH (workload=((city, pay))) AS AIM(eps=1) SELECT city, age FROM people",
            "workload=((",
            "WITH (workload=((city, age))) AS AIM(eps=1) SELECT city, age FROM people",
        ),
        (
            "WITH (rows=100000000) AS AIM(eps=1) SELECT city FROM people",
            "WITH (rows=",
            "WITH (rows=1000) AS AIM(eps=1) SELECT city FROM people",
        ),
        (
            "WITH (size='10') AS AIM(eps=1) SELECT city, age FROM people",
            "size='1MB'",
            "WITH (size='1MB') AS AIM(eps=1) SELECT city, age FROM people",
        ),
    ] {
        let error = told(&lab, &format!("CREATE SYNTHETIC TABLE s {refused}")).await;
        let error = error.err().unwrap_or_else(|| panic!("{refused} is accepted"));
        let hint = error.hint().unwrap_or_default().to_owned();
        assert!(hint.contains(says), "{refused}: {error}: {hint}");
        let explained =
            told(&lab, &format!("EXPLAIN PRIVACY CREATE SYNTHETIC TABLE s {instead}")).await;
        let explained = explained.unwrap_or_else(|error| panic!("{instead}: {error}"));
        assert!(!explained.contains("refused"), "{instead}: {explained}");
    }
    assert_eq!(left(&lab), 10_000_000_000);
}

/// A batch of nothing but NULL may have a dictionary without values.
#[tokio::test]
async fn rows_of_nothing_but_null_are_counted() {
    for rows in [0_i64, 1, 3] {
        let engine = Engine::in_memory().unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let keys = Int32Array::from_iter((0..rows).map(|_| None::<i32>));
        let values: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
        let texts: ArrayRef =
            Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).unwrap());
        let batch = RecordBatch::try_from_iter([("id", ids), ("q", texts)]).unwrap();
        engine.register_batch("t", batch).unwrap();
        for sql in [
            "ALTER TABLE t SET PRIVACY UNIT (id) UNIQUE",
            "ALTER TABLE t ALTER COLUMN q SET PRIVACY DOMAIN IN ('a', 'b')",
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=100)",
        ] {
            done(&engine.owner(), sql).await;
        }
        let lab = engine.analyst("lab").unwrap();
        let said = done(&lab, "CREATE SYNTHETIC TABLE s AS AIM(eps=9) SELECT q FROM t").await;
        assert!(said.contains("synthetic_table"), "{rows}: {said}");
        done(&lab, "SELECT q, COUNT(*) AS n FROM s GROUP BY q").await;
    }
}
