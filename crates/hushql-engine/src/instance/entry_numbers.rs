//! The numbers of charges, as their readers see them.
//!
//! In: the number of an entry in the whole ledger. Out: the number that its reader sees. If a
//! budget replays to each analyst only the analyst's own answers, the number in the whole ledger
//! would reveal how many entries others made. Then entries are numbered among those of their own
//! analyst, as `hushql.ledger` shows them. An entry of another analyst, such as the charge that
//! paid for a replay, then has no number. The owner sees the whole ledger.

use crate::catalog::Catalog;
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::OWNER;

/// True if a reader sees no entries of others, and no numbers that depend on them.
pub(crate) fn is_apart(catalog: &Catalog, reader: &str) -> bool {
    reader != OWNER && catalog.keeps_apart()
}

impl Inner {
    /// The number of an entry as this reader sees it; 0 for an entry of another analyst, if readers
    /// are kept apart.
    ///
    /// # Errors
    /// The vault's own errors.
    pub(crate) fn shown_number(&self, sequence: i64, reader: &str) -> Result<i64, Error> {
        match is_apart(&*self.vault.catalog()?, reader) {
            true => Ok(self.vault.own_number(sequence, reader)?),
            false => Ok(sequence),
        }
    }
}
