//! Why a text is not a statement, and where.

use std::fmt;

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::TokenizerError;

use crate::refusal::Refusal;

/// Why a text is not a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialectError {
    /// The text does not parse.
    #[error("syntax error{}: {message}", LineAndColumn(.position))]
    Syntax {
        /// What was expected.
        message: String,
        /// Line and column, from 1, if they are known.
        position: Option<(u64, u64)>,
    },
    /// The text parses, but asks for something that is not part of the dialect.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

pub(crate) struct LineAndColumn<'a>(&'a Option<(u64, u64)>);

impl fmt::Display for LineAndColumn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, " at line {line}, column {column}"),
            None => Ok(()),
        }
    }
}

impl DialectError {
    pub(crate) fn syntax(message: impl Into<String>, position: Option<(u64, u64)>) -> Self {
        Self::Syntax { message: message.into(), position }
    }
}

impl From<ParserError> for DialectError {
    fn from(error: ParserError) -> Self {
        let message = match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
            ParserError::RecursionLimitExceeded => return crate::dialect::size::too_deep().into(),
        };
        // sqlparser gives positions only as part of its messages.
        match message.rsplit_once(" at Line: ") {
            Some((message, place)) => {
                let position = place
                    .split_once(", Column: ")
                    .and_then(|(l, c)| Some((l.trim().parse().ok()?, c.trim().parse().ok()?)));
                Self::syntax(plain(message), position)
            }
            None => Self::syntax(plain(&message), None),
        }
    }
}

/// A message of the parser without the names of its tokens and of Rust's types.
fn plain(message: &str) -> String {
    const OPERATORS: [(&str, &str, &str); 4] = [
        ("Overlap", "&&", "AND"),
        ("ShiftLeft", "<<", "x * POWER(2, n)"),
        ("ShiftRight", ">>", "x / POWER(2, n)"),
        ("Sharp", "#", "<> of two conditions"),
    ];
    if let Some(token) = message.strip_prefix("No infix parser for token ") {
        let known = OPERATORS.iter().find(|(name, ..)| *name == token);
        return known.map_or_else(
            || "an operator was expected here: comparisons, arithmetic, ||, LIKE or ~".to_owned(),
            |(_, sign, instead)| format!("there is no operator {sign}: write {instead}"),
        );
    }
    if let Some(number) = message.strip_prefix("Could not parse '")
        && let Some((number, _)) = number.split_once("' as u64: number too large")
    {
        return format!("{number} is too large: write a number of at most {}", u64::MAX);
    }
    message.to_owned()
}

impl From<TokenizerError> for DialectError {
    fn from(error: TokenizerError) -> Self {
        Self::syntax(error.message, Some((error.location.line, error.location.column)))
    }
}
