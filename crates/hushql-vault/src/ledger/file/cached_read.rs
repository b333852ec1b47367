//! Rows read from a vault, with the seal that they were checked against, and the state of the file
//! at that time.
//!
//! In: rows. Out: the same rows, as long as their seal or the state of the file has not changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ledger::file::journal::DatabaseState;

/// Rows `T` under a seal `S`.
#[derive(Debug)]
pub(crate) struct CachedRead<S, T>(Mutex<Option<Entry<S, T>>>);

#[derive(Debug)]
struct Entry<S, T> {
    seal: S,
    /// The last state of the file in which the rows were seen.
    state: Option<DatabaseState>,
    rows: Arc<T>,
}

impl<S, T> Default for CachedRead<S, T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<S: PartialEq, T> CachedRead<S, T> {
    fn entry(&self) -> MutexGuard<'_, Option<Entry<S, T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows seen in this state. The state must be known.
    pub(crate) fn at(&self, state: Option<DatabaseState>) -> Option<Arc<T>> {
        let entry = self.entry();
        let seen = entry.as_ref().filter(|entry| state.is_some() && entry.state == state);
        seen.map(|entry| Arc::clone(&entry.rows))
    }

    /// The rows seen under this seal.
    pub(crate) fn under(&self, seal: &S) -> Option<Arc<T>> {
        let entry = self.entry();
        let seen = entry.as_ref().filter(|entry| entry.seal == *seal);
        seen.map(|entry| Arc::clone(&entry.rows))
    }

    /// Records that these rows were seen under this seal, in this state.
    pub(crate) fn see(&self, seal: S, state: Option<DatabaseState>, rows: Arc<T>) {
        *self.entry() = Some(Entry { seal, state, rows });
    }
}

/// The commits to a vault up to a moment of one day (UTC).
///
/// # Guarantee
/// Between two equal moments, no program committed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The state of the file.
    pub(crate) state: DatabaseState,
    /// The first second of the day, since 1970.
    pub(crate) day: i64,
}
