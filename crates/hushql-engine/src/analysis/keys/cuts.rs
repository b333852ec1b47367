//! The cuts at which comparisons with constants change their result: between two neighbouring cuts,
//! each comparison has one result.
//!
//! In: an expression over a column. Out: the compared expressions with their constants, if each
//! expression is monotone in the column.
//!
//! ```text
//! d BETWEEN DATE '2024-01-01' AND DATE '2024-01-31' OR d = DATE '9999-12-31'      d at three dates
//! EXTRACT(YEAR FROM d) = 2024                                                     the year of d at 2024
//! EXTRACT(MONTH FROM d) = 3                                                       none: months recur
//! ```

use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, Cast, InList, Like, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::analysis::expr::facts::constant;
use crate::analysis::expr::shape::{is_string, is_temporal, type_of};
use crate::bind::compares;
use crate::functions::{is_clamp, is_date_bin, is_date_diff, is_date_label, is_width_bucket};

/// A column with ordered values: whole numbers, decimals or moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) column: &'a Column,
    pub(crate) schema: &'a DFSchemaRef,
}

/// An expression that is monotone in a column, and a constant.
///
/// # Guarantee
/// The values for which the expression is NULL come before or after all other values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// The expression.
    pub(crate) of: Expr,
    /// The constant. Without one, the cut is where the expression becomes NULL or stops being NULL.
    pub(crate) at: Option<ScalarValue>,
}

/// The cuts of a comparison of a column with constants; `None` for every other expression.
///
/// # Guarantee
/// Between two neighbouring cuts, the comparison has one result, or is NULL, everywhere.
pub(crate) fn cuts_of(expr: &Expr, values: Values<'_>) -> Option<Vec<Cut>> {
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr
        && compares(*op)
    {
        return Some(vec![pair(left, right, values)?]);
    }
    if let Expr::Between(Between { expr, low, high, .. }) = expr {
        let ends = [low, high].map(|end| match mentions(expr, values) || mentions(end, values) {
            true => pair(expr, end, values).map(Some),
            false => Some(None),
        });
        let ends: Vec<Option<Cut>> = ends.into_iter().collect::<Option<_>>()?;
        return Some(ends.into_iter().flatten().collect());
    }
    if let Expr::InList(InList { expr, list, .. }) = expr {
        return list.iter().map(|item| pair(expr, item, values)).collect();
    }
    if let Expr::IsNull(of) | Expr::IsNotNull(of) = expr {
        let of = of.as_ref().clone();
        return keeps_order(&of, values).then(|| vec![Cut { of, at: None }]);
    }
    if let Expr::Like(Like {
        expr: of, pattern, escape_char: None, case_insensitive: false, ..
    }) = expr
    {
        return Some(vec![beginning(of, pattern, values)?]);
    }
    None
}

/// The cuts of the comparisons in `CASE x WHEN 1 THEN …`.
pub(crate) fn cuts_of_base(case: &Case, values: Values<'_>) -> Option<Vec<Cut>> {
    let base = case.expr.as_deref()?;
    case.when_then_expr.iter().map(|(when, _)| pair(base, when, values)).collect()
}

fn mentions(expr: &Expr, values: Values<'_>) -> bool {
    expr.column_refs().contains(values.column)
}

/// The cut of a comparison.
fn pair(left: &Expr, right: &Expr, values: Values<'_>) -> Option<Cut> {
    let cut = |of: &Expr, at: &Expr| {
        let at = constant(at)?;
        keeps_order(of, values).then(|| Cut { of: of.clone(), at: Some(at) })
    };
    cut(left, right).or_else(|| cut(right, left))
}

/// The cut of `text LIKE 'begin%'`. Texts with the same beginning are neighbours in order.
fn beginning(of: &Expr, pattern: &Expr, values: Values<'_>) -> Option<Cut> {
    let pattern = constant(pattern)?;
    let begin = pattern.try_as_str().flatten()?.strip_suffix('%')?;
    let is_plain = begin.is_ascii() && !begin.contains(['%', '_', '\\']);
    if !is_plain || begin.is_empty() || !keeps_order(of, values) {
        return None;
    }
    let length = i64::try_from(begin.len()).ok()?;
    let of = datafusion::functions::unicode::expr_fn::left(
        of.clone(),
        Expr::Literal(ScalarValue::Int64(Some(length)), None),
    );
    Some(Cut { of, at: Some(ScalarValue::Utf8(Some(begin.to_owned()))) })
}

