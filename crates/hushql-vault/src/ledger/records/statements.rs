//! The texts of the charged statements, each stored once under its hash.
//!
//! A ledger entry contains the hash, which the chain covers. Only the analyst who asked and the
//! owner see the text. A text that does not match its hash is damage. Texts are never deleted, so
//! they are kept short: of a longer text, the vault keeps the beginning and the hash of the whole.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::store::Fields;
use crate::ledger::error::Fault;

/// The table of the texts.
pub(crate) const SCHEMA: &str = "
CREATE TABLE statement (
    hash BLOB PRIMARY KEY NOT NULL CHECK (length(hash) = 32),
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER statement_is_never_changed BEFORE UPDATE ON statement
BEGIN SELECT RAISE(ABORT, 'a statement is never changed'); END;

CREATE TRIGGER statement_is_never_deleted BEFORE DELETE ON statement
BEGIN SELECT RAISE(ABORT, 'a statement is never deleted'); END;
";

/// The hash under which a text is stored.
pub(crate) fn hash(text: &str) -> [u8; 32] {
    let mut fields = Fields::new("hushql statement 1");
    fields.text(text);
    fields.digest()
}

/// The replacement for a text that the reader may not see.
pub(crate) fn name(hash: &[u8; 32]) -> String {
    hash.iter().fold("sha256:".to_owned(), |name, byte| name + &format!("{byte:02x}"))
}

/// The longest text that is stored unchanged, in bytes: for charged statements, and for free ones.
const LONGEST: usize = 4_096;
const LONGEST_FREE: usize = 1_024;

/// The stored beginning of a longer text, in bytes.
const BEGINNING: usize = 3_072;

/// The stored text of a statement that shows answers that were paid for before.
///
/// Such a statement is free, so texts of any length could fill the disk at no cost.
pub(crate) fn of_replay(text: &str) -> &str {
    if text.len() <= LONGEST_FREE { text } else { "(a longer statement)" }
}

/// The stored text for a field of an entry.
pub(crate) fn beginning(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_FREE);
    match text.get(..end) {
        Some(beginning) if end < text.len() => format!("{beginning}…"),
        Some(_) | None => text.to_owned(),
    }
}

/// The stored form of a text.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let beginning = text.get(..text.floor_char_boundary(BEGINNING)).unwrap_or_default();
    let (length, whole) = (text.len(), name(&hash(text)));
    Cow::Owned(format!("{beginning}\n… (shortened: {length} bytes in all, {whole})"))
}

/// Stores a text, or the shortened form of a longer one, and returns its hash. The caller holds the
/// write lock.
pub(crate) fn keep(connection: &Connection, text: &str) -> Result<[u8; 32], Fault> {
    let text = shortened(text);
    let hash = hash(&text);
    connection
        .prepare_cached(
            "INSERT INTO statement (hash, text) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute(params![hash, text])?;
    Ok(hash)
}

/// The text with this hash, if it is stored.
///
/// # Errors
/// [`Fault::Damage`] if another text is in its place.
pub(crate) fn text(connection: &Connection, hash: &[u8; 32]) -> Result<Option<String>, Fault> {
    let mut statement = connection.prepare_cached("SELECT text FROM statement WHERE hash = ?1")?;
    let text: Option<String> = statement.query_row([hash], |row| row.get(0)).optional()?;
    match text {
        Some(text) if self::hash(&text) != *hash => {
            Err(Fault::Damage("a statement of its ledger was altered".to_owned()))
        }
        text => Ok(text),
    }
}

/// Checks that each text to which an entry refers is stored, and that each text matches its hash.
///
/// # Errors
/// [`Fault::Damage`] for the first text that is missing or altered.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let damage = || Fault::Damage("a statement of its ledger is missing or altered".to_owned());
    let mut missing = connection
        .prepare("SELECT 1 FROM ledger WHERE statement NOT IN (SELECT hash FROM statement)")?;
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
