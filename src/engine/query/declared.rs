//! One state of the declarations, and the files that a query reads in it.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::source::OpenFiles;

/// What a query is planned with, from its names to its charge.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub(crate) catalog: Arc<Catalog>,
    /// The files that were and will be read.
    pub(crate) open: Arc<OpenFiles>,
}

impl Session {
    /// The declarations as they are now, and no file open yet.
    pub(crate) fn declared(&self) -> Result<Declared, Error> {
        Ok(Declared { catalog: self.inner.vault.catalog()?, open: self.inner.open_files() })
    }

    /// Whether the declarations are still those.
    pub(crate) fn still_declared(&self, declared: &Declared) -> Result<bool, Error> {
        Ok(self.inner.vault.catalog()?.version().is(&declared.catalog.version()))
    }
}
