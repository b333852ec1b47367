//! Arithmetic of dates and timestamps below a release: days between two dates, and moments moved by
//! an interval.
//!
//! In: total operands with their facts. Out: a total expression with its range, or nothing if an
//! operator is not arithmetic of moments. Moments may leave the calendar and stay exact there,
//! except that nanoseconds become NULL. No expression fails.
//!
//! ```text
//! discharged - admitted                 [0, 730] - [0, 600]       days in [-600, 730]
//! ordered_at + INTERVAL '2 days'        2025-01-01..2025-12-31    2025-01-03..2026-01-02
//! date_diff('week', a, b)               weeks that begin in between
//! start + term * INTERVAL '1 month'     2025-01-01..2025-12-31, [1, 12]     2025-02-01..2026-12-31
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, new_empty_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use num_traits::ToPrimitive;

use super::calendar::reach;
use super::facts::{Facts, KeySource, Scope, constant};
use super::interval::Interval;
use super::periods::{declared, undeclared};
use crate::analysis::expr::shape::{MakeTotal, Total, is_temporal, partial, readable, type_of};
use crate::functions::{
    Period, is_date_diff, moved, moved_array, moved_times, moved_times_array, reach_of_moments,
    temporal_limits, ticks_a_day,
};
use crate::privacy::Rational;
use crate::refusal::Refusal;

/// True if an expression is the difference of two expressions over different columns.
pub(crate) fn is_difference(expr: &Expr) -> bool {
    let differ = |one: &Expr, other: &Expr| {
        let (one, other) = (one.column_refs(), other.column_refs());
        !one.is_empty() && !other.is_empty() && one != other
    };
    if let Expr::Alias(alias) = expr {
        return is_difference(&alias.expr);
    }
    if let Expr::Cast(cast) = expr {
        return is_difference(&cast.expr);
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) = expr {
        return differ(left, right);
    }
    let Expr::ScalarFunction(call) = expr else { return false };
    match call.args.as_slice() {
        [_, from, to] if is_date_diff(&call.func) => differ(from, to),
        _ => false,
    }
}

/// True if an expression is the time between two columns, perhaps in other units.
///
/// Its range follows from the whole ranges of both, and is far wider than the time between two
/// moments of one row usually is.
pub(crate) fn is_span(expr: &Expr, scope: &Scope) -> bool {
    if let Expr::Alias(alias) = expr {
        return is_span(&alias.expr, scope);
    }
    if let Expr::Cast(cast) = expr {
        return is_span(&cast.expr, scope);
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right }) = expr {
        return constant(right).is_some() && is_span(left, scope);
    }
    let is_moment = |side: &Expr| type_of(side, &scope.schema).is_ok_and(|own| is_temporal(&own));
    let of_moments = if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) = expr
    {
        is_moment(left) && is_moment(right)
    } else if let Expr::ScalarFunction(call) = expr {
        is_date_diff(&call.func)
    } else {
        false
    };
    of_moments && is_difference(expr)
}

/// True if a part of an expression is the number of microseconds between two moments.
pub(crate) fn counts_microseconds(expr: &Expr) -> bool {
    let counts = |part: &Expr| {
        let Expr::ScalarFunction(call) = part else { return false };
        let unit = call.args.first();
        is_date_diff(&call.func)
            && matches!(unit, Some(Expr::Literal(unit, _))
                if unit.try_as_str().flatten() == Some("microsecond"))
    };
    expr.exists(|part| Ok(counts(part))).unwrap_or(false)
}

/// True if an expression is a column that a subquery computes as the seconds between two moments of
/// different columns.
pub(crate) fn is_column_of_seconds(expr: &Expr, rows: &LogicalPlan) -> bool {
    let Expr::Column(column) = expr else { return false };
    let computes = |expr: &Expr| {
        let Expr::Alias(alias) = expr else { return false };
        alias.name == column.name && is_seconds(&alias.expr)
    };
    let found = rows.exists(|node| {
        let LogicalPlan::Projection(projection) = node else { return Ok(false) };
        Ok(projection.expr.iter().any(computes))
    });
    found.unwrap_or(false)
}

