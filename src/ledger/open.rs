//! Making and opening a vault: which file it is, whether it is sound and at home, and which anchor holds it.
//!
//! A path goes in, a [`Vault`] comes out that may be asked and charged, or a refusal. The owner's own acts are here too:
//! a vault is adopted at a new place, gets an anchor, or loses it.
//!
//! ```text
//! path ─▶ one file, one name, no journal of another state ─▶ tables, newest checkpoint, tail ─▶ at home? ─▶ anchor? ─▶ Vault
//! ```

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use rusqlite::Connection;

use super::anchor::Anchor;
use super::error::{Fault, VaultError};
use super::handle::{Handle, connect, in_snapshot};
use super::home::{self, Home};
use super::place::Place;
use super::queue::Queue;
use super::upgrade::Moved;
use super::vault::Vault;
use super::wait::BUSY;
use super::{analyst, schema};
use crate::ledger::analyst::OWNER;

impl Vault {
    /// Makes a vault in a file that does not exist yet, readable and writable by its maker alone.
    ///
    /// # Errors
    /// [`VaultError::Exists`] when the path is taken, [`VaultError::CannotOpen`] or another variant when
    /// the file cannot be made or written; no file is left behind then.
    pub fn init(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        // Closing a file drops this process's locks on it, so a vault is never opened beside SQLite; this
        // file is new and nobody can hold one yet.
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(path) {
            Ok(file) => drop(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(VaultError::Exists { path: shown });
            }
            Err(error) => return Err(cannot_open(&shown, error)),
        }
        let made = connect(path, &shown, BUSY).and_then(|connection| {
            let place = Place::of(path).map_err(|error| cannot_open(&shown, error))?;
            Self::make(connection, Some(place), &shown)
        });
        if made.is_err() {
            // Best effort: what cannot be removed is refused as no vault when it is opened.
            let _ = fs::remove_file(path);
        }
        made
    }

