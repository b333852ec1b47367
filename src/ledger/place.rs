//! Where the file of a vault is: which file the path names, the folder that holds its name, and the journal beside it.
//!
//! A path goes in when a vault is opened; before and after every write the vault asks whether the path still
//! names the same file and the file has no other name, and after every commit the folder is synced. It assumes that nobody exchanges the
//! file in the moment of opening. It then guarantees that no charge is handed out that went into a file
//! which was removed, renamed or replaced, while another vault lies at the path for the next one to open, and that no
//! journal is rolled back that was begun before other charges.
//!
//! ```text
//! study.db → device 8, inode 17     mv study.db old.db; cp backup.db study.db     study.db → device 8, inode 23
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::error::VaultError;
use super::home::Home;
use super::journal::{Journal, State};

/// How often a journal that changes while it is looked at is looked at again: another program is charging.
const LOOKS: usize = 1_000;

/// A path, the file that it named, and the folder of that file.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    journal: PathBuf,
    file: Identity,
    home: Home,
    folder: Folder,
}

/// What tells a file from every other one that exists at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Elsewhere an open file cannot be replaced, so there is nothing to tell apart.
    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Self {
        Self { device: 0, inode: 0 }
    }
}

/// How many names a file has.
#[cfg(unix)]
fn links(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links(_: &fs::Metadata) -> u64 {
    1
}

impl Place {
    /// The file that a path names now.
    ///
    /// The file itself is not opened: closing it would drop the locks that this process holds on it
    /// through SQLite. The folder is, once: a program that has run out of file descriptors could not open it
    /// later, and SQLite then leaves out the sync without a word.
    ///
    /// # Errors
    /// When there is no such file, or its folder cannot be read.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let file = Identity::of(&fs::metadata(&path)?);
        // SQLite follows links before it names the journal.
        let resolved = fs::canonicalize(&path)?;
        let folder = Folder::of(&resolved)?;
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

    /// What the vault remembers of this place.
    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// Refuses when the path does not name the file any more, or is not its only name. A file that cannot be looked
    /// at is not there.
    ///
    /// # Errors
    /// [`VaultError::Moved`], [`VaultError::Linked`].
    pub(super) fn check(&self, shown: &str) -> Result<(), VaultError> {
        let path = || shown.to_owned();
        match fs::metadata(&self.path) {
            Ok(found) if Identity::of(&found) != self.file => {
                Err(VaultError::Moved { path: path() })
            }
            Ok(found) if links(&found) > 1 => {
                Err(VaultError::Linked { path: path(), links: links(&found) })
            }
            Ok(_) => Ok(()),
            Err(_) => Err(VaultError::Moved { path: path() }),
        }
    }

    /// Refuses when there is a journal beside the file that was begun on another state of it. It must be
    /// called before SQLite is asked anything: its first read rolls the journal back.
    ///
    /// # Errors
    /// [`VaultError::ForeignJournal`], and [`VaultError::CannotOpen`] when the journal or the file cannot be read.
    pub(super) fn check_journal(&self, shown: &str) -> Result<(), VaultError> {
        let unread = |e| VaultError::CannotOpen { path: shown.to_owned(), source: Box::new(e) };
        for _ in 0..LOOKS {
            let Some(journal) = self.journal().map_err(unread)? else { return Ok(()) };
            match self.state().map_err(unread)? {
                Some(state) if !journal.fits(state) => {}
                Some(_) | None => return Ok(()),
            }
            // The journal of a program that is writing is another one by now, or gone.
            if self.journal().map_err(unread)? == Some(journal) {
                return Err(VaultError::ForeignJournal { path: shown.to_owned() });
            }
        }
        Err(VaultError::Locked { path: shown.to_owned() })
    }

    /// The journal that SQLite would roll back, or is writing.
    fn journal(&self) -> io::Result<Option<Journal>> {
        match fs::File::open(&self.journal) {
            Ok(mut file) => Journal::read(&mut file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The state of the file, read beside SQLite. The file is kept open for as long as the program runs, once for each vault:
    /// closing it would drop the locks that this process holds on it through SQLite.
    fn state(&self) -> io::Result<Option<State>> {
        static KEPT: Mutex<BTreeMap<Identity, fs::File>> = Mutex::new(BTreeMap::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = kept.get_mut(&self.file) {
            return State::read(file);
        }
        let file = fs::File::open(&self.path)?;
        let found = Identity::of(&file.metadata()?);
        if found != self.file {
            // Exchanged in this moment; whoever writes hears of it. Not closed either: it may be another open vault.
            kept.entry(found).or_insert(file);
            return Ok(None);
        }
        State::read(kept.entry(found).or_insert(file))
    }

    /// Makes the names in the folder durable.
    ///
    /// # Guarantee
    /// `Ok` only when the making or removal of a journal before this call has reached the disk: after a power
    /// cut it is there to undo half of a transaction, and does not come back to undo one that was committed.
    ///
    /// # Errors
    /// [`VaultError::Unsynced`].
    pub(super) fn sync(&self, shown: &str) -> Result<(), VaultError> {
        let unsynced = |source| VaultError::Unsynced { path: shown.to_owned(), source };
        self.folder.sync().map_err(unsynced)
    }
}

/// A folder whose names can be made durable.
///
/// Elsewhere than on Unix a folder cannot be opened as a file, and the system cares for its names itself.
#[derive(Debug)]
pub(super) struct Folder {
    #[cfg(unix)]
    file: fs::File,
}

impl Folder {
    /// The folder that holds the name of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(file: &Path) -> io::Result<Self> {
        let path = file.parent().unwrap_or(Path::new("/"));
        Ok(Self {
            #[cfg(unix)]
            file: fs::File::open(path)?,
        })
    }

    /// The folder's inode.
    fn inode(&self) -> io::Result<u64> {
        #[cfg(unix)]
        return Ok(Identity::of(&self.file.metadata()?).inode);
        #[cfg(not(unix))]
        Ok(0)
    }

    /// Makes the names in it durable.
    ///
    /// # Guarantee
    /// `Ok` only when every name that was made, changed or removed before has reached the disk.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn sync(&self) -> io::Result<()> {
        #[cfg(unix)]
        self.file.sync_all()?;
        Ok(())
    }
}
