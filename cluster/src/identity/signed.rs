//! Plans that a driver signed for one task of one worker.
//!
//! In: the bytes of the first message of a request that makes a worker run a plan, and the headers
//! of the request. Out: one more header, with an Ed25519 signature. The message holds the plan, the
//! query, the stage, the task and the number of tasks. The signature also covers the name of the
//! worker, an expiry time, and random bits, so that a signed plan runs only once, on that worker,
//! and soon.
//!
//! ```text
//! hushql-signed: w1 1764187200 6f0a… (16 bytes) 9c41… (64 bytes)
//! ```

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use hushql::sampler::QueryRng;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::certificate::{Identity, invalid};
use super::tls::is_named;

/// The header with the signature.
pub(crate) const SIGNED: &str = "hushql-signed";

/// The prefix of the headers that the signature covers: the options of the session and the key of
/// the bounds.
const OPTIONS: &str = "x-datafusion-distributed-config-";

/// The beginning of the signed bytes. A signature for another purpose has another beginning.
const PURPOSE: &[u8] = b"HushQL: a plan for one task of one worker, 1";

/// The seconds for which a signature is valid. Clocks may differ by as much.
const SECONDS: u64 = 300;

/// The bytes of DER before the 32 bytes of a public key. They identify Ed25519.
const PUBLIC_KEY: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A public key in the form for PEM.
pub(super) fn public_key_info(key: &[u8]) -> Vec<u8> {
    [&PUBLIC_KEY[..], key].concat()
}

/// The bytes of a public key.
pub(super) fn public_key(info: &[u8]) -> io::Result<Vec<u8>> {
    match info.strip_prefix(&PUBLIC_KEY) {
        Some(key) if key.len() == 32 => Ok(key.to_vec()),
        Some(_) | None => Err(invalid("this is not the public key of a driver")),
    }
}

/// The key with which a driver signs plans.
#[derive(Clone)]
pub(crate) struct Signer {
    key: Arc<Ed25519KeyPair>,
    pkcs8: Arc<[u8]>,
}

/// Leaves out the key.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

/// The bytes that a signature covers.
fn covered(worker: &str, until: u64, nonce: &[u8], headers: &HeaderMap, message: &[u8]) -> Vec<u8> {
    let options = headers.iter().filter(|(name, _)| name.as_str().starts_with(OPTIONS));
    let mut options: Vec<(&[u8], &[u8])> =
        options.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect();
    options.sort_unstable();
    let mut covered = PURPOSE.to_vec();
    covered.extend(until.to_be_bytes());
    // The length of each part precedes it, so that no two requests have the same bytes.
    let mut add = |part: &[u8]| {
        covered.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        covered.extend_from_slice(part);
    };
    add(worker.as_bytes());
    add(nonce);
    add(message);
    for (name, value) in options {
        add(name);
        add(value);
    }
    covered
}

impl Signer {
    pub(super) fn new() -> io::Result<Self> {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        Self::from_pkcs8(key.map_err(|_| io::Error::other("there are no random bits"))?.as_ref())
    }

    pub(super) fn from_pkcs8(pkcs8: &[u8]) -> io::Result<Self> {
        let key = Ed25519KeyPair::from_pkcs8(pkcs8);
        let key = key.map_err(|_| invalid("this is not a key for plans"))?;
        Ok(Self { key: Arc::new(key), pkcs8: pkcs8.into() })
    }

    pub(super) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    pub(super) fn public(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// The signature of a message with these headers for a worker, made at a time in seconds, as
    /// the text of a header.
    ///
    /// # Errors
    /// If the system provides no random bits.
    pub(crate) fn signature(
        &self,
        worker: &str,
        now: u64,
        headers: &HeaderMap,
        message: &[u8],
    ) -> io::Result<String> {
        let nonce = QueryRng::nonce().map_err(io::Error::other)?;
        let until = now.saturating_add(SECONDS);
        let signature = self.key.sign(&covered(worker, until, &nonce, headers, message));
        Ok(format!("{worker} {until} {} {}", digits(&nonce), digits(signature.as_ref())))
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str, length: usize) -> Option<Vec<u8>> {
    let is_right = digits.len() == 2 * length
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    is_right.then(|| (0..digits.len()).step_by(2).map(pair).collect()).flatten()
}

/// Why a worker does not run a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotSigned {
    /// The signature is missing, or has another form.
    Missing,
    /// It was made for another worker.
    ForAnother,
    /// It has expired, or its time has not come.
    Expired,
    /// It does not match the plan, or was made with another key.
    Wrong,
    /// It was used before.
    Used,
}

impl fmt::Display for NotSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "a worker runs what its driver signed, and this is not signed",
            Self::ForAnother => "this plan was signed for another worker",
            Self::Expired => "the signature of this plan has expired, or a clock is wrong",
            Self::Wrong => "the signature of this plan is wrong",
            Self::Used => "this plan was run before",
        })
    }
}