    /// Opens a vault that exists, and verifies what it goes on with, in a time that does not grow with the ledger.
    ///
    /// # Guarantee
    /// `Ok` only if the file is a vault, SQLite finds the free pages and those of the declarations sound, the newest
    /// checkpoint of the ledger is there and is what was written, the chain is whole from it to the end that was sealed,
    /// every budget agrees with the sums of that checkpoint and the entries after it, and the catalog is what was
    /// declared. Damage to an earlier entry or checkpoint is found by whatever reads it, and by [`Vault::verify`].
    ///
    /// # Errors
    /// A variant of [`VaultError`] for each way in which it is not. Nothing is ever created.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        Self::open_with(path.as_ref(), BUSY)
    }

    /// Opens a vault that waits this long for other programs.
    pub(super) fn open_with(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let vault = Self::verified(path, busy)?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Opens and verifies a vault, wherever it is at home.
    fn verified(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let vault = Self::unverified(path, busy)?;
        vault.on_connection(|connection| {
            in_snapshot(connection, |connection| {
                schema::check(connection, &vault.path)?;
                // SQLite reads zeros behind the end of a file that was cut.
                match fs::metadata(path) {
                    Ok(found) if found.len() >= schema::length(connection)? => Ok(()),
                    Ok(_) => Err(Fault::Damage("its file was cut".to_owned())),
                    Err(error) => Err(cannot_open(&vault.path, error).into()),
                }
            })
        })?;
        vault.catalog()?;
        vault.budgets()?;
        vault.analysts()?;
        vault.lock()?.still_there(&vault.path)?;
        Ok(vault)
    }

    /// Opens a file that may be a vault, and looks at nothing in it.
    fn unverified(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let shown = path.display().to_string();
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(VaultError::NotAFile { path: shown }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VaultError::Missing { path: shown });
            }
            Err(error) => return Err(cannot_open(&shown, error)),
        }
        // Before SQLite opens it: from here on the path must not name another file.
        let place = Place::of(path).map_err(|error| cannot_open(&shown, error))?;
        place.check(&shown)?;
        place.check_journal(&shown)?;
        let connection = connect(path, &shown, busy)?;
        let readonly =
            connection.is_readonly("main").map_err(|error| Fault::from(error).at(&shown))?;
        if readonly {
            return Err(VaultError::ReadOnly { path: shown });
        }
        Ok(Self::over(connection, Some(place), shown))
    }

    /// A vault of an older format that can be carried over, not verified; `None` for one of today's.
    pub(super) fn of_older_format(path: &Path) -> Result<Option<Self>, VaultError> {
        let vault = Self::unverified(path, BUSY)?;
        let format = vault.on_connection(|connection| {
            // Tables are dropped and made anew: rows that refer to them are not looked at meanwhile.
            connection.execute_batch("PRAGMA foreign_keys = OFF")?;
            schema::format(connection, &vault.path)
        })?;
        Ok((format < super::version::VERSION).then_some(vault))
    }

    fn on_connection<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        work(&self.lock()?.connection).map_err(|fault| fault.at(&self.path))
    }

    /// Opens a vault that exists and holds it to its anchor, which every charge then moves.
    ///
    /// An anchor is a small file in another place that holds the number and the hash of the newest entry of
    /// the ledger. A vault that is ahead of it is fine: a program died in between, or charged without it.
    ///
    /// # Guarantee
    /// `Ok` only if [`Vault::open`] would be, and the ledger is the one that the anchor was last moved along, or goes on
    /// from it. No charge is handed out before the anchor on the disk is as far as that charge.
    ///
    /// # Errors
    /// [`VaultError::PutBack`] or [`VaultError::OtherHistory`] for a vault without the anchor's entry,
    /// [`VaultError::NoAnchor`], [`VaultError::AnchorDamaged`] or [`VaultError::Anchor`] for the anchor itself,
    /// and what [`Vault::open`] refuses with.
    pub fn open_anchored(
        path: impl AsRef<Path>,
        anchor: impl AsRef<Path>,
    ) -> Result<Self, VaultError> {
        let anchor = Anchor::open(anchor.as_ref())?;
        let vault = Self::verified(path.as_ref(), BUSY)?.held_to(anchor)?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Makes the place where a vault is now its home, after it was copied, restored, renamed or moved, and opens it.
    ///
    /// Only its owner can know that no other copy of it is used: two copies are two budgets. The whole vault and
    /// the anchor, if there is one, are verified first. A vault of an older format is carried over as by
    /// [`Vault::upgrade`], which would refuse it here.
    ///
    /// # Errors
    /// [`VaultError::Unanchored`] when the vault has an anchor and none is given, and what [`Vault::open_anchored`]
    /// refuses with, but for [`VaultError::NotAtHome`].
    pub fn adopt(
        path: impl AsRef<Path>,
        anchor: Option<impl AsRef<Path>>,
    ) -> Result<Self, VaultError> {
        let anchor = anchor.map(|anchor| Anchor::open(anchor.as_ref())).transpose()?;
        Self::carry_over(path.as_ref(), anchor.as_ref(), Moved::Yes)?;
        let vault = Self::verified(path.as_ref(), BUSY)?;
        let held = anchor.is_some();
        let vault = match anchor {
            Some(anchor) => vault.held_to(anchor)?,
            None => vault,
        };
        vault.verify()?;
        let home = vault.home()?;
        vault.transact_anywhere(|connection, witness| {
            witness.advance(connection)?;
            home::adopt(connection, home.as_ref(), held, &vault.path)
        })?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Takes the anchor off a vault, which from then on is opened without: for an owner whose anchor is lost, or is to be
    /// made elsewhere. The anchor's file stays where it is.
    ///
    /// # Errors
    /// What [`Vault::open`] refuses with, but for [`VaultError::Unanchored`].
    pub fn remove_anchor(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        let vault = Self::verified(path.as_ref(), BUSY)?;
        let home = vault.home()?;
        let path = &vault.path;
        vault.transact_anywhere(|connection, _| {
            home::check(connection, home.as_ref(), true, path)?;
            home.iter().try_for_each(|home| home::set(connection, home, false))
        })?;
        Ok(vault)
    }

    /// The home that the vault has here.
    pub(super) fn home(&self) -> Result<Option<Home>, VaultError> {
        Ok(self.lock()?.place.as_ref().map(|place| place.home().clone()))
    }

    /// Refuses a vault that is at home elsewhere, or has an anchor and was opened without.
    fn check_home(&self) -> Result<(), VaultError> {
        let handle = self.lock()?;
        handle.may_begin(&self.path)?;
        let checked =
            in_snapshot(&handle.connection, |connection| handle.at_home(connection, &self.path));
        checked.map_err(|fault| fault.at(&self.path))
    }

    /// Makes an anchor where there is none, of the vault as it is now, and opens the vault with it.
    ///
    /// Only its owner can know that the vault was not put back before. From then on [`Vault::open_anchored`]
    /// notices.
    ///
    /// # Errors
    /// [`VaultError::AnchorExists`] when the path is taken, [`VaultError::AnchorBeside`] when it is in the
    /// vault's own folder, and what [`Vault::open_anchored`] refuses with.
    pub fn make_anchor(
        path: impl AsRef<Path>,
        anchor: impl AsRef<Path>,
    ) -> Result<Self, VaultError> {
        let vault = Self::open(path.as_ref())?;
        let newest = vault.lock()?.witness.mark();
        let made = Anchor::create(anchor.as_ref(), path.as_ref(), newest)?;
        let held = vault.held_to(made).and_then(|vault| {
            let home = vault.home()?;
            vault.write(|connection, _| {
                home.iter().try_for_each(|home| home::set(connection, home, true))
            })?;
            Ok(vault)
        });
        if held.is_err() {
            // Whoever tries again must not find it in the way.
            let _ = fs::remove_file(anchor);
        }
        held
    }

    /// Moves the anchor to where the vault is, which also shows that it can be moved, and keeps to it.
    fn held_to(mut self, anchor: Anchor) -> Result<Self, VaultError> {
        let path = self.path.clone();
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        handle.anchor = Some(anchor);
        handle.move_anchor(&path)?;
        Ok(self)
    }

    /// Makes a vault that ends with the program, for demonstrations and tests.
    ///
    /// # Errors
    /// [`VaultError::Failed`] when memory runs out.
    pub fn in_memory() -> Result<Self, VaultError> {
        let shown = ":memory:";
        let open = || {
            let mut connection = Connection::open_in_memory()?;
            schema::configure(&mut connection, BUSY)?;
            Ok(connection)
        };
        Self::make(open().map_err(|fault: Fault| fault.at(shown))?, None, shown)
    }

    fn make(connection: Connection, place: Option<Place>, path: &str) -> Result<Self, VaultError> {
        let home = place.as_ref().map(|place| place.home().clone());
        let vault = Self::over(connection, place, path.to_owned());
        vault.transact_anywhere(|connection, _| {
            schema::create(connection)?;
            schema::initialise(connection)?;
            if let Some(home) = &home {
                home::set(connection, home, false)?;
            }
            analyst::add(connection, OWNER)
        })?;
        Ok(vault)
    }

    fn over(connection: Connection, place: Option<Place>, path: String) -> Self {
        let handle = Handle::new(connection, place);
        Self { path, handle: Mutex::new(handle), queue: Queue::default() }
    }
}

fn cannot_open(path: &str, error: io::Error) -> VaultError {
    VaultError::CannotOpen { path: path.to_owned(), source: Box::new(error) }
}
