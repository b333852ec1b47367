//! What all sessions of an engine share: its vault, its tables, and the session of DataFusion.
//!
//! In: registered and declared tables. Out: the provider of each table's rows, and the open files of each statement.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::catalog::TableProvider;
use datafusion::execution::SessionState;

use crate::catalog::{Source, Table};
use crate::error::Error;
use crate::exec::source as files;
use crate::exec::source::{HeldFiles, OpenFiles};
use crate::ledger::Vault;
use crate::resources::Resources;

/// The tables that a program registered, by name.
pub(crate) type Registered = Arc<RwLock<HashMap<String, Arc<dyn TableProvider>>>>;

/// The vault, the tables, and the session in which queries run.
pub(crate) struct Inner {
    pub(crate) vault: Arc<Vault>,
    pub(crate) registered: Registered,
    pub(crate) state: SessionState,
    pub(crate) resources: Resources,
    files: Arc<HeldFiles>,
}

/// Tables are left out: tables in memory would show their rows.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("resources", &self.resources).finish_non_exhaustive()
    }
}

impl Inner {
    pub(super) fn new(
        vault: Arc<Vault>,
        registered: Registered,
        resources: Resources,
    ) -> Result<Self, Error> {
        let state = resources.session_state()?;
        let files = Arc::<HeldFiles>::default();
        files::register(&files, state.runtime_env()).map_err(|_| Error::Internal)?;
        Ok(Self { vault, registered, state, resources, files })
    }

    /// The files of a new statement; none of them is open yet.
    pub(crate) fn open_files(&self) -> Arc<OpenFiles> {
        Arc::new(OpenFiles::new(&self.files))
    }

    /// The provider of a table's rows; `None` for a table that is not registered, or a file of an unknown format.
    pub(crate) fn provider(
        &self,
        table: &Table,
        open: &Arc<OpenFiles>,
    ) -> Option<Arc<dyn TableProvider>> {
        match &table.source {
            Source::Registered => {
                let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
                registered.get(&table.name).cloned()
            }
            Source::File { .. } => files::provider(table, open).ok(),
        }
    }
}
