//! Stage 8 of a query: the answer.
//!
//! In: a query that [`Ran`]. Out: an [`Answer`]: its rows, or the range that is read off them, with accuracy and receipt.

use super::run::Ran;
use crate::answer::Answer;
use crate::error::Error;

impl Ran {
    /// What the asker is given.
    ///
    /// # Errors
    /// [`Error::Execution`] where no range can be read off the rows.
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
