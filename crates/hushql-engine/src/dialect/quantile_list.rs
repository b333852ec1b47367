//! Lists of quantiles: `APPROX_QUANTILES(x, n)`, and the fractions of `QUANTILES`.
//!
//! In: a call without a mechanism. Out: for APPROX_QUANTILES, n + 1 quantiles from the least value
//! to the greatest: the list of one bare aggregate for each, so that all of them share the cost of
//! their SELECT. Each is chosen by itself, so the list is put in order. For QUANTILES, the call
//! with its fractions as arguments, which the planner reads.
//!
//! ```text
//! approx_quantiles(x, 2)       →  ordered_list(quantile(x, 0), quantile(x, 0.5), quantile(x, 1))
//! quantiles(x, (0.25, 0.75))   →  quantiles(x, 0.25, 0.75)
//! ```

use sqlparser::ast::{
    self as sql, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
};

use super::clauses::{call, number};
use super::literal::{Literal, literal_of};
use crate::privacy::{Rational, decimal_text};

/// The numbers of a list of fractions: a pair of parentheses, an array, or several arguments.
/// `None` if one is no number.
pub(super) fn fractions_of(arguments: &[Expr]) -> Option<Vec<Literal>> {
    let listed = match arguments {
        [Expr::Tuple(list)] => list.as_slice(),
        [Expr::Array(array)] => array.elem.as_slice(),
        [Expr::Nested(one)] => std::slice::from_ref(one.as_ref()),
        list => list,
    };
    let number = |expr: &Expr| literal_of(expr).filter(|of| matches!(of, Literal::Number(_)));
    listed.iter().map(number).collect()
}

/// Makes arguments of the fractions of QUANTILES in parentheses. Any other call stays as it is.
pub(super) fn flattened(function: &mut sql::Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let is_named = |argument: &FunctionArg| !matches!(argument, FunctionArg::Unnamed(_));
    let expr = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let [column, fractions, rest @ ..] = list.args.as_slice() else { return };
    let Some(fractions) = expr(fractions).filter(|_| rest.iter().all(is_named)) else { return };
    let listed = match fractions {
        Expr::Tuple(listed) => listed,
        Expr::Array(array) => array.elem,
        Expr::Nested(one) => vec![*one],
        _ => return,
    };
    let unnamed = |one: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(one));
    let flat = std::iter::once(column.clone()).chain(listed.into_iter().map(unnamed));
    list.args = flat.chain(rest.iter().cloned()).collect();
}

/// The most parts into which a list of quantiles divides the rows.
const MOST_PARTS: u64 = 100;
/// The digits of a fraction.
const DIGITS: u32 = 9;

/// The list of quantiles that a call stands for. `None` for any other call.
pub(super) fn quantile_list(function: &sql::Function) -> Option<Expr> {
    let name = function.name.to_string();
    if !name.eq_ignore_ascii_case("approx_quantiles") || function.over.is_some() {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_unnamed = |argument: &&FunctionArg| matches!(argument, FunctionArg::Unnamed(_));
    let mut unnamed = list.args.iter().filter(is_unnamed);
    let (Some(column), Some(parts), None) = (unnamed.next(), unnamed.next(), unnamed.next()) else {
        return None;
    };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(parts)) = parts else { return None };
    let Some(Literal::Number(parts)) = literal_of(parts) else { return None };
    let parts = parts.parse::<u64>().ok().filter(|parts| (1..=MOST_PARTS).contains(parts))?;
    let quantile = |part: u64| {
        let fraction = decimal_text(&Rational::new(part.into(), parts.into()), DIGITS);
        let fraction = FunctionArg::Unnamed(FunctionArgExpr::Expr(number(&fraction)));
        let named = list.args.iter().filter(|argument| !is_unnamed(argument)).cloned();
        let mut one = function.clone();
        one.name = ObjectName::from(vec![Ident::new("quantile")]);
        if let FunctionArguments::List(list) = &mut one.args {
            list.args = [column.clone(), fraction].into_iter().chain(named).collect();
        }
        Expr::Function(one)
    };
    let all = (0..=parts).map(quantile).collect();
    Some(call("ordered_list".to_owned(), all))
}
