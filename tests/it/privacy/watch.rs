//! Statements that do not end end the tests, and are named.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A thread that ends the tests when a statement does not.
pub struct Watch {
    running: &'static Mutex<Option<(String, Instant)>>,
}

impl Watch {
    /// For statements that take so long at most.
    pub fn new(most: Duration) -> Self {
        let running: &'static Mutex<Option<(String, Instant)>> = Box::leak(Box::default());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(5));
                let held = running.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((sql, since)) =
                    held.as_ref().filter(|(_, since)| since.elapsed() > most)
                {
                    eprintln!("no end after {:?}: {sql}", since.elapsed());
                    std::process::abort();
                }
            }
        });
        Self { running }
    }

    /// A statement begins, and the one before it has ended.
    pub fn start(&self, sql: &str) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((sql.to_owned(), Instant::now()));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
