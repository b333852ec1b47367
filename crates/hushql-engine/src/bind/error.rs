//! Explains why a query does not bind.
//!
//! In: the planner's error, and the available tables and functions. Out: a [`BindError`] that names
//! the mistake in the user's own words and suggests the nearest name. The planner has seen no data.

use std::fmt;

use datafusion::common::{DataFusionError, SchemaError, Span};

use crate::bind::merged::without_prefixes;
use crate::bind::planner_messages;
use crate::bind::sources::Sources;
use crate::catalog::{RESERVED, quoted};
use crate::dialect::{MechanismName, ReleaseClause, in_releases_words};
use crate::refusal::{Refusal, nearest};
use crate::sql_type::in_literals;
use crate::visible;

/// Why a query does not bind.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{BindError, Engine, Error};
///
/// let session = Engine::demo()?.analyst("lab")?;
/// let Err(Error::Bind(error)) = session.prepare("SELECT age FROM adlut") else { panic!() };
/// assert!(error.to_string().contains("did you mean `adult`?"));
/// let found = match error {
///     BindError::At { source, .. } => *source,
///     other => other,
/// };
/// assert!(matches!(found, BindError::UnknownTable { name, .. } if name == "adlut"));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The table is not registered.
    #[error("there is no table `{}`{}", visible::line(.name), Suggestion(.suggestion))]
    UnknownTable {
        /// The name as written.
        name: String,
        /// The nearest existing name.
        suggestion: Option<String>,
    },
    /// No table of the query has the column.
    #[error("there is no column `{}`{}", visible::line(.name), Suggestion(.suggestion))]
    UnknownColumn {
        /// The name as written.
        name: String,
        /// The nearest existing name.
        suggestion: Option<String>,
    },
    /// A bare name that is neither a column nor similar to a column: it may be a text without
    /// quotes.
    #[error(
        "there is no column `{0}`{1}; a text is written in single quotes: '{0}'",
        visible::line(.name),
        Among(.columns)
    )]
    Unquoted {
        /// The name as written.
        name: String,
        /// The existing columns, if there are few.
        columns: Vec<String>,
    },
    /// A name in double quotes that is not a column but similar to one: it may be a text.
    #[error(
        "there is no column `{0}`; did you mean `{1}`? A text is written in single quotes: '{0}'",
        visible::line(.name),
        visible::line(.near)
    )]
    Quoted {
        /// The name as written.
        name: String,
        /// The nearest existing name.
        near: String,
    },
    /// The function does not exist.
    #[error("there is no function `{}`{}", visible::line(.name), advice(.name, .suggestion))]
    UnknownFunction {
        /// The name as written.
        name: String,
        /// The nearest existing name.
        suggestion: Option<String>,
    },
    /// A column appears beside an aggregate and is not a group key.
    #[error("`{0}` appears beside an aggregate: add GROUP BY {0}, or remove it", visible::line(&flat(.name)))]
    Ungrouped {
        /// The column.
        name: String,
    },
    /// A selector without a mechanism, which the planner took for a column or a function.
    #[error("`{name}` needs a mechanism, as in {name} EXPONENTIAL(eps=1) column … GROUP BY column")]
    BareSelector {
        /// The selector.
        name: String,
    },
    /// A mistake and its position.
    #[error("at line {}, column {}: {source}", .position.0, .position.1)]
    At {
        /// Line and column in the statement, from 1.
        position: (u64, u64),
        /// The mistake.
        #[source]
        source: Box<BindError>,
    },
    /// The query of a view no longer binds: a table that it names was dropped or replaced.
    #[error("in the view `{}`: {source}", visible::line(.view))]
    View {
        /// The view.
        view: String,
        /// The mistake in its query.
        #[source]
        source: Box<BindError>,
    },
    /// Any other error of the planner, which has seen no data.
    #[error("{}", visible::lines(.message))]
    Plan {
        /// The planner's message, with each release as the user wrote it.
        message: String,
        /// The planner's error.
        #[source]
        source: Box<DataFusionError>,
    },
}

/// Why a query has no plan: it contains a mistake, or the engine refuses a part of it.
#[derive(Debug, thiserror::Error)]
pub enum Unbound {
    /// A name or type is wrong.
    #[error(transparent)]
    Mistake(#[from] BindError),
    /// The engine refuses a part of it.
    #[error(transparent)]
    Refused(Refusal),
}

impl BindError {
    /// The same error with its position in the statement, if it is known.
    pub(crate) fn placed(self, position: Option<(u64, u64)>) -> Self {
        match position {
            Some(position) => Self::At { position, source: Box::new(self) },
            None => self,
        }
    }

    /// Line and column in the statement, from 1, if known.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// let Err(hushql::Error::Bind(error)) = session.prepare("SELECT oops FROM census") else { panic!() };
    /// assert_eq!(error.position(), Some((1, 8)));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    pub fn position(&self) -> Option<(u64, u64)> {
        match self {
            Self::At { position, .. } => Some(*position),
            _ => None,
        }
    }
}