/// True if an expression is monotone in a column: it never falls, or never rises.
///
/// # Guarantee
/// If true, the values for which the expression is NULL come before or after all others.
fn keeps_order(expr: &Expr, values: Values<'_>) -> bool {
    let of = |expr: &Expr| keeps_order(expr, values);
    let type_of = |expr: &Expr| type_of(expr, values.schema).ok();
    if let Expr::Column(column) = expr {
        return column == values.column;
    }
    if let Expr::Alias(alias) = expr {
        return of(&alias.expr);
    }
    if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) =
        expr
    {
        let Some(from) = type_of(inner) else { return false };
        let to = field.data_type();
        let moments = is_temporal(&from) && (is_temporal(to) || is_string(to));
        let numbers = from.is_numeric() && to.is_numeric();
        let texts = is_string(&from) && is_string(to);
        return (moments || numbers || texts) && of(inner);
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr {
        let is_constant = |side: &Expr| constant(side).is_some_and(|value| !value.is_null());
        return match op {
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                is_constant(right) && of(left) || is_constant(left) && of(right)
            }
            Operator::Divide => is_constant(right) && of(left),
            _ => false,
        };
    }
    if let Expr::ScalarFunction(call) = expr {
        return call_keeps_order(call, values);
    }
    false
}

fn call_keeps_order(call: &ScalarFunction, values: Values<'_>) -> bool {
    let of = |expr: &Expr| keeps_order(expr, values);
    let is_constant = |expr: &Expr| constant(expr).is_some_and(|value| !value.is_null());
    let function = &call.func;
    match (function.name(), call.args.as_slice()) {
        ("date_part", [part, x]) => {
            text_of(part).is_some_and(|part| part.eq_ignore_ascii_case("year")) && of(x)
        }
        ("date_trunc", [part, x]) => is_constant(part) && of(x),
        ("floor" | "ceil" | "round" | "trunc", [x, places @ ..]) => {
            places.iter().all(is_constant) && of(x)
        }
        ("left", [x, length]) => is_constant(length) && is_of_text(x, values) && of(x),
        ("substr", [x, start, length @ ..]) => {
            let is_first = constant(start).is_some_and(|one| one == ScalarValue::Int64(Some(1)));
            is_first && length.iter().all(is_constant) && is_of_text(x, values) && of(x)
        }
        ("strftime" | "date_format" | "to_char", [x, format]) if is_date_label(function) => {
            text_of(format).is_some_and(|format| IN_ORDER.contains(&format.as_str())) && of(x)
        }
        ("date_diff", [unit, from, to]) if is_date_diff(function) => {
            is_constant(unit) && (is_constant(from) && of(to) || is_constant(to) && of(from))
        }
        (_, [x, bounds @ ..]) if is_clamp(function) || is_width_bucket(function) => {
            bounds.iter().all(is_constant) && of(x)
        }
        (_, [stride, x, origin @ ..]) if is_date_bin(function) => {
            is_constant(stride) && origin.iter().all(is_constant) && of(x)
        }
        _ => false,
    }
}

/// Formats whose labels sort in the order of time.
const IN_ORDER: [&str; 9] =
    ["%Y-%m-%d", "%Y-%m", "%Y%m%d", "%Y%m", "%Y", "YYYY-MM-DD", "YYYY-MM", "YYYYMM", "YYYY"];

fn is_of_text(expr: &Expr, values: Values<'_>) -> bool {
    type_of(expr, values.schema).is_ok_and(|own| is_string(&own))
}

fn text_of(expr: &Expr) -> Option<String> {
    constant(expr)?.try_as_str().flatten().map(str::to_owned)
}
