//! The periods of a range of moments: the keys of `date_trunc`, `date_bin` and `strftime`, and the
//! days of a timestamp.
//!
//! In: a range of dates or timestamps without a time zone. Out: every start or label of a period in
//! it, in order, as the function itself returns it. Periods without rows are included.
//!
//! ```text
//! date_trunc('month', d)      d BETWEEN 2025-01-15 AND 2025-03-02      2025-01-01, 2025-02-01, 2025-03-01
//! strftime(d, '%b %Y')                                                 Jan 2025, Feb 2025, Mar 2025
//! ```

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::array::{Array, ArrayRef, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Field, FieldRef, Int64Type};
use datafusion::common::{HashSet, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
};
use num_traits::ToPrimitive;

use super::facts::{Facts, KeySource};
use super::interval::Interval;
use crate::functions::{Finest, LabelFormat, Stride, temporal_limits, ticks_a_day};
use crate::privacy::Rational;

/// The largest number of periods that is listed.
const MOST_PERIODS: i64 = 100_000;

/// The days of 28 years.
const CYCLE: i64 = 28 * 365 + 7;

/// The seconds since 1970 of a date or timestamp, in its range and on every row.
///
/// # Guarantee
/// For every x in an interval of the facts, `date_part('epoch', x)` lies in the interval's image.
/// The ends are computed as the function computes a row, and rounding keeps the order of moments.
pub(crate) fn seconds(x: &Facts, data_type: &DataType) -> (Interval, Interval) {
    const A_DAY: i64 = 86_400;
    let per_second = ticks_a_day(data_type).map(|ticks| ticks / A_DAY);
    let second = |ticks: Rational| {
        let ticks = ticks.to_integer().to_i64()?.to_f64()?;
        Rational::from_float(match per_second? {
            // The ticks of a date are days.
            0 => ticks * A_DAY.to_f64()?,
            per_second => ticks / per_second.to_f64()?,
        })
    };
    let image = |moments: &Interval| {
        let ends = moments.bounds().map(|(lo, hi)| (lo.floor(), hi.ceil()));
        let ends = ends.and_then(|(lo, hi)| Some((second(lo)?, second(hi)?)));
        ends.map_or_else(Interval::everything, |(lo, hi)| Interval::between(lo, hi))
    };
    (image(&x.range), image(&x.always))
}

/// The starts of the periods of `date_trunc(part, x)`, for an x of this type with these facts;
/// `None` if there are too many.
///
/// # Guarantee
/// For every x in the range of the facts, the result of the function is one of them.
pub(crate) fn starts(call: &ScalarFunction, x: &Facts, data_type: &DataType) -> Option<KeySource> {
    let Some(Expr::Literal(part, _)) = call.args.first() else { return None };
    let finest = match part.try_as_str()??.to_lowercase().as_str() {
        "second" => Finest::Second,
        "minute" => Finest::Minute,
        "hour" => Finest::Hour,
        "day" => Finest::Day,
        "week" => Finest::Week,
        "month" => Finest::Month,
        "quarter" => Finest::Quarter,
        "year" => Finest::Year,
        _ => return None,
    };
    let call = OfMoments { function: &call.func, args: &[Some(part.clone()), None] };
    // The function preserves the order of moments.
    call.values(declared(x, data_type)?, step_of(finest, data_type)?, data_type).map(values)
}

/// The starts of the bins of `date_bin(stride, x, origin)`, for an x of this type with these facts;
/// `None` if there are too many.
///
/// # Guarantee
/// As for [`starts`].
pub(crate) fn bins(
    call: &ScalarFunction,
    stride: Stride,
    args: &[Option<ScalarValue>],
    x: &Facts,
    data_type: &DataType,
) -> Option<KeySource> {
    let call = OfMoments { function: &call.func, args };
    call.values(declared(x, data_type)?, stride.least_ticks(data_type)?, data_type).map(values)
}

