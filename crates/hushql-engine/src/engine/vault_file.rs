//! What an owner can change about the file of a vault: its anchor, its home, its format.
//!
//! In: the path of a vault that no program uses. Out: the file, changed. Budgets and declarations
//! stay as they are.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::ledger::Vault;

/// The file of a vault, for its owner.
///
/// [`Engine::builder`](crate::Engine::builder) opens a vault for queries; a `VaultFile` changes how
/// the file may be opened. Each call verifies the whole vault first.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, Error, VaultFile};
///
/// # let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let (vault, anchor) = (folder.path().join("study.db"), elsewhere.path().join("study.anchor"));
/// Engine::init(&vault)?;
/// VaultFile::at(&vault).make_anchor(&anchor)?;
/// // From now on it opens with its anchor only.
/// assert!(matches!(Engine::open(&vault), Err(Error::Ledger(_))));
/// let engine = Engine::builder().anchor(&anchor).open(&vault)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct VaultFile {
    path: PathBuf,
}

impl VaultFile {
    /// The vault at this path. Nothing is read before one of the other methods is called.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let file = hushql::VaultFile::at("no-such-file.db");
    /// assert!(file.upgrade(None).is_err());
    /// ```
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned() }
    }

    /// Creates an anchor for the present state of the vault; see
    /// [`EngineBuilder::anchor`](crate::EngineBuilder::anchor). Only the owner can know that the
    /// file is not an older copy of the vault.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error, VaultFile};
    ///
    /// # let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (vault, anchor) = (folder.path().join("study.db"), elsewhere.path().join("study.anchor"));
    /// Engine::init(&vault)?;
    /// let file = VaultFile::at(&vault);
    /// file.make_anchor(&anchor)?;
    /// // An anchor is never overwritten.
    /// assert!(matches!(file.make_anchor(&anchor), Err(Error::Ledger(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the anchor exists, cannot be written or would be in the vault's own
    /// folder, when the vault has an anchor already, or as [`Engine::open`](crate::Engine::open).
    pub fn make_anchor(&self, anchor: impl AsRef<Path>) -> Result<(), Error> {
        Ok(Vault::make_anchor(&self.path, anchor).map(drop)?)
    }

    /// Removes the anchor from the vault, which then opens without one. This is for an owner who
    /// has lost the anchor, or moves it. The anchor's file stays.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, VaultFile};
    ///
    /// # let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (vault, anchor) = (folder.path().join("study.db"), elsewhere.path().join("study.anchor"));
    /// Engine::builder().anchor(&anchor).init(&vault)?;
    /// VaultFile::at(&vault).remove_anchor()?;
    /// let engine = Engine::open(&vault)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] as [`Engine::open`](crate::Engine::open).
    pub fn remove_anchor(&self) -> Result<(), Error> {
        Ok(Vault::remove_anchor(&self.path).map(drop)?)
    }

    /// Makes the present location of the file its home, after it was copied, restored, renamed or
    /// moved. Only the owner can know that no other copy is in use; two copies would have two
    /// budgets. If the vault has an anchor, pass it here.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, VaultFile};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let (vault, moved) = (folder.path().join("study.db"), folder.path().join("moved.db"));
    /// Engine::init(&vault)?;
    /// std::fs::rename(&vault, &moved)?;
    /// assert!(Engine::open(&moved).is_err());
    /// VaultFile::at(&moved).adopt(None)?;
    /// let engine = Engine::open(&moved)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault has an anchor and none is given, or as
    /// [`EngineBuilder::open`](crate::EngineBuilder::open).
    pub fn adopt(&self, anchor: Option<&Path>) -> Result<(), Error> {
        Ok(Vault::adopt(&self.path, anchor).map(drop)?)
    }

    /// Converts the file to the format of this library. Format 1 is the first, so a file in any
    /// other format is refused. If the vault has an anchor, pass it here.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, VaultFile};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let vault = folder.path().join("study.db");
    /// # Engine::init(&vault)?;
    /// VaultFile::at(&vault).upgrade(None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the file has another format, or as
    /// [`EngineBuilder::open`](crate::EngineBuilder::open).
    pub fn upgrade(&self, anchor: Option<&Path>) -> Result<(), Error> {
        Ok(Vault::upgrade(&self.path, anchor).map(drop)?)
    }
}
