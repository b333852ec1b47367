//! The kinds of ledger entries, and separate entry numbers for analysts who must not learn of each
//! other.
//!
//! In: entries, as the vault numbers them. Out: a word for each, and numbers that count only the
//! entries of one analyst.
//!
//! ```text
//! 17  lab    LAPLACE  paid                       lab sees   1  LAPLACE  paid
//! 18  other  LAPLACE  paid                                  2  REPLAY   replayed   charge=1
//! 19  lab    REPLAY   replayed   charge=17
//! ```

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::ledger::error::Fault;
use crate::ledger::records::answers::{DROP, STORE};
use crate::ledger::records::chain::LedgerEntry;
use crate::ledger::records::draw_records::{KEEP, REPLAY};
use crate::ledger::records::drift::DRIFT;

/// The mechanism of an entry that records an amount spent elsewhere.
pub(crate) const SPENT: &str = "SPENT";

/// The kind of an entry: a release that was `paid` or `replayed`; a draw that is `kept`; a table
/// that was `stored` or `dropped`, or whose files have `drifted` from its declaration; or an amount
/// that was `declared` as spent.
pub fn kind(entry: &LedgerEntry) -> &'static str {
    if entry.mechanism == SPENT {
        return "declared";
    }
    if !entry.unit_domains.is_empty() {
        return "paid";
    }
    let notes = [
        (KEEP, "kept"),
        (REPLAY, "replayed"),
        (STORE, "stored"),
        (DROP, "dropped"),
        (DRIFT, "drifted"),
    ];
    let note = notes.into_iter().find(|(mechanism, _)| *mechanism == entry.mechanism);
    note.map_or("paid", |(_, kind)| kind)
}

/// The number of an entry among those of this analyst, from 1; 0 for an entry that does not exist,
/// or is another analyst's.
pub(crate) fn own_number(
    connection: &Connection,
    sequence: i64,
    analyst: &str,
) -> Result<i64, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM ledger WHERE sequence <= ?1 AND analyst = ?2
         AND EXISTS (SELECT 1 FROM ledger WHERE sequence = ?1 AND analyst = ?2)",
    )?;
    let number = statement.query_row(params![sequence, analyst], |row| row.get(0));
    Ok(number.optional()?.unwrap_or_default())
}

/// The entries of one analyst, as if the ledger had no others.
#[derive(Debug, Clone)]
pub struct OwnEntries {
    analyst: String,
    entries: i64,
    /// The own numbers of entries that later ones refer to: the first of each charge, and notes.
    named: BTreeMap<i64, i64>,
}

impl OwnEntries {
    /// The entries of this analyst, before any is seen.
    pub fn of(analyst: &str) -> Self {
        Self { analyst: analyst.to_owned(), entries: 0, named: BTreeMap::new() }
    }

    /// The analyst's entries among the next entries of the ledger, with their own numbers.
    ///
    /// # Guarantee
    /// The result does not depend on the entries of other analysts.
    pub fn next(&mut self, entries: Vec<LedgerEntry>) -> Vec<LedgerEntry> {
        let own = entries.into_iter().filter(|entry| entry.analyst == self.analyst);
        let own: Vec<LedgerEntry> = own.collect();
        own.into_iter().map(|entry| self.numbered(entry)).collect()
    }

    fn numbered(&mut self, mut entry: LedgerEntry) -> LedgerEntry {
        self.entries = self.entries.saturating_add(1);
        if entry.sequence == entry.charge {
            self.named.insert(entry.charge, self.entries);
        }
        if kind(&entry) != "paid"
            && let Some((what, number)) = noted(&entry.parameters)
        {
            // Under REPLAY ALL, the entry may belong to another analyst.
            let own = self.named.get(&number).map(ToString::to_string);
            entry.parameters = format!("{what}={}", own.as_deref().unwrap_or("another's"));
        }
        entry.charge = self.named.get(&entry.charge).copied().unwrap_or(self.entries);
        entry.sequence = self.entries;
        entry
    }
}

/// The entry to which a note refers, and its kind.
fn noted(parameters: &str) -> Option<(&'static str, i64)> {
    ["charge", "answer"].into_iter().find_map(|what| {
        let number = parameters.strip_prefix(what)?.strip_prefix('=')?;
        Some((what, number.parse().ok()?))
    })
}
