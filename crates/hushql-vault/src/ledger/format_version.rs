//! The version of the vault's format that this program knows.

/// The present format.
pub(crate) const VERSION: i64 = 1;
