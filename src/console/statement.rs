//! Runs one statement of a page, to its end even if the browser goes away: what it costs is charged
//! then, and the answer is kept for the reader.

use std::sync::Arc;

use hushql::{Answer, Error, Output, split_statements};
use tokio::sync::OwnedSemaphorePermit;

use super::state::Console;
use super::visitors::Visitor;

/// What came of a statement.
#[derive(Debug)]
pub(super) enum Ran {
    /// An answer, kept under this number.
    Answer(u64),
    /// A text, as of EXPLAIN.
    Text(String),
    /// One sentence that says what was done.
    Done(String),
    /// Nothing.
    Failed(Error),
    /// The text is no single statement.
    NotOne(usize),
}

/// Runs a statement.
pub(super) async fn run(
    console: &Arc<Console>,
    visitor: &Arc<Visitor>,
    sql: &str,
    place: OwnedSemaphorePermit,
) -> Ran {
    match split_statements(sql) {
        Err(error) => return Ran::Failed(error),
        Ok(statements) if statements.len() != 1 => return Ran::NotOne(statements.len()),
        Ok(_) => {}
    }
    let (console, visitor, sql) = (Arc::clone(console), Arc::clone(visitor), sql.to_owned());
    let running = async move {
        let _place = place;
        let sight = match visitor.session.sight() {
            Ok(sight) => sight,
            Err(error) => return Ran::Failed(error),
        };
        // As for every failure after a charge.
        let ran = visitor.session.execute(&sql).await.map_err(|error| match error {
            Error::Internal => Error::Execution,
            error => error,
        });
        let role = visitor.role.as_deref();
        let answered: Result<Option<&Answer>, &Error> = match &ran {
            Ok(Output::Answer(answer)) => Ok(Some(answer)),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        console.porter.record(role, &sql, answered);
        match ran {
            Ok(Output::Answer(answer)) => Ran::Answer(visitor.keep(&sql, answer, sight)),
            Ok(Output::Explanation(explanation)) => Ran::Text(explanation.to_string()),
            Ok(Output::ExplanationJson(explanation)) => Ran::Text(explanation.to_json()),
            Ok(Output::Done(sentence)) => Ran::Done(sentence),
            // The library may add outputs that this page does not know.
            Ok(_) => Ran::Done("done".to_owned()),
            Err(error) => Ran::Failed(error),
        }
    };
    tokio::spawn(running).await.unwrap_or(Ran::Failed(Error::Execution))
}
