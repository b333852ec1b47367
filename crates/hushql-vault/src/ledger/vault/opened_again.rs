//! Opens a vault again after its state became unknown.
//!
//! In: a handle that a failed write or a panic left in an unknown state. Out: the same file, opened
//! as at the start of a program, or the reason why it cannot be opened. So a disk that is full for
//! a moment stops queries only for that moment.
//!
//! ```text
//! COMMIT fails ─▶ poisoned ─▶ next use: close the connection, open and verify the same file ─▶ continue from the state of the disk
//! ```
//!
//! A failed sync is different. Linux may drop the pages that it could not write and still show
//! them, so a charge would be found and answered, and then lost in a power cut. Such a vault cannot
//! be used again by its program: a server ends, and must be started again.

use std::sync::{MutexGuard, TryLockError};

use rusqlite::Connection;

use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::anchor::Anchor;
use crate::ledger::file::handle::Handle;
use crate::ledger::records::chain::Witness;
use crate::ledger::vault::Vault;

impl Vault {
    /// The handle. If an earlier failure or a panic left its state unknown, the file is opened
    /// again first.
    ///
    /// # Guarantee
    /// The caller continues from the state of the disk, like a program that starts now. A commit of
    /// unknown outcome is there as a whole or not at all. If it is there, its charges count, but no
    /// [`Charge`](crate::ledger::Charge) of it was ever returned.
    ///
    /// # Errors
    /// [`VaultError::Poisoned`] for a vault in memory and after a failed sync,
    /// [`VaultError::Moved`] if the path names another file, and those of [`Vault::open`] as long
    /// as the file cannot be opened.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Handle>, VaultError> {
        let mut handle = self.handle.lock().unwrap_or_else(|panicked| {
            self.handle.clear_poison();
            let mut handle = panicked.into_inner();
            handle.poisoned = true;
            handle
        });
        self.usable(&mut handle)?;
        Ok(handle)
    }

    /// Opens the file again, if a failure left the state of the handle unknown.
    ///
    /// # Errors
    /// As [`Vault::lock`].
    pub(super) fn usable(&self, handle: &mut Handle) -> Result<(), VaultError> {
        match (handle.poisoned, handle.unsynced) {
            (false, _) => Ok(()),
            (true, false) => self.open_again(handle),
            (true, true) => Err(self.poisoned()),
        }
    }

    /// True if a sync has failed, so that this program must not use the vault any more. It does not
    /// wait: if the handle is in use, the next call checks it.
    pub fn is_lost(&self) -> bool {
        match self.handle.try_lock() {
            Ok(handle) => handle.poisoned && handle.unsynced,
            Err(TryLockError::Poisoned(handle)) => handle.get_ref().unsynced,
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn open_again(&self, handle: &mut Handle) -> Result<(), VaultError> {
        let Some(place) = handle.place.clone() else { return Err(self.poisoned()) };
        // A vault that was opened for reading is never opened for writing.
        if handle.connection.is_readonly("main").unwrap_or(true) {
            return Err(self.poisoned());
        }
        place.check(&self.path)?;
        // The old connection may hold locks, and an unfinished transaction. SQLite keeps both until
        // it is closed.
        let none =
            Connection::open_in_memory().map_err(|error| Fault::from(error).at(&self.path))?;
        drop(std::mem::replace(&mut handle.connection, none));
        handle.witness = Witness::default();
        let anchor =
            handle.anchor.as_ref().map(|anchor| Anchor::open(anchor.path())).transpose()?;
        let opened = Self::opened_anew(place.path(), anchor)?;
        let mut opened = opened.handle.into_inner().map_err(|_| self.poisoned())?;
        // Checks that the file was not replaced between the two checks of the path.
        place.check(&self.path)?;
        opened.place = Some(place);
        *handle = opened;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::records::roles::Role;

    fn role(name: &str) -> Role {
        let (name, verifier) = (name.to_owned(), String::new());
        Role { name, verifier, may_log_in: true, valid_until: None, takes_defaults: true }
    }

    fn names(vault: &Vault) -> Vec<String> {
        vault.roles().unwrap().into_iter().map(|role| role.name).collect()
    }

    #[test]
    fn a_vault_goes_on_after_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.db");
        let vault = Vault::init(&path).unwrap();
        vault.create_role(&role("lab")).unwrap();
        // An unfinished transaction when the handle is abandoned.
        {
            let mut handle = vault.lock().unwrap();
            handle.connection.execute_batch("BEGIN IMMEDIATE; DELETE FROM role").unwrap();
            handle.poisoned = true;
        }
        assert!(vault.moment().is_none());
        assert_eq!(names(&vault), ["lab"]);
        vault.create_role(&role("eve")).unwrap();
        assert!(vault.moment().is_some());
        // The old handle holds no lock that stops another program.
        let other = Vault::open(&path).unwrap();
        other.create_role(&role("ann")).unwrap();
        assert_eq!(names(&vault), ["ann", "eve", "lab"]);
    }

    #[test]
    fn a_panic_is_such_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::init(folder.path().join("study.db")).unwrap();
        let panics = || vault.write(|_, _| -> Result<(), Fault> { panic!("at the vault") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        vault.create_role(&role("lab")).unwrap();
        assert_eq!(names(&vault), ["lab"]);
    }

    /// The system reports a failed sync once, so it is final here. Other failures are not.
    #[test]
    fn a_failed_sync_is_final() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::init(folder.path().join("study.db")).unwrap();
        vault.lock().unwrap().poisoned = true;
        assert!(!vault.is_lost());
        vault.create_role(&role("lab")).unwrap();
        {
            let mut handle = vault.lock().unwrap();
            (handle.poisoned, handle.unsynced) = (true, true);
            assert!(!vault.is_lost(), "it is in use");
        }
        assert!(vault.is_lost());
        assert!(matches!(vault.catalog(), Err(VaultError::Poisoned { .. })));
        assert!(vault.is_lost());
    }

    /// The error names the obstacle, which is checked again each time.
    #[test]
    fn another_file_is_not_opened_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("study.db"), folder.path().join("away.db"));
        let vault = Vault::init(&path).unwrap();
        vault.create_role(&role("lab")).unwrap();
        vault.lock().unwrap().poisoned = true;
        std::fs::rename(&path, &away).unwrap();
        assert!(matches!(vault.catalog(), Err(VaultError::Moved { .. })));
        drop(Vault::init(&path).unwrap());
        assert!(matches!(vault.catalog(), Err(VaultError::Moved { .. })));
        assert!(matches!(vault.create_role(&role("eve")), Err(VaultError::Moved { .. })));
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&away, &path).unwrap();
        assert_eq!(names(&vault), ["lab"]);
    }

    /// The anchor is checked as before: the vault must contain its entry.
    #[test]
    fn the_anchor_is_opened_again_too() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, anchor) = (folder.path().join("study.db"), elsewhere.path().join("anchor"));
        drop(Vault::init(&path).unwrap());
        let vault = Vault::make_anchor(&path, &anchor).unwrap();
        vault.lock().unwrap().poisoned = true;
        let away = elsewhere.path().join("away");
        std::fs::rename(&anchor, &away).unwrap();
        assert!(matches!(vault.catalog(), Err(VaultError::NoAnchor { .. })));
        std::fs::rename(&away, &anchor).unwrap();
        vault.create_role(&role("lab")).unwrap();
        assert!(vault.lock().unwrap().anchor.is_some());
    }

    #[test]
    fn a_vault_in_memory_has_no_file_to_go_on_from() {
        let vault = Vault::in_memory().unwrap();
        vault.lock().unwrap().poisoned = true;
        assert!(matches!(vault.catalog(), Err(VaultError::Poisoned { .. })));
    }
}
