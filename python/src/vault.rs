//! A vault, for its owner.
//!
//! In: a path, or nothing for the built-in tables. Out: sessions. Closing a vault closes its
//! sessions, too, and the file is free when running statements have ended. A vault belongs to the
//! process that opened it.

use std::path::PathBuf;
use std::sync::Arc;

use hushql::{Engine, EngineBuilder, Error, ExternalTable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answer::Answer;
use crate::open_vault::OpenVault;
use crate::running::{Task, blocking};
use crate::session::Session;
use crate::tables;

/// An open vault.
#[pyclass(frozen, module = "hushql._hushql")]
pub(crate) struct Vault {
    vault: Arc<OpenVault>,
}

impl Vault {
    fn opened(
        py: Python<'_>,
        open: impl FnOnce() -> Result<Engine, Error> + Send + 'static,
    ) -> PyResult<Self> {
        Ok(Self { vault: Arc::new(OpenVault::new(blocking(py, open)?)) })
    }

    fn entered(&self, py: Python<'_>, session: impl Into<hushql::Session>) -> PyResult<Session> {
        let number = self.vault.add(py, session.into())?;
        Ok(Session::new(Arc::clone(&self.vault), number))
    }
}

fn builder(anchor: Option<PathBuf>) -> EngineBuilder {
    match anchor {
        Some(anchor) => Engine::builder().anchor(anchor),
        None => Engine::builder(),
    }
}

#[pymethods]
impl Vault {
    #[staticmethod]
    fn init(py: Python<'_>, path: PathBuf, anchor: Option<PathBuf>) -> PyResult<Self> {
        Self::opened(py, move || builder(anchor).init(path))
    }

    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, anchor: Option<PathBuf>) -> PyResult<Self> {
        Self::opened(py, move || builder(anchor).open(path))
    }

    #[staticmethod]
    fn in_memory(py: Python<'_>) -> PyResult<Self> {
        Self::opened(py, Engine::in_memory)
    }

    #[staticmethod]
    fn demo(py: Python<'_>) -> PyResult<Self> {
        Self::opened(py, Engine::demo)
    }

    fn owner(&self, py: Python<'_>) -> PyResult<Session> {
        let owner = self.vault.engine(py)?.owner();
        self.entered(py, owner)
    }

    fn analyst(&self, py: Python<'_>, name: String) -> PyResult<Session> {
        let engine = self.vault.engine(py)?;
        let analyst = blocking(py, move || engine.analyst(&name))?;
        self.entered(py, analyst)
    }

    fn register(&self, py: Python<'_>, name: String, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let engine = self.vault.engine(py)?;
        let (schema, batches) = tables::copied(py, data)?;
        blocking(py, move || engine.register_batches(&name, schema, batches))
    }

    /// Declares files as a table: `parquet`, `csv`, `json`, `arrow` or `delta`.
    fn register_files(
        &self,
        py: Python<'_>,
        name: String,
        path: PathBuf,
        format: &str,
    ) -> PyResult<String> {
        let table = match format {
            "parquet" => ExternalTable::parquet(name, path),
            "csv" => ExternalTable::csv(name, path),
            "json" => ExternalTable::json(name, path),
            "arrow" => ExternalTable::arrow(name, path),
            "delta" => ExternalTable::delta(name, path),
            _ => {
                let message = "the format of files is parquet, csv, json, arrow or delta";
                return Err(PyValueError::new_err(message));
            }
        };
        let owner = self.vault.engine(py)?.owner();
        Task::start(py, async move { owner.declare(table).await })?.wait(py)
    }

    fn dump(&self, py: Python<'_>) -> PyResult<String> {
        let engine = self.vault.engine(py)?;
        blocking(py, move || engine.dump())
    }

    fn doctor(&self, py: Python<'_>) -> PyResult<Answer> {
        let engine = self.vault.engine(py)?;
        blocking(py, move || engine.doctor()).map(Answer::new)
    }

    /// Closes the vault and its sessions. A second call does nothing.
    fn close(&self, py: Python<'_>) {
        self.vault.close(py);
    }

    fn is_open(&self, py: Python<'_>) -> bool {
        self.vault.engine(py).is_ok()
    }
}
