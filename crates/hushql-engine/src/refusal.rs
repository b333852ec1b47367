//! The reasons for refusals, each with a stable code and a suggestion of what to write instead.
//!
//! A refusal depends only on the query, the catalog and the budget. The engine decides it before it
//! reads any data, so it is the same for all data. It costs nothing.
//!
//! ```text
//! HQ007 refused: SUM(price) has no range
//!   in:    SUM(price)
//!   write: CLAMP(price, lo, hi), or declare the column's domain …
//! ```

use std::fmt;

use crate::visible;

/// The name that is most similar to a written one, regardless of case. `None` if none is similar.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    /// The longest name to compare. Comparing a megabyte with hundreds of functions would take
    /// long.
    const LONGEST: usize = 200;
    if name.len() > LONGEST {
        return None;
    }
    let written = name.to_lowercase();
    names
        .filter(|candidate| *candidate != name)
        .map(|candidate| (strsim::jaro_winkler(&written, &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate.to_owned())
}

/// The reasons, by stable code.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::Reason;
///
/// assert_eq!(Reason::NoRange.code(), "HQ007");
/// assert_eq!(Reason::ALL.len(), 35);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The answer would contain exact values of a private table.
    Exact,
    /// The table is neither private nor public.
    Undeclared,
    /// The session may not run this statement.
    Statement,
    /// A clause of SQL that is not part of the dialect.
    Clause,
    /// A function that is not allowed below a release.
    Function,
    /// An expression that could fail or overflow on some row.
    Partial,
    /// A sum without a range.
    NoRange,
    /// Group keys that only the data contain.
    UnknownKeys,
    /// Candidates that only the data contain.
    UnknownCandidates,
    /// The target of a selection is not a group key.
    Target,
    /// A release in a place that cannot contain one.
    Place,
    /// A bare aggregate that no mechanism releases.
    NoMechanism,
    /// The privacy unit as a group key.
    UnitAsKey,
    /// The mechanism cannot release this operand.
    Operand,
    /// The cost is not stated.
    NoEpsilon,
    /// The mechanism needs δ.
    NoDelta,
    /// No bound on the contribution of one unit.
    NoContributionBound,
    /// An operator that is not allowed below a release.
    Operator,
    /// A subquery below a release.
    Subquery,
    /// One selection for each group.
    WinnerPerGroup,
    /// More group keys or candidates than allowed.
    TooManyKeys,
    /// An aggregate that cannot score candidates.
    Score,
    /// The table has no budget.
    NoBudget,
    /// `privacy_unit_column` does not name the declared unit.
    UnitColumn,
    /// Bounds, keys or options that contradict each other or the column.
    BadValue,
    /// The noise would be too large for exact sampling.
    TooNoisy,
    /// A system table that describes the installation.
    SystemTable,
    /// A data file that is no longer the declared one.
    ChangedFile,
    /// A parameter that this mechanism does not accept.
    Parameter,
    /// A function whose value changes from call to call.
    Volatile,
    /// A column that cannot be a group key.
    KeyType,
    /// A part of the language that is not implemented yet.
    NotYet,
    /// A private table is joined with another private table, or with a released one.
    Join,
    /// A statement that is longer, deeper or wider than the engine allows.
    TooLarge,
    /// What a rule of a table forbids.
    Rule,
}

