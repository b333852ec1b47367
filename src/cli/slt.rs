//! Runs sqllogictest suites.
//!
//! In: files of records, and where they run. Out: each failed record on standard error, and a last
//! line `N passed, N failed`. Without a vault, each file has its own built-in tables in memory, and
//! those that `--public` adds. With a vault, statements query and charge it like any others, so
//! that no number of runs reveals more than its budget allows. `connection NAME` chooses the
//! analyst, `slt` if absent; `connection owner` needs `--owner`.
//!
//! The author of a suite need not be the user who runs it. A suite therefore cannot start a
//! program, or read another file or the environment.
//!
//! ```text
//! statement error HQ001
//! SELECT age FROM adult
//!
//! connection owner
//! query T
//! EXPLAIN PRIVACY SELECT LAPLACE(eps=1) COUNT(*) FROM adult
//! ----
//! unit <slt:ignore>
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hushql::{Engine, Output, Resources, Session, split_statements};
use sqllogictest::{
    AsyncDB, Connection, Control, DBOutput, DefaultColumnType, Record, Runner, parse_with_name,
};

use super::arguments::Stage;
use super::failure::Failure;
use super::print::Printer;
use super::view::{Cell, ColumnFormat, View};

/// The analyst of records without a `connection`.
const ANALYST: &str = "slt";
/// The connection of the owner.
const OWNER: &str = "owner";

/// Runs the files; returns 1 if a record failed.
pub(super) async fn run(
    files: &[PathBuf],
    stage: &Stage,
    resources: &Resources,
    printer: Printer,
) -> Result<u8, Failure> {
    let mut total = RecordTally::default();
    for file in files {
        let engine = engine(stage, resources.clone()).await?;
        let tally = suite(file, Sessions::new(engine, stage), printer).await;
        printer.note(&format!("{}: {tally}", file.display()));
        total.add(tally);
    }
    let status = u8::from(total.failed > 0);
    match printer.result(&total.to_string()) {
        // That the reader has gone does not undo the charges of the records.
        Err(failure) if stage.vault.is_some() => Err(failure.of_a_charged_answer()),
        Err(failure) if !(failure.is_broken_pipe() && status > 0) => Err(failure),
        Ok(()) | Err(_) => Ok(status),
    }
}

/// The vault, or the built-in tables in memory with the given public ones.
async fn engine(stage: &Stage, resources: Resources) -> Result<Engine, Failure> {
    let builder = Engine::builder().resources(resources);
    let engine = match (&stage.vault, &stage.anchor) {
        (None, _) => builder.demo()?,
        (Some(vault), None) => builder.open(vault)?,
        (Some(vault), Some(anchor)) => builder.anchor(anchor).open(vault)?,
    };
    for table in &stage.public {
        let declaration = public(table).ok_or_else(|| Failure::NoPublicTable(table.clone()))?;
        for statement in split_statements(&declaration)? {
            engine.owner().execute(statement.text()).await?;
        }
    }
    Ok(engine)
}

/// The declaration of `NAME=FILE` as a public table.
fn public(table: &str) -> Option<String> {
    let (name, file) = table.split_once('=')?;
    let ending = Path::new(file).extension()?.to_str()?.to_uppercase();
    let format =
        ["CSV", "PARQUET", "JSON", "ARROW"].into_iter().find(|format| *format == ending)?;
    let (name, file) = (name.replace('"', "\"\""), file.replace('\'', "''"));
    Some(format!(
        "CREATE EXTERNAL TABLE \"{name}\" STORED AS {format} LOCATION '{file}'; ALTER TABLE \"{name}\" SET PUBLIC"
    ))
}

/// The sessions of one engine, by the names of connections.
#[derive(Debug, Clone)]
struct Sessions {
    engine: Engine,
    /// The analyst for records without a connection.
    usual: String,
    /// Whether `connection owner` is allowed.
    owner: bool,
}

impl Sessions {
    fn new(engine: Engine, stage: &Stage) -> Self {
        let usual = stage.analyst.clone().unwrap_or_else(|| ANALYST.to_owned());
        Self { engine, usual, owner: stage.owner }
    }

    fn name(&self, connection: &Connection) -> String {
        match connection {
            Connection::Default => self.usual.clone(),
            Connection::Named(name) => name.clone(),
        }
    }

    /// Whether the connection is the owner's, but `--owner` is not given.
    fn refuses(&self, name: &str) -> bool {
        name == OWNER && !self.owner
    }

    fn open(&self, name: &str) -> Result<Session, Failure> {
        match name {
            _ if self.refuses(name) => Err(Failure::NotTheOwner),
            OWNER => Ok(self.engine.owner().into()),
            name => Ok(self.engine.analyst(name)?.into()),
        }
    }
}

/// The number of records that passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RecordTally {
    passed: u32,
    failed: u32,
}

impl RecordTally {
    fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
    }

    fn count(&mut self, passed: bool) {
        self.add(Self { passed: u32::from(passed), failed: u32::from(!passed) });
    }
}

impl std::fmt::Display for RecordTally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

