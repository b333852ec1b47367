//! Format 5: its tables, and the seal of budgets without a minimum per query.
//!
//! In: a connection to a vault that may have this format. Out: nothing, if the tables are those of the format, the file
//! is sound, and the budgets and checkpoints match their seals. Everything else is as in the present format: once the rows are in the
//! present tables, [`complete`] verifies all of them by the present rules.

use rusqlite::Connection;

use super::sealed::{Slices, check_budgets};
use crate::catalog::{numbers, store};
use crate::ledger::error::Fault;
use crate::ledger::file::schema;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::checkpoint::Older;
use crate::ledger::records::{answers, history, kept, roles, statements};

/// The number of this format.
pub(super) const FORMAT: i64 = 5;

/// The tables of format 5.
const TABLES: &str = include_str!("format_5.sql");

/// Checks a vault of format 5.
///
/// # Errors
/// Those of [`schema::check_format`], and [`Fault::Damage`] if the budgets or the ledger are not as they were written.
pub(super) fn check(connection: &Connection, path: &str) -> Result<(), Fault> {
    // Another program may have upgraded the vault in the meantime.
    schema::check_format(connection, path, FORMAT, TABLES)?;
    check_budgets(
        connection,
        "hushql budgets 3",
        &["name", "table_name", "notion"],
        "promised_epsilon, promised_delta, limit_loss, limit_delta, floor_loss, floor_delta,
             default_epsilon, default_rho, default_delta, max_loss, max_delta",
        Slices::Unknown,
    )?;
    Witness::check_with_older_checkpoints(connection, Older::WithoutNumbers)
}

/// Seals the budgets, which have no minimum per query or no coupons, verifies the ledger from its first entry on, and writes
/// checkpoints with numbers of entries.
///
/// # Errors
/// [`Fault::Damage`] if an entry, a checkpoint, a statement, the history, a stored answer or a kept draw was altered.
pub(super) fn complete(connection: &Connection) -> Result<Witness, Fault> {
    store::reseal_budgets(connection)?;
    numbers::reseal(connection)?;
    answers::initialise(connection)?;
    roles::initialise(connection)?;
    let witness = Witness::with_new_checkpoints(connection)?;
    statements::check(connection)?;
    history::all(connection)?;
    answers::check(connection)?;
    kept::check(connection)?;
    Ok(witness)
}
