//! Handles workers that are lost while a statement runs: the statement starts again on the
//! remaining ones.
//!
//! In: the addresses of workers. Out: those that accept a connection; and, for a failure, whether a
//! worker was lost. No noise is drawn before all rows have arrived, so the whole private part can
//! run again with the same key: its integers are the same.
//!
//! ```text
//! 4 workers ─▶ rows, a failure; one of the four takes no connection ─▶ Lost ─▶ again, on 3 workers
//! ```

use std::error::Error;
use std::fmt;
use std::time::Duration;

use datafusion::common::DataFusionError;
use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use url::Url;

/// The most times that the private part of a statement starts again.
pub(crate) const MOST_TIMES: usize = 3;

/// How long a worker may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often, and at what interval, workers are checked after a failure: a worker that ends closes
/// its connections one after the other.
const LOOKS: u32 = 4;
const BETWEEN: Duration = Duration::from_millis(50);

/// A failure because a worker was lost.
#[derive(Debug)]
pub(crate) struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a worker was lost")
    }
}

impl Error for Lost {}

/// Whether a failure is of this kind.
pub(crate) fn is_lost(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::External(cause) => cause.is::<Lost>(),
        _ => false,
    }
}

/// The workers that accept a connection.
pub(crate) async fn reached(workers: &[Url]) -> Vec<Url> {
    let reached = join_all(workers.iter().map(takes_connections)).await;
    workers.iter().zip(reached).filter(|(_, is)| *is).map(|(worker, _)| worker.clone()).collect()
}

async fn takes_connections(worker: &Url) -> bool {
    let (Some(host), Some(port)) = (worker.host_str(), worker.port_or_known_default()) else {
        return false;
    };
    matches!(timeout(PATIENCE, TcpStream::connect((host, port))).await, Ok(Ok(_)))
}

/// A failure of rows from these workers; [`Lost`] if one of them no longer accepts connections.
pub(crate) async fn looked_into(error: DataFusionError, workers: &[Url]) -> DataFusionError {
    for _ in 0..LOOKS {
        if reached(workers).await.len() < workers.len() {
            return DataFusionError::External(Box::new(Lost));
        }
        sleep(BETWEEN).await;
    }
    error
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_worker_that_takes_no_connection_is_lost() {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let url = |listener: &TcpListener| {
            Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap()
        };
        let [first, second] = listeners;
        let workers = [url(&first), url(&second)];
        let failure = || DataFusionError::Execution("something else".to_owned());
        assert_eq!(reached(&workers).await, workers);
        assert!(!is_lost(&looked_into(failure(), &workers).await));
        drop(second);
        assert_eq!(reached(&workers).await, workers[..1]);
        assert!(is_lost(&looked_into(failure(), &workers).await));
        drop(first);
    }
}
