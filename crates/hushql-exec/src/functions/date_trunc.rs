//! `date_trunc('month', x)`: the start of the period in which a moment lies.
//!
//! In: a literal unit, and dates, timestamps or texts of timestamps. Out: timestamps, in
//! microseconds where the argument is a date or a text, else of the argument's own type. A period
//! begins at or before each of its moments, also before 1970. The function never fails: a moment
//! outside of the calendar, and a moment whose period begins outside of it, becomes NULL. Weeks
//! begin on Mondays.
//!
//! ```text
//! date_trunc('month', 2025-07-17 10:30)            2025-07-01 00:00
//! date_trunc('hour', 1969-12-31 23:30)             1969-12-31 23:00
//! date_trunc('year', DATE '9999-12-31')            9999-01-01 00:00
//! ```
//!
//! Upstream: docs/upstream.md, 17. Delete when DataFusion's own function holds the years 0001
//! to 9999.

use std::sync::{Arc, LazyLock};

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Int64Array};
use arrow::compute::{DatePart, date_part};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, TimeUnit};
use chrono::{DateTime, TimeZone};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::moments::{Moments, days_of, moments_from_ticks};

static DATE_TRUNC: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(DateTrunc::new())));

/// `date_trunc(unit, x)`, for the planner.
pub fn date_trunc_function() -> Arc<ScalarUDF> {
    Arc::clone(&DATE_TRUNC)
}

/// Whether a function is `date_trunc` itself and not another of the same name.
pub fn is_date_trunc(function: &ScalarUDF) -> bool {
    *function == **DATE_TRUNC
}

/// The unit that `date_trunc` truncates to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Granularity {
    /// The number of them in a day.
    PartOfDay(i64),
    Day,
    Week,
    /// A number of months, counted from January.
    Months(i32),
}

impl Granularity {
    fn parse(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "microsecond" => Self::PartOfDay(86_400_000_000),
            "millisecond" => Self::PartOfDay(86_400_000),
            "second" => Self::PartOfDay(86_400),
            "minute" => Self::PartOfDay(1_440),
            "hour" => Self::PartOfDay(24),
            "day" => Self::Day,
            "week" => Self::Week,
            "month" => Self::Months(1),
            "quarter" => Self::Months(3),
            "year" => Self::Months(12),
            _ => return None,
        })
    }

    /// The start of the period of each moment, in ticks. A day has `a_day` ticks.
    ///
    /// # Errors
    /// None: the parts of a date can be taken from every date.
    fn starts(self, ticks: &Int64Array, a_day: i64) -> Result<Int64Array> {
        let back_to = |length: i64| -> Int64Array {
            ticks.iter().map(|tick| tick?.checked_sub(tick?.rem_euclid(length))).collect()
        };
        let from_days = |back: &dyn Fn(i64, usize) -> Option<i64>| -> Int64Array {
            let days = days_of(ticks, a_day);
            let starts = days.iter().enumerate().map(|(row, day)| {
                let day = i64::from(day?);
                day.checked_sub(back(day, row)?)?.checked_mul(a_day)
            });
            starts.collect()
        };
        Ok(match self {
            // Coarser ticks are already whole.
            Self::PartOfDay(parts) => match a_day / parts {
                0 | 1 => ticks.clone(),
                length => back_to(length),
            },
            Self::Day => back_to(a_day),
            // The first of January 1970 was a Thursday.
            Self::Week => from_days(&|day, _| Some((day + 3).rem_euclid(7))),
            Self::Months(1) => {
                let of_month = part(&days_of(ticks, a_day), DatePart::Day)?;
                from_days(&|_, row| Some(at(&of_month, row)? - 1))
            }
            Self::Months(length) => {
                let days = days_of(ticks, a_day);
                let of_year = part(&days, DatePart::DayOfYear)?;
                let (years, months) = (part(&days, DatePart::Year)?, part(&days, DatePart::Month)?);
                from_days(&|_, row| {
                    let month = at(&months, row)? - 1;
                    let first = month - month.rem_euclid(i64::from(length));
                    Some(at(&of_year, row)? - 1 - days_before(first, at(&years, row)?)?)
                })
            }
        })
    }

    /// The same for moments in a zone, whose days follow its clocks. A start that the clocks skip
    /// is NULL.
    fn starts_in(self, ticks: &Int64Array, a_day: i64, zone: Tz) -> Result<Int64Array> {
        const DAY: i64 = 86_400;
        let a_second = (a_day / DAY).max(1);
        let local = |tick: i64| {
            let utc = DateTime::from_timestamp(tick.div_euclid(a_second), 0)?.naive_utc();
            let local = zone.from_utc_datetime(&utc).naive_local().and_utc().timestamp();
            local.checked_mul(a_second)?.checked_add(tick.rem_euclid(a_second))
        };
        let locals: Int64Array = ticks.iter().map(|tick| tick.and_then(local)).collect();
        let starts = self.starts(&locals, a_day)?;
        let instant = |start: i64, tick: i64, local: i64| {
            let naive = DateTime::from_timestamp(start.div_euclid(a_second), 0)?.naive_utc();
            let within = start.rem_euclid(a_second);
            let candidates = zone.from_local_datetime(&naive);
            let ticks_of =
                |at: DateTime<Tz>| at.timestamp().checked_mul(a_second)?.checked_add(within);
            let (first, second) = (candidates.earliest()?, candidates.latest()?);
            // If two moments have the same clock time, the one with the offset of the moment
            // itself.
            let (first, second) = (ticks_of(first)?, ticks_of(second)?);
            Some(if start - second == local - tick { second } else { first })
        };
        let rows = starts.iter().zip(ticks.iter()).zip(locals.iter());
        Ok(rows.map(|((start, tick), local)| instant(start?, tick?, local?)).collect())
    }
}

