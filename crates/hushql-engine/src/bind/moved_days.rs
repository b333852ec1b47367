//! A DATE plus or minus a whole number: that many days later or earlier.
//!
//! In: an operator with its operands, before casts are added. Out: the moved date, or nothing for
//! other operands. The planner has no such sum.
//!
//! ```text
//! day - 30        day - INTERVAL '30 days'
//! day + term      moved by term times INTERVAL '1 day'
//! ```

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use sqlparser::ast::BinaryOperator;

use crate::functions::moved_times;

/// The date that is moved by a number of days; `None` for other operands.
///
/// # Errors
/// Those of the planner.
pub(super) fn moved_by_days(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let RawBinaryExpr { op, left, right } = raw;
    let is_date = |e: &Expr| e.get_type(schema).is_ok_and(|own| own == DataType::Date32);
    let is_whole = |e: &Expr| e.get_type(schema).is_ok_and(|own| own.is_integer());
    let (day, n, sign) = match op {
        BinaryOperator::Plus if is_date(left) && is_whole(right) => (left, right, 1),
        BinaryOperator::Plus if is_whole(left) && is_date(right) => (right, left, 1),
        BinaryOperator::Minus if is_date(left) && is_whole(right) => (left, right, -1),
        _ => return Ok(None),
    };
    let days = |days: i32| IntervalMonthDayNano::new(0, days, 0);
    let literal =
        if let Expr::Literal(value, _) = n { value.cast_to(&DataType::Int32).ok() } else { None };
    if let Some(ScalarValue::Int32(Some(n))) = literal
        && let Some(n) = n.checked_mul(sign)
    {
        let by = ScalarValue::IntervalMonthDayNano(Some(days(n)));
        let by = Box::new(Expr::Literal(by, None));
        let moved = BinaryExpr::new(Box::new(day.clone()), Operator::Plus, by);
        return Ok(Some(Expr::BinaryExpr(moved)));
    }
    let n = n.clone().cast_to(&DataType::Int64, schema)?;
    Ok(Some(moved_times(day.clone(), n, days(sign))))
}
