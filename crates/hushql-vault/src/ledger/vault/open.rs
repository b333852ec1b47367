//! Creates and opens a vault: identifies its file, checks it, its home and its anchor.
//!
//! In: a path. Out: a [`Vault`] that can be queried and charged, or a refusal. The owner's own
//! operations are here, too: to adopt a vault in a new place, and to create or remove its anchor.
//!
//! ```text
//! path ─▶ one file, one name, no journal of another state ─▶ tables, newest checkpoint, tail ─▶ at home? ─▶ anchor? ─▶ Vault
//! ```

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use rusqlite::Connection;

use crate::ledger::charging::queue::Queue;
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::anchor::Anchor;
use crate::ledger::file::cached_read::CachedRead;
use crate::ledger::file::handle::{Handle, connect, connect_to_read, in_snapshot};
use crate::ledger::file::home::{self, Home};
use crate::ledger::file::place::VaultPlace;
use crate::ledger::file::schema;
use crate::ledger::file::wait::BUSY;
use crate::ledger::records::analyst;
use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::time;
use crate::ledger::vault::Vault;

impl Vault {
    /// Creates a vault in a new file that only its creator can read and write.
    ///
    /// # Errors
    /// [`VaultError::Exists`] if the path is taken, [`VaultError::CannotOpen`] or another variant
    /// if the file cannot be created or written; it then leaves no file behind.
    pub fn init(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        // Closing a file drops this process's locks on it, so only SQLite may open a vault. This
        // file is new, so no one can have locked it yet.
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
            let place = VaultPlace::from_path(path).map_err(|error| cannot_open(&shown, error))?;
            Self::make(connection, Some(place), &shown)
        });
        if made.is_err() {
            // Best effort: a file that cannot be removed is later refused because it is not a
            // vault.
            let _ = fs::remove_file(path);
        }
        made
    }

    /// Opens an existing vault and verifies its current state, in a time that does not grow with
    /// the ledger.
    ///
    /// # Guarantee
    /// `Ok` only if the file is a vault, SQLite finds its free pages and the pages of the
    /// declarations sound, the newest checkpoint of the ledger exists and is as written, the chain
    /// is intact from it to the sealed end, every budget agrees with the sums of that checkpoint
    /// and the entries after it, and the catalog is as declared. Reading an earlier entry or
    /// checkpoint detects damage to it, and so does [`Vault::verify`].
    ///
    /// # Errors
    /// A variant of [`VaultError`] for each of these conditions. This never creates a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        Self::open_with(path.as_ref(), BUSY)
    }

    /// Opens a vault with this time-out for the locks of other programs.
    pub(in crate::ledger) fn open_with(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let vault = Self::verified(path, busy)?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Opens a vault whose handle could not continue, with its anchor if it has one; as
    /// [`Vault::open`].
    pub(super) fn opened_anew(path: &Path, anchor: Option<Anchor>) -> Result<Self, VaultError> {
        let vault = Self::verified(path, BUSY)?;
        let vault = match anchor {
            Some(anchor) => vault.held_to(anchor)?,
            None => vault,
        };
        vault.check_home()?;
        Ok(vault)
    }

    /// Opens an existing vault for reading, for example on a medium that cannot be written. Nothing
    /// is written through it. So it need not be at home, and its anchor, if it has one, does not
    /// move.
    ///
    /// # Guarantee
    /// As [`Vault::open`], except that the vault may be anywhere. With an anchor, `Ok` only if the
    /// ledger contains the anchor's entry. Every charge and every other write through it fails.
    ///
    /// # Errors
    /// [`VaultError::Unanchored`] if the vault has an anchor and none is given,
    /// [`VaultError::PutBack`] or [`VaultError::OtherHistory`] if it does not contain the anchor's
    /// entry, and those of [`Vault::open`].
    pub fn open_to_read(
        path: impl AsRef<Path>,
        anchor: Option<impl AsRef<Path>>,
    ) -> Result<Self, VaultError> {
        let anchor = anchor.map(|anchor| Anchor::open(anchor.as_ref())).transpose()?;
        let (place, shown) = placed(path.as_ref())?;
        let connection = connect_to_read(path.as_ref(), &shown, BUSY)?;
        let vault = Self::over(connection, Some(place), shown);
        vault.is_sound(path.as_ref())?;
        vault.on_connection(|connection| {
            in_snapshot(connection, |connection| match &anchor {
                Some(anchor) => anchor.check(connection, &vault.path),
                None if home::read(connection)?.is_some_and(|known| known.anchored) => {
                    Err(VaultError::Unanchored { path: vault.path.clone() }.into())
                }
                None => Ok(()),
            })
        })?;
        Ok(vault)
    }

    /// Opens and verifies a vault without checking its home.
    fn verified(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let vault = Self::unverified(path, busy)?;
        vault.is_sound(path)?;
        Ok(vault)
    }

    /// Verifies the present state of an opened vault.
    fn is_sound(&self, path: &Path) -> Result<(), VaultError> {
        let vault = self;
        vault.on_connection(|connection| {
            in_snapshot(connection, |connection| {
                schema::check(connection, &vault.path)?;
                // SQLite reads zeros after the end of a truncated file.
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
        vault.lock()?.still_there(&vault.path)
    }

    /// Opens a file that may be a vault, without reading it.
    fn unverified(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        time::now()?;
        let (place, shown) = placed(path)?;
        let connection = connect(path, &shown, busy)?;
        let readonly =
            connection.is_readonly("main").map_err(|error| Fault::from(error).at(&shown))?;
        if readonly {
            return Err(VaultError::ReadOnly { path: shown });
        }
        Ok(Self::over(connection, Some(place), shown))
    }

    fn on_connection<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        work(&self.lock()?.connection).map_err(|fault| fault.at(&self.path))
    }

    /// Opens an existing vault with its anchor, which each charge then moves.
    ///
    /// An anchor is a small file in another place with the number and the hash of the ledger's
    /// newest entry. A vault may be ahead of its anchor: a program died between the two writes, or
    /// charged without the anchor.
    ///
    /// # Guarantee
    /// `Ok` only if [`Vault::open`] would be `Ok`, and the ledger is the one along which the anchor
    /// last moved, or extends it. The vault returns no charge before the anchor on the disk has
    /// reached that charge.
    ///
    /// # Errors
    /// [`VaultError::PutBack`] or [`VaultError::OtherHistory`] for a vault without the anchor's
    /// entry, [`VaultError::NoAnchor`], [`VaultError::AnchorDamaged`] or [`VaultError::Anchor`] for
    /// the anchor itself, and the errors of [`Vault::open`].
    pub fn open_anchored(
        path: impl AsRef<Path>,
        anchor: impl AsRef<Path>,
    ) -> Result<Self, VaultError> {
        let anchor = Anchor::open(anchor.as_ref())?;
        let vault = Self::verified(path.as_ref(), BUSY)?.held_to(anchor)?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Adopts a vault that was copied, restored, renamed or moved: its present place becomes its
    /// home. Then opens it.
    ///
    /// Only its owner can know that no other copy is in use: two copies are two budgets. This
    /// verifies the whole vault and its anchor, if there is one, first.
    ///
    /// # Errors
    /// [`VaultError::Unanchored`] if the vault has an anchor and none is given, and the errors of
    /// [`Vault::open_anchored`] except [`VaultError::NotAtHome`].
    pub fn adopt(
        path: impl AsRef<Path>,
        anchor: Option<impl AsRef<Path>>,
    ) -> Result<Self, VaultError> {
        let anchor = anchor.map(|anchor| Anchor::open(anchor.as_ref())).transpose()?;
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

    /// Removes the anchor from a vault, which then opens without it. An owner does this to replace
    /// a lost anchor or to move it. The anchor's file remains.
    ///
    /// # Errors
    /// Those of [`Vault::open`] except [`VaultError::Unanchored`].
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

    /// The home of the vault in its present place.
    pub(super) fn home(&self) -> Result<Option<Home>, VaultError> {
        Ok(self.lock()?.place.as_ref().map(|place| place.home().clone()))
    }

    /// Refuses a vault whose home is elsewhere, or that has an anchor but was opened without it.
    fn check_home(&self) -> Result<(), VaultError> {
        let handle = self.lock()?;
        handle.may_begin(&self.path)?;
        let checked =
            in_snapshot(&handle.connection, |connection| handle.at_home(connection, &self.path));
        checked.map_err(|fault| fault.at(&self.path))
    }

    /// Creates an anchor for the present state of a vault, and opens the vault with it.
    ///
    /// Only its owner can know that the vault is not an older copy. From then on,
    /// [`Vault::open_anchored`] detects an older copy.
    ///
    /// # Errors
    /// [`VaultError::AnchorExists`] if the path is taken, [`VaultError::AnchorBeside`] if it is in
    /// the vault's own folder, and the errors of [`Vault::open_anchored`].
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
            // Another attempt must not fail because of this file.
            let _ = fs::remove_file(anchor);
        }
        held
    }

    /// Moves the anchor to the end of the ledger, which proves that it can be moved, and keeps it.
    pub(in crate::ledger) fn held_to(mut self, anchor: Anchor) -> Result<Self, VaultError> {
        let path = self.path.clone();
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        handle.anchor = Some(anchor);
        // The newest entries may be those of another program.
        handle.place.as_ref().map_or(Ok(()), |place| place.sync(&path))?;
        handle.move_anchor(&path)?;
        Ok(self)
    }

    /// Creates a vault in memory that ends with the program, for demonstrations and tests.
    ///
    /// # Errors
    /// [`VaultError::Failed`] if memory runs out.
    pub fn in_memory() -> Result<Self, VaultError> {
        let shown = ":memory:";
        let open = || {
            let mut connection = Connection::open_in_memory()?;
            schema::configure(&mut connection, BUSY)?;
            Ok(connection)
        };
        Self::make(open().map_err(|fault: Fault| fault.at(shown))?, None, shown)
    }

    fn make(
        connection: Connection,
        place: Option<VaultPlace>,
        path: &str,
    ) -> Result<Self, VaultError> {
        time::now()?;
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

    fn over(connection: Connection, place: Option<VaultPlace>, path: String) -> Self {
        let place = place.map(Arc::new);
        let handle = Handle::new(connection, place.clone());
        Self {
            path,
            place,
            declared: CachedRead::default(),
            released: CachedRead::default(),
            roles: CachedRead::default(),
            handle: Mutex::new(handle),
            queue: Queue::default(),
            keeping: Mutex::default(),
        }
    }
}

/// The place of a file that may be a vault, and its displayed path. SQLite has not opened it yet.
fn placed(path: &Path) -> Result<(VaultPlace, String), VaultError> {
    let shown = path.display().to_string();
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(VaultError::NotAFile { path: shown }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(VaultError::Missing { path: shown });
        }
        Err(error) => return Err(cannot_open(&shown, error)),
    }
    // Do this before SQLite opens the file: from here on the path must not name another file.
    let place = VaultPlace::from_path(path).map_err(|error| cannot_open(&shown, error))?;
    place.check(&shown)?;
    place.check_journal(&shown)?;
    Ok((place, shown))
}

fn cannot_open(path: &str, error: io::Error) -> VaultError {
    VaultError::CannotOpen { path: path.to_owned(), source: Box::new(error) }
}
