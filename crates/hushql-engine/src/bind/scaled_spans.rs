//! The refusal of a span of time that is multiplied or divided.
//!
//! In: the operands, as they are written. Out: a refusal. The difference of two timestamps has a
//! number of seconds, which can be divided.
//!
//! ```text
//! (ended - started) / 3600      write: EXTRACT(EPOCH FROM ended - started) / 3600
//! ```

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use sqlparser::ast::BinaryOperator;

use crate::refusal::{Reason, Refusal};

/// The refusal of `x op y`, where x is this span, if it is one. If y is no number, the hint has the
/// seconds of an hour in its place.
pub(super) fn scaled_span(
    op: &BinaryOperator,
    (x, y): (&str, &str),
    span: Option<&Expr>,
    is_number: bool,
) -> Refusal {
    let message = "a span of time is not multiplied or divided";
    let is_difference =
        |expr: &Expr| matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Minus, .. }));
    if !span.is_some_and(is_difference) {
        let hint = "the interval itself, such as INTERVAL '6 days'";
        return Refusal::new(Reason::BadValue, format!("{x} {op} {y}"), message, hint);
    }
    let number = if is_number { y } else { "3600" };
    let hint = format!("EXTRACT(EPOCH FROM {x}) {op} {number}, from its number of seconds");
    Refusal::new(Reason::BadValue, format!("({x}) {op} {y}"), message, hint)
}