impl Reason {
    /// Every reason with its code; codes are never reused.
    pub const ALL: [(Self, &'static str); 35] = [
        (Self::Exact, "HQ001"),
        (Self::Undeclared, "HQ002"),
        (Self::Statement, "HQ003"),
        (Self::Clause, "HQ004"),
        (Self::Function, "HQ005"),
        (Self::Partial, "HQ006"),
        (Self::NoRange, "HQ007"),
        (Self::UnknownKeys, "HQ008"),
        (Self::UnknownCandidates, "HQ009"),
        (Self::Target, "HQ010"),
        (Self::Place, "HQ011"),
        (Self::NoMechanism, "HQ012"),
        (Self::UnitAsKey, "HQ013"),
        (Self::Operand, "HQ014"),
        (Self::NoEpsilon, "HQ015"),
        (Self::NoDelta, "HQ016"),
        (Self::NoContributionBound, "HQ017"),
        (Self::Operator, "HQ018"),
        (Self::Subquery, "HQ019"),
        (Self::WinnerPerGroup, "HQ020"),
        (Self::TooManyKeys, "HQ021"),
        (Self::Score, "HQ022"),
        (Self::NoBudget, "HQ023"),
        (Self::UnitColumn, "HQ024"),
        (Self::BadValue, "HQ025"),
        (Self::TooNoisy, "HQ026"),
        (Self::SystemTable, "HQ027"),
        (Self::ChangedFile, "HQ028"),
        (Self::Parameter, "HQ029"),
        (Self::Volatile, "HQ030"),
        (Self::KeyType, "HQ031"),
        (Self::NotYet, "HQ032"),
        (Self::Join, "HQ033"),
        (Self::TooLarge, "HQ034"),
        (Self::Rule, "HQ035"),
    ];

    /// The stable code, such as `HQ007`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// assert_eq!(hushql::Reason::Exact.code(), "HQ001");
    /// ```
    pub fn code(self) -> &'static str {
        Self::ALL.iter().find(|(reason, _)| *reason == self).map_or("HQ000", |(_, code)| code)
    }
}

/// A refusal: the reason, the refused clause, and what to write instead.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Error, Reason};
///
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let Err(Error::Refused(refusal)) = session.prepare("SELECT age FROM adult") else { panic!() };
/// assert_eq!((refusal.reason(), refusal.code()), (Reason::Exact, "HQ001"));
/// println!("{}; write {}", refusal.message(), refusal.hint());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    reason: Reason,
    clause: String,
    message: String,
    hint: String,
    derivation: Vec<String>,
}

