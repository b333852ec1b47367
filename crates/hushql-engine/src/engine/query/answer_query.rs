//! Stage 8 of a query: the answer.
//!
//! In: a query that [`Ran`]. Out: an [`Answer`] with accuracy and receipt: the rows, or the range
//! that is derived from them.

use super::run::Ran;
use crate::answer::{Answer, Head};
use crate::error::Error;

impl Ran {
    /// Reads the rows and answers.
    ///
    /// # Errors
    /// As [`Ran::next`], and [`Error::Execution`] if no range follows from the rows.
    pub(super) async fn answer(mut self) -> Result<Answer, Error> {
        let rows: Vec<_> =
            self.all().await?.into_iter().map(|one| (one.batch, one.errors)).collect();
        match self.planned.proposal() {
            Some(proposal) => {
                let batches: Vec<_> = rows.into_iter().map(|(batch, _)| batch).collect();
                let (range, note) = proposal.answer(&batches).map_err(|_| Error::Execution)?;
                let answer = Answer::proposed(range, note, self.receipt);
                Ok(self.notes.into_iter().fold(answer, Answer::noted))
            }
            None => Ok(Answer::new(self.head(), rows)),
        }
    }

    /// Everything about the answer that is known before its first row.
    pub(super) fn head(&self) -> Head {
        let mut head = Head::new(&self.drawn, self.planned.release(), self.receipt.clone());
        if self.planned.hidden().is_some() {
            head = head.without_remarks();
        }
        head.notes.extend(self.notes.iter().cloned());
        head
    }

    /// Whether the answer follows only from all rows together.
    pub(super) fn is_proposal(&self) -> bool {
        self.planned.proposal().is_some()
    }
}
