//! Format 8: its tables, and the seal of budgets without the answers that they replay.
//!
//! In: a connection to a vault that may have this format. Out: nothing, if the tables are those of the format, the file
//! is sound, and the budgets, checkpoints and stored answers match their seals. Everything else is as in the present format:
//! [`complete`](super::format_5::complete) verifies it once the rows are in the present tables.

use rusqlite::Connection;

use super::sealed::{Slices, check_budgets};
use crate::ledger::error::Fault;
use crate::ledger::file::schema;
use crate::ledger::records::answers;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::checkpoint::Checkpoint;

/// The number of this format.
pub(super) const FORMAT: i64 = 8;

/// The tables of format 8.
const TABLES: &str = include_str!("format_8.sql");

/// Checks a vault of format 8.
///
/// # Errors
/// Those of [`schema::check_format`], and [`Fault::Damage`] if the budgets, the ledger or the stored answers are not as they
/// were written.
pub(super) fn check(connection: &Connection, path: &str) -> Result<(), Fault> {
    // Another program may have upgraded the vault in the meantime.
    schema::check_format(connection, path, FORMAT, TABLES)?;
    check_budgets(
        connection,
        "hushql budgets 6",
        &["name", "table_name", "notion"],
        "promised_epsilon, promised_delta, coupon_epsilon, limit_loss, limit_delta, floor_loss,
             floor_delta, default_epsilon, default_rho, default_delta, min_loss, max_loss, max_delta",
        Slices::Sealed,
    )?;
    answers::all(connection)?;
    Witness::check_with_checkpoints(connection, Checkpoint::check)
}
