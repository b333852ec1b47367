//! Changes an existing budget: its limit, the spending of one query, and its slices.
//!
//! In: an open connection and the new amounts; the caller holds the transaction. Out: the row of
//! the budget, and its seal. The spent amount does not change.
//!
//! ```text
//! ALTER PRIVACY BUDGET b SET LIMIT (epsilon=5)             →   limit_…, floor_… = spent_…
//! ALTER PRIVACY BUDGET b SET PER QUERY (default=0.1)       →   default_…, min_…, max_…
//! ALTER PRIVACY BUDGET b ADD SLICE lab LIMIT (epsilon=1)   →   a row of `slice`
//! ```

use hushql_privacy::privacy::Spend;
use rusqlite::{Connection, params};

use super::budget::check_limit;
use super::grants::{self, Granted};
use super::slices;
use super::store::{accounts, reseal_budgets};
use super::{Budget, CatalogError, PerQuery, Replay, Slice};

/// Sets the limit of a budget. If the limit is below the spent amount, nothing is left.
///
/// # Errors
/// [`CatalogError::UnknownBudget`], [`CatalogError::Amount`] when the limit is out of range,
/// [`CatalogError::Accounting`] when the budget counts in another measure, or
/// [`CatalogError::Slice`] when its slices exceed the limit.
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
    let (known, known_slices) = (&known.budget, &known.slices);
    if known.limit.notion != limit.notion || known.promise.is_some() != promise.is_some() {
        return Err(known.counts_otherwise());
    }
    slices::check(known, limit, known_slices)?;
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

/// Sets the default, minimum and maximum cost of one query.
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
    let PerQuery {
        default,
        default_rho,
        default_delta,
        min,
        max,
        max_delta,
        declared_bounds,
        min_units,
        min_units_beta,
    } = per_query;
    connection.execute(
        "UPDATE budget SET default_epsilon = ?2, default_rho = ?3, default_delta = ?4,
             min_loss = ?5, max_loss = ?6, max_delta = ?7, declared_bounds = ?8,
             min_units = ?9, min_units_beta = ?10
         WHERE name = ?1",
        params![
            budget,
            default,
            default_rho,
            default_delta,
            min,
            max,
            max_delta,
            declared_bounds,
            min_units,
            min_units_beta
        ],
    )?;
    reseal_budgets(connection)
}

/// Sets whose answers a budget replays.
///
/// # Errors
/// [`CatalogError::UnknownBudget`].
pub(crate) fn set_replay(
    connection: &Connection,
    budget: &str,
    to: Replay,
) -> Result<(), CatalogError> {
    of_budget(connection, budget)?;
    connection
        .execute("UPDATE budget SET replay = ?2 WHERE name = ?1", params![budget, to.word()])?;
    reseal_budgets(connection)
}

/// Stores a new slice. The caller has checked the name and the rest for everyone else.
///
/// # Errors
/// [`CatalogError::UnknownBudget`], [`CatalogError::DuplicateSlice`], and those of
/// [`slices::check`].
pub(crate) fn insert_slice(
    connection: &Connection,
    budget: &str,
    slice: &Slice,
) -> Result<(), CatalogError> {
    let (known, own) = of_budget(connection, budget)?;
    if own.iter().any(|known| known.analyst == slice.analyst) {
        let (budget, analyst) = (budget.to_owned(), slice.analyst.clone());
        return Err(CatalogError::DuplicateSlice { budget, analyst });
    }
    slices::check(&known, known.limit, own.iter().chain([slice]))?;
    connection.execute(
        "INSERT INTO slice (budget, analyst, limit_loss, limit_delta) VALUES (?1, ?2, ?3, ?4)",
        params![budget, slice.analyst, slice.limit.nano, slice.limit.atto_delta],
    )?;
    reseal_budgets(connection)
}

/// Sets the limit of a slice. If the limit is below the amount that its analyst spent, nothing is
/// left.
///
/// # Errors
/// [`CatalogError::UnknownBudget`], [`CatalogError::UnknownSlice`], and those of [`slices::check`].
pub(crate) fn set_slice_limit(
    connection: &Connection,
    budget: &str,
    slice: &Slice,
) -> Result<(), CatalogError> {
    let (known, mut own) = of_budget(connection, budget)?;
    let found = own.iter_mut().find(|known| known.analyst == slice.analyst);
    let found = found.ok_or_else(|| unknown(budget, &slice.analyst))?;
    found.limit = slice.limit;
    slices::check(&known, known.limit, &own)?;
    connection.execute(
        "UPDATE slice SET limit_loss = ?3, limit_delta = ?4 WHERE budget = ?1 AND analyst = ?2",
        params![budget, slice.analyst, slice.limit.nano, slice.limit.atto_delta],
    )?;
    reseal_budgets(connection)
}

/// Deletes a slice. Its analyst then shares the rest with everyone else.
///
/// # Errors
/// [`CatalogError::UnknownBudget`], [`CatalogError::UnknownSlice`].
pub(crate) fn delete_slice(
    connection: &Connection,
    budget: &str,
    analyst: &str,
) -> Result<(), CatalogError> {
    of_budget(connection, budget)?;
    let deleted = connection.execute(
        "DELETE FROM slice WHERE budget = ?1 AND analyst = ?2",
        params![budget, analyst],
    )?;
    if deleted != 1 {
        return Err(unknown(budget, analyst));
    }
    reseal_budgets(connection)
}

/// Deletes a budget. The ledger keeps its charges.
///
/// # Errors
/// [`CatalogError::UnknownBudget`].
pub(crate) fn delete_budget(connection: &Connection, budget: &str) -> Result<(), CatalogError> {
    accounts(connection)?;
    connection.execute("DELETE FROM slice WHERE budget = ?1", [budget])?;
    connection.execute("DELETE FROM cell_column WHERE budget = ?1", [budget])?;
    if connection.execute("DELETE FROM budget WHERE name = ?1", [budget])? != 1 {
        return Err(CatalogError::UnknownBudget { budget: budget.to_owned() });
    }
    grants::forget(connection, &Granted::Budget(budget.to_owned()))?;
    reseal_budgets(connection)
}

/// A budget, and its slices.
fn of_budget(connection: &Connection, budget: &str) -> Result<(Budget, Vec<Slice>), CatalogError> {
    let accounts = accounts(connection)?;
    let known = accounts.into_iter().find(|account| account.budget.name == budget);
    let known = known.ok_or_else(|| CatalogError::UnknownBudget { budget: budget.to_owned() })?;
    Ok((known.budget, known.slices))
}

fn unknown(budget: &str, analyst: &str) -> CatalogError {
    CatalogError::UnknownSlice { budget: budget.to_owned(), analyst: analyst.to_owned() }
}