/// True if an expression is a number of microseconds between two moments, over a million.
fn is_seconds(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right }) = expr else {
        return false;
    };
    let million = Expr::Literal(ScalarValue::Float64(Some(1_000_000.0)), None);
    **right == million && counts_microseconds(left)
}

/// `date - date`, and a moment plus or minus an interval; `None` for anything else.
///
/// # Guarantee
/// As for `total`.
///
/// # Errors
/// The refusal of an operand. Also refuses a difference of timestamps.
pub(crate) fn arithmetic(
    binary: &BinaryExpr,
    whole: &Expr,
    scope: &Scope,
    total: MakeTotal,
) -> Result<Option<Total>, Refusal> {
    let BinaryExpr { left, op, right } = binary;
    let types = (type_of(left, &scope.schema)?, type_of(right, &scope.schema)?);
    let shift = |by: &Expr, sign: i8| interval(&constant(by)?, sign);
    let (moment, by) = match (op, is_temporal(&types.0), is_temporal(&types.1)) {
        (Operator::Minus, true, true) => return difference(binary, whole, scope, total).map(Some),
        (Operator::Plus, true, false) => (left, shift(right, 1)),
        (Operator::Minus, true, false) => (left, shift(right, -1)),
        (Operator::Plus, false, true) => (right, shift(left, 1)),
        _ => return Ok(None),
    };
    let Some(by) = by else { return Ok(None) };
    let moment = total(moment, scope)?;
    let data_type = type_of(&moment.expr, &scope.schema)?;
    if type_of(whole, &scope.schema)? != data_type {
        return Ok(None);
    }
    let Some(expr) = moved(moment.expr, by, &data_type) else { return Err(too_far(whole)) };
    let image = |range: &Interval| moved_range(range, by, &data_type);
    let leaves = || {
        let reach = reach(&data_type)?;
        let days = Interval::integer_range(-FARTHEST, FARTHEST);
        let ticks = Rational::from_integer(ticks_a_day(&data_type)?.into());
        let inside = moment.facts.always.add(&days.scale(&ticks)).is_within(&reach);
        // The type of nanoseconds ends where their calendar ends.
        Some(!inside && temporal_limits(&data_type) != reach_of_moments(&data_type))
    };
    if leaves().unwrap_or(false) {
        return Err(too_far(whole));
    }
    let facts = Facts {
        always: image(&moment.facts.always),
        ..Facts::ranged(image(&moment.facts.known()), true)
    };
    Ok(Some(Total { expr, facts }))
}

/// `moved_times(x, n, interval)`: a moment moved by n intervals; `None` if the arguments are
/// others.
///
/// # Guarantee
/// As for `total`. The interval has no parts of both signs, so that a later moment or a larger
/// number never leads to an earlier moment if it is forward, and the reverse if it is backward.
///
/// # Errors
/// The refusal of an operand, and of an interval that cannot move these moments or has parts of
/// both signs.
pub(crate) fn moved_several_times(
    call: &ScalarFunction,
    whole: &Expr,
    scope: &Scope,
    total: MakeTotal,
) -> Result<Option<Total>, Refusal> {
    let [x, n, by] = call.args.as_slice() else { return Ok(None) };
    let Some(ScalarValue::IntervalMonthDayNano(Some(by))) = constant(by) else { return Ok(None) };
    let (moment, times) = (total(x, scope)?, total(n, scope)?);
    let data_type = type_of(&moment.expr, &scope.schema)?;
    let parts = [i64::from(by.months), i64::from(by.days), by.nanoseconds];
    let (forward, backward) = (parts.iter().all(|p| *p >= 0), parts.iter().all(|p| *p <= 0));
    let has_hours = data_type == DataType::Date32 && by.nanoseconds != 0;
    if type_of(&times.expr, &scope.schema)? != DataType::Int64
        || !(forward || backward)
        || has_hours
    {
        return Err(partial(
            whole,
            "an interval that is multiplied is of whole days for a DATE, and leads in one direction",
            "x + n * INTERVAL '1 month', or INTERVAL '30 days'",
        ));
    }
    let image = |moments: &Interval, times: &Interval| {
        times_range(moments, times, (by, backward), &data_type)
    };
    let nothing = new_empty_array(&data_type);
    if moved_times_array(&nothing, &Int64Array::from(Vec::<i64>::new()), by).is_none() {
        return Err(too_far(whole));
    }
    let always = image(&moment.facts.always, &times.facts.always);
    let range = image(&moment.facts.known(), &times.facts.known());
    let facts = Facts { always, ..Facts::ranged(range, true) };
    Ok(Some(Total { expr: moved_times(moment.expr, times.expr, by), facts }))
}

