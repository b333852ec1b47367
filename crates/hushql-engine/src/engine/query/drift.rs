//! Folders whose files do not fit their declaration: the note of a statement that failed on one, and the refusal of the next.
//!
//! In: the tables and files of a statement. Out: before its charge, a refusal of a table on which a charged statement has failed; after a
//! failure, the note of it. Neither looks at a file before the charge: which files there are is as private as the rows in them.
//!
//! ```text
//! charge ─▶ a file has other columns ─▶ the one sentence, and a note    next: refused, at no cost    declared again: asked as before
//! ```

use std::sync::Arc;

use crate::catalog::{Catalog, Source};
use crate::engine::session::Session;
use crate::engine::vault_thread::at_vault;
use crate::error::Error;
use crate::exec::source::{OpenFiles, drifted_before};
use crate::ledger::Vault;

impl Session {
    /// Refuses the private tables of several files, among these, on which a charged statement has failed.
    ///
    /// # Guarantee
    /// It depends on declarations and failures of charged statements alone; where answers are replayed to whoever paid for them, on this
    /// analyst's.
    ///
    /// # Errors
    /// A refusal that says to declare the table again, and the vault's own.
    pub(super) fn check_drift<'a>(
        &self,
        tables: impl Iterator<Item = &'a str>,
        catalog: &Catalog,
    ) -> Result<(), Error> {
        let is_folder = |name: &&str| {
            let table = catalog.table(name).filter(|table| !table.is_public());
            table.is_some_and(|t| matches!(t.source, Source::File { files: Some(_), .. }))
        };
        let folders: Vec<String> = tables.filter(is_folder).map(str::to_owned).collect();
        let found = self.inner.vault.drifted(&folders, &self.analyst, catalog)?;
        let found = found.and_then(|name| catalog.table(&name));
        found.map_or(Ok(()), |table| Err(drifted_before(table)))
    }

    /// Notes the tables whose files were found not to fit their declaration, after a charged statement failed. Where that cannot be
    /// written down, the next statement pays for the same failure.
    pub(super) async fn note_drift(&self, open: &OpenFiles, catalog: &Arc<Catalog>, text: &str) {
        let tables = open.drifted();
        if tables.is_empty() {
            return;
        }
        let (analyst, text) = (self.analyst.clone(), text.to_owned());
        let catalog = Arc::clone(catalog);
        let note = move |vault: &Vault| vault.note_drift(&tables, &analyst, &text, &catalog);
        // Whether it is written down is not told: what failed has one sentence.
        let _ = at_vault(&self.inner.vault, note).await;
    }
}
