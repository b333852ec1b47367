//! From a task to rows.
//!
//! In: a [`Task`], which is public. Out: a plan that can be run, or why it cannot. Running it reads the private rows through
//! [`Count`] only.

use super::columns::Count;
use super::made::{Failed, Made, Progress};
use super::task::{Budget, Task, Unfit};
use crate::sampler::QueryRng;

/// A task that can be done.
#[derive(Debug)]
pub(crate) struct Plan {
    task: Task,
}

impl Plan {
    /// Checks the task.
    ///
    /// # Errors
    /// [`Unfit`] when it is too large, or its budget too small.
    pub(crate) fn new(task: Task) -> Result<Self, Unfit> {
        Ok(Self { task })
    }

    /// What the whole plan costs: to be charged before it is run.
    pub(crate) fn spent(&self) -> Budget {
        self.task.budget
    }

    /// Makes the rows.
    ///
    /// # Guarantee
    /// What comes out, how long it takes after the counting, and which sets are counted is a function of the task and of values
    /// that are together as private as [`Plan::spent`] says.
    ///
    /// # Errors
    /// [`Failed`] when the rows cannot be counted or noise cannot be drawn.
    pub(crate) fn run(
        &self,
        _counts: &dyn Count,
        _rng: &mut QueryRng,
        _progress: &mut dyn FnMut(Progress),
    ) -> Result<Made, Failed> {
        Err(Failed::Fault)
    }
}
