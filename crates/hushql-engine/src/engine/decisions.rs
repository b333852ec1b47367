//! Requests for more of a budget, as sessions make, see and decide them.
//!
//! In: a session and a statement. Out: one sentence, or the list of requests. An analyst sees their
//! own; the owner sees all.
//!
//! ```text
//! SHOW PRIVACY REQUESTS   →   17 | 2026-03-01 | lab | study | ε = 1 | open | the second year
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};

use crate::answer::Answer;
use crate::catalog::CatalogError;
use crate::dialect::BudgetRequestStatement;
use crate::engine::session::Session;
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::{BudgetRequest, OWNER, RequestState, own_requests, requests};
use crate::owner::requested_amount;
use crate::refusal::{Reason, Refusal};
use crate::visible;

impl Session {
    /// Makes or decides a request.
    ///
    /// # Errors
    /// A refusal for an owner who asks and an analyst who decides, and the vault's own.
    pub(super) fn decide(&self, statement: &BudgetRequestStatement) -> Result<String, Error> {
        let vault = &self.inner.vault;
        let told = match (statement, self.is_owner()) {
            (BudgetRequestStatement::Ask { budget, .. }, true) => {
                return Err(Refusal::new(
                    Reason::Statement,
                    "REQUEST",
                    "the owner raises a limit, and asks nobody",
                    format!(
                        "ALTER PRIVACY BUDGET {} SET LIMIT (…)",
                        crate::catalog::quoted(budget)
                    ),
                )
                .into());
            }
            (BudgetRequestStatement::Ask { budget, add, reason }, false) => {
                let catalog = self.inner.catalog_of(&self.analyst)?;
                let unknown = || CatalogError::UnknownBudget { budget: budget.clone() };
                let table = &catalog.budget(budget).ok_or_else(unknown)?.table;
                catalog.table(table).ok_or_else(unknown)?;
                let add = requested_amount(add)?;
                let number = vault.request_budget(&self.analyst, budget, add, reason)?;
                format!(
                    "request {number}: {add} more for budget {budget}; the owner decides, and SHOW PRIVACY REQUESTS says how"
                )
            }
            (
                BudgetRequestStatement::Approve { .. } | BudgetRequestStatement::Deny { .. },
                false,
            ) => {
                return Err(Refusal::new(
                    Reason::Statement,
                    "a decision",
                    "only the owner's session approves and denies requests",
                    "SHOW PRIVACY REQUESTS",
                )
                .into());
            }
            (BudgetRequestStatement::Approve { number }, true) => {
                let state = vault.approve_request(*number)?;
                let warned = crate::owner::limit_warnings(&self.inner, &state.budget)?;
                format!(
                    "request {number} is approved: budget {} has {} left{warned}",
                    state.budget.name, state.left
                )
            }
            (BudgetRequestStatement::Deny { number, reason }, true) => {
                let request = vault.deny_request(*number, reason)?;
                format!("request {number} of {} is denied", request.analyst)
            }
        };
        Ok(visible::line(&told).into_owned())
    }
}

/// The requests that a reader may see, the newest first.
pub(super) fn show(inner: &Inner, reader: &str) -> Result<Answer, Error> {
    let history = inner.vault.declarations()?;
    let mut all = requests(&history);
    if reader != OWNER {
        let own = own_requests(&history, reader);
        all.retain(|request| own.contains(&request.number));
    }
    all.reverse();
    let texts = |of: fn(&BudgetRequest) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(all.iter().map(of)))
    };
    let at = TimestampSecondArray::from_iter_values(all.iter().map(|request| request.at));
    let columns: [(&str, ArrayRef); 7] = [
        ("request", Arc::new(Int64Array::from_iter_values(all.iter().map(|r| r.number)))),
        ("time", Arc::new(at.with_timezone("UTC"))),
        ("analyst", texts(|request| request.analyst.clone())),
        ("budget", texts(|request| request.budget.clone())),
        ("add", texts(|request| request.add.to_string())),
        ("state", texts(|request| state_text(&request.state))),
        ("reason", texts(|request| request.reason.clone())),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
    Ok(Answer::public(batch))
}

fn state_text(state: &RequestState) -> String {
    match state {
        RequestState::Open => "open".to_owned(),
        RequestState::Approved(_) => "approved".to_owned(),
        RequestState::Denied(_, reason) if reason.is_empty() => "denied".to_owned(),
        RequestState::Denied(_, reason) => format!("denied: {reason}"),
    }
}
