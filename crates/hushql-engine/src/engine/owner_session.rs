//! The owner's session, which alone declares.
//!
//! In: a declaration that a program describes. Out: one sentence about what was done.
//!
//! ```text
//! Engine::owner() ─▶ Owner ─ declare ─▶ "table visits is private; …"
//!                      └ everything else is a Session's
//! ```

use std::ops::Deref;

use crate::dialect::Statement;
use crate::engine::output::Output;
use crate::engine::session::Session;
use crate::error::Error;
use crate::guard;
use crate::owner::typed::Declaration;

/// The session of the data's owner, made by [`Engine::owner`](crate::Engine::owner).
///
/// It declares tables, units, domains and budgets, with [`Owner::declare`] or as statements of SQL,
/// and sees where data and vault are. Everything that an analyst does, an owner does with the same
/// methods of [`Session`]; the owner's queries are charged like any other.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, PrivacyBudget};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let owner = Engine::demo()?.owner();
/// owner.declare(PrivacyBudget::epsilon("small", "adult", 1.0)).await?;
/// assert!(owner.budgets()?.iter().any(|state| state.budget.name == "small"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Owner(pub(super) Session);

impl Deref for Owner {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl From<Owner> for Session {
    fn from(owner: Owner) -> Self {
        owner.0
    }
}

impl Owner {
    /// Declares a table, a unit, a domain or a budget, as the corresponding statement of SQL does.
    /// The answer is one sentence about what was done.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, PrivacyUnit};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let sentence = Engine::demo()?.owner().declare(PrivacyUnit::row("adult")).await?;
    /// assert_eq!(sentence, "table adult is private; its unit is the row");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`], as [`Session::execute`] of the statement.
    pub async fn declare(&self, declaration: impl Into<Declaration>) -> Result<String, Error> {
        let clock = self.clock();
        let parsed = declaration.into().into_parsed()?;
        let run = guard::poll(Box::pin(self.run(Statement::Declare(Box::new(parsed)), &clock)));
        match run.await.unwrap_or(Err(Error::Internal))? {
            Output::Done(sentence) => Ok(sentence),
            _ => Err(Error::Internal),
        }
    }
}
