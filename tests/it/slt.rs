//! The sqllogictest suites of tests/slt, run through the program as users run theirs.
//!
//! Answers are random and refusals, costs and explanations are not, so these suites pin down the latter to
//! the letter, and answers at costs so high that the noise is 0.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hushql::Reason;

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
    let arguments: Vec<_> = std::iter::once("slt").chain(files).collect();
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

/// The one refusal that a suite cannot bring about by itself: a file that changes after it was declared.
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
    passes(&["slt", suite.to_str().unwrap(), "--vault", vault]);
}

/// Every code has a suite named after it, with a statement that it refuses and one that it does not.
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
