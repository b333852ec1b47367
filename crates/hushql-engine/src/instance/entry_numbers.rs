//! The numbers of charges, as their readers see them.
//!
//! In: the number of an entry in the whole ledger. Out: the number that its reader sees. Where a
//! budget replays to each analyst the own answers alone, the number in the whole ledger would tell
//! how many entries others made: entries are numbered among those of their own analyst then, as
//! `hushql.ledger` shows them. The owner sees the whole ledger.

use crate::catalog::Catalog;
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::OWNER;

/// Whether a reader sees no entries of others, and no numbers that follow from them.
pub(crate) fn is_apart(catalog: &Catalog, reader: &str) -> bool {
    reader != OWNER && catalog.keeps_apart()
}

impl Inner {
    /// The number of an entry, as this reader sees it.
    ///
    /// # Errors
    /// The vault's own.
    pub(crate) fn shown_number(&self, sequence: i64, reader: &str) -> Result<i64, Error> {
        match is_apart(&*self.vault.catalog()?, reader) {
            true => Ok(self.vault.own_number(sequence)?),
            false => Ok(sequence),
        }
    }
}
