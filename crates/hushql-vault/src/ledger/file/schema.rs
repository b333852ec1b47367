//! The tables of a vault, the settings of a connection, and the check of a file before use.
//!
//! In: a connection. Out: a connection on which every write is durable when it returns, or a
//! refusal. Under these settings, injected kills and write errors lost no charge. The file must
//! declare itself a vault, have exactly the tables and triggers below, and be sound.
//!
//! ```text
//! ledger(sequence, charge, analyst, spaces, budgets, mechanism, parameters, sensitivity,
//!        epsilon_nano, delta_atto, rho_nano, rho_delta_atto, plan_hash, at, statement, cells, nonce, chain)
//!                                                          one row per release, append-only
//! checkpoint(sequence, chain, sums, cells, digest)         one row per 256 entries, append-only
//! statement(hash, text)     declaration     home           see the modules of these names
//! release_table     release_grant                          see `records/answers`
//! kept_draw                                               see `records/draw_records`
//! role     log_in_secret                                  see `records/roles`
//! analyst(name)     seal, declared_table, budget, slice, cell_column, table_version, role_grant    see the catalog's store
//! ```

use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::catalog::{cell, grants, numbers, slices, store};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::{home, wait};
use crate::ledger::format_version::VERSION;
use crate::ledger::records::{
    analyst, answers, chain, checkpoint, draw_records, drift, history, roles, statements,
};

/// "Hush" in ASCII, which marks a SQLite file as a vault.
const APPLICATION_ID: i64 = 0x4875_7368;

/// The tables of a vault that do not grow with the ledger. The check of the schema's own table
/// covers the free pages too.
const CHECKED: [&str; 16] = [
    "sqlite_schema",
    "seal",
    "analyst",
    "declared_table",
    "joined_space",
    "budget",
    "slice",
    "cell_column",
    "home",
    "role",
    "log_in_secret",
    "table_version",
    "refreshed_table",
    "role_grant",
    "grants_required",
    "templates_only",
];

/// The ledger's own tables.
///
/// Each release has a ρ with a δ; a release that was calibrated to ρ alone has no (ε, δ). Entries
/// are numbered without gaps. This also prevents `INSERT OR REPLACE` of an old entry, which runs no
/// trigger on DELETE.
const SCHEMA: &str = "
CREATE TABLE analyst (
    name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 64)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0),
    charge INTEGER NOT NULL CHECK (charge BETWEEN 1 AND sequence),
    analyst TEXT NOT NULL REFERENCES analyst (name),
    spaces TEXT NOT NULL,
    budgets TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    parameters TEXT NOT NULL,
    sensitivity TEXT NOT NULL,
    epsilon_nano INTEGER CHECK (epsilon_nano >= 0),
    delta_atto INTEGER CHECK (delta_atto >= 0),
    rho_nano INTEGER NOT NULL CHECK (rho_nano >= 0),
    rho_delta_atto INTEGER NOT NULL CHECK (rho_delta_atto >= 0),
    plan_hash BLOB NOT NULL CHECK (length(plan_hash) = 32),
    at INTEGER NOT NULL,
    statement BLOB NOT NULL CHECK (length(statement) = 32),
    cells TEXT,
    nonce BLOB NOT NULL CHECK (length(nonce) = 16),
    chain BLOB NOT NULL CHECK (length(chain) = 32),
    CONSTRAINT pair CHECK ((epsilon_nano IS NULL) = (delta_atto IS NULL))
) STRICT;

CREATE INDEX ledger_of_analyst ON ledger (analyst, sequence);

CREATE TRIGGER ledger_grows_at_its_end BEFORE INSERT ON ledger
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM ledger)
BEGIN SELECT RAISE(ABORT, 'the ledger grows at its end only'); END;

CREATE TRIGGER ledger_is_never_changed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is never changed'); END;

CREATE TRIGGER ledger_is_never_deleted BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is never deleted'); END;
";

/// Sets a connection up.
///
/// # Guarantee
/// When a `COMMIT` on this connection returns without an error, it has been synced to the disk,
/// with the removal of the journal (`synchronous = EXTRA`).
pub(crate) fn configure(connection: &mut Connection, busy: Duration) -> Result<(), Fault> {
    wait::set(connection, busy)?;
    // The file must not make SQLite run dangerous code, and no write may bypass the tables.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Plans must not depend on bound values. Otherwise a cached statement with LIMIT is planned
    // again for each value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(
        "PRAGMA trusted_schema = OFF;
         PRAGMA foreign_keys = ON;
         PRAGMA recursive_triggers = ON;
         PRAGMA cell_size_check = ON;
         PRAGMA synchronous = EXTRA;",
    )?;
    // SQLite may silently keep the old mode, so check the mode that it returns.
    let mode: String =
        connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    let synchronous = number(connection, "PRAGMA synchronous")?;
    let foreign_keys = number(connection, "PRAGMA foreign_keys")?;
    if !matches!(mode.as_str(), "delete" | "memory") || synchronous != 3 || foreign_keys != 1 {
        return Err(Fault::Damage(format!("its journal mode is `{mode}`")));
    }
    Ok(())
}

