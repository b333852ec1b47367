//! The alarms of all running statements. One thread keeps them.
//!
//! In: a time. Out: a future that ends at this time, on any runtime or none. A dropped alarm does
//! not ring.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Instant;

use futures::channel::oneshot::{self, Receiver, Sender};

/// The alarms that are set, ordered by time and then by number.
struct Alarms {
    set: BTreeMap<(Instant, u64), Sender<()>>,
    /// The number of the next alarm.
    next: u64,
    /// The process whose thread rings them, or 0 if there is no thread yet. After a fork, the child
    /// has no thread of its parent.
    kept_by: u32,
}

static ALARMS: Mutex<Alarms> = Mutex::new(Alarms { set: BTreeMap::new(), next: 0, kept_by: 0 });

/// Notified when a new alarm comes before all others.
static SOONER: Condvar = Condvar::new();

fn alarms() -> MutexGuard<'static, Alarms> {
    ALARMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An alarm. It stays set as long as this value exists.
#[derive(Debug)]
pub(super) struct Alarm {
    key: (Instant, u64),
    /// Ends when the alarm rings.
    pub(super) rings: Receiver<()>,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        alarms().set.remove(&self.key);
    }
}

impl Alarm {
    /// An alarm at this time.
    ///
    /// # Errors
    /// The system's error if it has no thread for the alarms.
    pub(super) fn at(time: Instant) -> io::Result<Self> {
        let (ring, rings) = oneshot::channel();
        let mut alarms = alarms();
        let process = std::process::id();
        if alarms.kept_by != process {
            Builder::new().name("alarms".to_owned()).spawn(keep)?;
            alarms.kept_by = process;
        }
        let key = (time, alarms.next);
        alarms.next = alarms.next.wrapping_add(1);
        let is_first = alarms.set.first_key_value().is_none_or(|(first, _)| key < *first);
        alarms.set.insert(key, ring);
        drop(alarms);
        if is_first {
            SOONER.notify_one();
        }
        Ok(Self { key, rings })
    }
}

/// Rings each alarm at its time, as long as the program runs.
fn keep() {
    let mut alarms = alarms();
    loop {
        let now = Instant::now();
        while let Some(first) = alarms.set.first_entry()
            && first.key().0 <= now
        {
            // The receiver may be gone.
            let _ = first.remove().send(());
        }
        let first = alarms.set.first_key_value().map(|((time, _), _)| *time);
        alarms = match first {
            None => SOONER.wait(alarms).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let left = time.saturating_duration_since(now);
                let waited = SOONER.wait_timeout(alarms, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn alarms_ring_in_their_order() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let now = Instant::now();
        let mut late = Alarm::at(now + Duration::from_secs(600)).unwrap();
        let soon = Alarm::at(now + Duration::from_millis(80)).unwrap();
        let sooner = Alarm::at(now + Duration::from_millis(20)).unwrap();
        let past = Alarm::at(now - Duration::from_millis(1)).unwrap();
        let gone = Alarm::at(now + Duration::from_millis(30)).unwrap();
        let key = gone.key;
        drop(gone);
        assert!(!alarms().set.contains_key(&key));
        let mut last = Duration::ZERO;
        for (mut alarm, after) in [(past, 0), (sooner, 20), (soon, 80)] {
            runtime.block_on(&mut alarm.rings).unwrap();
            let passed = now.elapsed();
            assert!(passed >= Duration::from_millis(after) && passed >= last);
            last = passed;
        }
        assert_eq!(late.rings.try_recv(), Ok(None));
    }
}
