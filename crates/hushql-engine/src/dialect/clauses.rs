//! The clauses that releases add to SQL, and the marker functions that represent them in the tree.

use sqlparser::ast::{self as sql, Expr, Ident, ObjectName};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Word};

use crate::catalog::RESERVED;
use crate::dialect::ast::{GroupStrategy, GroupingClause, KeysClause, Parameters, ReleaseClause};
use crate::privacy::Epsilon;

/// The name of the function that wraps a GROUP BY expression with KEYS.
pub(crate) fn keys_marker(n: usize) -> String {
    format!("{RESERVED}_keys_{n}")
}

/// The name of the function that wraps the first item of a SELECT WITH DIFFERENTIAL_PRIVACY.
pub(crate) fn options_marker(n: usize) -> String {
    format!("{RESERVED}_options_{n}")
}

/// The number in the name of a reserved function of this kind. `None` for any other name.
pub(crate) fn numbered(name: &str, kind: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix(kind)?.parse().ok()
}

/// `OPTIONS(…)` of GoogleSQL's clause.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) parameters: Parameters,
    pub(crate) unit_column: Option<String>,
    pub(crate) strategy: Option<GroupStrategy>,
    pub(crate) min_units: Option<u64>,
    /// `group_selection_epsilon`.
    pub(crate) threshold: Option<Epsilon>,
}

impl Options {
    /// The settings for groups, if `bare` aggregates share this ε, and the threshold does where
    /// units are counted for it alone.
    pub(crate) fn grouping(&self, epsilon: Option<Epsilon>, bare: usize) -> GroupingClause {
        GroupingClause {
            epsilon,
            threshold: self.threshold.clone(),
            delta: self.parameters.delta.clone(),
            bare,
            strategy: self.strategy,
            min_units: self.min_units,
        }
    }
}

/// The clauses that the parser's hooks have read so far, by number.
#[derive(Debug, Default, Clone)]
pub(crate) struct Clauses {
    pub(crate) releases: Vec<ReleaseClause>,
    pub(crate) keys: Vec<KeysClause>,
    pub(crate) options: Vec<Options>,
    /// The number of sets of ROLLUP, CUBE and GROUPING SETS.
    pub(crate) sets: usize,
    /// The releases that are written as MODE.
    pub(crate) modes: Vec<usize>,
}

/// A call of one of the engine's own functions.
pub(crate) fn call(name: String, arguments: Vec<Expr>) -> Expr {
    Expr::Function(sql::Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: sql::FunctionArguments::None,
        args: sql::FunctionArguments::List(sql::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments
                .into_iter()
                .map(|e| sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(e)))
                .collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A name as SQL resolves it: unquoted letters count as lower case.
pub(crate) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

pub(crate) fn number(text: &str) -> Expr {
    Expr::Value(sql::Value::Number(text.to_owned(), false).into())
}

/// Consumes the next word, which must be this one.
pub(crate) fn expect_word(parser: &mut Parser, word: &str) -> Result<(), ParserError> {
    let token = parser.next_token();
    match &token.token {
        Token::Word(found) if found.value.eq_ignore_ascii_case(word) => Ok(()),
        _ => parser.expected(word, token),
    }
}

/// Consumes the next word if it is this one. Returns whether it was.
pub(crate) fn take_word(parser: &mut Parser, word: &str) -> bool {
    let found = word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case(word));
    if found {
        parser.next_token();
    }
    found
}

/// An error at the current position.
pub(crate) fn error<T>(parser: &Parser, message: &str) -> Result<T, ParserError> {
    let at = parser.peek_token().span.start;
    Err(ParserError::ParserError(format!("{message}{at}")))
}

pub(crate) fn word_at(parser: &Parser, n: usize) -> Option<Word> {
    match parser.peek_nth_token(n).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    }
}
