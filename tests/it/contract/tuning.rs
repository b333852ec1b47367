//! `EXPLAIN PRIVACY TUNE`: what is told follows from rows that nobody has to protect, costs
//! nothing, and is what the question itself would do.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Float64Type;
use hushql::{Engine, Output, Session};
use serde_json::Value;

/// Rows of 300 people: most have one to three, one in ten has nine. Values are 0.5 to 20, and a few
/// are 400.
fn rows() -> RecordBatch {
    let (mut ids, mut homes, mut kinds, mut values) = (vec![], vec![], vec![], vec![]);
    for id in 0..300_i64 {
        let count = if id % 10 == 0 { 9 } else { 1 + id % 3 };
        for row in 0..count {
            ids.push(id);
            homes.push(id % 3);
            kinds.push(["a", "b", "c"][usize::try_from((id + row) % 3).unwrap()]);
            let value = if (id * 7 + row) % 40 == 0 { 800 } else { 1 + (id * 13 + row * 5) % 40 };
            values.push(value as f64 / 2.0);
        }
    }
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from(ids))),
        ("home", Arc::new(Int64Array::from(homes))),
        ("k", Arc::new(StringArray::from(kinds))),
        ("x", Arc::new(Float64Array::from(values))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The private `t` and the public `like` with the same rows.
async fn engine() -> Engine {
    let engine = Engine::in_memory().unwrap();
    for table in ["t", "like"] {
        engine.register_batch(table, rows()).unwrap();
    }
    for sql in [
        "ALTER TABLE t SET PRIVACY UNIT (id) MAX ROWS 9",
        "ALTER TABLE t ALTER COLUMN k SET PRIVACY DOMAIN IN ('a', 'b', 'c')",
        "ALTER TABLE t ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 500)",
        "ALTER TABLE \"like\" SET PUBLIC",
        "CREATE PRIVACY BUDGET t FOR t LIMIT (epsilon=1000000, delta=1e-3)",
    ] {
        engine.owner().execute(sql).await.unwrap();
    }
    engine
}

async fn tuned(session: &Session, question: &str, on: &str) -> Value {
    let sql = format!("EXPLAIN PRIVACY FORMAT JSON TUNE {question} ON {on}");
    match session.execute(&sql).await.unwrap() {
        Output::ExplanationJson(told) => serde_json::from_str(&told.to_json()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn settings(told: &Value) -> &Vec<Value> {
    told["tuning"]["settings"].as_array().unwrap_or_else(|| panic!("{told}"))
}

/// The numbers of an answer, by row.
async fn numbers(session: &Session, sql: &str, column: &str) -> Vec<f64> {
    let answer = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = answer.batches().iter().map(|batch| {
        let column = batch.column_by_name(column).unwrap();
        let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Float64).unwrap();
        column.as_primitive::<Float64Type>().values().to_vec()
    });
    batches.flatten().collect()
}

/// On a table with the rows of the stand-in, each setting cuts what it says: at an ε with nearly no
/// noise, its answer is off by the bias. Each query draws the order of a person's groups, so bounds
/// on rows in all are compared where a person's rows are in one group. Noise of up to 4,500/25,000
/// exceeds 3 with a probability of at most 10⁻⁷.
#[tokio::test]
async fn the_bias_is_what_the_question_cuts() {
    for (question, plain, noise) in [
        ("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t", "SELECT COUNT(*) AS n FROM \"like\"", 0.01),
        (
            "SELECT LAPLACE(eps=1) SUM(x) AS n FROM t WHERE k <> 'b'",
            "SELECT SUM(x) AS n FROM \"like\" WHERE k <> 'b'",
            3.0,
        ),
        ("SELECT LAPLACE(eps=1) AVG(x) AS n FROM t", "SELECT AVG(x) AS n FROM \"like\"", 0.02),
        (
            "SELECT home, LAPLACE(eps=1) SUM(CLAMP(x, 0, 30)) AS n FROM t GROUP BY home KEYS (0, 1, 2) ORDER BY home",
            "SELECT home, SUM(x) AS n FROM \"like\" GROUP BY home ORDER BY home",
            3.0,
        ),
    ] {
        let lab = Session::from(engine().await.analyst("lab").unwrap()).with_refined_draws(false);
        let exact = numbers(&lab, plain, "n").await;
        let told = tuned(&lab, question, "\"like\"").await;
        let (mut tried, mut largest) = (0, 0.0_f64);
        for setting in settings(&told) {
            let sql = setting["write"].as_str().unwrap();
            if !sql.contains("(eps=1)") && !sql.contains("(eps=1,") {
                continue;
            }
            let sql = sql.replacen("eps=1", "eps=25000", 1);
            let answers = numbers(&lab, &sql, "n").await;
            assert_eq!(answers.len(), exact.len(), "{sql}");
            let off = answers.iter().zip(&exact).map(|(answer, exact)| (answer - exact).abs());
            let off = off.sum::<f64>() / exact.len() as f64;
            let bias = setting["bias"].as_f64().unwrap();
            let told = format!("{sql}: off by {off}, and not by {bias}");
            assert!((off - bias).abs() <= noise + 1e-3 * bias, "{told}");
            (tried, largest) = (tried + 1, largest.max(bias));
        }
        assert!(tried >= 5 && largest > 10.0 * noise, "{told}");
    }
}

/// The noise is that of EXPLAIN.
#[tokio::test]
async fn the_noise_is_that_of_the_question() {
    let engine = engine().await;
    let lab = Session::from(engine.analyst("lab").unwrap());
    for question in [
        "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t",
        "SELECT k, LAPLACE(eps=2, groups=2) SUM(x) AS n FROM t GROUP BY k",
        "SELECT k, GAUSSIAN(eps=1, delta=1e-6) SUM(x) AS n FROM t GROUP BY k",
    ] {
        let told = tuned(&lab, question, "\"like\"").await;
        assert!(settings(&told).len() >= 20, "{told}");
        for setting in settings(&told) {
            let explained = lab.explain(setting["write"].as_str().unwrap()).unwrap().to_json();
            let explained: Value = serde_json::from_str(&explained).unwrap();
            assert_eq!(setting["noise"], explained["releases"][0]["within"], "{setting}");
        }
    }
}

/// With much ε nothing should be cut, and with little of it few rows should count.
#[tokio::test]
async fn the_best_setting_follows_the_cost() {
    let engine = engine().await;
    let lab = Session::from(engine.analyst("lab").unwrap());
    let written = async |question: &str| {
        let told = tuned(&lab, question, "\"like\"").await;
        told["tuning"]["write"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    for (question, whole, few) in [
        (
            "SELECT LAPLACE(eps={}) COUNT(*) AS n FROM t",
            "SELECT LAPLACE(eps=10000) COUNT(*) AS n FROM t",
            "SELECT LAPLACE(eps=0.0001, rows=1) COUNT(*) AS n FROM t",
        ),
        (
            "SELECT k, LAPLACE(eps={}) SUM(x) AS n FROM t GROUP BY k",
            "SELECT k, LAPLACE(eps=10000) SUM(CLAMP(x, 0, 400)) AS n FROM t GROUP BY k",
            "SELECT k, LAPLACE(eps=0.0001, total=1) SUM(CLAMP(x, 0, 18)) AS n FROM t GROUP BY k",
        ),
    ] {
        assert_eq!(written(&question.replace("{}", "10000")).await, whole);
        assert_eq!(written(&question.replace("{}", "0.0001")).await, few);
    }
}

fn csv(path: &Path, rows: &str) {
    std::fs::write(path, format!("id,x\n{rows}")).unwrap();
}

/// The private table's file is not opened: what is told is the same when it is gone, and when
/// another file stands in its place. Nothing is charged.
#[tokio::test]
async fn no_private_file_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    csv(&at("private"), "1,5\n1,7\n2,9\n");
    csv(&at("public"), "1,5\n1,6\n2,90\n3,4\n4,2\n");
    let engine = Engine::in_memory().unwrap();
    for table in ["private", "public"] {
        let path = at(table).display().to_string();
        let create = format!("CREATE EXTERNAL TABLE {table} STORED AS CSV LOCATION '{path}'");
        engine.owner().execute(&create).await.unwrap();
    }
    for sql in [
        "ALTER TABLE private SET PRIVACY UNIT (id) MAX ROWS 5",
        "ALTER TABLE private ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (0, 100)",
        "ALTER TABLE public SET PUBLIC",
        "CREATE PRIVACY BUDGET b FOR private LIMIT (epsilon=3)",
    ] {
        engine.owner().execute(sql).await.unwrap();
    }
    let lab = Session::from(engine.analyst("lab").unwrap());
    let question = "SELECT LAPLACE(eps=1) SUM(x) AS n FROM private";
    let before = tuned(&lab, question, "public").await;
    assert!(settings(&before).len() > 10, "{before}");
    let budgets = lab.budgets().unwrap();
    csv(&at("private"), "1,77\n9,77\n");
    assert_eq!(tuned(&lab, question, "public").await, before);
    std::fs::remove_file(at("private")).unwrap();
    assert_eq!(tuned(&lab, question, "public").await, before);
    assert_eq!(lab.budgets().unwrap(), budgets);
    let sql = format!("EXPLAIN PRIVACY TUNE {question} ON public");
    assert_eq!(lab.cost(&sql).unwrap(), hushql::Cost::default());
    // A public file that is another one than the declared one is refused as in a SELECT.
    std::fs::remove_file(at("public")).unwrap();
    let told = match lab.execute(&sql).await {
        Ok(Output::Explanation(told)) => told.to_string(),
        Ok(other) => panic!("{other:?}"),
        Err(error) => error.to_string(),
    };
    assert!(!told.contains("setting"), "{told}");
}

/// Whoever may not read the stand-in is told what is told of a name that nothing has, and whoever
/// may only call templates tunes nothing.
#[tokio::test]
async fn rights_are_those_of_a_question_about_the_stand_in() {
    let engine = engine().await;
    let owner = engine.owner();
    for sql in [
        "CREATE ROLE eve PASSWORD 'a long enough password'",
        "CREATE ROLE app PASSWORD 'a long enough password' TEMPLATES ONLY",
        "SET GRANTS REQUIRED",
        "GRANT SELECT ON t TO eve",
        "GRANT USAGE ON BUDGET t TO eve",
    ] {
        owner.execute(sql).await.unwrap();
    }
    let sql = |on: &str| {
        format!("EXPLAIN PRIVACY TUNE SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t ON {on}")
    };
    let eve = engine.analyst("eve").unwrap();
    let hidden = eve.execute(&sql("\"like\"")).await.unwrap_err().to_string();
    let nothing = eve.execute(&sql("\"lake\"")).await.unwrap_err().to_string();
    assert_eq!(hidden.replace("like", "lake"), nothing);
    owner.execute("GRANT SELECT ON \"like\" TO eve").await.unwrap();
    assert!(eve.execute(&sql("\"like\"")).await.is_ok());
    let told = match eve.execute(&sql("t")).await.unwrap() {
        Output::Explanation(told) => told.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(told.contains("HQ001") && told.contains("CREATE SYNTHETIC TABLE"), "{told}");
    let app = engine.analyst("app").unwrap();
    let refused = app.execute(&sql("\"like\"")).await.unwrap_err();
    assert_eq!(refused.code(), Some("HQ003"), "{refused}");
}

/// The rows of a synthetic table and of a release table will do. They belong to nobody, so bounds
/// on rows are not tuned.
#[tokio::test]
async fn synthetic_tables_stand_in() {
    let engine = Engine::demo().unwrap();
    let lab = Session::from(engine.analyst("lab").unwrap());
    for sql in [
        "CREATE SYNTHETIC TABLE invented WITH (rows=500) AS AIM(eps=1) SELECT city, price FROM orders",
        "CREATE RELEASE TABLE kept AS SELECT city, LAPLACE(eps=1) SUM(price) AS price FROM orders GROUP BY city",
    ] {
        lab.execute(sql).await.unwrap();
    }
    let question = "SELECT city, LAPLACE(eps=1) SUM(price) AS paid FROM orders GROUP BY city";
    for (on, rows) in [("invented", 500), ("kept", 10)] {
        let told = tuned(&lab, question, on).await;
        // Rows without a city are in no group; which ones there are, noise decides.
        let of = |name: &str| told["tuning"][name].as_u64().unwrap_or_else(|| panic!("{told}"));
        assert_eq!(of("rows") + of("rows_left_out"), rows, "{told}");
        assert!(settings(&told).len() >= 5 && told["tuning"]["unit"].is_null(), "{told}");
        // What is proposed can be asked.
        assert!(lab.cost(told["tuning"]["write"].as_str().unwrap()).is_ok(), "{told}");
    }
}
