//! Statements that run while Python does something else.
//!
//! In: work of the engine. Out: a handle with which Python waits without the GIL, reads the
//! progress, or cancels. A wait checks for signals: Ctrl-C ends it immediately, and the work at its
//! next pause. Charges stay.
//!
//! Threads do not survive a fork. The runtime belongs to the process that made it; a child makes
//! its own.
//!
//! ```text
//! start ─▶ task ─▶ slot ◀─ wait (no GIL; signals every 50 ms) ─▶ result
//!                    └───── cancel
//! ```

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hushql::Error;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{AbortHandle, JoinHandle};

use crate::answer::Answer;
use crate::errors;

/// How long a wait sleeps between two checks for signals.
const PAUSE: Duration = Duration::from_millis(50);

/// The runtime, and the process that made it.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// The runtime of this process. The lock is held only together with the GIL, so that no fork finds
/// it locked.
fn runtime(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    let mut held = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((made_by, runtime)) = held.as_ref()
        && *made_by == process
    {
        return Ok(Arc::clone(runtime));
    }
    let made = Builder::new_multi_thread().enable_all().thread_name("hushql").build();
    let made = Arc::new(made.map_err(|_| errors::raised(py, &Error::Execution))?);
    // The threads of a parent's runtime do not exist here, and dropping it would wait for them.
    std::mem::forget(held.replace((process, Arc::clone(&made))));
    Ok(made)
}

/// Where a result arrives.
struct Slot<T>(Mutex<Option<Result<T, Error>>>, Condvar);

impl<T> Slot<T> {
    /// Stores a result, unless there is one.
    fn put(&self, result: Result<T, Error>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(result);
        self.1.notify_all();
    }

    /// The result, if it arrives within this time. It can be taken once.
    fn take_within(&self, time: Duration) -> Option<Result<T, Error>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.1.wait_timeout_while(held, time, |slot| slot.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Whether it arrives within this time.
    fn is_there_within(&self, time: Duration) -> bool {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.1.wait_timeout_while(held, time, |slot| slot.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

/// Work under way.
pub(crate) struct Task<T> {
    slot: Arc<Slot<T>>,
    abort: AbortHandle,
}

impl<T: Send + 'static> Task<T> {
    fn of(runtime: &Runtime, work: JoinHandle<Result<T, Error>>) -> Self {
        let abort = work.abort_handle();
        let slot = Arc::new(Slot(Mutex::new(None), Condvar::new()));
        let arrives = Arc::clone(&slot);
        runtime.spawn(async move {
            arrives.put(match work.await {
                Ok(result) => result,
                Err(ended) if ended.is_cancelled() => Err(Error::Execution),
                Err(_) => Err(Error::Internal),
            });
        });
        Self { slot, abort }
    }

    /// Starts asynchronous work.
    pub(crate) fn start(
        py: Python<'_>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> PyResult<Self> {
        let runtime = runtime(py)?;
        Ok(Self::of(&runtime, runtime.spawn(work)))
    }

    /// Waits without the GIL.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<T> {
        loop {
            if let Some(result) = py.detach(|| self.slot.take_within(PAUSE)) {
                return result.map_err(|error| errors::raised(py, &error));
            }
            if let Err(interrupt) = py.check_signals() {
                self.abort.abort();
                return Err(interrupt);
            }
        }
    }
}

/// Runs work that blocks, such as planning, and waits for it without the GIL.
pub(crate) fn blocking<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let runtime = runtime(py)?;
    let work = move || catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Internal));
    Task::of(&runtime, runtime.spawn_blocking(work)).wait(py)
}

/// The result of a statement.
pub(crate) enum Done {
    /// Rows.
    Answer(Box<hushql::Answer>),
    /// An explanation, as text and as JSON.
    Explanation(String, String),
    /// One sentence.
    Said(String),
}

/// The result of a statement, for Python.
#[derive(IntoPyObject)]
pub(crate) enum Given {
    Answer(Answer),
    Explanation((String, String)),
    Said(String),
}

impl From<Done> for Given {
    fn from(done: Done) -> Self {
        match done {
            Done::Answer(answer) => Self::Answer(Answer::new(*answer)),
            Done::Explanation(text, json) => Self::Explanation((text, json)),
            Done::Said(sentence) => Self::Said(sentence),
        }
    }
}

/// A running statement.
#[pyclass(frozen, module = "hushql._hushql")]
pub(crate) struct Running {
    task: Task<Done>,
    session: hushql::Session,
}

impl Running {
    pub(crate) fn new(task: Task<Done>, session: hushql::Session) -> Self {
        Self { task, session }
    }
}

#[pymethods]
impl Running {
    /// Waits for the result, which can be taken once. Ctrl-C ends the wait and the statement.
    fn wait(&self, py: Python<'_>) -> PyResult<Given> {
        self.task.wait(py).map(Given::from)
    }

    /// Waits at most this many seconds, and returns whether the result is there.
    fn is_done(&self, py: Python<'_>, seconds: f64) -> bool {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(PAUSE);
        py.detach(|| self.task.slot.is_there_within(time))
    }

    /// Ends every wait immediately, and the statement at its next pause. Charges stay.
    fn cancel(&self) {
        self.task.abort.abort();
        self.task.slot.put(Err(Error::Execution));
    }

    /// Percentages, if they may be shown: of the files that were read, and of the budget of a
    /// synthetic table.
    fn progress(&self) -> (Option<u8>, Option<(u32, u8)>) {
        let rounds = self.session.rounds().map(|done| (done.rounds, done.percent));
        (self.session.progress(), rounds)
    }
}

/// Panics as the engine never should, to test that the message does not come out.
#[pyfunction]
pub(crate) fn panics(py: Python<'_>, message: String) -> PyResult<()> {
    #[allow(clippy::panic, reason = "this is what is tested")]
    blocking(py, move || panic!("{message}"))
}
