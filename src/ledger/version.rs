//! The versions of the vault's format that this program knows.

/// The present format.
pub(crate) const VERSION: i64 = 10;

/// The oldest format that can be upgraded.
pub(crate) const OLDEST: i64 = 4;
