//! The periods of a range of moments: the keys of `date_trunc`, and the days of a timestamp.
//!
//! In: a range of dates or timestamps without a time zone. Out: every start of a period in it, as the function itself gives
//! it, in order; periods in which no row lies are among them.
//!
//! ```text
//! date_trunc('month', d)      d BETWEEN 2025-01-15 AND 2025-03-02      2025-01-01, 2025-02-01, 2025-03-01
//! ```

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::array::{Array, ArrayRef, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs};
use num_traits::ToPrimitive;

use super::facts::KeySource;
use super::interval::Interval;
use crate::functions::ticks_a_day;

/// The most periods that are listed.
const MOST_PERIODS: i64 = 100_000;

/// The starts of the periods of `date_trunc(part, x)`, x of this type and in this range; `None` for too many.
///
/// # Guarantee
/// For every x of the range, the function's result is one of them.
pub(crate) fn starts(
    call: &ScalarFunction,
    range: &Interval,
    data_type: &DataType,
) -> Option<KeySource> {
    let Some(Expr::Literal(part, _)) = call.args.first() else { return None };
    let day = ticks_a_day(data_type)?;
    // No period is shorter, so that none lies between two moments that are tried.
    let step = match part.try_as_str()??.to_lowercase().as_str() {
        "second" => day / 86_400,
        "minute" => day / 1_440,
        "hour" => day / 24,
        "day" => day,
        "week" => 7 * day,
        "month" => 28 * day,
        "quarter" => 90 * day,
        "year" => 365 * day,
        _ => return None,
    };
    let (lo, hi) = ends(range)?;
    if step < 1 || hi.checked_sub(lo)? / step >= MOST_PERIODS {
        return None;
    }
    let step = usize::try_from(step).ok()?;
    let moments = (lo..=hi).step_by(step).chain([hi]);
    let moments = moments_of(moments, data_type)?;
    let results = truncated(call, part, &moments)?;
    let results = (0..results.len()).map(|i| ScalarValue::try_from_array(&results, i).ok());
    let mut starts: Vec<ScalarValue> = results.collect::<Option<_>>()?;
    // The function keeps the order of moments.
    starts.dedup();
    starts.retain(|start| !start.is_null());
    (!starts.is_empty()).then(|| KeySource::Values(Arc::new(starts)))
}

/// The days of a range of timestamps, by the cast that runs on rows.
///
/// # Guarantee
/// For every timestamp of the range, its date is one of them: the cast keeps the order.
pub(crate) fn days(range: &Interval, from: &DataType) -> Option<KeySource> {
    let (lo, hi) = ends(range)?;
    let moments = moments_of([lo, hi].into_iter(), from)?;
    let days = cast(&moments, &DataType::Date32).ok()?;
    let days = days.as_primitive_opt::<Date32Type>()?;
    match days.iter().collect::<Option<Vec<i32>>>()?.as_slice() {
        [first, last] => Some(KeySource::Integers((*first).into(), (*last).into())),
        _ => None,
    }
}

fn ends(range: &Interval) -> Option<(i64, i64)> {
    let (lo, hi) = range.bounds()?;
    let (lo, hi) = (lo.ceil().to_integer().to_i64()?, hi.floor().to_integer().to_i64()?);
    (lo <= hi).then_some((lo, hi))
}

/// Numbers of days or ticks as dates or timestamps.
fn moments_of(ticks: impl Iterator<Item = i64>, data_type: &DataType) -> Option<ArrayRef> {
    let numbers: ArrayRef = match data_type {
        DataType::Date32 => {
            let days: Option<Vec<i32>> = ticks.map(|day| i32::try_from(day).ok()).collect();
            Arc::new(Int32Array::from(days?))
        }
        DataType::Timestamp(_, None) => Arc::new(Int64Array::from_iter_values(ticks)),
        _ => return None,
    };
    cast(&numbers, data_type).ok()
}

fn truncated(call: &ScalarFunction, part: &ScalarValue, moments: &ArrayRef) -> Option<ArrayRef> {
    let types = [part.data_type(), moments.data_type().clone()];
    let arg_fields = types.map(|data_type| Arc::new(Field::new("x", data_type, true))).to_vec();
    let wanted = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &[Some(part), None] };
    let return_field = call.func.return_field_from_args(wanted).ok()?;
    let number_rows = moments.len();
    let args = vec![ColumnarValue::Scalar(part.clone()), ColumnarValue::Array(Arc::clone(moments))];
    let config_options = Arc::default();
    let rows = ScalarFunctionArgs { args, arg_fields, number_rows, return_field, config_options };
    call.func.invoke_with_args(rows).ok()?.into_array(number_rows).ok()
}

#[cfg(test)]
mod tests {
    use datafusion::functions::datetime::date_trunc;

    use super::*;

    fn call(part: &str) -> ScalarFunction {
        let args = vec![Expr::Literal(ScalarValue::Utf8(Some(part.to_owned())), None)];
        ScalarFunction { func: date_trunc(), args }
    }

    /// Every period of a range is listed once, and none but those: compared with each second, minute, … by itself.
    #[test]
    fn every_period_is_listed() {
        use arrow::datatypes::TimeUnit;
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        for (part, lo, hi, by) in [
            ("second", -3, 70, 1),
            ("minute", -200, 400, 1),
            ("hour", -90_000, 90_001, 7),
            ("day", -86_401, 900_000, 60),
            ("week", -86_400 * 30, 86_400 * 30 + 5, 600),
            ("month", -86_400 * 800, 86_400 * 800, 3_600),
            ("quarter", -86_400 * 1_500, 86_400 * 1_500, 3_600),
            ("year", -86_400 * 4_000, 86_400 * 4_000, 43_200),
        ] {
            let range = Interval::integer_range(lo, hi);
            let Some(KeySource::Values(starts)) = starts(&call(part), &range, &seconds) else {
                panic!("{part}")
            };
            let each = moments_of((lo..=hi).step_by(by).chain([hi]), &seconds).unwrap();
            let part = ScalarValue::Utf8(Some(part.to_owned()));
            let each = truncated(&call("x"), &part, &each).unwrap();
            let mut each: Vec<ScalarValue> =
                (0..each.len()).map(|i| ScalarValue::try_from_array(&each, i).unwrap()).collect();
            each.dedup();
            assert_eq!(*starts, each, "{part}");
        }
    }

    #[test]
    fn too_many_periods_are_not_listed() {
        use arrow::datatypes::TimeUnit;
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let ten_years = Interval::integer_range(0, 10 * 365 * 86_400);
        assert!(starts(&call("hour"), &ten_years, &seconds).is_some());
        assert!(starts(&call("minute"), &ten_years, &seconds).is_none());
        assert!(starts(&call("day"), &Interval::everything(), &seconds).is_none());
        assert!(starts(&call("hour"), &ten_years, &DataType::Date32).is_none());
    }

    #[test]
    fn a_day_before_1970_is_its_own() {
        use arrow::datatypes::TimeUnit;
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let range = Interval::integer_range(-1, 86_400);
        assert_eq!(days(&range, &seconds), Some(KeySource::Integers(-1, 1)));
    }
}
