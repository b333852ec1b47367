//! `date_bin(stride, x, origin)`: the start of the bin that contains a moment. All bins have the
//! same length.
//!
//! In: a literal interval of months, or of days and parts of a day; dates, or timestamps without a
//! time zone; and an origin, 1970-01-01 if none is written. Out: moments of the same type. The
//! function never fails: a bin whose start lies outside of the calendar is NULL.
//!
//! ```text
//! date_bin(INTERVAL '15 minutes', 12:44:58)                    12:30:00
//! date_bin(INTERVAL '7 days', 2025-01-08, 2025-01-06)          2025-01-06
//! date_bin(INTERVAL '3 months', 2025-05-20)                    2025-04-01
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use arrow::compute::kernels::numeric::add;
use arrow::datatypes::{DataType, Date32Type, Field, FieldRef, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::moments::{Moments, Period, days_of, is_local_moment, moments_from_ticks};
use super::null_unsupported::ticks_a_day;

const NANOSECONDS_A_DAY: i64 = 86_400_000_000_000;

static DATE_BIN: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(DateBin::new())));

/// `date_bin(stride, x)` and `date_bin(stride, x, origin)`, for the planner.
pub fn date_bin_function() -> Arc<ScalarUDF> {
    Arc::clone(&DATE_BIN)
}

/// Whether a function is `date_bin` itself and not another of the same name.
pub fn is_date_bin(function: &ScalarUDF) -> bool {
    *function == **DATE_BIN
}

/// The length of a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stride {
    /// A number of calendar months.
    Months(i32),
    /// A number of ticks of the moments' type.
    Ticks(i64),
}

impl Stride {
    /// The length of a literal interval for moments of a type.
    ///
    /// `None` for lengths below one tick, of both months and days, or of more than a thousand
    /// years.
    pub fn from_interval(by: &ScalarValue, data_type: &DataType) -> Option<Self> {
        let ScalarValue::IntervalMonthDayNano(Some(by)) = by else { return None };
        let IntervalMonthDayNano { months, days, nanoseconds } = *by;
        if !is_local_moment(data_type) {
            return None;
        }
        if (days, nanoseconds) == (0, 0) {
            return (1..=12_000).contains(&months).then_some(Self::Months(months));
        }
        let a_day = ticks_a_day(data_type)?;
        let tick = NANOSECONDS_A_DAY / a_day;
        let (days, nanoseconds) = (i128::from(days), i128::from(nanoseconds));
        let length = days * i128::from(NANOSECONDS_A_DAY) + nanoseconds;
        let longest = 366_000 * i128::from(NANOSECONDS_A_DAY);
        let fits = months == 0 && (1..=longest).contains(&length) && length % i128::from(tick) == 0;
        let ticks = i64::try_from(length / i128::from(tick)).ok()?;
        fits.then_some(Self::Ticks(ticks))
    }

    /// A lower bound of the length of every bin, in ticks of the type.
    pub fn least_ticks(self, data_type: &DataType) -> Option<i64> {
        match self {
            Self::Months(months) => ticks_a_day(data_type)?.checked_mul(28 * i64::from(months)),
            Self::Ticks(ticks) => Some(ticks),
        }
    }

    /// The start of the bin of each moment, counted from its origin.
    ///
    /// # Guarantee
    /// For one origin, a later moment is never in an earlier bin. NULL has no bin.
    ///
    /// # Errors
    /// For types other than dates and timestamps without a time zone.
    fn starts(self, array: &ArrayRef, origins: &ArrayRef) -> Result<ArrayRef> {
        let (moments, from) = (Moments::from_array(array)?, Moments::from_array(origins)?);
        let starts: Int64Array = match self {
            Self::Ticks(stride) => {
                let both = moments.ticks.iter().zip(from.ticks.iter());
                both.map(|(x, origin)| {
                    let (x, origin) = (i128::from(x?), i128::from(origin?));
                    i64::try_from(x - (x - origin).rem_euclid(i128::from(stride))).ok()
                })
                .collect()
            }
            Self::Months(stride) => in_months(i64::from(stride), array, origins)?,
        };
        moments_from_ticks(&starts, array.data_type())
    }
}

