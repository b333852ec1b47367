//! What executing a statement gives.

use crate::answer::Answer;
use crate::explain::Explanation;

/// What a statement gave.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Rows.
    Answer(Answer),
    /// An explanation, as text.
    Explanation(Explanation),
    /// An explanation, to be written as JSON.
    ExplanationJson(Explanation),
    /// One sentence about what was done.
    Done(String),
}
