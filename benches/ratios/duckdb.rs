//! DuckDB next to plain DataFusion, if the Python package `duckdb` is installed.
//!
//! A Python process runs the plain queries over the same files, one line of JSON for each. `PYTHON`
//! names the interpreter (default: `python3`). The column stays empty without Python or the
//! package, and for SQL that DuckDB does not accept.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Reads `[name, path]` for a table and `[sql]` for a query; writes seconds, or an empty line.
const PROGRAM: &str = r#"
import json, sys, time
import duckdb
database = duckdb.connect()
print("ready", flush=True)
for line in sys.stdin:
    words = json.loads(line)
    try:
        start = time.perf_counter()
        if len(words) == 2:
            name, path = words
            quoted = path.replace("'", "''")
            database.execute(f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet(\'{quoted}\')')
        else:
            database.execute(words[0]).fetchall()
        print(time.perf_counter() - start, flush=True)
    except duckdb.Error:
        print("", flush=True)
"#;

pub(crate) struct DuckDb {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl DuckDb {
    /// Starts a process with one view for each table, given as a name and a Parquet file.
    pub(crate) fn start<'a>(tables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut child = Command::new(python)
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (questions, answers) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut own = Self { child, questions, answers };
        if own.line()? != "ready" {
            return None;
        }
        for (name, path) in tables {
            own.ask(&[name, path])?;
        }
        Some(own)
    }

    /// The time of a query; `None` if DuckDB does not answer it.
    pub(crate) fn time(&mut self, sql: &str) -> Option<Duration> {
        self.ask(&[sql])
    }

    fn ask(&mut self, words: &[&str]) -> Option<Duration> {
        writeln!(self.questions, "{}", serde_json::json!(words)).ok()?;
        self.line()?.parse().ok().map(Duration::from_secs_f64)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        Some(line.trim_end().to_owned())
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
