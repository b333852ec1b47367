//! The numbers of charges, as their readers see them.
//!
//! In: the number of an entry in the whole ledger. Out: the number that its reader sees. Where a budget replays to each analyst the
//! own answers alone, the number in the whole ledger would tell how many entries others made: entries are numbered among those
//! of their own analyst then, as `hushql.ledger` shows them. The owner sees the whole ledger.

use crate::catalog::Catalog;
use crate::engine::instance::Inner;
use crate::engine::session::Session;
use crate::error::Error;
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

impl Session {
    /// The number of an entry, as this session's analyst sees it.
    ///
    /// # Errors
    /// The vault's own.
    pub(crate) fn shown_number(&self, sequence: i64) -> Result<i64, Error> {
        self.inner.shown_number(sequence, &self.analyst)
    }

    /// The same for a charge that was just made under these declarations, whatever has happened to the vault since: 0, which no entry has,
    /// if it cannot be read.
    pub(crate) fn number_of_charge(&self, sequence: i64, charged: &Catalog) -> i64 {
        match is_apart(charged, &self.analyst) {
            true => self.inner.vault.own_number(sequence).unwrap_or_default(),
            false => sequence,
        }
    }
}
