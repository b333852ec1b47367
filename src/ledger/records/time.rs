//! The clock of the ledger: whole seconds, so that an entry shows when a statement was charged but not how long it took.

use std::time::SystemTime;

/// Seconds since 1970 (UTC); 0 before 1970 and beyond 64 bits.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}
