//! Runs scripts: the statements of `-c`, of a file or of a pipe, one after another.
//!
//! In: a session and a text. Out: the printed results, and the exit status of the first failure,
//! or 0. A script never asks for confirmation. If the output of a statement cannot be written, the
//! run ends, so that no more budget is spent on answers that cannot be read.
//!
//! ```text
//! "SELECT …; SELECT …" ─▶ split ─▶ execute ─▶ print, until one fails (or all, with --keep-going)
//! ```

use std::future::pending;
use std::io;
use std::path::Path;
use std::pin::Pin;

use arrow::datatypes::SchemaRef;
use futures::FutureExt;
use hushql::privacy::Cost;
use hushql::{Output, Session, split_statements};

use super::commands::is_command;
use super::failure::Failure;
use super::print::Printer;
use super::progress;

/// Runs a script and prints its results.
///
/// Returns the exit status, or an error if printing was the first failure.
pub(super) async fn script(
    session: &Session,
    printer: Printer,
    text: &str,
    keep_going: bool,
) -> Result<u8, Failure> {
    let statements = match split_statements(text) {
        Ok(statements) => statements,
        Err(error) => {
            let failure = Failure::from(error);
            let said = printer.failure_in(text, &failure, None);
            return ended(failure.exit_status(), said);
        }
    };
    let (mut status, mut interrupt) = (0, Interrupt::that_ends_the_process());
    let count = statements.len();
    for (at, statement) in statements.into_iter().enumerate() {
        let result = match execute(session, statement.text(), &mut interrupt).await {
            Ok(Some(output)) => printer.output(&output),
            Ok(None) => Ok(()),
            Err(failure) => Err(failure.in_script(&statement)),
        };
        let Err(failure) = result else { continue };
        if failure.is_final() {
            return ended(status, Err(failure));
        }
        if status == 0 {
            status = failure.exit_status();
        }
        let said = printer.failure_in(text, &failure, (count > 1).then_some(statement.place().0));
        if is_command(statement.text()) {
            printer.note(
                "hint: commands such as \\dt are for the shell; a script holds SQL: SHOW TABLES, DESCRIBE adult, SHOW PRIVACY BUDGET",
            );
        }
        if said.is_err() || !keep_going {
            if let Some(sentence) = skipped(count - at - 1, "; --keep-going runs all") {
                printer.note(&sentence);
            }
            return ended(status, said);
        }
    }
    Ok(status)
}

/// The remark about the statements that did not run.
pub(super) fn skipped(count: usize, hint: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("the statement after it was not run{hint}")),
        n => Some(format!("the {n} statements after it were not run{hint}")),
    }
}

/// The result of a script after its last output. If the reader has gone, this does not hide an
/// earlier failure.
fn ended(status: u8, said: Result<(), Failure>) -> Result<u8, Failure> {
    match said {
        Err(failure) if status == 0 || !failure.is_broken_pipe() => Err(failure),
        Ok(()) | Err(_) => Ok(status),
    }
}

/// The effect of Ctrl-C while statements run.
pub(super) struct Interrupt(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Interrupt {
    /// It ends the process, as for any program.
    pub(super) fn that_ends_the_process() -> Self {
        Self(Box::pin(pending()))
    }

    /// It cancels the running statement, or the next one if none is running.
    pub(super) fn that_cancels() -> Self {
        let mut interrupt = Self(Box::pin(interrupted().fuse()));
        // The first check subscribes to the signal.
        let _ = interrupt.has_come();
        interrupt
    }

    /// Whether the signal has arrived since the last check.
    pub(super) fn has_come(&mut self) -> bool {
        (&mut self.0).now_or_never().is_some()
    }
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        pending::<()>().await;
    }
}

/// Runs one statement on its own thread, so that Ctrl-C and the spinner keep working.
///
/// Returns `None` if it was cancelled. Cancelling does not refund anything: a query is charged
/// before the first row is read.
pub(super) async fn execute(
    session: &Session,
    statement: &str,
    interrupt: &mut Interrupt,
) -> Result<Option<Output>, Failure> {
    let (asking, statement) = (session.clone(), statement.to_owned());
    let mut running = tokio::spawn(async move { asking.execute(&statement).await });
    tokio::select! {
        ended = &mut running => Ok(Some(ended.map_err(|_| Failure::Lost)??)),
        () = &mut interrupt.0 => {
            running.abort();
            Ok(None)
        }
        never = progress::spin(session) => match never {},
    }
}

/// The cost of a statement; `None` if the user cancelled while the statement was planned.
pub(super) async fn cost(
    session: &Session,
    statement: &str,
    interrupt: &mut Interrupt,
) -> Option<Cost> {
    let (session, statement) = (session.clone(), statement.to_owned());
    let planned = tokio::task::spawn_blocking(move || session.cost(&statement));
    tokio::select! {
        // A statement whose cost is unknown fails when it runs, with a reason.
        cost = planned => Some(cost.ok().and_then(Result::ok).unwrap_or_default()),
        () = &mut interrupt.0 => None,
    }
}

/// The columns of a query, before anything is charged, or the reason why it has none; `None` if the
/// user cancelled.
pub(super) async fn schema(
    session: &Session,
    query: &str,
    interrupt: &mut Interrupt,
) -> Option<Result<SchemaRef, Failure>> {
    let (session, query) = (session.clone(), query.to_owned());
    let prepared = tokio::task::spawn_blocking(move || session.prepare(&query));
    tokio::select! {
        prepared = prepared => Some(match prepared {
            Ok(prepared) => prepared.map(|prepared| prepared.schema()).map_err(Failure::from),
            Err(_) => Err(Failure::Lost),
        }),
        () = &mut interrupt.0 => None,
    }
}

/// Reads a file of statements.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|source| Failure::File { path: path.to_owned(), source })
}

/// Reads standard input.
pub(super) fn read_input() -> Result<String, Failure> {
    io::read_to_string(io::stdin())
        .map_err(|source| Failure::File { path: "standard input".into(), source })
}
