//! Files that do not fit their declaration: the note of a statement that failed on them. The ledger
//! refuses the next one.
//!
//! In: the tables and files of a charged statement that failed. Out: a note of those whose files
//! are to blame, which the ledger finds at each quote and charge. Nobody looks at a folder before
//! the charge: which files there are is as private as the rows in them.
//!
//! ```text
//! charge ─▶ a file has other columns ─▶ the one sentence, and a note    next: refused, at no cost    declared again: asked as before
//! ```

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::engine::session::Session;
use crate::engine::vault_thread::at_vault;
use crate::exec::source::OpenFiles;
use crate::ledger::Vault;

impl Session {
    /// Notes the tables whose files were found not to fit their declaration, after a charged
    /// statement failed. Where that cannot be written down, the next statement pays for the same
    /// failure.
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
