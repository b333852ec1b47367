//! Lets a query work at the vault while other queries run.
//!
//! In: the work to do at the vault, which may have to wait. Out: its result. The visit has its own
//! thread, so that the threads that run queries continue, and charges that wait for the same disk
//! are committed together. If a query is dropped during its visit, the drop waits for the end of
//! the visit: by then the query has been charged, or never will be.
//!
//! ```text
//! a query's thread   plan ─┐  (other queries)  ┌─ run
//! another thread           └─ charge, commit ──┘
//! ```

use std::sync::{Arc, mpsc};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::ledger::{Vault, VaultError};

/// Runs `work` on the vault.
///
/// # Errors
/// The vault's own, and [`Error::Internal`] if the work panics or its runtime ends.
pub(super) async fn at_vault<T: Send + 'static>(
    vault: &Arc<Vault>,
    work: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
) -> Result<T, Error> {
    let Ok(runtime) = Handle::try_current() else { return Ok(work(vault)?) };
    let vault = Arc::clone(vault);
    let (begun, ended) = mpsc::channel::<()>();
    let task = runtime.spawn_blocking(move || {
        let done = work(&vault);
        drop(begun);
        done
    });
    let mut visit = Visit { task, ended };
    let done = (&mut visit.task).await;
    Ok(done.map_err(|_| Error::Internal)??)
}

/// A visit that has begun or waits for a thread.
struct Visit<T> {
    task: JoinHandle<T>,
    /// Disconnects when the visit ends.
    ended: mpsc::Receiver<()>,
}

impl<T> Drop for Visit<T> {
    fn drop(&mut self) {
        // A visit that has not begun will never begin.
        self.task.abort();
        let _ = self.ended.recv();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_visit_that_is_dropped_has_ended() {
        let vault = Arc::new(Vault::in_memory().unwrap());
        assert_eq!(at_vault(&vault, Vault::analysts).await.unwrap(), ["owner"]);
        let (began, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for _ in 0..20 {
            let (a, b) = (Arc::clone(&began), Arc::clone(&ended));
            let work = move |_: &Vault| {
                a.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                b.store(true, Ordering::SeqCst);
                Ok(())
            };
            let mut visit = Box::pin(at_vault(&vault, work));
            let mut context = Context::from_waker(Waker::noop());
            assert!(visit.as_mut().poll(&mut context).is_pending());
            drop(visit);
            let (began, ended) = (&began, &ended);
            assert_eq!(began.swap(false, Ordering::SeqCst), ended.swap(false, Ordering::SeqCst));
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_visit_that_panics_is_an_error() {
        let vault = Arc::new(Vault::in_memory().unwrap());
        let panics = |_: &Vault| -> Result<(), VaultError> { panic!("at the vault") };
        assert!(matches!(at_vault(&vault, panics).await, Err(Error::Internal)));
    }
}
