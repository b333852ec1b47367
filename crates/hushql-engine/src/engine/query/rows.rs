//! What is known of the rows that a query reads, beside the declarations of their tables.
//!
//! In: tables, and the files that a statement opened. Out: [`RowsOf`], which is equal where public
//! rows are equal. Draws and answers are shown again for equal ones only.

use super::choose::Planned;
use crate::catalog::{Source, Table};
use crate::exec::source::OpenFiles;
use crate::instance::Inner;
use crate::ledger::AskedDraw;
use crate::release::draw_set::DrawSet;

/// What is known of the rows that draws read, beside the versions of their tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RowsOf {
    /// What is in the tables that are public or registered, by name.
    pub(super) contents: Vec<(String, String)>,
    /// The tables whose rows may change without a declaration: they are replayed where the owner
    /// states when they do.
    live: Vec<String>,
}

impl RowsOf {
    /// `None` if a table does not exist, or a public file cannot be read.
    ///
    /// # Guarantee
    /// Contents of private tables stay out of it: a key that followed from them would tell whether
    /// anybody joined.
    pub(super) fn unit(inner: &Inner, planned: &Planned, unit: &DrawSet) -> Option<Self> {
        let tables: Option<Vec<&Table>> =
            unit.tables.iter().map(|name| planned.catalog().table(name)).collect();
        Self::of(inner, tables?, planned.open())
    }

    /// As [`RowsOf::unit`], of these tables.
    pub(super) fn of<'a>(
        inner: &Inner,
        tables: impl IntoIterator<Item = &'a Table>,
        open: &OpenFiles,
    ) -> Option<Self> {
        let mut rows = Self::default();
        for table in tables {
            let name = &table.name;
            match (&table.source, table.is_public()) {
                // Another file is refused.
                (Source::File { fingerprint: Some(_), .. }, false) => {}
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

    /// The question for the draw of a unit that reads these rows.
    pub(super) fn asked(&self, unit: &DrawSet) -> AskedDraw {
        AskedDraw {
            identity: unit.body.clone(),
            tables: unit.tables.clone(),
            contents: self.contents.clone(),
            unit_domains: unit.unit_domains.clone(),
            live: self.live.clone(),
        }
    }
}
