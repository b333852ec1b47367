//! SCRAM-SHA-256 (RFC 5802, RFC 7677) from the server's side: the stored form of a password, and
//! the proof of knowing the password.
//!
//! In: a password, once; later the messages of a client. Out: a verifier, which reveals the
//! password only to someone who tries passwords; later whether the client knows the password. The
//! module knows no names and stores nothing.
//!
//! ```text
//! password ─▶ salted = PBKDF2(password, salt, 4096) ─▶ stored key = H(HMAC(salted, "Client Key")), server key = HMAC(salted, "Server Key")
//!
//! client   n,,n=,r=NONCE             server   r=NONCE+MORE,s=SALT,i=4096
//!          c=biws,r=NONCE+MORE,p=PROOF        v=SIGNATURE
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The rounds of a password's hash, as in PostgreSQL.
const ITERATIONS: u32 = 4096;

/// The bytes of a salt.
const SALT: usize = 16;

/// The longest message and the longest nonce of a client.
const LONGEST: usize = 2_048;

/// The mechanism.
pub const PLAIN: &str = "SCRAM-SHA-256";
/// The mechanism that binds the log-in to its channel.
pub const PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The supported kind of channel binding: the hash of the server's certificate.
const BINDING: &str = "tls-server-end-point";

type Key = [u8; 32];

/// HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut block = [0_u8; 64];
    if key.len() > block.len() {
        block.iter_mut().zip(Sha256::digest(key)).for_each(|(to, from)| *to = from);
    } else {
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    }
    let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// `Hi` of RFC 5802: one block of PBKDF2.
fn salted(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let mut last = hmac(password, &[salt, &[0, 0, 0, 1]]);
    let mut all = last;
    for _ in 1..iterations {
        last = hmac(password, &[&last]);
        all = xor(&all, &last);
    }
    all
}

fn xor(a: &Key, b: &Key) -> Key {
    let mut both = *a;
    both.iter_mut().zip(b).for_each(|(to, from)| *to ^= from);
    both
}

/// True if two keys are equal. The time does not depend on where they differ.
fn equal(a: &Key, b: &Key) -> bool {
    std::hint::black_box(xor(a, b)).iter().fold(0, |all, byte| all | byte) == 0
}

/// The salt of a name, whether or not a role has it. Someone who asks for it repeatedly cannot
/// notice that a role is created, dropped, or gets another password.
pub fn salt_of(secret: &Key, name: &str) -> [u8; SALT] {
    let mut salt = [0; SALT];
    let bytes = hmac(secret, &[b"salt", name.as_bytes()]);
    salt.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    salt
}

/// The stored form of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    salt: Vec<u8>,
    iterations: u32,
    stored_key: Key,
    server_key: Key,
}

/// Keys are left out: someone who has them can try passwords, or impersonate the server.
impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// The verifier of a password under a salt.
    pub fn of_password(password: &str, salt: [u8; SALT]) -> Self {
        let salted = salted(password.as_bytes(), &salt, ITERATIONS);
        Self {
            salt: salt.to_vec(),
            iterations: ITERATIONS,
            stored_key: Sha256::digest(hmac(&salted, &[b"Client Key"])).into(),
            server_key: hmac(&salted, &[b"Server Key"]),
        }
    }

    /// A verifier for a name without a role. No password fits it. The same name always gets the
    /// same verifier.
    pub fn decoy(secret: &Key, name: &str) -> Self {
        let of = |what: &[u8]| hmac(secret, &[what, name.as_bytes()]);
        Self {
            salt: salt_of(secret, name).to_vec(),
            iterations: ITERATIONS,
            stored_key: of(b"stored"),
            server_key: of(b"server"),
        }
    }

    /// A verifier of another password under the same salt.
    pub fn with_password(&self, password: &str) -> Option<Self> {
        Some(Self::of_password(password, self.salt.as_slice().try_into().ok()?))
    }

    /// Whether this is the verifier of a password. Any two passwords take the same time.
    pub fn fits(&self, password: &str) -> bool {
        if password.len() > LONGEST {
            return false;
        }
        let of_it = salted(password.as_bytes(), &self.salt, self.iterations);
        let stored = Sha256::digest(hmac(&of_it, &[b"Client Key"])).into();
        equal(&stored, &self.stored_key)
    }

    /// Reads `SCRAM-SHA-256$iterations:salt$stored key:server key`, as PostgreSQL writes it; `None`
    /// for anything else. It accepts only the number of rounds and the salt length of a decoy,
    /// because others would distinguish a role from a name without one.
    pub fn read(text: &str) -> Option<Self> {
        let (numbers, keys) = text.strip_prefix(PLAIN)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = numbers.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let iterations = iterations.parse().ok();
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        Some(Self {
            salt: STANDARD.decode(salt).ok().filter(|salt| salt.len() == SALT)?,
            iterations: iterations.filter(|n| *n == ITERATIONS)?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }

    /// A digest that distinguishes this verifier from others, and reveals nothing else.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(Sha256::digest(self.text()).into())
    }

    /// The seal of a text that allows to ask as a role: only someone with the vault's secret and
    /// this verifier can compute it, and another password ends it.
    pub fn sealed(&self, secret: &Key, text: &str) -> String {
        let key = hmac(secret, &[b"token", self.text().as_bytes()]);
        hmac(&key, &[text.as_bytes()]).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a text has this seal. The time does not depend on where seals differ.
    pub fn has_sealed(&self, secret: &Key, text: &str, seal: &str) -> bool {
        let digest = |text: &str| Sha256::digest(text).into();
        equal(&digest(&self.sealed(secret, text)), &digest(seal))
    }

    /// The text that [`Verifier::read`] reads.
    pub fn text(&self) -> String {
        let Self { salt, iterations, stored_key, server_key } = self;
        let (salt, stored) = (STANDARD.encode(salt), STANDARD.encode(stored_key));
        format!("{PLAIN}${iterations}:{salt}${stored}:{}", STANDARD.encode(server_key))
    }
}

/// The digest of a verifier.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint(Key);

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprint")
    }
}

