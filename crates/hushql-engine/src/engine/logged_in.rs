//! The password of whoever is logged in, as a session remembers it.
//!
//! In: what tells a verifier from others. Out: the same, to whoever compares it with that of the
//! vault, or replaces it where the role got another password from the same session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::scram::Fingerprint;

/// The password that somebody logged in with, or the one that they gave themselves since. Copies of
/// a session share it.
#[derive(Debug, Clone)]
pub(crate) struct LoggedIn(Arc<Mutex<Fingerprint>>);

impl LoggedIn {
    pub(super) fn new(fingerprint: Fingerprint) -> Self {
        Self(Arc::new(Mutex::new(fingerprint)))
    }

    pub(super) fn fingerprint(&self) -> MutexGuard<'_, Fingerprint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
