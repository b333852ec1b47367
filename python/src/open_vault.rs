//! An open vault, which its sessions share.
//!
//! In: an engine. Out: its sessions by number, as long as the vault is open, and only in the
//! process that opened it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hushql::Engine;
use pyo3::prelude::*;

use crate::errors;

/// The parts of an open vault.
#[derive(Default)]
struct Open {
    engine: Option<Engine>,
    sessions: HashMap<u64, hushql::Session>,
    next: u64,
}

/// An open vault, which its sessions share.
pub(crate) struct OpenVault {
    open: Mutex<Open>,
    process: u32,
}

impl OpenVault {
    /// The vault of an engine, which belongs to this process.
    pub(crate) fn new(engine: Engine) -> Self {
        let open = Mutex::new(Open { engine: Some(engine), ..Open::default() });
        Self { open, process: std::process::id() }
    }

    /// Calls `look` with the open vault, in the process that opened it. The lock is held only
    /// together with the GIL.
    fn with<T>(&self, py: Python<'_>, look: impl FnOnce(&mut Open) -> Option<T>) -> PyResult<T> {
        if std::process::id() != self.process {
            let message = "the vault was opened in another process, and does not survive a fork: open it in this one";
            return Err(errors::of_kind(py, "closed", message));
        }
        let looked = look(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner));
        looked.ok_or_else(|| errors::of_kind(py, "closed", "the vault is closed"))
    }

    /// The engine.
    pub(crate) fn engine(&self, py: Python<'_>) -> PyResult<Engine> {
        self.with(py, |open| open.engine.clone())
    }

    /// Adds a session, and returns its number.
    pub(crate) fn add(&self, py: Python<'_>, session: hushql::Session) -> PyResult<u64> {
        self.with(py, |open| {
            open.engine.as_ref()?;
            open.next += 1;
            open.sessions.insert(open.next, session);
            Some(open.next)
        })
    }

    /// The session of this number.
    pub(crate) fn session(&self, py: Python<'_>, number: u64) -> PyResult<hushql::Session> {
        self.with(py, |open| open.sessions.get(&number).cloned())
    }

    /// Closes the vault and its sessions. A second call does nothing.
    pub(crate) fn close(&self, py: Python<'_>) {
        if std::process::id() == self.process {
            let open =
                std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
            py.detach(move || drop(open));
        }
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, number: u64) {
        if std::process::id() == self.process {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).sessions.remove(&number);
        }
    }
}

impl Drop for OpenVault {
    /// In the child of a fork, the connection to the file belongs to the parent: closing it in the
    /// child could end a transaction of the parent.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(open));
        }
    }
}
