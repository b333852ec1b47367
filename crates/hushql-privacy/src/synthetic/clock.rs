//! The time limit of models, and the check whether the statement is still running.
//!
//! In: the time for all fits and answers of a run, and a sign that the statement is over. Out: fits
//! that end in time. Counting the private rows does not use this time, so the end of a fit depends
//! on released values and on the machine alone. If the statement is over, nothing is returned.

use std::time::{Duration, Instant};

use super::infer::Model;
use super::made::{Failed, Stop, check};

/// Steps of the fit after each round. More steps would fit the noise.
pub(super) const STEPS: u32 = 60;
/// Steps of the last fit.
pub(super) const LAST_STEPS: u32 = 180;

/// The time that is left for fitting. Counting does not use it.
pub(super) struct Clock<'a> {
    left: Option<Duration>,
    stop: Stop<'a>,
}

impl<'a> Clock<'a> {
    /// This much time, or no limit; in any case no longer than the statement.
    pub(super) fn new(left: Option<Duration>, stop: Stop<'a>) -> Self {
        Self { left, stop }
    }

    /// True if no time is left.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_some_and(|left| left.is_zero())
    }

    /// Subtracts the time used.
    pub(super) fn take(&mut self, used: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(used));
    }

    /// Runs `work` for as long as there is time; `work` calls its argument to ask whether to end.
    ///
    /// # Errors
    /// [`Failed::Stopped`] if the statement is over.
    pub(super) fn run(&mut self, work: impl FnOnce(&dyn Fn() -> bool)) -> Result<(), Failed> {
        let (start, stop) = (Instant::now(), self.stop);
        let until = self.left.and_then(|left| start.checked_add(left));
        work(&|| stop() || until.is_some_and(|until| Instant::now() >= until));
        self.take(start.elapsed());
        check(stop)
    }

    /// Fits a model for at most `steps` steps.
    ///
    /// # Errors
    /// As [`Clock::run`].
    pub(super) fn fit(&mut self, model: &mut Model, steps: u32) -> Result<(), Failed> {
        self.run(|over| model.fit(steps, over))
    }
}
