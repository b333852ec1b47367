//! Requests of analysts for more of a budget, and what the owner decides.
//!
//! In: an amount and a reason. Out: an entry of the history; with an approval, a higher limit in
//! the same transaction. An analyst has few open requests and makes few a day, and a reason is
//! short, so requests do not fill the disk.
//!
//! ```text
//! REQUEST PRIVACY BUDGET study ADD (epsilon=1) REASON 'the second year'   →   request 17
//! APPROVE REQUEST 17                                                      →   limit ε = 5 → ε = 6
//! ```

use hushql_privacy::privacy::{Notion, Spend};

use crate::catalog::{Budget, CatalogError, Slice, alter, coupon_limit, store, zcdp_limit};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::requests::{
    BudgetRequest, RequestState, approval, denial, requests, text,
};
use crate::ledger::records::{analyst, history};
use crate::ledger::vault::budgets::{account, covered, state};
use crate::ledger::vault::{BudgetState, Vault};

/// The most open requests of one analyst.
const MOST_OPEN: usize = 5;
/// The most requests of one analyst on one day (UTC), other changes included.
const MOST_A_DAY: i64 = 20;
/// The longest reason, in letters.
const LONGEST: usize = 200;

impl Vault {
    /// Records an analyst's request to add an amount to the limit of a budget, and returns its
    /// number. Nothing else changes.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`]; [`VaultError::Catalog`] for an unknown budget, an amount in
    /// another notion than that of the limit as declared, a reason that is empty, long or has
    /// control characters, and for an analyst who has asked enough.
    pub fn request_budget(
        &self,
        analyst: &str,
        budget: &str,
        add: Spend,
        reason: &str,
    ) -> Result<i64, VaultError> {
        analyst::admit(analyst)?;
        let reason = checked_reason(reason)?;
        self.write(|connection, _| {
            let known = account(connection, budget)?.budget;
            raised(&known, add)?;
            let entries = history::all(connection)?;
            let open = requests(&entries).into_iter().filter(|request| {
                request.analyst == analyst && request.state == RequestState::Open
            });
            if open.count() >= MOST_OPEN {
                return Err(refused(format!(
                    "{MOST_OPEN} of your requests are open: wait until the owner decides (SHOW PRIVACY REQUESTS)"
                )));
            }
            if history::number_today(connection, analyst)? >= MOST_A_DAY {
                return Err(refused(format!(
                    "you have asked {MOST_A_DAY} times today (UTC): ask again tomorrow"
                )));
            }
            analyst::add(connection, analyst)?;
            history::append(connection, analyst, vec![text(budget, add, reason)])?;
            let last = entries.last().map_or(0, |entry| entry.sequence);
            Ok(last.saturating_add(1))
        })
    }

    /// All requests, oldest first.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the history was altered, or the file cannot be read.
    pub fn budget_requests(&self) -> Result<Vec<BudgetRequest>, VaultError> {
        Ok(requests(&self.declarations()?))
    }

    /// Approves an open request: raises the limit of its budget, and the slice of its analyst if
    /// there is one, by as much.
    ///
    /// # Guarantee
    /// The decision, the limit and the slice are one transaction. A request is approved at most
    /// once. Under an accountant, the promise is raised, and the limit derived from it anew.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if no such request is open, or its budget is gone or counts
    /// otherwise by now, and as [`Vault::set_budget_limit`].
    pub fn approve_request(&self, number: i64) -> Result<BudgetState, VaultError> {
        self.declare_as(vec![approval(number)], |connection, witness| {
            let request = open_request(&history::all(connection)?, number)?;
            let known = account(connection, &request.budget)?;
            let (limit, promise) = raised(&known.budget, request.add)?;
            alter::set_limit(connection, &request.budget, limit, promise)?;
            if let Some(slice) = known.slices.iter().find(|s| s.analyst == request.analyst) {
                let more = limit.minus(known.budget.limit);
                let limit = slice.limit.plus(more)?;
                let slice = Slice { analyst: slice.analyst.clone(), limit };
                alter::set_slice_limit(connection, &request.budget, &slice)?;
            }
            covered(connection, witness, &request.budget)?;
            let catalog = store::load(connection)?;
            state(&account(connection, &request.budget)?, witness, &catalog)
        })
    }

    /// Denies an open request.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if no such request is open, or the reason is long or has control
    /// characters.
    pub fn deny_request(&self, number: i64, reason: &str) -> Result<BudgetRequest, VaultError> {
        let reason = if reason.is_empty() { reason } else { checked_reason(reason)? };
        self.declare_as(vec![denial(number, reason)], |connection, _| {
            open_request(&history::all(connection)?, number)
        })
    }
}

/// The open request of this number.
fn open_request(entries: &[history::Declared], number: i64) -> Result<BudgetRequest, Fault> {
    let found = requests(entries).into_iter().find(|request| request.number == number);
    match found {
        Some(request) if request.state == RequestState::Open => Ok(request),
        Some(_) => {
            Err(refused(format!("request {number} is decided already: SHOW PRIVACY REQUESTS")))
        }
        None => Err(refused(format!(
            "there is no request {number}: SHOW PRIVACY REQUESTS lists them with their numbers"
        ))),
    }
}

