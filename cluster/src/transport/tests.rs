//! Connections and requests that a worker must refuse.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::Request;
use http_body::Frame;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Code;
use tonic::body::Body;
use tower::Service;
use url::Url;

use super::channels::signed;
use super::{Channels, ROWS, RUN, VERSION, now};
use crate::Listening;
use crate::identity::signed::SIGNED;
use crate::identity::{Authority, DriverKeys, Identity, Signer, WorkerKeys};

const OPTION: &str = "x-datafusion-distributed-config-hushql.key";

struct Stage {
    authority: Authority,
    driver: DriverKeys,
}

impl Stage {
    fn new() -> Self {
        let authority = Authority::new().unwrap();
        let driver = authority.driver().unwrap();
        Self { authority, driver }
    }

    fn keys(&self, name: &str) -> WorkerKeys {
        self.authority.worker(name, &self.driver.plans).unwrap()
    }

    /// A worker that listens, and its address with its name.
    async fn worker(&self, name: &str) -> Url {
        let address = listening(self.keys(name)).await;
        Url::parse(&format!("https://{name}@{address}/")).unwrap()
    }

    fn channels(&self) -> Channels {
        Channels::new(&self.driver.identity, Some(self.driver.plans.clone())).unwrap()
    }
}

async fn listening(keys: WorkerKeys) -> SocketAddr {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let worker = Listening::new(any, keys, &hushql::Resources::default()).await.unwrap();
    let address = worker.address().unwrap();
    tokio::spawn(worker.serve());
    address
}

/// A request of one message.
fn request(path: &str, message: &[u8]) -> Request<Body> {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.put_slice(message);
    let uri = format!("http://w1{path}");
    let request =
        Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
    request.header(OPTION, "00").body(Body::new(Whole(Some(framed.freeze())))).unwrap()
}

struct Whole(Option<Bytes>);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<io::Result<Frame<Bytes>>>> {
        std::task::Poll::Ready(self.0.take().map(|whole| Ok(Frame::data(whole))))
    }
}

/// The response of a worker to a request, which is sent unchanged.
async fn answered(channels: &Channels, worker: &Url, request: Request<Body>) -> Code {
    let mut channel = channels.channel(worker).await.unwrap().channel;
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let response = channel.call(request).await.unwrap();
    let code = response.headers().get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
    code.map_or(Code::Ok, |code| Code::from_i32(code.parse().unwrap()))
}

async fn signed_by(signer: &Signer, worker: &str, message: &[u8]) -> Request<Body> {
    signed(signer, worker, request(RUN, message)).await.unwrap()
}

/// The same headers with another message.
fn over(request: &Request<Body>, message: &[u8]) -> Request<Body> {
    let mut other = self::request(RUN, message);
    *other.headers_mut() = request.headers().clone();
    other
}

/// The gate admits this, and the service responds that it has no plan.
const PASSED: Code = Code::InvalidArgument;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_runs_what_its_driver_signed_for_it_once() {
    let (stage, foreign) = (Stage::new(), Stage::new());
    let (w1, w2) = (stage.worker("w1").await, stage.worker("w2").await);
    let (driver, plans) = (stage.channels(), &stage.driver.plans);
    let refused = Code::PermissionDenied;

    let plan = signed_by(plans, "w1", b"").await;
    let (replayed, elsewhere) = (over(&plan, b""), over(&plan, b""));
    assert_eq!(answered(&driver, &w2, elsewhere).await, refused, "for another worker");
    assert_eq!(answered(&driver, &w1, over(&plan, b"x")).await, refused, "changed");
    let mut other_key = over(&plan, b"");
    other_key.headers_mut().insert(OPTION, "01".parse().unwrap());
    assert_eq!(answered(&driver, &w1, other_key).await, refused, "another key of the bounds");
    assert_eq!(answered(&driver, &w1, plan).await, PASSED, "signed");
    assert_eq!(answered(&driver, &w1, replayed).await, refused, "replayed");

    assert_eq!(answered(&driver, &w1, request(RUN, b"")).await, refused, "unsigned");
    let by_another = signed_by(&foreign.driver.plans, "w1", b"").await;
    assert_eq!(answered(&driver, &w1, by_another).await, refused, "signed with another key");
    let mut expired = request(RUN, b"");
    let signature = plans.signature("w1", now() - 301, expired.headers(), b"").unwrap();
    expired.headers_mut().insert(SIGNED, signature.parse().unwrap());
    assert_eq!(answered(&driver, &w1, expired).await, refused, "expired");

    // A message that is truncated or compressed is refused.
    for bytes in [&b"\0\0\0\0\x09x"[..], b"\x01\0\0\0\0"] {
        let mut cut = request(RUN, b"");
        *cut.body_mut() = Body::new(Whole(Some(Bytes::copy_from_slice(bytes))));
        assert_eq!(answered(&driver, &w1, cut).await, Code::InvalidArgument);
    }
}

