//! The worker's side: runs stages of plans for a driver that knows the secret.
//!
//! In: requests of a driver, and of other workers of the same statement. Out: rows, and sums. A worker has no vault, no declarations
//! and no noise. It opens the files that a plan names, if they are those that the driver checked. It listens on this machine alone:
//! rows of people travel between workers, and nothing encrypts them yet.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use datafusion::execution::SessionState;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use futures::stream;
use tokio::net::TcpListener;
use tonic::transport::Server;

use crate::beside::Beside;
use crate::received::{environment, receiving};

/// A worker that listens.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    secret: Arc<str>,
}

impl Listening {
    /// Listens on a free port of this machine, for a driver with this secret.
    ///
    /// # Errors
    /// If every port is taken, or the secret is missing.
    pub async fn new(secret: &str) -> io::Result<Self> {
        if secret.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a worker has a secret"));
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self { listener, secret: secret.into() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say so.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    ///
    /// # Errors
    /// If the port can no longer be used.
    pub async fn serve(self) -> io::Result<()> {
        let Self { listener, secret } = self;
        let worker = Worker::from_session_builder(move |asked: WorkerQueryContext| {
            let secret = Arc::clone(&secret);
            async move { session(asked, &secret) }
        });
        let incoming = stream::unfold(listener, |listener| async {
            let connection = listener.accept().await.map(|(connection, _)| connection);
            Some((connection, listener))
        });
        let server = Server::builder().add_service(worker.into_worker_server());
        server.serve_with_incoming(incoming).await.map_err(io::Error::other)
    }
}

/// The session of one task, for the driver that knows the secret.
fn session(asked: WorkerQueryContext, secret: &str) -> Result<SessionState> {
    let WorkerQueryContext { builder, headers } = asked;
    let (runtime, files) = environment()?;
    let state = builder
        .with_runtime_env(runtime)
        .with_distributed_option_extension_from_headers::<Beside>(&headers)?
        .build();
    match Beside::of(state.config()).knows(secret) {
        true => Ok(receiving(state, files)),
        false => exec_err!("this driver does not know the secret of the worker"),
    }
}