/// The range to which several intervals move a range of moments.
fn times_range(
    range: &Interval,
    times: &Interval,
    (by, backward): (IntervalMonthDayNano, bool),
    data_type: &DataType,
) -> Interval {
    let reach = reach(data_type).unwrap_or_else(Interval::everything);
    let whole = |end: &Rational| end.to_integer().to_i64();
    let numbers =
        times.bounds().and_then(|(lo, hi)| Some((whole(&lo.floor())?, whole(&hi.ceil())?)));
    let Some((least, most)) = numbers else { return reach };
    let numbers = if backward { vec![most, least] } else { vec![least, most] };
    let moved = ends(range, data_type, |ends| {
        let moved = moved_times_array(ends, &Int64Array::from(numbers.clone()), by)?;
        let ticks = cast_to_ticks(&moved)?;
        let end = |i: usize| ticks.is_valid(i).then(|| ticks.value(i));
        Some((end(0), end(1)))
    });
    let Some((lo, hi)) = moved else { return reach };
    let integer = |end: i64| Rational::from_integer(end.into());
    Interval::new(lo.map(integer), hi.map(integer)).intersect(&reach)
}

/// Every accepted interval moves a moment by less than this many days.
const FARTHEST: i64 = 5_000_000;

fn too_far(whole: &Expr) -> Refusal {
    partial(
        whole,
        "the interval is too long, or too fine for the moments that it moves",
        "at most 8,000 years, in whole ticks of the column",
    )
}

/// The range to which an interval moves a range of moments.
fn moved_range(range: &Interval, by: IntervalMonthDayNano, data_type: &DataType) -> Interval {
    let reach = reach(data_type).unwrap_or_else(Interval::everything);
    let moved = ends(range, data_type, |ends| {
        let moved = moved_array(ends, by)?;
        // An end beyond the range of nanoseconds becomes the limit of the type, because all moments
        // beyond it are NULL.
        let ticks = cast_to_ticks(&moved)?;
        Some((ticks.is_valid(0).then(|| ticks.value(0)), ticks.is_valid(1).then(|| ticks.value(1))))
    });
    let Some((lo, hi)) = moved else { return reach };
    let integer = |end: i64| Rational::from_integer(end.into());
    Interval::new(lo.map(integer), hi.map(integer)).intersect(&reach)
}

/// Days between two dates.
///
/// A moment whose range is the calendar alone gives the difference no range: noise for thousands of
/// years would hide every answer. What the calendar proves is in `always`.
fn difference(
    binary: &BinaryExpr,
    whole: &Expr,
    scope: &Scope,
    total: MakeTotal,
) -> Result<Total, Refusal> {
    let (left, right) = (total(&binary.left, scope)?, total(&binary.right, scope)?);
    let is_date = |side: &Total| {
        type_of(&side.expr, &scope.schema).is_ok_and(|data_type| data_type == DataType::Date32)
    };
    if !is_date(&left) || !is_date(&right) {
        let (a, b) = (readable(&binary.left), readable(&binary.right));
        return Err(partial(
            whole,
            "the difference of two timestamps has no range",
            format!(
                "EXTRACT(EPOCH FROM {a} - {b}) for seconds, or date_diff('day', {b}, {a}); or {a} <= {b} + INTERVAL '1 day' in a condition"
            ),
        ));
    }
    let range = left.facts.known().sub(&right.facts.known());
    let always = left.facts.always.sub(&right.facts.always);
    let both = [&left, &right].map(|side| is_declared(side, scope));
    let (range, keys) = match both {
        [true, true] => (range.clone(), whole_keys(&range)),
        _ => (Interval::everything(), None),
    };
    let facts = Facts { always, keys, ..Facts::ranged(range, true) };
    let expr = BinaryExpr::new(Box::new(left.expr), Operator::Minus, Box::new(right.expr));
    Ok(Total { expr: Expr::BinaryExpr(expr), facts })
}