/// A worker of the same authority may ask for rows, but cannot send a plan. Neither can a client
/// with the driver's certificate but without the driver's key for plans.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_not_enough_to_have_a_plan_run() {
    let stage = Stage::new();
    let w1 = stage.worker("w1").await;
    let w2 = Channels::new(&stage.keys("w2").identity, None).unwrap();
    let unsigning = Channels::new(&stage.driver.identity, None).unwrap();
    for channels in [&w2, &unsigning] {
        assert_eq!(channels.version(&w1).await.unwrap(), crate::VERSION);
        // The service reads a request for rows, and finds no task in it.
        assert_eq!(answered(channels, &w1, request(ROWS, b"")).await, PASSED);
        assert_eq!(answered(channels, &w1, request(VERSION, b"")).await, Code::Ok);
        assert_eq!(answered(channels, &w1, request(RUN, b"")).await, Code::PermissionDenied);
        for path in ["/worker.WorkerService/Other", "/worker.WorkerService/", "/other/Method"] {
            assert_eq!(answered(channels, &w1, request(path, b"")).await, Code::Unimplemented);
        }
    }
}

/// A client with a certificate of another authority reaches nothing, on either end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_without_a_certificate_of_the_authority_reaches_a_worker() {
    let (stage, foreign) = (Stage::new(), Stage::new());
    let w1 = stage.worker("w1").await;
    assert!(stage.channels().version(&w1).await.is_ok());
    // A foreign driver does not trust the worker.
    let error = foreign.channels().version(&w1).await.unwrap_err().to_string();
    assert!(
        error.contains("the worker w1 at 127.0.0.1:")
            && error.contains("does not show the certificate"),
        "{error}"
    );
    // Even if it did, the worker would not trust it.
    let authority = stage.driver.identity.with_authority_of(&foreign.driver.identity);
    let error = Channels::new(&authority, None).unwrap().version(&w1).await.unwrap_err();
    assert!(error.to_string().contains("worker w1"), "{error}");
    // An expired certificate does not help either.
    let long_ago = chrono::DateTime::from_timestamp(1_600_000_000, 0).unwrap();
    let old = stage.authority.worker_from("w3", &stage.driver.plans, long_ago).unwrap();
    assert!(Channels::new(&old.identity, None).unwrap().version(&w1).await.is_err());
}

/// The certificate of one worker is not valid for another, and a driver's is not valid for any
/// worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_who_its_certificate_says() {
    let stage = Stage::new();
    let w1 = stage.worker("w1").await;
    let as_w2 = Url::parse(&w1.as_str().replace("w1@", "w2@")).unwrap();
    let error = stage.channels().version(&as_w2).await.unwrap_err().to_string();
    assert!(error.contains("the worker w2") && error.contains("not valid for name"), "{error}");
    let keys = WorkerKeys { identity: stage.driver.identity.clone(), ..stage.keys("w1") };
    let address = listening(keys).await;
    let posing = Url::parse(&format!("https://driver@{address}/")).unwrap();
    assert!(stage.channels().version(&posing).await.is_err());
}

/// Whether a worker speaks with a client of this TLS version, which trusts the authority of an
/// identity and may show its certificate.
async fn speaks(
    identity: &Identity,
    shows: bool,
    worker: &Url,
    version: &'static rustls::SupportedProtocolVersion,
) -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(identity.authority_der().to_vec())).unwrap();
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
    let config = config.unwrap().with_root_certificates(roots);
    let (chain, key) = identity.shown();
    let mut config = match shows {
        true => config.with_client_auth_cert(chain, key).unwrap(),
        false => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let plain = TcpStream::connect(("127.0.0.1", worker.port().unwrap())).await.unwrap();
    let name = ServerName::try_from("w1").unwrap();
    let Ok(mut tls) = TlsConnector::from(Arc::new(config)).connect(name, plain).await else {
        return false;
    };
    let _ = tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    matches!(tls.read(&mut [0; 9]).await, Ok(read) if read > 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_answers_no_client_without_tls_or_a_certificate() {
    let stage = Stage::new();
    let w1 = stage.worker("w1").await;
    for (shows, version, speaks) in [
        (true, &TLS13, true),
        (true, &TLS12, false),
        (false, &TLS13, false),
        (false, &TLS12, false),
    ] {
        let spoken = self::speaks(&stage.driver.identity, shows, &w1, version).await;
        assert_eq!(spoken, speaks, "{shows} {version:?}");
    }
    let mut plain = TcpStream::connect(("127.0.0.1", w1.port().unwrap())).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    // At most a TLS alert.
    assert!(answer.len() <= 7 && answer.first().is_none_or(|first| *first == 0x15), "{answer:?}");
    // It still serves other clients.
    assert!(stage.channels().version(&w1).await.is_ok());
}
