//! Stage 8 of a query: the answer.
//!
//! In: a query that [`Ran`]. Out: an [`Answer`] with accuracy and receipt: the rows, or the range that is derived from them.

use super::run::Ran;
use crate::answer::Answer;
use crate::error::Error;

impl Ran {
    /// The answer for the user.
    ///
    /// # Errors
    /// [`Error::Execution`] when no range can be derived from the rows.
    pub(super) fn answer(self) -> Result<Answer, Error> {
        let Self { planned, rows, receipt } = self;
        match planned.proposal() {
            Some(proposal) => {
                let (range, note) = proposal.answer(&rows).map_err(|_| Error::Execution)?;
                Ok(Answer::proposed(range, note, receipt))
            }
            None => Ok(Answer::new(rows, planned.release(), receipt)),
        }
    }
}
