//! What identifies the rows that a query reads, besides the declarations of their tables.
//!
//! In: tables, and the files that a statement opened. Out: a [`RowsOf`]; two of them are equal only
//! if the public rows are equal. Draws and answers are shown again only if theirs are equal.

use super::choose::Planned;
use crate::catalog::{Source, Table};
use crate::exec::source::OpenFiles;
use crate::instance::Inner;
use crate::ledger::AskedDraw;
use crate::release::draw_set::DrawSet;

/// What identifies the rows that draws read, besides the versions of their tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RowsOf {
    /// A text for the contents of each public or registered table, by name.
    pub(super) contents: Vec<(String, String)>,
    /// The tables whose rows may change without a declaration. Their draws are replayed if the
    /// owner states when the rows change.
    live: Vec<String>,
}

impl RowsOf {
    /// The rows that one draw reads; `None` if a table does not exist, or a public file cannot be
    /// read.
    ///
    /// # Guarantee
    /// The contents of private tables are not included, because a key that depended on them would
    /// reveal whether somebody joined.
    pub(super) fn unit(inner: &Inner, planned: &Planned, unit: &DrawSet) -> Option<Self> {
        let tables: Option<Vec<&Table>> =
            unit.tables.iter().map(|name| planned.catalog().table(name)).collect();
        Self::of(inner, tables?, planned.open())
    }

    /// As [`RowsOf::unit`], for these tables.
    pub(super) fn of<'a>(
        inner: &Inner,
        tables: impl IntoIterator<Item = &'a Table>,
        open: &OpenFiles,
    ) -> Option<Self> {
        let mut rows = Self::default();
        for table in tables {
            let name = &table.name;
            match (&table.source, table.is_public()) {
                // A changed file is refused, so it needs no entry.
                (Source::File { fingerprint: Some(_), .. }, false) => {}
                // So it is as one of a version of a log, and each of them has another hash.
                (source @ Source::File { fingerprint: Some(held), .. }, true)
                    if source.version().is_some() =>
                {
                    rows.contents.push((name.clone(), held.sha256.clone()));
                }
                (source @ Source::File { .. }, true) => {
                    rows.contents.push((name.clone(), open.content(source)?));
                }
                (Source::Released { sequence }, _) => {
                    rows.contents.push((name.clone(), format!("answer {sequence}")));
                }
                (Source::Registered, _) => {
                    rows.contents.push((name.clone(), inner.registration(name)?));
                    rows.live.push(name.clone());
                }
                (Source::File { .. }, false) | (Source::Postgres { .. }, _) => {
                    rows.live.push(name.clone());
                }
            }
        }
        Some(rows)
    }

    /// The question to the vault for a draw that reads these rows.
    pub(super) fn asked(&self, unit: &DrawSet) -> AskedDraw {
        self.asked_as(unit, &unit.body)
    }

    /// The same for draws with another identity that read these rows.
    pub(super) fn asked_as(&self, unit: &DrawSet, identity: &[u8]) -> AskedDraw {
        AskedDraw {
            identity: identity.to_vec(),
            tables: unit.tables.clone(),
            contents: self.contents.clone(),
            unit_domains: unit.unit_domains.clone(),
            live: self.live.clone(),
        }
    }
}
