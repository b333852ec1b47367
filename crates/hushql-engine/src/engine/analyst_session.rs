//! An analyst's session, which asks and cannot declare.
//!
//! In: queries. Out: answers, and errors without the owner's paths.
//!
//! ```text
//! Engine::analyst("lab") ─▶ Analyst: a Session, and nothing else
//! ```

use std::ops::Deref;

use crate::engine::session::Session;

/// The session of an analyst, made by [`Engine::analyst`](crate::Engine::analyst) and by
/// [`LogIn::finish`](crate::LogIn::finish).
///
/// All its methods are those of [`Session`]. Its errors name no path of the vault
/// ([`Error::for_analyst`](crate::Error::for_analyst)), and it does not declare.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, Error};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let lab = Engine::demo()?.analyst("lab")?;
/// println!("{}", lab.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await?);
/// // A statement that declares is refused when it runs.
/// let refused = lab.execute("ALTER TABLE adult SET PRIVACY UNIT ROW").await;
/// assert!(matches!(refused, Err(Error::Refused(_))));
/// # Ok(()) }
/// ```
///
/// A program that declares in an analyst's session does not compile, because only
/// [`Owner`](crate::Owner) has the method [`declare`](crate::Owner::declare):
///
/// ```compile_fail,E0599
/// # use hushql_engine as hushql;
/// use hushql::{Engine, PrivacyUnit};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let lab = Engine::demo()?.analyst("lab")?;
/// lab.declare(PrivacyUnit::row("adult")).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Analyst(pub(super) Session);

impl Deref for Analyst {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl From<Analyst> for Session {
    fn from(analyst: Analyst) -> Self {
        analyst.0
    }
}