/// Creates the tables in an empty database; the caller holds the transaction.
pub(crate) fn create(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch(store::SCHEMA)?;
    for schema in [
        SCHEMA,
        slices::SCHEMA,
        cell::SCHEMA,
        numbers::SCHEMA,
        grants::SCHEMA,
        statements::SCHEMA,
        history::SCHEMA,
        home::SCHEMA,
        answers::SCHEMA,
        draw_records::SCHEMA,
        drift::SCHEMA,
        roles::SCHEMA,
    ] {
        connection.execute_batch(schema)?;
    }
    checkpoint::create(connection)?;
    connection.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
    ))?;
    Ok(())
}

/// Writes the seals of a vault without declarations, charges or home.
pub(crate) fn initialise(connection: &Connection) -> Result<(), Fault> {
    store::reseal(connection)?;
    chain::initialise(connection)?;
    history::initialise(connection)?;
    home::initialise(connection)?;
    answers::initialise(connection)?;
    roles::initialise(connection)?;
    analyst::reseal(connection)
}

/// The format of a vault.
///
/// # Errors
/// [`VaultError::NotAVault`].
pub(crate) fn format(connection: &Connection, path: &str) -> Result<i64, Fault> {
    if number(connection, "PRAGMA application_id")? != APPLICATION_ID {
        return Err(VaultError::NotAVault { path: path.to_owned() }.into());
    }
    number(connection, "PRAGMA user_version")
}

/// Checks that a file is a vault, of this format, with exactly our tables.
///
/// # Guarantee
/// `Ok` only if SQLite finds the list of free pages and the pages of the declarations sound. The
/// pages of the ledger and of its checkpoints, whose number grows with the charges, are not checked
/// here: their hashes detect damage when they are read, and so does [`check_whole`].
pub(crate) fn check(connection: &Connection, path: &str) -> Result<(), Fault> {
    let expected = Connection::open_in_memory()?;
    create(&expected)?;
    check_tables(connection, path, &expected)?;
    CHECKED
        .into_iter()
        .try_for_each(|table| check_sound(connection, &format!("PRAGMA quick_check({table})")))
}

fn check_tables(connection: &Connection, path: &str, expected: &Connection) -> Result<(), Fault> {
    let found = format(connection, path)?;
    if found != VERSION {
        let path = path.to_owned();
        return Err(VaultError::Version { path, found, known: VERSION }.into());
    }
    // A missing or additional trigger would change the effect of a write.
    if objects(connection)? != objects(expected)? {
        return Err(Fault::Damage("its tables are not those of a vault".to_owned()));
    }
    Ok(())
}

/// Checks every page and every row of the file.
///
/// # Guarantee
/// `Ok` only if SQLite's full check finds no page that is damaged, lost or used twice, and no row
/// that breaks a constraint.
pub(crate) fn check_whole(connection: &Connection) -> Result<(), Fault> {
    check_sound(connection, "PRAGMA integrity_check(1)")?;
    let mut references = connection.prepare("PRAGMA foreign_key_check")?;
    if references.exists([])? {
        return Err(Fault::Damage("a row names one that does not exist".to_owned()));
    }
    Ok(())
}

/// The length in bytes that the file must have according to its header.
pub(crate) fn length(connection: &Connection) -> Result<u64, Fault> {
    let (pages, size) =
        (number(connection, "PRAGMA page_count")?, number(connection, "PRAGMA page_size")?);
    Ok(u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0)))
}

fn check_sound(connection: &Connection, pragma: &str) -> Result<(), Fault> {
    let sound: String = connection.query_row(pragma, [], |row| row.get(0))?;
    if sound == "ok" { Ok(()) } else { Err(Fault::Damage("SQLite's own check fails".to_owned())) }
}

fn number(connection: &Connection, pragma: &str) -> Result<i64, Fault> {
    Ok(connection.query_row(pragma, [], |row| row.get(0))?)
}

/// Every table, index and trigger with its text.
fn objects(connection: &Connection) -> Result<Vec<[Option<String>; 4]>, Fault> {
    let mut statement = connection
        .prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")?;
    let rows =
        statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
