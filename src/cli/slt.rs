//! Runs sqllogictest suites.
//!
//! In: files of records, and perhaps a vault. Out: every failed record on standard error and a last line
//! `N passed, N failed`. Each file has an engine of its own: the built-in tables, or a *copy* of the
//! vault, so that no run of a suite ever spends a real budget. `connection owner` and `connection NAME`
//! pick the session; without them the analyst `slt` asks.
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
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hushql::{Engine, Output, Session};
use sqllogictest::{AsyncDB, Connection, DBOutput, DefaultColumnType, Record, Runner, parse_file};

use super::failure::Failure;
use super::print::Printer;
use super::view::{Cell, Kind, View};

/// The analyst of records without a `connection`.
const ANALYST: &str = "slt";

/// Runs the files, each on a fresh engine; returns 1 when a record failed.
pub(super) async fn run(
    files: &[PathBuf],
    vault: Option<&Path>,
    printer: Printer,
) -> Result<u8, Failure> {
    let mut total = Tally::default();
    for file in files {
        let place = vault.map(VaultCopy::of).transpose()?;
        let engine = match &place {
            Some(copy) => Engine::open(&copy.vault)?,
            None => Engine::demo()?,
        };
        let tally = suite(file, engine, printer).await;
        printer.note(&format!("{}: {tally}", file.display()));
        total.add(tally);
    }
    printer.result(&total.to_string())?;
    Ok(u8::from(total.failed > 0))
}

/// How many records went well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
    }

    fn count(&mut self, passed: bool) {
        self.add(Self { passed: u32::from(passed), failed: u32::from(!passed) });
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

async fn suite(file: &Path, engine: Engine, printer: Printer) -> Tally {
    let mut tally = Tally::default();
    let records = match records(file) {
        Ok(records) => records,
        Err(sentence) => {
            printer.warn(&format!("{}: {sentence}", file.display()));
            tally.count(false);
            return tally;
        }
    };
    // The runner makes a connection when it meets its name, and does not say the name.
    let name = Arc::new(Mutex::new(ANALYST.to_owned()));
    let asked = Arc::clone(&name);
    let mut runner = Runner::new(move || {
        let name = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = if name == "owner" { Ok(engine.owner()) } else { engine.analyst(&name) };
        std::future::ready(session.map(Database).map_err(Failure::from))
    });
    runner.with_column_validator(same_columns);
    for record in records {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        let counts = match &record {
            Record::Statement { connection, .. }
            | Record::Query { connection, .. }
            | Record::Let { connection, .. } => {
                *name.lock().unwrap_or_else(PoisonError::into_inner) = session_name(connection);
                true
            }
            Record::System { .. } => true,
            _ => false,
        };
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

fn session_name(connection: &Connection) -> String {
    match connection {
        Connection::Default => ANALYST.to_owned(),
        Connection::Named(name) => name.clone(),
    }
}

/// The records of a file, or why there are none.
fn records(file: &Path) -> Result<Vec<Record<DefaultColumnType>>, String> {
    // The library's own reader takes a readable file of text for granted.
    std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let name = file.to_str().ok_or("the file's name is not text")?;
    parse_file(name).map_err(|error| error.to_string())
}

/// As many columns as written, of the types written; `?` is any type.
#[expect(clippy::ptr_arg, reason = "the runner prescribes the signature")]
fn same_columns(actual: &Vec<DefaultColumnType>, expected: &Vec<DefaultColumnType>) -> bool {
    let fits = |(actual, expected): (&DefaultColumnType, &DefaultColumnType)| {
        *expected == DefaultColumnType::Any || actual == expected
    };
    actual.len() == expected.len() && actual.iter().zip(expected).all(fits)
}

/// A session, as the runner wants it.
struct Database(Session);

#[async_trait]
impl AsyncDB for Database {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        Ok(match self.0.execute(sql).await? {
            Output::Answer(answer) => rows(&View::of(&answer)?),
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

    /// A suite asks questions; it does not run programs of whoever wrote it.
    async fn run_command(_: Command) -> io::Result<std::process::Output> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "suites run no system commands here"))
    }
}

fn rows(view: &View) -> DBOutput<DefaultColumnType> {
    let types = view.columns.iter().map(|column| match column.kind {
        Kind::Integer => DefaultColumnType::Integer,
        Kind::Number => DefaultColumnType::FloatingPoint,
        Kind::Text => DefaultColumnType::Text,
    });
    let text = |cell: &Cell| match cell.text() {
        "" => "(empty)".to_owned(),
        text => text.to_owned(),
    };
    let rows = view.rows.iter().map(|row| row.iter().map(text).collect()).collect();
    DBOutput::Rows { types: types.collect(), rows }
}

/// A text, a row per line; a suite cannot write an empty line.
fn lines(text: &str) -> DBOutput<DefaultColumnType> {
    let rows =
        text.lines().filter(|line| !line.trim().is_empty()).map(|line| vec![line.to_owned()]);
    DBOutput::Rows { types: vec![DefaultColumnType::Text], rows: rows.collect() }
}

/// A copy of a vault in a directory that only this user can enter, gone with the value.
struct VaultCopy {
    folder: PathBuf,
    vault: PathBuf,
}

impl VaultCopy {
    fn of(vault: &Path) -> Result<Self, Failure> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("hushql-slt-{}-{number}", std::process::id()));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Failure::File { path, source }
        };
        // Fails when somebody made the directory first, so nobody else's can be used.
        make_private(&folder).map_err(failed(&folder))?;
        let copy = Self { vault: folder.join("vault.db"), folder };
        std::fs::copy(vault, &copy.vault).map_err(failed(vault))?;
        // A write that was cut short lies in the journal beside the vault; with it the copy is whole.
        let journal = journal(vault);
        if journal.exists() {
            let target = self::journal(&copy.vault);
            std::fs::copy(&journal, target).map_err(failed(&journal))?;
        }
        Ok(copy)
    }
}

impl Drop for VaultCopy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn journal(vault: &Path) -> PathBuf {
    let mut name = vault.as_os_str().to_owned();
    name.push("-journal");
    PathBuf::from(name)
}

#[cfg(unix)]
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> io::Result<()> {
    std::fs::create_dir(folder)
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
    fn a_copy_is_private_and_goes_away() {
        let original = std::env::temp_dir().join(format!("hushql-copy-{}", std::process::id()));
        std::fs::write(&original, "vault").unwrap();
        let copy = VaultCopy::of(&original).unwrap();
        assert_eq!(std::fs::read_to_string(&copy.vault).unwrap(), "vault");
        let folder = copy.folder.clone();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        drop(copy);
        assert!(!folder.exists());
        std::fs::remove_file(original).unwrap();
    }

    #[test]
    fn files_that_are_no_suites_are_said_to_be_so() {
        assert!(records(Path::new("/nonexistent.slt")).is_err());
    }
}
