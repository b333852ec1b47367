//! Upgrades a vault to the present format.
//!
//! In: a vault of this or another format. Out: the vault, opened, in the present format. No
//! released program made an older format, so there is none to convert. A vault of any other format
//! is refused and stays unchanged.
//!
//! A change of the tables must raise [`VERSION`](crate::ledger::format_version::VERSION), and read
//! the tables of the earlier format here.

use std::path::Path;

use crate::ledger::error::VaultError;
use crate::ledger::vault::Vault;

impl Vault {
    /// Upgrades a vault to the format of this program, unless it has this format already, and opens
    /// it.
    ///
    /// # Errors
    /// [`VaultError::Version`] for a format that this program does not know, and the errors of
    /// [`Vault::open_anchored`].
    pub fn upgrade(
        path: impl AsRef<Path>,
        anchor: Option<impl AsRef<Path>>,
    ) -> Result<Self, VaultError> {
        match anchor {
            Some(anchor) => Self::open_anchored(path, anchor),
            None => Self::open(path),
        }
    }
}
