//! The result of executing a statement.

use crate::answer::Answer;
use crate::explain::Explanation;

/// The result of executing a statement.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::Output;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let owner = hushql::Engine::demo()?.owner();
/// match owner.execute("ALTER TABLE census SET PUBLIC").await? {
///     Output::Done(sentence) => assert!(sentence.starts_with("table census is public")),
///     Output::Answer(answer) => println!("{answer}"),
///     other => println!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Rows.
    Answer(Answer),
    /// An explanation as text.
    Explanation(Explanation),
    /// An explanation to be written as JSON.
    ExplanationJson(Explanation),
    /// One sentence that says what was done.
    Done(String),
}
