//! TLS to a server, which must show a certificate for its name.
//!
//! In: the root certificates of the system, or those of `PGSSLROOTCERT`. Out: the connector that
//! the client begins a connection with.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::client::TlsStream as Stream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{Connect, TlsConnector};

/// Begins connections to servers that show a certificate for their name.
#[derive(Clone)]
pub(super) struct VerifiedTls(TlsConnector);

impl VerifiedTls {
    /// A connector with the root certificates of the system, or of the file that `PGSSLROOTCERT`
    /// names.
    ///
    /// # Errors
    /// If there are no root certificates.
    pub(super) fn new() -> io::Result<Self> {
        let other = |_| io::Error::from(io::ErrorKind::InvalidData);
        let mut roots = RootCertStore::empty();
        let found = match std::env::var_os("PGSSLROOTCERT").filter(|path| path != "system") {
            Some(path) => rustls_native_certs::load_certs_from_paths(Some(path.as_ref()), None),
            None => rustls_native_certs::load_native_certs(),
        };
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for VerifiedTls {
    type Stream = Encrypted<S>;
    type TlsConnect = NamedTls;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<NamedTls> {
        let name = ServerName::try_from(domain.to_owned());
        let name = name.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(NamedTls { connector: self.0.clone(), name })
    }
}

/// Begins a connection to the server with this name.
pub(super) struct NamedTls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for NamedTls {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Handshake<S>;

    fn connect(self, stream: S) -> Handshake<S> {
        Handshake(self.connector.connect(self.name, stream))
    }
}

/// A connection during its handshake.
pub(super) struct Handshake<S>(Connect<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Handshake<S> {
    type Output = io::Result<Encrypted<S>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_ok(Encrypted)
    }
}

/// An encrypted connection.
pub(super) struct Encrypted<S>(Stream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
