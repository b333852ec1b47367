//! The kept draws of a vault: found, kept, and replayed.
//!
//! In: identities of releases. Out: what [`kept`](crate::ledger::records::kept) keeps. Each method is one transaction.

use crate::catalog::{Catalog, Replay, alter, store};
use crate::ledger::error::VaultError;
use crate::ledger::records::kept::{self, KeptDraw};
use crate::ledger::vault::Vault;

/// The key of a release under the present declarations, and the draw that is kept for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The key.
    pub(crate) key: [u8; 32],
    /// The draw, if one is kept that the asker may see.
    pub(crate) draw: Option<KeptDraw>,
}

impl Vault {
    /// Whose answers a budget replays from now on.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the budget does not exist.
    pub(crate) fn set_replay(&self, budget: &str, to: Replay) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(alter::set_replay(connection, budget, to)?))
    }

    /// The key of a release that was planned with this catalog, and what is kept for it; `None` where the budgets of its unit
    /// domains replay nothing.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] if the declarations are no longer those; [`VaultError::Corrupt`] if what is kept was altered.
    pub(crate) fn kept(
        &self,
        (identity, tables): (&[u8], &[String]),
        unit_domains: &[String],
        analyst: &str,
        planned: &Catalog,
    ) -> Result<Option<Kept>, VaultError> {
        self.read(|connection, _| {
            if !planned.version().is(&store::version(connection)?) {
                return Err(VaultError::Redeclared.into());
            }
            let budgets = unit_domains.iter().flat_map(|domain| planned.budgets_of(domain));
            let strictest = budgets.map(|budget| budget.replay).reduce(Replay::strictest);
            let of = match strictest.unwrap_or(Replay::Off) {
                Replay::Off => return Ok(None),
                Replay::Own => Some(analyst),
                Replay::All => None,
            };
            let key = kept::key(identity, &kept::versions(connection, tables)?);
            Ok(Some(Kept { key, draw: kept::find(connection, &key, of)? }))
        })
    }

    /// Keeps what a paid release drew.
    ///
    /// # Errors
    /// [`VaultError`] if the file cannot be written.
    pub(crate) fn keep_draw(
        &self,
        (key, analyst): (&[u8; 32], &str),
        statement: &str,
        draw: &KeptDraw,
    ) -> Result<(), VaultError> {
        self.write(|connection, witness| {
            witness.advance(connection)?;
            kept::keep(connection, witness, (key, analyst), statement, draw)
        })
    }

    /// Writes down that a kept draw is shown again, under the declarations that it was planned with.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] if the declarations are no longer those.
    pub(crate) fn replayed(
        &self,
        analyst: &str,
        statement: &str,
        charge: i64,
        planned: &Catalog,
    ) -> Result<(), VaultError> {
        self.write(|connection, witness| {
            if !planned.version().is(&store::version(connection)?) {
                return Err(VaultError::Redeclared.into());
            }
            witness.advance(connection)?;
            kept::replayed(connection, witness, analyst, statement, charge)
        })
    }
}