fn at(numbers: &Int64Array, row: usize) -> Option<i64> {
    numbers.is_valid(row).then(|| numbers.value(row))
}

fn part(days: &Date32Array, part: DatePart) -> Result<Int64Array> {
    Ok(date_part(days, part)?.as_primitive::<Int32Type>().unary(i64::from))
}

/// The number of days of a year before a month. January is month 0.
fn days_before(month: i64, year: i64) -> Option<i64> {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = BEFORE.get(usize::try_from(month).ok()?)?;
    Some(before + i64::from(is_leap && month > 1))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    signature: Signature,
    aliases: Vec<String>,
}

impl DateTrunc {
    fn new() -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { signature, aliases: vec!["datetrunc".to_owned()] }
    }
}

const USAGE: &str = "date_trunc takes a unit and a date or timestamp: write date_trunc('month', x)";
const UNITS: &str = "date_trunc truncates to year, quarter, month, week, day, hour, minute, second, millisecond or microsecond";

/// The unit that the first argument names.
fn granularity(unit: Option<&ScalarValue>) -> Result<Granularity> {
    match unit.and_then(|unit| unit.try_as_str().flatten()).and_then(Granularity::parse) {
        Some(granularity) => Ok(granularity),
        None => plan_err!("{UNITS}, written as a text"),
    }
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &'static str {
        "date_trunc"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let moment = |data_type: &DataType| match data_type {
            DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => {
                Some(data_type.clone())
            }
            DataType::Date32 | DataType::Date64 | DataType::Null => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            text if text.is_string() => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
            _ => None,
        };
        match arg_types {
            [unit, x] if unit.is_string() && moment(x).is_some() => {
                Ok(vec![DataType::Utf8, moment(x).unwrap_or(DataType::Null)])
            }
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, x] => Ok(x.clone()),
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        granularity(args.scalar_arguments.first().copied().flatten())?;
        match args.arg_fields {
            [_, x] => Ok(Arc::new(Field::new(self.name(), x.data_type().clone(), true))),
            _ => plan_err!("{USAGE}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), x] = args.args.as_slice() else {
            return exec_err!("{USAGE}");
        };
        if is_time(&x.data_type()) {
            return datetime::date_trunc().invoke_with_args(args);
        }
        let granularity = granularity(Some(unit))?;
        match x {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(truncated(granularity, array)?)),
            ColumnarValue::Scalar(value) => {
                let start = truncated(granularity, &value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&start, 0)?))
            }
        }
    }
}

fn truncated(granularity: Granularity, array: &ArrayRef) -> Result<ArrayRef> {
    let Moments { a_day, ticks } = Moments::from_array(array)?;
    let zone = match array.data_type() {
        DataType::Timestamp(_, Some(zone)) => Some(zone),
        _ => None,
    };
    let starts = match zone.map(|zone| zone.parse::<Tz>()) {
        None => granularity.starts(&ticks, a_day)?,
        Some(Ok(zone)) => granularity.starts_in(&ticks, a_day, zone)?,
        Some(Err(_)) => return exec_err!("the zone of these timestamps is not known"),
    };
    moments_from_ticks(&starts, array.data_type())
}

#[cfg(test)]
mod tests {
    use arrow::array::{TimestampMicrosecondArray, TimestampSecondArray};
    use arrow::compute::cast;
    use chrono::{Datelike, NaiveDate, Timelike};
    use datafusion::common::config::ConfigOptions;

    use super::*;

    const UNITS: [&str; 10] = [
        "microsecond",
        "millisecond",
        "second",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "quarter",
        "year",
    ];

