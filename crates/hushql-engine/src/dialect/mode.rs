//! `MODE(x)`: the most frequent value, written like an aggregate.
//!
//! In: a parser after a mechanism, or at a bare call; later the SELECT. Out: the parts of the
//! selection `ARGMAX … x`, and x among the keys of GROUP BY, where the candidates of a selection
//! belong. A bare call is a selection at the default cost.
//!
//! ```text
//! SELECT sex, EXPONENTIAL(eps=1) MODE(status) FROM adult GROUP BY sex
//! SELECT sex, ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY sex, status
//! ```

use sqlparser::ast::{self as sql, Expr, GroupByExpr, SelectItem};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::aggregate::{PlainCall, plain_call};
use super::ast::{AggregateCall, Operand, SelectionClause, Selector, marked};
use crate::dialect::clauses::{number, word_at};
use crate::dialect::error::DialectError;

/// Whether a call of MODE comes next.
pub(super) fn starts_mode(parser: &Parser) -> bool {
    word_at(parser, 0).is_some_and(|word| word.value.eq_ignore_ascii_case("mode"))
        && parser.peek_nth_token(1).token == Token::LParen
}

/// The parts of a MODE: its operand, arguments and FILTER, and the name of its column.
type Mode = (Operand, Vec<Expr>, Option<Box<Expr>>, String);

/// Reads `MODE(x)` or `MODE() WITHIN GROUP (ORDER BY x)`, with its FILTER.
pub(super) fn mode(parser: &mut Parser) -> Result<Mode, ParserError> {
    let at = parser.peek_token().span.start;
    let wrong = || {
        let how = "MODE takes one column: MODE(x), or MODE() WITHIN GROUP (ORDER BY x)";
        ParserError::ParserError(format!("{how}{at}"))
    };
    let Some(PlainCall { args, filter, within_group, text }) = plain_call(parser)? else {
        return Err(wrong());
    };
    let target = match (args.as_slice(), within_group.as_slice()) {
        ([sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(x))], []) => x,
        // The order does not matter: several most frequent values are equally good.
        ([], [sql::OrderByExpr { expr: x, options: _, with_fill: None }]) => x,
        _ => return Err(wrong()),
    };
    if matches!(target, Expr::Value(_)) {
        return Err(wrong());
    }
    let selection = SelectionClause {
        selector: Selector::ArgMax,
        candidates: None,
        named: false,
        score: AggregateCall::count_star(),
        by: "COUNT(*)".to_owned(),
        prior: None,
    };
    let arguments = vec![target.clone(), number("1")];
    Ok((Operand::Selection(Box::new(selection)), arguments, filter, text))
}

/// Adds the columns that MODE counts in a SELECT list to the keys of its GROUP BY.
///
/// # Errors
/// A syntax error for the MODE of a key, because each group has only one value of a key.
pub(super) fn group_by_modes(
    projection: &[SelectItem],
    group_by: &mut GroupByExpr,
    modes: &[usize],
) -> Result<(), DialectError> {
    let GroupByExpr::Expressions(keys, _) = group_by else { return Ok(()) };
    for item in projection {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => expr,
            SelectItem::ExprWithAliases { .. }
            | SelectItem::QualifiedWildcard(..)
            | SelectItem::Wildcard(_) => continue,
        };
        let Expr::Function(call) = expr else { continue };
        let is_mode = marked(&call.name.to_string()).is_some_and(|n| modes.contains(&n));
        let sql::FunctionArguments::List(list) = &call.args else { continue };
        let (true, Some(sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(x)))) =
            (is_mode, list.args.first())
        else {
            continue;
        };
        if keys.contains(x) {
            let message = format!(
                "each group of {x} has one value of {x}; leave it out of GROUP BY to ask for its MODE"
            );
            return Err(DialectError::syntax(message, None));
        }
        keys.push(x.clone());
    }
    Ok(())
}
