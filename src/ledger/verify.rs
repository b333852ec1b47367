//! A vault verified as a whole, from its first entry to its last.
//!
//! An open vault goes in; what it holds comes out, or the first damage that is found. Opening a vault reads what it goes
//! on with: the declarations, the newest checkpoint and the entries after it. This reads everything.
//!
//! ```text
//! SQLite's own check ─▶ entries 1 … n, each checkpoint on the way ─▶ seals, budgets, declarations
//! ```

use std::fmt;

use super::analyst;
use super::chain::Witness;
use super::charge;
use super::error::{Fault, VaultError};
use super::pages::PAGE;
use super::vault::Vault;
use super::{history, schema, statements};
use crate::catalog::store;

/// What a vault holds that was verified as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The entries of its ledger.
    pub entries: i64,
    /// The privacy budgets.
    pub budgets: usize,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entries, budgets } = *self;
        let entry = if entries == 1 { "entry" } else { "entries" };
        let budget = if budgets == 1 { "budget agrees" } else { "budgets agree" };
        write!(f, "{entries} {entry} in the ledger, and {budgets} {budget} with them")
    }
}

impl Vault {
    /// Reads the whole vault; the time that it takes grows with the ledger. Charges go on meanwhile, except while SQLite
    /// checks the file.
    ///
    /// # Guarantee
    /// `Ok` only if SQLite finds the file sound, the chain of the ledger is whole from the first entry to the last, every
    /// checkpoint is what the entries up to it come to, every budget agrees with the sum of all entries, every
    /// statement has the text of its hash, and everything declared, now and before, is what was sealed.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] for the first of these that does not hold, or as [`Vault::open`].
    pub fn verify(&self) -> Result<Verified, VaultError> {
        self.read(|connection, _| schema::check_whole(connection))?;
        let mut witness = Witness::default();
        loop {
            let verified = self.read(|connection, newest| {
                let before = witness.mark();
                witness.follow(connection, PAGE)?;
                if witness.mark() != newest.mark() {
                    let ended = witness.mark() == before;
                    let broken = || Fault::Damage("the chain of its ledger is broken".to_owned());
                    return if ended { Err(broken()) } else { Ok(None) };
                }
                witness.check_end(connection)?;
                analyst::all(connection)?;
                history::all(connection)?;
                statements::check(connection)?;
                let catalog = store::load(connection)?;
                let budgets = charge::accounts(connection, &witness, &catalog)?.len();
                Ok(Some(Verified { entries: witness.mark().sequence, budgets }))
            })?;
            if let Some(verified) = verified {
                return Ok(verified);
            }
        }
    }
}
