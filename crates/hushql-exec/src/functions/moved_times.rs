//! Moments that are moved by an interval several times: `start + n * INTERVAL '1 month'`.
//!
//! In: dates, or timestamps without a time zone, whole numbers, and one interval. Out: moments of
//! the same type. The function never fails: the result is NULL some 200,000 years from 1970, where
//! nanoseconds end, and beyond 100,000 months.
//!
//! ```text
//! 2025-01-31, 1, 1 month     2025-02-28
//! 2025-01-31, 3, 30 days     2025-05-01
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use arrow::compute::kernels::numeric::add;
use arrow::datatypes::{
    DataType, Date32Type, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::moments::{Moments, Shift, days_of, is_local_moment, typed_ticks};
use super::null_unsupported::within_reach;

/// A moment is moved by at most this many months, in either direction.
const MOST_MONTHS: i64 = 100_000;

static MOVED_TIMES: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(MovedTimes::new())));

/// The function, for the planner.
pub fn moved_times_function() -> Arc<ScalarUDF> {
    Arc::clone(&MOVED_TIMES)
}

/// Whether a function is this one and not another of the same name.
pub fn is_moved_times(function: &ScalarUDF) -> bool {
    *function == **MOVED_TIMES
}

/// A moment moved by `n` times an interval.
pub fn moved_times(x: Expr, n: Expr, by: IntervalMonthDayNano) -> Expr {
    let by = ScalarValue::IntervalMonthDayNano(Some(by));
    MOVED_TIMES.call(vec![x, n, Expr::Literal(by, None)])
}

/// Moments moved by these numbers of an interval, for use while a query is planned. `None` for
/// types without such sums, for intervals of more than some thousand years, and for fractions of
/// the type's tick.
///
/// # Guarantee
/// The same moments as on rows. For one number, a later moment is never moved to an earlier one.
/// For one moment and an interval without negative parts, a larger number never leads to an earlier
/// one.
pub fn moved_times_array(
    moments: &ArrayRef,
    times: &Int64Array,
    by: IntervalMonthDayNano,
) -> Option<ArrayRef> {
    let shift = Shift::from_interval(by, moments.data_type())?;
    moved(moments, times, shift).ok()
}

fn moved(moments: &ArrayRef, times: &Int64Array, shift: Shift) -> Result<ArrayRef> {
    let Moments { a_day, ticks } = Moments::within_reach(moments)?;
    let mut days = days_of(&ticks, a_day);
    if shift.months != 0 {
        let months = |n: i64| {
            let months = n.checked_mul(i64::from(shift.months))?;
            let months =
                Some(months).filter(|months| (-MOST_MONTHS..=MOST_MONTHS).contains(months))?;
            Some(IntervalMonthDayNano::new(i32::try_from(months).ok()?, 0, 0))
        };
        let months: IntervalMonthDayNanoArray = times.iter().map(|n| n.and_then(months)).collect();
        days = add(&days, &months)?.as_primitive::<Date32Type>().clone();
    }
    let rows = ticks.iter().zip(days.iter()).zip(times.iter());
    let moved: Int64Array = rows
        .map(|((tick, day), n)| {
            let of_day = i128::from(tick?.rem_euclid(a_day));
            let by = shift.ticks.checked_mul(i128::from(n?))?;
            let day = i128::from(day?) * i128::from(a_day) + of_day;
            i64::try_from(day.checked_add(by)?).ok()
        })
        .collect();
    // A date of more ticks than its type holds is NULL, and not another date.
    within_reach(&typed_ticks(&moved, moments.data_type())?)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MovedTimes {
    signature: Signature,
}

impl MovedTimes {
    fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for MovedTimes {
    fn name(&self) -> &'static str {
        "moved_times"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [moment, times, DataType::Interval(_)] = arg_types else {
            return plan_err!(
                "a moment is moved by a number of intervals: x + n * INTERVAL '1 day'"
            );
        };
        let moment = match moment {
            DataType::Date64 | DataType::Null => DataType::Timestamp(TimeUnit::Microsecond, None),
            text if text.is_string() => DataType::Timestamp(TimeUnit::Microsecond, None),
            local if is_local_moment(local) => local.clone(),
            other => return plan_err!("an interval moves dates and timestamps, not {other}"),
        };
        if !times.is_integer() && *times != DataType::Null {
            return plan_err!("an interval is multiplied by whole numbers, not {times}");
        }
        Ok(vec![moment, DataType::Int64, DataType::Interval(IntervalUnit::MonthDayNano)])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [moment, ..] => Ok(moment.clone()),
            [] => plan_err!("a move has a moment"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [moments, times, ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(by))] =
            args.args.as_slice()
        else {
            return exec_err!("a move has a moment, a number and an interval");
        };
        let moments = moments.to_array(args.number_rows)?;
        let times = times.to_array(args.number_rows)?;
        let Some(times) = times.as_primitive_opt::<Int64Type>() else {
            return exec_err!("the number of moves is a BIGINT");
        };
        let none = || Int64Array::new_null(times.len());
        let shift = by.map(|by| Shift::from_interval(by, moments.data_type()));
        let moved = match shift {
            None => typed_ticks(&none(), moments.data_type())?,
            Some(Some(shift)) => moved(&moments, times, shift)?,
            Some(None) => {
                return exec_err!(
                    "the interval is too long, or too fine for the moments that it moves"
                );
            }
        };
        Ok(ColumnarValue::Array(moved))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, TimestampMicrosecondArray};

    use super::*;
    use crate::functions::moved_array;

    /// The same as moving each moment alone, also beyond the calendar and for a NULL number.
    #[test]
    fn several_moves_are_one_of_as_many_intervals() {
        let days: ArrayRef = Arc::new(Date32Array::from_iter_values((-3_000..3_000).step_by(41)));
        let seconds = (-100..100).map(|i| i * 987_654_321_000);
        let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(seconds));
        for moments in [days, moments] {
            for n in [-40, -1, 0, 1, 13] {
                for (months, days) in [(1, 0), (0, 30), (12, 1), (-1, 0)] {
                    let by = IntervalMonthDayNano::new(months, days, 0);
                    let all = IntervalMonthDayNano::new(months * n, days * n, 0);
                    let times = Int64Array::from(vec![i64::from(n); moments.len()]);
                    let moved = moved_times_array(&moments, &times, by).unwrap();
                    assert_eq!(&moved, &moved_array(&moments, all).unwrap(), "{n} of {by:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_too_far_is_null() {
        let day: ArrayRef = Arc::new(Date32Array::from(vec![0, 0, 0, 0]));
        let month = IntervalMonthDayNano::new(1, 0, 0);
        let times = Int64Array::from(vec![Some(1), Some(200_000), Some(i64::MIN), None]);
        let moved = moved_times_array(&day, &times, month).unwrap();
        assert_eq!(moved.null_count(), 3);
        let week = IntervalMonthDayNano::new(0, 7, 0);
        let moved = moved_times_array(&day, &times, week).unwrap();
        assert!(moved.is_valid(0) && moved.is_null(2) && moved.is_null(3));
    }
}