/// Checks the signatures of a worker's driver.
#[derive(Debug)]
pub(crate) struct Checker {
    identity: Identity,
    driver: Vec<u8>,
    /// The random bits of used signatures, with their expiry times.
    used: Mutex<HashMap<Vec<u8>, u64>>,
}

impl Checker {
    /// Checks signatures for a worker of this identity by the driver with this public key.
    pub(crate) fn new(identity: Identity, driver: Vec<u8>) -> Self {
        Self { identity, driver, used: Mutex::default() }
    }

    /// Checks the message of a request, at a time in seconds.
    ///
    /// # Guarantee
    /// If it accepts a message, the driver signed the message and the options in the headers for
    /// this worker, at most five minutes ago by the driver's clock, which may be five minutes
    /// ahead. It accepts each signature once.
    ///
    /// # Errors
    /// The reason why the worker must not run the plan.
    pub(crate) fn check(
        &self,
        now: u64,
        headers: &HeaderMap,
        message: &[u8],
    ) -> Result<(), NotSigned> {
        let mut all = headers.get_all(SIGNED).iter();
        let (Some(signed), None) = (all.next(), all.next()) else {
            return Err(NotSigned::Missing);
        };
        let parts: Vec<&str> = signed.to_str().unwrap_or_default().split(' ').collect();
        let [worker, until, nonce, signature] = parts[..] else {
            return Err(NotSigned::Missing);
        };
        let (Ok(until), Some(nonce), Some(signature)) =
            (until.parse::<u64>(), bytes(nonce, 16), bytes(signature, 64))
        else {
            return Err(NotSigned::Missing);
        };
        if !is_named(&self.identity, worker) {
            return Err(NotSigned::ForAnother);
        }
        if until <= now || until > now.saturating_add(2 * SECONDS) {
            return Err(NotSigned::Expired);
        }
        let covered = covered(worker, until, &nonce, headers, message);
        let driver = UnparsedPublicKey::new(&ED25519, &self.driver);
        driver.verify(&covered, &signature).map_err(|_| NotSigned::Wrong)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, until| *until > now);
        match used.insert(nonce, until) {
            None => Ok(()),
            Some(_) => Err(NotSigned::Used),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::identity::{Authority, DriverKeys};

    const NOW: u64 = 1_764_187_200;

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

        fn worker(&self, name: &str) -> Checker {
            let keys = self.authority.worker(name, &self.driver.plans).unwrap();
            Checker::new(keys.identity, keys.driver)
        }
    }

    fn options(key: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-datafusion-distributed-config-hushql.key", HeaderValue::from_static(key));
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers
    }

    fn with(mut headers: HeaderMap, signature: &str) -> HeaderMap {
        headers.insert(SIGNED, signature.parse().unwrap());
        headers
    }

    #[test]
    fn a_signed_plan_runs_once() {
        let stage = Stage::new();
        let worker = stage.worker("w1");
        let sign = || stage.driver.plans.signature("w1", NOW, &options("k"), b"plan").unwrap();
        let signed = with(options("k"), &sign());
        assert_eq!(worker.check(NOW + 299, &signed, b"plan"), Ok(()));
        assert_eq!(worker.check(NOW + 299, &signed, b"plan"), Err(NotSigned::Used));
        // The same plan may be sent again, with a new signature.
        assert_eq!(worker.check(NOW, &with(options("k"), &sign()), b"plan"), Ok(()));
        // Other headers belong to the connection, and are not signed.
        let mut other = with(options("k"), &sign());
        other.insert("user-agent", HeaderValue::from_static("tonic"));
        assert_eq!(worker.check(NOW - 299, &other, b"plan"), Ok(()));
    }

