//! The sqllogictest suites of tests/slt, run through the program as users run theirs.
//!
//! Answers are random and refusals, costs and explanations are not, so these suites pin down the
//! latter to the letter, and answers at costs so high that the noise is 0.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hushql::Reason;

use crate::contract::program::Study;

/// The suite that needs a vault whose file has changed.
const CHANGED_FILE: &str = "hq028_changed_file.slt";

fn hushql(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hushql"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

/// The suites of a folder of tests/slt, by name.
fn suites(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt").join(folder);
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|p| p.extension().is_some_and(|e| e == "slt")).collect();
    files.sort();
    files
}

fn passes(arguments: &[&str]) {
    let output = hushql(arguments);
    let summary = String::from_utf8_lossy(&output.stdout);
    let failures = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{failures}\n{summary}");
    // A suite that is empty or skipped passes nothing.
    assert!(!summary.starts_with("0 passed") && summary.trim().ends_with(" 0 failed"), "{summary}");
}

fn run(folder: &str) {
    let files = suites(folder);
    assert!(!files.is_empty(), "there are no suites in {folder}");
    let files = files.iter().filter(|f| !f.ends_with(CHANGED_FILE)).map(|f| f.to_str().unwrap());
    let arguments: Vec<_> = ["slt", "--owner"].into_iter().chain(files).collect();
    passes(&arguments);
}

#[test]
fn parse() {
    run("parse");
}

#[test]
fn declare() {
    run("declare");
}

#[test]
fn refuse() {
    run("refuse");
}

#[test]
fn explain() {
    run("explain");
}

#[test]
fn query() {
    run("query");
}

#[test]
fn budget() {
    run("budget");
}

/// The one refusal that a suite cannot bring about by itself: a file that changes after it was
/// declared.
#[test]
fn a_changed_file() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder.path().join("study.db");
    let data = folder.path().join("visits.csv");
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/visits.csv");
    let rows = fs::read_to_string(original).unwrap();
    fs::write(&data, &rows).unwrap();
    let vault = vault.to_str().unwrap();
    let declarations = format!(
        "CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{}';
         ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4;
         CREATE PRIVACY BUDGET visits FOR visits LIMIT (epsilon=10);",
        data.display()
    );
    assert!(hushql(&["init", vault]).status.success());
    assert!(hushql(&[vault, "--owner", "-c", &declarations]).status.success());
    fs::write(&data, format!("{rows}19,20,A,1,10.00,2025-12-01,one more,true\n")).unwrap();
    let files = suites("refuse");
    let suite = files.iter().find(|file| file.ends_with(CHANGED_FILE)).unwrap();
    passes(&["slt", suite.to_str().unwrap(), "--vault", vault, "--owner"]);
}

/// Suites ran on a copy of the vault: of 60 runs, the mean was the true count, and nothing had been
/// charged.
#[test]
fn suites_on_a_vault_charge_it() {
    let study = Study::with_people();
    study.owner("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=4)").says(0, &[]);
    let ask = "statement ok\nSELECT LAPLACE(eps=1) COUNT(*) FROM people\n";
    study.write("count.slt", ask);
    study.write("named.slt", format!("connection rival\n{ask}"));
    let run = |rest: &[&str]| study.run(&[&["slt"], rest, &["--vault", "study.db"]].concat());
    for (i, rest) in [
        &["count.slt"][..],
        &["count.slt", "--analyst", "lab"],
        &["named.slt", "--analyst", "lab"],
        &["count.slt"],
    ]
    .iter()
    .enumerate()
    {
        run(rest).says(0, &[]);
        assert_eq!(study.spent().0, i64::try_from(i).unwrap() + 1, "{rest:?}");
    }
    let analysts = study.answers("SELECT analyst FROM hushql.ledger ORDER BY sequence");
    assert_eq!(analysts[0]["rows"].to_string(), "[[\"slt\"],[\"lab\"],[\"rival\"],[\"slt\"]]");
    // What is spent is spent, in a suite as anywhere.
    run(&["count.slt"]).says(1, &["does not suffice"]);
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people").says(4, &["`b`"]);
    assert_eq!(study.spent().0, 4);
    run(&["count.slt", "--analyst", "0wner"]).says(1, &["name of an analyst"]);
    // The anchor goes with the vault.
    fs::create_dir(study.path("safe")).unwrap();
    study.owner("ALTER PRIVACY BUDGET b SET LIMIT (epsilon=6)").says(0, &[]);
    study.run(&["anchor", "study.db", "safe/a"]).says(0, &[]);
    let before = fs::read(study.path("safe/a")).unwrap();
    run(&["count.slt", "--anchor", "safe/a"]).says(0, &[]);
    assert_ne!(fs::read(study.path("safe/a")).unwrap(), before);
    run(&["count.slt", "--anchor", "safe/none"]).says(1, &["no anchor"]);
}

