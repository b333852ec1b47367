//! When the work of a statement must end.
//!
//! In: a time limit, and a signal that no caller waits any more. Out: whether the work must end,
//! for loops that check from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long work may continue after its last caller stopped waiting.
const NOTICED: Duration = Duration::from_millis(20);

/// When work must end: at a time limit, or when no caller waits for it.
#[derive(Debug, Clone, Default)]
pub struct Deadline {
    until: Option<Instant>,
    stopped: Arc<AtomicBool>,
}

impl Deadline {
    /// A deadline after this time; `None` means no limit.
    pub fn within(time: Option<Duration>) -> Self {
        // A time beyond the clock's range sets no limit.
        let until = time.and_then(|time| Instant::now().checked_add(time));
        Self { until, stopped: Arc::default() }
    }

    /// The remaining time, if it is limited.
    pub fn left(&self) -> Option<Duration> {
        Some(self.until?.saturating_duration_since(Instant::now()))
    }

    /// Ends the work: no caller waits any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the work must end.
    pub fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.left().is_some_and(|left| left.is_zero())
    }

    /// Waits until the work must end, on a runtime with a timer.
    pub async fn over(&self) {
        while !self.is_over() {
            tokio::time::sleep(NOTICED).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes() {
        assert!(!Deadline::default().is_over());
        assert!(!Deadline::within(Some(Duration::MAX)).is_over());
        assert!(Deadline::within(Some(Duration::ZERO)).is_over());
        let deadline = Deadline::within(Some(Duration::from_secs(100)));
        assert!(!deadline.is_over());
        deadline.clone().stop();
        assert!(deadline.is_over());
    }
}
