//! Tokens with which a program asks as a role, without a log-in: for protocols in which each
//! request stands alone.
//!
//! In: a role with a password, and a number of days. Out: a text that is valid for these days, as
//! long as the role may log in with the same password. The vault stores no token. Its seal needs a
//! secret of the vault and the verifier of the password.
//!
//! ```text
//! lab.1798761600.5c1f…      role, end in seconds since 1970, seal of both
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::catalog::quoted_analyst;
use crate::engine::Engine;
use crate::engine::analyst_session::Analyst;
use crate::engine::logged_in::LoggedIn;
use crate::error::Error;
use crate::scram::Verifier;

/// The most days of a token.
const MOST_DAYS: u32 = 366;

impl Engine {
    /// A token with which a program asks as this role for some days, at most 366. Whoever has it
    /// can ask. It ends early when the role gets another password, may no longer log in, or is
    /// dropped.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let engine = hushql::Engine::demo()?;
    /// engine.owner().execute("CREATE ROLE agent LOGIN PASSWORD 'correct horse'").await?;
    /// let token = engine.bearer_token("agent", 30)?;
    /// let agent = engine.session_of_token(&token)?;
    /// assert!(agent.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await.is_ok());
    /// assert!(engine.session_of_token("agent.1798761600.5c1f").is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] for a role that may not log in, and for a number of days that is 0 or too
    /// large; [`Error::Ledger`] when the vault cannot be read.
    pub fn bearer_token(&self, role: &str, days: u32) -> Result<String, Error> {
        if !(1..=MOST_DAYS).contains(&days) {
            return Err(Error::catalog(format!("a token is valid for 1 to {MOST_DAYS} days")));
        }
        let asked = self.inner.vault.role_to_log_in(role)?;
        let known = asked.role.filter(|_| asked.may_log_in);
        let verifier = known.and_then(|role| Verifier::read(&role.verifier)).zip(asked.secret);
        let Some((verifier, secret)) = verifier else {
            return Err(Error::catalog(format!(
                "no role {role} can log in: write CREATE ROLE {} LOGIN PASSWORD '…' in an owner's session",
                quoted_analyst(role)
            )));
        };
        let day = Duration::from_secs(86_400);
        let end = now().checked_add(day.saturating_mul(days)).ok_or(Error::Internal)?.as_secs();
        let text = format!("{role}.{end}");
        Ok(format!("{text}.{}", verifier.sealed(&secret, &text)))
    }

    /// The session of the role that a token was made for.
    ///
    /// # Errors
    /// [`Error::LogIn`] for every token that is not valid now, for whatever reason;
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn session_of_token(&self, token: &str) -> Result<Analyst, Error> {
        let (text, seal) = token.rsplit_once('.').ok_or(Error::LogIn)?;
        let (role, end) = text.rsplit_once('.').ok_or(Error::LogIn)?;
        let asked = self.inner.vault.role_to_log_in(role)?;
        let secret = asked.secret.unwrap_or_default();
        let known = asked.role.and_then(|role| Verifier::read(&role.verifier));
        // A name without a role gets the same work.
        let verifier = known.clone().unwrap_or_else(|| Verifier::decoy(&secret, role));
        let is_sealed = verifier.has_sealed(&secret, text, seal);
        let is_valid = end.parse().is_ok_and(|end: u64| now().as_secs() < end);
        let is_known = known.is_some() && asked.secret.is_some() && asked.may_log_in;
        if !(is_sealed && is_valid && is_known) {
            return Err(Error::LogIn);
        }
        let mut analyst = self.analyst(role)?;
        analyst.0.logged_in = Some(LoggedIn::new(verifier.fingerprint()));
        Ok(analyst)
    }
}

/// The time since 1970. A clock before that gives 0, and the vault refuses such a clock.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_ends_with_its_password_its_role_and_its_time() {
        let engine = Engine::demo().unwrap();
        let owner = engine.owner();
        let refused = engine.bearer_token("agent", 30).unwrap_err().to_string();
        assert!(refused.contains("CREATE ROLE agent LOGIN PASSWORD"), "{refused}");
        owner.execute("CREATE ROLE agent LOGIN PASSWORD 'correct horse'").await.unwrap();
        owner.execute("CREATE ROLE other LOGIN PASSWORD 'correct horse'").await.unwrap();
        assert!(engine.bearer_token("agent", 0).is_err());
        assert!(engine.bearer_token("agent", 367).is_err());
        let token = engine.bearer_token("agent", 1).unwrap();
        let session = engine.session_of_token(&token).unwrap();
        assert!(session.may_go_on().unwrap());

        // Nothing else is a token.
        let (text, seal) = token.rsplit_once('.').unwrap();
        let (_, end) = text.rsplit_once('.').unwrap();
        for wrong in [
            String::new(),
            "agent".to_owned(),
            format!("{text}."),
            format!("other.{end}.{seal}"),
            format!("nobody.{end}.{seal}"),
            format!("agent.{}.{seal}", u64::MAX),
            format!("agent.1.{seal}"),
            format!("agent..{seal}"),
            format!(" {token}"),
        ] {
            let refused = engine.session_of_token(&wrong);
            assert!(matches!(refused, Err(Error::LogIn)), "{wrong}");
        }
        // A sealed text whose time is over.
        let asked = engine.inner.vault.role_to_log_in("agent").unwrap();
        let verifier = Verifier::read(&asked.role.unwrap().verifier).unwrap();
        let over = format!("agent.1.{}", verifier.sealed(&asked.secret.unwrap(), "agent.1"));
        assert!(matches!(engine.session_of_token(&over), Err(Error::LogIn)));

        owner.execute("ALTER ROLE agent PASSWORD 'another horse'").await.unwrap();
        assert!(matches!(engine.session_of_token(&token), Err(Error::LogIn)));
        assert!(!session.may_go_on().unwrap());
        let token = engine.bearer_token("agent", 1).unwrap();
        owner.execute("ALTER ROLE agent NOLOGIN").await.unwrap();
        assert!(matches!(engine.session_of_token(&token), Err(Error::LogIn)));
        owner.execute("DROP ROLE agent").await.unwrap();
        assert!(matches!(engine.session_of_token(&token), Err(Error::LogIn)));
    }
}
