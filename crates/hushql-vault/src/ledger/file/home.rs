//! The home of a vault: the name, the file and the folder under which it may be written, stored in
//! the vault.
//!
//! SQLite finds the journal of a file by the path with which it was opened. One file with two names
//! (by a hard link, a bind mount of the file, or a rename between a crash and the next opening) has
//! two journals, and one of them may undo charges that were made under the other name. A bind mount
//! of the folder shows the same folder, with the same journal in it. A vault therefore stores its
//! home and is refused elsewhere until its owner adopts it there. A copy is another file and is
//! refused, too: two copies would be two budgets.
//!
//! ```text
//! home(name, file, folder, anchored)          seal('home') = SHA-256 of them
//! ```
//!
//! The home does not include the number of the *device*, because a system may renumber its devices
//! when it starts. Within one running program, [`place`](crate::ledger::file::place) compares it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::store::{self, Fields, SealedRows};
use crate::ledger::error::{Fault, VaultError};

/// The table of the home. A vault in memory has no row.
pub(crate) const SCHEMA: &str = "
CREATE TABLE home (
    only INTEGER PRIMARY KEY NOT NULL CHECK (only = 1),
    name BLOB NOT NULL,
    file INTEGER NOT NULL,
    folder INTEGER NOT NULL,
    anchored INTEGER NOT NULL CHECK (anchored IN (0, 1))
) STRICT;
";

/// The identity of a vault's place, which survives a restart of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    /// The file's name in its folder, as bytes.
    pub(crate) name: Vec<u8>,
    /// The file's inode.
    pub(crate) file: u64,
    /// The folder's inode.
    pub(crate) folder: u64,
}

/// The stored home, and whether the vault has an anchor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) home: Home,
    pub(crate) anchored: bool,
}

/// Writes the seal of a vault without a home.
pub(crate) fn initialise(connection: &Connection) -> Result<(), Fault> {
    reseal(connection)
}

/// The stored home; `None` for a vault in memory.
///
/// # Errors
/// [`Fault::Damage`] if it differs from its seal.
pub(crate) fn read(connection: &Connection) -> Result<Option<Remembered>, Fault> {
    let found = row(connection)?;
    store::check_seal(connection, SealedRows::Home, digest(found.as_ref()))?;
    Ok(found)
}

/// Stores the home and whether there is an anchor; the caller holds the write lock.
pub(crate) fn set(connection: &Connection, home: &Home, anchored: bool) -> Result<(), Fault> {
    connection.execute(
        "INSERT INTO home (only, name, file, folder, anchored) VALUES (1, ?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET name = excluded.name, file = excluded.file,
             folder = excluded.folder, anchored = excluded.anchored",
        params![home.name, home.file.cast_signed(), home.folder.cast_signed(), anchored],
    )?;
    reseal(connection)
}

/// Refuses a vault whose home is elsewhere, and a vault with an anchor that is opened without it.
///
/// # Guarantee
/// `Ok` only if the vault was created or adopted under this very name, file and folder, and, if it
/// has an anchor, `anchored` says that the caller uses one.
pub(crate) fn check(
    connection: &Connection,
    home: Option<&Home>,
    anchored: bool,
    path: &str,
) -> Result<(), Fault> {
    let known = read(connection)?;
    if known.as_ref().map(|known| &known.home) != home {
        return Err(VaultError::NotAtHome { path: path.to_owned() }.into());
    }
    if known.is_some_and(|known| known.anchored) && !anchored {
        return Err(VaultError::Unanchored { path: path.to_owned() }.into());
    }
    Ok(())
}

/// Makes this place the home, whatever the earlier home was. The caller holds the write lock.
///
/// # Errors
/// [`VaultError::Unanchored`] if the vault has an anchor and the caller does not use one.
pub(crate) fn adopt(
    connection: &Connection,
    home: Option<&Home>,
    held: bool,
    path: &str,
) -> Result<(), Fault> {
    let anchored = read(connection)?.is_some_and(|known| known.anchored);
    if anchored && !held {
        return Err(VaultError::Unanchored { path: path.to_owned() }.into());
    }
    home.iter().try_for_each(|home| set(connection, home, anchored))
}

fn row(connection: &Connection) -> Result<Option<Remembered>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT name, file, folder, anchored FROM home")?;
    let found = statement.query_row([], |row| {
        let inode = |at| row.get(at).map(i64::cast_unsigned);
        let home = Home { name: row.get(0)?, file: inode(1)?, folder: inode(2)? };
        Ok(Remembered { home, anchored: row.get(3)? })
    });
    Ok(found.optional()?)
}

fn reseal(connection: &Connection) -> Result<(), Fault> {
    Ok(store::set_seal(connection, SealedRows::Home, digest(row(connection)?.as_ref()))?)
}

fn digest(remembered: Option<&Remembered>) -> [u8; 32] {
    let mut fields = Fields::new("hushql home 1");
    if let Some(Remembered { home: Home { name, file, folder }, anchored }) = remembered {
        fields.bytes(name);
        fields.integer(file.cast_signed());
        fields.integer(folder.cast_signed());
        fields.integer(i64::from(*anchored));
    }
    fields.digest()
}
