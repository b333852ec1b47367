//! A certificate with its key, for a driver or a worker.
//!
//! In: the sections of a file, in DER. Out: an [`Identity`], which never shows its key.

use std::fmt;
use std::io;

/// A certificate with its key, and the certificate of the authority that signed it, in DER.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) authority: Vec<u8>,
}

/// Leaves out the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The error of a file with the wrong contents.
pub(super) fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
