//! What one statement may use of the machine.
//!
//! In: numbers that whoever opens an engine chooses. Out: refusals before anything is charged where a number depends
//! on the statement alone (its size, its candidates), and else one constant error after the charge (memory, time,
//! rows): which data made a statement fail is not told, although *that* it failed may depend on them.
//!
//! ```
//! use hushql::{Engine, Resources};
//!
//! # fn main() -> Result<(), hushql::Error> {
//! let resources = Resources { memory: Some(2 << 30), ..Resources::default() };
//! let engine = Engine::demo()?.with_resources(resources)?;
//! # Ok(()) }
//! ```

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use datafusion::execution::SessionState;
use tokio::time::{Sleep, sleep};

use crate::analysis::{Analysis, Axis, Choice, MOST_KEYS, Part, Source};
use crate::dialect::Size;
use crate::error::Error;
use crate::exec::session_state_within;
use crate::refusal::{Reason, Refusal};

/// What one statement may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// How large its text and its tree may be.
    pub statement: Size,
    /// How many keys or candidates one release may have; at most, and by default, 100,000. (Numbers of a line that no
    /// mechanism looks at one by one are not counted.)
    pub keys: usize,
    /// How many rows an answer may have; by default a million.
    pub rows: usize,
    /// Bytes of memory for all statements of the engine that run at the same time; by default as many as there are.
    /// Counted are the tables that queries build, not single batches.
    pub memory: Option<usize>,
    /// Where what does not fit into the memory may be kept while a statement runs; by default nowhere, and the
    /// statement fails. The files hold rows of private tables, and are removed when the statement ends.
    pub spill: Option<PathBuf>,
    /// How long a statement may run, from its charge to its answer; by default as long as it takes. The runtime must
    /// have its timer enabled.
    pub time: Option<Duration>,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            statement: Size::default(),
            keys: MOST_KEYS,
            rows: 1_000_000,
            memory: None,
            spill: None,
            time: None,
        }
    }
}

impl Resources {
    /// The session in which statements run within this memory.
    ///
    /// # Errors
    /// [`Error::Catalog`] when the folder for what does not fit cannot be used.
    pub(crate) fn session_state(&self) -> Result<SessionState, Error> {
        let state = session_state_within(self.memory, self.spill.as_deref());
        state.map_err(|e| Error::catalog_from("the folder to spill to cannot be used", e))
    }

    /// Refuses an analysis in which a release has more keys, or looks at more candidates, than allowed.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check_keys(&self, analysis: &Analysis) -> Result<(), Refusal> {
        for part in analysis.parts() {
            if part.keys().all().len() > self.keys || candidates(part).any(|n| n > self.keys) {
                let most = self.keys;
                return Err(Refusal::new(
                    Reason::TooManyKeys,
                    "",
                    format!("one release may have at most {most} keys or candidates here"),
                    "fewer key columns, a coarser domain (STEP), or KEYS (…) with the keys of interest",
                ));
            }
        }
        Ok(())
    }

    /// Starts the clock of a statement.
    pub(crate) fn timer(&self) -> Timer {
        Timer(self.time.map(|time| Box::pin(sleep(time))))
    }
}

/// The candidates that each selection of a part looks at one by one, in all its groups.
fn candidates(part: &Part) -> impl Iterator<Item = usize> {
    let choices = part.measures().iter().filter_map(|measure| measure.choice());
    choices.filter_map(|choice: &Choice| {
        let each = match &choice.source {
            Source::Keys(candidates) => candidates.len(),
            Source::Each(axis) => usize::try_from(axis.count()).unwrap_or(usize::MAX),
            Source::Line { axis: Axis::Listed(values), .. } => values.len(),
            Source::Line { axis: Axis::Ticks(_), .. } | Source::Unknown { .. } => return None,
        };
        Some(each.saturating_mul(usize::try_from(choice.outer).unwrap_or(usize::MAX)))
    })
}

/// The clock of a running statement.
pub(crate) struct Timer(Option<std::pin::Pin<Box<Sleep>>>);

impl Timer {
    /// Runs this until it is done, or drops it when the time is over: then `None`.
    pub(crate) async fn limit<T>(self, work: impl Future<Output = T>) -> Option<T> {
        match self.0 {
            None => Some(work.await),
            Some(over) => tokio::select! {
                biased;
                done = work => Some(done),
                () = over => None,
            },
        }
    }
}
