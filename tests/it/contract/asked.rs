//! One statement of a session, as a text.

use arrow::util::display::array_value_to_string;
use hushql::{Error, Output, Session};

/// What a statement shows.
pub(crate) async fn told(session: &Session, sql: &str) -> Result<String, Error> {
    Ok(match session.execute(sql).await? {
        Output::Answer(answer) => answer.to_string(),
        Output::Explanation(explanation) => explanation.to_string(),
        Output::ExplanationJson(explanation) => explanation.to_json(),
        Output::Done(sentence) => sentence,
        other => panic!("{other:?}"),
    })
}

/// What a statement shows that does not fail.
pub(crate) async fn done(session: &Session, sql: &str) -> String {
    told(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// What an error says.
pub(crate) async fn why(session: &Session, sql: &str) -> String {
    match told(session, sql).await {
        Err(error) => error.to_string(),
        Ok(answer) => panic!("{sql}: {answer}"),
    }
}

/// The cells of an answer, however wide.
pub(crate) async fn cells(session: &Session, sql: &str) -> String {
    let Output::Answer(answer) = session.execute(sql).await.unwrap() else { panic!("{sql}") };
    let mut cells = Vec::new();
    for batch in answer.batches() {
        for column in batch.columns() {
            for row in 0..column.len() {
                cells.push(array_value_to_string(column, row).unwrap());
            }
        }
    }
    cells.join("\n")
}
