//! One state of the declarations, and the files that a query reads under it.

use std::sync::Arc;

use crate::engine::session::Session;
use crate::engine::visible_catalog::VisibleCatalog;
use crate::error::Error;
use crate::exec::source::OpenFiles;

/// The state that all stages of a query share, from bind to charge.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredState {
    pub(crate) catalog: VisibleCatalog,
    /// The files that the query read and will read.
    pub(crate) open: Arc<OpenFiles>,
}

impl Session {
    /// The present declarations, without open files.
    pub(crate) fn declared(&self) -> Result<DeclaredState, Error> {
        Ok(DeclaredState {
            catalog: self.inner.catalog_of(&self.analyst)?,
            open: self.inner.open_files(),
        })
    }

    /// Whether the declarations are still the same.
    pub(crate) fn still_declared(&self, declared: &DeclaredState) -> Result<bool, Error> {
        Ok(self.inner.vault.catalog()?.version().is(&declared.catalog.version()))
    }
}