    fn ran(function: &ScalarUDF, unit: &str, x: &ArrayRef) -> Result<ArrayRef> {
        let types = [DataType::Utf8, x.data_type().clone()];
        let arg_fields = types.map(|t| Arc::new(Field::new("x", t, true))).to_vec();
        let args = vec![
            ColumnarValue::Scalar(ScalarValue::from(unit)),
            ColumnarValue::Array(Arc::clone(x)),
        ];
        let return_field = Arc::clone(&arg_fields[1]);
        let config_options = Arc::new(ConfigOptions::default());
        let number_rows = x.len();
        let args =
            ScalarFunctionArgs { args, arg_fields, number_rows, return_field, config_options };
        function.invoke_with_args(args)?.to_array(number_rows)
    }

    /// Moments of the years 1 to 9999, near the ends of periods and between them.
    fn moments() -> Vec<i64> {
        let mut all = Vec::new();
        for year in (1..=9_999).step_by(7).chain([1969, 1970, 1582, 2000, 9_999]) {
            for (month, day) in [(1, 1), (2, 28), (3, 1), (6, 30), (7, 1), (12, 31)] {
                let date = NaiveDate::from_ymd_opt(year, month, day).unwrap();
                let midnight = date.and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp_micros();
                all.extend([0, 1, 86_399_999_999, 37_800_000_001].map(|more| midnight + more));
            }
        }
        all
    }

    /// Compares the start of the period of each moment of the calendar with chrono.
    #[test]
    fn starts_are_those_of_the_calendar() {
        let moments = moments();
        let x: ArrayRef = Arc::new(TimestampMicrosecondArray::from(moments.clone()));
        for unit in UNITS {
            let starts = ran(&DATE_TRUNC, unit, &x).unwrap();
            let starts = starts.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
            for (row, micros) in moments.iter().enumerate() {
                let at = DateTime::from_timestamp_micros(*micros).unwrap().naive_utc();
                let day = |date: NaiveDate| date.and_hms_opt(0, 0, 0).unwrap();
                let date = at.date();
                let expected = match unit {
                    "microsecond" => at,
                    "millisecond" => {
                        at.with_nanosecond(at.nanosecond() / 1_000_000 * 1_000_000).unwrap()
                    }
                    "second" => at.with_nanosecond(0).unwrap(),
                    "minute" => date.and_hms_opt(at.hour(), at.minute(), 0).unwrap(),
                    "hour" => date.and_hms_opt(at.hour(), 0, 0).unwrap(),
                    "day" => day(date),
                    "week" => day(date.week(chrono::Weekday::Mon).first_day()),
                    "month" => day(date.with_day(1).unwrap()),
                    "quarter" => {
                        let month = (at.month() - 1) / 3 * 3 + 1;
                        day(NaiveDate::from_ymd_opt(at.year(), month, 1).unwrap())
                    }
                    _ => day(NaiveDate::from_ymd_opt(at.year(), 1, 1).unwrap()),
                };
                let expected = expected.and_utc().timestamp_micros();
                assert_eq!(starts.value(row), expected, "{unit} of {at}");
            }
        }
    }

    /// Moments outside of the calendar, before or after, become NULL; nothing fails.
    #[test]
    fn beyond_the_calendar_is_null() {
        let x: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![
            i64::MIN,
            i64::MAX,
            i64::MIN + 1,
            253_402_300_800_000_000,
            -62_135_596_800_000_001,
        ]));
        for unit in UNITS {
            assert_eq!(ran(&DATE_TRUNC, unit, &x).unwrap().null_count(), 5, "{unit}");
        }
        // 0001-01-06 is a Saturday.
        let first: ArrayRef = Arc::new(TimestampSecondArray::from(vec![
            -62_135_596_800,
            -62_135_596_800 + 5 * 86_400,
        ]));
        let weeks = ran(&DATE_TRUNC, "week", &first).unwrap();
        assert_eq!(
            cast(&weeks, &DataType::Utf8).unwrap().as_string::<i32>().value(0),
            "0001-01-01T00:00:00"
        );
    }

    /// Moments with a zone are truncated by its clocks, as DataFusion does for years that
    /// nanoseconds can hold.
    #[test]
    fn zones_are_those_of_datafusion() {
        let zone = "Europe/Berlin";
        let seconds = (0..4_000).map(|i| 1_000_000_000 + i * 100_003).collect::<Vec<i64>>();
        let micros: Vec<i64> = seconds.iter().map(|s| s * 1_000_000 + 7).collect();
        let x: ArrayRef = Arc::new(TimestampMicrosecondArray::from(micros).with_timezone(zone));
        for unit in UNITS {
            let theirs = ran(&datetime::date_trunc(), unit, &x).unwrap();
            assert_eq!(&ran(&DATE_TRUNC, unit, &x).unwrap(), &theirs, "{unit}");
        }
    }
}
