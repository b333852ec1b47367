//! The vault that all statements of an engine share.
//!
//! In: work to do at the vault, which may have to wait for the disk or for another program. Out:
//! its result. The work has its own thread, so that the threads that run queries continue, and
//! charges that wait for the same disk are committed together. If a query is dropped meanwhile, the
//! drop waits for the end of the work: by then the query has been charged, or never will be.
//!
//! ```text
//! a query's thread   plan ─┐  (other queries)  ┌─ run
//! another thread           └─ charge, commit ──┘
//! ```

use std::ops::Deref;
use std::sync::{Arc, mpsc};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::ledger::{Vault, VaultError};

/// The vault of an engine. Code on the threads that run queries calls [`SharedVault::ask`];
/// planning, which has its own threads, calls the vault's methods directly.
#[derive(Debug, Clone)]
pub(crate) struct SharedVault(Arc<Vault>);

/// The reason why the vault did not answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The vault's own error.
    Vault(VaultError),
    /// The work panicked, or its runtime ended.
    Ended,
}

impl From<AskError> for Error {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Vault(error) => error.into(),
            AskError::Ended => Self::Internal,
        }
    }
}

impl Deref for SharedVault {
    type Target = Vault;

    fn deref(&self) -> &Vault {
        &self.0
    }
}

impl SharedVault {
    pub(crate) fn new(vault: Vault) -> Self {
        Self(Arc::new(vault))
    }

    /// Runs `work` on the vault, on another thread.
    ///
    /// # Errors
    /// The vault's own, and [`AskError::Ended`].
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
    ) -> Result<T, AskError> {
        let Ok(runtime) = Handle::try_current() else {
            return work(self).map_err(AskError::Vault);
        };
        let vault = self.clone();
        let (begun, ended) = mpsc::channel::<()>();
        let task = runtime.spawn_blocking(move || {
            let done = work(&vault);
            drop(begun);
            done
        });
        let mut visit = Visit { task, ended };
        let done = (&mut visit.task).await;
        done.map_err(|_| AskError::Ended)?.map_err(AskError::Vault)
    }
}

/// Work that has begun or waits for a thread.
struct Visit<T> {
    task: JoinHandle<T>,
    /// Disconnects when the work ends.
    ended: mpsc::Receiver<()>,
}

impl<T> Drop for Visit<T> {
    fn drop(&mut self) {
        // Work that has not begun will never begin.
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
    async fn work_that_is_dropped_has_ended() {
        let vault = SharedVault::new(Vault::in_memory().unwrap());
        assert_eq!(vault.ask(Vault::analysts).await.unwrap(), ["owner"]);
        let (began, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for _ in 0..20 {
            let (a, b) = (Arc::clone(&began), Arc::clone(&ended));
            let work = move |_: &Vault| {
                a.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                b.store(true, Ordering::SeqCst);
                Ok(())
            };
            let mut asked = Box::pin(vault.ask(work));
            let mut context = Context::from_waker(Waker::noop());
            assert!(asked.as_mut().poll(&mut context).is_pending());
            drop(asked);
            let (began, ended) = (&began, &ended);
            assert_eq!(began.swap(false, Ordering::SeqCst), ended.swap(false, Ordering::SeqCst));
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn work_that_panics_is_an_error() {
        let vault = SharedVault::new(Vault::in_memory().unwrap());
        let panics = |_: &Vault| -> Result<(), VaultError> { panic!("at the vault") };
        assert!(matches!(vault.ask(panics).await, Err(AskError::Ended)));
    }
}
