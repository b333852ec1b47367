//! The history of declarations: who changed what and when, in a hash chain like the ledger's.
//!
//! In: the declarations before and after a transaction. Out: one entry for each change, appended in
//! the same transaction, so every declaration has an entry. Entries are never changed or deleted.
//!
//! ```text
//! sequence  at                    analyst  change
//! 7         2026-03-01 09:15:00   owner    budget study: for visits, limit ε = 5, δ = 0, per query at most anything
//!
//! chain(n) = SHA-256(chain(n − 1), n, at, analyst, change)
//! ```

use hushql_privacy::privacy::ParameterError;
use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::store::{self, Fields, SealedRows};
use crate::ledger::error::Fault;
use crate::ledger::records::time;

/// The table of the history.
pub(crate) const SCHEMA: &str = "
CREATE TABLE declaration (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0),
    at INTEGER NOT NULL,
    analyst TEXT NOT NULL,
    change TEXT NOT NULL,
    chain BLOB NOT NULL CHECK (length(chain) = 32)
) STRICT;

CREATE TRIGGER declaration_grows_at_its_end BEFORE INSERT ON declaration
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM declaration)
BEGIN SELECT RAISE(ABORT, 'the history grows at its end only'); END;

CREATE TRIGGER declaration_is_never_changed BEFORE UPDATE ON declaration
BEGIN SELECT RAISE(ABORT, 'the history is never changed'); END;

CREATE TRIGGER declaration_is_never_deleted BEFORE DELETE ON declaration
BEGIN SELECT RAISE(ABORT, 'the history is never deleted'); END;
";

/// One declaration that was made, changed or dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its number: from 1, without gaps.
    pub sequence: i64,
    /// The time, in seconds since 1970 (UTC).
    pub at: i64,
    /// The analyst whose session declared it.
    pub analyst: String,
    /// The new state of the declaration, such as `budget study: for visits, limit ε = 5, …` or
    /// `view v: dropped`.
    pub change: String,
}

/// Seals a history without entries.
pub(crate) fn initialise(connection: &Connection) -> Result<(), Fault> {
    Ok(store::set_seal(connection, SealedRows::History, [0; 32])?)
}

/// Appends changes; the caller holds the write lock.
pub(crate) fn append(
    connection: &Connection,
    analyst: &str,
    changes: Vec<String>,
) -> Result<(), Fault> {
    if changes.is_empty() {
        return Ok(());
    }
    let last = connection
        .query_row(
            "SELECT sequence, chain FROM declaration ORDER BY sequence DESC LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let (mut sequence, mut chain): (i64, [u8; 32]) = last.unwrap_or_default();
    store::check_seal(connection, SealedRows::History, chain)?;
    let at = time::now()?;
    for change in changes {
        sequence = sequence.checked_add(1).ok_or(ParameterError::Overflow)?;
        let entry = Declared { sequence, at, analyst: analyst.to_owned(), change };
        chain = link(&chain, &entry);
        connection.execute(
            "INSERT INTO declaration (sequence, at, analyst, change, chain) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![entry.sequence, entry.at, entry.analyst, entry.change, chain],
        )?;
    }
    Ok(store::set_seal(connection, SealedRows::History, chain)?)
}

/// The number of changes that an analyst has made today (UTC).
pub(crate) fn number_today(connection: &Connection, analyst: &str) -> Result<i64, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT count(*) FROM declaration WHERE analyst = ?1 AND at >= ?2")?;
    Ok(statement.query_row(params![analyst, time::today()?], |row| row.get(0))?)
}

/// The whole history, oldest first.
///
/// # Errors
/// [`Fault::Damage`] if an entry was altered, removed, inserted or cut off.
pub(crate) fn all(connection: &Connection) -> Result<Vec<Declared>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, at, analyst, change, chain FROM declaration ORDER BY sequence",
    )?;
    let mut rows = statement.query([])?;
    let (mut entries, mut before): (Vec<Declared>, [u8; 32]) = (Vec::new(), [0; 32]);
    while let Some(row) = rows.next()? {
        let entry = Declared {
            sequence: row.get(0)?,
            at: row.get(1)?,
            analyst: row.get(2)?,
            change: row.get(3)?,
        };
        let chain: [u8; 32] = row.get(4)?;
        let expected = entries.last().map_or(1, |last| last.sequence.saturating_add(1));
        if entry.sequence != expected || chain != link(&before, &entry) {
            return Err(Fault::Damage("the chain of its declarations is broken".to_owned()));
        }
        before = chain;
        entries.push(entry);
    }
    store::check_seal(connection, SealedRows::History, before)?;
    Ok(entries)
}

fn link(before: &[u8; 32], entry: &Declared) -> [u8; 32] {
    let Declared { sequence, at, analyst, change } = entry;
    let mut fields = Fields::new("hushql declaration 1");
    fields.bytes(before);
    fields.integer(*sequence);
    fields.integer(*at);
    fields.text(analyst);
    fields.text(change);
    fields.digest()
}