/// The limit and the promise of a budget with an amount more. It is in ε where the owner wrote an
/// ε, and in ρ where the owner wrote a ρ.
fn raised(budget: &Budget, add: Spend) -> Result<(Spend, Option<Spend>), Fault> {
    let declared = budget.promise.unwrap_or(budget.limit);
    if declared.notion != add.notion {
        let (name, amount) = match declared.notion {
            Notion::Concentrated => ("rho", "(rho=0.1)"),
            Notion::Approximate | Notion::Coupons => ("epsilon", "(epsilon=1)"),
        };
        return Err(refused(format!(
            "the limit of budget {} is declared in {name}: ADD {amount}",
            budget.name
        )));
    }
    let whole = declared.plus(add)?;
    let thresholds = budget.limit.atto_delta > 0;
    let too_small = || refused("the limit that follows is too large or too small".to_owned());
    Ok(match (budget.promise, budget.coupon) {
        (None, _) => (whole, None),
        (Some(_), None) => (zcdp_limit(whole, thresholds).ok_or_else(too_small)?, Some(whole)),
        (Some(_), Some(coupon)) => {
            (coupon_limit(whole, coupon, thresholds).ok_or_else(too_small)?, Some(whole))
        }
    })
}

/// A reason without blanks around it.
fn checked_reason(reason: &str) -> Result<&str, VaultError> {
    let reason = reason.trim();
    let is_fine = !reason.is_empty()
        && reason.chars().count() <= LONGEST
        && !reason.chars().any(char::is_control);
    match is_fine {
        true => Ok(reason),
        false => Err(VaultError::Catalog(CatalogError::Request(format!(
            "a reason is one line of 1 to {LONGEST} letters: REASON 'the second year of the study'"
        )))),
    }
}

fn refused(sentence: String) -> Fault {
    CatalogError::Request(sentence).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{PerQuery, Privacy, Replay, Source, Table, Unit};
    use crate::ledger::records::analyst::OWNER;

    fn vault() -> Vault {
        let vault = Vault::in_memory().unwrap();
        let (name, source, columns) = ("t".to_owned(), Source::Registered, Vec::new());
        let privacy = Privacy::Private(Unit::Row);
        vault.create_table(&Table { name, source, privacy, columns }).unwrap();
        let (name, table) = ("b".to_owned(), "t".to_owned());
        let (per_query, replay) = (PerQuery::default(), Replay::All);
        let limit = Spend::of_epsilon(5, 0);
        let (promise, coupon) = (None, None);
        let budget = Budget { name, table, limit, promise, coupon, per_query, replay };
        vault.create_budget(&budget).unwrap();
        vault
    }

    #[test]
    fn an_approval_raises_limit_and_slice_once() {
        let vault = vault();
        let slice = Slice { analyst: "lab".to_owned(), limit: Spend::of_epsilon(2, 0) };
        vault.change_slice("b", &crate::ledger::SliceChange::Add(slice)).unwrap();
        let number = vault.request_budget("lab", "b", Spend::of_epsilon(3, 0), " more ").unwrap();
        let state = vault.approve_request(number).unwrap();
        assert_eq!(state.budget.limit, Spend::of_epsilon(8, 0));
        assert_eq!(state.slices[0].limit, Spend::of_epsilon(5, 0));
        assert!(vault.approve_request(number).unwrap_err().to_string().contains("decided already"));
        assert!(vault.deny_request(number, "").is_err());
        assert_eq!(vault.budget("b").unwrap().budget.limit, Spend::of_epsilon(8, 0));
        let found = vault.budget_requests().unwrap();
        assert!(matches!(found[0].state, RequestState::Approved(_)));
        assert_eq!((found[0].reason.as_str(), found[0].number), ("more", number));
    }

    #[test]
    fn requests_are_few_short_and_in_the_notion_of_the_budget() {
        let vault = vault();
        let ask = |budget: &str, add: Spend, reason: &str| {
            vault.request_budget("lab", budget, add, reason).map_err(|error| error.to_string())
        };
        let epsilon = Spend::of_epsilon(1, 0);
        assert!(ask("b", Spend::of_rho(1, 0), "x").unwrap_err().contains("ADD (epsilon=1)"));
        assert!(ask("nothing", epsilon, "x").unwrap_err().contains("nothing"));
        assert!(ask("b", Spend::of_epsilon(i64::MAX, 0), "x").is_err());
        let long = "x".repeat(LONGEST + 1);
        for bad in ["", "  ", "two\nlines", long.as_str()] {
            assert!(ask("b", epsilon, bad).unwrap_err().contains("one line"), "{bad}");
        }
        for _ in 0..MOST_OPEN {
            ask("b", epsilon, "x").unwrap();
        }
        assert!(ask("b", epsilon, "x").unwrap_err().contains("are open"));
        for request in vault.budget_requests().unwrap() {
            vault.deny_request(request.number, "no").unwrap();
        }
        // After as many entries of one day, the next day comes first.
        let made = vault.budget_requests().unwrap().len();
        for _ in made..usize::try_from(MOST_A_DAY).unwrap() {
            let number = ask("b", epsilon, "x").unwrap();
            vault.deny_request(number, "").unwrap();
        }
        assert!(ask("b", epsilon, "x").unwrap_err().contains("tomorrow"));
        assert_eq!(vault.budget("b").unwrap().budget.limit, Spend::of_epsilon(5, 0));
        assert!(vault.request_budget(OWNER, "b", epsilon, "x").is_err());
    }
}
