//! Requests of analysts for more of a budget, and the owner's decisions, in the history of
//! declarations.
//!
//! In: entries of the history. Out: requests with what became of each. A request and its decision
//! are entries like any declaration: chained, and never changed. The number of a request is that of
//! its entry. Decisions count only in entries of the owner.
//!
//! ```text
//! 17   lab     request to add epsilon=1 to "study": the second year
//! 21   owner   request 17: approved
//! ```

use hushql_privacy::privacy::{Notion, Rational, Spend, parse_decimal};
use num_bigint::BigInt;
use num_traits::{CheckedMul, ToPrimitive};

use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::history::Declared;

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// The owner has not decided.
    Open,
    /// The limit was raised, at this second since 1970 (UTC).
    Approved(i64),
    /// It was denied, at this second, with a reason, which may be empty.
    Denied(i64, String),
}

/// An analyst's request to raise the limit of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRequest {
    /// Its number, which is that of its entry in the history.
    pub number: i64,
    /// When it was made, in seconds since 1970 (UTC).
    pub at: i64,
    /// The analyst.
    pub analyst: String,
    /// The budget.
    pub budget: String,
    /// What to add to its limit: an ε, or a ρ.
    pub add: Spend,
    /// Why.
    pub reason: String,
    /// What became of it.
    pub state: RequestState,
}

/// Why the open requests of a dropped role end.
const DROPPED: &str = "the role was dropped";

/// Why the open requests for a dropped budget end.
const BUDGET_DROPPED: &str = "the budget was dropped";

/// The beginning of a request's entry.
const ASKS: &str = "request to add ";

/// The text of a request's entry.
pub(crate) fn text(budget: &str, add: Spend, reason: &str) -> String {
    let delta = match add.atto_delta {
        0 => String::new(),
        _ => format!(", delta={}", add.delta_text()),
    };
    let budget = budget.replace('"', "\"\"");
    format!("{ASKS}{}={}{delta} to \"{budget}\": {reason}", add.notion.name(), add.loss_text())
}

/// The text of an approval's entry.
pub(crate) fn approval(number: i64) -> String {
    format!("request {number}: approved")
}

/// The text of a denial's entry.
pub(crate) fn denial(number: i64, reason: &str) -> String {
    match reason {
        "" => format!("request {number}: denied"),
        reason => format!("request {number}: denied: {reason}"),
    }
}

/// All requests of a history, oldest first.
pub fn requests(history: &[Declared]) -> Vec<BudgetRequest> {
    let mut all: Vec<BudgetRequest> = Vec::new();
    for entry in history {
        if let Some(request) = asked(entry) {
            all.push(request);
        } else if let Some((number, state)) = decided(entry) {
            let open = |request: &&mut BudgetRequest| {
                request.number == number && request.state == RequestState::Open
            };
            if let Some(request) = all.iter_mut().find(open) {
                request.state = state;
            }
        } else if let Some(name) = dropped(entry) {
            end(&mut all, entry.at, DROPPED, |request| request.analyst == name);
        } else if let Some(name) = dropped_budget(entry) {
            end(&mut all, entry.at, BUDGET_DROPPED, |request| request.budget == name);
        }
    }
    all
}

/// Ends the open requests that are meant.
fn end(all: &mut [BudgetRequest], at: i64, why: &str, is_meant: impl Fn(&BudgetRequest) -> bool) {
    for request in all {
        if is_meant(request) && request.state == RequestState::Open {
            request.state = RequestState::Denied(at, why.to_owned());
        }
    }
}

/// The numbers of the requests that are a reader's own. Those of an earlier role of the same name,
/// which was dropped, are not.
pub fn own_requests(history: &[Declared], reader: &str) -> Vec<i64> {
    let mut own = Vec::new();
    for entry in history {
        if dropped(entry) == Some(reader) {
            own.clear();
        } else if asked(entry).is_some_and(|request| request.analyst == reader) {
            own.push(entry.sequence);
        }
    }
    own
}

/// The role that an entry drops.
fn dropped(entry: &Declared) -> Option<&str> {
    let role = entry.change.strip_prefix("role ").filter(|_| entry.analyst == OWNER)?;
    role.strip_suffix(": dropped")
}

/// The budget that an entry drops. One of the same name, declared later, is another budget.
fn dropped_budget(entry: &Declared) -> Option<&str> {
    let budget = entry.change.strip_prefix("budget ").filter(|_| entry.analyst == OWNER)?;
    budget.strip_suffix(": dropped")
}

/// True if an entry is a request that is not among these, or a decision on one. Only the owner and
/// whoever asked may read it.
pub fn is_of_another(entry: &Declared, own: &[i64]) -> bool {
    match decided(entry) {
        Some((number, _)) => !own.contains(&number),
        None => asked(entry).is_some() && !own.contains(&entry.sequence),
    }
}

