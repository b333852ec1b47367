//! A session's memory of the password that its user logged in with.
//!
//! In: the fingerprint of a verifier. Out: the same, to compare it with the vault's, or to replace
//! it when the role changes its password within this session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::scram::Fingerprint;

/// The fingerprint of the password at log-in, or of the one that the role gave itself since. Copies
/// of a session share it.
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
