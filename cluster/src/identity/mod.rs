//! The identities of drivers and workers: certificates of one authority, which the owner of the
//! vault keeps, and the key with which a driver signs plans.
//!
//! In: a folder of the owner, and names of workers. Out: a file for each worker and one for the
//! driver, in PEM. A worker talks only to peers with a certificate of its authority, and runs only
//! plans that the driver signed.
//!
//! ```text
//! authority.pem   certificate, key                                stays with the owner: it makes the others
//! driver.pem      certificate, key, authority, key for plans      where the vault is
//! w1.pem          certificate, key, authority, driver's public key      goes to the machine of the worker w1
//! ```

mod authority;
mod certificate;
mod enrol;
mod pem;
pub(crate) mod signed;
mod tls;

pub use enrol::{Enrolled, enrol};

pub(crate) use authority::Authority;
pub(crate) use certificate::Identity;
pub(crate) use enrol::drivers;
pub(crate) use signed::{Checker, Signer};
pub(crate) use tls::{accepting, connecting};

use std::io;
use std::path::Path;

use rustls::pki_types::pem::SectionKind;

use certificate::invalid;

/// The keys of the driver.
#[derive(Debug, Clone)]
pub(crate) struct DriverKeys {
    pub(crate) identity: Identity,
    pub(crate) plans: Signer,
}

/// The keys of a worker: a certificate, and the driver's public key.
#[derive(Debug, Clone)]
pub struct WorkerKeys {
    pub(crate) identity: Identity,
    pub(crate) driver: Vec<u8>,
}

impl DriverKeys {
    fn from_pem(text: &[u8]) -> io::Result<Self> {
        match pem::sections(text)?.as_slice() {
            [
                (SectionKind::Certificate, certificate),
                (SectionKind::PrivateKey, key),
                (SectionKind::Certificate, authority),
                (SectionKind::PrivateKey, plans),
            ] => {
                let [certificate, key, authority] = [certificate, key, authority].map(Clone::clone);
                let identity = Identity { certificate, key, authority };
                Ok(Self { identity, plans: Signer::from_pkcs8(plans)? })
            }
            _ => Err(invalid("this is not the file of a driver")),
        }
    }

    fn pem(&self) -> String {
        let Identity { certificate, key, authority } = &self.identity;
        [
            pem::text(pem::CERTIFICATE, certificate),
            pem::text(pem::PRIVATE_KEY, key),
            pem::text(pem::CERTIFICATE, authority),
            pem::text(pem::PRIVATE_KEY, self.plans.pkcs8()),
        ]
        .concat()
    }
}

impl WorkerKeys {
    /// Reads the file that `hushql-worker enrol` wrote for a worker.
    ///
    /// # Errors
    /// If it cannot be read, if other users may read it, or if it has the wrong contents.
    pub fn read(file: &Path) -> io::Result<Self> {
        Self::from_pem(&pem::read_secret(file)?)
    }

    /// The keys in the text of such a file.
    ///
    /// # Errors
    /// For any other text.
    pub fn from_pem(text: &[u8]) -> io::Result<Self> {
        match pem::sections(text)?.as_slice() {
            [
                (SectionKind::Certificate, certificate),
                (SectionKind::PrivateKey, key),
                (SectionKind::Certificate, authority),
                (SectionKind::PublicKey, driver),
            ] => {
                let [certificate, key, authority] = [certificate, key, authority].map(Clone::clone);
                let driver = signed::public_key(driver)?;
                Ok(Self { identity: Identity { certificate, key, authority }, driver })
            }
            _ => Err(invalid("this is not the file of a worker")),
        }
    }

    pub(crate) fn pem(&self) -> String {
        let Identity { certificate, key, authority } = &self.identity;
        [
            pem::text(pem::CERTIFICATE, certificate),
            pem::text(pem::PRIVATE_KEY, key),
            pem::text(pem::CERTIFICATE, authority),
            pem::text(pem::PUBLIC_KEY, &signed::public_key_info(&self.driver)),
        ]
        .concat()
    }
}