async fn suite(file: &Path, sessions: Sessions, printer: Printer) -> RecordTally {
    let mut tally = RecordTally::default();
    let records = match records(file) {
        Ok(records) => records,
        Err(sentence) => {
            printer.warn(&format!("{}: {sentence}", file.display()));
            tally.count(false);
            return tally;
        }
    };
    // The runner opens a connection when it first uses it, and does not pass its name.
    let name = Arc::new(Mutex::new(sessions.usual.clone()));
    let (asked, opened) = (Arc::clone(&name), sessions.clone());
    let mut runner = Runner::new(move || {
        let name = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        std::future::ready(opened.open(&name).map(Database))
    });
    runner.with_column_validator(same_columns);
    for record in records {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        let asked = match &record {
            Record::Statement { connection, .. }
            | Record::Query { connection, .. }
            | Record::Let { connection, .. } => Some(sessions.name(connection)),
            _ => None,
        };
        // Otherwise a record that expects an error would accept either of these.
        let refused = match &asked {
            Some(asked) => sessions.refuses(asked).then(|| Failure::NotTheOwner.to_string()),
            None => reaches_out(&record).map(ToOwned::to_owned),
        };
        if let Some(sentence) = refused {
            printer.warn(&format!("{}: {sentence}", file.display()));
            tally.count(false);
            continue;
        }
        let counts = asked.is_some();
        if let Some(asked) = asked {
            *name.lock().unwrap_or_else(PoisonError::into_inner) = asked;
        }
        match runner.run_async(record).await {
            Ok(_) if counts => tally.count(true),
            Ok(_) => {}
            Err(error) => {
                printer.warn(&error.to_string());
                tally.count(false);
            }
        }
    }
    runner.shutdown_async().await;
    tally
}

/// Why a record is not run: it would start a program, or read data that its author may not see. The
/// runner itself would run a command that ends with `&`.
fn reaches_out(record: &Record<DefaultColumnType>) -> Option<&'static str> {
    match record {
        Record::System { .. } => Some("suites cannot run system commands"),
        Record::Include { .. } => {
            Some("suites cannot include other files; give all files to `hushql slt`")
        }
        Record::Control(Control::Substitution(true)) => Some(
            "suites cannot use substitutions, which would reveal the environment of this program",
        ),
        _ => None,
    }
}

/// The records of a file, or the reason why it cannot run.
fn records(file: &Path) -> Result<Vec<Record<DefaultColumnType>>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let name = file.display().to_string();
    parse_with_name(&text, name).map_err(|error| error.to_string())
}

/// Whether the columns match the expected number and types; `?` matches any type.
#[expect(clippy::ptr_arg, reason = "the runner prescribes the signature")]
fn same_columns(actual: &Vec<DefaultColumnType>, expected: &Vec<DefaultColumnType>) -> bool {
    let fits = |(actual, expected): (&DefaultColumnType, &DefaultColumnType)| {
        *expected == DefaultColumnType::Any || actual == expected
    };
    actual.len() == expected.len() && actual.iter().zip(expected).all(fits)
}

/// A session behind the runner's interface.
struct Database(Session);

#[async_trait]
impl AsyncDB for Database {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        Ok(match self.0.execute(sql).await? {
            Output::Answer(answer) => rows(&View::for_answer(&answer)?),
            Output::Explanation(explanation) => lines(&explanation.to_string()),
            Output::ExplanationJson(explanation) => lines(&explanation.to_json()),
            Output::Done(_) => DBOutput::StatementComplete(0),
            _ => return Err(Failure::UnknownOutput),
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &'static str {
        "hushql"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Never called, because such records do not reach the runner.
    async fn run_command(_: Command) -> io::Result<std::process::Output> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "suites cannot run system commands"))
    }
}

fn rows(view: &View) -> DBOutput<DefaultColumnType> {
    let types = view.columns.iter().map(|column| match column.kind {
        ColumnFormat::Integer => DefaultColumnType::Integer,
        ColumnFormat::Number => DefaultColumnType::FloatingPoint,
        ColumnFormat::Time | ColumnFormat::Text => DefaultColumnType::Text,
    });
    let text = |cell: &Cell| match cell.text() {
        "" => "(empty)".to_owned(),
        text => text.to_owned(),
    };
    let rows = view.rows.iter().map(|row| row.iter().map(text).collect()).collect();
    DBOutput::Rows { types: types.collect(), rows }
}

/// A text, with one row for each line. A suite cannot contain an empty line.
fn lines(text: &str) -> DBOutput<DefaultColumnType> {
    let rows =
        text.lines().filter(|line| !line.trim().is_empty()).map(|line| vec![line.to_owned()]);
    DBOutput::Rows { types: vec![DefaultColumnType::Text], rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_compared_unless_any_is_meant() {
        let (text, integer, any) =
            (DefaultColumnType::Text, DefaultColumnType::Integer, DefaultColumnType::Any);
        assert!(same_columns(
            &vec![text.clone(), integer.clone()],
            &vec![text.clone(), any.clone()]
        ));
        assert!(!same_columns(&vec![text.clone()], &vec![integer]));
        assert!(!same_columns(&vec![text.clone()], &vec![text, any]));
    }

    #[test]
    fn public_tables_are_declared_by_name_and_ending() {
        assert_eq!(
            public("a\"b=it's.CSV").unwrap(),
            "CREATE EXTERNAL TABLE \"a\"\"b\" STORED AS CSV LOCATION 'it''s.CSV'; ALTER TABLE \"a\"\"b\" SET PUBLIC"
        );
        for wrong in ["t", "t=", "t=x", "t=x.txt", "=", ""] {
            assert!(public(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn files_that_are_no_suites_are_said_to_be_so() {
        assert!(records(Path::new("/nonexistent.slt")).is_err());
    }
}
