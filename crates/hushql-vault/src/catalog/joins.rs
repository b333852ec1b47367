//! The changes of the vault when the people of a table join others: joined unit domains, and their
//! budgets.
//!
//! In: two unit domains, or a budget and its spent amount. The caller holds the transaction and has
//! derived the consequences of the changed declarations. Out: rows under the seals of the catalog.
//! Joins and amounts are never undone.
//!
//! ```text
//! visits, charged, now leads to people   →   joined_space (people, visits); the budgets of both show both sums
//! ```

use hushql_privacy::privacy::Spend;
use rusqlite::{Connection, params};

use super::CatalogError;
use super::store::{accounts, checked_table_rows, reseal_budgets, reseal_tables};

/// Joins two unit domains permanently: charges on either count for the people of both.
pub(crate) fn join_unit_domains(
    connection: &Connection,
    one: &str,
    other: &str,
) -> Result<(), CatalogError> {
    checked_table_rows(connection)?;
    connection.execute(
        "INSERT INTO joined_space VALUES (min(?1, ?2), max(?1, ?2)) ON CONFLICT DO NOTHING",
        [one, other],
    )?;
    reseal_tables(connection)
}

/// Sets the spent amount of a budget whose table joined people with a higher one. The amount may
/// exceed the limit.
///
/// # Errors
/// [`CatalogError::Store`] when the amount would fall: the database itself refuses that.
pub(crate) fn carry_spent(
    connection: &Connection,
    budget: &str,
    spent: Spend,
) -> Result<(), CatalogError> {
    accounts(connection)?;
    connection.execute(
        "UPDATE budget SET spent_loss = ?2, spent_delta = ?3, floor_loss = ?2, floor_delta = ?3
         WHERE name = ?1 AND notion = ?4",
        params![budget, spent.nano, spent.atto_delta, spent.notion.name()],
    )?;
    reseal_budgets(connection)
}