/// The starts of bins of `stride` months, in ticks.
fn in_months(stride: i64, array: &ArrayRef, origins: &ArrayRef) -> Result<Int64Array> {
    let (moments, from) = (Moments::from_array(array)?, Moments::from_array(origins)?);
    let origin_days = days_of(&from.ticks, from.a_day);
    let months = |array: &ArrayRef| Period::Month.numbers(array);
    let (later, earlier) = (months(array)?, months(origins)?);
    // The bin of the same month, counted from the origin, and the bin before it, because the first
    // may begin later in its month.
    let bins: Vec<Option<i64>> = later
        .iter()
        .zip(earlier.iter())
        .map(|(month, origin)| Some((month? - origin?).div_euclid(stride)))
        .collect();
    let begins = |before: i64| -> Result<Int64Array> {
        let by = bins.iter().map(|bin| {
            let months = i32::try_from((bin.as_ref()? - before) * stride).ok()?;
            Some(IntervalMonthDayNano::new(months, 0, 0))
        });
        let by: IntervalMonthDayNanoArray = by.collect();
        let days = add(&origin_days, &by)?.as_primitive::<Date32Type>().clone();
        let of_day = from.ticks.iter().zip(days.iter());
        Ok(of_day
            .map(|(origin, day)| {
                i64::from(day?).checked_mul(from.a_day)?.checked_add(origin?.rem_euclid(from.a_day))
            })
            .collect())
    };
    let (same, before) = (begins(0)?, begins(1)?);
    let all = moments.ticks.iter().zip(same.iter()).zip(before.iter());
    Ok(all
        .map(|((x, same), before)| match same? <= x? {
            true => same,
            false => before,
        })
        .collect())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    signature: Signature,
}

