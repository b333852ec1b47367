//! Why a query does not bind, in sentences for people.
//!
//! The planner's error goes in, with the tables and functions that there are; out comes a [`BindError`] that names what is
//! wrong in the user's own words, and what is near to it. The planner has seen no data.

use datafusion::common::{DataFusionError, SchemaError, Span};

use crate::bind::sources::Sources;
use crate::dialect::{MechanismName, ReleaseClause, in_releases_words};
use crate::refusal::nearest;
use crate::visible;

/// Why a query does not bind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A table that nobody registered.
    #[error("there is no table `{}`{}", visible::line(.name), Suggestion(.suggestion))]
    UnknownTable {
        /// The name as written.
        name: String,
        /// The nearest name there is.
        suggestion: Option<String>,
    },
    /// A column that its tables do not have.
    #[error("there is no column `{}`{}", visible::line(.name), Suggestion(.suggestion))]
    UnknownColumn {
        /// The name as written.
        name: String,
        /// The nearest name there is.
        suggestion: Option<String>,
    },
    /// A name without a table that is no column, nor near to one: perhaps a text without its quotes.
    #[error("there is no column `{0}`; a text is written in single quotes: '{0}'", visible::line(.name))]
    Unquoted {
        /// The name as written.
        name: String,
    },
    /// A function that there is not.
    #[error("there is no function `{}`{}", visible::line(.name), advice(.name, .suggestion))]
    UnknownFunction {
        /// The name as written.
        name: String,
        /// The nearest name there is.
        suggestion: Option<String>,
    },
    /// A column beside an aggregate that is no group key.
    #[error("`{0}` stands beside an aggregate: add GROUP BY {0}, or leave it out", visible::line(.name))]
    Ungrouped {
        /// The column.
        name: String,
    },
    /// A selector that no mechanism follows, and so was read as a column or a function.
    #[error(
        "`{name}` chooses by a mechanism, as in {name} EXPONENTIAL(eps=1) column … GROUP BY column"
    )]
    BareSelector {
        /// The selector.
        name: String,
    },
    /// What is wrong, and where.
    #[error("at line {}, column {}: {source}", .position.0, .position.1)]
    At {
        /// Line and column of the statement, from 1.
        position: (u64, u64),
        /// What is wrong there.
        #[source]
        source: Box<BindError>,
    },
    /// The query of a view does not bind any more: what it names was dropped, or is another table now.
    #[error("in the view `{}`: {source}", visible::line(.view))]
    View {
        /// The view.
        view: String,
        /// What is wrong in it.
        #[source]
        source: Box<BindError>,
    },
    /// Anything else that the planner says of the query; it has seen no data.
    #[error("{}", visible::lines(.message))]
    Plan {
        /// The planner's sentence, with the releases as they were written.
        message: String,
        /// The planner's error.
        #[source]
        source: Box<DataFusionError>,
    },
}

impl BindError {
    /// The same error at a place of the statement, where one is known.
    pub(crate) fn placed(self, position: Option<(u64, u64)>) -> Self {
        match position {
            Some(position) => Self::At { position, source: Box::new(self) },
            None => self,
        }
    }

    /// Line and column of the statement, from 1, where they are known.
    pub fn position(&self) -> Option<(u64, u64)> {
        match self {
            Self::At { position, .. } => Some(*position),
            _ => None,
        }
    }
}

struct Suggestion<'a>(&'a Option<String>);

impl std::fmt::Display for Suggestion<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(name) => write!(f, "; did you mean `{}`?", visible::line(name)),
            None => Ok(()),
        }
    }
}

/// What to write in the place of a function that there is not.
fn advice(name: &str, suggestion: &Option<String>) -> String {
    const PARTS: [&str; 8] =
        ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"];
    let upper = name.to_uppercase();
    if PARTS.contains(&upper.as_str()) {
        format!("; write EXTRACT({upper} FROM x)")
    } else if upper == "REVENUE" {
        "; REVENUE scores prices: ARGMAX EXPONENTIAL(eps=1) price IN (1, 2) BY REVENUE(bid, price)"
            .to_owned()
    } else if let Some(mechanism) = MechanismName::parse(name) {
        let example = mechanism.example();
        format!("; {upper}(eps=1) stands in front of what it releases, as in {example}")
    } else {
        Suggestion(suggestion).to_string()
    }
}

/// How the planner's context says that a table is unknown; the planner passes the sentence through.
pub(super) const UNKNOWN_TABLE: &str = "unknown table ";

/// What the planner says of a column that is neither grouped nor aggregated, before its name in quotes.
const UNGROUPED: &str = "must be in GROUP BY or an aggregate function";

