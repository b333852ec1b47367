//! Where the file of a vault is: which file the path names, and the folder that holds its name.
//!
//! A path goes in when a vault is opened; before and after every write the vault asks whether the path still
//! names the same file, and after every commit the folder is synced. It assumes that nobody exchanges the
//! file in the moment of opening. It then guarantees that no charge is handed out that went into a file
//! which was removed, renamed or replaced, while another vault lies at the path for the next one to open.
//!
//! ```text
//! study.db → device 8, inode 17     mv study.db old.db; cp backup.db study.db     study.db → device 8, inode 23
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::VaultError;

/// A path, the file that it named, and the folder of that file.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    file: Identity,
    folder: Folder,
}

/// What tells a file from every other one that exists at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        Ok(Self { path, file, folder })
    }

    /// Whether the path still names the file. One that cannot be looked at is not there.
    pub(super) fn holds(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| Identity::of(&found) == self.file)
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
