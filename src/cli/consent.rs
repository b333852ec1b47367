//! Decides whether the shell asks before it runs a query: it does if the query costs more than the
//! smallest PER QUERY default.
//!
//! In: the cost of a query, and the budgets. Out: whether to ask, and what a reply means. A text
//! that is neither yes nor no is not a reply, but input that was pasted or typed ahead.
//!
//! ```text
//! this query costs ε = 1. Run it? (y/N) y
//! ```

use std::time::Duration;

use hushql::privacy::{Cost, Notion};
use hushql_vault::ledger::BudgetState;

/// The largest cost of a query without a question: the PER QUERY default of a budget, in the notion
/// in which the budget counts.
///
/// A budget without a default sets no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    notion: Notion,
    loss: Option<i64>,
    delta: Option<i64>,
}

/// The marks of these budgets.
pub(super) fn marks(budgets: &[BudgetState]) -> Vec<Mark> {
    let mark = |state: &BudgetState| {
        let (notion, defaults) = (state.budget.limit.notion, state.budget.per_query);
        Mark { notion, loss: defaults.default_in(notion), delta: defaults.default_delta }
    };
    budgets.iter().map(mark).collect()
}

/// Whether the shell asks before a query of this cost runs.
pub(super) fn is_needed(cost: Cost, marks: &[Mark]) -> bool {
    marks.iter().any(|mark| {
        cost.within(mark.notion).is_some_and(|spend| {
            mark.loss.is_some_and(|loss| spend.nano > loss)
                || mark.delta.is_some_and(|delta| spend.atto_delta > delta)
        })
    })
}

/// What a reply means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Yes,
    No,
    /// Not a reply, but input that was pasted or typed ahead.
    Input,
}

/// The least time that a person needs to read a question and answer it.
const READING: Duration = Duration::from_millis(50);

/// Reads a reply that came `after` the question. Only a clear yes spends, and a statement is never
/// a reply.
pub(super) fn reply(text: &str, after: Duration) -> Reply {
    let word = text.trim();
    let is = |words: &[&str]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    match word {
        _ if is(&["y", "yes"]) => Reply::Yes,
        _ if is(&["n", "no"]) => Reply::No,
        _ if after < READING || word.contains([' ', ';', '\n', '\\', '(', ',']) => Reply::Input,
        _ => Reply::No,
    }
}

#[cfg(test)]
mod tests {
    use hushql::privacy::Loss;

    use super::*;

    #[test]
    fn only_a_clear_yes_spends() {
        let typed = |text| reply(text, Duration::from_secs(1));
        let pasted = |text| reply(text, Duration::from_millis(1));
        for yes in ["y", " YES "] {
            assert_eq!((typed(yes), pasted(yes)), (Reply::Yes, Reply::Yes));
        }
        for no in ["", "yep", "maybe", "SELECT"] {
            assert_eq!((typed(no), pasted(no)), (Reply::No, Reply::Input), "{no}");
        }
        assert_eq!(pasted("No"), Reply::No);
        // The next line of a pasted script was once taken for a no, and lost.
        for input in ["y;", "SELECT 1;", "FROM t", "\\q", "COUNT(*)", "a,"] {
            assert_eq!((typed(input), pasted(input)), (Reply::Input, Reply::Input));
        }
    }

    #[test]
    fn what_costs_more_than_a_default_needs_consent() {
        let mark = |loss, delta| [Mark { notion: Notion::Approximate, loss, delta }];
        let cost = |epsilon: &str| {
            let loss = Loss::approximate(&epsilon.parse().unwrap(), &"2e-18".parse().unwrap());
            Cost::round_up(&loss).unwrap()
        };
        assert!(!is_needed(cost("5e-9"), &mark(None, None)));
        assert!(!is_needed(cost("5e-9"), &mark(Some(5), None)));
        assert!(is_needed(cost("6e-9"), &mark(Some(5), None)));
        assert!(is_needed(cost("1e-9"), &mark(Some(5), Some(1))));
        assert!(!is_needed(cost("1e-9"), &mark(Some(5), Some(2))));
        // An ε of 1 corresponds to a ρ of tanh(1/2).
        let rho = |loss| [Mark { notion: Notion::Concentrated, loss: Some(loss), delta: None }];
        assert!(!is_needed(cost("1"), &rho(462_117_158)));
        assert!(is_needed(cost("1"), &rho(462_117_157)));
        assert!(marks(&[]).is_empty());
    }
}
