//! The version of the vault's format that this program knows, and of what reads it.

/// The present format.
pub(crate) const VERSION: i64 = 7;

/// The first version of the program that makes vaults of the present format.
const SINCE: &str = "0.1.0";

/// The format of the vaults that this program makes, and the first version of the program that made
/// them in this format.
pub fn vault_format() -> (i64, &'static str) {
    (VERSION, SINCE)
}

/// The version of SQLite, which is built in.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}
