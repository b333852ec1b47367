//! Literals in the dialect's own clauses: alone, in lists and with names.
//!
//! In: a parser at the start of a literal. Out: a [`Literal`], which keeps numbers as they are
//! written, so that a privacy parameter does not lose digits in a float.
//!
//! ```text
//! (eps=1, delta=1e-6) → [("eps", 1), ("delta", 1e-6)]        ('a', NULL, -0.5) → three literals
//! ```

use std::fmt;

use sqlparser::ast::{self as sql, Expr};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// Why a placeholder is refused in one of the dialect's own clauses.
pub(super) const IN_A_CLAUSE: &str =
    "a parameter is not allowed here: write ε, δ, bounds, keys and candidates in the statement";

/// Parameters that are written without a value.
const FLAGS: [&str; 1] = ["jointly"];

/// `(name = literal, …)`, with names in lower case. A flag without a value is TRUE.
pub(super) fn named_literals(
    parser: &mut Parser,
    example: &str,
) -> Result<Vec<(String, Literal)>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    remaining_literals(parser, example)
}

/// `name = literal, …)`: the same after the parenthesis.
pub(super) fn remaining_literals(
    parser: &mut Parser,
    example: &str,
) -> Result<Vec<(String, Literal)>, ParserError> {
    let mut named = Vec::new();
    loop {
        let at = parser.next_token();
        let name = match at.token {
            Token::Word(ref word) => word.value.to_lowercase(),
            _ => return parser.expected(&format!("a named parameter, as in {example}"), at),
        };
        if FLAGS.contains(&name.as_str())
            && matches!(parser.peek_token().token, Token::Comma | Token::RParen)
        {
            named.push((name, Literal::Boolean(true)));
            if parser.next_token().token == Token::RParen {
                return Ok(named);
            }
            continue;
        }
        let equals = parser.next_token();
        if !matches!(equals.token, Token::Eq | Token::RArrow | Token::Assignment) {
            return parser.expected(&format!("= after {name}, as in {example}"), equals);
        }
        let at = parser.peek_token();
        let value = match &at.token {
            Token::Word(word)
                if !["true", "false", "null"]
                    .iter()
                    .any(|w| word.value.eq_ignore_ascii_case(w)) =>
            {
                Literal::Text(parser.parse_identifier()?.value)
            }
            _ => literal(parser)?,
        };
        let end = parser.next_token();
        named.push((name.clone(), value));
        match end.token {
            Token::Comma => {}
            Token::RParen => return Ok(named),
            _ => {
                return parser.expected(
                    &format!(", or ) after {name}: write one literal, not an expression"),
                    end,
                );
            }
        }
    }
}

/// `(literal, …)`.
pub(super) fn literal_list(parser: &mut Parser) -> Result<Vec<Literal>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let list = parser.parse_comma_separated(literal)?;
    parser.expect_token(&Token::RParen)?;
    Ok(list)
}

/// A literal: a signed number, a string, DATE, TIME or TIMESTAMP with a string, TRUE, FALSE or
/// NULL.
pub(super) fn literal(parser: &mut Parser) -> Result<Literal, ParserError> {
    let at = parser.peek_token();
    let negative = parser.consume_token(&Token::Minus);
    if !negative {
        let _ = parser.consume_token(&Token::Plus);
    }
    let token = parser.next_token();
    match token.token {
        Token::Number(text, _) => {
            Ok(Literal::Number(if negative { format!("-{text}") } else { text }))
        }
        Token::SingleQuotedString(text) if !negative => Ok(Literal::Text(text)),
        Token::Placeholder(_) => {
            Err(ParserError::ParserError(format!("{IN_A_CLAUSE}{}", at.span.start)))
        }
        Token::Word(ref word) if word.quote_style.is_none() && !negative => match word.keyword {
            Keyword::TRUE => Ok(Literal::Boolean(true)),
            Keyword::FALSE => Ok(Literal::Boolean(false)),
            Keyword::NULL => Ok(Literal::Null),
            Keyword::DATE | Keyword::TIME | Keyword::TIMESTAMP => {
                parser.parse_literal_string().map(Literal::Text)
            }
            _ => parser.expected("a literal", token),
        },
        _ => parser.expected("a literal", at),
    }
}

/// The literal that an expression consists of. `None` for any other expression.
pub(super) fn literal_of(expr: &Expr) -> Option<Literal> {
    match expr {
        Expr::Value(value) => match &value.value {
            sql::Value::Number(text, _) => Some(Literal::Number(text.clone())),
            sql::Value::SingleQuotedString(text) => Some(Literal::Text(text.clone())),
            sql::Value::Boolean(b) => Some(Literal::Boolean(*b)),
            sql::Value::Null => Some(Literal::Null),
            _ => None,
        },
        Expr::UnaryOp { op: sql::UnaryOperator::Minus, expr } => match literal_of(expr)? {
            Literal::Number(text) => Some(Literal::Number(format!("-{text}"))),
            _ => None,
        },
        Expr::TypedString(typed) => match &typed.value.value {
            sql::Value::SingleQuotedString(text) => Some(Literal::Text(text.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// A literal in one of the dialect's own clauses, kept as text until its column's type is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Literal {
    /// A number, as written, with its sign.
    Number(String),
    /// A string, or the text of `DATE '…'` or `TIMESTAMP '…'`.
    Text(String),
    /// TRUE or FALSE.
    Boolean(bool),
    /// NULL.
    Null,
}

impl Literal {
    /// The value as text. `None` for NULL.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Number(text) | Self::Text(text) => Some(text.clone()),
            Self::Boolean(value) => Some(value.to_string()),
            Self::Null => None,
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(text) => f.write_str(text),
            Self::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Boolean(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Self::Null => f.write_str("NULL"),
        }
    }
}
