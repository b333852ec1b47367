//! Rows read from a vault, kept until they change.
//!
//! In: a kind of rows with a seal, such as the declarations. Out: the present rows. They were
//! checked against their seal when they were read, and they stay valid as long as the seal is the
//! same. While nothing at all is committed, even the seal need not be read: the first bytes of the
//! file show this, without a transaction.
//!
//! ```text
//! the same first bytes?  ─ yes → the known rows
//!        no → the same seal? ─ yes → the known rows
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
    /// The commits up to now. `None` for a vault in memory, if the state cannot be read, and if the
    /// file must be opened again.
    pub fn moment(&self) -> Option<Moment> {
        Some(Moment { state: self.state()?, day: time::today().ok()? })
    }

    /// The state of the file, read beside SQLite, without a transaction. `None` as for
    /// [`Vault::moment`], and if another program has set a write-ahead log.
    ///
    /// A commit writes the state before it takes effect, and removes its journal afterwards. So if
    /// the state is unchanged, nothing was committed since. Within a transaction that has read
    /// something, it is the state of that transaction, because no one can commit meanwhile.
    fn state(&self) -> Option<DatabaseState> {
        let is_poisoned = match self.handle.try_lock() {
            Ok(handle) => handle.poisoned,
            Err(TryLockError::Poisoned(_)) => true,
            // Another thread is using the handle.
            Err(TryLockError::WouldBlock) => false,
        };
        match is_poisoned {
            true => None,
            false => self.place.as_ref()?.state().ok()?.filter(|state| state.tells_commits()),
        }
    }

    /// The present rows: known ones, or newly read ones.
    ///
    /// # Guarantee
    /// Known rows are those of the last commit, or of one that had the same seal.
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
    use crate::ledger::vault::role_changes::RoleChange;

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

    /// While another program has not yet committed its changes, the moment stays the same. It
    /// changes as soon as the commit takes effect.
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

    /// With a write-ahead log, another program commits without changing the header of the file.
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
        // The committed change is seen.
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
        // Another program commits something else.
        other.ensure_analyst("eve").unwrap();
        let catalogs = [vault.catalog().unwrap(), vault.catalog().unwrap()];
        assert!(Arc::ptr_eq(&catalogs[0], &catalogs[1]));
        assert_eq!(verifier(&vault), "two");
    }

    /// Known rows are not used before the file is opened again.
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