impl Refusal {
    /// A refusal of `clause`: the problem, and what to write instead. All three may contain names
    /// and texts of the statement, so control characters are escaped.
    pub(crate) fn new(
        reason: Reason,
        clause: impl fmt::Display,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            reason,
            clause: visible::line(&clause.to_string()).into_owned(),
            message: visible::line(&message.into()).into_owned(),
            hint: visible::line(&hint.into()).into_owned(),
            derivation: Vec::new(),
        }
    }

    /// Adds a reason to the message.
    #[must_use]
    pub(crate) fn since(mut self, why: &str) -> Self {
        self.message = format!("{}; {}", self.message, visible::line(why));
        self
    }

    /// The same refusal with something else to write.
    pub(crate) fn writing(self, hint: &str) -> Self {
        Self { hint: visible::line(hint).into_owned(), ..self }
    }

    /// Adds the steps of the analysis that succeeded before the refusal.
    #[must_use]
    pub(crate) fn after(mut self, derivation: &[String]) -> Self {
        if self.derivation.is_empty() {
            self.derivation = derivation.to_vec();
        }
        self
    }

    /// Adds that the query reads these views. One of them may contain the refused clause.
    #[must_use]
    pub(crate) fn over_template(mut self, template: &str) -> Self {
        let within = format!("the template {}", visible::line(template));
        self.clause = match self.clause.as_str() {
            "" => within,
            clause => format!("{clause}, in {within}"),
        };
        self
    }

    /// The same refusal of a query over these views.
    pub(crate) fn over_views(mut self, views: &[String]) -> Self {
        if !views.is_empty() {
            let over = format!("a query over the view {}", visible::line(&views.join(", ")));
            self.clause = match self.clause.as_str() {
                "" => over,
                clause => format!("{clause}, in {over}"),
            };
        }
        self
    }

    /// The reason.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error, Reason};
    ///
    /// let session = Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(within=5) SUM(order_id) FROM orders";
    /// let Err(Error::Refused(refusal)) = session.cost(sql) else { panic!() };
    /// assert_eq!(refusal.reason(), Reason::NoRange);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The stable code, such as `HQ007`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// let session = Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(within=5) SUM(order_id) FROM orders";
    /// let Err(Error::Refused(refusal)) = session.cost(sql) else { panic!() };
    /// assert_eq!(refusal.code(), "HQ007");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn code(&self) -> &'static str {
        self.reason.code()
    }

    /// The refused part of the statement.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// let session = Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(within=5) SUM(order_id) FROM orders";
    /// let Err(Error::Refused(refusal)) = session.cost(sql) else { panic!() };
    /// assert_eq!(refusal.clause(), "sum(order_id)");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn clause(&self) -> &str {
        &self.clause
    }

    /// The problem.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// let session = Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(within=5) SUM(order_id) FROM orders";
    /// let Err(Error::Refused(refusal)) = session.cost(sql) else { panic!() };
    /// assert!(refusal.message().contains("range"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to write instead.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// let session = Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(within=5) SUM(order_id) FROM orders";
    /// let Err(Error::Refused(refusal)) = session.cost(sql) else { panic!() };
    /// assert!(refusal.hint().contains("CLAMP"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The refusal of unknown groups, with a whole statement that shows the groups of many people.
    pub(crate) fn with_threshold(self, statement: String) -> Self {
        let Self { reason, clause, message, hint, derivation } = self;
        // For a key of floats, the clause itself cannot be listed, so the hint names the key.
        let key = hint
            .split_once(" KEYS ")
            .map(|(key, _)| key)
            .filter(|key| key.starts_with("GROUP BY "));
        let keys = key
            .map_or_else(|| format!("GROUP BY {clause} KEYS (…)"), |key| format!("{key} KEYS (…)"));
        let message = format!(
            "{message}; with a delta, groups of many people come out and small ones stay hidden; with {keys}, those that you list come out"
        );
        Self { derivation, ..Self::new(reason, clause, message, statement) }
    }

    /// The refusal of a choice in unknown groups, with a whole statement that counts each value.
    pub(crate) fn with_counts(self, statement: String) -> Self {
        let Self { reason, clause, message, hint, derivation } = self;
        let keys = hint.split_once(" KEYS ").map(|(key, _)| key);
        let keys = keys.filter(|key| key.starts_with("GROUP BY "));
        let listed = keys.map_or_else(String::new, |key| {
            format!("; with {key} KEYS (…), the groups that you list have their choice")
        });
        let message = format!(
            "{message}; counted, the value with the largest number in a group is its choice, and values of few people stay hidden{listed}"
        );
        Self { derivation, ..Self::new(reason, clause, message, statement) }
    }

    /// The steps of the analysis up to the refusal.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Error};
    ///
    /// let session = Engine::demo()?.analyst("lab")?;
    /// let sql = "SELECT LAPLACE(within=5) SUM(order_id) FROM orders";
    /// let Err(Error::Refused(refusal)) = session.cost(sql) else { panic!() };
    /// println!("{}", refusal.derivation().join(" → "));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn derivation(&self) -> &[String] {
        &self.derivation
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refused: {}", self.code(), self.message)?;
        if !self.clause.is_empty() {
            write!(f, "\n  in:    {}", self.clause)?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  write: {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    /// No part of a refusal contains a control character of the statement.
    #[test]
    fn every_part_is_spelled_out() {
        let hostile = "a\u{1b}[2J\u{202e}b";
        let refusal = Refusal::new(Reason::Place, hostile, hostile, hostile);
        for part in [refusal.clause(), refusal.message(), refusal.hint()] {
            assert!(!part.contains(['\u{1b}', '\u{202e}']), "{part:?}");
        }
    }

    #[test]
    fn codes_are_unique() {
        let mut codes: Vec<_> = Reason::ALL.iter().map(|(_, code)| *code).collect();
        codes.dedup();
        assert_eq!(codes.len(), Reason::ALL.len());
        assert!(Reason::ALL.iter().all(|(reason, code)| reason.code() == *code));
    }
}
