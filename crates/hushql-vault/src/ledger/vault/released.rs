//! The release tables of a vault: stored, read, granted and dropped.
//!
//! In: requests of analysts and owners. Out: the tables that [`answers`] stores. Each method is one
//! transaction.

use std::sync::Arc;

use rusqlite::Connection;

use crate::catalog::CatalogError;
use crate::catalog::store::{self, SealedRows};
use crate::ledger::error::VaultError;
use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::answers::{self, NewAnswer, ReleaseTable};
use crate::ledger::records::roles;
use crate::ledger::vault::Vault;

impl Vault {
    /// All release tables, by name, for all readers. Cheap if nothing has changed since the last
    /// call.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if one of them was altered, or the file cannot be read.
    pub fn release_tables(&self) -> Result<Arc<Vec<ReleaseTable>>, VaultError> {
        let seal = |connection: &Connection| Ok(store::seal(connection, SealedRows::Answers)?);
        self.known(&self.released, seal, answers::all)
    }

    /// Checks whether this analyst could store an answer under this name now, before it is paid
    /// for.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the name is taken, or the creator has reached a limit.
    pub fn may_store(&self, name: &str, creator: &str) -> Result<(), VaultError> {
        self.read(|connection, _| {
            answers::check_free(connection, name, creator)?;
            answers::check_quota(connection, creator)
        })
    }

    /// Stores an answer that was charged and drawn. Returns the number of its entry.
    ///
    /// # Guarantee
    /// `Ok` only once the answer is on the disk, with an entry of the ledger that contains its
    /// digest.
    ///
    /// # Errors
    /// As [`Vault::may_store`], and if the file cannot be written.
    pub fn store_answer(&self, new: &NewAnswer) -> Result<i64, VaultError> {
        self.write(|connection, witness| {
            witness.advance(connection)?;
            answers::put(connection, witness, new)
        })
    }

    /// The bytes of the answer that the entry with this number stored; `None` if it was dropped.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if they differ from what was stored.
    pub fn stored_answer(&self, sequence: i64) -> Result<Option<Vec<u8>>, VaultError> {
        self.read(|connection, _| answers::answer(connection, sequence))
    }

    /// Drops a release table. Its cost stays spent.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if `by` neither created the table nor is the owner.
    pub fn drop_release_table(&self, name: &str, by: &str) -> Result<(), VaultError> {
        self.write(|connection, witness| {
            witness.advance(connection)?;
            answers::drop(connection, witness, name, by)
        })
    }

    /// Grants a release table to an analyst, or revokes the grant.
    ///
    /// An owner grants to roles, if the vault has some. A grant to another name would wait for
    /// whoever takes it. An analyst is not told which roles there are.
    ///
    /// # Errors
    /// As [`Vault::drop_release_table`], and [`VaultError::Catalog`] if there is no such role.
    pub fn grant_release_table(
        &self,
        (name, analyst): (&str, &str),
        may: bool,
        by: &str,
    ) -> Result<(), VaultError> {
        self.write(|connection, _| {
            let roles = roles::all(connection)?;
            let is_role = roles.iter().any(|role| role.name == analyst);
            if may && by == OWNER && !is_role && !roles.is_empty() {
                return Err(CatalogError::UnknownRole { role: analyst.to_owned() }.into());
            }
            answers::grant(connection, (name, analyst), may, by)
        })
    }
}
