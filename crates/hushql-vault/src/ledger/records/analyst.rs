//! The admitted analysts: the names under which the ledger records charges.
//!
//! In: a name. Out: a sealed row. The caller holds the transaction. The list only grows, and the
//! seal detects a row that was altered, removed or added.
//!
//! ```text
//! analyst(name)                              seal('analysts') = SHA-256 of every name
//! ```

use rusqlite::{Connection, params};

use crate::catalog::store::{self, Fields, SealedRows};
use crate::ledger::error::{Fault, VaultError};

/// Refuses a name that no analyst may have: one with other characters, or one that looks like the
/// owner's name.
///
/// People read the names beside the charges.
pub(crate) fn admit(name: &str) -> Result<(), VaultError> {
    check(name)?;
    if skeleton(name) == OWNER {
        return Err(VaultError::AnalystName { name: name.to_owned() });
    }
    Ok(())
}

/// A simplified name, equal for names that look alike: without case and separators, with one letter
/// for each group of look-alikes.
fn skeleton(name: &str) -> String {
    let plain = name.to_ascii_lowercase().replace(['_', '-'], "");
    plain.replace('0', "o").replace('3', "e").replace("vv", "w").replace("uu", "w")
}

/// Refuses a name that the ledger cannot hold.
pub(crate) fn check(name: &str) -> Result<(), VaultError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(VaultError::AnalystName { name: name.to_owned() })
}

/// Adds an analyst unless the name is known; the caller has checked the name.
pub(crate) fn add(connection: &Connection, name: &str) -> Result<(), Fault> {
    if all(connection)?.iter().any(|known| known == name) {
        return Ok(());
    }
    connection.execute("INSERT INTO analyst (name) VALUES (?1)", params![name])?;
    reseal(connection)
}

/// All admitted analysts in order, checked against the seal.
pub(crate) fn all(connection: &Connection) -> Result<Vec<String>, Fault> {
    let names = rows(connection)?;
    store::check_seal(connection, SealedRows::Analysts, digest(&names))?;
    Ok(names)
}

/// Seals the present list.
pub(crate) fn reseal(connection: &Connection) -> Result<(), Fault> {
    Ok(store::set_seal(connection, SealedRows::Analysts, digest(&rows(connection)?))?)
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

/// The name under which the owner's queries are charged.
pub const OWNER: &str = "owner";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_read_like_the_owners_are_refused() {
        for name in [
            "owner",
            "Owner",
            "OWNER",
            "0wner",
            "0WNER",
            "own3r",
            "0wn3r",
            "OWN3R",
            "ovvner",
            "OVVNER",
            "ouuner",
            "owner_",
            "_owner",
            "-owner",
            "o-w-n-e-r",
            "ow_ner",
            "0-VVN3R",
            // Cyrillic, full-width and combining look-alikes are not allowed in a name.
            "\u{43e}wner",
            "own\u{435}r",
            "\u{ff4f}wner",
            "ow\u{200b}ner",
            "owner\u{301}",
            "owner ",
            "",
        ] {
            let refused = admit(name).unwrap_err();
            assert!(matches!(refused, VaultError::AnalystName { .. }), "{name}");
            assert!(refused.to_string().is_ascii(), "{refused}");
        }
        for name in ["lab", "owners", "co-owner", "owner2", "downer", "root", "admin", "Nowe3r"] {
            admit(name).unwrap();
        }
    }
}
