//! What came of a statement, as whoever asked sees it.
//!
//! In: what the engine returned. Out: rows, cost and the words beside them, or the reason why there
//! are none.

use hushql_engine::{Error, Output};

/// A sum in thousandths of ε.
pub fn thousandths(nano: i64) -> i64 {
    nano / 1_000_000
}

/// What came of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Rows.
    Answer {
        rows: String,
        /// What was charged, in thousandths of ε; nothing for what is free.
        cost: Option<i64>,
        /// Everything that is said beside the rows.
        said: String,
    },
    /// A declaration was made.
    Done(String),
    /// The budget does not pay.
    Budget(String),
    /// A sentence about the statement.
    Refused(String),
    /// The vault or the query failed: a charge may stand.
    Failed(String),
    /// The program ended before anybody saw anything.
    Unseen,
}

impl Outcome {
    pub fn of(result: Result<Output, Error>) -> Self {
        match result {
            Ok(Output::Answer(answer)) => {
                let text = answer.to_string();
                let (rows, mut said): (Vec<&str>, Vec<&str>) =
                    text.lines().partition(|line| line.starts_with(['|', '+']));
                // What follows from the numbers that are shown: whether they drown in their noise,
                // and how far a synthetic table is from what was measured.
                said.retain(|line| !line.contains("half of it") && !line.contains(" are off by "));
                let spent = answer.receipt().map(|receipt| &receipt.spent);
                let paid =
                    spent.filter(|spent| !spent.is_nothing()).and_then(|all| all.parts().next());
                Self::Answer {
                    said: said.join("; "),
                    rows: rows.join("\n"),
                    cost: paid.map(|spend| thousandths(spend.nano)),
                }
            }
            Ok(Output::Done(sentence)) => Self::Done(sentence),
            Ok(other) => Self::Refused(format!("{other:?}")),
            Err(error @ Error::Budget(_)) => Self::Budget(error.to_string()),
            Err(error @ (Error::Ledger(_) | Error::Execution | Error::Internal)) => {
                Self::Failed(error.to_string())
            }
            Err(error) => Self::Refused(error.to_string()),
        }
    }

    /// What must not depend on one person: everything but the numbers.
    pub fn without_rows(&self) -> String {
        match self {
            Self::Answer { cost, said, .. } => match cost {
                Some(_) => format!("answer, paid: {said}"),
                None => format!("answer, free: {said}"),
            },
            other => format!("{other:?}"),
        }
    }

    /// The cells of its rows.
    pub fn cells(&self) -> String {
        let Self::Answer { rows, .. } = self else { return String::new() };
        let cells = rows.lines().filter(|line| line.starts_with('|')).skip(1);
        cells.map(|line| line.replace("  ", "")).collect()
    }

    /// All of it in a line.
    pub fn line(&self) -> String {
        format!("{} {}", self.without_rows(), self.cells())
    }
}
