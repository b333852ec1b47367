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
                Self::syntax(message, position)
            }
            None => Self::syntax(message, None),
        }
    }
}

impl From<TokenizerError> for DialectError {
    fn from(error: TokenizerError) -> Self {
        Self::syntax(error.message, Some((error.location.line, error.location.column)))
    }
}
