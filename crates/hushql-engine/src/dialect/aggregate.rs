//! Reads aggregate calls: the operand of a mechanism, or the score of a candidate.
//!
//! In: a parser at the start of a call, or the call as sqlparser read it. Out: an
//! [`AggregateCall`], its arguments and its FILTER. An unexpected part of a call is an error;
//! nothing is dropped.
//!
//! ```text
//! SUM(x) FILTER (WHERE y > 0)  →  AggregateCall { function: Sum, … }, [x], y > 0
//! ```

use sqlparser::ast::{self as sql, Expr, Ident, ObjectName};
use sqlparser::parser::{Parser, ParserError};

use super::ast::{AggregateCall, AggregateName, marked};
use super::calendar_calls::number_times;
use super::literal::literal_of;
use super::quantile_list::fractions_of;
use super::spelling::respelled;
use crate::dialect::clauses::number;
use crate::dialect::literal::Literal;

pub(super) type AggregateParts = (AggregateCall, Vec<Expr>, Option<Box<Expr>>);

pub(super) type NamedParts = (AggregateCall, Vec<Expr>, Option<Box<Expr>>, String);

/// Aggregates that are not released, and what to write instead.
const INSTEAD: [(&str, &str); 12] = [
    ("any_value", "write EXPONENTIAL(eps=1) MODE(x), or name x among the keys of GROUP BY"),
    ("approx_distinct", "write LAPLACE(eps=1) COUNT(DISTINCT x)"),
    ("approx_percentile_cont_with_weight", "write EXPONENTIAL(eps=1) QUANTILE(x, 0.5)"),
    ("array_agg", "write SELECT x, LAPLACE(eps=1) COUNT(*) … GROUP BY x"),
    ("bool_and", "write LAPLACE(eps=1) COUNT(*) FILTER (WHERE NOT (x))"),
    ("bool_or", "write LAPLACE(eps=1) COUNT(*) FILTER (WHERE x)"),
    ("first_value", "write EXPONENTIAL(eps=1) MIN(x)"),
    ("last_value", "write EXPONENTIAL(eps=1) MAX(x)"),
    ("nth_value", "write EXPONENTIAL(eps=1) QUANTILE(x, 0.5)"),
    ("ntile", "write EXPONENTIAL(eps=1) QUANTILE(x, 0.25), and the like for the other ends"),
    ("regr_count", "write LAPLACE(eps=1) COUNT(*) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)"),
    ("string_agg", "write SELECT x, LAPLACE(eps=1) COUNT(*) … GROUP BY x"),
];

/// What to write instead of an aggregate that is not released.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    let known = INSTEAD.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
    known.map(|(_, instead)| *instead)
}

/// What stands between the parentheses of a call, up to the first comma outside of others. `x` if
/// the text is not a call.
pub(crate) fn argument_of(call: &str) -> &str {
    let Some((_, inside)) = call.split_once('(') else { return "x" };
    let mut open = 0_usize;
    let end = inside.find(|sign| match sign {
        '(' => {
            open += 1;
            false
        }
        ')' | ',' if open == 0 => true,
        ')' => {
            open -= 1;
            false
        }
        _ => false,
    });
    let argument = end.and_then(|end| inside.get(..end)).unwrap_or("x").trim();
    argument.strip_prefix("DISTINCT ").unwrap_or(argument)
}

/// The name of an aggregate's column: the call as written, with its name in lower case and without
/// named bounds.
pub(super) fn column_name(function: &sql::Function) -> String {
    let mut named = function.clone();
    let name = function.name.to_string().to_lowercase();
    named.name = ObjectName::from(vec![Ident::new(name)]);
    if let sql::FunctionArguments::List(list) = &mut named.args {
        list.args.retain(|argument| !matches!(argument, sql::FunctionArg::Named { .. }));
    }
    named.to_string()
}

