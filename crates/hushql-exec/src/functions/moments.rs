//! Functions of dates and timestamps: a moment moved by an interval, and the periods between two
//! moments.
//!
//! In: dates, or timestamps without a time zone. Out: moments of the same type, or whole numbers.
//! Neither function fails. A moment may leave the calendar, so that it can be compared and moved
//! back. It becomes NULL some 200,000 years from 1970, or where nanoseconds end.
//!
//! ```text
//! moved(d) by 1 month                              2025-01-31  →  2025-02-28
//! moved(d) by 1 day                                9999-12-31  →  10000-01-01
//! date_diff('month', 2025-01-31, 2025-02-01)       1: the number of times that a month begins in between
//! ```

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Int64Array, IntervalMonthDayNanoArray, Scalar,
};
use arrow::compute::kernels::numeric::add;
use arrow::compute::{DatePart, cast, date_part};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Int32Type, Int64Type, IntervalMonthDayNano, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::null_unsupported::{
    MOST_OF_A_CELL, sound_array, temporal_limits, ticks_a_day, within_reach,
};
use super::{any_one, named};

const NANOSECONDS_A_DAY: i64 = 86_400_000_000_000;

/// A moment moved by an interval, as SQL's `x + INTERVAL` moves it; NULL beyond `reach_of_moments`.
/// `None` for types without such sums, for intervals of more than some thousand years, and for
/// fractions of the type's tick.
pub fn moved(x: Expr, by: IntervalMonthDayNano, data_type: &DataType) -> Option<Expr> {
    let shift = Shift::from_interval(by, data_type)?;
    let name = named("moved", &(by, data_type));
    let function = Moved { name, shift, data_type: data_type.clone(), signature: any_one() };
    Some(ScalarUDF::from(function).call(vec![x]))
}

/// Moments moved by an interval, for use while a query is planned; `None` as for [`moved`].
///
/// # Guarantee
/// The same moments that [`moved`] gives on rows. A later moment is never moved to an earlier one.
pub fn moved_array(array: &ArrayRef, by: IntervalMonthDayNano) -> Option<ArrayRef> {
    Shift::from_interval(by, array.data_type())?.moved(array).ok()
}

/// A constant date or timestamp, plus or minus an interval; `None` for any other arithmetic.
pub fn moved_constant(
    left: &ScalarValue,
    op: Operator,
    right: &ScalarValue,
) -> Option<ScalarValue> {
    // At most some thousand years in either direction, so that no intermediate result overflows.
    let is_short = |value: &ScalarValue| match value {
        ScalarValue::IntervalMonthDayNano(Some(by)) => {
            by.months.unsigned_abs() <= 100_000
                && by.days.unsigned_abs() <= 1_000_000
                && by.nanoseconds.unsigned_abs() <= 1 << 62
        }
        _ => false,
    };
    let is_date = |value: &ScalarValue| temporal_limits(&value.data_type()).is_some();
    match op {
        Operator::Plus if is_date(left) && is_short(right) => left.add_checked(right).ok(),
        Operator::Plus if is_short(left) && is_date(right) => right.add_checked(left).ok(),
        Operator::Minus if is_date(left) && is_short(right) => left.sub_checked(right).ok(),
        _ => None,
    }
}

/// The distance by which a moment is moved: first by months, then by ticks of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shift {
    pub(super) months: i32,
    pub(super) ticks: i128,
}

impl Shift {
    pub(super) fn from_interval(by: IntervalMonthDayNano, data_type: &DataType) -> Option<Self> {
        let is_short = by.months.unsigned_abs() <= 100_000 && by.days.unsigned_abs() <= 1_000_000;
        if !is_short || !is_local_moment(data_type) {
            return None;
        }
        let a_day = ticks_a_day(data_type)?;
        let tick = NANOSECONDS_A_DAY / a_day;
        // A date has no parts of a day: SQL drops them.
        let whole = *data_type == DataType::Date32 || by.nanoseconds % tick == 0;
        let ticks = i128::from(by.days) * i128::from(a_day) + i128::from(by.nanoseconds / tick);
        whole.then_some(Self { months: by.months, ticks })
    }

    fn moved(self, array: &ArrayRef) -> Result<ArrayRef> {
        let Moments { a_day, ticks } = Moments::within_reach(array)?;
        let mut days = days_of(&ticks, a_day);
        if self.months != 0 {
            let months = IntervalMonthDayNano::new(self.months, 0, 0);
            let months = Scalar::new(IntervalMonthDayNanoArray::from(vec![months]));
            days = add(&days, &months)?.as_primitive::<Date32Type>().clone();
        }
        let moved: Int64Array = ticks
            .iter()
            .zip(days.iter())
            .map(|(tick, day)| {
                let of_day = i128::from(tick?.rem_euclid(a_day));
                let moved = i128::from(day?) * i128::from(a_day) + of_day + self.ticks;
                i64::try_from(moved).ok()
            })
            .collect();
        within_reach(&typed_ticks(&moved, array.data_type())?)
    }
}