struct Suggestion<'a>(&'a Option<String>);

/// A column as a statement writes it, with its table before it.
fn flat(name: &str) -> String {
    if name.contains(['(', '"']) {
        return name.to_owned();
    }
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

/// The most columns that a message lists when a column does not exist.
const FEW: usize = 6;

/// The columns that a message lists.
struct Among<'a>(&'a [String]);

impl fmt::Display for Among<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|name| quoted(name)).collect();
        match names.is_empty() {
            true => Ok(()),
            false => write!(f, " among {}", visible::line(&names.join(", "))),
        }
    }
}

impl fmt::Display for Suggestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Without its quotes, the suggested name would be read as the name that was not found.
            Some(name) if name.contains(|c: char| c.is_uppercase()) && !name.contains('.') => {
                let name = quoted(name);
                let name = visible::line(&name);
                write!(f, "; did you mean {name}? Capitals need double quotes: {name}")
            }
            Some(name) => write!(f, "; did you mean `{}`?", visible::line(name)),
            None => Ok(()),
        }
    }
}

/// Functions of other databases, and what to write instead.
const ELSEWHERE: [(&str, &str); 23] = [
    ("age", "EXTRACT(YEAR FROM AGE(x)) for whole years, or AGE(x) < 18 as a condition"),
    ("date", "CAST(x AS DATE)"),
    ("dateadd", "x + INTERVAL '1 day'"),
    ("date_add", "x + INTERVAL '1 day'"),
    ("date_sub", "x - INTERVAL '1 day'"),
    ("datediff", "date_diff('day', x, y)"),
    ("decode", "CASE x WHEN 1 THEN 'a' ELSE 'b' END"),
    ("if", "CASE WHEN x > 3 THEN 'a' ELSE 'b' END"),
    ("iff", "CASE WHEN x > 3 THEN 'a' ELSE 'b' END"),
    ("iif", "CASE WHEN x > 3 THEN 'a' ELSE 'b' END"),
    ("isnull", "x IS NULL, or COALESCE(x, 0)"),
    ("lag", "LAG(x) OVER (ORDER BY y)"),
    ("lead", "LEAD(x) OVER (ORDER BY y)"),
    ("len", "length(x)"),
    ("dayname", "strftime(x, '%A')"),
    ("monthname", "strftime(x, '%B')"),
    ("rank", "RANK() OVER (ORDER BY x)"),
    ("dense_rank", "DENSE_RANK() OVER (ORDER BY x)"),
    ("row_number", "ROW_NUMBER() OVER (ORDER BY x)"),
    ("substring_index", "split_part(x, '-', 1)"),
    ("time_bucket", "date_bin(INTERVAL '15 minutes', x)"),
    ("version", "hushql --version outside of SQL"),
    ("topk", "TOP 3 EXPONENTIAL(eps=1) x … GROUP BY x"),
];

/// What to write instead of a function that does not exist.
fn advice(name: &str, suggestion: &Option<String>) -> String {
    const PARTS: [&str; 8] =
        ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"];
    let upper = name.to_uppercase();
    if PARTS.contains(&upper.as_str()) {
        format!("; write EXTRACT({upper} FROM x)")
    } else if upper == "REVENUE" {
        "; REVENUE scores prices: ARGMAX EXPONENTIAL(eps=1) price IN (1, 2) BY REVENUE(bid, price)"
            .to_owned()
    } else if let Some((_, instead)) =
        ELSEWHERE.iter().find(|(known, _)| name.eq_ignore_ascii_case(known))
    {
        format!("; write {instead}")
    } else if let Some(mechanism) = MechanismName::parse(name) {
        let example = mechanism.example();
        format!("; {upper}(eps=1) belongs in front of what it releases, as in {example}")
    } else {
        Suggestion(suggestion).to_string()
    }
}

/// The message of the planner's context for an unknown table; the planner passes it on.
pub(super) const UNKNOWN_TABLE: &str = "unknown table ";

/// The planner's message for a column that is neither grouped nor aggregated; the name follows in
/// quotes.
const UNGROUPED: &str = "must be in GROUP BY or an aggregate function";

/// The planner's message for an unknown function; the name follows in quotes.
const UNKNOWN_FUNCTION: &str = "Invalid function '";

/// The planner's message for a dotted name whose first part is a column of numbers or texts.
const NO_FIELDS: &str = "Cannot access field";

/// The position of the planner's error in the statement.
pub(super) fn place_of(error: &DataFusionError) -> Option<(u64, u64)> {
    error.diagnostic().and_then(|diagnostic| place(diagnostic.span))
}

/// Line and column at which a span begins.
pub(super) fn place(span: Option<Span>) -> Option<(u64, u64)> {
    span.map(|span| (span.start.line, span.start.column)).filter(|(line, _)| *line > 0)
}

