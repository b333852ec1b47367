//! How a worker accepts connections: TLS first, then tonic.
//!
//! In: a listener, and a service. Out: the service, for clients whose certificate the authority
//! signed. A connection that does not show one in time ends, and does not delay others.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream;
use http::{Request, Response};
use rustls::ServerConfig;
use std::convert::Infallible;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tower::Service;

use super::{AHEAD, AHEAD_OF_ALL, FRAME, Gate};

/// How long a connection may take to show its certificate.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most connections that have not shown a certificate yet.
const BEGINNING: usize = 64;

/// How often a client is probed, and how long it may take to respond.
const ALIVE: Duration = Duration::from_secs(20);

/// A connection whose client has shown a certificate.
struct Secured(TlsStream<TcpStream>);

impl Connected for Secured {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Accepts connections, and passes on those that show a certificate.
async fn accept(listener: TcpListener, tls: TlsAcceptor, secured: mpsc::Sender<Secured>) {
    let beginning = Arc::new(Semaphore::new(BEGINNING));
    while let Ok(permit) = Arc::clone(&beginning).acquire_owned().await {
        let Ok((plain, _)) = listener.accept().await else {
            // There are too many open files, or the client has gone.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (tls, secured) = (tls.clone(), secured.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let _ = plain.set_nodelay(true);
            if let Ok(Ok(connection)) = tokio::time::timeout(PATIENCE, tls.accept(plain)).await {
                let _ = secured.send(Secured(connection)).await;
            }
        });
    }
}

/// Serves until the future is dropped.
///
/// # Errors
/// If tonic ends.
pub(crate) async fn serve<S>(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    service: Gate<S>,
) -> io::Result<()>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    let (secured, connections) = mpsc::channel(16);
    let incoming = stream::unfold(connections, |mut connections| async move {
        let connection = connections.recv().await?;
        Some((Ok::<Secured, io::Error>(connection), connections))
    });
    let server = Server::builder()
        .http2_keepalive_interval(Some(ALIVE))
        .http2_keepalive_timeout(Some(ALIVE))
        .max_frame_size(FRAME)
        .initial_stream_window_size(AHEAD)
        .initial_connection_window_size(AHEAD_OF_ALL)
        .add_service(service);
    tokio::select! {
        served = server.serve_with_incoming(incoming) => served.map_err(io::Error::other),
        () = accept(listener, tls.into(), secured) => Ok(()),
    }
}
