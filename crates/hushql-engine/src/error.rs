//! The errors of a statement, grouped by the action that they require, and the parts that an
//! analyst may see.
//!
//! An error before the charge depends only on the query, the catalog and the budget, and contains
//! every detail. An error after the charge is one constant sentence. It does not reveal which of
//! two databases made the statement fail.

use std::fmt;

use crate::analysis::{DomainError, NoRange, NotAnalyzed};
use crate::bind::{BindError, Unbound};
use crate::catalog::{CatalogError, SliceOf, quoted, quoted_analyst};
use crate::dialect::ScriptStatement;
use crate::dialect::error::DialectError;
use crate::ledger::{DRIFTED, VaultError};
use crate::privacy::ParameterError;
use crate::refusal::Refusal;
use crate::visible;

/// The reason why a statement has no answer.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::Error;
///
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// match session.cost("SELECT LAPLACE(eps=1000) COUNT(*) FROM adult") {
///     Err(error @ Error::Budget(_)) => assert_eq!((error.kind(), error.exit_status()), ("budget", 4)),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text does not parse: correct it at the position.
    #[error("syntax error{}: {}", place(.position), visible::lines(.message))]
    Syntax {
        /// What was expected.
        message: String,
        /// Line and column, from 1, if known.
        position: Option<(u64, u64)>,
    },
    /// A name or type is wrong: correct the query.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The engine refuses the statement: write what the refusal suggests.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The budget does not allow it: ask for less, or ask the owner.
    #[error(transparent)]
    Budget(LedgerError),
    /// A declaration contradicts the catalog or a data file: correct it.
    #[error("{}", visible::lines(.message))]
    Catalog {
        /// The problem.
        message: String,
        /// The error of the catalog, file or type, if there is one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The vault cannot be read or written: nothing is answered without it.
    #[error(transparent)]
    Ledger(LedgerError),
    /// The query failed while it ran. The charge stands.
    #[error("the query failed while it ran; what was charged stays charged")]
    Execution,
    /// A log-in failed: the name or the password is wrong, or the role may not log in. The error
    /// does not say which of these it is.
    #[error("the log-in failed: the role, its password or its time is wrong")]
    LogIn,
    /// The engine's own checks failed: a bug, and nothing was answered. This is not a refusal,
    /// because no other statement would help; the sentence is always the same and does not reveal
    /// which check failed.
    #[error("the engine's own checks failed, and nothing was answered; please report the query")]
    Internal,
}

/// The sentence with which a vault refuses: a budget does not suffice, or a file cannot be used.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, Error};
///
/// let session = Engine::demo()?.analyst("lab")?;
/// match session.cost("SELECT LAPLACE(eps=1000) COUNT(*) FROM adult") {
///     Err(Error::Budget(error)) => assert_eq!(error.budget(), Some("adult")),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct LedgerError(VaultError);

impl LedgerError {
    /// The budget that does not allow the statement. `None` for any other problem.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// let Err(Error::Ledger(error)) = Engine::open("/nowhere/study.db") else { panic!() };
    /// assert_eq!(error.budget(), None);
    /// assert!(error.to_string().contains("hushql init"));
    /// ```
    pub fn budget(&self) -> Option<&str> {
        self.0.budget()
    }

    /// The same error of a call of this template.
    pub(crate) fn of_template(self, template: &str) -> Self {
        Self(self.0.of_template(template))
    }

    /// True if the same statement may succeed when it is tried again: another program held the
    /// vault, or the declarations changed in the meantime. Nothing was charged.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// let Err(Error::Ledger(error)) = Engine::open("/nowhere/study.db") else { panic!() };
    /// assert!(!error.may_be_tried_again());
    /// ```
    pub fn may_be_tried_again(&self) -> bool {
        matches!(self.0, VaultError::Locked { .. } | VaultError::Redeclared)
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible::lines(&self.0.to_string()))
    }
}

impl std::error::Error for LedgerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn place(position: &Option<(u64, u64)>) -> String {
    position.map_or(String::new(), |(line, column)| format!(" at line {line}, column {column}"))
}

impl Error {
    pub(crate) fn catalog(message: impl Into<String>) -> Self {
        Self::Catalog { message: message.into(), source: None }
    }

    pub(crate) fn catalog_from(
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Catalog { message: message.into(), source: Some(Box::new(source)) }
    }