/// The start of the first and of the last period of a range, by `date_trunc` or `date_bin` with
/// these arguments. `None` if one of them is outside the calendar, and for moments in a time zone,
/// because its clocks are turned back.
///
/// # Guarantee
/// For every x in the range, the result of the function is NULL or lies between them: the function
/// preserves the order of moments.
pub(crate) fn first_and_last(
    call: &ScalarFunction,
    args: &[Option<ScalarValue>],
    range: &Interval,
    data_type: &DataType,
) -> Option<Interval> {
    let (first, last) = ends(range)?;
    let moments = moments_of([first, last].into_iter(), data_type)?;
    let starts = OfMoments { function: &call.func, args }.ran(&moments)?;
    if starts.data_type() != data_type {
        return None;
    }
    let ticks = cast(&starts, &DataType::Int64).ok()?;
    let ticks = ticks.as_primitive_opt::<Int64Type>()?;
    match ticks.iter().collect::<Option<Vec<i64>>>()?.as_slice() {
        [first, last] => Some(Interval::integer_range(*first, *last)),
        _ => None,
    }
}

/// The labels that a function of [`is_date_label`](crate::functions::is_date_label) returns for
/// moments of this type with these facts. They are in the order of their first occurrence. `None`
/// if there are too many.
///
/// If labels have no year and the range is not narrow, they are the labels of 28 years, which
/// contain every kind of year.
///
/// # Guarantee
/// As for [`starts`].
pub(crate) fn labels(
    call: &ScalarFunction,
    format: &LabelFormat,
    args: &[Option<ScalarValue>],
    x: &Facts,
    data_type: &DataType,
) -> Option<KeySource> {
    let a_day = ticks_a_day(data_type)?;
    let step = step_of(format.finest(), data_type)?;
    let call = OfMoments { function: &call.func, args };
    let of = |ends: (i64, i64)| call.values(ends, step, data_type);
    let narrow = declared(x, data_type).filter(|(lo, hi)| {
        !format.is_cyclic() || hi.checked_sub(*lo).is_some_and(|long| long < CYCLE * a_day)
    });
    let cycle = cycle_of(format.has_days(), a_day);
    let mut labels = match narrow {
        Some(ends) => of(ends)?,
        None if format.is_cyclic() => of(cycle)?,
        None => return None,
    };
    let mut seen = HashSet::new();
    labels.retain(|label| seen.insert(label.clone()));
    Some(values(labels))
}

fn cycle_of(has_days: bool, a_day: i64) -> (i64, i64) {
    /// Days from 1970 to 2000.
    const DAY: i64 = 10_957;
    let days = if has_days { CYCLE } else { 1 };
    (DAY * a_day, (DAY + days) * a_day - 1)
}

/// The first and the last day of 28 years. They contain every kind of year, beginning on every
/// weekday.
pub(crate) fn every_kind_of_year() -> (i64, i64) {
    cycle_of(true, 1)
}

fn values(values: Vec<ScalarValue>) -> KeySource {
    KeySource::Values(Arc::new(values))
}

/// At most the length of the shortest period of a kind, in ticks. Steps of this length skip no
/// period.
fn step_of(finest: Finest, data_type: &DataType) -> Option<i64> {
    let day = ticks_a_day(data_type)?;
    let step = match finest {
        Finest::Second => day / 86_400,
        Finest::Minute => day / 1_440,
        Finest::Hour => day / 24,
        Finest::Day => day,
        Finest::Week => 7 * day,
        Finest::Month => 28 * day,
        Finest::Quarter => 90 * day,
        Finest::Year => 365 * day,
    };
    // For a date, all times of day are the same.
    Some(if *data_type == DataType::Date32 { step.max(1) } else { step })
}

