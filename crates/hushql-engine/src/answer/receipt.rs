//! The receipt of an answer: what it cost, what is left, and which charges paid for it.
//!
//! In: a charge. Out: the same, in words: `cost ε = 0.5 · left demo ε = 9.5`.

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
    /// What every touched budget has left, by name; of a replayed answer, every budget that would
    /// be charged for it now.
    pub left: Vec<(String, Spend)>,
    /// Which cells of people were charged, and why all of them, in words; none where people have no
    /// cells.
    pub cells: Vec<String>,
    /// The number of the charge in the ledger, as `hushql.ledger` shows it to who asked; of a
    /// replayed answer, that of the charge which paid for it. 0 if that number follows from the
    /// ledger, and the vault could not be read after the charge.
    pub sequence: i64,
    /// The same in the whole ledger.
    pub(crate) charge: i64,
    /// Whether the answer was paid for before, and is shown again.
    pub is_replayed: bool,
    /// The numbers of the charges that paid for what is shown again, each once, in order; of an
    /// answer that is partly drawn, too.
    pub replayed: Vec<i64>,
}

/// Charges by their numbers, in words; `None` for none.
pub(crate) fn charges_text(charges: &[i64]) -> Option<String> {
    let numbers: Vec<String> = charges.iter().map(i64::to_string).collect();
    match numbers.as_slice() {
        [] => None,
        [one] => Some(format!("charge {one}")),
        several => Some(format!("charges {}", several.join(", "))),
    }
}

impl Receipt {
    /// What of the answer was paid for before, and by which charges; `None` if nothing was.
    pub fn replayed_text(&self) -> Option<String> {
        let charges = charges_text(&self.replayed)?;
        Some(match self.is_replayed {
            true => format!("replayed: {charges} paid for it"),
            false => format!("replayed in part: {charges} paid for that"),
        })
    }

    /// What every touched budget has left, in words.
    fn left_texts(&self) -> impl Iterator<Item = String> + '_ {
        let text = |(budget, left): &(String, Spend)| {
            format!("{} {}", visible::line(budget), left.neat_down())
        };
        self.left.iter().map(text)
    }

    /// What every budget of `left` has left, in words.
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
        // What costs nothing leaves what was left.
        for budget in self.left_texts().filter(|_| !self.is_replayed) {
            write!(f, " · left {budget}")?;
        }
        for sentence in &self.cells {
            write!(f, " · {}", visible::line(sentence))?;
        }
        match self.replayed_text() {
            Some(replayed) => write!(f, " · {replayed}"),
            None => Ok(()),
        }
    }
}
