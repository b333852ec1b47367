//! Log-ins: a session for a client who proves to know the password of a role.
//!
//! In: a name and the messages of SCRAM-SHA-256. Out: the answers to them, and in the end a
//! session of the [`Analyst`] with this name. A client without a role, without the right to log in,
//! or with a wrong password gets the same error after the same work. For a name without a role, the
//! exchange runs with a decoy that no password fits, and each name has one salt, with or without a
//! role.
//!
//! ```text
//! Engine::log_in("lab") ─▶ first(client's) ─▶ server's ─▶ finish(client's) ─▶ (server's, Analyst)
//! ```

use crate::dialect::{Declaration, RoleClause};
use crate::engine::Engine;
use crate::engine::analyst_session::Analyst;
use crate::engine::logged_in::LoggedIn;
use crate::engine::session::Session;
use crate::error::Error;
use crate::owner::roles;
use crate::sampler::QueryRng;
use crate::scram::{Exchange, PLAIN, PLUS, Verifier};

/// A log-in in progress. It allows one attempt.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = hushql::Engine::demo()?;
/// engine.owner().execute("CREATE ROLE lab LOGIN PASSWORD 'correct horse'").await?;
/// let mut log_in = engine.log_in("lab")?;
/// assert_eq!(log_in.mechanisms(), ["SCRAM-SHA-256"]);
/// let answer = log_in.first("SCRAM-SHA-256", b"n,,n=,r=rOprNGfwEbeRWgbNEkqO")?;
/// assert!(answer.starts_with("r=rOprNGfwEbeRWgbNEkqO"));
/// // Whoever sends no proof is sent away.
/// assert!(log_in.finish(b"c=biws,r=rOprNGfwEbeRWgbNEkqO,p=AAAA").is_err());
/// # Ok(()) }
/// ```
pub struct LogIn {
    engine: Engine,
    role: String,
    verifier: Verifier,
    is_known: bool,
    certificate: Option<Vec<u8>>,
    exchange: Option<Exchange>,
}

/// Leaves the verifier out.
impl std::fmt::Debug for LogIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogIn").finish_non_exhaustive()
    }
}

impl Engine {
    /// Begins a log-in by SCRAM-SHA-256. Its result does not reveal whether such a role exists.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let log_in = hushql::Engine::demo()?.log_in("nobody")?;
    /// assert_eq!(log_in.mechanisms(), ["SCRAM-SHA-256"]);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn log_in(&self, role: &str) -> Result<LogIn, Error> {
        let asked = self.inner.vault.role_to_log_in(role)?;
        let decoy = Verifier::decoy(&asked.secret.unwrap_or_default(), role);
        // A role that may no longer log in keeps its salt.
        let known = asked.role.and_then(|role| Verifier::read(&role.verifier));
        Ok(LogIn {
            engine: self.clone(),
            role: role.to_owned(),
            is_known: asked.may_log_in && known.is_some(),
            verifier: known.unwrap_or(decoy),
            certificate: None,
            exchange: None,
        })
    }
}

impl LogIn {
    /// The same log-in on a TLS channel, whose server has a certificate with this hash (RFC 5929,
    /// `tls-server-end-point`). The client can bind the log-in to the channel, so that nobody in
    /// between can take it over.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let log_in = hushql::Engine::demo()?.log_in("lab")?.bound_to(vec![0; 32]);
    /// assert_eq!(log_in.mechanisms(), ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    #[must_use]
    pub fn bound_to(mut self, certificate: Vec<u8>) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// The mechanisms that the client may choose from, best first.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// assert_eq!(hushql::Engine::demo()?.log_in("lab")?.mechanisms(), ["SCRAM-SHA-256"]);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn mechanisms(&self) -> &'static [&'static str] {
        if self.certificate.is_some() { &[PLUS, PLAIN] } else { &[PLAIN] }
    }

    /// The answer to the client's first message.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let mut log_in = hushql::Engine::demo()?.log_in("lab")?;
    /// assert!(log_in.first("SCRAM-SHA-256", b"n,,n=,r=abc")?.starts_with("r=abc"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LogIn`] for an invalid message, or one that does not bind the channel although the
    /// client could.
    pub fn first(&mut self, mechanism: &str, message: &[u8]) -> Result<String, Error> {
        let more = QueryRng::nonce().map_err(|_| Error::Internal)?;
        let channel = (mechanism, self.certificate.as_deref());
        let begun = Exchange::begin(self.verifier.clone(), channel, message, more);
        let (exchange, answer) = begun.ok_or(Error::LogIn)?;
        self.exchange = Some(exchange);
        Ok(answer)
    }

    /// The answer to the client's last message, and the session, if the message proves that the
    /// client knows the password.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let log_in = hushql::Engine::demo()?.log_in("lab")?;
    /// assert!(matches!(log_in.finish(b""), Err(hushql::Error::LogIn)));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LogIn`] for every failed proof; [`Error::Ledger`] when the vault cannot be read.
    pub fn finish(self, message: &[u8]) -> Result<(String, Analyst), Error> {
        let exchange = self.exchange.as_ref().ok_or(Error::LogIn)?;
        let answer = exchange.end(message).filter(|_| self.is_known).ok_or(Error::LogIn)?;
        Ok((answer, self.analyst()?))
    }

    /// The session of a client that sends the password itself, as a form in a browser does. The
    /// channel must be protected.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let engine = hushql::Engine::demo()?;
    /// engine.owner().execute("CREATE ROLE lab LOGIN PASSWORD 'correct horse'").await?;
    /// assert!(engine.log_in("lab")?.with_password("correct horse").is_ok());
    /// assert!(engine.log_in("lab")?.with_password("wrong horse").is_err());
    /// assert!(engine.log_in("nobody")?.with_password("correct horse").is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::LogIn`] for every wrong password and every name without a role, after the same
    /// work; [`Error::Ledger`] when the vault cannot be read.
    pub fn with_password(self, password: &str) -> Result<Analyst, Error> {
        match self.verifier.fits(password) && self.is_known {
            true => self.analyst(),
            false => Err(Error::LogIn),
        }
    }

    /// The session of the role, whose password was proved.
    fn analyst(&self) -> Result<Analyst, Error> {
        let mut analyst = self.engine.analyst(&self.role)?;
        analyst.0.logged_in = Some(LoggedIn::new(self.verifier.fingerprint()));
        Ok(analyst)
    }
}

