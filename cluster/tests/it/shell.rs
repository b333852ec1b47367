//! The command line with workers: `hushql-cluster study.db --cluster keys`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::keys::{enrolled, free, started};
use crate::study::write;

const DECLARED: &str =
    "CREATE EXTERNAL TABLE visits STORED AS PARQUET LOCATION '{folder}/visits.parquet';
ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 60;
ALTER TABLE visits ALTER COLUMN ward SET PRIVACY DOMAIN IN ('A', 'B', 'C', NULL);
CREATE PRIVACY BUDGET visits FOR visits LIMIT (epsilon=100);";

const ASKED: &str = "SELECT ward, LAPLACE(eps=5, rows=2) COUNT(*) AS n FROM visits GROUP BY ward";

/// What a run says on its two outputs, and its exit status.
fn ran(vault: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hushql-cluster"));
    command.arg(vault).args(arguments).stdin(Stdio::null());
    let done = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.code())
}

/// The shell answers with workers as it does without. A worker that is missing is named, and
/// nothing is charged.
#[test]
fn the_shell_asks_workers_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let vault = folder.path().join("study.db");
    let program = || Command::new(env!("CARGO_BIN_EXE_hushql-cluster"));
    assert!(program().arg("init").arg(&vault).output().unwrap().status.success());
    let declared = DECLARED.replace("{folder}", &folder.path().display().to_string());
    let (_, told, code) = ran(&vault, &["--owner", "-c", &declared]);
    assert_eq!(code, Some(0), "{told}");

    let (first, second) = (free(), free());
    let keys = enrolled(folder.path(), &[("w1", first), ("w2", second)]);
    let keys_text = keys.display().to_string();
    let with = |arguments: &[&str]| {
        let cluster = ["--cluster", keys_text.as_str(), "--format", "csv"];
        ran(&vault, &[&cluster[..], arguments].concat())
    };
    let spent = || {
        let (out, told, code) =
            ran(&vault, &["--owner", "--format", "csv", "-c", "SHOW PRIVACY BUDGET"]);
        assert_eq!(code, Some(0), "{told}");
        out
    };
    let before = spent();
    let one = started(first, &keys.join("w1.pem"));
    let (out, told, code) = with(&["--analyst", "lab", "-c", ASKED]);
    assert_eq!((out.as_str(), code), ("", Some(1)), "{told}");
    assert!(told.contains(&format!("--cluster: the worker w2 at 127.0.0.1:{second}")), "{told}");
    assert_eq!(spent(), before);
    let no_folder = ["--cluster", "nowhere", "--analyst", "lab", "-c", ASKED];
    let (_, told, code) = ran(&vault, &no_folder);
    assert!(code == Some(1) && told.contains("nowhere/driver.pem"), "{told}");

    let _two = started(second, &keys.join("w2.pem"));
    let explained = format!("EXPLAIN {ASKED}");
    let there = with(&["--analyst", "lab", "-c", &explained]);
    let here = ran(&vault, &["--analyst", "lab", "--format", "csv", "-c", &explained]);
    assert_eq!(there, here);
    let (out, told, code) = with(&["--analyst", "lab", "-c", ASKED]);
    assert_eq!(code, Some(0), "{told}");
    assert!(out.starts_with("ward,n\n") && out.lines().count() == 5, "{out}");
    let charged = spent();
    assert_ne!(charged, before);
    // Without one of them, the next run ends before it asks.
    drop(one);
    let (out, told, code) = with(&["--analyst", "lab", "-c", &ASKED.replace("eps=5", "eps=6")]);
    assert_eq!((out.as_str(), code), ("", Some(1)), "{told}");
    assert_eq!(spent(), charged, "{told}");
}
