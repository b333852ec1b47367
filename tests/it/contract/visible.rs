//! Nothing that the program or the library says steers the terminal or the log in which it ends up:
//! hostile cells, names and statements, in every format.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hushql::{Engine, Error, Output};
use hushql_engine::visible;

use crate::contract::program::{Run, Study};

/// Clears the screen, begins a colour, ends the line, turns the direction round, and would be a
/// formula.
const HOSTILE: &str = "=\u{1b}[2J\u{7f}\u{9b}31m\u{85}\u{2028}\u{202e}\u{2066}\r\n\tx";

/// What of it can be in the name of a table.
const NAME: &str = "t\u{202e}\u{2028}\u{2066}";

/// Statements in which it is a cell, a name, a text, a key, a parameter or what does not parse.
fn statements() -> Vec<String> {
    [
        "SELECT * FROM \"NAME\"",
        "SELECT city AS \"HOSTILE\" FROM \"NAME\"",
        "SELECT 1 AS \"HOSTILE\", 'HOSTILE' AS x",
        "SHOW TABLES",
        "SHOW PRIVACY",
        "SHOW PRIVACY HISTORY",
        "SELECT * FROM hushql.ledger",
        "SHOW PRIVACY BUDGET",
        "SHOW PRIVACY BUDGET \"HOSTILE\"",
        "DESCRIBE \"NAME\"",
        "DESCRIBE \"HOSTILE\"",
        "SELECT LAPLACE(eps=1) COUNT(*) AS \"HOSTILE\" FROM people WHERE city <> 'HOSTILE'",
        "SELECT city AS \"HOSTILE\", LAPLACE(eps=1) COUNT(*) AS n FROM people GROUP BY city KEYS ('HOSTILE')",
        "SELECT ARGMAX EXPONENTIAL(eps=1) city IN ('HOSTILE', 'Rome') AS \"HOSTILE\" FROM people BY COUNT(*)",
        "EXPLAIN PRIVACY SELECT LAPLACE(eps=1) COUNT(*) AS \"HOSTILE\" FROM people WHERE city <> 'HOSTILE'",
        "EXPLAIN PRIVACY SELECT LAPLACE(eps=1) SUM(CLAMP(age, 0, 9)) FILTER (WHERE city <> 'HOSTILE') FROM people",
        "EXPLAIN PRIVACY FORMAT JSON SELECT LAPLACE(eps=1) SUM(CLAMP(age, 0, 9)) FILTER (WHERE city <> 'HOSTILE') FROM people",
        "EXPLAIN PRIVACY SELECT city FROM people WHERE city = 'HOSTILE'",
        "EXPLAIN PRIVACY FORMAT JSON SELECT city FROM people WHERE city = 'HOSTILE'",
        "SELECT city FROM people WHERE city = 'HOSTILE'",
        "SELECT LAPLACE(within=5) SUM(id) AS \"HOSTILE\" FROM people WHERE city = 'HOSTILE'",
        "SELECT x FROM \"HOSTILE\"",
        "SELECT x FROM \"HOSTILE\".\"HOSTILE\"",
        "SELECT \"HOSTILE\" FROM people",
        "SELECT people.\"HOSTILE\" FROM people",
        "SELECT \"HOSTILE\".city FROM people",
        "SELECT \"HOSTILE\"(1)",
        "SELECT LOWER(1, 2, 'HOSTILE')",
        "SELECT LAPLACE(eps=1, \"HOSTILE\"=2) COUNT(*) FROM people",
        "SELECT LAPLACE(eps='HOSTILE') COUNT(*) FROM people",
        "SELECT CAST('HOSTILE' AS INT)",
        "SELECT DATE 'HOSTILE'",
        "SELECT INTERVAL 'HOSTILE'",
        "SELECT CAST(1 AS \"HOSTILE\")",
        "SELECT 1 AS \"HOSTILE\", 2 AS \"HOSTILE\"",
        "SELECT HOSTILE",
        "SELECT 'HOSTILE",
        "HOSTILE",
        "CREATE VIEW \"HOSTILE\" AS SELECT 1 AS x",
        "CREATE VIEW v AS SELECT 1 AS \"HOSTILE\"",
        "DROP VIEW \"HOSTILE\"",
        "ALTER TABLE \"HOSTILE\" SET PUBLIC",
        "ALTER TABLE people ALTER COLUMN \"HOSTILE\" SET PRIVACY DOMAIN IN ('HOSTILE')",
        "ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN IN ('HOSTILE')",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION 'HOSTILE'",
        "CREATE EXTERNAL TABLE x STORED AS \"HOSTILE\" LOCATION 'people.csv'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION 'people.csv' OPTIONS ('HOSTILE' 'HOSTILE')",
        "CREATE PRIVACY BUDGET \"HOSTILE\" FOR people LIMIT (epsilon=1)",
        "CREATE PRIVACY BUDGET c FOR \"HOSTILE\" LIMIT (epsilon=1)",
        "DROP PRIVACY BUDGET \"HOSTILE\"",
        "EXPLAIN SELECT city AS \"HOSTILE\" FROM \"NAME\" WHERE city <> 'HOSTILE'",
    ]
    .iter()
    .map(|statement| statement.replace("HOSTILE", HOSTILE).replace("NAME", NAME))
    .collect()
}

