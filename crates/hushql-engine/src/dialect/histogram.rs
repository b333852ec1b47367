//! `HISTOGRAM(x, n)`: the number of rows in each of n classes, written like an aggregate.
//!
//! In: a parser after a mechanism, or at a bare call; later the SELECT. Out: the class as a key in
//! place of the call, and COUNT(*) as an additional item.
//!
//! ```text
//! SELECT LAPLACE(eps=1) HISTOGRAM(age, 8) FROM adult
//! SELECT histogram(age, 8), LAPLACE(eps=1) COUNT(*) AS count FROM adult GROUP BY histogram(age, 8)
//! ```

use sqlparser::ast::{self as sql, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, SelectItem};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::aggregate::{PlainCall, plain_call};
use super::ast::{AggregateCall, Operand};
use crate::catalog::RESERVED;
use crate::dialect::clauses::{call, number, numbered, word_at};
use crate::dialect::error::DialectError;

/// The name of the count's column.
const COUNT: &str = "count";

/// Whether a call of HISTOGRAM comes next.
pub(super) fn starts_histogram(parser: &Parser) -> bool {
    word_at(parser, 0).is_some_and(|word| word.value.eq_ignore_ascii_case("histogram"))
        && parser.peek_nth_token(1).token == Token::LParen
}

/// A HISTOGRAM as it is written.
pub(super) struct Histogram {
    /// `histogram(x, n)`, the class.
    pub(super) class: Expr,
    pub(super) filter: Option<Box<Expr>>,
}

/// Reads `HISTOGRAM(x, n)`, with its FILTER.
pub(super) fn histogram(parser: &mut Parser) -> Result<Histogram, ParserError> {
    let at = parser.peek_token().span.start;
    let wrong = || {
        let how = "HISTOGRAM takes a number and the number of its classes: HISTOGRAM(x, 10)";
        ParserError::ParserError(format!("{how}{at}"))
    };
    let Some(PlainCall { args, filter, within_group, .. }) = plain_call(parser)? else {
        return Err(wrong());
    };
    let [
        sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(x)),
        sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(n)),
    ] = args.as_slice()
    else {
        return Err(wrong());
    };
    if !within_group.is_empty() {
        return Err(wrong());
    }
    Ok(Histogram { class: call("histogram".to_owned(), vec![x.clone(), n.clone()]), filter })
}

/// The operand of a mechanism before HISTOGRAM: COUNT(*).
pub(super) fn counted() -> (Operand, Vec<Expr>) {
    (Operand::Aggregate(AggregateCall::count_star()), vec![number("1")])
}

/// A bare COUNT(*) with a filter.
pub(super) fn bare_count(filter: Option<Box<Expr>>) -> Expr {
    let mut count = call("count".to_owned(), Vec::new());
    if let Expr::Function(function) = &mut count {
        if let sql::FunctionArguments::List(list) = &mut function.args {
            list.args.push(sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Wildcard));
        }
        function.filter = filter;
    }
    count
}

/// The count of a histogram, marked so that the SELECT can be rewritten later.
pub(super) fn marked_histogram(class: Expr, count: Expr) -> Expr {
    call(format!("{RESERVED}_histogram_0"), vec![class, count])
}

/// The class and the count of a marked histogram.
fn parts(expr: &Expr) -> Option<(Expr, Expr)> {
    let Expr::Function(function) = expr else { return None };
    numbered(&function.name.to_string(), "_histogram_")?;
    let sql::FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(class)),
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(count)),
        ] => Some((class.clone(), count.clone())),
        _ => None,
    }
}

/// Replaces the HISTOGRAM in a SELECT list by its class, and adds the class to GROUP BY and the
/// count to the list. GROUP BY and ORDER BY may name the same HISTOGRAM again.
///
/// # Errors
/// A syntax error for a second HISTOGRAM, because the classes of both would be combined.
pub(super) fn spell_out_histogram(
    projection: &mut Vec<SelectItem>,
    group_by: &mut GroupByExpr,
    order_by: Option<&mut OrderBy>,
) -> Result<(), DialectError> {
    let mut found = None;
    for item in projection.iter_mut() {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => expr,
            SelectItem::ExprWithAliases { .. }
            | SelectItem::QualifiedWildcard(..)
            | SelectItem::Wildcard(_) => continue,
        };
        let Some((class, count)) = parts(expr) else { continue };
        expr.clone_from(&class);
        if found.replace((class, count)).is_some() {
            let message =
                "a SELECT has one HISTOGRAM; write a second one as a statement of its own";
            return Err(DialectError::syntax(message, None));
        }
    }
    let Some((class, count)) = found else { return Ok(()) };
    if let GroupByExpr::Expressions(keys, _) = group_by {
        keys.retain(|key| parts(key).is_none_or(|(other, _)| other != class));
        keys.push(class.clone());
    }
    if let Some(order_by) = order_by
        && let OrderByKind::Expressions(keys) = &mut order_by.kind
    {
        for key in keys {
            if parts(&key.expr).is_some_and(|(other, _)| other == class) {
                key.expr = class.clone();
            }
        }
    }
    projection.push(SelectItem::ExprWithAlias { expr: count, alias: Ident::new(COUNT) });
    Ok(())
}

/// Refuses a HISTOGRAM inside an expression, because it stands for two columns.
///
/// # Errors
/// A syntax error.
pub(super) fn no_histogram(expr: &Expr) -> Result<(), DialectError> {
    match parts(expr) {
        None => Ok(()),
        Some(_) => {
            let message =
                "HISTOGRAM is an item of the SELECT list by itself: SELECT HISTOGRAM(x, 10) FROM t";
            Err(DialectError::syntax(message, None))
        }
    }
}
