//! Tables of a vault whose files do not fit their declaration: noted, and looked up before the next charge.
//!
//! In: tables. Out: what [`drift`](crate::ledger::records::drift) notes. Each method is one transaction.

use crate::catalog::{Catalog, Replay, numbers};
use crate::ledger::error::VaultError;
use crate::ledger::records::drift;
use crate::ledger::vault::Vault;

impl Vault {
    /// Notes that a charged statement of an analyst failed because the files of these tables do not fit their declaration.
    ///
    /// # Guarantee
    /// `Ok` only once the notes are durable. A table that was declared again since has none.
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

    /// The first of these tables on which a charged statement failed since the table was declared, as far as the analyst may know:
    /// where answers are replayed to whoever paid for them, or not at all, the analyst's own statement.
    ///
    /// # Errors
    /// [`VaultError`] if the file cannot be read, or the ledger was altered.
    pub fn drifted(
        &self,
        tables: &[String],
        analyst: &str,
        planned: &Catalog,
    ) -> Result<Option<String>, VaultError> {
        if tables.is_empty() {
            return Ok(None);
        }
        self.read(|connection, _| {
            for table in tables {
                let domain = planned.unit_domain(table).into_iter();
                let budgets = domain.flat_map(|domain| planned.budgets_of(domain));
                let strictest = budgets.map(|budget| budget.replay).reduce(Replay::strictest);
                let of = match strictest.unwrap_or(Replay::Off) {
                    Replay::All => None,
                    Replay::Own | Replay::Off => Some(analyst),
                };
                let version = planned.numbers().of(table);
                if drift::is_noted(connection, (table, version), of)? {
                    return Ok(Some(table.clone()));
                }
            }
            Ok(None)
        })
    }
}
