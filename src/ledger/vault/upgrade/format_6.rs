//! Format 6: its tables, the seal of budgets without coupons, and checkpoints without numbers of entries.
//!
//! In: a connection to a vault that may have this format. Out: nothing, if the tables are those of the format, the file
//! is sound, and the budgets and checkpoints match their seals. Everything else is as in the present format:
//! [`complete`](super::format_5::complete) verifies it once the rows are in the present tables.

use rusqlite::Connection;

use super::sealed::{Slices, check_budgets};
use crate::ledger::error::Fault;
use crate::ledger::file::schema;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::checkpoint::Older;

/// The number of this format.
pub(super) const FORMAT: i64 = 6;

/// The tables of format 6.
const TABLES: &str = include_str!("format_6.sql");

/// Checks a vault of format 6.
///
/// # Errors
/// Those of [`schema::check_format`], and [`Fault::Damage`] if the budgets or the ledger are not as they were written.
pub(super) fn check(connection: &Connection, path: &str) -> Result<(), Fault> {
    // Another program may have upgraded the vault in the meantime.
    schema::check_format(connection, path, FORMAT, TABLES)?;
    check_budgets(
        connection,
        "hushql budgets 4",
        &["name", "table_name", "notion"],
        "promised_epsilon, promised_delta, limit_loss, limit_delta, floor_loss, floor_delta,
             default_epsilon, default_rho, default_delta, min_loss, max_loss, max_delta",
        Slices::Unknown,
    )?;
    Witness::check_with_older_checkpoints(connection, Older::WithoutNumbers)
}
