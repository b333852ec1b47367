//! Aggregate calls: the one that a mechanism releases, the one that scores a candidate.
//!
//! In: a parser that stands before a call, or the call as sqlparser read it. Out: an [`AggregateCall`], its
//! arguments and its FILTER. Every part of a call that nobody asked for is an error, never dropped.
//!
//! ```text
//! SUM(x) FILTER (WHERE y > 0)  →  AggregateCall { function: Sum, … }, [x], y > 0
//! ```

use sqlparser::ast::{self as sql, Expr, Ident, ObjectName};
use sqlparser::parser::{Parser, ParserError};

use super::ast::{AggregateCall, AggregateName, marked};
use super::literal::literal_of;
use super::spelling::respelled;
use crate::dialect::clauses::number;
use crate::dialect::literal::Literal;

pub(super) type AggregateParts = (AggregateCall, Vec<Expr>, Option<Box<Expr>>);

pub(super) type NamedParts = (AggregateCall, Vec<Expr>, Option<Box<Expr>>, String);

/// The name of an aggregate's column: the call as written, its name in lower case, without named bounds.
pub(super) fn column_name(function: &sql::Function) -> String {
    let mut named = function.clone();
    let name = function.name.to_string().to_lowercase();
    named.name = ObjectName::from(vec![Ident::new(name)]);
    if let sql::FunctionArguments::List(list) = &mut named.args {
        list.args.retain(|argument| !matches!(argument, sql::FunctionArg::Named { .. }));
    }
    named.to_string()
}

/// Exactly one aggregate call, with its FILTER and its name; `expected` says what it is, and where.
pub(super) fn aggregate(parser: &mut Parser, expected: &str) -> Result<NamedParts, ParserError> {
    let at = parser.peek_token();
    let expr = parser.parse_prefix()?;
    let Expr::Function(mut function) = expr else {
        return parser.expected(expected, at);
    };
    respelled(&mut function);
    let text = column_name(&function);
    match aggregate_call(function) {
        Ok((call, arguments, filter)) => Ok((call, arguments, filter, text)),
        Err(message) => Err(ParserError::ParserError(format!("{message}{}", at.span.start))),
    }
}

/// Takes an aggregate's function call apart; the error is a sentence without a position.
pub(super) fn aggregate_call(function: sql::Function) -> Result<AggregateParts, String> {
    let sql::Function {
        name,
        uses_odbc_syntax,
        parameters,
        args,
        filter,
        null_treatment,
        over,
        within_group,
    } = function;
    let written = name.to_string();
    if marked(&written).is_some() {
        return Err("a release cannot stand inside another release: one mechanism stands in front of an aggregate".to_owned());
    }
    let Some(function) = AggregateName::parse(&written) else {
        return Err(format!(
            "{written} is no aggregate that can be released; COUNT, SUM, AVG and STDDEV are"
        ));
    };
    if over.is_some() {
        return Err("a release cannot be a window function; leave out OVER".to_owned());
    }
    if uses_odbc_syntax
        || parameters != sql::FunctionArguments::None
        || null_treatment.is_some()
        || !within_group.is_empty()
    {
        return Err(format!("{written} takes an argument and FILTER, nothing else"));
    }
    let sql::FunctionArguments::List(sql::FunctionArgumentList {
        duplicate_treatment,
        args,
        clauses,
    }) = args
    else {
        return Err(format!("{written} needs an argument"));
    };
    if !clauses.is_empty() {
        return Err(format!("{written} takes no ORDER BY, LIMIT or other clause inside"));
    }
    let mut parsed = AggregateCall {
        distinct: duplicate_treatment == Some(sql::DuplicateTreatment::Distinct),
        ..AggregateCall::of(function)
    };
    let mut arguments = Vec::new();
    for argument in args {
        match argument {
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(expr)) => arguments.push(expr),
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Wildcard) => {
                parsed.star = true;
                arguments.push(number("1"));
            }
            sql::FunctionArg::Named {
                name: bound,
                arg: sql::FunctionArgExpr::Expr(Expr::Tuple(pair)),
                operator: sql::FunctionArgOperator::RightArrow,
            } => {
                let slot = match bound.value.to_lowercase().as_str() {
                    "contribution_bounds_per_group" => &mut parsed.bounds_per_group,
                    "contribution_bounds_per_row" => &mut parsed.bounds_per_row,
                    other => return Err(format!("{written} takes no argument named {other}")),
                };
                let [lo, hi] = pair.as_slice() else {
                    return Err(format!("{bound} takes two numbers: (lo, hi)"));
                };
                let bounds = literal_of(lo).zip(literal_of(hi));
                if slot.replace(bounds.ok_or(format!("{bound} takes two literals"))?).is_some() {
                    return Err(format!("{bound} is given twice"));
                }
            }
            other => return Err(format!("{written} does not take the argument {other}")),
        }
    }
    let (least, most) = match function {
        AggregateName::Unsupported(_) => (1, usize::MAX),
        AggregateName::Quantile => (2, 2),
        AggregateName::Revenue => (2, 3),
        AggregateName::Count
        | AggregateName::Sum
        | AggregateName::Avg
        | AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Spread(_) => (1, 1),
    };
    if !(least..=most).contains(&arguments.len())
        || (parsed.star && (function != AggregateName::Count || parsed.distinct))
    {
        return Err(match function {
            AggregateName::Quantile => {
                format!("{written} takes a column and a fraction: {written}(x, 0.9)")
            }
            AggregateName::Revenue => {
                format!("{written} takes a bid, the price, and a quantity if there is one")
            }
            AggregateName::Count if parsed.star && parsed.distinct => {
                format!("{written}(DISTINCT …) takes a column")
            }
            _ => format!("{written} takes one argument"),
        });
    }
    if function == AggregateName::Quantile {
        let fraction = arguments.pop().as_ref().and_then(literal_of);
        let fraction = fraction.filter(|f| matches!(f, Literal::Number(_)));
        parsed.fraction = Some(fraction.ok_or(format!("the fraction of {written} is a number"))?);
    }
    Ok((parsed, arguments, filter))
}
