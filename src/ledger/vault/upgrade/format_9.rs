//! Format 9: its tables, in which all roles take the defaults of budgets.
//!
//! In: a connection to a vault that may have this format. Out: nothing, if the tables are those of the format, the file
//! is sound, and all that is in it matches its seals. All but the roles is as in the present format, and a role of format 9 has the
//! seal of one that takes defaults: [`complete`] compares it once the rows are in the present tables. Nothing is sealed anew.

use rusqlite::Connection;

use crate::catalog::store;
use crate::ledger::error::Fault;
use crate::ledger::file::schema;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::{answers, history, kept, roles, statements};

/// The number of this format.
pub(super) const FORMAT: i64 = 9;

/// The tables of format 9.
const TABLES: &str = include_str!("format_9.sql");

/// Checks a vault of format 9.
///
/// # Errors
/// Those of [`schema::check_format`], and [`Fault::Damage`] if anything was altered.
pub(super) fn check(connection: &Connection, path: &str) -> Result<(), Fault> {
    // Another program may have upgraded the vault in the meantime.
    schema::check_format(connection, path, FORMAT, TABLES)?;
    let mut witness = Witness::default();
    witness.follow(connection, i64::MAX)?;
    witness.check_end(connection)?;
    store::load(connection)?;
    answers::check(connection)?;
    kept::check(connection)
}

/// Verifies the ledger from its first entry on, writes its checkpoints, and compares the rest with its seals.
///
/// # Errors
/// [`Fault::Damage`] if anything was altered.
pub(super) fn complete(connection: &Connection) -> Result<Witness, Fault> {
    let witness = Witness::with_new_checkpoints(connection)?;
    roles::all(connection)?;
    statements::check(connection)?;
    history::all(connection)?;
    answers::check(connection)?;
    kept::check(connection)?;
    Ok(witness)
}
