//! What the entries of the ledger are, and how analysts who are kept apart number their own.
//!
//! In: entries, as the vault numbers them. Out: a word for each, and the numbers that only the
//! entries of one analyst have.
//!
//! ```text
//! 17  lab    LAPLACE  paid                       lab sees   1  LAPLACE  paid
//! 18  other  LAPLACE  paid                                  2  REPLAY   replayed   charge=1
//! 19  lab    REPLAY   replayed   charge=17
//! ```

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};

use crate::ledger::error::Fault;
use crate::ledger::records::answers::{DROP, STORE};
use crate::ledger::records::chain::LedgerEntry;
use crate::ledger::records::draw_records::{KEEP, REPLAY};
use crate::ledger::records::drift::DRIFT;

/// The mechanism of an entry that says what was spent elsewhere.
pub(crate) const SPENT: &str = "SPENT";

/// What an entry is: a release that was `paid`, one that was `replayed`, the note of a draw that is
/// `kept` or of a table that was `stored` or `dropped`, or whose files have `drifted` from its
/// declaration, or an amount that was `declared` as spent.
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

/// The number of an entry among those of its analyst, from 1; 0 for an entry that does not exist.
pub(crate) fn own_number(connection: &Connection, sequence: i64) -> Result<i64, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM ledger
         WHERE analyst = (SELECT analyst FROM ledger WHERE sequence = ?1) AND sequence <= ?1",
    )?;
    Ok(statement.query_row([sequence], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// The entries of one analyst, as if the ledger had no others.
#[derive(Debug, Clone)]
pub struct OwnEntries {
    analyst: String,
    entries: i64,
    /// The own numbers of those that later ones name: the first of each charge, and notes.
    named: BTreeMap<i64, i64>,
}

impl OwnEntries {
    /// Of this analyst; none is seen yet.
    pub fn of(analyst: &str) -> Self {
        Self { analyst: analyst.to_owned(), entries: 0, named: BTreeMap::new() }
    }

    /// The own ones among the next entries of the ledger, with the numbers that they have among
    /// themselves.
    ///
    /// # Guarantee
    /// Nothing in them depends on the entries of others.
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
            // Where everybody's answers were replayed, it may have been another's.
            let own = self.named.get(&number).map(ToString::to_string);
            entry.parameters = format!("{what}={}", own.as_deref().unwrap_or("another's"));
        }
        entry.charge = self.named.get(&entry.charge).copied().unwrap_or(self.entries);
        entry.sequence = self.entries;
        entry
    }
}

/// The entry that a note names, and what it is.
fn noted(parameters: &str) -> Option<(&'static str, i64)> {
    ["charge", "answer"].into_iter().find_map(|what| {
        let number = parameters.strip_prefix(what)?.strip_prefix('=')?;
        Some((what, number.parse().ok()?))
    })
}
