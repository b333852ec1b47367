//! The place of a vault's file: the file that the path names, its folder, and the journal beside
//! it.
//!
//! In: the path of a vault, when it is opened. Out: checks, before and after each write, that the
//! path still names the same file and that the file has no other name, and a sync of the folder
//! after each commit. If nobody replaces the file at the moment of opening, the vault never returns
//! a charge that went into a removed, renamed or replaced file while another vault is at the path,
//! and never rolls back a journal that was begun before other charges.
//!
//! ```text
//! study.db → device 8, inode 17     mv study.db old.db; cp backup.db study.db     study.db → device 8, inode 23
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::ledger::error::VaultError;
use crate::ledger::file::home::Home;
use crate::ledger::file::journal::{DatabaseState, Journal};

/// How often a journal is read again if it changes because another program is charging.
const LOOKS: usize = 1_000;

/// A path, the file that it named when it was opened, and the folder of that file.
#[derive(Debug)]
pub(crate) struct VaultPlace {
    path: PathBuf,
    journal: PathBuf,
    file: FileIdentity,
    home: Home,
    folder: SyncedFolder,
}

/// The identity of a file among all files that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    #[cfg(unix)]
    fn from_metadata(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// On other systems an open file cannot be replaced, so all identities are equal.
    #[cfg(not(unix))]
    fn from_metadata(_: &fs::Metadata) -> Self {
        Self { device: 0, inode: 0 }
    }
}

/// The number of names of a file.
#[cfg(unix)]
fn links(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links(_: &fs::Metadata) -> u64 {
    1
}

impl VaultPlace {
    /// The place of the file that a path names now.
    ///
    /// This does not open the file, because closing it would drop the locks that this process holds
    /// on it through SQLite. It opens the folder once: a program without free file descriptors
    /// could not open it later, and SQLite would then silently leave out the sync.
    ///
    /// # Errors
    /// If the file does not exist, or its folder cannot be read.
    pub(crate) fn from_path(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let file = FileIdentity::from_metadata(&fs::metadata(&path)?);
        // SQLite resolves links before it names the journal.
        let resolved = fs::canonicalize(&path)?;
        let folder = SyncedFolder::for_file(&resolved)?;
        let name = resolved.file_name().unwrap_or_default();
        let home = Home {
            name: name.as_encoded_bytes().to_vec(),
            file: file.inode,
            folder: folder.inode()?,
        };
        let mut journal = resolved.into_os_string();
        journal.push("-journal");
        Ok(Self { path, journal: PathBuf::from(journal), file, home, folder })
    }

    /// The place of a file in a folder that cannot be synced, for tests.
    #[cfg(all(test, unix))]
    pub(crate) fn without_syncs(path: &Path) -> io::Result<Self> {
        let folder = SyncedFolder { file: fs::File::open("/dev/null")? };
        Ok(Self { folder, ..Self::from_path(path)? })
    }

    /// The absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The home that the vault stores for this place.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Refuses if the path no longer names the file, or is not its only name. A file without
    /// readable metadata counts as removed.
    ///
    /// # Errors
    /// [`VaultError::Moved`], [`VaultError::Linked`].
    pub(crate) fn check(&self, shown: &str) -> Result<(), VaultError> {
        let path = || shown.to_owned();
        match fs::metadata(&self.path) {
            Ok(found) if FileIdentity::from_metadata(&found) != self.file => {
                Err(VaultError::Moved { path: path() })
            }
            Ok(found) if links(&found) > 1 => {
                Err(VaultError::Linked { path: path(), links: links(&found) })
            }
            Ok(_) => Ok(()),
            Err(_) => Err(VaultError::Moved { path: path() }),
        }
    }

    /// Refuses if the journal beside the file was begun on another state of the file. Call it
    /// before any use of SQLite, whose first read rolls the journal back.
    ///
    /// # Errors
    /// [`VaultError::ForeignJournal`], and [`VaultError::CannotOpen`] if the journal or the file
    /// cannot be read.
    pub(crate) fn check_journal(&self, shown: &str) -> Result<(), VaultError> {
        let unread = |e| VaultError::CannotOpen { path: shown.to_owned(), source: Box::new(e) };
        for _ in 0..LOOKS {
            let Some(journal) = self.journal().map_err(unread)? else { return Ok(()) };
            match self.state().map_err(unread)? {
                Some(state) if !journal.fits(state) => {}
                Some(_) | None => return Ok(()),
            }
            // If another program is writing, its journal has changed or gone by now.
            if self.journal().map_err(unread)? == Some(journal) {
                return Err(VaultError::ForeignJournal { path: shown.to_owned() });
            }
        }
        Err(VaultError::Locked { path: shown.to_owned() })
    }

    /// The journal that SQLite would roll back or is writing.
    fn journal(&self) -> io::Result<Option<Journal>> {
        match fs::File::open(&self.journal) {
            Ok(mut file) => Journal::read(&mut file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The state of the file, read beside SQLite. Each vault's file stays open until the program
    /// ends, because closing it would drop the locks that this process holds on it through SQLite.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn state(&self) -> io::Result<Option<DatabaseState>> {
        static KEPT: Mutex<BTreeMap<FileIdentity, fs::File>> = Mutex::new(BTreeMap::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = kept.get_mut(&self.file) {
            return DatabaseState::read(file);
        }
        let file = fs::File::open(&self.path)?;
        let found = FileIdentity::from_metadata(&file.metadata()?);
        if found != self.file {
            // Another file has just replaced this one, and the next write will report it. Keep this
            // file open, too: it may be another open vault.
            kept.entry(found).or_insert(file);
            return Ok(None);
        }
        DatabaseState::read(kept.entry(found).or_insert(file))
    }

    /// Makes the names in the folder durable.
    ///
    /// # Guarantee
    /// `Ok` only if the creation or removal of a journal before this call has reached the disk:
    /// after a power cut, the journal exists to undo half of a transaction, and does not reappear
    /// to undo a committed one.
    ///
    /// # Errors
    /// [`VaultError::Unsynced`].
    pub(crate) fn sync(&self, shown: &str) -> Result<(), VaultError> {
        let unsynced = |source| VaultError::Unsynced { path: shown.to_owned(), source };
        self.folder.sync().map_err(unsynced)
    }
}

/// A folder whose names can be made durable.
///
/// On systems other than Unix, a folder cannot be opened as a file, and the system itself makes its
/// names durable.
#[derive(Debug)]
pub(crate) struct SyncedFolder {
    #[cfg(unix)]
    file: fs::File,
}

impl SyncedFolder {
    /// The folder that contains a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn for_file(file: &Path) -> io::Result<Self> {
        let path = file.parent().unwrap_or(Path::new("/"));
        Ok(Self {
            #[cfg(unix)]
            file: fs::File::open(path)?,
        })
    }

    /// The folder's inode.
    fn inode(&self) -> io::Result<u64> {
        #[cfg(unix)]
        return Ok(FileIdentity::from_metadata(&self.file.metadata()?).inode);
        #[cfg(not(unix))]
        Ok(0)
    }

    /// Makes the names in the folder durable.
    ///
    /// # Guarantee
    /// `Ok` only if every name that was created, changed or removed before has reached the disk.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn sync(&self) -> io::Result<()> {
        #[cfg(unix)]
        self.file.sync_all()?;
        Ok(())
    }
}
