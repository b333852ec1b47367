//! Conditions on the time between two moments, as conditions on the moments.
//!
//! In: a comparison of a difference of two timestamps with an interval. Out: the same comparison of
//! one timestamp with the other one, moved by the interval. It needs no range of the difference. A
//! day has 24 hours there, and a month 30 days, as in PostgreSQL.
//!
//! ```text
//! ended - started > INTERVAL '30 minutes'       ended > started + INTERVAL '30 minutes'
//! INTERVAL '1 day' >= b - a                     b <= a + INTERVAL '1 day'
//! ```

use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

use super::facts::{Facts, Scope, constant};
use super::shape::{MakeTotal, Total, type_of};
use crate::refusal::Refusal;

const COMPARISONS: [Operator; 6] =
    [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
const DAYS_A_MONTH: i64 = 30;
const NANOS_A_DAY: i64 = 86_400_000_000_000;

/// A comparison of a difference of moments with an interval; `None` if it is another comparison.
///
/// # Guarantee
/// As for `total`. Where both moments are in the calendar, the result is that of the difference.
///
/// # Errors
/// The refusal of an operand, and of an interval that these moments cannot be moved by.
pub(super) fn compared(
    binary: &BinaryExpr,
    scope: &Scope,
    total: MakeTotal,
) -> Result<Option<Total>, Refusal> {
    by_moments(binary, scope)?.map(|moments| total(&moments, scope)).transpose()
}

fn by_moments(binary: &BinaryExpr, scope: &Scope) -> Result<Option<Expr>, Refusal> {
    let BinaryExpr { left, op, right } = binary;
    let Some(swapped) = op.swap().filter(|_| COMPARISONS.contains(op)) else { return Ok(None) };
    if let Some((later, earlier)) = difference(left, scope)? {
        return Ok(span(right).map(|by| moved(later, *op, earlier, by)));
    }
    let Some((later, earlier)) = difference(right, scope)? else { return Ok(None) };
    Ok(span(left).map(|by| moved(later, swapped, earlier, by)))
}

/// `x BETWEEN low AND high`. Of a difference of moments, it is two comparisons of the moments.
///
/// # Guarantee
/// As for `total`.
///
/// # Errors
/// The refusal of an operand.
pub(super) fn between(range: &Between, scope: &Scope, total: MakeTotal) -> Result<Total, Refusal> {
    if let Some(moments) = moments_between(range, scope)? {
        return total(&moments, scope);
    }
    let part = |e: &Expr| total(e, scope).map(|t| Box::new(t.expr));
    let expr = Expr::Between(Between::new(
        part(&range.expr)?,
        range.negated,
        part(&range.low)?,
        part(&range.high)?,
    ));
    Ok(Total { expr, facts: Facts::of_type(&DataType::Boolean) })
}

fn moments_between(range: &Between, scope: &Scope) -> Result<Option<Expr>, Refusal> {
    let Some((later, earlier)) = difference(&range.expr, scope)? else { return Ok(None) };
    let Some((low, high)) = span(&range.low).zip(span(&range.high)) else { return Ok(None) };
    let (least, most, both) = match range.negated {
        false => (Operator::GtEq, Operator::LtEq, Operator::And),
        true => (Operator::Lt, Operator::Gt, Operator::Or),
    };
    let least = moved(later.clone(), least, earlier.clone(), low);
    let most = moved(later, most, earlier, high);
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(least), both, Box::new(most)))))
}

/// The moments of a difference of two timestamps of one type.
///
/// Nanoseconds end where their calendar ends: moved beyond it, a moment would be NULL, and the
/// comparison with it. Moments with a zone are not moved at all.
fn difference(expr: &Expr, scope: &Scope) -> Result<Option<(Expr, Expr)>, Refusal> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) = bare(expr) else {
        return Ok(None);
    };
    let types = (type_of(left, &scope.schema)?, type_of(right, &scope.schema)?);
    let moves = match types.0 {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => false,
        DataType::Timestamp(_, None) => types.0 == types.1,
        _ => false,
    };
    Ok(moves.then(|| (left.as_ref().clone(), right.as_ref().clone())))
}

/// The expression below casts that the planner adds where it compares spans of time.
fn bare(mut expr: &Expr) -> &Expr {
    while let Expr::Cast(Cast { expr: inner, field })
    | Expr::TryCast(TryCast { expr: inner, field }) = expr
    {
        if !matches!(field.data_type(), DataType::Interval(_) | DataType::Duration(_)) {
            return expr;
        }
        expr = inner;
    }
    expr
}

