//! TLS between a driver and workers, and between workers: version 1.3, with certificates on both
//! ends.
//!
//! In: an [`Identity`]. Out: configurations of rustls that trust only the authority of the
//! identity.

use std::io;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::certificate::Identity;

/// The protocol inside TLS, which both ends name.
const H2: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl Identity {
    fn roots(&self) -> io::Result<Arc<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from(self.authority.clone());
        roots.add(authority).map_err(io::Error::other)?;
        Ok(Arc::new(roots))
    }

    pub(crate) fn shown(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        (vec![CertificateDer::from(self.certificate.clone())], PrivateKeyDer::from(key))
    }
}

#[cfg(test)]
impl Identity {
    /// The certificate of the authority.
    pub(crate) fn authority_der(&self) -> &[u8] {
        &self.authority
    }

    /// Another certificate, for a peer that trusts this authority.
    pub(crate) fn with_authority_of(&self, other: &Self) -> Self {
        Self { authority: self.authority.clone(), ..other.clone() }
    }
}

/// How a worker accepts connections.
///
/// # Guarantee
/// Every accepted connection is encrypted, and its client has a key that the authority signed.
///
/// # Errors
/// If the identity is invalid.
pub(crate) fn accepting(identity: &Identity) -> io::Result<Arc<ServerConfig>> {
    let clients = WebPkiClientVerifier::builder_with_provider(identity.roots()?, provider());
    let clients = clients.build().map_err(io::Error::other)?;
    let (chain, key) = identity.shown();
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![H2.to_vec()];
    // Each connection has to show its certificate again.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// How a driver or a worker connects to workers.
///
/// # Guarantee
/// Every connection is encrypted, and its server has a key that the authority signed for the
/// requested name.
///
/// # Errors
/// If the identity is invalid.
pub(crate) fn connecting(identity: &Identity) -> io::Result<Arc<ClientConfig>> {
    let (chain, key) = identity.shown();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(identity.roots()?)
        .with_client_auth_cert(chain, key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![H2.to_vec()];
    Ok(Arc::new(config))
}

/// Whether this is the name in the certificate of an identity.
pub(crate) fn is_named(identity: &Identity, name: &str) -> bool {
    let certificate = CertificateDer::from(identity.certificate.as_slice());
    let (Ok(certificate), Ok(name)) =
        (ParsedCertificate::try_from(&certificate), ServerName::try_from(name))
    else {
        return false;
    };
    verify_server_name(&certificate, &name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Authority;

    #[test]
    fn a_certificate_has_one_name() {
        let authority = Authority::new().unwrap();
        let driver = authority.driver().unwrap();
        let worker = authority.worker("w1", &driver.plans).unwrap();
        assert!(is_named(&worker.identity, "w1"));
        for other in ["w2", "w", "w11", "driver", "", "w1.example", "127.0.0.1"] {
            assert!(!is_named(&worker.identity, other), "{other}");
        }
        assert!(accepting(&worker.identity).is_ok() && connecting(&driver.identity).is_ok());
    }
}
