//! The protocol over HTTP, beside the server: each request carries the token of a role.
//!
//! In: an address, TLS and limits. Out: an endpoint that answers POST. No session is kept. A
//! browser is refused, because it names its origin. Without a valid token nothing reads a table,
//! and every wrong token gets the same answer.
//!
//! ```text
//! POST / · Authorization: Bearer lab.1798761600.5c1f…   ─▶ role lab ─▶ agent
//! anything else                                         ─▶ 401
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hushql::{Engine, Error, Session};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::agent::{Agent, Asks, OfToken};
use super::limits::AgentLimits;
use super::recorder::Recorder;

/// The time for the head of a request, and for the beginning of TLS.
const TIME: Duration = Duration::from_secs(10);

/// The pause when the system has no resources for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest request.
const LONGEST: usize = 1 << 20;

/// Where the endpoint listens, and its limits.
pub(crate) struct Endpoint {
    /// The address.
    pub(crate) address: SocketAddr,
    /// TLS, without which other machines are refused.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// What each role may spend.
    pub(crate) limits: AgentLimits,
    /// The most connections.
    pub(crate) connections: usize,
    /// The most requests of one role at the same time.
    pub(crate) of_a_role: usize,
    /// The audit log.
    pub(crate) record: Option<Recorder>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

type Service = StreamableHttpService<Agent, NeverSessionManager>;
type Body = BoxBody<Bytes, Infallible>;

/// What all connections share.
struct Shared {
    engine: Engine,
    service: Service,
    of_a_role: usize,
    places: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Begins to listen, and serves in the background as long as the program runs. Returns the bound
/// address.
///
/// # Errors
/// A sentence, if the address cannot be used, or other machines could reach it without TLS.
pub(crate) async fn serve(engine: Engine, endpoint: Endpoint) -> Result<SocketAddr, String> {
    let Endpoint { address, tls, limits, connections, of_a_role, record } = endpoint;
    if !address.ip().is_loopback() && tls.is_none() {
        return Err(format!(
            "{address} can be reached from other machines, and a token is a password: add --tls-cert FILE --tls-key FILE, or --tls-self-made for trying, or listen on 127.0.0.1"
        ));
    }
    let listener =
        TcpListener::bind(address).await.map_err(|error| format!("{address}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let agent = Agent::new(Asks::ByToken, limits).recorded_by(record);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(LONGEST)
        .with_cancellation_token(CancellationToken::new())
        .enforce_origin_validation();
    // On a loopback address, a name that a browser was led to must not reach the endpoint. On
    // others, nobody knows the names of the machine, and the token decides.
    let config = match address.ip().is_loopback() {
        true => config,
        false => config.disable_allowed_hosts(),
    };
    let service = Service::new(move || Ok(agent.clone()), Arc::default(), config);
    let shared = Arc::new(Shared { engine, service, of_a_role, places: Mutex::default() });
    let tls = tls.map(TlsAcceptor::from);
    tokio::spawn(accept(listener, tls, connections, shared));
    Ok(address)
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    connections: usize,
    shared: Arc<Shared>,
) {
    let places = Arc::new(Semaphore::new(connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        tokio::spawn(connection(socket, tls.clone(), Arc::clone(&shared), place));
    }
}

/// Serves one connection. What is wrong with it concerns nobody else.
async fn connection(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
) {
    let answering = service_fn(move |request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
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

async fn answer(mut request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
    // The header is of no use to anybody behind this line.
    request.headers_mut().remove(AUTHORIZATION);
    let Some(token) = token else { return unknown() };
    let session = match shared.engine.session_of_token(&token) {
        Ok(analyst) => Session::from(analyst),
        Err(Error::LogIn) => return unknown(),
        Err(_) => {
            return told(StatusCode::SERVICE_UNAVAILABLE, "the vault cannot be read");
        }
    };
    let role = token.rsplitn(3, '.').last().unwrap_or_default().to_owned();
    let place = {
        let mut places = shared.places.lock().unwrap_or_else(PoisonError::into_inner);
        let of_role = places
            .entry(role.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(shared.of_a_role)));
        Arc::clone(of_role).try_acquire_owned()
    };
    let Ok(_place) = place else {
        return told(StatusCode::TOO_MANY_REQUESTS, "this role has too many requests at once");
    };
    request.extensions_mut().insert(OfToken { session, role });
    shared.service.handle(request).await
}

fn unknown() -> Response<Body> {
    let mut response = told(
        StatusCode::UNAUTHORIZED,
        "a role's token is needed: Authorization: Bearer TOKEN, which the owner makes by: hushql token VAULT ROLE",
    );
    let scheme = http::HeaderValue::from_static("Bearer");
    response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    response
}

fn told(status: StatusCode, sentence: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from_static(sentence.as_bytes())).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
