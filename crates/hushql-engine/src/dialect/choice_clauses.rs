//! Reads the clauses of a choice: its target, its candidates, its score and its prior.
//!
//! In: a parser after the mechanism. Out: the operand, and the arguments of its marker.
//!
//! ```text
//! status IN ('a', 'b') BY SUM(x) PRIOR weights(status, w)   →   a SelectionClause, [status, x]
//! ```

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::aggregate::aggregate;
use super::ast::{
    AggregateCall, AggregateName, CandidatesClause, Operand, PriorClause, SelectionClause, Selector,
};
use super::literal::{literal, literal_list};
use crate::dialect::clauses::{error, folded, number, take_word, word_at};

/// An operand, its arguments, its FILTER, and its text.
pub(super) type SelectionParts = (Operand, Vec<Expr>, Option<Box<Expr>>, String);

/// `status [IN (…)] [BY score] [PRIOR …]` after the mechanism. The target binds tighter than IN.
pub(super) fn selection(
    parser: &mut Parser,
    (name, count): (&str, Option<&str>),
    tighter: u8,
) -> Result<SelectionParts, ParserError> {
    let count = match count.map(str::parse::<u64>) {
        Some(Ok(0) | Err(_)) => {
            return error(parser, &format!("{name} takes a whole number of at least 1"));
        }
        Some(Ok(k)) => k,
        None => 1,
    };
    let selector = match name {
        "ARGMAX" => Selector::ArgMax,
        "ARGMIN" => Selector::ArgMin,
        "TOP" => Selector::Top(count),
        _ => Selector::Bottom(count),
    };
    let at = parser.peek_token().span.start;
    let target = parser.parse_subexpr(tighter)?;
    if let Some(aggregate) = aggregate_of(&target) {
        let how = format!(
            "{selector} chooses among candidates; {aggregate} is one number: LAPLACE(eps=1) {aggregate}"
        );
        return Err(ParserError::ParserError(format!("{how}{at}")));
    }
    let candidates = candidates(parser)?;
    let text = name_of(&target);
    let mut arguments = vec![target];
    let (score, filter, by) = if parser.parse_keyword(Keyword::BY) {
        let (score, argument, filter, by) =
            aggregate(parser, "an aggregate after BY, such as COUNT(*)")?;
        arguments.extend(argument);
        let arguments = by.find('(').map_or("", |at| &by[at..]);
        (score.clone(), filter, format!("{}{arguments}", score.function))
    } else {
        arguments.push(number("1"));
        (AggregateCall::count_star(), None, "COUNT(*)".to_owned())
    };
    let prior = prior(parser)?;
    if prior.is_some() && word_at(parser, 0).is_some_and(|w| w.keyword == Keyword::BY) {
        return error(parser, "write PRIOR after BY");
    }
    let selection = SelectionClause { selector, candidates, named: false, score, by, prior };
    Ok((Operand::Selection(Box::new(selection)), arguments, filter, text))
}

/// `IN (…)` or `IN RANGE(lo, hi [, step])`, if it comes next.
fn candidates(parser: &mut Parser) -> Result<Option<CandidatesClause>, ParserError> {
    if !parser.parse_keyword(Keyword::IN) {
        return Ok(None);
    }
    if !take_word(parser, "range") {
        return Ok(Some(CandidatesClause::List(literal_list(parser)?)));
    }
    parser.expect_token(&Token::LParen)?;
    let lo = literal(parser)?;
    parser.expect_token(&Token::Comma)?;
    let hi = literal(parser)?;
    let step = match parser.consume_token(&Token::Comma) {
        true => Some(literal(parser)?),
        false => None,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(Some(CandidatesClause::Range { lo, hi, step }))
}

/// `PRIOR table(key, weight)` or `PRIOR LOG_UNIFORM`, if it comes next.
fn prior(parser: &mut Parser) -> Result<Option<PriorClause>, ParserError> {
    let starts = word_at(parser, 0).is_some_and(|w| w.value.eq_ignore_ascii_case("prior"));
    let log = word_at(parser, 1).is_some_and(|w| w.value.eq_ignore_ascii_case("log_uniform"));
    let table = parser.peek_nth_token(2).token == Token::LParen
        && matches!(parser.peek_nth_token(1).token, Token::Word(_));
    if !starts || !(log || table) {
        return Ok(None);
    }
    parser.next_token();
    if log {
        parser.next_token();
        return Ok(Some(PriorClause::LogUniform));
    }
    let table = folded(&parser.parse_identifier()?);
    parser.expect_token(&Token::LParen)?;
    let key = folded(&parser.parse_identifier()?);
    parser.expect_token(&Token::Comma)?;
    let weight = folded(&parser.parse_identifier()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Some(PriorClause::Table { table, key, weight }))
}

/// An operand as text. For a bare name, the name of its column.
pub(super) fn name_of(operand: &Expr) -> String {
    match operand {
        Expr::Identifier(ident) => folded(ident),
        other => other.to_string(),
    }
}

/// The operand, if it is an aggregate instead of a column.
pub(super) fn aggregate_of(operand: &Expr) -> Option<&Expr> {
    match operand {
        Expr::Function(call) if call.over.is_none() => {
            AggregateName::parse(&call.name.to_string()).map(|_| operand)
        }
        _ => None,
    }
}
