//! The receipt of an answer: what it cost, what is left, and which charges paid for it.
//!
//! In: a charge. Out: the charge in words: `cost ε = 0.5 · left demo ε = 9.5`.

use std::fmt;

use crate::privacy::{Cost, Spend};
use crate::visible;

/// What a query cost and what is left.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let answer = session.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await?;
/// let receipt = answer.receipt().expect("the query released something");
/// assert_eq!(receipt.spent.to_string(), "ε = 1");
/// assert_eq!(receipt.left[0].1.notion.symbol(), "ε");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// What was charged, in the notions that the touched budgets count in.
    pub spent: Cost,
    /// What every touched budget has left, by name. For a replayed answer: every budget that would
    /// be charged for it now.
    pub left: Vec<(String, Spend)>,
    /// The cells of people that were charged, in words, and the reason if all of them were. Empty
    /// if people have no cells.
    pub cells: Vec<String>,
    /// The number of the charge in the ledger, as `hushql.ledger` shows it to the analyst. For a
    /// replayed answer, the number of the charge that paid for it. 0 if the number would have to be
    /// read from the ledger, and the vault could not be read after the charge, or if another
    /// analyst paid and readers are kept apart.
    pub sequence: i64,
    /// The number of the charge in the whole ledger.
    pub(crate) charge: i64,
    /// True if the answer was paid for before, and is replayed.
    pub is_replayed: bool,
    /// The numbers of the charges that paid for replayed draws, each once, in order. An answer that
    /// is drawn in part has them, too. 0 stands for charges of others, where readers are kept
    /// apart.
    pub replayed: Vec<i64>,
    /// The numbers of the charges that paid for kept draws on which this answer is built, each
    /// once, in order. Together with these charges, the answer costs what its releases state.
    pub refined: Vec<i64>,
}

/// Charges by their numbers, in words. `None` if there are none.
pub(crate) fn charges_text(charges: &[i64]) -> Option<String> {
    // The reader does not see the numbers of others.
    let (others, own): (Vec<i64>, Vec<i64>) = charges.iter().partition(|charge| **charge == 0);
    let numbers: Vec<String> = own.iter().map(i64::to_string).collect();
    let own = match numbers.as_slice() {
        [] => None,
        [one] => Some(format!("charge {one}")),
        several => Some(format!("charges {}", several.join(", "))),
    };
    match (own, others.is_empty()) {
        (own, true) => own,
        (None, false) => Some("another analyst".to_owned()),
        (Some(own), false) => Some(format!("{own} and another analyst")),
    }
}

impl Receipt {
    /// Which charges paid for what is replayed, in words. `None` if nothing is.
    pub fn replayed_text(&self) -> Option<String> {
        let charges = charges_text(&self.replayed)?;
        Some(match self.is_replayed {
            true => format!("replayed: {charges} paid for it"),
            false => format!("replayed in part: {charges} paid for that"),
        })
    }

    /// Which charges paid for the draws on which the answer is built, in words. `None` if it is
    /// built on none.
    pub fn refined_text(&self) -> Option<String> {
        Some(format!("refines {}", charges_text(&self.refined)?))
    }

    /// For each touched budget, what it has left, in words.
    fn left_texts(&self) -> impl Iterator<Item = String> + '_ {
        let text = |(budget, left): &(String, Spend)| {
            format!("{} {}", visible::line(budget), left.neat_down())
        };
        self.left.iter().map(text)
    }

    /// What all budgets of `left` have left, in words.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let answer = session.query("SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM adult").await?;
    /// assert_eq!(answer.receipt().unwrap().left_text(), "adult ε = 9.5, δ = 1e-5");
    /// # Ok(()) }
    /// ```
    pub fn left_text(&self) -> String {
        self.left_texts().collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cost {}", self.spent.neat())?;
        // An answer that costs nothing does not change what is left.
        for budget in self.left_texts().filter(|_| !self.is_replayed) {
            write!(f, " · left {budget}")?;
        }
        for sentence in &self.cells {
            write!(f, " · {}", visible::line(sentence))?;
        }
        let paid_before = [self.refined_text(), self.replayed_text()];
        paid_before.into_iter().flatten().try_for_each(|text| write!(f, " · {text}"))
    }
}
