//! TLS, and the channel binding of log-ins: the hash of the server's certificate (RFC 5929,
//! `tls-server-end-point`).
//!
//! In: a certificate and its key, in PEM. Out: connections of rustls, with TLS 1.2 or 1.3.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// The certificate of a server, and its configuration of TLS.
#[derive(Debug)]
pub(super) struct Tls {
    config: Arc<ServerConfig>,
    /// The hash of the certificate; `None` if its signature algorithm names no hash.
    pub(super) certificate: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the certificate, followed by its chain of issuers, and its key.
    ///
    /// # Errors
    /// A sentence, if files cannot be read or do not belong together.
    pub(super) fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let of = |path: &Path, error: rustls::pki_types::pem::Error| {
            format!("{}: {error}", path.display())
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| of(certificate, error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, error))?;
        Self::of(chain, private).map_err(|error| format!("{}: {error}", certificate.display()))
    }

    /// Uses these certificates and this key.
    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let certificate = chain.first().and_then(|certificate| hash(certificate));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // Clients that begin directly with TLS name the protocol.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { config: Arc::new(config), certificate })
    }

    /// The same certificate, for HTTP.
    #[cfg(any(feature = "console", feature = "mcp"))]
    pub(super) fn for_http(&self) -> Arc<ServerConfig> {
        let mut config = self.config.as_ref().clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// Begins a connection.
    pub(super) fn begin(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)
    }
}

/// The hash of a certificate by the algorithm of its signature, or by SHA-256 if that algorithm is
/// weaker.
fn hash(certificate: &[u8]) -> Option<Vec<u8>> {
    let (body, _) = element(certificate)?;
    let (_, rest) = element(body)?;
    let (algorithm, _) = element(rest)?;
    let (identifier, _) = element(algorithm)?;
    // 1.2.840.113549.1.1.n is RSA with a hash, 1.2.840.10045.4.3.n is ECDSA with one.
    let rsa = identifier.strip_prefix(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01]);
    let ecdsa = identifier.strip_prefix(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03]);
    match (rsa, ecdsa) {
        (Some([4 | 5 | 11]), _) | (_, Some([2])) => Some(Sha256::digest(certificate).to_vec()),
        (Some([12]), _) | (_, Some([3])) => Some(Sha384::digest(certificate).to_vec()),
        (Some([13]), _) | (_, Some([4])) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The contents of the first element of DER, and the bytes after it.
pub(super) fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.get(1)?.to_owned().checked_sub(0x80).map_or_else(
        || Some((usize::from(*der.get(1)?), der.get(2..)?)),
        |count| {
            let count = usize::from(count).min(4);
            let length = der.get(2..2 + count)?;
            let length = length.iter().fold(0_usize, |all, byte| (all << 8) | usize::from(*byte));
            Some((length, der.get(2 + count..)?))
        },
    )?;
    rest.split_at_checked(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_names_the_hash() {
        let sequence = |contents: &[u8]| {
            let mut der = vec![0x30, u8::try_from(contents.len()).unwrap()];
            der.extend_from_slice(contents);
            der
        };
        let certificate = |identifier: &[u8]| {
            let identifier = [&[6, u8::try_from(identifier.len()).unwrap()], identifier].concat();
            sequence(&[sequence(b"tbs"), sequence(&identifier)].concat())
        };
        let ecdsa = |n| certificate(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, n]);
        let length = |certificate: &[u8]| hash(certificate).map(|hash| hash.len());
        assert_eq!(length(&ecdsa(2)), Some(32));
        assert_eq!(length(&ecdsa(3)), Some(48));
        assert_eq!(length(&ecdsa(4)), Some(64));
        let rsa = certificate(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 11]);
        assert_eq!(hash(&rsa), Some(Sha256::digest(&rsa).to_vec()));
        // Ed25519 has no hash of its own.
        assert_eq!(hash(&certificate(&[0x2b, 0x65, 0x70])), None);
        for short in [&b""[..], b"0", b"0\x84", b"0\xff\xff\xff\xff\xff", b"0\x05abc"] {
            assert_eq!(hash(short), None);
        }
    }
}