/// Fails where a text has a character that steers, but for those that this form may have.
#[track_caller]
fn plain(what: &str, text: &str, but: &[char]) {
    let found: Vec<char> =
        text.chars().filter(|c| visible::steers(*c) && !but.contains(c)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
}

fn study() -> Study {
    let study = Study::with_people();
    let cell = serde_json::to_string(HOSTILE).unwrap();
    study.write(
        "hostile.json",
        format!("{{\"city\":{cell},\"c\u{202e}\":1}}\n{{\"city\":\"Rome\"}}\n"),
    );
    let declare = "CREATE EXTERNAL TABLE \"NAME\" STORED AS JSON LOCATION 'hostile.json';
        ALTER TABLE \"NAME\" SET PUBLIC;
        CREATE PRIVACY BUDGET \"b\u{202e}\" FOR people LIMIT (epsilon=100000, delta=1e-5)";
    study.owner(&declare.replace("NAME", NAME)).says(0, &[]);
    study
}

#[test]
fn every_format_spells_out_what_steers_a_terminal() {
    let study = study();
    let mut statuses = [0; 5];
    for format in ["table", "csv", "json"] {
        for who in [&["--owner"][..], &["--analyst", "lab"]] {
            for statement in statements() {
                let rest = ["--format", format, "--csv-safe", "-c", &statement];
                let run: Run = study.run(&[&["study.db"], who, &rest].concat());
                let breaks: &[char] = if format == "csv" { &['\n', '\r', '\t'] } else { &['\n'] };
                plain(&statement, &run.out, breaks);
                plain(&statement, &run.err, &['\n', '\t']);
                assert!(!(run.out.is_empty() && run.err.is_empty()), "{statement:?} says nothing");
                statuses[usize::try_from(run.status).unwrap()] += 1;
            }
        }
    }
    assert!(statuses[0] > 30 && statuses[1] > 30 && statuses[3] > 10, "{statuses:?}");
    // What programs read is what was there.
    let sql = format!("SELECT city FROM \"{NAME}\" WHERE city <> 'Rome'");
    assert_eq!(study.answers(&sql)[0]["rows"][0][0], HOSTILE);
    let csv = study.run(&["study.db", "--owner", "--format", "csv", "--csv-safe", "-c", &sql]).out;
    assert!(csv.starts_with("city\n\"'=\\u{1b}[2J"), "{csv:?}");
}

#[test]
fn suites_spell_out_what_steers_a_terminal() {
    let study = study();
    let records: String = statements()
        .iter()
        .filter(|sql| !sql.contains("\n\n"))
        .map(|sql| format!("query I\n{sql}\n----\n7\n\n"))
        .collect();
    study.write("hostile.slt", records);
    let run = study.run(&["slt", "hostile.slt", "--vault", "study.db", "--analyst", "lab"]);
    run.says(1, &["hostile.slt:"]);
    plain("a suite", &run.err, &['\n', '\t']);
    study.write("broken.slt", format!("quer{HOSTILE}\n"));
    plain("a broken suite", &study.run(&["slt", "broken.slt"]).err, &['\n', '\t']);
}

/// The same for programs that show what the library gives them.
#[tokio::test]
async fn the_library_spells_out_what_steers_a_terminal() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(HOSTILE), None]));
    let public = RecordBatch::try_from_iter([("city", Arc::clone(&texts)), (HOSTILE, numbers)]);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let columns = [("id", Arc::clone(&ids)), ("age", ids), ("city", texts)];
    let people = RecordBatch::try_from_iter(columns).unwrap();
    let engine = Engine::in_memory().unwrap();
    engine.register_batch(NAME, public.unwrap()).unwrap();
    engine.register_batch("people", people).unwrap();
    let owner = engine.owner();
    for declaration in [
        format!("ALTER TABLE \"{NAME}\" SET PUBLIC"),
        "ALTER TABLE people SET PRIVACY UNIT ROW".to_owned(),
        "CREATE PRIVACY BUDGET \"b\u{202e}\" FOR people LIMIT (epsilon=9) PER QUERY (max=1)"
            .to_owned(),
    ] {
        let Output::Done(done) = owner.execute(&declaration).await.unwrap() else { panic!() };
        plain(&declaration, &done, &[]);
    }
    let lab = engine.analyst("lab").unwrap();
    let too_dear = "SELECT LAPLACE(eps=2) COUNT(*) FROM people".to_owned();
    let (mut answers, mut errors) = (0, 0);
    for statement in statements().iter().chain([&too_dear]) {
        for session in [&*owner, &*lab] {
            match session.execute(statement).await {
                Ok(Output::Answer(answer)) => {
                    plain(statement, &answer.to_string(), &['\n']);
                    if let Some(receipt) = answer.receipt() {
                        plain(statement, &receipt.to_string(), &[]);
                    }
                    answers += 1;
                }
                Ok(Output::Explanation(explanation) | Output::ExplanationJson(explanation)) => {
                    plain(statement, &explanation.to_string(), &['\n']);
                    plain(statement, &explanation.to_json(), &['\n']);
                }
                Ok(Output::Done(sentence)) => plain(statement, &sentence, &[]),
                Ok(other) => panic!("{statement}: {other:?}"),
                Err(error) => {
                    plain(statement, &error.to_string(), &['\n', '\t']);
                    plain(statement, &error.message(), &['\n', '\t']);
                    plain(statement, &error.hint().unwrap_or_default(), &['\n', '\t']);
                    plain(statement, &format!("{error:?}"), &['\n']);
                    if let Error::Refused(refusal) = &error {
                        plain(statement, refusal.clause(), &[]);
                    }
                    errors += 1;
                }
            }
            if let Ok(explanation) = session.explain(statement) {
                plain(statement, &explanation.to_string(), &['\n']);
            }
        }
    }
    assert!(answers > 10 && errors > 20, "{answers} answers, {errors} errors");
}

