//! How long models may take, and whether anybody still waits for them.
//!
//! In: the time for all fits and answers of a run, and a sign that nobody waits. Out: fits that end
//! in time. Counting the private rows takes nothing from it, so that where it ends depends on
//! released values and on the machine alone. When nobody waits, nothing comes out.

use std::time::{Duration, Instant};

use super::infer::Model;
use super::made::{Failed, Stop, check};

/// Steps of the fit after each round: more would follow the noise.
pub(super) const STEPS: u32 = 60;
/// Steps of the last one.
pub(super) const LAST_STEPS: u32 = 180;

/// The time that is left for fitting: counting does not take from it.
pub(super) struct Clock<'a> {
    left: Option<Duration>,
    stop: Stop<'a>,
}

impl<'a> Clock<'a> {
    /// So much, or without an end; and never longer than the statement.
    pub(super) fn new(left: Option<Duration>, stop: Stop<'a>) -> Self {
        Self { left, stop }
    }

    /// Whether nothing is left.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_some_and(|left| left.is_zero())
    }

    /// Takes off what was used.
    pub(super) fn take(&mut self, used: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(used));
    }

    /// Works for as long as there is time; the work asks when to end.
    ///
    /// # Errors
    /// [`Failed::Stopped`] where the statement is over.
    pub(super) fn run(&mut self, work: impl FnOnce(&dyn Fn() -> bool)) -> Result<(), Failed> {
        let (start, stop) = (Instant::now(), self.stop);
        let until = self.left.and_then(|left| start.checked_add(left));
        work(&|| stop() || until.is_some_and(|until| Instant::now() >= until));
        self.take(start.elapsed());
        check(stop)
    }

    /// Fits a model for at most so many steps.
    ///
    /// # Errors
    /// As [`Clock::run`].
    pub(super) fn fit(&mut self, model: &mut Model, steps: u32) -> Result<(), Failed> {
        self.run(|over| model.fit(steps, over))
    }
}