/// Dates or timestamps with these ticks since 1970; NULL outside of the calendar.
pub(super) fn moments_from_ticks(ticks: &Int64Array, data_type: &DataType) -> Result<ArrayRef> {
    sound_array(&typed_ticks(ticks, data_type)?, MOST_OF_A_CELL)
}

pub(super) fn typed_ticks(ticks: &Int64Array, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Date32 => cast(&cast(ticks, &DataType::Int32)?, &DataType::Date32)?,
        timestamp => cast(ticks, timestamp)?,
    })
}

/// Moments as ticks since 1970.
pub(super) struct Moments {
    pub(super) a_day: i64,
    pub(super) ticks: Int64Array,
}

impl Moments {
    /// The moments that are in the calendar.
    pub(super) fn from_array(array: &ArrayRef) -> Result<Self> {
        Self::new(sound_array(array, MOST_OF_A_CELL)?)
    }

    /// The moments that can be moved and compared.
    pub(super) fn within_reach(array: &ArrayRef) -> Result<Self> {
        Self::new(within_reach(array)?)
    }

    fn new(mut ticks: ArrayRef) -> Result<Self> {
        let Some(a_day) = ticks_a_day(ticks.data_type()) else {
            return exec_err!("these are no dates and no timestamps");
        };
        if *ticks.data_type() == DataType::Date32 {
            ticks = cast(&ticks, &DataType::Int32)?;
        }
        let ticks = cast(&ticks, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        Ok(Self { a_day, ticks })
    }
}

pub(super) fn days_of(ticks: &Int64Array, a_day: i64) -> Date32Array {
    let day = |tick: i64| i32::try_from(tick.div_euclid(a_day)).ok();
    ticks.iter().map(|tick| tick.and_then(day)).collect()
}

/// Whether a type has moments without a time zone, whose days have the same length.
pub(super) fn is_local_moment(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(_, None))
}

/// The name of a function that moves moments, its months and ticks, and the type; `None` for
/// another function.
pub(super) fn moved_parts(function: &ScalarUDF) -> Option<(String, i32, i128, DataType)> {
    let Moved { name, shift, data_type, .. } = function.inner().downcast_ref()?;
    Some((name.clone(), shift.months, shift.ticks, data_type.clone()))
}

/// The function with these parts.
pub(super) fn moved_made(name: &str, months: i32, ticks: i128, data_type: &DataType) -> ScalarUDF {
    let (name, data_type) = (name.to_owned(), data_type.clone());
    let shift = Shift { months, ticks };
    ScalarUDF::from(Moved { name, shift, data_type, signature: any_one() })
}

#[derive(Debug, PartialEq, Eq)]
struct Moved {
    name: String,
    shift: Shift,
    data_type: DataType,
    signature: Signature,
}

impl Hash for Moved {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Moved {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x] = args.args.as_slice() else { return exec_err!("a move has one operand") };
        match x {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(self.shift.moved(array)?)),
            ColumnarValue::Scalar(value) => {
                let moved = self.shift.moved(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&moved, 0)?))
            }
        }
    }
}

/// A period of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// A year.
    Year,
    /// Three months.
    Quarter,
    /// A month.
    Month,
    /// A week.
    Week,
    /// A day.
    Day,
    /// The number of them in a day.
    PartOfDay(i64),
}

impl Period {
    /// The units that can be counted, for messages.
    pub const NAMES: &str =
        "year, quarter, month, week, day, hour, minute, second, millisecond or microsecond";

