//! Reads one state of the ledger in pages.
//!
//! In: the extent of the ledger when a statement was planned. Out: its entries, one page at a time.
//! Each page is verified between two checkpoints (or from the first entry, or to the end of the
//! extent). Each page is read in a separate transaction and verified after it, so that no charge
//! waits for a long read. Later entries are not shown and earlier ones cannot change, so all pages
//! show one state of the vault.
//!
//! ```text
//! checkpoint 0   entries 1 … 2048   checkpoint 2048   entries 2049 … 4096   …   the end: entry 5000, its hash
//! ```

use rusqlite::Connection;

use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::chain::{self, LedgerEntry, Mark};
use crate::ledger::records::checkpoint::{self, Checkpoint};
use crate::ledger::records::kinds::own_number;
use crate::ledger::vault::Vault;

/// The number of entries in a page: a multiple of those between two checkpoints.
pub const PAGE: i64 = 8 * checkpoint::EVERY;

/// The extent of the ledger at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    end: Mark,
}

impl Extent {
    /// The number of the last entry; 0 for a ledger without entries.
    pub fn last(&self) -> i64 {
        self.end.sequence
    }
}

impl Vault {
    /// The present extent of the ledger.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if it is damaged after its newest checkpoint, or the file cannot be
    /// read.
    pub fn extent(&self) -> Result<Extent, VaultError> {
        self.read(|_, witness| Ok(Extent { end: witness.mark() }))
    }

    /// The entries of the page that contains this number, oldest first; none for a number outside
    /// the extent.
    ///
    /// # Guarantee
    /// Exactly the entries that were charged under these numbers: they are linked to each other, to
    /// the checkpoint before them (unless they are the first), and to the checkpoint after them or
    /// to the end of the extent.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if they are not, or if the file cannot be read.
    pub fn page(&self, extent: &Extent, sequence: i64) -> Result<Vec<LedgerEntry>, VaultError> {
        if !(1..=extent.last()).contains(&sequence) {
            return Ok(Vec::new());
        }
        let before = sequence.saturating_sub(1);
        let after = before.saturating_sub(before.rem_euclid(PAGE));
        let last = after.saturating_add(PAGE).min(extent.last());
        let read = self.read(|connection, _| {
            let begin = mark(connection, after)?;
            let entries = chain::entries(connection, after, last)?;
            let end = if last == extent.last() { extent.end } else { mark(connection, last)? };
            Ok((begin, entries, end))
        });
        let (begin, entries, end) = read?;
        check(begin, &entries, end).map_err(|fault| fault.at(self.path()))?;
        Ok(entries)
    }

    /// The number of an entry among those of this analyst, from 1; 0 for an entry of another one.
    ///
    /// # Errors
    /// [`VaultError`] if the file cannot be read.
    pub fn own_number(&self, sequence: i64, analyst: &str) -> Result<i64, VaultError> {
        self.read(|connection, _| own_number(connection, sequence, analyst))
    }

    /// All entries of the ledger, oldest first, verified from the first to the last.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the chain is broken or the file cannot be read.
    pub fn entries(&self) -> Result<Vec<LedgerEntry>, VaultError> {
        let extent = self.extent()?;
        let mut entries = Vec::new();
        let mut next = 1;
        while next <= extent.last() {
            entries.extend(self.page(&extent, next)?);
            next = next.saturating_add(PAGE);
        }
        Ok(entries)
    }
}

/// The place of a checkpoint in the chain, or the place before the first entry.
fn mark(connection: &Connection, sequence: i64) -> Result<Mark, Fault> {
    if sequence == 0 {
        return Ok(Mark::default());
    }
    let Checkpoint { sequence, chain, spent: _ } = Checkpoint::read(connection, sequence)?;
    Ok(Mark { sequence, hash: chain })
}

/// Checks that entries lead from one place in the chain to another.
fn check(begin: Mark, entries: &[LedgerEntry], end: Mark) -> Result<(), Fault> {
    let mut at = begin;
    for entry in entries {
        chain::check_link(&at, entry)?;
        at = Mark { sequence: entry.sequence, hash: entry.chain };
    }
    if at == end {
        Ok(())
    } else {
        Err(Fault::Damage("the chain of its ledger is broken".to_owned()))
    }
}