    #[test]
    fn what_is_not_signed_by_the_driver_is_not_run() {
        let (stage, foreign) = (Stage::new(), Stage::new());
        let worker = stage.worker("w1");
        let unsigned = worker.check(NOW, &options("k"), b"plan");
        assert_eq!(unsigned, Err(NotSigned::Missing));
        let by_another = foreign.driver.plans.signature("w1", NOW, &options("k"), b"plan").unwrap();
        let by_another = worker.check(NOW, &with(options("k"), &by_another), b"plan");
        assert_eq!(by_another, Err(NotSigned::Wrong));
        let signature = stage.driver.plans.signature("w1", NOW, &options("k"), b"plan").unwrap();
        let signed = with(options("k"), &signature);
        assert_eq!(worker.check(NOW, &signed, b"plam"), Err(NotSigned::Wrong));
        assert_eq!(worker.check(NOW, &signed, b""), Err(NotSigned::Wrong));
        // Another key of the bounds, a missing one, and an additional one.
        let other = with(options("l"), &signature);
        assert_eq!(worker.check(NOW, &other, b"plan"), Err(NotSigned::Wrong));
        assert_eq!(
            worker.check(NOW, &with(HeaderMap::new(), &signature), b"plan"),
            Err(NotSigned::Wrong)
        );
        let mut more = signed.clone();
        more.append("x-datafusion-distributed-config-hushql.key", HeaderValue::from_static("l"));
        assert_eq!(worker.check(NOW, &more, b"plan"), Err(NotSigned::Wrong));
        // Two signatures are not accepted.
        let mut twice = signed.clone();
        twice.append(SIGNED, signature.parse().unwrap());
        assert_eq!(worker.check(NOW, &twice, b"plan"), Err(NotSigned::Missing));
        for text in ["", "w1", "w1 1 2 3", "w1 x y z", &signature[3..], &signature[..150]] {
            let refused = worker.check(NOW, &with(options("k"), text), b"plan");
            assert_eq!(refused, Err(NotSigned::Missing), "{text}");
        }
        assert_eq!(worker.check(NOW, &signed, b"plan"), Ok(()));
    }

    #[test]
    fn a_signed_plan_is_for_one_worker_and_for_minutes() {
        let stage = Stage::new();
        let (first, second) = (stage.worker("w1"), stage.worker("w2"));
        let signature = stage.driver.plans.signature("w1", NOW, &options("k"), b"plan").unwrap();
        let signed = with(options("k"), &signature);
        assert_eq!(second.check(NOW, &signed, b"plan"), Err(NotSigned::ForAnother));
        let renamed = with(options("k"), &signature.replace("w1 ", "w2 "));
        assert_eq!(second.check(NOW, &renamed, b"plan"), Err(NotSigned::Wrong));
        assert_eq!(first.check(NOW + 300, &signed, b"plan"), Err(NotSigned::Expired));
        assert_eq!(first.check(NOW - 301, &signed, b"plan"), Err(NotSigned::Expired));
        let later = signature.replace(&(NOW + 300).to_string(), &(NOW + 400).to_string());
        let later = first.check(NOW + 300, &with(options("k"), &later), b"plan");
        assert_eq!(later, Err(NotSigned::Wrong));
        assert_eq!(first.check(NOW, &signed, b"plan"), Ok(()));
    }

    #[test]
    fn what_was_used_is_kept_as_long_as_it_is_good() {
        let stage = Stage::new();
        let worker = stage.worker("w1");
        for second in 0..1_000 {
            let now = NOW + second;
            let signature = stage.driver.plans.signature("w1", now, &options("k"), b"").unwrap();
            worker.check(now, &with(options("k"), &signature), b"").unwrap();
        }
        assert_eq!(worker.used.lock().unwrap().len(), 300);
    }

    #[test]
    fn neither_key_is_shown() {
        let stage = Stage::new();
        assert_eq!(format!("{:?}", stage.driver.plans), "Signer { .. }");
        assert!(!format!("{:?} {:?}", stage.driver, stage.authority).contains('['));
    }
}