/// What the planner says before the name of a function that it does not know, in quotes.
const UNKNOWN_FUNCTION: &str = "Invalid function '";

/// What the planner says of arguments that no signature of a function takes, before the call in quotes.
const NO_SIGNATURE: &str = "No function matches the given name and argument types '";

/// What the planner says of a name with a dot whose first part is a column of numbers or texts.
const NO_FIELDS: &str = "Cannot access field";

/// Where in the statement the planner found an error.
pub(super) fn place_of(error: &DataFusionError) -> Option<(u64, u64)> {
    error.diagnostic().and_then(|diagnostic| place(diagnostic.span))
}

/// Line and column at which a span begins.
pub(super) fn place(span: Option<Span>) -> Option<(u64, u64)> {
    span.map(|span| (span.start.line, span.start.column)).filter(|(line, _)| *line > 0)
}

/// The planner's error in the words of who wrote the query.
pub(super) fn explain_error<'a>(
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
                let names: Vec<String> = valid_fields.iter().map(|c| c.name.clone()).collect();
                match nearest(&field.name, names.iter().map(String::as_str)) {
                    None if field.relation.is_none() => {
                        BindError::Unquoted { name: field.name.clone() }
                    }
                    suggestion => BindError::UnknownColumn { name: field.flat_name(), suggestion },
                }
            }
            // An alias in GROUP BY that means an aggregate ends here too.
            SchemaError::DuplicateUnqualifiedField { name } => BindError::Plan {
                message: format!(
                    "two columns are named {}: give each its own alias with AS, and name columns in GROUP BY",
                    in_releases_words(name, releases)
                ),
                source: Box::new(error),
            },
            SchemaError::AmbiguousReference { .. }
            | SchemaError::DuplicateQualifiedField { .. } => said(error, releases),
        },
        DataFusionError::Plan(message) if message.starts_with(UNKNOWN_TABLE) => {
            let name = message.trim_start_matches(UNKNOWN_TABLE).to_owned();
            let suggestion = nearest(&name, sources.keys().map(String::as_str));
            BindError::UnknownTable { name, suggestion }
        }
        DataFusionError::Plan(message) if message.contains(UNGROUPED) => {
            match message.split('"').nth(1) {
                Some(name) => BindError::Ungrouped { name: name.to_owned() },
                None => said(error, releases),
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
                None => said(error, releases),
            }
        }
        _ => said(error, releases),
    }
}

fn is_selector(name: &str) -> bool {
    ["argmax", "argmin"].iter().any(|selector| name.eq_ignore_ascii_case(selector))
}

/// The planner's sentence without its class, and with every marker as the release that was written.
fn said(error: DataFusionError, releases: &[ReleaseClause]) -> BindError {
    let sentence = error.find_root().strip_backtrace();
    let sentence = match error.find_root() {
        _ if sentence.contains(NO_SIGNATURE) => of_signature(&sentence),
        _ if sentence.contains(NO_FIELDS) => {
            "what stands before a dot in this query is no table, and has no fields".to_owned()
        }
        // Its own sentence asks for a bug report.
        DataFusionError::Internal(_) => "the types in this query do not go together".to_owned(),
        _ => {
            let sentence = sentence
                .strip_prefix("Error during planning: ")
                .or_else(|| sentence.strip_prefix("Schema error: "))
                .unwrap_or(&sentence);
            without_dump(sentence).to_owned()
        }
    };
    BindError::Plan { message: in_releases_words(&sentence, releases), source: Box::new(error) }
}

/// What a function takes, where it was called with something else.
fn of_signature(sentence: &str) -> String {
    let (why, call) = sentence.split_once(NO_SIGNATURE).unwrap_or((sentence, ""));
    let call = call.split('\'').next().unwrap_or_default();
    let takes: Vec<&str> = sentence
        .split_once("Candidate functions:")
        .map_or("", |(_, candidates)| candidates)
        .lines()
        .map(str::trim)
        .filter(|candidate| !candidate.is_empty() && !candidate.contains("UserDefined"))
        .collect();
    if takes.is_empty() {
        // A function of ours says it itself, at the end of a chain of prefixes.
        let own = why.rsplit("Error during planning: ").next().unwrap_or(why);
        return own.trim_end_matches([' ', '.']).to_owned();
    }
    format!("no function is called as {call}; there is {}", takes.join(", "))
}

/// A sentence without what the planner shows of its own structures behind it.
fn without_dump(sentence: &str) -> &str {
    match sentence.split_once(" { ") {
        // The structure's name is the last word before.
        Some((before, _)) => before.rsplit_once(' ').map_or(before, |(before, _)| before),
        None => sentence,
    }
}