impl DateBin {
    fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

const USAGE: &str = "date_bin takes a literal interval of months or of shorter units, a date or a timestamp, and an origin if you like: date_bin(INTERVAL '15 minutes', ts), date_bin(INTERVAL '7 days', ts, TIMESTAMP '2025-01-06')";

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &'static str {
        "date_bin"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        match arg_types {
            [stride, x, rest @ ..]
                if *stride == interval && is_local_moment(x) && rest.len() <= 1 =>
            {
                let mut types = vec![interval, x.clone()];
                types.extend(rest.iter().map(|_| x.clone()));
                Ok(types)
            }
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, x, ..] => Ok(x.clone()),
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let (Some(Some(stride)), Some(x)) = (args.scalar_arguments.first(), args.arg_fields.get(1))
        else {
            return plan_err!("{USAGE}");
        };
        match Stride::from_interval(stride, x.data_type()) {
            None => plan_err!("{USAGE}"),
            Some(_) => Ok(Arc::new(Field::new(self.name(), x.data_type().clone(), true))),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(stride), x, rest @ ..] = args.args.as_slice() else {
            return exec_err!("{USAGE}");
        };
        let x = x.to_array(args.number_rows)?;
        let Some(stride) = Stride::from_interval(stride, x.data_type()) else {
            return exec_err!("{USAGE}");
        };
        let origins = match rest {
            [origin] => origin.to_array(args.number_rows)?,
            _ => moments_from_ticks(&Int64Array::from(vec![0; x.len()]), x.data_type())?,
        };
        Ok(ColumnarValue::Array(stride.starts(&x, &origins)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, TimestampNanosecondArray};
    use datafusion::common::config::ConfigOptions;
    use datafusion::functions::datetime::date_bin;

    use super::*;

    fn interval(months: i32, days: i32, nanoseconds: i64) -> ScalarValue {
        ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(
            months,
            days,
            nanoseconds,
        )))
    }

    fn ran(
        function: &ScalarUDF,
        stride: &ScalarValue,
        x: &ArrayRef,
        origin: i64,
    ) -> Option<ArrayRef> {
        let origin = moments_from_ticks(&Int64Array::from(vec![origin]), x.data_type()).unwrap();
        let origin = ScalarValue::try_from_array(&origin, 0).unwrap();
        let types = [&stride.data_type(), x.data_type(), x.data_type()];
        let arg_fields = types.map(|t| Arc::new(Field::new("x", t.clone(), true))).to_vec();
        let args = vec![
            ColumnarValue::Scalar(stride.clone()),
            ColumnarValue::Array(Arc::clone(x)),
            ColumnarValue::Scalar(origin),
        ];
        let return_field = Arc::clone(&arg_fields[1]);
        let config_options = Arc::new(ConfigOptions::default());
        let number_rows = x.len();
        let args =
            ScalarFunctionArgs { args, arg_fields, number_rows, return_field, config_options };
        function.invoke_with_args(args).ok()?.to_array(number_rows).ok()
    }

    /// Bins equal those of DataFusion's own function, which takes fewer types.
    #[test]
    fn bins_are_those_of_datafusion() {
        let second = 1_000_000_000;
        let moments: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(
            (-900..900).map(|i| i * 987_651 * second),
        ));
        let others = date_bin();
        for stride in [
            interval(0, 0, 900 * second),
            interval(0, 7, 0),
            interval(0, 1, 3_600 * second),
            interval(1, 0, 0),
            interval(3, 0, 0),
            interval(25, 0, 0),
        ] {
            for origin in [0, 86_400 * 5, -86_400 * 365, 3_600] {
                let mine = ran(&DATE_BIN, &stride, &moments, origin * second).unwrap();
                let theirs = ran(&others, &stride, &moments, origin * second).unwrap();
                assert_eq!(&mine, &theirs, "{stride} from {origin}");
            }
        }
    }

    /// Each moment lies in its bin, and the start of a bin lies in the bin itself.
    #[test]
    fn a_bin_holds_its_moments_in_order() {
        let days: ArrayRef = Arc::new(Date32Array::from_iter_values(-4_000..4_000));
        for stride in [interval(0, 10, 0), interval(1, 0, 0), interval(7, 0, 0)] {
            for origin in [0, 30, -500] {
                let starts = ran(&DATE_BIN, &stride, &days, origin).unwrap();
                let again = ran(&DATE_BIN, &stride, &starts, origin).unwrap();
                assert_eq!(&starts, &again, "{stride} from {origin}");
                let (starts, days) =
                    (starts.as_primitive::<Date32Type>(), days.as_primitive::<Date32Type>());
                assert!(starts.values().is_sorted(), "{stride} from {origin}");
                let both = starts.values().iter().zip(days.values());
                assert!(both.into_iter().all(|(start, day)| start <= day));
            }
        }
    }

    #[test]
    fn a_bin_that_begins_before_the_calendar_is_null() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![-719_161, i32::MIN, 0]));
        let starts = ran(&DATE_BIN, &interval(0, 9_999, 0), &days, 0).unwrap();
        let seen: Vec<bool> = (0..3).map(|i| starts.is_null(i)).collect();
        assert_eq!(seen, [true, true, false]);
    }

    #[test]
    fn other_lengths_make_no_bins() {
        let date = DataType::Date32;
        for (stride, made) in [
            (interval(0, 0, 0), None),
            (interval(-1, 0, 0), None),
            (interval(1, 1, 0), None),
            (interval(0, 0, 3_600_000_000_000), None),
            (interval(0, -2, 0), None),
            (interval(0, 1, 0), Some(Stride::Ticks(1))),
            (interval(2, 0, 0), Some(Stride::Months(2))),
            (ScalarValue::IntervalMonthDayNano(None), None),
        ] {
            assert_eq!(Stride::from_interval(&stride, &date), made, "{stride}");
        }
    }
}
