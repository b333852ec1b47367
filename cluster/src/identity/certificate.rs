//! A certificate with its key, as drivers and workers have one.
//!
//! In: the sections of a file, in DER. Out: an [`Identity`], which shows its key to nobody.

use std::fmt;
use std::io;

/// A certificate with its key, and the certificate of the authority that signed it, in DER.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) authority: Vec<u8>,
}

/// The key is left out.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The error of a file that is not what it should be.
pub(super) fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
