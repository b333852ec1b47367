//! The authority of a cluster: it makes the certificates of its driver and of its workers.
//!
//! In: a name. Out: a certificate for it, and its key. The certificate of a worker is valid for
//! both ends of a connection, because workers exchange rows. That of the driver is valid only for
//! clients. Keys are ECDSA on P-256.

use std::fmt;
use std::io;

use chrono::{DateTime, Datelike, Days, NaiveDate, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::SectionKind;

use super::certificate::{Identity, invalid};
use super::signed::Signer;
use super::{DriverKeys, WorkerKeys, pem};

/// The name of the driver's certificate.
pub(super) const DRIVER: &str = "driver";

/// The days for which the certificates of an authority and of its driver are valid.
const DAYS_OF_AUTHORITY: u64 = 3_650;

/// The days for which the certificate of a worker is valid.
const DAYS: u64 = 730;

/// An authority.
pub(crate) struct Authority {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Leaves out the key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn failed(error: rcgen::Error) -> io::Error {
    io::Error::other(format!("no certificate can be made: {error}"))
}

/// The parameters of a certificate for this name. It is valid from yesterday on, because the clock
/// of another machine may be slow.
fn wanted(name: &str, days: u64, now: DateTime<Utc>) -> io::Result<CertificateParams> {
    let wrong =
        || io::Error::other("no certificate can be made: the clock of this machine is wrong");
    let day = |date: NaiveDate| {
        let month = u8::try_from(date.month()).map_err(|_| wrong())?;
        let day = u8::try_from(date.day()).map_err(|_| wrong())?;
        match (2000..9000).contains(&date.year()) {
            // It panics if a time is out of range.
            true => Ok(date_time_ymd(date.year(), month, day)),
            false => Err(wrong()),
        }
    };
    let today = now.date_naive();
    let from = today.checked_sub_days(Days::new(1)).ok_or_else(wrong)?;
    let until = today.checked_add_days(Days::new(days)).ok_or_else(wrong)?;
    let mut wanted = CertificateParams::default();
    wanted.distinguished_name = DistinguishedName::new();
    wanted.distinguished_name.push(DnType::CommonName, name);
    (wanted.not_before, wanted.not_after) = (day(from)?, day(until)?);
    Ok(wanted)
}

/// The parameters of the authority's own certificate.
fn of_authority() -> io::Result<CertificateParams> {
    let mut wanted = wanted("HushQL workers", DAYS_OF_AUTHORITY, Utc::now())?;
    // It signs certificates of drivers and workers, but not of other authorities.
    wanted.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(wanted)
}

impl Authority {
    /// A new authority, with a new key.
    ///
    /// # Errors
    /// If the clock is wrong, or the system provides no random bits.
    pub(crate) fn new() -> io::Result<Self> {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = of_authority()?.self_signed(&key).map_err(failed)?;
        Ok(Self { certificate: certificate.der().to_vec(), key: key.serialize_der() })
    }

    pub(super) fn from_pem(text: &[u8]) -> io::Result<Self> {
        match pem::sections(text)?.as_slice() {
            [(SectionKind::Certificate, certificate), (SectionKind::PrivateKey, key)] => {
                Ok(Self { certificate: certificate.clone(), key: key.clone() })
            }
            _ => Err(invalid("this is not the file of an authority")),
        }
    }

    pub(super) fn pem(&self) -> String {
        pem::text(pem::CERTIFICATE, &self.certificate) + &pem::text(pem::PRIVATE_KEY, &self.key)
    }

    /// A driver of this authority, with a new key for plans.
    ///
    /// # Errors
    /// As [`Authority::new`].
    pub(crate) fn driver(&self) -> io::Result<DriverKeys> {
        let wanted = wanted(DRIVER, DAYS_OF_AUTHORITY, Utc::now())?;
        let identity = self.signed(wanted, DRIVER, &[ExtendedKeyUsagePurpose::ClientAuth])?;
        Ok(DriverKeys { identity, plans: Signer::new()? })
    }

    /// A worker of this authority, which knows the key for plans of this driver.
    ///
    /// # Errors
    /// As [`Authority::new`].
    pub(crate) fn worker(&self, name: &str, driver: &Signer) -> io::Result<WorkerKeys> {
        self.worker_from(name, driver, Utc::now())
    }

    /// The same, valid from this time on.
    pub(crate) fn worker_from(
        &self,
        name: &str,
        driver: &Signer,
        now: DateTime<Utc>,
    ) -> io::Result<WorkerKeys> {
        let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let identity = self.signed(wanted(name, DAYS, now)?, name, &usages)?;
        Ok(WorkerKeys { identity, driver: driver.public().to_vec() })
    }

    fn signed(
        &self,
        mut wanted: CertificateParams,
        name: &str,
        usages: &[ExtendedKeyUsagePurpose],
    ) -> io::Result<Identity> {
        let own = PrivatePkcs8KeyDer::from(self.key.as_slice());
        let own = KeyPair::from_pkcs8_der_and_sign_algo(&own, &PKCS_ECDSA_P256_SHA256);
        let issuer = Issuer::new(of_authority()?, own.map_err(failed)?);
        let names = CertificateParams::new([name.to_owned()]).map_err(failed)?;
        wanted.subject_alt_names = names.subject_alt_names;
        wanted.is_ca = IsCa::ExplicitNoCa;
        wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        wanted.extended_key_usages = usages.to_vec();
        wanted.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = wanted.signed_by(&key, &issuer).map_err(failed)?;
        Ok(Identity {
            certificate: certificate.der().to_vec(),
            key: key.serialize_der(),
            authority: self.certificate.clone(),
        })
    }
}