    /// Parses the name of a period, in any case, singular or plural.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        Some(match name.strip_suffix('s').unwrap_or(&name) {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::PartOfDay(24),
            "minute" => Self::PartOfDay(1_440),
            "second" => Self::PartOfDay(86_400),
            "millisecond" => Self::PartOfDay(86_400_000),
            "microsecond" => Self::PartOfDay(86_400_000_000),
            _ => return None,
        })
    }

    /// The number of each moment's period, counted from 1970.
    ///
    /// # Guarantee
    /// A later moment never has a smaller number. Moments beyond `reach_of_moments` have none.
    ///
    /// # Errors
    /// For types other than dates and timestamps.
    pub fn numbers(self, array: &ArrayRef) -> Result<Int64Array> {
        let Moments { a_day, ticks } = Moments::within_reach(array)?;
        let days = || days_of(&ticks, a_day);
        let part = |part: DatePart| -> Result<Int64Array> {
            let days: ArrayRef = Arc::new(days());
            let part = date_part(&days, part)?;
            Ok(part.as_primitive::<Int32Type>().unary(i64::from))
        };
        let in_years = |a_year: i64, number: DatePart| -> Result<Int64Array> {
            let (years, numbers) = (part(DatePart::Year)?, part(number)?);
            let both = years.iter().zip(numbers.iter());
            Ok(both.map(|(year, number)| Some((year? - 1970) * a_year + number? - 1)).collect())
        };
        match self {
            Self::Year => Ok(part(DatePart::Year)?.unary(|year: i64| year - 1970)),
            Self::Quarter => in_years(4, DatePart::Quarter),
            Self::Month => in_years(12, DatePart::Month),
            // The first of January 1970 was a Thursday, and weeks begin on Mondays.
            Self::Week => Ok(days().unary(|day| (i64::from(day) + 3).div_euclid(7))),
            Self::Day => Ok(days().unary(i64::from)),
            Self::PartOfDay(parts) => {
                let number = |tick: i64| {
                    let parts = i128::from(tick) * i128::from(parts);
                    i64::try_from(parts.div_euclid(i128::from(a_day))).ok()
                };
                Ok(ticks.iter().map(|tick| tick.and_then(number)).collect())
            }
        }
    }
}

static DATE_DIFF: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(DateDiff::new())));

/// `date_diff('day', from, to)`, for the planner.
pub fn date_diff_function() -> Arc<ScalarUDF> {
    Arc::clone(&DATE_DIFF)
}

