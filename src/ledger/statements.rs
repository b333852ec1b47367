//! The texts of the statements that were charged, each kept once and named by its hash.
//!
//! An entry of the ledger holds the hash, which the chain covers; the text is looked up for its own analyst and the owner. A text
//! that does not have its hash is damage.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fault;
use crate::catalog::store::Fields;

/// The table of the texts.
pub(super) const SCHEMA: &str = "
CREATE TABLE statement (
    hash BLOB PRIMARY KEY NOT NULL CHECK (length(hash) = 32),
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER statement_is_never_changed BEFORE UPDATE ON statement
BEGIN SELECT RAISE(ABORT, 'a statement is never changed'); END;

CREATE TRIGGER statement_is_never_deleted BEFORE DELETE ON statement
BEGIN SELECT RAISE(ABORT, 'a statement is never deleted'); END;
";

/// The hash under which a text is kept.
pub(super) fn hash(text: &str) -> [u8; 32] {
    let mut fields = Fields::new("hushql statement 1");
    fields.text(text);
    fields.digest()
}

/// What stands for a text whose reader may not see it.
pub(super) fn name(hash: &[u8; 32]) -> String {
    hash.iter().fold("sha256:".to_owned(), |name, byte| name + &format!("{byte:02x}"))
}

/// Keeps a text; the caller holds the write lock.
pub(super) fn keep(connection: &Connection, text: &str) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO statement (hash, text) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute(params![hash(text), text])?;
    Ok(())
}

/// The text with this hash, if it was kept.
///
/// # Errors
/// [`Fault::Damage`] when another text is in its place.
pub(super) fn text(connection: &Connection, hash: &[u8; 32]) -> Result<Option<String>, Fault> {
    let mut statement = connection.prepare_cached("SELECT text FROM statement WHERE hash = ?1")?;
    let text: Option<String> = statement.query_row([hash], |row| row.get(0)).optional()?;
    match text {
        Some(text) if self::hash(&text) != *hash => {
            Err(Fault::Damage("a statement of its ledger was altered".to_owned()))
        }
        text => Ok(text),
    }
}

/// Checks that every entry that names a text has it, and that every text is the one of its hash.
///
/// # Errors
/// [`Fault::Damage`] for the first one that is not.
pub(super) fn check(connection: &Connection) -> Result<(), Fault> {
    let damage = || Fault::Damage("a statement of its ledger is missing or altered".to_owned());
    let mut missing = connection.prepare(
        "SELECT 1 FROM ledger WHERE statement IS NOT NULL
             AND statement NOT IN (SELECT hash FROM statement)",
    )?;
    if missing.exists([])? {
        return Err(damage());
    }
    let mut statement = connection.prepare("SELECT hash, text FROM statement")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if row.get::<_, [u8; 32]>(0)? != hash(&row.get::<_, String>(1)?) {
            return Err(damage());
        }
    }
    Ok(())
}
