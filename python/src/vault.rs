//! A vault, for its owner.
//!
//! In: a path, or nothing for the built-in tables. Out: sessions. A vault can be closed: then its sessions are closed too, and the
//! file is free once what runs has ended. It belongs to the process that opened it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hushql::{Engine, Error, ExternalTable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answer::Answer;
use crate::running::{Task, blocking};
use crate::session::Session;
use crate::{errors, tables};

/// What an open vault consists of.
#[derive(Default)]
struct Open {
    engine: Option<Engine>,
    sessions: HashMap<u64, hushql::Session>,
    next: u64,
}

/// A vault, as its sessions share it.
pub(crate) struct House {
    open: Mutex<Open>,
    process: u32,
}

impl House {
    /// Looks at what is open, in the process that opened it. The lock is held with the GIL only.
    fn with<T>(&self, py: Python<'_>, look: impl FnOnce(&mut Open) -> Option<T>) -> PyResult<T> {
        if std::process::id() != self.process {
            let message = "the vault was opened in another process, and does not survive a fork: open it in this one";
            return Err(errors::of_kind(py, "closed", message));
        }
        let looked = look(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner));
        looked.ok_or_else(|| errors::of_kind(py, "closed", "the vault is closed"))
    }

    fn engine(&self, py: Python<'_>) -> PyResult<Engine> {
        self.with(py, |open| open.engine.clone())
    }

    /// The session of this number.
    pub(crate) fn session(&self, py: Python<'_>, number: u64) -> PyResult<hushql::Session> {
        self.with(py, |open| open.sessions.get(&number).cloned())
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, number: u64) {
        if std::process::id() == self.process {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).sessions.remove(&number);
        }
    }
}

impl Drop for House {
    /// In a child of a fork, the connection to the file is the parent's: to close it there could end a transaction of the parent.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(open));
        }
    }
}

/// A vault that is open.
#[pyclass(frozen, module = "hushql._hushql")]
pub(crate) struct Vault {
    house: Arc<House>,
}

impl Vault {
    fn opened(
        py: Python<'_>,
        open: impl FnOnce() -> Result<Engine, Error> + Send + 'static,
    ) -> PyResult<Self> {
        let engine = Some(blocking(py, open)?);
        let open = Mutex::new(Open { engine, ..Open::default() });
        Ok(Self { house: Arc::new(House { open, process: std::process::id() }) })
    }

    fn entered(&self, py: Python<'_>, session: hushql::Session) -> PyResult<Session> {
        let number = self.house.with(py, |open| {
            open.engine.as_ref()?;
            open.next += 1;
            open.sessions.insert(open.next, session);
            Some(open.next)
        })?;
        Ok(Session::new(Arc::clone(&self.house), number))
    }
}

#[pymethods]
impl Vault {
    #[staticmethod]
    fn init(py: Python<'_>, path: PathBuf, anchor: Option<PathBuf>) -> PyResult<Self> {
        Self::opened(py, move || {
            let engine = Engine::init(&path)?;
            match anchor {
                Some(anchor) => {
                    drop(engine);
                    Engine::make_anchor(&path, anchor)
                }
                None => Ok(engine),
            }
        })
    }

    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, anchor: Option<PathBuf>) -> PyResult<Self> {
        Self::opened(py, move || match anchor {
            Some(anchor) => Engine::open_anchored(path, anchor),
            None => Engine::open(path),
        })
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
        let session = self.house.engine(py)?.owner();
        self.entered(py, session)
    }

    fn analyst(&self, py: Python<'_>, name: String) -> PyResult<Session> {
        let engine = self.house.engine(py)?;
        let session = blocking(py, move || engine.analyst(&name))?;
        self.entered(py, session)
    }

    fn register(&self, py: Python<'_>, name: String, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let engine = self.house.engine(py)?;
        let (schema, batches) = tables::copied(py, data)?;
        blocking(py, move || engine.register_batches(&name, schema, batches))
    }

    /// Declares files as a table: `parquet`, `csv`, `json` or `arrow`.
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
            _ => {
                let message = "the format of files is parquet, csv, json or arrow";
                return Err(PyValueError::new_err(message));
            }
        };
        let owner = self.house.engine(py)?.owner();
        Task::start(py, async move { owner.declare(table).await })?.wait(py)
    }

    fn dump(&self, py: Python<'_>) -> PyResult<String> {
        let engine = self.house.engine(py)?;
        blocking(py, move || engine.dump())
    }

    fn doctor(&self, py: Python<'_>) -> PyResult<Answer> {
        let engine = self.house.engine(py)?;
        blocking(py, move || engine.doctor()).map(Answer::new)
    }

    /// Closes the vault and its sessions; a second time, it does nothing.
    fn close(&self, py: Python<'_>) {
        if std::process::id() == self.house.process {
            let open = std::mem::take(
                &mut *self.house.open.lock().unwrap_or_else(PoisonError::into_inner),
            );
            py.detach(move || drop(open));
        }
    }

    fn is_open(&self, py: Python<'_>) -> bool {
        self.house.engine(py).is_ok()
    }
}
