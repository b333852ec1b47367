//! Format 8: its tables, and the seal of budgets without the answers that they replay.
//!
//! In: a connection to a vault that may have this format. Out: nothing, if the tables are those of the format, the file
//! is sound, and the budgets, checkpoints and stored answers match their seals: the budgets that replay answers, which had a table of
//! their own. Everything else is as in the present format: [`complete`] verifies it once the rows are in the present tables.

use rusqlite::Connection;

use super::format_5;
use super::sealed::{Slices, check_budgets};
use crate::catalog::Replay;
use crate::catalog::alter;
use crate::ledger::error::Fault;
use crate::ledger::file::schema;
use crate::ledger::records::answers;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::checkpoint::Older;

/// The number of this format.
pub(super) const FORMAT: i64 = 8;

/// The tables of format 8.
const TABLES: &str = include_str!("format_8.sql");

/// A budget that replays answers, and whose.
#[derive(Debug)]
pub(super) struct Replayed {
    budget: String,
    readers: Replay,
}

/// The budgets of a vault of format 8 that replay answers, after a check of the vault.
///
/// # Errors
/// Those of [`schema::check_format`], and [`Fault::Damage`] if the budgets, the ledger or the stored answers are not as they
/// were written.
pub(super) fn check(connection: &Connection, path: &str) -> Result<Vec<Replayed>, Fault> {
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
    Witness::check_with_older_checkpoints(connection, Older::OfOneCell)?;
    let mut statement = connection.prepare("SELECT name, readers FROM replayed_budget")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let replayed = |row: Result<(String, String), rusqlite::Error>| {
        let (budget, word) = row?;
        let unknown = || Fault::Damage("a budget replays what is not known".to_owned());
        Ok(Replayed { budget, readers: Replay::of_word(&word).ok_or_else(unknown)? })
    };
    rows.map(replayed).collect()
}

/// As [`format_5::complete`], with whose answers each budget replays.
///
/// # Errors
/// [`Fault::Damage`] if anything was altered.
pub(super) fn complete(connection: &Connection, replayed: &[Replayed]) -> Result<Witness, Fault> {
    let witness = format_5::complete(connection)?;
    for Replayed { budget, readers } in replayed {
        alter::set_replay(connection, budget, *readers)?;
    }
    Ok(witness)
}
