//! Format 5: its tables, and the seal of budgets without a minimum per query.
//!
//! In: the connection to a vault that may be of this format. Out: nothing, where the tables are those of the format, the
//! file is sound, and the budgets are what was sealed. Everything else is as it is today: once the rows are in today's
//! tables, [`complete`] reads all of them by today's rules.

use rusqlite::Connection;

use super::sealed::check_budgets;
use crate::catalog::store;
use crate::ledger::chain::Witness;
use crate::ledger::error::Fault;
use crate::ledger::{history, schema, statements};

/// The number of this format.
pub(super) const FORMAT: i64 = 5;

/// The tables of format 5.
const TABLES: &str = include_str!("format_5.sql");

/// Checks a vault of format 5.
///
/// # Errors
/// What [`schema::check_format`] refuses with, and [`Fault::Damage`] where the budgets are not what was declared.
pub(super) fn check(connection: &Connection, path: &str) -> Result<(), Fault> {
    // Somebody else may have carried it over since it was looked at.
    schema::check_format(connection, path, FORMAT, TABLES)?;
    check_budgets(
        connection,
        "hushql budgets 3",
        &["name", "table_name", "notion"],
        "promised_epsilon, promised_delta, limit_loss, limit_delta, floor_loss, floor_delta,
             default_epsilon, default_rho, default_delta, max_loss, max_delta",
    )
}

/// Seals the budgets, which have no minimum per query, and reads the ledger from its first entry on.
///
/// # Errors
/// [`Fault::Damage`] where an entry, a checkpoint, a statement or the history is not what was written.
pub(super) fn complete(connection: &Connection) -> Result<Witness, Fault> {
    store::reseal_budgets(connection)?;
    let mut witness = Witness::default();
    witness.follow(connection, i64::MAX)?;
    witness.check_end(connection)?;
    statements::check(connection)?;
    history::all(connection)?;
    Ok(witness)
}
