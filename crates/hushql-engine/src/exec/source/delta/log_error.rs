//! What is wrong with a table of Delta Lake, as its owner reads it.
//!
//! In: a sentence. Out: an error of the kind [`io::ErrorKind::InvalidInput`]. It comes again until
//! somebody changes the folder, unlike an error of the system.

use std::io;

/// A sentence about a table, for its owner. It may name files.
pub(super) fn unreadable(sentence: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, sentence.into())
}
