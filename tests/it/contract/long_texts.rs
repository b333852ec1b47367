//! Functions that make long texts of short ones end no process, and nothing about one person
//! decides what is answered.
//!
//! A statement that costs nothing once built 16 MB for each row of a batch, and took the server
//! with it. Below a release, a join copies one person's text into thousands of rows.

use std::process::Command;
use std::time::Duration;

use crate::contract::program::{Run, Study};

/// Long texts of a short `x`, a number `n` and a number of characters.
const MADE: [&str; 22] = [
    "repeat(x, 1600000)",
    "repeat(x, 5000)",
    "repeat(x, n)",
    "lpad(x, 60000, 'é')",
    "rpad(x, 60000)",
    "rpad(x, 2000000000, 'z')",
    "replace(rpad(x, 30000, 'z'), 'z', 'ab')",
    "replace(rpad(x, 30000, 'z'), 'z', repeat('b', 60000))",
    "regexp_replace(rpad(x, 3000, 'z'), '(z)', '${1}${1}${1}', 'g')",
    "concat(rpad(x, 30000, 'z'), rpad(x, 30000, 'y'))",
    "concat_ws(rpad(x, 20000, '-'), x, x, x)",
    "rpad(x, 30000, 'z') || rpad(x, 30000, 'y')",
    "upper(rpad(x, 20000, 'ß'))",
    "initcap(rpad(x, 60000, 'z '))",
    "translate(rpad(x, 60000, 'z'), 'z', '€')",
    "overlay(rpad(x, 60000, 'z'), rpad(x, 60000, 'y'), 2)",
    "reverse(rpad(x, 60000, 'z'))",
    "encode(rpad(x, 60000, 'z'), 'hex')",
    "to_char(DATE '2024-01-01', rpad('%c', 60000, '%c'))",
    "CAST(rpad(x, 60000, 'z') AS VARCHAR)",
    "arrow_cast(rpad(x, 60000, 'z'), 'LargeUtf8')",
    "CASE WHEN n > 3 THEN rpad(x, 60000, 'z') ELSE x END",
];

/// What is asked of a long text `r` of each row of `t`.
const ASKED: [&str; 6] = [
    "SELECT COUNT(*) AS v FROM t WHERE r LIKE '%z'",
    "SELECT MAX(r) IS NULL AS v FROM t",
    "SELECT COUNT(*) AS v FROM (SELECT r FROM t GROUP BY r) AS g",
    "SELECT length(string_agg(r, ',')) AS v FROM t",
    "SELECT COUNT(array_agg) AS v FROM (SELECT array_agg(r) AS array_agg FROM t GROUP BY n % 3) AS g",
    "SELECT COUNT(*) AS v FROM (SELECT lag(r) OVER (ORDER BY n) AS r FROM t) AS w WHERE r > 'a'",
];

/// Public rows with short texts, and visits of which one has a long text.
fn study(with_her: bool) -> Study {
    let study = Study::new();
    let rows = (0..600).map(|n| format!("{n},name {n}\n")).collect::<String>();
    study.write("p.csv", format!("n,x\n{rows}"));
    let rows = (0..5_000).map(|n| format!("{n},7\n")).collect::<String>();
    study.write("many.csv", format!("n,k\n{rows}"));
    let visits = (0..50).filter(|id| with_her || *id != 7).map(|id| match id {
        7 => format!("{id},{}\n", "ab".repeat(30_000)),
        _ => format!("{id},note {id}\n"),
    });
    study.write("visits.csv", format!("id,note\n{}", visits.collect::<String>()));
    study
        .owner(
            "CREATE EXTERNAL TABLE p (n BIGINT, x VARCHAR) STORED AS CSV LOCATION 'p.csv' OPTIONS ('has_header' 'true');
             ALTER TABLE p SET PUBLIC;
             CREATE EXTERNAL TABLE many (n BIGINT, k BIGINT) STORED AS CSV LOCATION 'many.csv' OPTIONS ('has_header' 'true');
             ALTER TABLE many SET PUBLIC;
             CREATE EXTERNAL TABLE visits (id BIGINT, note VARCHAR) STORED AS CSV LOCATION 'visits.csv' OPTIONS ('has_header' 'true');
             ALTER TABLE visits SET PRIVACY UNIT (id) MAX ROWS 1;
             CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=100000);",
        )
        .says(0, &[]);
    study
}