    /// The parts of the error that an analyst may see: the same sentence without the paths of the
    /// vault and its anchor, and without the errors of a file, a type or the system.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Engine;
    ///
    /// let owners = Engine::open("/nowhere/study.db").unwrap_err();
    /// assert!(owners.to_string().contains("/nowhere"));
    /// assert!(!owners.for_analyst().to_string().contains("/nowhere"));
    /// ```
    #[must_use]
    pub fn for_analyst(self) -> Self {
        match self {
            Self::Catalog { message, .. } => Self::catalog(message),
            Self::Budget(error) => Self::Budget(LedgerError(error.0.without_paths())),
            Self::Ledger(error) => Self::Ledger(LedgerError(error.0.without_paths())),
            Self::Syntax { .. }
            | Self::Bind(_)
            | Self::Refused(_)
            | Self::Execution
            | Self::LogIn
            | Self::Internal => self,
        }
    }

    /// True if the declarations changed while a statement was prepared, so that it can be prepared
    /// again.
    pub(crate) fn is_redeclared(&self) -> bool {
        matches!(self, Self::Ledger(LedgerError(VaultError::Redeclared)))
    }

    /// True if a statement costs less than the least cost.
    pub(crate) fn is_too_little(&self) -> bool {
        match self {
            Self::Budget(LedgerError(VaultError::UnderMin { .. })) => true,
            Self::Refused(refusal) => refusal.reason() == crate::refusal::Reason::TooNoisy,
            _ => false,
        }
    }

    /// The same error for a statement in a script, with its position in the script.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let script = hushql::split_statements("SELECT 1;\n  SELECT oops FROM census")?;
    /// let error = session.prepare(script[1].text()).unwrap_err();
    /// assert_eq!(error.in_script(&script[1]).position(), Some((2, 10)));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn in_script(mut self, statement: &ScriptStatement) -> Self {
        match &mut self {
            Self::Syntax { position: Some(place), .. }
            | Self::Bind(BindError::At { position: place, .. }) => {
                *place = statement.in_script(*place);
            }
            _ => {}
        }
        self
    }

    /// Line and column of the text, from 1, if known.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let error = session.prepare("SELECT oops FROM census").unwrap_err();
    /// assert_eq!(error.position(), Some((1, 8)));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn position(&self) -> Option<(u64, u64)> {
        match self {
            Self::Syntax { position, .. } => *position,
            Self::Bind(error) => error.position(),
            _ => None,
        }
    }

    /// The kind of error in one word: `syntax`, `bind`, `refused`, `budget`, `catalog`, `ledger`,
    /// `execution`, `login` or `internal`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// assert_eq!(session.prepare("SELECT oops FROM census").unwrap_err().kind(), "bind");
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "syntax",
            Self::Bind(_) => "bind",
            Self::Refused(_) => "refused",
            Self::Budget(_) => "budget",
            Self::Catalog { .. } => "catalog",
            Self::Ledger(_) => "ledger",
            Self::Execution => "execution",
            Self::LogIn => "login",
            Self::Internal => "internal",
        }
    }

    /// The stable code of a refusal, such as `HQ007`. `None` for other errors, which
    /// [`Error::kind`] distinguishes. Codes are never reused; [`Reason::ALL`](crate::Reason::ALL)
    /// lists them.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let refused = session.cost("SELECT LAPLACE(within=5) SUM(order_id) FROM orders").unwrap_err();
    /// assert_eq!(refused.code(), Some("HQ007"));
    /// assert!(refused.hint().is_some_and(|hint| hint.contains("CLAMP")));
    ///
    /// let misspelt = session.cost("SELEC 1").unwrap_err();
    /// assert_eq!((misspelt.code(), misspelt.kind()), (None, "syntax"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Refused(refusal) => Some(refusal.code()),
            _ => None,
        }
    }

    /// The problem, without the code and the hint.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let refused = session.prepare("SELECT age FROM adult").unwrap_err();
    /// assert!(refused.to_string().starts_with("HQ001 refused: "));
    /// assert!(!refused.message().contains("HQ001"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn message(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.message().to_owned(),
            other => other.to_string(),
        }
    }

    /// What to write instead, if the engine knows it.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let refused = session.cost("SELECT LAPLACE(within=5) SUM(order_id) FROM orders").unwrap_err();
    /// assert!(refused.hint().is_some_and(|hint| hint.contains("CLAMP")));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => Some(refusal.hint().to_owned()).filter(|h| !h.is_empty()),
            Self::Budget(LedgerError(VaultError::Exhausted { budget, slice, .. })) => {
                let slice = match slice {
                    Some(SliceOf::Analyst(analyst)) => {
                        format!("ALTER SLICE {} ", quoted_analyst(analyst))
                    }
                    Some(SliceOf::EveryoneElse) | None => String::new(),
                };
                Some(format!(
                    "a query that costs no more than is left; the owner raises the limit with ALTER PRIVACY BUDGET {} {slice}SET LIMIT (…)",
                    visible::line(&quoted(budget))
                ))
            }
            _ => None,
        }
    }

    /// The exit status of a command that ends with this error: 3 for a refusal, 4 for an exhausted
    /// budget, otherwise 1.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// assert_eq!(session.prepare("SELECT age FROM adult").unwrap_err().exit_status(), 3);
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Refused(_) => 3,
            Self::Budget(_) => 4,
            Self::Syntax { .. }
            | Self::Bind(_)
            | Self::Catalog { .. }
            | Self::Ledger(_)
            | Self::Execution
            | Self::LogIn
            | Self::Internal => 1,
        }
    }
}

