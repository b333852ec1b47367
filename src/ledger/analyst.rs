//! Who was let in: the names under which charges are written.
//!
//! A name goes in, a sealed row comes out; the caller holds the transaction. The list only grows, and a row
//! that was altered, dropped or slipped in is noticed by the seal.
//!
//! ```text
//! analyst(name)                              seal('analysts') = SHA-256 of every name
//! ```

use rusqlite::{Connection, params};

use super::error::{Fault, VaultError};
use crate::catalog::store::{self, Fields, Kind};

/// Refuses what is no analyst's name.
pub(super) fn check(name: &str) -> Result<(), VaultError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(VaultError::AnalystName { name: name.to_owned() })
}

/// Adds an analyst who is not known yet; the caller has checked the name.
pub(super) fn add(connection: &Connection, name: &str) -> Result<(), Fault> {
    if all(connection)?.iter().any(|known| known == name) {
        return Ok(());
    }
    connection.execute("INSERT INTO analyst (name) VALUES (?1)", params![name])?;
    reseal(connection)
}

/// Everyone who was let in, in order, checked against the seal.
pub(super) fn all(connection: &Connection) -> Result<Vec<String>, Fault> {
    let names = rows(connection)?;
    store::check_seal(connection, Kind::Analysts, digest(&names))?;
    Ok(names)
}

/// Seals the list as it is.
pub(super) fn reseal(connection: &Connection) -> Result<(), Fault> {
    Ok(store::set_seal(connection, Kind::Analysts, digest(&rows(connection)?))?)
}

fn rows(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare_cached("SELECT name FROM analyst ORDER BY name")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn digest(names: &[String]) -> [u8; 32] {
    let mut fields = Fields::new("hushql analysts 1");
    names.iter().for_each(|name| fields.text(name));
    fields.digest()
}