/// The program with these arguments in an address space of three gigabytes. The allocator sets one
/// aside, and a deep stack takes 80 MB.
fn in_little_space(study: &Study, arguments: &[&str]) -> Run {
    let program = env!("CARGO_BIN_EXE_hushql");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 3000000; exec \"$0\" \"$@\"", program]).args(arguments);
    command.current_dir(study.folder()).env("HUSHQL_CONFIG", "").env("RUST_BACKTRACE", "0");
    command.output().unwrap().into()
}

/// Each function in each question is answered or refused: none ends the process that others share.
#[cfg(target_os = "linux")]
#[test]
fn no_function_ends_the_process() {
    let study = study(true);
    let mut statements: Vec<String> = Vec::new();
    for (i, made) in MADE.iter().enumerate() {
        let asked = ASKED[i % ASKED.len()];
        statements.push(format!("WITH t AS (SELECT n, {made} AS r FROM p) {asked}"));
    }
    for asked in ASKED {
        statements.push(format!("WITH t AS (SELECT n, rpad(x, 60000, 'z') AS r FROM p) {asked}"));
    }
    // Constants are repeated for each row, and an answer is collected.
    statements.push("SELECT repeat('y', 60000) AS r FROM many".to_owned());
    statements
        .push("SELECT repeat('x', 60000) AS r, n FROM many ORDER BY n DESC LIMIT 2".to_owned());
    statements.push(
        "SELECT COUNT(*) AS v FROM (SELECT string_agg(rpad(x, 5000, 'z'), ',') OVER (ORDER BY n) AS r FROM p) AS w WHERE r > 'a'"
            .to_owned(),
    );
    statements.push("SELECT 1 AS v".to_owned());
    let all = statements.join(";\n");
    let run = in_little_space(
        &study,
        &[
            "study.db",
            "--analyst",
            "lab",
            "--memory",
            "200MB",
            "--format",
            "json",
            "--keep-going",
            "-c",
            &all,
        ],
    );
    assert!(run.status >= 0, "a signal ended the process: {}", run.err);
    let last = run.out.lines().last().unwrap_or_default();
    assert!(last.contains("[[1]]"), "the last statement was not answered: {} {}", last, run.err);
    assert!(
        run.out.lines().count() > statements.len() / 2,
        "{} of {}: {}",
        run.out.lines().count(),
        statements.len(),
        run.err
    );
}

/// The most memory that the program takes, in kilobytes, and how it ends.
#[cfg(target_os = "linux")]
fn measured(study: &Study, sql: &str) -> (u64, Option<i32>) {
    let of = ["study.db", "--analyst", "lab", "--memory", "300MB", "-c", sql];
    let mut child = study.command(&of).spawn().unwrap();
    let mut most = 0;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        most = most.max(kilobytes.unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            return (most, ended.code());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// One person's text, which a join copies into 5,000 rows, takes no more memory than a few batches.
#[cfg(target_os = "linux")]
#[test]
fn a_persons_text_takes_little_memory_however_often_it_is_joined() {
    let (with, without) = (study(true), study(false));
    for made in ["upper(v.note)", "reverse(v.note)", "replace(v.note, 'b', 'c')", "v.note || 'b'"] {
        let sql = format!(
            "SELECT LAPLACE(eps=1, rows=1) COUNT(*) FROM (SELECT v.id, {made} AS r FROM visits v JOIN many m ON m.k = v.id) AS s WHERE r LIKE '%b'"
        );
        let (few, ended) = measured(&without, &sql);
        assert_eq!(ended, Some(0), "{made}");
        let (most, ended) = measured(&with, &sql);
        assert_eq!(ended, Some(0), "{made}");
        assert!(most < few + 150_000, "{made}: {few} kB without her, {most} kB with her");
    }
}
