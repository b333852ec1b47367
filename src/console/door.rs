//! The listener: connections, TLS, and one request after the other.
//!
//! In: an address. Out: requests with the address of their client. A slow client has ten seconds
//! for the head of a request.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use super::routes;
use super::state::Console;

/// The time for the head of a request, and for the beginning of TLS.
const TIME: Duration = Duration::from_secs(10);

/// The pause when the system has no resources for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections as long as the program runs.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    connections: usize,
    console: Arc<Console>,
) {
    let places = Arc::new(Semaphore::new(connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((socket, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (tls, console) = (tls.clone(), Arc::clone(&console));
        tokio::spawn(connection(socket, from, tls, console, place));
    }
}

/// Serves one connection. What is wrong with it concerns nobody else.
async fn connection(
    socket: TcpStream,
    from: SocketAddr,
    tls: Option<TlsAcceptor>,
    console: Arc<Console>,
    _place: OwnedSemaphorePermit,
) {
    let from: IpAddr = from.ip();
    let answering = service_fn(move |request: Request<Incoming>| {
        let console = Arc::clone(&console);
        async move { Ok::<_, Infallible>(routes::answer(request, &console, from).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(TIME).max_buf_size(64 << 10);
    let _ = match tls {
        None => server.serve_connection(TokioIo::new(socket), answering).await,
        Some(tls) => match tokio::time::timeout(TIME, tls.accept(socket)).await {
            Ok(Ok(secured)) => server.serve_connection(TokioIo::new(secured), answering).await,
            Ok(Err(_)) | Err(_) => Ok(()),
        },
    };
}
