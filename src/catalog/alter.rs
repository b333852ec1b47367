//! Changes of a budget that exists: its limit, and what one query spends.
//!
//! In: an open connection and the new amounts; the caller holds the transaction. Out: the row of the budget, and its seal. What
//! is spent does not change.
//!
//! ```text
//! ALTER PRIVACY BUDGET b SET LIMIT (epsilon=5)             →   limit_…, floor_… = spent_…
//! ALTER PRIVACY BUDGET b SET PER QUERY (default=0.1)       →   default_…, min_…, max_…
//! ```

use rusqlite::{Connection, params};

use super::budget::check_limit;
use super::store::{accounts, reseal_budgets};
use super::{Budget, CatalogError, PerQuery};
use crate::privacy::Spend;

/// Sets the limit of a budget; a limit below what is spent leaves nothing.
///
/// # Errors
/// [`CatalogError::UnknownBudget`], [`CatalogError::Amount`] when the limit is out of range, or
/// [`CatalogError::Accounting`] when the budget counts in another measure.
pub(crate) fn set_limit(
    connection: &Connection,
    budget: &str,
    limit: Spend,
    promise: Option<Spend>,
) -> Result<(), CatalogError> {
    check_limit(budget, limit)?;
    let accounts = accounts(connection)?;
    let known = accounts.iter().find(|account| account.budget.name == budget);
    let known = known.ok_or_else(|| CatalogError::UnknownBudget { budget: budget.to_owned() })?;
    let known = &known.budget;
    if known.limit.notion != limit.notion || known.promise.is_some() != promise.is_some() {
        return Err(known.counts_otherwise());
    }
    connection.execute(
        "UPDATE budget SET limit_loss = ?2, limit_delta = ?3, floor_loss = spent_loss,
             floor_delta = spent_delta, promised_epsilon = ?4, promised_delta = ?5
         WHERE name = ?1",
        params![
            budget,
            limit.nano,
            limit.atto_delta,
            promise.map(|promise| promise.nano),
            promise.map(|promise| promise.atto_delta),
        ],
    )?;
    reseal_budgets(connection)
}

/// Sets what a query spends of a budget by default, at least and at most.
///
/// # Errors
/// [`CatalogError::UnknownBudget`], and those of [`Budget::check`].
pub(crate) fn set_per_query(
    connection: &Connection,
    budget: &str,
    per_query: PerQuery,
) -> Result<(), CatalogError> {
    let accounts = accounts(connection)?;
    let known = accounts.into_iter().find(|account| account.budget.name == budget);
    let known = known.ok_or_else(|| CatalogError::UnknownBudget { budget: budget.to_owned() })?;
    Budget { per_query, ..known.budget }.check()?;
    let PerQuery { default, default_rho, default_delta, min, max, max_delta } = per_query;
    connection.execute(
        "UPDATE budget SET default_epsilon = ?2, default_rho = ?3, default_delta = ?4,
             min_loss = ?5, max_loss = ?6, max_delta = ?7
         WHERE name = ?1",
        params![budget, default, default_rho, default_delta, min, max, max_delta],
    )?;
    reseal_budgets(connection)
}