impl From<Unbound> for Error {
    fn from(error: Unbound) -> Self {
        match error {
            Unbound::Mistake(mistake) => Self::Bind(mistake),
            Unbound::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl From<DialectError> for Error {
    fn from(error: DialectError) -> Self {
        match error {
            DialectError::Syntax { message, position } => Self::Syntax { message, position },
            DialectError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl From<NotAnalyzed> for Error {
    /// An internal error always has the same sentence, which does not reveal the fault.
    fn from(error: NotAnalyzed) -> Self {
        match error {
            NotAnalyzed::Refused(refusal)
            | NotAnalyzed::ManyUnits(refusal)
            | NotAnalyzed::NoRange(NoRange { refusal, .. }) => Self::Refused(refusal),
            NotAnalyzed::Fault(_) => Self::Internal,
        }
    }
}

impl From<VaultError> for Error {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Catalog(error) => error.into(),
            error if error.is_budget() => Self::Budget(LedgerError(error)),
            VaultError::NoBudget { table } => Self::Refused(Refusal::new(
                crate::refusal::Reason::NoBudget,
                &table,
                format!("{table} has no privacy budget, so no query can be charged to it"),
                format!(
                    "CREATE PRIVACY BUDGET name FOR {} LIMIT (epsilon=10), in an owner's session",
                    quoted(&table)
                ),
            )),
            VaultError::Drifted { table, write } => {
                let message = format!("the files of {table} {DRIFTED}");
                let reason = crate::refusal::Reason::ChangedFile;
                Self::Refused(Refusal::new(reason, table, message, write))
            }
            error => Self::Ledger(LedgerError(error)),
        }
    }
}

impl From<CatalogError> for Error {
    fn from(error: CatalogError) -> Self {
        Self::catalog_from(error.to_string(), error)
    }
}

impl From<DomainError> for Error {
    fn from(error: DomainError) -> Self {
        Self::catalog_from(error.to_string(), error)
    }
}

impl From<ParameterError> for Error {
    fn from(error: ParameterError) -> Self {
        Self::catalog_from(error.to_string(), error)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::DataFusionError;

    use super::*;
    use crate::analysis::not_analyzed::{internal, lost};

    #[test]
    fn a_fault_of_the_analysis_is_not_a_refusal() {
        let planner = DataFusionError::Plan("no field named \"secret\"".to_owned());
        for fault in [internal(&planner), lost()] {
            let error = Error::from(fault);
            assert_eq!((error.kind(), error.code(), error.hint()), ("internal", None, None));
            assert_eq!(error.exit_status(), 1);
            assert_eq!(
                error.to_string(),
                "the engine's own checks failed, and nothing was answered; please report the query"
            );
            assert!(std::error::Error::source(&error).is_none());
        }
    }

    #[test]
    fn a_missing_range_is_a_refusal_outside_of_the_analysis() {
        let refusal = Refusal::new(crate::refusal::Reason::NoRange, "SUM(x)", "no range", "CLAMP");
        let missing = NotAnalyzed::NoRange(NoRange { call: None, refusal });
        assert_eq!(Error::from(missing).code(), Some("HQ007"));
    }
}
