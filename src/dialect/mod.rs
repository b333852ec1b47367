//! Stage 1: text → [`Statement`].
//!
//! In: one statement of the dialect as text. Out: a [`Statement`] whose queries are plain SQL with one
//! marker per release, the release clauses beside it. Nothing is resolved; nothing is read.
//! The identifiers that begin with `__hushql` are the engine's: nobody can write a marker by hand.
//!
//! ```
//! use hushql::dialect::{Statement, parse};
//!
//! let statement = parse("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status")?;
//! let Statement::Query(query) = statement else { unreachable!() };
//! assert_eq!(query.releases[0].text, "status");
//! # Ok::<(), hushql::dialect::DialectError>(())
//! ```

mod advice;
mod aggregate;
mod allow;
mod ast;
mod candidates;
mod declaration;
mod domain_query;
mod literal;
mod lower;
mod parameters;
mod parser;
mod script;
mod size;
mod statement;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub use ast::{
    AggregateCall, AggregateName, CandidatesClause, ColumnName, ExplainFormat, Finding,
    GroupStrategy, GroupingClause, KeysClause, Literal, MechanismName, Operand, Parameters,
    PriorClause, QueryStatement, ReleaseClause, SelectionClause, Selector, Spread, Statement,
    candidate_marker, candidate_of, marked, marker,
};
pub use script::{ScriptStatement, split};
pub use size::Size;
pub(crate) use size::tables;

pub(crate) use domain_query::magnitude_name;
pub(crate) use view::view_query;
pub(crate) use words::{hiding_markers, in_releases_words};

pub use declaration::{
    Allowance, Declaration, DomainClause, LimitClause, PerQueryClause, Show, UnitClause,
};

use std::fmt;

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::catalog::RESERVED;
use crate::refusal::Refusal;

/// Why a text is no statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialectError {
    /// The text does not parse.
    #[error("syntax error{}: {message}", Place(.position))]
    Syntax {
        /// What was expected.
        message: String,
        /// Line and column, from 1, where it is known.
        position: Option<(u64, u64)>,
    },
    /// The text parses and asks for what the dialect leaves out.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

struct Place<'a>(&'a Option<(u64, u64)>);

impl fmt::Display for Place<'_> {
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
            ParserError::RecursionLimitExceeded => return size::too_deep().into(),
        };
        // The parser writes positions into its sentences only.
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

/// Reads one statement of the usual size; a `;` at its end is allowed.
///
/// # Errors
/// See [`parse_within`].
pub fn parse(text: &str) -> Result<Statement, DialectError> {
    parse_within(text, &Size::default())
}

/// Reads one statement of at most this size; a `;` at its end is allowed.
///
/// # Errors
/// [`DialectError::Syntax`] with the position, or [`DialectError::Refused`] for clauses of SQL that the
/// dialect leaves out, and for statements that are too large.
pub fn parse_within(text: &str, size: &Size) -> Result<Statement, DialectError> {
    size.check_text(text)?;
    let tokens = significant(tokens(text)?)?;
    size.check_tokens(&tokens)?;
    // The parser of a debug build takes 40 KiB for a level of brackets.
    stacker::maybe_grow(4 << 20, 16 << 20, || statement::parse(text, tokens))
        .map_err(|error| advice::advised(text, error))
}

fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, DialectError> {
    Ok(Tokenizer::new(&parser::HushDialect::default(), text).tokenize_with_location()?)
}

/// Drops white space, frees TOP of its keyword, and keeps our reserved names to ourselves.
fn significant(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, DialectError> {
    let mut kept = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        match &mut token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) => {
                keep_ours(&word.value, token.span.start)?;
                // sqlparser would read TOP as a clause of SELECT, also where it names a column.
                if word.keyword == sqlparser::keywords::Keyword::TOP {
                    word.keyword = sqlparser::keywords::Keyword::NoKeyword;
                }
            }
            // sqlparser takes quoted strings for aliases too.
            Token::SingleQuotedString(text)
            | Token::DoubleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::NationalStringLiteral(text)
            | Token::UnicodeStringLiteral(text)
            | Token::TripleSingleQuotedString(text)
            | Token::TripleDoubleQuotedString(text) => keep_ours(text, token.span.start)?,
            Token::DollarQuotedString(text) => keep_ours(&text.value, token.span.start)?,
            _ => {}
        }
        kept.push(token);
    }
    Ok(kept)
}

/// Refuses a name that only the engine may use.
fn keep_ours(name: &str, at: Location) -> Result<(), DialectError> {
    if name.to_lowercase().starts_with(RESERVED) {
        return Err(DialectError::syntax(
            format!("names that begin with {RESERVED} belong to the engine"),
            Some((at.line, at.column)),
        ));
    }
    Ok(())
}
