//! One connection to a vault with its state, and the steps after a commit.
//!
//! In: a file. Out: a [`Handle`]: the connection, how far it has followed the ledger, the place of
//! the file, and its anchor. The vault keeps the handle behind a lock. After each commit the handle
//! makes sure that the written data survives a power cut, in the file that the path names, before
//! the vault reports success.
//!
//! ```text
//! BEGIN IMMEDIATE … sync the folder, COMMIT ─▶ settle: sync the folder, same file?, move the anchor ─▶ done
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::anchor::Anchor;
use crate::ledger::file::place::VaultPlace;
use crate::ledger::file::{home, schema};
use crate::ledger::records::chain::Witness;

/// A connection and its state.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) connection: Connection,
    pub(crate) witness: Witness,
    pub(crate) poisoned: bool,
    /// Whether a sync has failed. The system may have dropped pages that it could not write, and it
    /// reports this only once. The file may then show content that is in memory alone, so opening
    /// it again proves nothing.
    pub(crate) unsynced: bool,
    /// The place of the file; `None` for a vault in memory.
    pub(crate) place: Option<Arc<VaultPlace>>,
    pub(crate) anchor: Option<Anchor>,
}

impl Handle {
    /// A new handle without an anchor. It has not yet followed the ledger.
    pub(crate) fn new(connection: Connection, place: Option<Arc<VaultPlace>>) -> Self {
        let witness = Witness::default();
        Self { connection, witness, poisoned: false, unsynced: false, place, anchor: None }
    }

    /// Refuses if the path does not name the open file, or if the file has another name.
    pub(crate) fn still_there(&self, path: &str) -> Result<(), VaultError> {
        self.place.as_ref().map_or(Ok(()), |place| place.check(path))
    }

    /// Refuses if SQLite would roll back transactions that were committed elsewhere; call it before
    /// each transaction.
    pub(crate) fn may_begin(&self, path: &str) -> Result<(), VaultError> {
        self.place.as_ref().map_or(Ok(()), |place| place.check_journal(path))
    }

    /// Refuses if the vault's home is elsewhere, or if the vault has an anchor that this handle
    /// lacks.
    pub(crate) fn at_home(&self, connection: &Connection, path: &str) -> Result<(), Fault> {
        let home = self.place.as_deref().map(VaultPlace::home);
        home::check(connection, home, self.anchor.is_some(), path)
    }

    /// Completes a commit before the vault reports success.
    ///
    /// # Guarantee
    /// `Ok` only if the committed data survives a power cut, in the file that the path names, and
    /// the anchor is as far as the ledger. On an error the handle is poisoned: the next handle
    /// reads the state from the disk, unless a sync failed.
    pub(crate) fn settle(&mut self, charged: bool, path: &str) -> Result<(), VaultError> {
        let settle = |handle: &mut Self| {
            let synced = handle.place.as_ref().map_or(Ok(()), |place| place.sync(path));
            handle.unsynced |= synced.is_err();
            synced?;
            handle.still_there(path)?;
            if charged { handle.move_anchor(path) } else { Ok(()) }
        };
        let settled = settle(self);
        // If only the lock came too late, the state is still known.
        self.poisoned |= !matches!(settled, Ok(()) | Err(VaultError::AnchorLate { .. }));
        self.unsynced |= self.anchor.as_ref().is_some_and(Anchor::is_unsynced);
        settled
    }

    /// Moves the anchor, if there is one, to the end of the ledger, whichever program wrote it.
    ///
    /// # Guarantee
    /// The anchor is never ahead of the ledger on the disk, if this handle has synced the folder
    /// since it last followed the ledger: what other programs have committed since then is synced
    /// first. SQLite syncs the folder for them, but continues if that fails.
    pub(crate) fn move_anchor(&mut self, path: &str) -> Result<(), VaultError> {
        let Self { connection, witness, anchor: Some(anchor), place, unsynced, .. } = self else {
            return Ok(());
        };
        // A commit releases the write lock, and two programs must not move the anchor at once.
        connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| {
            match Fault::from(error).at(path) {
                VaultError::Locked { path } => VaultError::AnchorLate { path },
                other => other,
            }
        })?;
        let mut ahead = witness.clone();
        let moved = ahead.advance(connection).and_then(|()| {
            if let Some(place) = place.as_ref().filter(|_| ahead.mark() != witness.mark()) {
                place.sync(path).inspect_err(|_| *unsynced = true)?;
            }
            anchor.follow(connection, &ahead, path)
        });
        let end =
            if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") };
        moved.and(end.map_err(Fault::from)).map_err(|fault| fault.at(path))?;
        *witness = ahead;
        Ok(())
    }
}

/// Opens an existing file.
pub(crate) fn connect(path: &Path, shown: &str, busy: Duration) -> Result<Connection, VaultError> {
    connect_for(OpenFlags::SQLITE_OPEN_READ_WRITE, path, shown, busy)
}

/// Opens an existing file for reading: SQLite refuses every write through this connection.
pub(crate) fn connect_to_read(
    path: &Path,
    shown: &str,
    busy: Duration,
) -> Result<Connection, VaultError> {
    connect_for(OpenFlags::SQLITE_OPEN_READ_ONLY, path, shown, busy)
}

fn connect_for(
    access: OpenFlags,
    path: &Path,
    shown: &str,
    busy: Duration,
) -> Result<Connection, VaultError> {
    // No CREATE: a missing vault is an error. No URI: a name such as `file:x?immutable=1` must not
    // turn locks off.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let mut connection = Connection::open_with_flags(path, flags)?;
        schema::configure(&mut connection, busy)?;
        Ok(connection)
    };
    open().map_err(|fault: Fault| fault.at(shown))
}

/// Runs `work` in a read-only transaction.
pub(crate) fn in_snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    connection.execute_batch("BEGIN")?;
    let result = work(connection);
    // Nothing was written, so a rollback ends the transaction like a commit, and cannot fail on a
    // lock.
    let end =
        if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") };
    let value = result?;
    end?;
    Ok(value)
}
