//! `APPROX_QUANTILES(x, n)`: a list of n + 1 quantiles, from the least value to the greatest.
//!
//! In: a call without a mechanism. Out: the list, of one bare aggregate for each quantile, so that
//! all of them share the cost of their SELECT. Each is chosen by itself, so the list is put in
//! order.
//!
//! ```text
//! approx_quantiles(x, 2)  →  ordered_list(quantile(x, 0), quantile(x, 0.5), quantile(x, 1))
//! ```

use sqlparser::ast::{
    self as sql, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
};

use super::clauses::{call, number};
use super::literal::{Literal, literal_of};
use crate::privacy::{Rational, decimal_text};

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
