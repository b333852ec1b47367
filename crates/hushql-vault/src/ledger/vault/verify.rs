//! Verifies a whole vault, from its first entry to its last.
//!
//! In: an open vault. Out: its size, or the first damage found. Opening a vault reads only the
//! declarations, the newest checkpoint and the entries after it. This reads everything.
//!
//! ```text
//! SQLite's own check ─▶ entries 1 … n, each checkpoint on the way ─▶ seals, budgets, declarations
//! ```

use std::fmt;

use crate::catalog::store;
use crate::ledger::charging::charge;
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::schema;
use crate::ledger::records::analyst;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::{answers, draw_records, history, roles, statements};
use crate::ledger::vault::Vault;
use crate::ledger::vault::pages::PAGE;

/// The contents of a verified vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The number of entries in its ledger.
    pub entries: i64,
    /// The number of privacy budgets.
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
    /// Verifies the whole vault, in a time that grows with the ledger. Charges continue in the
    /// meantime, except while SQLite checks the file.
    ///
    /// # Guarantee
    /// `Ok` only if SQLite finds the file sound, the chain of the ledger is intact from the first
    /// entry to the last, every checkpoint equals the sums of the entries up to it, every budget
    /// agrees with the sum of all entries, the text of every statement matches its hash, the stored
    /// answers are those of the ledger, and all present and past declarations match their seals.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] for the first of these conditions that does not hold, or as
    /// [`Vault::open`].
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
                answers::check(connection)?;
                draw_records::check(connection)?;
                roles::all(connection)?;
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