/// A literal interval in nanoseconds.
fn span(expr: &Expr) -> Option<i64> {
    let days = |days: i64| days.checked_mul(NANOS_A_DAY);
    match constant(bare(expr))? {
        ScalarValue::IntervalMonthDayNano(Some(by)) => {
            let of_months = DAYS_A_MONTH * i64::from(by.months);
            days(of_months + i64::from(by.days))?.checked_add(by.nanoseconds)
        }
        ScalarValue::IntervalDayTime(Some(by)) => {
            days(by.days.into())?.checked_add(i64::from(by.milliseconds) * 1_000_000)
        }
        ScalarValue::IntervalYearMonth(Some(months)) => days(DAYS_A_MONTH * i64::from(months)),
        ScalarValue::DurationSecond(Some(ticks)) => ticks.checked_mul(1_000_000_000),
        ScalarValue::DurationMillisecond(Some(ticks)) => ticks.checked_mul(1_000_000),
        ScalarValue::DurationMicrosecond(Some(ticks)) => ticks.checked_mul(1_000),
        ScalarValue::DurationNanosecond(ticks) => ticks,
        _ => None,
    }
}

/// `later OP earlier + by`.
fn moved(later: Expr, op: Operator, earlier: Expr, by: i64) -> Expr {
    let by = IntervalMonthDayNano { months: 0, days: 0, nanoseconds: by };
    let by = Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(by)), None);
    let end = BinaryExpr::new(Box::new(earlier), Operator::Plus, Box::new(by));
    Expr::BinaryExpr(BinaryExpr::new(Box::new(later), op, Box::new(Expr::BinaryExpr(end))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, IntervalUnit, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{binary_expr, cast, col, lit};

    use super::*;

    fn scope() -> Scope {
        let of = |unit| DataType::Timestamp(unit, None);
        let types = [("a", TimeUnit::Microsecond), ("b", TimeUnit::Microsecond)]
            .into_iter()
            .chain([("m", TimeUnit::Nanosecond), ("n", TimeUnit::Nanosecond)]);
        let fields = types.map(|(name, unit)| Field::new(name, of(unit), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let facts = schema.fields().iter().map(|f| Facts::of_type(f.data_type())).collect();
        Scope::new(Arc::new(DFSchema::try_from(schema).unwrap()), facts)
    }

    fn interval(months: i32, days: i32, nanoseconds: i64) -> Expr {
        let by = IntervalMonthDayNano { months, days, nanoseconds };
        lit(ScalarValue::IntervalMonthDayNano(Some(by)))
    }

    fn told(left: Expr, op: Operator, right: Expr) -> Option<String> {
        let binary = BinaryExpr::new(Box::new(left), op, Box::new(right));
        by_moments(&binary, &scope()).unwrap().map(|expr| expr.to_string())
    }

    /// The comparison with `b`, moved by so many days.
    fn moved_by(op: &str, days: i64) -> Option<String> {
        let nanoseconds = days * NANOS_A_DAY;
        Some(format!(
            "a {op} b + IntervalMonthDayNano(\"IntervalMonthDayNano {{ months: 0, days: 0, nanoseconds: {nanoseconds} }}\")"
        ))
    }

    /// An interval on the left turns the comparison around. A day has 24 hours, and a month 30
    /// days.
    #[test]
    fn differences_are_compared_by_their_moments() {
        let later = || binary_expr(col("a"), Operator::Minus, col("b"));
        let day = || interval(0, 1, 0);
        assert_eq!(told(later(), Operator::Gt, day()), moved_by(">", 1));
        assert_eq!(told(day(), Operator::LtEq, later()), moved_by(">=", 1));
        assert_eq!(told(later(), Operator::Eq, interval(0, 0, NANOS_A_DAY)), moved_by("=", 1));
        assert_eq!(told(later(), Operator::Lt, interval(1, 2, 0)), moved_by("<", 32));
        let ticks = ScalarValue::DurationMicrosecond(Some(2 * NANOS_A_DAY / 1_000));
        assert_eq!(told(later(), Operator::NotEq, lit(ticks)), moved_by("!=", 2));
        let span = DataType::Interval(IntervalUnit::MonthDayNano);
        assert_eq!(told(cast(later(), span), Operator::Gt, day()), moved_by(">", 1));
    }

    /// What is not a span of time, is longer than nanoseconds can count, or is of moments that
    /// cannot be moved, is left alone.
    #[test]
    fn other_comparisons_stay() {
        let later = || binary_expr(col("a"), Operator::Minus, col("b"));
        let day = || interval(0, 1, 0);
        assert_eq!(told(later(), Operator::Plus, day()), None);
        assert_eq!(told(col("a"), Operator::Gt, day()), None);
        assert_eq!(told(later(), Operator::Gt, later()), None);
        assert_eq!(told(later(), Operator::Gt, interval(0, 200_000, 0)), None);
        assert_eq!(told(cast(later(), DataType::Int64), Operator::Gt, day()), None);
        let fine = || binary_expr(col("m"), Operator::Minus, col("n"));
        assert_eq!(told(fine(), Operator::Gt, day()), None);
        assert_eq!(told(day(), Operator::Lt, fine()), None);
    }
}
