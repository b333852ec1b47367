//! The boundary of a session: results and errors leave it, panics do not.
//!
//! In: the work of a statement, which may nest deeply and calls code of dependencies. Out: its
//! result. A panic becomes an error, because its message may quote a cell and because it may depend
//! on the data. The work gets a deep stack, because a stack overflow would end the process.
//!
//! ```text
//! guard::run(|| plan(query))              a panic is Error::Internal
//! guard::poll(run(prepared)).await        None after a panic
//! ```

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::task::Poll;

use futures::FutureExt;

use crate::error::Error;

/// If less stack than this remains, a new one is allocated. A debug build plans the largest
/// statement within half of it.
const RED_ZONE: usize = 16 << 20;
const STACK: usize = 64 << 20;

/// The size of a stack on which work needs no other stack.
pub(crate) const DEEP: usize = RED_ZONE + STACK;

/// Runs synchronous work on a deep stack.
///
/// # Errors
/// The errors of the work, and [`Error::Internal`] if it panics.
pub(crate) fn run<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let deep = AssertUnwindSafe(|| stacker::maybe_grow(RED_ZONE, STACK, work));
    std::panic::catch_unwind(deep).unwrap_or(Err(Error::Internal))
}

/// Runs asynchronous work and polls it on a deep stack. `None` if it panics.
pub(crate) async fn poll<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
    std::future::poll_fn(move |context| {
        let step = stacker::maybe_grow(RED_ZONE, STACK, || work.as_mut().poll(context));
        match step {
            Poll::Ready(done) => Poll::Ready(done.ok()),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_panic_is_an_error_that_tells_nothing() {
        let panics = || -> Result<(), Error> { panic!("cell 42") };
        assert!(matches!(run(panics), Err(Error::Internal)));
        let waits = async {
            tokio::task::yield_now().await;
            panic!("cell 42");
        };
        assert!(poll::<()>(waits).await.is_none());
        assert_eq!(poll(async { 7 }).await, Some(7));
    }

    /// Calls of this size overflow the usual 2 MiB stack of a thread before a depth of 20,000.
    fn deep(n: u32) -> u32 {
        let block = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { deep(n - 1) + block[0] / n }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_stack_is_deep() {
        assert_eq!(run(|| Ok(deep(20_000))).unwrap(), 20_000);
        assert_eq!(poll(async { deep(20_000) }).await, Some(20_000));
    }
}