/// The days of a range of timestamps, computed by the cast that runs on rows. The days of a date
/// are its own keys.
///
/// # Guarantee
/// For every timestamp in the range, its date is one of them: the cast preserves the order.
pub(crate) fn days(x: &Facts, from: &DataType) -> Option<KeySource> {
    if *from == DataType::Date32 {
        return x.keys.clone();
    }
    let (lo, hi) = declared(x, from)?;
    let moments = moments_of([lo, hi].into_iter(), from)?;
    let days = cast(&moments, &DataType::Date32).ok()?;
    let days = days.as_primitive_opt::<Date32Type>()?;
    match days.iter().collect::<Option<Vec<i32>>>()?.as_slice() {
        [first, last] => Some(KeySource::Integers((*first).into(), (*last).into())),
        _ => None,
    }
}

/// The first and the last moment of a range that is declared or stated in the query, see
/// [`is_asked`]; `None` for other ranges.
pub(crate) fn declared(x: &Facts, data_type: &DataType) -> Option<(i64, i64)> {
    let asked = ends(&x.range)?;
    is_asked(x, data_type, asked).then_some(asked)
}

/// True if a range of moments counts as declared or stated in the query. One of three conditions
/// holds: both ends are well within the calendar; the range is at most a few years long; or the
/// range belongs to a domain that leaves out a thousand years on one side. The calendar itself
/// counts as undeclared, because hardly any of its periods has a row.
pub(crate) fn is_asked(x: &Facts, data_type: &DataType, (lo, hi): (i64, i64)) -> bool {
    let Some(((first, last), a_day)) = temporal_limits(data_type).zip(ticks_a_day(data_type))
    else {
        return false;
    };
    let a_day = i128::from(a_day);
    // The number of ticks between the calendar's ends and the ends of a range.
    let beside = |(lo, hi): (i64, i64)| {
        (i128::from(lo) - i128::from(first), i128::from(last) - i128::from(hi))
    };
    // A range that was moved, or a range of periods, may end slightly within the calendar.
    let (before, after) = beside((lo, hi));
    let is_narrow = before.min(after) > 1_000 * a_day;
    let is_short = i128::from(hi) - i128::from(lo) <= 1_000 * a_day;
    // A domain may reach the calendar's end on one side: many registers use 9999-12-31 as an open
    // end.
    let in_domain = ends(&x.always)
        .map(beside)
        .is_some_and(|(before, after)| before.max(after) > 366_000 * a_day);
    is_narrow || is_short || in_domain
}

/// The range that is assumed for a number of periods between moments without a declared range.
///
/// # Guarantee
/// It contains every number of years or quarters in the calendar. It is so wide that its numbers,
/// tenths of them and hundredths of them are too many to be listed as keys. Such keys would show
/// years in which hardly any row lies.
pub(crate) fn undeclared() -> Interval {
    const WIDE: i64 = 10_000_000;
    Interval::integer_range(-WIDE, WIDE)
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

/// A function of one moment and of constants. `None` marks the moment's position among the
/// arguments.
struct OfMoments<'a> {
    function: &'a Arc<ScalarUDF>,
    args: &'a [Option<ScalarValue>],
}

