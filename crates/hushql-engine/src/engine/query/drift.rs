//! Files that do not fit their declaration. A statement that failed on them leaves a note, by which
//! the ledger refuses the next statement.
//!
//! In: the tables and files of a charged statement that failed. Out: a note of the tables whose
//! files caused the failure, which the ledger finds at each quote and charge. Before the charge
//! nobody looks at a folder, because the list of files is as private as their rows.
//!
//! ```text
//! charge ─▶ a file has other columns ─▶ the one sentence, and a note    next: refused, at no cost    declared again: asked as before
//! ```

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::engine::session::Session;
use crate::exec::source::OpenFiles;
use crate::ledger::Vault;

impl Session {
    /// Notes the tables whose files do not fit their declaration, after a charged statement failed.
    /// If the note cannot be written, the next statement pays for the same failure.
    pub(super) async fn note_drift(&self, open: &OpenFiles, catalog: &Arc<Catalog>, text: &str) {
        let tables = open.drifted();
        if tables.is_empty() {
            return;
        }
        let (analyst, text) = (self.analyst.clone(), text.to_owned());
        let catalog = Arc::clone(catalog);
        let note = move |vault: &Vault| vault.note_drift(&tables, &analyst, &text, &catalog);
        // A failed note is not reported, because a failed statement has only one sentence.
        let _ = self.inner.vault.ask(note).await;
    }
}
