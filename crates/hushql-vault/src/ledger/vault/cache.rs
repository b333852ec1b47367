//! What was read from a vault, kept until it is another one.
//!
//! In: a kind of rows with a seal, such as the declarations. Out: the rows of now. They were
//! checked against their seal when they were read; as long as the seal is the same, so are they. As
//! long as nothing at all was committed, even the seal need not be read: the first bytes of the
//! file say so, without a transaction.
//!
//! ```text
//! the same first bytes?  ─ yes → the rows that are known
//!        no → the same seal? ─ yes → the rows that are known
//!                  no → read and check
//! ```

use std::sync::{Arc, TryLockError};

use rusqlite::Connection;

use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::cached_read::{CachedRead, Moment};
use crate::ledger::file::handle::{Handle, in_snapshot};
use crate::ledger::file::journal::DatabaseState;
use crate::ledger::records::time;
use crate::ledger::vault::Vault;

impl Vault {
    /// What was committed until now. `None` for a vault in memory, if it cannot be read, and if the
    /// file has to be opened again.
    pub fn moment(&self) -> Option<Moment> {
        Some(Moment { state: self.state()?, day: time::today().ok()? })
    }

    /// The state of the file, read beside SQLite, without a transaction. `None` as for
    /// [`Vault::moment`], and where another program has had commits written to a log.
    ///
    /// A commit writes it before it counts, and removes its journal afterwards. So whoever finds it
    /// as it was knows that nothing was committed since. In a transaction that has read something
    /// it is that of the transaction, as nobody commits meanwhile.
    fn state(&self) -> Option<DatabaseState> {
        let is_poisoned = match self.handle.try_lock() {
            Ok(handle) => handle.poisoned,
            Err(TryLockError::Poisoned(_)) => true,
            // Somebody uses it.
            Err(TryLockError::WouldBlock) => false,
        };
        match is_poisoned {
            true => None,
            false => self.place.as_ref()?.state().ok()?.filter(|state| state.tells_commits()),
        }
    }

    /// The rows of now: those that are known, or others that are read.
    ///
    /// # Guarantee
    /// Those that are known are rows of the last commit, or of one that had the same seal.
    ///
    /// # Errors
    /// Those of `seal` and `read`, and a variant of [`VaultError`] if the file cannot be read.
    pub(super) fn known<S: Copy + PartialEq, T>(
        &self,
        known: &CachedRead<S, T>,
        seal: impl FnOnce(&Connection) -> Result<S, Fault>,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<Arc<T>, VaultError> {
        if let Some(rows) = known.at(self.state()) {
            return Ok(rows);
        }
        let mut handle = self.lock()?;
        handle.may_begin(&self.path)?;
        let Handle { connection, poisoned, .. } = &mut *handle;
        let found = in_snapshot(connection, |connection| {
            let seal = seal(connection)?;
            let rows = match known.under(&seal) {
                Some(rows) => rows,
                None => Arc::new(read(connection)?),
            };
            known.see(seal, self.state(), Arc::clone(&rows));
            Ok(rows)
        });
        found.map_err(|fault: Fault| fault.leaves(poisoned).at(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Replay;
    use crate::ledger::vault::roles::RoleChange;

    fn on_disk() -> (tempfile::TempDir, Vault) {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::init(folder.path().join("study.db")).unwrap();
        (folder, vault)
    }

    #[test]
    fn a_moment_lasts_until_the_next_commit_of_any_program() {
        let (folder, vault) = on_disk();
        let first = vault.moment().unwrap();
        assert_eq!(vault.moment(), Some(first));
        vault.catalog().unwrap();
        vault.analysts().unwrap();
        assert_eq!(vault.moment(), Some(first), "reading commits nothing");
        assert!(vault.set_replay("none", Replay::Off).is_err());
        assert_eq!(vault.moment(), Some(first), "a transaction that fails commits nothing");
        vault.ensure_analyst("lab").unwrap();
        let second = vault.moment().unwrap();
        assert_ne!(second, first);
        let other = Vault::open(folder.path().join("study.db")).unwrap();
        let third = other.moment();
        other.ensure_analyst("eve").unwrap();
        assert_ne!(vault.moment(), third);
        assert_eq!(vault.moment(), other.moment());
    }

    /// While another program holds its changes back, what was committed is as it was; it is another
    /// one as soon as the commit counts.
    #[test]
    fn a_commit_under_way_is_none() {
        let (folder, vault) = on_disk();
        let before = vault.moment();
        let other = Connection::open(folder.path().join("study.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; UPDATE seal SET digest = zeroblob(32)").unwrap();
        assert_eq!(vault.moment(), before);
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(vault.moment(), before);
        other.execute_batch("UPDATE seal SET digest = zeroblob(32) WHERE kind = 'roles'").unwrap();
        assert_ne!(vault.moment(), before);
    }

    /// Another program may have commits written to a log, and leave the header of the file as it
    /// is.
    #[test]
    fn a_write_ahead_log_has_no_moments() {
        let (folder, vault) = on_disk();
        let path = folder.path().join("study.db");
        let other = Vault::open(&path).unwrap();
        vault.ensure_analyst("lab").unwrap();
        let raw = Connection::open(&path).unwrap();
        raw.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!((vault.moment(), other.moment()), (None, None));
        let roles = |vault: &Vault| vault.role_to_log_in("lab");
        assert!(roles(&vault).is_ok());
        raw.execute("UPDATE seal SET digest = zeroblob(32) WHERE kind = 'roles'", []).unwrap();
        // What was committed is seen.
        assert!(roles(&vault).is_err());
    }

    #[test]
    fn rows_are_read_again_when_they_are_others() {
        let (folder, vault) = on_disk();
        let role = crate::ledger::records::roles::Role {
            name: "lab".to_owned(),
            verifier: "one".to_owned(),
            may_log_in: true,
            valid_until: None,
            takes_defaults: true,
        };
        vault.create_role(&role).unwrap();
        let verifier = |vault: &Vault| vault.role_to_log_in("lab").unwrap().role.unwrap().verifier;
        assert_eq!((verifier(&vault), verifier(&vault)), ("one".to_owned(), "one".to_owned()));
        let other = Vault::open(folder.path().join("study.db")).unwrap();
        let change = RoleChange { verifier: Some("two".to_owned()), ..RoleChange::default() };
        other.alter_role("lab", change).unwrap();
        assert_eq!(verifier(&vault), "two");
        // Something else was committed.
        other.ensure_analyst("eve").unwrap();
        let catalogs = [vault.catalog().unwrap(), vault.catalog().unwrap()];
        assert!(Arc::ptr_eq(&catalogs[0], &catalogs[1]));
        assert_eq!(verifier(&vault), "two");
    }

    /// What is known counts for nothing before the file was opened again.
    #[test]
    fn a_poisoned_handle_knows_nothing() {
        let (_folder, vault) = on_disk();
        vault.catalog().unwrap();
        assert!(vault.moment().is_some());
        vault.lock().unwrap().poisoned = true;
        assert!(vault.moment().is_none());
        vault.catalog().unwrap();
        assert!(vault.moment().is_some());
    }

    #[test]
    fn a_vault_in_memory_has_no_moments() {
        let vault = Vault::in_memory().unwrap();
        assert_eq!(vault.moment(), None);
        vault.catalog().unwrap();
    }
}
