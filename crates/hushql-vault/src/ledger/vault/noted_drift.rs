//! Tables of a vault whose files do not fit their declaration. A failed statement notes them after
//! its charge, and the next charge reads the notes.
//!
//! In: tables. Out: the notes of [`drift`](crate::ledger::records::drift), in one transaction.

use crate::catalog::{Catalog, numbers};
use crate::ledger::error::VaultError;
use crate::ledger::records::drift;
use crate::ledger::vault::Vault;

impl Vault {
    /// Notes that a charged statement of an analyst failed because the files of these tables do not
    /// fit their declaration.
    ///
    /// # Guarantee
    /// `Ok` only once the notes are durable. A table that was declared again since has no note.
    ///
    /// # Errors
    /// [`VaultError`] if the file cannot be read or written.
    pub fn note_drift(
        &self,
        tables: &[String],
        analyst: &str,
        statement: &str,
        planned: &Catalog,
    ) -> Result<(), VaultError> {
        self.write(|connection, witness| {
            witness.advance(connection)?;
            let now = numbers::numbers(connection)?;
            for table in tables {
                let version = planned.numbers().of(table);
                if now.of(table) == version {
                    drift::note(connection, witness, (table, version), analyst, statement)?;
                }
            }
            Ok(())
        })
    }
}