/// The request that an entry makes.
fn asked(entry: &Declared) -> Option<BudgetRequest> {
    let (amounts, rest) = entry.change.strip_prefix(ASKS)?.split_once(" to \"")?;
    let (budget, reason) = quoted_name(rest)?;
    let mut add: Option<Spend> = None;
    for amount in amounts.split(", ") {
        let (name, value) = amount.split_once('=')?;
        let value = parse_decimal(value)?;
        add = Some(match (name, add) {
            ("epsilon", None) => Spend::of_epsilon(units(&value, 9)?, 0),
            ("rho", None) => Spend::of_rho(units(&value, 9)?, 0),
            ("delta", Some(add)) => Spend { atto_delta: units(&value, 18)?, ..add },
            _ => return None,
        });
    }
    Some(BudgetRequest {
        number: entry.sequence,
        at: entry.at,
        analyst: entry.analyst.clone(),
        budget,
        add: add.filter(|add| add.notion != Notion::Coupons)?,
        reason: reason.strip_prefix(": ")?.to_owned(),
        state: RequestState::Open,
    })
}

/// The decision that an entry of the owner makes.
fn decided(entry: &Declared) -> Option<(i64, RequestState)> {
    let rest = entry.change.strip_prefix("request ").filter(|_| entry.analyst == OWNER)?;
    let (number, decision) = rest.split_once(": ")?;
    let number = number.parse().ok()?;
    match decision.split_once(": ") {
        Some(("denied", reason)) => {
            Some((number, RequestState::Denied(entry.at, reason.to_owned())))
        }
        Some(_) => None,
        None if decision == "approved" => Some((number, RequestState::Approved(entry.at))),
        None if decision == "denied" => {
            Some((number, RequestState::Denied(entry.at, String::new())))
        }
        None => None,
    }
}

/// The name up to the closing quote, where two quotes stand for one, and what follows.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match (letter, letters.peek()) {
            ('"', Some((_, '"'))) => {
                letters.next();
                name.push('"');
            }
            ('"', _) => return Some((name, text.get(at.saturating_add(1)..)?)),
            (letter, _) => name.push(letter),
        }
    }
    None
}

/// A decimal as a whole number of 10^−places.
fn units(value: &Rational, places: u32) -> Option<i64> {
    let scaled = value.checked_mul(&Rational::from_integer(BigInt::from(10).pow(places)))?;
    scaled.is_integer().then(|| scaled.to_integer().to_i64()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: i64, analyst: &str, change: String) -> Declared {
        Declared { sequence, at: sequence, analyst: analyst.to_owned(), change }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        for (budget, add, reason) in [
            ("study", Spend::of_epsilon(1_500_000_000, 0), "the second year"),
            ("a \"b\": c to \"d\"", Spend::of_rho(1, 7), "because: \"x\" to \"y\": z"),
        ] {
            let read = requests(&[entry(3, "lab", text(budget, add, reason))]);
            let [request] = read.as_slice() else { panic!("{read:?}") };
            assert_eq!((request.budget.as_str(), request.add), (budget, add));
            assert_eq!((request.reason.as_str(), request.number), (reason, 3));
        }
    }

    /// A decision is the owner's, whatever an analyst writes, and the first one holds.
    #[test]
    fn only_the_owner_decides_and_once() {
        let ask = || entry(1, "lab", text("b", Spend::of_epsilon(1, 0), "request 1: approved"));
        assert_eq!(requests(&[ask()])[0].state, RequestState::Open);
        let history = [ask(), entry(2, "lab", approval(1))];
        assert_eq!(requests(&history)[0].state, RequestState::Open);
        let history = [ask(), entry(2, OWNER, denial(1, "no")), entry(3, OWNER, approval(1))];
        assert_eq!(requests(&history)[0].state, RequestState::Denied(2, "no".to_owned()));
        let eve = own_requests(&history, "eve");
        assert!(is_of_another(&history[0], &eve) && is_of_another(&history[1], &eve));
        let lab = own_requests(&history, "lab");
        assert!(!is_of_another(&history[0], &lab) && !is_of_another(&history[1], &lab));
    }

    /// A new role under a dropped name inherits no requests.
    #[test]
    fn a_dropped_role_leaves_nothing_open() {
        let ask = entry(1, "lab", text("b", Spend::of_epsilon(1, 0), "mine"));
        let history = [ask, entry(2, OWNER, "role lab: dropped".to_owned())];
        let ended = RequestState::Denied(2, DROPPED.to_owned());
        assert_eq!(requests(&history)[0].state, ended);
        let own = own_requests(&history, "lab");
        assert!(own.is_empty() && is_of_another(&history[0], &own));
    }
}