/// A log-in after the first messages.
pub struct Exchange {
    verifier: Verifier,
    /// The nonces of client and server.
    nonce: String,
    /// The channel data that the client must repeat.
    channel: String,
    /// The messages so far, which the proof covers.
    before: String,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exchange")
    }
}

impl Exchange {
    /// Answers a client's first message. `more` is the server's random part of the nonce, and
    /// `certificate` is the hash of the server's certificate if the channel has one. `None` for an
    /// invalid message, or if someone prevented the client from binding the log-in to its channel.
    pub fn begin(
        verifier: Verifier,
        (mechanism, certificate): (&str, Option<&[u8]>),
        message: &[u8],
        more: [u8; 16],
    ) -> Option<(Self, String)> {
        let message = std::str::from_utf8(message).ok().filter(|text| text.len() <= LONGEST)?;
        let mut fields = message.splitn(3, ',');
        let (flag, identity, bare) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, nonce) = bare.strip_prefix("n=")?.split_once(",r=")?;
        let nonce = nonce.split(',').next()?;
        if !identity.is_empty() || nonce.is_empty() {
            return None;
        }
        let mut channel = format!("{flag},,").into_bytes();
        match (flag, mechanism, certificate) {
            ("n", PLAIN, _) | ("y", PLAIN, None) => {}
            (flag, PLUS, Some(certificate)) if flag.strip_prefix("p=") == Some(BINDING) => {
                channel.extend_from_slice(certificate);
            }
            _ => return None,
        }
        let nonce = format!("{nonce}{}", STANDARD.encode(more));
        let first =
            format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        let before = format!("{bare},{first}");
        Some((Self { verifier, nonce, channel: STANDARD.encode(channel), before }, first))
    }

    /// The server's last message, if the client's message proves that it knows the password.
    pub fn end(&self, message: &[u8]) -> Option<String> {
        let message = std::str::from_utf8(message).ok().filter(|text| text.len() <= LONGEST)?;
        let (rest, proof) = message.rsplit_once(",p=")?;
        let (channel, nonce) = rest.strip_prefix("c=")?.split_once(",r=")?;
        let proof: Key = STANDARD.decode(proof).ok()?.try_into().ok()?;
        let Verifier { stored_key, server_key, .. } = &self.verifier;
        let said = [self.before.as_bytes(), b",", rest.as_bytes()];
        let client_key = xor(&proof, &hmac(stored_key, &said));
        let fits = equal(&Sha256::digest(client_key).into(), stored_key);
        let signature = hmac(server_key, &said);
        (fits && channel == self.channel && nonce == self.nonce)
            .then(|| format!("v={}", STANDARD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_fits_its_password_alone() {
        let verifier = Verifier::of_password("correct horse", [7; SALT]);
        assert!(verifier.fits("correct horse"));
        for wrong in ["", "correct hors", "correct horse ", &"x".repeat(LONGEST + 1)] {
            assert!(!verifier.fits(wrong), "{wrong}");
        }
        assert!(!Verifier::decoy(&[1; 32], "lab").fits("correct horse"));
    }

    /// The client's last message.
    fn client(password: &str, bare: &str, first: &str, channel: &str) -> (String, String) {
        let fields: Vec<&str> = first.splitn(3, ',').collect();
        let salt = STANDARD.decode(&fields[1][2..]).unwrap();
        let salted = salted(password.as_bytes(), &salt, fields[2][2..].parse().unwrap());
        let rest = format!("c={channel},{}", fields[0]);
        let said = format!("{bare},{first},{rest}");
        let key = hmac(&salted, &[b"Client Key"]);
        let stored: Key = Sha256::digest(key).into();
        let proof = xor(&key, &hmac(&stored, &[said.as_bytes()]));
        let signature = hmac(&hmac(&salted, &[b"Server Key"]), &[said.as_bytes()]);
        (
            format!("{rest},p={}", STANDARD.encode(proof)),
            format!("v={}", STANDARD.encode(signature)),
        )
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::of_password("pencil", salt.try_into().unwrap());
        let bare = "n=user,r=rOprNGfwEbeRWgbNEkqO";
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let first = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let before = format!("{bare},{first}");
        let exchange =
            Exchange { verifier, nonce: nonce.to_owned(), channel: "biws".to_owned(), before };
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let signature = exchange.end(last.as_bytes());
        assert_eq!(signature.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    #[test]
    fn a_verifier_is_read_as_it_is_written() {
        let verifier = Verifier::of_password("secret", [7; 16]);
        let text = verifier.text();
        assert_eq!(Verifier::read(&text), Some(verifier.clone()));
        assert!(!text.contains("secret"));
        assert_eq!(format!("{verifier:?}"), "Verifier");
        let few = text.replace("$4096:", "$1:");
        let many = text.replace("$4096:", "$4000000000:");
        for wrong in ["", "secret", "md5abc", &text[..text.len() - 2], &few, &many] {
            assert_eq!(Verifier::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_seal_is_of_one_text_verifier_and_secret() {
        let (one, other) =
            (Verifier::of_password("a", [1; 16]), Verifier::of_password("b", [1; 16]));
        let seal = one.sealed(&[7; 32], "lab.1");
        assert!(one.has_sealed(&[7; 32], "lab.1", &seal));
        assert!(!one.has_sealed(&[7; 32], "lab.2", &seal));
        assert!(!one.has_sealed(&[8; 32], "lab.1", &seal));
        assert!(!other.has_sealed(&[7; 32], "lab.1", &seal));
        assert!(!one.has_sealed(&[7; 32], "lab.1", ""));
        assert_eq!(seal.len(), 64);
    }

    #[test]
    fn only_the_password_fits() {
        let verifier = Verifier::of_password("right", [1; 16]);
        let bare = "n=,r=abc";
        for (password, fits) in [("right", true), ("wrong", false), ("", false), ("Right", false)] {
            let message = format!("n,,{bare}");
            let begun =
                Exchange::begin(verifier.clone(), (PLAIN, None), message.as_bytes(), [9; 16]);
            let (exchange, first) = begun.unwrap();
            let (last, signature) = client(password, bare, &first, "biws");
            assert_eq!(exchange.end(last.as_bytes()), fits.then_some(signature), "{password}");
        }
        let decoy = Verifier::decoy(&[3; 32], "nobody");
        assert_eq!(decoy, Verifier::decoy(&[3; 32], "nobody"));
        assert_ne!(decoy, Verifier::decoy(&[3; 32], "somebody"));
        let (exchange, first) =
            Exchange::begin(decoy, (PLAIN, None), b"n,,n=,r=abc", [9; 16]).unwrap();
        assert!(first.starts_with("r=abc") && first.ends_with(",i=4096"));
        assert_eq!(exchange.end(client("", bare, &first, "biws").0.as_bytes()), None);
    }

    #[test]
    fn a_log_in_is_bound_to_its_channel() {
        let verifier = || Verifier::of_password("right", [1; 16]);
        let begin = |mechanism, certificate: Option<&[u8]>, message: &str| {
            Exchange::begin(verifier(), (mechanism, certificate), message.as_bytes(), [9; 16])
        };
        let (bare, bound) = ("n=,r=abc", "p=tls-server-end-point,,n=,r=abc");
        let (exchange, first) = begin(PLUS, Some(b"hash"), bound).unwrap();
        let channel = |hash: &str| STANDARD.encode(format!("p=tls-server-end-point,,{hash}"));
        let (last, signature) = client("right", bare, &first, &channel("hash"));
        assert_eq!(exchange.end(last.as_bytes()), Some(signature));
        let (last, _) = client("right", bare, &first, &channel("mine"));
        assert_eq!(exchange.end(last.as_bytes()), None, "somebody is in between");
        assert!(begin(PLAIN, Some(b"hash"), "n,,n=,r=abc").is_some());
        assert!(begin(PLAIN, None, "y,,n=,r=abc").is_some());
        for (mechanism, certificate, message) in [
            // The server supports binding, but the client was told that it does not.
            (PLAIN, Some(&b"hash"[..]), "y,,n=,r=abc"),
            (PLAIN, Some(b"hash"), bound),
            (PLUS, Some(b"hash"), "n,,n=,r=abc"),
            (PLUS, Some(b"hash"), "p=tls-unique,,n=,r=abc"),
            (PLUS, None, bound),
            (PLAIN, None, "n,a=other,n=,r=abc"),
            (PLAIN, None, "n,,m=x,n=,r=abc"),
            (PLAIN, None, "n,,n=,r="),
            (PLAIN, None, ""),
            ("SCRAM-SHA-1", None, "n,,n=,r=abc"),
        ] {
            assert!(begin(mechanism, certificate, message).is_none(), "{mechanism} {message}");
        }
    }
}
