//! How long models may take.
//!
//! In: the time for all fits and answers of a run. Out: fits that end in time. Counting the private rows takes nothing from it, so that where it ends
//! depends on released values and on the machine alone.

use std::time::{Duration, Instant};

use super::infer::Model;

/// Steps of the fit after each round: more would follow the noise.
pub(super) const STEPS: u32 = 60;
/// Steps of the last one.
pub(super) const LAST_STEPS: u32 = 180;

/// The time that is left for fitting: counting does not take from it.
pub(super) struct Clock {
    left: Option<Duration>,
}

impl Clock {
    /// So much, or without an end.
    pub(super) fn new(left: Option<Duration>) -> Self {
        Self { left }
    }

    /// Whether nothing is left.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_some_and(|left| left.is_zero())
    }

    /// Takes off what was used since a moment.
    pub(super) fn take(&mut self, start: Instant) {
        self.left = self.left.map(|left| left.saturating_sub(start.elapsed()));
    }

    /// Fits a model for at most so many steps.
    pub(super) fn fit(&mut self, model: &mut Model, steps: u32) {
        let start = Instant::now();
        model.fit(steps, self.left.and_then(|left| start.checked_add(left)));
        self.take(start);
    }
}