/// The planner's error, or the refusal of a plan that the planner was about to make.
pub(super) fn unbound<'a>(
    error: DataFusionError,
    sources: &Sources,
    functions: impl Iterator<Item = &'a str>,
    releases: &[ReleaseClause],
) -> Unbound {
    if let DataFusionError::External(source) = error.find_root()
        && let Some(refusal) = source.downcast_ref::<Refusal>()
    {
        let words = |text: &str| in_releases_words(text, releases);
        let [clause, message, hint] =
            [refusal.clause(), refusal.message(), refusal.hint()].map(words);
        return Unbound::Refused(Refusal::new(refusal.reason(), clause, message, hint));
    }
    let place = place_of(&error);
    explain_error(error, sources, functions, releases).placed(place).into()
}

/// The planner's error, expressed in terms of the query.
fn explain_error<'a>(
    error: DataFusionError,
    sources: &Sources,
    functions: impl Iterator<Item = &'a str>,
    releases: &[ReleaseClause],
) -> BindError {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, .. }
                if field.relation.is_none() && is_selector(&field.name) =>
            {
                BindError::BareSelector { name: field.name.to_uppercase() }
            }
            SchemaError::FieldNotFound { field, valid_fields } => {
                let mut names: Vec<String> = Vec::new();
                for column in valid_fields {
                    if !column.name.contains(RESERVED) && !names.contains(&column.name) {
                        names.push(column.name.clone());
                    }
                }
                match nearest(&field.name, names.iter().map(String::as_str)) {
                    None if field.relation.is_none() => {
                        let columns = if names.len() <= FEW { names } else { Vec::new() };
                        BindError::Unquoted { name: field.name.clone(), columns }
                    }
                    Some(near) if field.relation.is_none() && is_quoted(&field.name) => {
                        BindError::Quoted { name: field.name.clone(), near }
                    }
                    suggestion => {
                        let name = without_prefixes(&field.flat_name());
                        BindError::UnknownColumn { name, suggestion }
                    }
                }
            }
            // An alias of an aggregate in GROUP BY causes this error, too.
            SchemaError::DuplicateUnqualifiedField { name } => {
                let name = in_releases_words(&without_prefixes(name), releases);
                let message = match name.split_once('.') {
                    // The planner names a cast after the expression that it casts.
                    Some((table, column)) if !name.contains('(') => format!(
                        "GROUP BY cannot tell {name} from a cast of it: name the cast in a subquery, as in FROM (SELECT *, CAST({column} AS …) AS other FROM {table}) GROUP BY other, {column}"
                    ),
                    _ => format!(
                        "two columns are named {}: give each its own alias with AS, and name columns in GROUP BY",
                        in_literals(&name)
                    ),
                };
                BindError::Plan { message, source: Box::new(error) }
            }
            SchemaError::AmbiguousReference { .. }
            | SchemaError::DuplicateQualifiedField { .. } => plan_error(error, releases),
        },
        DataFusionError::Plan(message) if message.starts_with(UNKNOWN_TABLE) => {
            let name = message.trim_start_matches(UNKNOWN_TABLE).to_owned();
            let suggestion = nearest(&name, sources.keys().map(String::as_str));
            BindError::UnknownTable { name, suggestion }
        }
        DataFusionError::Plan(message) if message.contains(UNGROUPED) => {
            match message.split('"').nth(1) {
                Some(name) => BindError::Ungrouped { name: without_prefixes(name) },
                None => plan_error(error, releases),
            }
        }
        DataFusionError::Plan(message) if message.starts_with(UNKNOWN_FUNCTION) => {
            match message.split('\'').nth(1) {
                Some(name) if is_selector(name) => {
                    BindError::BareSelector { name: name.to_uppercase() }
                }
                Some(name) => {
                    let suggestion = nearest(name, functions);
                    BindError::UnknownFunction { name: name.to_owned(), suggestion }
                }
                None => plan_error(error, releases),
            }
        }
        _ => plan_error(error, releases),
    }
}

/// True if a name was written in double quotes: without them it would be in lower case.
fn is_quoted(name: &str) -> bool {
    let plain = |c: char| c.is_lowercase() || c.is_ascii_digit() || c == '_';
    !name.chars().all(plain)
}

fn is_selector(name: &str) -> bool {
    ["argmax", "argmin"].iter().any(|selector| name.eq_ignore_ascii_case(selector))
}

/// The planner's message in the words of the language, with each release as the user wrote it.
fn plan_error(error: DataFusionError, releases: &[ReleaseClause]) -> BindError {
    let sentence = error.find_root().strip_backtrace();
    let sentence = match error.find_root() {
        _ if sentence.contains(NO_FIELDS) => {
            "the name before a dot in this query is not a table and has no fields".to_owned()
        }
        // DataFusion's own message asks for a bug report.
        DataFusionError::Internal(_) => planner_messages::UNFIT.to_owned(),
        _ => planner_messages::said(&without_prefixes(&sentence)),
    };
    BindError::Plan { message: in_releases_words(&sentence, releases), source: Box::new(error) }
}
