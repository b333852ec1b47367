//! Waits for a lock of the vault that another program holds.
//!
//! SQLite's own time-out sleeps longer the longer it has waited, up to a tenth of a second. If a
//! vault is always busy, the program that has waited longest tries least often, and may give up
//! without a turn. Here every program tries every few milliseconds, at random moments, so that all
//! have the same chance when the lock is free.
//!
//! ```text
//! held ▓▓▓▓▓▓▓▓░▓▓▓▓▓▓▓░▓▓▓▓▓▓▓░      free until one of the waiting programs tries again
//! ```

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

use crate::ledger::error::Fault;

/// The time to wait for other programs before the vault is refused as locked.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// The longest pause before each of the first attempts, in microseconds; the last one applies to
/// all later attempts.
const PAUSES: [u64; 6] = [250, 500, 1_000, 2_000, 4_000, 8_000];

/// Makes a connection wait for locks: for [`BUSY`] with random pauses, for any other time as SQLite
/// does.
pub(crate) fn set(connection: &mut Connection, busy: Duration) -> Result<(), Fault> {
    if busy == BUSY {
        connection.busy_handler(Some(look_again))?;
    } else {
        connection.busy_timeout(busy)?;
    }
    Ok(())
}

/// Tells SQLite whether to try again after this number of attempts at one lock.
fn look_again(looks: i32) -> bool {
    thread_local! {
        static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let since = match SINCE.get() {
        Some(since) if looks > 0 => since,
        Some(_) | None => {
            let now = Instant::now();
            SINCE.set(Some(now));
            now
        }
    };
    if since.elapsed() >= BUSY {
        return false;
    }
    // This need not be secret: it only spreads the attempts of waiting programs.
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    thread::sleep(pause(looks, clock.subsec_nanos()));
    true
}

/// A pause between a quarter and all of the longest pause.
fn pause(looks: i32, random: u32) -> Duration {
    let looks = usize::try_from(looks).unwrap_or_default();
    let longest = PAUSES.get(looks).or(PAUSES.last()).copied().unwrap_or_default();
    let least = longest / 4;
    let more = u64::from(random).checked_rem(longest.saturating_sub(least)).unwrap_or_default();
    Duration::from_micros(least.saturating_add(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With SQLite's own pauses of up to 100 ms, one of 8 programs that charged at the same time
    /// tried 50 times within 5 seconds, found the vault locked each time, and was refused.
    #[test]
    fn nobody_pauses_for_long() {
        for looks in [0, 1, 5, 6, 1_000, i32::MAX] {
            for random in [0, 1, 4_999_999, u32::MAX] {
                let pause = pause(looks, random);
                assert!(pause >= Duration::from_micros(62), "{looks}: {pause:?}");
                assert!(pause < Duration::from_millis(8), "{looks}: {pause:?}");
            }
        }
    }
}
