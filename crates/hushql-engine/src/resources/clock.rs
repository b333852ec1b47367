//! The clock of a statement, for all of its stages.
//!
//! In: the time that the statement may take. Out: the result of its work, or nothing if the time is
//! over. Planning never waits, so it cannot be cancelled from outside. It has a thread of its own,
//! which ends at its next public row after the time is over or the statement is dropped. Nothing
//! waits for this thread.
//!
//! ```text
//! clock.aside(|| plan(query)).await      a refusal when the time is over
//! clock.limit(run(prepared)).await       None when the time is over
//! ```

use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use crate::error::Error;
use crate::exec::Deadline;
use crate::guard;
use crate::refusal::{Reason, Refusal};
use crate::resources::alarm::Alarm;
use crate::resources::threads;

/// The clock of a running statement.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    time: Option<Duration>,
    deadline: Deadline,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn within(time: Option<Duration>) -> Self {
        Self { time, deadline: Deadline::within(time) }
    }

    /// The time at which all work must end.
    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline.clone()
    }

    /// Refuses a statement whose time is over before its charge.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.deadline.is_over() { Err(self.too_long()) } else { Ok(()) }
    }

    /// Runs work that never waits and charges nothing.
    ///
    /// # Errors
    /// The errors of the work, [`Error::Internal`] if it panics, and a refusal if the time is over.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = oneshot::channel();
        start(move || {
            // Sending fails if the statement was dropped.
            let _ = tell.send(guard::run(work));
        })?;
        let ends = Stops(&self.deadline);
        let done = self.limit(told).await;
        let done = done.ok_or_else(|| self.too_long())?.map_err(|_| Error::Internal)?;
        // If the work failed because the time is over, the error is this refusal.
        self.check()?;
        std::mem::forget(ends);
        done
    }

    /// As [`Clock::aside`], for synchronous callers.
    ///
    /// # Errors
    /// As [`Clock::aside`].
    pub(crate) fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (tell, told) = channel();
        start(move || {
            let _ = tell.send(guard::run(work));
        })?;
        let done = match self.deadline.left() {
            Some(left) => told.recv_timeout(left),
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match done {
            Ok(done) => self.check().and(done),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Internal),
            Err(RecvTimeoutError::Timeout) => {
                self.deadline.stop();
                Err(self.too_long())
            }
        }
    }

    /// Runs a future to its end. If the time is over first, drops it and returns `None`. Needs no
    /// timer of the runtime.
    pub(crate) async fn limit<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(left) = self.deadline.left() else { return Some(work.await) };
        // An end beyond the range of the clock never comes.
        let Some(end) = Instant::now().checked_add(left) else { return Some(work.await) };
        let mut alarm = Alarm::at(end).ok()?;
        tokio::select! {
            biased;
            done = work => Some(done),
            _ = &mut alarm.rings => None,
        }
    }

    fn too_long(&self) -> Error {
        let seconds = self.time.unwrap_or_default().as_secs_f64();
        Refusal::new(
            Reason::TooLarge,
            "",
            format!("planning this statement took longer than its limit of {seconds} s"),
            "fewer joins and subqueries, smaller public tables, or more time: --timeout SECONDS",
        )
        .into()
    }
}

/// Tells the work, when dropped, that its result is no longer needed.
struct Stops<'a>(&'a Deadline);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    threads::start(work).map_err(|_| Error::Internal)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn forever(deadline: &Deadline, ended: &AtomicBool) {
        while !deadline.is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        ended.store(true, Ordering::Relaxed);
    }

    fn has_ended(ended: &AtomicBool) -> bool {
        (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            ended.load(Ordering::Relaxed)
        })
    }

    /// The clock also works on a runtime without a timer.
    #[test]
    fn nobody_waits_for_what_takes_too_long() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for sync in [true, false] {
            let clock = Clock::within(Some(Duration::from_millis(50)));
            let (deadline, ended) = (clock.deadline(), Arc::new(AtomicBool::new(false)));
            let work = {
                let ended = Arc::clone(&ended);
                move || {
                    forever(&deadline, &ended);
                    Ok(())
                }
            };
            let error = match sync {
                true => clock.blocking(work).unwrap_err(),
                false => runtime.block_on(clock.aside(work)).unwrap_err(),
            };
            assert_eq!(error.code(), Some("HQ034"), "{error}");
            assert!(clock.check().is_err() && has_ended(&ended));
            assert_eq!(runtime.block_on(clock.limit(std::future::pending::<()>())), None);
            assert_eq!(runtime.block_on(clock.limit(async { 7 })), Some(7));
        }
        let clock = Clock::within(None);
        assert_eq!(runtime.block_on(clock.aside(|| Ok(1))).unwrap(), 1);
        assert_eq!(clock.blocking(|| Ok(2)).unwrap(), 2);
        let panics = || -> Result<(), Error> { panic!("cell 42") };
        assert!(matches!(clock.blocking(panics), Err(Error::Internal)));
    }

    /// As after Ctrl-C.
    #[test]
    fn work_ends_when_the_statement_is_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let clock = Clock::within(None);
        let (deadline, ended) = (clock.deadline(), Arc::new(AtomicBool::new(false)));
        let running = Arc::clone(&ended);
        runtime.block_on(async {
            let work = clock.aside(move || {
                forever(&deadline, &running);
                Ok(())
            });
            futures::future::select(Box::pin(work), Box::pin(tokio::task::yield_now())).await;
        });
        assert!(has_ended(&ended));
    }
}
