//! Where a vault is at home: the name, the file and the folder under which it may be written, kept inside of it.
//!
//! SQLite finds the journal of a file by the path through which it was opened. One file under two names (a hard
//! link, a bind mount, a rename between a crash and the next opening) has two journals, and one of them may undo
//! what was charged under the other name. So a vault remembers where it is at home and is refused anywhere else until its owner
//! adopts it there. A copy is another file, and is refused as well: two copies would be two budgets.
//!
//! ```text
//! home(name, file, folder, anchored)          seal('home') = SHA-256 of them
//! ```
//!
//! The number of the *device* is not compared: systems number their devices anew when they start. Within one
//! running program [`place`](super::place) compares it.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Fault, VaultError};
use crate::catalog::store::{self, Fields, Kind};

/// The table of the home. A vault in memory has no row.
pub(super) const SCHEMA: &str = "
CREATE TABLE home (
    only INTEGER PRIMARY KEY NOT NULL CHECK (only = 1),
    name BLOB NOT NULL,
    file INTEGER NOT NULL,
    folder INTEGER NOT NULL,
    anchored INTEGER NOT NULL CHECK (anchored IN (0, 1))
) STRICT;
";

/// What tells the place of a vault from others, also after the machine has been started anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    /// The file's name in its folder, as bytes.
    pub(super) name: Vec<u8>,
    /// The file's inode.
    pub(super) file: u64,
    /// The folder's inode.
    pub(super) folder: u64,
}

/// What a vault remembers: its home, and whether it has an anchor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) home: Home,
    pub(super) anchored: bool,
}

/// Writes the seal of a vault without a home.
pub(super) fn initialise(connection: &Connection) -> Result<(), Fault> {
    reseal(connection)
}

/// What the vault remembers; `None` in memory.
///
/// # Errors
/// [`Fault::Damage`] when it is not what was written.
pub(super) fn read(connection: &Connection) -> Result<Option<Remembered>, Fault> {
    let found = row(connection)?;
    store::check_seal(connection, Kind::Home, digest(found.as_ref()))?;
    Ok(found)
}

/// Makes this the home, with the anchor as it was; the caller holds the write lock.
pub(super) fn set(connection: &Connection, home: &Home, anchored: bool) -> Result<(), Fault> {
    connection.execute(
        "INSERT INTO home (only, name, file, folder, anchored) VALUES (1, ?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET name = excluded.name, file = excluded.file,
             folder = excluded.folder, anchored = excluded.anchored",
        params![home.name, home.file.cast_signed(), home.folder.cast_signed(), anchored],
    )?;
    reseal(connection)
}

/// Refuses a vault that is at home elsewhere, and one that has an anchor where it is opened without.
///
/// # Guarantee
/// `Ok` only if the vault was made, adopted or upgraded under this very name, file and folder, and, where it has an
/// anchor, `anchored` says that the caller holds it to one.
pub(super) fn check(
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

/// Makes this the home, wherever the vault was before; the caller holds the write lock.
///
/// # Errors
/// [`VaultError::Unanchored`] where the vault has an anchor and the caller does not hold it to one.
pub(super) fn adopt(
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
    Ok(store::set_seal(connection, Kind::Home, digest(row(connection)?.as_ref()))?)
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