/// The facts about `date_diff(unit, from, to)`.
///
/// # Guarantee
/// The number of the period never decreases with the moment, so the ends of the operands give the
/// ends of the difference.
pub(crate) fn periods(unit: &Expr, from: &Total, to: &Total, scope: &Scope) -> Option<Facts> {
    let Expr::Literal(unit, _) = unit else { return None };
    let period = Period::parse(unit.try_as_str().flatten()?)?;
    let numbers = |range: &Interval, of: &Total| {
        let data_type = type_of(&of.expr, &scope.schema).ok()?;
        ends(range, &data_type, |ends| {
            let numbers = period.numbers(ends).ok()?;
            let one = |i: usize| numbers.is_valid(i).then(|| numbers.value(i));
            Some((one(0)?, one(1)?))
        })
        .map(|(lo, hi)| Interval::integer_range(lo, hi))
    };
    let always = numbers(&to.facts.always, to)?.sub(&numbers(&from.facts.always, from)?);
    let range = numbers(&to.facts.known(), to)?.sub(&numbers(&from.facts.known(), from)?);
    let is_listed = is_declared(from, scope) && is_declared(to, scope);
    let (always, keys, range) = match is_listed {
        true => (always, whole_keys(&range), range),
        false => (always.union(&undeclared()), None, Interval::everything()),
    };
    Some(Facts { always, keys, ..Facts::ranged(range, true) })
}

/// True if the range of a moment is declared or stated in the query. The calendar's own range gives
/// no keys.
fn is_declared(moment: &Total, scope: &Scope) -> bool {
    type_of(&moment.expr, &scope.schema).is_ok_and(|own| declared(&moment.facts, &own).is_some())
}

/// Every whole number of a range, as keys.
fn whole_keys(range: &Interval) -> Option<KeySource> {
    let (lo, hi) = range.to_i128()?;
    Some(KeySource::Integers(i64::try_from(lo).ok()?, i64::try_from(hi).ok()?))
}

/// The results of a function at the two ends of a range of moments; `None` for a range without
/// ends.
fn ends<T>(
    range: &Interval,
    data_type: &DataType,
    function: impl Fn(&ArrayRef) -> Option<T>,
) -> Option<T> {
    let (lo, hi) = range.bounds()?;
    let ends = [lo.floor().to_integer().to_i64()?, hi.ceil().to_integer().to_i64()?];
    let numbers: ArrayRef = match data_type {
        DataType::Date32 => {
            let [lo, hi] = ends;
            Arc::new(Int32Array::from(vec![i32::try_from(lo).ok()?, i32::try_from(hi).ok()?]))
        }
        _ => Arc::new(Int64Array::from(ends.to_vec())),
    };
    function(&cast(&numbers, data_type).ok()?)
}

fn cast_to_ticks(moments: &ArrayRef) -> Option<Int64Array> {
    let numbers = match moments.data_type() {
        DataType::Date32 => cast(moments, &DataType::Int32).ok()?,
        _ => Arc::clone(moments),
    };
    Some(cast(&numbers, &DataType::Int64).ok()?.as_primitive::<Int64Type>().clone())
}

/// The interval of a literal, forward or backward.
fn interval(value: &ScalarValue, sign: i8) -> Option<IntervalMonthDayNano> {
    let ScalarValue::IntervalMonthDayNano(Some(by)) = value else { return None };
    if sign > 0 {
        return Some(*by);
    }
    let (months, days) = (by.months.checked_neg()?, by.days.checked_neg()?);
    Some(IntervalMonthDayNano::new(months, days, by.nanoseconds.checked_neg()?))
}
