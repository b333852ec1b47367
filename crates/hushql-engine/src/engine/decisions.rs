//! Requests for more of a budget, as sessions make and decide them.
//!
//! In: a session and a statement. Out: one sentence.
//!
//! ```text
//! REQUEST PRIVACY BUDGET study ADD (epsilon=1) REASON 'the second year'   →   request 17: ε = 1 more for budget study; …
//! ```

use crate::catalog::CatalogError;
use crate::dialect::BudgetRequestStatement;
use crate::engine::session::Session;
use crate::engine::shown_requests::shown_number;
use crate::error::Error;
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
                let number = shown_number(&self.inner, &catalog, &self.analyst, number)?;
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