impl Session {
    /// Whether the user who logged in may still ask: the role exists, may log in now, and still has
    /// the same password. Always true for a session without a log-in.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// assert!(hushql::Engine::demo()?.analyst("lab")?.may_go_on()?);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn may_go_on(&self) -> Result<bool, Error> {
        let Some(logged_in) = &self.logged_in else { return Ok(true) };
        let asked = self.inner.vault.role_to_log_in(&self.analyst)?;
        let role = asked.role.filter(|_| asked.may_log_in);
        let verifier = role.and_then(|role| Verifier::read(&role.verifier));
        Ok(verifier.is_some_and(|verifier| verifier.fingerprint() == *logged_in.fingerprint()))
    }

    /// Gives the logged-in role another password, if the declaration does that and nothing else;
    /// `None` for any other declaration.
    ///
    /// # Errors
    /// [`Error::LogIn`] if the role may no longer ask.
    pub(super) fn change_own_password(
        &self,
        declaration: &Declaration,
    ) -> Result<Option<String>, Error> {
        let Declaration::AlterRole { name, options } = declaration else { return Ok(None) };
        let RoleClause {
            login: None,
            password: Some(password),
            valid_until: None,
            defaults: None,
            templates_only: None,
        } = options
        else {
            return Ok(None);
        };
        let Some(logged_in) = self.logged_in.as_ref().filter(|_| *name == self.analyst) else {
            return Ok(None);
        };
        let mut fingerprint = logged_in.fingerprint();
        *fingerprint = roles::change_own(&self.inner, name, password, &fingerprint)?;
        Ok(Some("your password is changed; other connections of your role end".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use crate::Engine;

    /// The salt of a name does not reveal whether a role is created, dropped, or gets another
    /// password.
    #[tokio::test]
    async fn a_name_has_one_salt_for_ever() {
        let engine = Engine::demo().unwrap();
        let salt = |engine: &Engine, name: &str| {
            let first = engine.log_in(name).unwrap().first("SCRAM-SHA-256", b"n,,n=,r=abc");
            first.unwrap().split(',').nth(1).unwrap().to_owned()
        };
        let (lab, eve) = (salt(&engine, "lab"), salt(&engine, "eve"));
        assert_ne!(lab, eve);
        for change in [
            "CREATE ROLE lab",
            "ALTER ROLE lab PASSWORD 'correct horse'",
            "ALTER ROLE lab PASSWORD 'another horse'",
            "ALTER ROLE lab NOLOGIN",
            "ALTER ROLE lab LOGIN PASSWORD 'a third horse' VALID UNTIL '2001-01-01'",
            "DROP ROLE lab",
            "CREATE ROLE lab PASSWORD 'correct horse' VALID UNTIL 'infinity'",
        ] {
            engine.owner().execute(change).await.unwrap();
            assert_eq!((salt(&engine, "lab"), salt(&engine, "eve")), (lab.clone(), eve.clone()));
        }
        // Another vault has other salts.
        assert_ne!(salt(&Engine::demo().unwrap(), "lab"), lab);
        // A verifier that a client made has its own salt, and later passwords keep it.
        let made = crate::scram::Verifier::of_password("a client's", [7; 16]).text();
        engine.owner().execute(&format!("ALTER ROLE lab PASSWORD '{made}'")).await.unwrap();
        let own = salt(&engine, "lab");
        engine.owner().execute("ALTER ROLE lab PASSWORD 'correct horse'").await.unwrap();
        assert_eq!(salt(&engine, "lab"), own);
    }
}
