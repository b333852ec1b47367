//! The folder of a table of Delta Lake, in which files are opened by the names of its log.
//!
//! In: a name below the folder. Out: the open file. Each folder on the way is opened in the folder
//! above it, and no link is followed, so that no name of a log leads out of the folder.

use std::fs::File;
use std::io::{self, Read};

use nix::dir::Dir;

use super::log_error::unreadable;
use crate::exec::source::file_discovery::opened;

/// The open folder of a table.
pub(super) struct TableFolder {
    root: File,
}

impl TableFolder {
    /// # Errors
    /// If there is no such folder.
    pub(super) fn open(folder: &str) -> io::Result<Self> {
        let root = File::open(folder)?;
        match root.metadata()?.is_dir() {
            true => Ok(Self { root }),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Opens a file or folder below the folder.
    ///
    /// # Errors
    /// A sentence for the owner about a name that leads elsewhere; the system's error for one that
    /// cannot be opened.
    fn entry(&self, name: &str) -> io::Result<File> {
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(unreadable(format!(
                "its log names `{name}`, which is outside of the table's folder"
            )));
        }
        let mut at = self.root.try_clone()?;
        for part in name.split('/') {
            at = File::from(opened(&Dir::from_fd(at.into())?, part.as_bytes())?);
        }
        Ok(at)
    }

    /// Opens a file below the folder.
    ///
    /// # Errors
    /// As for entries, and if it is no file.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let file = self.entry(name)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(unreadable(format!("`{name}` is not a file"))),
        }
    }

    /// The bytes of a file below the folder.
    ///
    /// # Errors
    /// As [`TableFolder::file`].
    pub(super) fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a folder below this one, those that are text.
    ///
    /// # Errors
    /// The system's, if there is no such folder.
    pub(super) fn names(&self, name: &str) -> io::Result<Vec<String>> {
        let mut folder = Dir::from_fd(self.entry(name)?.into())?;
        let mut names = Vec::new();
        for entry in folder.iter() {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}