/// A call with arguments, and perhaps FILTER and WITHIN GROUP, but no other clause.
pub(super) struct PlainCall {
    pub(super) args: Vec<sql::FunctionArg>,
    pub(super) filter: Option<Box<Expr>>,
    pub(super) within_group: Vec<sql::OrderByExpr>,
    /// The name of the call's column.
    pub(super) text: String,
}

/// Reads a call to which the dialect gives a meaning of its own. `None` for a call with other
/// clauses.
pub(super) fn plain_call(parser: &mut Parser) -> Result<Option<PlainCall>, ParserError> {
    // Reading an expression would read the same call again, without end.
    let name = parser.parse_object_name(false)?;
    let Expr::Function(function) = parser.parse_function(name)? else { return Ok(None) };
    let text = column_name(&function);
    let sql::Function {
        name: _,
        uses_odbc_syntax: false,
        parameters: sql::FunctionArguments::None,
        args:
            sql::FunctionArguments::List(sql::FunctionArgumentList {
                duplicate_treatment: None,
                args,
                clauses,
            }),
        filter,
        null_treatment: None,
        over: None,
        within_group,
    } = function
    else {
        return Ok(None);
    };
    Ok(clauses.is_empty().then_some(PlainCall { args, filter, within_group, text }))
}

/// Reads exactly one aggregate call, with its FILTER and the name of its column. `expected`
/// describes the call in the error.
pub(super) fn aggregate(parser: &mut Parser, expected: &str) -> Result<NamedParts, ParserError> {
    let at = parser.peek_token();
    let expr = parser.parse_prefix()?;
    let Expr::Function(mut function) = expr else {
        return parser.expected(expected, at);
    };
    respelled(&mut function);
    let text = column_name(&function);
    number_times(&mut function, &|_| false);
    match aggregate_call(function) {
        Ok((call, arguments, filter)) => Ok((call, arguments, filter, text)),
        Err(message) => Err(ParserError::ParserError(format!("{message}{}", at.span.start))),
    }
}

/// Splits the call of an aggregate into its parts. The error is a sentence without a position.
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
        return Err(
            "a release cannot contain another release: write one mechanism before each aggregate"
                .to_owned(),
        );
    }
    let Some(function) = AggregateName::parse(&written) else {
        let instead = instead_of(&written).unwrap_or("use COUNT, SUM, AVG or STDDEV");
        return Err(format!("{written} is not an aggregate that can be released; {instead}"));
    };
    if over.is_some() {
        return Err("a release cannot be a window function; leave out OVER".to_owned());
    }
    if uses_odbc_syntax
        || parameters != sql::FunctionArguments::None
        || null_treatment.is_some()
        || !within_group.is_empty()
    {
        return Err(format!("{written} takes only an argument and FILTER"));
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
        return Err(format!(
            "{written} takes no ORDER BY, LIMIT or other clause in its parentheses"
        ));
    }
    let mut parsed = AggregateCall {
        distinct: duplicate_treatment == Some(sql::DuplicateTreatment::Distinct),
        ..AggregateCall::for_function(function)
    };
    let mut arguments = read_arguments(&written, args, &mut parsed)?;
    if function == AggregateName::Quantiles && arguments.len() > 1 {
        let fractions = arguments.split_off(1);
        parsed.fractions = fractions_of(&fractions).ok_or(format!(
            "the fractions of {written} must be numbers: {written}(x, (0.25, 0.5, 0.75))"
        ))?;
    }
    check_arguments(&written, &parsed, arguments.len())?;
    if function == AggregateName::Count
        && !parsed.distinct
        && let [Expr::Value(counted)] = arguments.as_slice()
        && matches!(&counted.value, sql::Value::Number(text, _) if text == "0" || text == "1")
    {
        // This counts rows as COUNT(*) does, so it is the same release.
        (parsed.star, arguments) = (true, vec![number("1")]);
    }
    if function == AggregateName::Cdf {
        let bins = arguments.pop().as_ref().and_then(literal_of);
        let bins = bins.filter(|n| matches!(n, Literal::Number(_)));
        parsed.fractions = vec![
            bins.ok_or(format!("the number of bins of {written} must be a number, such as 100"))?,
        ];
    }
    if function == AggregateName::Quantile {
        let fraction = arguments.pop().as_ref().and_then(literal_of);
        let fraction = fraction.filter(|f| matches!(f, Literal::Number(_)));
        parsed.fractions = vec![
            fraction.ok_or(format!("the fraction of {written} must be a number, such as 0.9"))?,
        ];
    }
    Ok((parsed, arguments, filter))
}

