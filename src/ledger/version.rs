//! The versions of the vault's format that this program knows.

/// The format of the tables below.
pub(crate) const VERSION: i64 = 6;

/// The oldest format that can be carried over.
pub(crate) const OLDEST: i64 = 4;
