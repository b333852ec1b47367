//! `hushql audit`, as people outside run it: quiet on what the engine keeps, loud on broken twins,
//! and plain about bad input.
//!
//! What is kept is audited with a confidence of 1 − 10⁻⁹, so that this file fails on a sound engine
//! with a probability below 10⁻⁷. A broken twin is a statement at twice the ε that is claimed, with
//! half the noise or twice the exponent of what the claim allows, or at several times the δ, with a
//! threshold that is too low. `examples/audit/cases` says for each how many runs find it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::program::{Run, Study};
use crate::seed::turn;

const SURE: &str = "0.999999999";

/// The confidence with which `examples/audit/run` looks for broken twins.
const FOUND: &str = "0.999999";

/// The most runs of a twin that the gate looks for.
const FEW_RUNS: u32 = 1_000;

/// A line of examples/audit/cases.
struct Case {
    table: String,
    files: [String; 2],
    /// What the twin has instead: `eps=2`.
    twin: String,
    /// The runs that find it.
    runs: u32,
    query: String,
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/audit")
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(folder().join("cases")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let case = |line: &str| {
        let mut words = line.splitn(6, ' ').map(str::to_owned);
        let mut next = || words.next().unwrap();
        let (table, files, twin) = (next(), [next(), next()], next());
        Case { table, files, twin, runs: next().parse().unwrap(), query: next() }
    };
    lines.map(case).collect()
}

/// An audit of a case, with its one object of JSON.
fn audit(case: &Case, query: &str, runs: u32, more: &[&str]) -> (Run, Value) {
    let study = Study::new();
    let [table, neighbour] = case.files.clone().map(|file| {
        let path = folder().join(file);
        format!("{}={}", case.table, path.display())
    });
    let declare = folder().join(format!("{}.sql", case.table));
    let runs = runs.to_string();
    let mut arguments = vec!["audit", "--json", "--query", query, "--runs", &runs];
    let declare = declare.display().to_string();
    arguments.extend(["--declare", &declare, "--table", &table, "--neighbour", &neighbour]);
    arguments.extend(more);
    let run = study.run(&arguments);
    let report = serde_json::from_str(&run.out).unwrap_or(Value::Null);
    (run, report)
}

/// Audits a case as it is.
fn is_kept(case: &Case, runs: u32) {
    let (run, report) = audit(case, &case.query, runs, &["--confidence", SURE]);
    assert_eq!(run.status, 0, "{}: {run:?}", case.query);
    assert_eq!(report["holds"], true, "{report}");
    assert_eq!(report["units"], 1, "{report}");
    assert_eq!(report["charged"]["epsilon"], 1.0, "{report}");
}

/// Audits the broken twin of a case as if it promised what the case does.
fn twin_is_caught(case: &Case) -> bool {
    let Case { query, twin, runs, .. } = case;
    let delta = query.split_once("delta=").map_or("0", |(_, rest)| &rest[..4]);
    let (word, _) = twin.split_once('=').unwrap();
    let promised = if word == "eps" { "eps=1".to_owned() } else { format!("delta={delta}") };
    let broken = query.replace(&promised, twin);
    assert_ne!(&broken, query, "the twin differs");
    let claim = ["--confidence", FOUND, "--claim", "1", "--claim-delta", delta];
    let (run, report) = audit(case, &broken, *runs, &claim);
    println!("{query}: ε ≥ {} with {twin}, by {}", report["proved_epsilon"], report["event"]);
    let is_caught = report["holds"] == false;
    assert_eq!(run.status, i32::from(is_caught), "{broken}: {run:?}");
    is_caught
}

#[test]
fn a_case_is_kept_at_the_gate() {
    let cases = cases();
    is_kept(&cases[turn(cases.len())], 200);
}

/// One of those that few runs find.
#[test]
fn a_twin_is_caught_at_the_gate() {
    let mut quick = cases();
    quick.retain(|case| case.runs <= FEW_RUNS);
    assert!(twin_is_caught(&quick[turn(quick.len())]), "not caught");
}

#[test]
#[ignore = "long: an hour"]
fn every_case_is_kept_and_every_twin_is_caught() {
    let cases = cases();
    for (name, _) in hushql_engine::dialect::MechanismName::ALL {
        let used = cases.iter().any(|case| case.query.contains(&format!("{name}(eps=1")));
        assert!(used, "no case has {name}");
    }
    cases.iter().for_each(|case| is_kept(case, case.runs));
    let missed: Vec<&str> =
        cases.iter().filter(|case| !twin_is_caught(case)).map(|case| case.query.as_str()).collect();
    assert!(missed.is_empty(), "twins that are not caught: {missed:#?}");
}

/// An audit of a count of two small tables, with these files and declarations.
fn small(study: &Study, query: &str, more: &[&str]) -> Run {
    let mut arguments = vec!["audit", "--query", query, "--declare", "people.sql"];
    arguments.extend(["--table", "people=a.csv", "--neighbour", "people=b.csv"]);
    if !more.contains(&"--runs") {
        arguments.extend(["--runs", "20"]);
    }
    arguments.extend(more);
    study.run(&arguments)
}

fn study() -> Study {
    let study = Study::new();
    study.write("a.csv", "id,age\n1,30\n2,40\n");
    study.write("b.csv", "id,age\n2,40\n");
    study.write("people.sql", "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE");
    study
}

const COUNT: &str = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people";

#[test]
fn an_audit_says_what_it_did() {
    let run = small(&study(), COUNT, &[]);
    run.says(0, &[]);
    for words in [
        "1 unit differs",
        "20 on each table: 10 chose the event, 10 bound it",
        "charged     ε = 1",
        "with confidence 0.95",
        "nothing speaks against ε = 1",
    ] {
        assert!(run.out.contains(words), "{words}: {run:?}");
    }
}

#[test]
fn bad_input_says_what_to_write() {
    let study = study();
    small(&study, "SELECT age FROM people", &[]).says(3, &["HQ001"]);
    small(&study, "SELECT 1", &[]).says(1, &["is charged no ε", "LAPLACE(eps=1) COUNT(*)"]);
    small(&study, "SELEC", &[]).says(1, &["syntax"]);
    // Few runs for a large ε.
    let few = "SELECT LAPLACE(eps=9) COUNT(*) AS n FROM people";
    small(&study, few, &[]).says(0, &["20 runs can prove", "write --runs"]);
    small(&study, COUNT, &["--confidence", "1"]).says(2, &["0.5 to 0.999999999"]);
    small(&study, COUNT, &["--claim-delta", "1"]).says(2, &["from 0 to below 1"]);
    small(&study, COUNT, &["--runs", "1"]).says(2, &["1 is not in 2..=10000000"]);
    small(&study, COUNT, &["--table", "people=a.csv"]).says(1, &["names people twice"]);
    small(&study, COUNT, &["--neighbour", "others=a.csv"]).says(1, &["--table others=FILE"]);
    // Other columns, other types, more people, the same people.
    study.write("b.csv", "id,years\n2,40\n");
    small(&study, COUNT, &[]).says(1, &["the columns id, age in a.csv, and id, years in b.csv"]);
    study.write("b.csv", "id,age\n2,forty\n");
    small(&study, COUNT, &[]).says(0, &["column age of people is read as Int64, as in a.csv"]);
    study.write("b.csv", "id,age\n3,40\n");
    let run = small(&study, COUNT, &[]);
    run.says(0, &["differ in 3 units"]);
    assert!(run.out.contains("verdict     none"), "{run:?}");
    study.write("b.csv", "id,age\n2,40\n1,30\n");
    small(&study, COUNT, &[]).says(0, &["the same rows of all people"]);
    // What only one of the files breaks.
    study.write("b.csv", "id,age\n2,40\n2,41\n");
    small(&study, COUNT, &[]).says(1, &["in the database of --neighbour"]);
    study.write("b.csv", "id,age\n2,40\n");
    study.write("people.sql", "ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE; CREATE PRIVACY BUDGET b FOR people LIMIT (rho=1)");
    small(&study, COUNT, &[]).says(1, &["leave it out of the declarations"]);
    study.write("people.sql", "CREATE EXTERNAL TABLE nothing STORED AS CSV LOCATION 'nothing.csv'");
    small(&study, COUNT, &[]).says(1, &["nothing.csv"]);
}

/// A budget of the declarations may have a default and a small limit; nothing is shown again.
#[test]
fn declared_budgets_pay_for_every_run() {
    let study = study();
    let declared =
        "CREATE EXTERNAL TABLE people (id BIGINT, age BIGINT) STORED AS CSV LOCATION 'gone.csv';
        ALTER TABLE people SET PRIVACY UNIT (id) UNIQUE;
        CREATE PRIVACY BUDGET small FOR people LIMIT (epsilon=1) PER QUERY (default=0.5)";
    study.write("people.sql", declared);
    let run = small(&study, "SELECT COUNT(*) AS n FROM people", &["--json"]);
    run.says(0, &[]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["charged"]["epsilon"], 0.5, "{report}");
    // With δ, one budget pays for nineteen runs only.
    let hidden =
        "SELECT age, LAPLACE(eps=1, delta=0.05) COUNT(DISTINCT id) AS n FROM people GROUP BY age";
    let run = small(&study, hidden, &["--json", "--runs", "50"]);
    run.says(0, &[]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["charged"]["delta"], 0.05, "{report}");
}