/// The arguments of an aggregate; `*` and named bounds go into `call`.
fn read_arguments(
    written: &str,
    args: Vec<sql::FunctionArg>,
    call: &mut AggregateCall,
) -> Result<Vec<Expr>, String> {
    let mut arguments = Vec::new();
    for argument in args {
        match argument {
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(expr)) => arguments.push(expr),
            sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Wildcard) => {
                call.star = true;
                arguments.push(number("1"));
            }
            sql::FunctionArg::Named {
                name: bound,
                arg: sql::FunctionArgExpr::Expr(Expr::Tuple(pair)),
                operator: sql::FunctionArgOperator::RightArrow,
            } => {
                let slot = match bound.value.to_lowercase().as_str() {
                    "contribution_bounds_per_group" => &mut call.bounds_per_group,
                    "contribution_bounds_per_row" => &mut call.bounds_per_row,
                    other => return Err(format!("{written} takes no argument named {other}")),
                };
                let [lo, hi] = pair.as_slice() else {
                    return Err(format!("{bound} takes two bounds: {bound} => (lo, hi)"));
                };
                let bounds = literal_of(lo).zip(literal_of(hi));
                if slot
                    .replace(bounds.ok_or(format!("the bounds of {bound} must be literals"))?)
                    .is_some()
                {
                    return Err(format!("{bound} is given twice"));
                }
            }
            other => return Err(format!("{written} does not take the argument {other}")),
        }
    }
    Ok(arguments)
}

/// Refuses `*` and a number of arguments that the aggregate does not take.
fn check_arguments(written: &str, call: &AggregateCall, count: usize) -> Result<(), String> {
    let (least, most) = match call.function {
        AggregateName::Unsupported(_) => (1, usize::MAX),
        AggregateName::Quantile | AggregateName::Cdf | AggregateName::Joint(_) => (2, 2),
        AggregateName::Revenue => (2, 3),
        AggregateName::Count
        | AggregateName::Sum
        | AggregateName::Avg
        | AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantiles
        | AggregateName::Spread(_) => (1, 1),
    };
    let is_without = call.function == AggregateName::Quantiles && call.fractions.is_empty();
    if !(least..=most).contains(&count)
        || is_without
        || (call.star && (call.function != AggregateName::Count || call.distinct))
    {
        return Err(match call.function {
            AggregateName::Quantile => {
                format!("{written} takes a column and a fraction: {written}(x, 0.9)")
            }
            AggregateName::Quantiles => {
                format!("{written} takes a column and fractions: {written}(x, (0.25, 0.5, 0.75))")
            }
            AggregateName::Cdf => {
                format!("{written} takes a column and a number of bins: {written}(x, 100)")
            }
            AggregateName::Joint(joint) if joint.is_regression() => {
                format!("{written} takes two columns: {written}(y, x)")
            }
            AggregateName::Joint(_) => format!("{written} takes two columns: {written}(x, y)"),
            AggregateName::Revenue => {
                format!("{written} takes a bid, a price and optionally a quantity")
            }
            AggregateName::Count if call.star && call.distinct => {
                format!("{written}(DISTINCT …) needs a column")
            }
            _ => format!("{written} takes one argument"),
        });
    }
    Ok(())
}