/// `=HYPERLINK(…)` in a cell ran when the answer was opened in a spreadsheet.
#[test]
fn spreadsheets_run_nothing() {
    let study = Study::new();
    let cells = ["=1+1", "+1", "-1", "@x", "\t=1", "plain", "a=1"];
    let lines: String = cells
        .iter()
        .map(|cell| format!("{}\n", serde_json::json!({ "x": cell, "n": -1 })))
        .collect();
    study.write("cells.json", lines);
    let declare = "CREATE EXTERNAL TABLE cells STORED AS JSON LOCATION 'cells.json';
                   ALTER TABLE cells SET PUBLIC";
    study.owner(declare).says(0, &[]);
    let ask = |rest: &[&str]| {
        let sql = "SELECT x, n AS \"-n\" FROM cells";
        study
            .run(&[&["study.db", "--analyst", "lab", "--format", "csv", "-c", sql], rest].concat())
            .out
    };
    assert_eq!(
        ask(&["--csv-safe"]),
        "x,'-n\n'=1+1,-1\n'+1,-1\n'-1,-1\n'@x,-1\n\"'\t=1\",-1\nplain,-1\na=1,-1\n"
    );
    assert_eq!(ask(&[]), "x,-n\n=1+1,-1\n+1,-1\n-1,-1\n@x,-1\n\"\t=1\",-1\nplain,-1\na=1,-1\n");
}

/// An empty cell is an empty text, in a column without a type too.
#[tokio::test]
async fn null_is_told_from_the_empty_text() {
    let session = Engine::demo().unwrap().analyst("lab").unwrap();
    let sql = "SELECT NULL AS a, '' AS b, CAST(NULL AS INT) AS c";
    let shown = session.query(sql).await.unwrap().to_string();
    let row = shown.lines().nth(3).unwrap();
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(cells, ["NULL", "", "NULL"], "{shown}");
    let study = Study::new();
    let run =
        |format: &str| study.run(&["study.db", "--analyst", "lab", "--format", format, "-c", sql]);
    assert!(run("csv").out.ends_with("\n,\"\",\n"), "{:?}", run("csv"));
    assert!(run("markdown").out.contains("| NULL |  | NULL |"), "{:?}", run("markdown"));
    assert!(run("json").out.contains("\"rows\":[[null,\"\",null]"), "{:?}", run("json"));
}
