//! One statement of a session, as a text.

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