/// Whether a function is `date_diff` itself and not another of the same name.
pub fn is_date_diff(function: &ScalarUDF) -> bool {
    *function == **DATE_DIFF
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateDiff {
    signature: Signature,
}

impl DateDiff {
    fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The period that the first argument names.
fn period(unit: Option<&ScalarValue>) -> Result<Period> {
    match unit.and_then(|unit| unit.try_as_str().flatten()).and_then(Period::parse) {
        Some(period) => Ok(period),
        None => plan_err!("date_diff counts {}, written as a text", Period::NAMES),
    }
}

impl ScalarUDFImpl for DateDiff {
    fn name(&self) -> &'static str {
        "date_diff"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let moment = |data_type: &DataType| match data_type {
            DataType::Date64 | DataType::Null => {
                Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            text if text.is_string() => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
            local if is_local_moment(local) => Ok(local.clone()),
            other => plan_err!("date_diff takes dates and timestamps, not {other}"),
        };
        match arg_types {
            [_, from, to] => Ok(vec![DataType::Utf8, moment(from)?, moment(to)?]),
            _ => plan_err!("date_diff takes a unit and two moments: date_diff('day', from, to)"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        period(args.scalar_arguments.first().copied().flatten())?;
        Ok(Arc::new(Field::new(self.name(), DataType::Int64, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), from, to] = args.args.as_slice() else {
            return exec_err!("date_diff takes a unit and two moments");
        };
        let period = period(Some(unit))?;
        let numbers = |moments: &ColumnarValue| match moments {
            ColumnarValue::Array(array) => period.numbers(array),
            ColumnarValue::Scalar(value) => {
                period.numbers(&value.to_array_of_size(args.number_rows)?)
            }
        };
        let (from, to) = (numbers(from)?, numbers(to)?);
        let both = to.iter().zip(from.iter());
        let periods: Int64Array = both.map(|(to, from)| to?.checked_sub(from?)).collect();
        Ok(ColumnarValue::Array(Arc::new(periods)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray};

    use super::*;
    use crate::functions::temporal_limits;

    fn days_of_all(days: &[i32]) -> ArrayRef {
        Arc::new(Date32Array::from(days.to_vec()))
    }

    /// Compares both functions with DataFusion's own addition, in the whole calendar.
    #[test]
    fn moments_move_as_sql_moves_them() {
        let by = |months, days, nanoseconds| IntervalMonthDayNano::new(months, days, nanoseconds);
        let second = 1_000_000_000;
        let intervals = [
            by(1, 0, 0),
            by(-1, 0, 0),
            by(13, -40, 0),
            by(0, 3, 86_399 * second),
            by(0, 0, -second),
            by(-25, 400, 3_600 * second),
        ];
        let ticks = |every: i64| (-500..500).map(move |i| i * every);
        let dates: ArrayRef = Arc::new(Date32Array::from_iter_values((-9_000..9_000).step_by(7)));
        let seconds: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(ticks(987_654)));
        let nanoseconds: ArrayRef =
            Arc::new(TimestampNanosecondArray::from_iter_values(ticks(1_234_567_890_123_456)));
        for moments in [dates, seconds, nanoseconds] {
            for by in intervals {
                let interval = Scalar::new(IntervalMonthDayNanoArray::from(vec![by]));
                let expected = add(&moments, &interval).unwrap();
                assert_eq!(&moved_array(&moments, by).unwrap(), &expected, "{by:?}");
            }
        }
    }

    /// For days, every moved moment is exact, whatever its year. For nanoseconds, moments that
    /// leave the calendar are NULL.
    #[test]
    fn what_leaves_the_calendar_is_exact() {
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for data_type in [DataType::Date32, nanoseconds] {
            let is_date = data_type == DataType::Date32;
            let (first, last) = temporal_limits(&data_type).unwrap();
            let ends = Int64Array::from(vec![Some(first), Some(last), None, Some(0)]);
            let ends = match data_type {
                DataType::Date32 => cast(&ends, &DataType::Int32).unwrap(),
                _ => Arc::new(ends),
            };
            let ends = cast(&ends, &data_type).unwrap();
            for (by, nulls) in [(1, [false, true, true, false]), (-1, [true, false, true, false])] {
                for by in [
                    IntervalMonthDayNano::new(by, 0, 0),
                    IntervalMonthDayNano::new(0, by, 0),
                    IntervalMonthDayNano::new(by * 4, by, 0),
                ] {
                    let moved = moved_array(&ends, by).unwrap();
                    let seen: Vec<bool> = (0..4).map(|i| moved.is_null(i)).collect();
                    let nulls = if is_date { [false, false, true, false] } else { nulls };
                    assert_eq!(seen, nulls, "{by:?}");
                }
            }
        }
        let (first, last) = (-719_162, 2_932_896);
        let by = |months, days, moment| {
            let moved =
                moved_array(&days_of_all(&[moment]), IntervalMonthDayNano::new(months, days, 0));
            moved.unwrap().as_primitive::<Date32Type>().value(0)
        };
        assert_eq!(by(0, 1, last), last + 1);
        assert_eq!(by(1, 0, last), last + 31);
        assert_eq!(by(-1, 0, first), first - 31);
        assert_eq!(by(12, 0, last), last + 366);
        assert_eq!(by(0, -1, first), first - 1);
        assert_eq!(by(0, -1, by(0, 1, last)), last);
        assert!(
            moved_array(&days_of_all(&[0]), IntervalMonthDayNano::new(100_001, 0, 0)).is_none()
        );
        let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
        assert!(moved_array(&seconds, IntervalMonthDayNano::new(0, 0, 1)).is_none());
    }

    /// No step fails, whatever a slot holds.
    #[test]
    fn nothing_moves_beyond_reach() {
        let far =
            days_of_all(&[i32::MIN, -73_000_001, -73_000_000, 73_000_000, 73_000_001, i32::MAX]);
        for (months, days, nulls) in [
            (100_000, 1_000_000, [true, true, false, true, true, true]),
            (-100_000, -1_000_000, [true, true, true, false, true, true]),
            (0, 0, [true, true, false, false, true, true]),
        ] {
            let by = IntervalMonthDayNano::new(months, days, i64::from(days) * 1_000_000_000);
            let moved = moved_array(&far, by).unwrap();
            let seen: Vec<bool> = (0..6).map(|i| moved.is_null(i)).collect();
            assert_eq!(seen, nulls, "{by:?}");
        }
        let micros: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, i64::MAX, 0]));
        let moved = moved_array(
            &micros,
            IntervalMonthDayNano::new(100_000, 1_000_000, i64::MAX / 1000 * 1000),
        );
        assert_eq!(moved.unwrap().null_count(), 2);
        assert_eq!(Period::Month.numbers(&micros).unwrap().null_count(), 2);
    }

    /// The numbers of periods follow each other without gaps, and never fall.
    #[test]
    fn periods_are_counted_where_they_begin() {
        let all: ArrayRef = Arc::new(Date32Array::from_iter_values(-5_000..5_000));
        for (name, count) in
            [("year", 28), ("QUARTERS", 110), ("month", 330), ("week", 1_429), ("days", 10_000)]
        {
            let numbers = Period::parse(name).unwrap().numbers(&all).unwrap();
            let steps: Vec<i64> = numbers.values().windows(2).map(|two| two[1] - two[0]).collect();
            assert!(steps.iter().all(|step| (0..=1).contains(step)), "{name}");
            assert_eq!(steps.iter().sum::<i64>() + 1, count, "{name}");
        }
        let hours = Period::parse("hour").unwrap();
        let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![-1, 0, 3_599, 3_600]));
        assert_eq!(hours.numbers(&seconds).unwrap().values(), &[-1, 0, 0, 1]);
        assert_eq!(hours.numbers(&days_of_all(&[-1, 2])).unwrap().values(), &[-24, 48]);
        let monday = Period::parse("week").unwrap().numbers(&days_of_all(&[3, 4, 10, 11])).unwrap();
        assert_eq!(monday.values(), &[0, 1, 1, 2]);
        assert_eq!(Period::parse("fortnight"), None);
    }
}
