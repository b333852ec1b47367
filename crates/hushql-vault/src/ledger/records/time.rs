//! The clock of the ledger: whole seconds, so that an entry shows when a statement was charged but
//! not how long it took.

use std::time::SystemTime;

use crate::ledger::error::VaultError;

/// Seconds since 1970 (UTC).
///
/// # Errors
/// [`VaultError::Clock`] for a time before 1970 or beyond 64 bits. With a wrong time, entries would
/// be wrong, and roles that have expired would still be valid.
pub(crate) fn now() -> Result<i64, VaultError> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.map_err(|_| VaultError::Clock)?;
    i64::try_from(since.as_secs()).map_err(|_| VaultError::Clock)
}

const SECONDS_OF_A_DAY: i64 = 86_400;

/// The first second of this day (UTC), since 1970.
///
/// # Errors
/// As [`now`].
pub(crate) fn today() -> Result<i64, VaultError> {
    Ok(now()?.div_euclid(SECONDS_OF_A_DAY).saturating_mul(SECONDS_OF_A_DAY))
}
