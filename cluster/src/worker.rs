//! The worker's side: runs stages of plans that its driver signed.
//!
//! In: requests of a driver, and of other workers of the same statement, over TLS with certificates
//! of one authority. Out: rows and sums. A worker has no vault, no declarations and no noise. It
//! opens the files that a plan names, if they are those that the driver checked. All its plans
//! share one memory limit, and write files only if a spill folder is given.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use hushql::Resources;
use hushql_engine::exec::distributed::limited;
use tokio::net::TcpListener;

use crate::VERSION;
use crate::beside::Beside;
use crate::identity::{Checker, WorkerKeys, accepting};
use crate::received::{environment, receiving};
use crate::transport::{Channels, Gate, LARGEST, serve};

/// The rows of a batch if there is enough memory. A batch is split into one for each partition of
/// the next stage, so small batches would become tiny.
const ROWS_OF_A_BATCH: usize = 32_768;

/// The least memory of a worker with such batches: batches in flight take up to a quarter of a
/// gigabyte more. Workers with less memory use DataFusion's batch size.
const FOR_LARGE_BATCHES: usize = 2 << 30;

/// A worker that listens.
pub struct Listening {
    listener: TcpListener,
    keys: WorkerKeys,
    process: Arc<RuntimeEnv>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Listening {
    /// Listens at an address (port 0 means any free one), for the driver that these keys name. Of
    /// the resources, the memory limit and the spill folder apply to all plans together. The driver
    /// limits the time of a statement.
    ///
    /// # Errors
    /// If the address is in use, or the spill folder cannot be used.
    pub async fn new(
        address: SocketAddr,
        keys: WorkerKeys,
        resources: &Resources,
    ) -> io::Result<Self> {
        let process = limited(resources.memory, resources.spill.as_deref());
        let process = process.map_err(io::Error::other)?;
        Ok(Self { listener: TcpListener::bind(address).await?, keys, process })
    }

    /// The address where it listens.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    ///
    /// # Errors
    /// If the keys are not those of a worker, or the port can no longer be used.
    pub async fn serve(self) -> io::Result<()> {
        let Self { listener, keys: WorkerKeys { identity, driver }, process } = self;
        // A worker signs nothing.
        let channels = Channels::new(&identity, None)?;
        let tls = accepting(&identity)?;
        let worker = Worker::from_session_builder(move |asked: WorkerQueryContext| {
            let (process, channels) = (Arc::clone(&process), channels.clone());
            async move { session(asked, &process, channels) }
        });
        let service = worker.with_version(VERSION).into_worker_server();
        let service = service.max_decoding_message_size(LARGEST);
        serve(listener, tls, Gate::new(service, Checker::new(identity, driver))).await
    }
}

/// The session of one task.
fn session(
    asked: WorkerQueryContext,
    process: &RuntimeEnv,
    channels: Channels,
) -> Result<SessionState> {
    let WorkerQueryContext { builder, headers } = asked;
    let (runtime, files) = environment(process)?;
    let is_short = match process.memory_pool.memory_limit() {
        MemoryLimit::Finite(limit) => limit < FOR_LARGE_BATCHES,
        MemoryLimit::Infinite | MemoryLimit::Unknown => false,
    };
    let mut state = builder
        .with_runtime_env(runtime)
        .with_distributed_channel_resolver(channels)
        .with_distributed_option_extension_from_headers::<Beside>(&headers)?
        .build();
    if !is_short {
        state.config_mut().options_mut().execution.batch_size =
            ConfigNonZeroUsize::try_new(ROWS_OF_A_BATCH)?;
    }
    receiving(state, files)
}