/// `connection owner` and `SET PUBLIC` in a suite printed the rows of a vault.
#[test]
fn an_owner_in_a_suite_is_let_in_by_the_command_line() {
    let study = Study::with_people();
    let public = "connection owner\nstatement ok\nALTER TABLE people SET PUBLIC\n\n\
        connection owner\nstatement error\nALTER TABLE people SET PUBLIC\n\n\
        query I\nSELECT age FROM people\n----\n0\n";
    study.write("public.slt", public);
    for rest in [&["--vault", "study.db"][..], &[], &["--vault", "study.db", "--analyst", "owner"]]
    {
        let run = study.run(&[&["slt", "public.slt"], rest].concat());
        run.says(1, &["add --owner"]);
        assert_eq!(run.out, "0 passed, 3 failed\n", "{rest:?}");
        assert!(!run.err.contains("41"), "{run:?}");
    }
    assert_eq!(study.answers("SHOW TABLES")[0]["rows"][0][1], "private, unit row");
    // An analyst does not declare in a suite either.
    study.write("analyst.slt", public.replace("connection owner\n", ""));
    let run = study.run(&["slt", "analyst.slt", "--vault", "study.db"]);
    run.says(1, &["HQ003", "HQ001"]);
    assert_eq!(run.out, "1 passed, 2 failed\n");
    // An owner may, and it is the vault that changes.
    study.write("owner.slt", "connection owner\nstatement ok\nDROP PRIVACY BUDGET b\n");
    study.run(&["slt", "owner.slt", "--vault", "study.db", "--owner"]).says(0, &[]);
    study.lab("SELECT LAPLACE(eps=1) COUNT(*) FROM people").says(3, &["HQ023"]);
}

/// A command that ended with `&` was started; an include told what is in any file, and a variable
/// the environment.
#[test]
fn suites_reach_nothing_but_tables() {
    let study = Study::new();
    study.write("secret.txt", "hidden 4711\n");
    study.write(
        "out.slt",
        "system ok\ntouch started\n\nsystem ok\ntouch started &\n\ninclude secret.txt\n\n\
         control substitution on\n\nquery T\nSELECT '$HOME'\n----\n$HOME\n",
    );
    let run = study.run(&["slt", "out.slt"]);
    run.says(
        1,
        &["cannot run system commands", "cannot include other files", "cannot use substitutions"],
    );
    assert_eq!(run.out, "1 passed, 4 failed\n");
    assert!(!run.err.contains("4711"), "{run:?}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!study.path("started").exists());
}

/// What can be practised on for nothing: the built-in tables, and public ones that whoever runs the
/// suite names.
#[test]
fn practice_is_on_public_tables() {
    let study = Study::with_people();
    study.write("wards.csv", "ward,beds\nnorth,7\n");
    study.write(
        "practice.slt",
        "query TI\nSELECT ward, beds FROM wards\n----\nnorth 7\n\nstatement ok\nSELECT LAPLACE(eps=1) COUNT(*) FROM adult\n",
    );
    study.run(&["slt", "practice.slt", "--public", "wards=wards.csv"]).says(0, &[]);
    study.run(&["slt", "practice.slt"]).says(1, &["no table `wards`"]);
    study.run(&["slt", "practice.slt", "--public", "wards.csv"]).says(1, &["NAME=FILE"]);
    study.run(&["slt", "practice.slt", "--public", "adult=wards.csv"]).says(1, &["`adult`"]);
    let both = ["slt", "practice.slt", "--vault", "study.db", "--public", "wards=wards.csv"];
    study.run(&both).says(2, &["cannot be used with"]);
    assert_eq!(study.spent().0, 0);
}

/// Every code has a suite named after it, with a statement that it refuses and one that it does
/// not.
#[test]
fn every_refusal_has_a_suite_and_a_neighbour() {
    let mut seen = BTreeSet::new();
    for file in suites("refuse") {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let code = name[..5].to_uppercase();
        assert!(Reason::ALL.iter().any(|(_, known)| *known == code), "{name} is about no code");
        let text = fs::read_to_string(&file).unwrap();
        let refused = format!("statement error {code} refused");
        assert!(text.lines().any(|line| line.starts_with(&refused)), "{name} refuses nothing");
        // The neighbour is a question, not only the declaration of a table.
        let lines: Vec<_> = text.lines().collect();
        let answered = lines.windows(2).any(|pair| {
            pair[0] == "statement ok" && !["CREATE", "ALTER"].iter().any(|w| pair[1].starts_with(w))
        });
        assert!(answered, "{name} has no accepted neighbour");
        assert!(seen.insert(code), "two suites are about the code of {name}");
    }
    for (reason, code) in Reason::ALL {
        assert!(seen.contains(code), "{reason:?} ({code}) has no suite");
    }
}

/// A suite that fails says so with its exit status, the record and the difference.
#[test]
fn a_wrong_suite_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.slt");
    fs::write(
        &file,
        "query I\nSELECT 1 + 1\n----\n3\n\nstatement error HQ002\nSELECT age FROM adult\n",
    )
    .unwrap();
    let output = hushql(&["slt", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0 passed, 2 failed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("wrong.slt:1") && said.contains("HQ001 refused"), "{said}");
}
