//! The options of GoogleSQL's clause, with the values that it allows: constants, columns and NULL.
//!
//! In: a parser before `(`. Out: names and literals. A constant may be computed from numbers; it is
//! computed exactly, and has to be a decimal. NULL means that the option is not given.
//!
//! ```text
//! (epsilon=1/2, privacy_unit_column=v.id, max_groups_contributed=NULL,)
//!     →  [("epsilon", 0.5), ("privacy_unit_column", 'v.id')]
//! ```

use num_traits::Zero;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::clauses::{error, word_at};
use super::literal::{Literal, literal};
use crate::privacy::{Rational, decimal_text, parse_decimal};

/// The most digits behind the point of a computed constant.
const DIGITS: u32 = 40;
/// The most brackets around a constant.
const MOST_BRACKETS: usize = 20;

/// `(name = value, …)`, with names in lower case. There may be none, and a comma behind the last.
pub(super) fn named_options(
    parser: &mut Parser,
    example: &str,
) -> Result<Vec<(String, Literal)>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut named = Vec::new();
    while !parser.consume_token(&Token::RParen) {
        let at = parser.next_token();
        let Token::Word(ref word) = at.token else {
            return parser.expected(&format!("a named parameter, as in {example}"), at);
        };
        let name = word.value.to_lowercase();
        let equals = parser.next_token();
        if !matches!(equals.token, Token::Eq | Token::RArrow) {
            return parser.expected(&format!("= after {name}, as in {example}"), equals);
        }
        let value = value(parser, &name)?;
        if value != Literal::Null {
            named.push((name.clone(), value));
        }
        if !parser.consume_token(&Token::Comma) && parser.peek_token().token != Token::RParen {
            let end = parser.peek_token();
            return parser.expected(&format!(", or ) after {name}"), end);
        }
    }
    Ok(named)
}

/// A word, the path of a column, or a constant.
fn value(parser: &mut Parser, name: &str) -> Result<Literal, ParserError> {
    if parser.peek_token().token == Token::LParen
        && word_at(parser, 1).is_some()
        && parser.peek_nth_token(2).token == Token::RParen
    {
        parser.next_token();
        let inner = value(parser, name)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(inner);
    }
    let is_constant =
        |word: &str| ["true", "false", "null"].iter().any(|one| word.eq_ignore_ascii_case(one));
    match parser.peek_token().token {
        Token::Word(word) if word.quote_style.is_some() || !is_constant(&word.value) => {
            let mut path = parser.parse_identifier()?.value;
            while parser.consume_token(&Token::Period) {
                path = format!("{path}.{}", parser.parse_identifier()?.value);
            }
            Ok(Literal::Text(path))
        }
        _ => constant(parser, name),
    }
}

/// A literal, or a decimal that is computed from numbers by +, −, * and /.
fn constant(parser: &mut Parser, name: &str) -> Result<Literal, ParserError> {
    let is_operator =
        |token: &Token| matches!(token, Token::Plus | Token::Minus | Token::Mul | Token::Div);
    if parser.peek_token().token != Token::LParen {
        let signed = usize::from(is_operator(&parser.peek_token().token));
        if !is_operator(&parser.peek_nth_token(signed + 1).token) {
            return literal(parser);
        }
    }
    let value = sum(parser, MOST_BRACKETS)?;
    let text = decimal_text(&value, DIGITS);
    match parse_decimal(&text).is_some_and(|read| read == value) {
        true => Ok(Literal::Number(text)),
        false => error(parser, &format!("{name} is not a decimal of at most {DIGITS} digits")),
    }
}

fn sum(parser: &mut Parser, brackets: usize) -> Result<Rational, ParserError> {
    let mut total = product(parser, brackets)?;
    loop {
        if parser.consume_token(&Token::Plus) {
            total += product(parser, brackets)?;
        } else if parser.consume_token(&Token::Minus) {
            total -= product(parser, brackets)?;
        } else {
            return Ok(total);
        }
    }
}

fn product(parser: &mut Parser, brackets: usize) -> Result<Rational, ParserError> {
    let mut total = factor(parser, brackets)?;
    loop {
        if parser.consume_token(&Token::Mul) {
            total *= factor(parser, brackets)?;
        } else if parser.consume_token(&Token::Div) {
            let divisor = factor(parser, brackets)?;
            if divisor.is_zero() {
                return error(parser, "a constant cannot be divided by 0");
            }
            total /= divisor;
        } else {
            return Ok(total);
        }
    }
}

fn factor(parser: &mut Parser, brackets: usize) -> Result<Rational, ParserError> {
    if parser.consume_token(&Token::LParen) {
        let Some(left) = brackets.checked_sub(1) else {
            return error(parser, "a constant has fewer brackets than that");
        };
        let inner = sum(parser, left)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(inner);
    }
    let at = parser.peek_token();
    match literal(parser)? {
        Literal::Number(text) => match parse_decimal(&text) {
            Some(value) => Ok(value),
            None => parser.expected("a number", at),
        },
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => parser.expected("a number", at),
    }
}
