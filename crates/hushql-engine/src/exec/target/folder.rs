//! An open folder. Names are looked up in the folder itself, even if its path leads elsewhere by
//! then.
//!
//! In: an absolute path without links. Out: a handle in which files are created and removed. If
//! somebody exchanges a folder on the path, or replaces a folder or file by a link, the operation
//! fails and reaches nothing elsewhere.
//!
//! ```text
//! /srv/out, and the name a.csv   →   openat(openat(open("/"), "srv"), "out"), each no link; then a.csv, which must be new
//! ```

use std::fs::File;
use std::io;
use std::path::Path;

#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
#[cfg(unix)]
use std::path::Component;

#[cfg(unix)]
use nix::fcntl::{OFlag, open, openat};
#[cfg(unix)]
use nix::sys::stat::Mode;
#[cfg(unix)]
use nix::unistd::{UnlinkatFlags, unlinkat};

/// The flag with which a folder is opened to look up names. Where the system permits it, this needs
/// no right to list the folder.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LOOK_UP: OFlag = OFlag::O_PATH;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const LOOK_UP: OFlag = OFlag::O_RDONLY;

/// An open folder.
#[derive(Debug)]
pub(crate) struct TargetFolder {
    #[cfg(unix)]
    handle: OwnedFd,
    #[cfg(not(unix))]
    path: std::path::PathBuf,
}

/// What identifies a folder: its device and its inode.
type FolderIdentity = (u64, u64);

#[cfg(unix)]
impl TargetFolder {
    /// Opens a folder by an absolute path, one component at a time from the root.
    ///
    /// # Guarantee
    /// `Ok` only if no part of the path is a link.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = LOOK_UP | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut handle = open("/", flags, Mode::empty())?;
        let mut components = path.components();
        if components.next() != Some(Component::RootDir) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for component in components {
            let Component::Normal(name) = component else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            handle = openat(&handle, name, flags, Mode::empty())?;
        }
        Ok(Self { handle })
    }

    /// Creates a file that must be new.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken, even by a link;
    /// [`io::ErrorKind::InvalidInput`] for a name that leads elsewhere.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o644);
        Ok(File::from(openat(&self.handle, name, flags, mode)?))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn identity(&self) -> io::Result<FolderIdentity> {
        let metadata = File::from(self.handle.try_clone()?).metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Whether a file or folder is this folder, or lies below it.
    ///
    /// # Errors
    /// Those of the file system; a path of which no folder exists lies below none.
    pub(crate) fn contains(&self, path: &Path) -> io::Result<bool> {
        let identity = self.identity()?;
        // If the end of a path does not exist, the folder that would hold it decides.
        let path = std::path::absolute(path)?;
        let Some(found) = path.ancestors().find_map(|known| std::fs::canonicalize(known).ok())
        else {
            return Ok(false);
        };
        for folder in found.ancestors() {
            let metadata = std::fs::metadata(folder)?;
            if (metadata.dev(), metadata.ino()) == identity {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(not(unix))]
impl TargetFolder {
    /// Opens a folder. This system has no handles for folders, so its path must not change.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path)?.is_dir() && path.is_absolute() {
            true => Ok(Self { path: path.to_owned() }),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Creates a file that must be new.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', ':']) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        std::fs::OpenOptions::new().write(true).create_new(true).open(self.path.join(name))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    /// Whether a file or folder is this folder, or lies below it.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn contains(&self, path: &Path) -> io::Result<bool> {
        let folder = std::fs::canonicalize(&self.path)?;
        let path = std::path::absolute(path)?;
        let found = path.ancestors().find_map(|known| std::fs::canonicalize(known).ok());
        Ok(found.is_some_and(|found| found.starts_with(&folder)))
    }
}
