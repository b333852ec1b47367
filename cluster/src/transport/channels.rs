//! Channels to workers: TLS, and the driver's signature on requests that make a worker run a plan.
//!
//! In: the URL of a worker, `https://NAME@HOST:PORT/`. Out: a channel to a server at that address
//! with a certificate for that name. Channels are kept, and reconnect when they are lost.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower::{Service, service_fn};
use url::Url;

use super::first::first_message;
use super::{AHEAD, AHEAD_OF_ALL, FRAME, RUN, now};
use crate::identity::signed::SIGNED;
use crate::identity::{Identity, Signer, connecting};

/// How long a connection may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the other end is probed, and how long it may take to respond.
const ALIVE: Duration = Duration::from_secs(20);

/// Why a worker cannot be reached, as a sentence without a full stop.
#[derive(Debug, Clone)]
pub(crate) struct NotReached(String);

impl fmt::Display for NotReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotReached {}

/// A channel to one worker.
#[derive(Debug, Clone)]
pub(super) struct Signing {
    pub(super) channel: Channel,
    worker: Arc<str>,
    signer: Option<Signer>,
}

/// The request with the driver's signature, if it makes a worker run a plan.
pub(super) async fn signed(
    signer: &Signer,
    worker: &str,
    request: Request<Body>,
) -> Result<Request<Body>, Status> {
    let (mut parts, body) = request.into_parts();
    let (message, body) = first_message(body).await?;
    let failed = |_| Status::internal("a plan cannot be signed");
    let signature = signer.signature(worker, now(), &parts.headers, &message).map_err(failed)?;
    let signature = HeaderValue::try_from(signature);
    parts.headers.insert(SIGNED, signature.map_err(|_| Status::internal("a name is too long"))?);
    Ok(Request::from_parts(parts, body))
}

impl Service<Request<Body>> for Signing {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, tonic::transport::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let signer = self.signer.clone().filter(|_| request.uri().path() == RUN);
        // The instance that is ready handles this request.
        let next = self.channel.clone();
        let mut channel = std::mem::replace(&mut self.channel, next);
        let worker = Arc::clone(&self.worker);
        async move {
            let request = match signer {
                Some(signer) => signed(&signer, &worker, request).await,
                None => Ok(request),
            };
            match request {
                Ok(request) => channel.call(request).await,
                Err(status) => Ok(status.into_http()),
            }
        }
        .boxed()
    }
}

/// Channels of one driver, or of one worker.
#[derive(Clone)]
pub(crate) struct Channels {
    tls: Arc<ClientConfig>,
    signer: Option<Signer>,
    open: Arc<Mutex<HashMap<Url, Signing>>>,
}

/// Shows neither keys nor addresses.
impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").finish_non_exhaustive()
    }
}

impl Channels {
    /// Channels of this identity, which signs plans if it is a driver's.
    ///
    /// # Errors
    /// If the identity is invalid.
    pub(crate) fn new(identity: &Identity, signer: Option<Signer>) -> io::Result<Self> {
        Ok(Self { tls: connecting(identity)?, signer, open: Arc::default() })
    }

    /// The channel to a worker, which is connected if it is new.
    pub(super) async fn channel(&self, worker: &Url) -> Result<Signing, NotReached> {
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = open().get(worker) {
            return Ok(channel.clone());
        }
        let channel = self.connected(worker).await?;
        open().insert(worker.clone(), channel.clone());
        Ok(channel)
    }

    async fn connected(&self, worker: &Url) -> Result<Signing, NotReached> {
        let name = worker.username();
        let (Some(host), Some(port), Ok(server)) = (
            worker.host_str(),
            worker.port_or_known_default(),
            ServerName::try_from(name.to_owned()),
        ) else {
            return Err(NotReached("this is not the address of a worker".to_owned()));
        };
        let address = format!("{host}:{port}");
        let reached = |problem: &dyn fmt::Display| {
            NotReached(format!("the worker {name} at {address} is not reached: {problem}"))
        };
        let tls = TlsConnector::from(Arc::clone(&self.tls));
        let to = address.clone();
        let connector = service_fn(move |_: Uri| {
            let (tls, server, to) = (tls.clone(), server.clone(), to.clone());
            async move {
                let plain = TcpStream::connect(to).await?;
                plain.set_nodelay(true)?;
                tls.connect(server, plain).await.map(TokioIo::new)
            }
        });
        // The connector knows where to connect, and encrypts.
        let endpoint = Endpoint::from_shared(format!("http://{name}/"));
        let endpoint = endpoint.map_err(|error| reached(&error))?;
        let endpoint = endpoint
            .connect_timeout(PATIENCE)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .initial_stream_window_size(AHEAD)
            .initial_connection_window_size(AHEAD_OF_ALL)
            .max_frame_size(FRAME);
        let channel = endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|error| reached(&deepest(&error)))?;
        Ok(Signing { channel, worker: name.into(), signer: self.signer.clone() })
    }

    /// The version of a worker.
    ///
    /// # Errors
    /// If it cannot be reached, or has no certificate of the authority for its name.
    pub(crate) async fn version(&self, worker: &Url) -> Result<String, NotReached> {
        let channel = self.channel(worker).await?;
        let mut client = create_worker_client(BoxCloneSyncChannel::new(channel));
        let asked = client.get_worker_info(datafusion_distributed::GetWorkerInfoRequest {});
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(info)) => Ok(info.version),
            Ok(Err(_)) | Err(_) => {
                let name = worker.username();
                Err(NotReached(format!(
                    "the worker {name} does not answer, or is not one of these keys"
                )))
            }
        }
    }
}

/// The cause at the bottom of an error, from the system or TLS.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let cause = cause.to_string();
    match cause.strip_prefix("invalid peer certificate: ") {
        Some(problem) => format!("it does not show the certificate of these keys ({problem})"),
        None => cause,
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let channel = self.channel(url).await;
        let channel = channel.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(create_worker_client(BoxCloneSyncChannel::new(channel)))
    }
}