impl OfMoments<'_> {
    /// Its values for all moments of a range, evaluated at each step and at the end: in order,
    /// without NULL, and without equal neighbours. `None` if there are too many values, or none.
    fn values(
        &self,
        (lo, hi): (i64, i64),
        step: i64,
        data_type: &DataType,
    ) -> Option<Vec<ScalarValue>> {
        if step < 1 || hi.checked_sub(lo)? / step >= MOST_PERIODS {
            return None;
        }
        let step = usize::try_from(step).ok()?;
        let moments = moments_of((lo..=hi).step_by(step).chain([hi]), data_type)?;
        let results = self.ran(&moments)?;
        let results = (0..results.len()).map(|i| ScalarValue::try_from_array(&results, i).ok());
        let mut values: Vec<ScalarValue> = results.collect::<Option<_>>()?;
        values.dedup();
        values.retain(|value| !value.is_null());
        (!values.is_empty()).then_some(values)
    }

    fn ran(&self, moments: &ArrayRef) -> Option<ArrayRef> {
        let field = |arg: &Option<ScalarValue>| {
            let data_type =
                arg.as_ref().map_or(moments.data_type().clone(), ScalarValue::data_type);
            Arc::new(Field::new("x", data_type, true))
        };
        let arg_fields: Vec<FieldRef> = self.args.iter().map(field).collect();
        let scalar_arguments: Vec<_> = self.args.iter().map(Option::as_ref).collect();
        let wanted =
            ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalar_arguments };
        let return_field = self.function.return_field_from_args(wanted).ok()?;
        let number_rows = moments.len();
        let value = |arg: &Option<ScalarValue>| match arg {
            Some(constant) => ColumnarValue::Scalar(constant.clone()),
            None => ColumnarValue::Array(Arc::clone(moments)),
        };
        let args = self.args.iter().map(value).collect();
        let config_options = Arc::default();
        let rows =
            ScalarFunctionArgs { args, arg_fields, number_rows, return_field, config_options };
        self.function.invoke_with_args(rows).ok()?.into_array(number_rows).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::date_trunc_function;

    fn call(part: &str) -> ScalarFunction {
        let args = vec![Expr::Literal(ScalarValue::Utf8(Some(part.to_owned())), None)];
        ScalarFunction { func: date_trunc_function(), args }
    }

    /// Every period of a range is listed once, and no other is. Compares them with the period of
    /// each second, minute, … of the range.
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
            let range = Facts::ranged(Interval::integer_range(lo, hi), true);
            let Some(KeySource::Values(starts)) = starts(&call(part), &range, &seconds) else {
                panic!("{part}")
            };
            let each = moments_of((lo..=hi).step_by(by).chain([hi]), &seconds).unwrap();
            let part = ScalarValue::Utf8(Some(part.to_owned()));
            let each =
                OfMoments { function: &date_trunc_function(), args: &[Some(part.clone()), None] }
                    .ran(&each)
                    .unwrap();
            let mut each: Vec<ScalarValue> =
                (0..each.len()).map(|i| ScalarValue::try_from_array(&each, i).unwrap()).collect();
            each.dedup();
            assert_eq!(*starts, each, "{part}");
        }
    }

    /// The starts of all moments lie between the starts of the range's ends, because the function
    /// preserves the order.
    #[test]
    fn starts_are_between_those_of_the_ends() {
        use arrow::datatypes::TimeUnit;
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let (lo, hi) = (-90_000_123_456_i64, 200_000_654_321_i64);
        let range = Interval::integer_range(lo, hi);
        for (part, first, last) in [
            ("millisecond", -90_000_124_000, 200_000_654_000),
            ("second", -90_001_000_000, 200_000_000_000),
            ("day", -172_800_000_000, 172_800_000_000),
            ("month", -2_678_400_000_000, 0),
        ] {
            let args = [Some(ScalarValue::from(part)), None];
            let starts = first_and_last(&call(part), &args, &range, &micros);
            assert_eq!(starts, Some(Interval::integer_range(first, last)), "{part}");
            let each = moments_of((lo..=hi).step_by(777_777_777), &micros).unwrap();
            let each = OfMoments { function: &date_trunc_function(), args: &args }.ran(&each);
            let each = cast(&each.unwrap(), &DataType::Int64).unwrap();
            let mut each = each.as_primitive::<Int64Type>().iter().flatten();
            assert!(each.all(|start| (first..=last).contains(&start)), "{part}");
        }
        // A time zone turns its clocks back, and the calendar begins in year 1.
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
        let args = [Some(ScalarValue::from("hour")), None];
        assert_eq!(first_and_last(&call("hour"), &args, &range, &zoned), None);
        let calendar = Facts::of_type(&micros).range;
        let args = [Some(ScalarValue::from("year")), None];
        let years = first_and_last(&call("year"), &args, &calendar, &micros).unwrap();
        assert!(years.is_within(&calendar), "{years:?}");
        let before = Interval::integer_range(-719_200 * 86_400_000_000_i64, 0);
        assert_eq!(first_and_last(&call("year"), &args, &before, &micros), None);
    }

    /// The image of a range has the values of its ends, and of all moments between them.
    #[test]
    fn seconds_are_within_those_of_the_ends() {
        use arrow::datatypes::{Float64Type, TimeUnit};
        let stamp = |unit| DataType::Timestamp(unit, None);
        for (data_type, lo, hi) in [
            (DataType::Date32, -719_162, 2_932_896),
            (stamp(TimeUnit::Second), -62_135_596_800, 253_402_300_799),
            (stamp(TimeUnit::Millisecond), -62_135_596_800_000, 253_402_300_799_999),
            (stamp(TimeUnit::Microsecond), -62_135_596_800_000_001, 253_402_300_799_999_999),
            (stamp(TimeUnit::Nanosecond), i64::MIN, i64::MAX),
        ] {
            let step = usize::try_from((i128::from(hi) - i128::from(lo)) / 977).unwrap();
            let each = (lo..=hi).step_by(step).chain([hi - 1, hi]);
            let each = moments_of(each, &data_type).unwrap();
            let part = ScalarValue::from("epoch");
            let function = datafusion::functions::datetime::date_part();
            let each = OfMoments { function: &function, args: &[Some(part), None] }.ran(&each);
            let found = seconds(&Facts::ranged(Interval::integer_range(lo, hi), true), &data_type);
            assert_eq!(found.0, found.1);
            let each = each.unwrap();
            for value in each.as_primitive::<Float64Type>().iter().flatten() {
                let value = Rational::from_float(value).unwrap();
                assert!(found.0.contains(&value), "{data_type}: {value} beyond {:?}", found.0);
            }
        }
        let unknown = Facts::ranged(Interval::everything(), true);
        assert_eq!(seconds(&unknown, &DataType::Date32).0, Interval::everything());
    }

    #[test]
    fn too_many_periods_are_not_listed() {
        use arrow::datatypes::TimeUnit;
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let ten_years = Facts::ranged(Interval::integer_range(0, 10 * 365 * 86_400), true);
        assert!(starts(&call("hour"), &ten_years, &seconds).is_some());
        assert!(starts(&call("minute"), &ten_years, &seconds).is_none());
        assert!(starts(&call("day"), &Facts::of_type(&seconds), &seconds).is_none());
        assert!(starts(&call("hour"), &ten_years, &DataType::Date32).is_none());
    }

    #[test]
    fn a_day_before_1970_is_its_own() {
        use arrow::datatypes::TimeUnit;
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let range = Facts::ranged(Interval::integer_range(-1, 86_400), true);
        assert_eq!(days(&range, &seconds), Some(KeySource::Integers(-1, 1)));
    }

    /// A domain may reach the calendar's end. A range from a condition alone may not, and neither
    /// may the range of a column without a domain.
    #[test]
    fn the_calendars_own_ends_are_not_declared() {
        let date = DataType::Date32;
        let calendar = Facts::of_type(&date);
        assert_eq!(declared(&calendar, &date), None);
        let since = Interval::integer_range(18_262, 2_932_896);
        let open_end = Facts::ranged(since.clone(), true);
        assert_eq!(declared(&open_end, &date), Some((18_262, 2_932_896)));
        let only_asked = Facts { range: since, ..calendar.clone() };
        assert_eq!(declared(&only_asked, &date), None);
        let moved = Interval::integer_range(-719_162 + 36_525, 2_932_896);
        assert_eq!(declared(&Facts::ranged(moved, true), &date), None);
        let asked = Facts { range: Interval::integer_range(18_262, 20_000), ..calendar };
        assert_eq!(declared(&asked, &date), Some((18_262, 20_000)));
    }
}
