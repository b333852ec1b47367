//! Replaces values that a column can hold but that make kernels fail.
//!
//! In: a column. Out: the same column, with NULL for decimals with more digits than their type
//! allows, for dates outside the years that date functions accept, and for texts so long that a
//! batch of them would not fit one array. A declared type does not rule out these values: sums of
//! decimals wrap around, files can hold any bytes, and texts can have any length. Every value that
//! enters below a release passes through this module: from a scan, from public rows, as a constant,
//! as a released value, and from a window function.
//!
//! The attack prevented: `CASE WHEN id = 5 THEN v ELSE 0 END * -1`, which fails if person 5 exists
//! and succeeds if not.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, OffsetSizeTrait, PrimitiveArray,
};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute::nullif;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The most bytes of a text or binary value in a row. A batch of 8,192 rows then has 2²⁹ bytes, and
/// at most three times as many after a change of case; the offsets of an array count to 2³¹.
pub const MOST_OF_A_CELL: usize = 1 << 16;

/// The most bytes of a text that is the same for every row. Window functions return larger batches.
pub const MOST_OF_A_CONSTANT: usize = 1_000;

static SOUND: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Sound::new("sound"))));

static IN_CALENDAR: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Sound::new("in_calendar"))));

/// The function behind [`in_calendar`].
pub fn in_calendar_function() -> Arc<ScalarUDF> {
    Arc::clone(&IN_CALENDAR)
}

/// A moment that an interval moved; NULL outside of the calendar. Its name says that it may become
/// NULL there.
pub fn in_calendar(moment: Expr) -> Expr {
    IN_CALENDAR.call(vec![moment])
}

/// The function behind [`sound`].
pub(super) fn sound_function() -> Arc<ScalarUDF> {
    Arc::clone(&SOUND)
}

/// A column without values that make kernels fail; see the module's documentation.
///
/// # Guarantee
/// Every remaining value lies in the range of its type, and none is longer than 65,536 bytes.
pub fn sound(x: Expr, data_type: &DataType) -> Expr {
    if is_sound(data_type) { x } else { SOUND.call(vec![x]) }
}

/// Whether all values that a type can hold are sound.
pub fn is_sound(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_sound(value),
        DataType::Decimal128(..)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => false,
        other => !has_ends(other),
    }
}

/// Whether some values of a type are no dates, no moments or no times of a day, so that they cannot
/// be written.
pub fn has_ends(data_type: &DataType) -> bool {
    temporal_limits(data_type).is_some() || clock_limits(data_type).is_some()
}

/// The first and last value of a time of the day, or of a date that is counted in milliseconds.
fn clock_limits(data_type: &DataType) -> Option<(i64, i64)> {
    let of_a_day = |ticks: Option<i64>| Some((0, ticks? - 1));
    match data_type {
        DataType::Time32(unit) | DataType::Time64(unit) => {
            of_a_day(ticks_a_day(&DataType::Timestamp(*unit, None)))
        }
        DataType::Date64 => temporal_limits(&DataType::Timestamp(TimeUnit::Millisecond, None)),
        _ => None,
    }
}

/// The first and last usable value of a temporal type. They span the years 1 to 9999, whose texts
/// every client reads; nanoseconds hold only the years 1678 to 2261.
pub fn temporal_limits(data_type: &DataType) -> Option<(i64, i64)> {
    /// The days since 1970 of the first day of year 1, and of the last of year 9999.
    const DAYS: (i64, i64) = (-719_162, 2_932_896);
    /// Days from 1970 to the first day of 1678, and to the last of 2261, rounded inward.
    const NANOSECONDS: i64 = 106_600;
    let ticks = ticks_a_day(data_type)?;
    Some(match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (-NANOSECONDS * ticks, NANOSECONDS * ticks),
        _ => (DAYS.0 * ticks, (DAYS.1 + 1) * ticks - 1),
    })
}

/// The first and last value of a temporal type that can be moved and compared, some 200,000 years
/// from 1970: within them, no step of the arithmetic of dates fails. For nanoseconds, these are the
/// ends of their calendar. Moments with a zone are not moved.
///
/// # Guarantee
/// Every moment of the calendar lies within.
pub fn reach_of_moments(data_type: &DataType) -> Option<(i64, i64)> {
    const DAYS: i64 = 73_000_000;
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Timestamp(_, Some(_)) => {
            temporal_limits(data_type)
        }
        other => ticks_a_day(other).map(|ticks| (-DAYS * ticks, DAYS * ticks)),
    }
}

/// Whether a date or timestamp lies in the calendar; false for NULL and for values of other types.
pub fn is_in_calendar(value: &ScalarValue) -> bool {
    let kept = value.to_array().and_then(|array| sound_array(&array, MOST_OF_A_CELL));
    ticks_a_day(&value.data_type()).is_some() && kept.is_ok_and(|kept| kept.is_valid(0))
}

/// The years that a message names for a text that is not a date.
pub const YEARS: &str = "the years 0001 to 9999";

/// The least and the greatest value of a type that remain after a column enters. For dates, moments
/// and decimals, [`sound`] turns values beyond them into NULL; for floats, [`super::without_nan`]
/// does so with NaN, which comparisons order beyond both infinities.
pub fn ends_of_sound(data_type: &DataType) -> Option<(ScalarValue, ScalarValue)> {
    let both = |of: &dyn Fn(i64) -> Option<ScalarValue>| {
        let (first, last) = temporal_limits(data_type)?;
        of(first).zip(of(last))
    };
    match data_type {
        DataType::Float32 => Some((
            ScalarValue::Float32(Some(f32::NEG_INFINITY)),
            ScalarValue::Float32(Some(f32::INFINITY)),
        )),
        DataType::Float64 => Some((
            ScalarValue::Float64(Some(f64::NEG_INFINITY)),
            ScalarValue::Float64(Some(f64::INFINITY)),
        )),
        DataType::Decimal128(precision, scale) => {
            let most = most_of_digits(*precision);
            let of = |v| ScalarValue::Decimal128(Some(v), *precision, *scale);
            Some((of(-most), of(most)))
        }
        DataType::Date32 => both(&|v| Some(ScalarValue::Date32(Some(i32::try_from(v).ok()?)))),
        DataType::Timestamp(unit, zone) => both(&|v| {
            let (v, zone) = (Some(v), zone.clone());
            Some(match unit {
                TimeUnit::Second => ScalarValue::TimestampSecond(v, zone),
                TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(v, zone),
                TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(v, zone),
                TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(v, zone),
            })
        }),
        _ => None,
    }
}

/// The last microsecond of a day.
pub const LAST_MICROSECOND: i64 = 86_399_999_999;

/// The greatest number with this many digits.
fn most_of_digits(precision: u8) -> i128 {
    10_i128.checked_pow(u32::from(precision)).map_or(i128::MAX, |end| end - 1)
}

/// The number of units of a temporal type in a day.
pub fn ticks_a_day(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Date32 => Some(1),
        DataType::Timestamp(TimeUnit::Second, _) => Some(86_400),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(86_400_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(86_400_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(86_400_000_000_000),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sound {
    name: &'static str,
    signature: Signature,
}

impl Sound {
    fn new(name: &'static str) -> Self {
        Self { name, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Sound {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [x] => Ok(x.clone()),
            _ => plan_err!("sound takes one column"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => {
                Ok(ColumnarValue::Array(sound_array(array, MOST_OF_A_CELL)?))
            }
            [ColumnarValue::Scalar(value)] => {
                let kept = sound_array(&value.to_array()?, MOST_OF_A_CELL)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&kept, 0)?))
            }
            _ => exec_err!("sound takes one column"),
        }
    }
}

/// The moments of a column that can be moved, compared and subtracted; NULL for all others.
///
/// # Errors
/// For types other than dates and timestamps.
pub(super) fn within_reach(array: &ArrayRef) -> Result<ArrayRef> {
    let Some((first, last)) = reach_of_moments(array.data_type()) else {
        return exec_err!("these are no dates and no timestamps");
    };
    let (first, last) = (first.into(), last.into());
    Ok(match array.data_type() {
        DataType::Date32 => within::<Date32Type>(array, first, last),
        DataType::Timestamp(TimeUnit::Second, _) => {
            within::<TimestampSecondType>(array, first, last)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            within::<TimestampMillisecondType>(array, first, last)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            within::<TimestampMicrosecondType>(array, first, last)
        }
        _ => within::<TimestampNanosecondType>(array, first, last),
    })
}

/// The sound values of a column with at most `most` bytes; NULL for all others.
///
/// # Errors
/// None for the types to which [`sound`] applies.
pub(crate) fn sound_array(array: &ArrayRef, most: usize) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Decimal128(precision, _) => {
            let most = most_of_digits(*precision);
            within::<Decimal128Type>(array, -most, most)
        }
        DataType::Date32 => of_calendar::<Date32Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => of_calendar::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            of_calendar::<TimestampMillisecondType>(array)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            of_calendar::<TimestampMicrosecondType>(array)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            of_calendar::<TimestampNanosecondType>(array)
        }
        DataType::Date64 => of_calendar::<Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => of_calendar::<Time32SecondType>(array),
        DataType::Time32(_) => of_calendar::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Microsecond) => of_calendar::<Time64MicrosecondType>(array),
        DataType::Time64(_) => of_calendar::<Time64NanosecondType>(array),
        _ => match longer(array, most) {
            Some(longer) if longer.count_set_bits() > 0 => {
                nullif(array, &BooleanArray::new(longer, None))?
            }
            Some(_) | None => Arc::clone(array),
        },
    })
}

/// The rows that hold more than `most` bytes; the result for NULLs does not matter. `None` for
/// types other than texts and bytes.
fn longer(array: &ArrayRef, most: usize) -> Option<BooleanBuffer> {
    fn by_offsets<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, most: usize) -> BooleanBuffer {
        offsets.lengths().map(|length| length > most).collect()
    }
    // The low half of a view is the length of its text.
    let by_views = |views: &[u128]| -> BooleanBuffer {
        views.iter().map(|view| (view & u128::from(u32::MAX)) > most as u128).collect()
    };
    match array.data_type() {
        DataType::Utf8 => Some(by_offsets(array.as_string::<i32>().offsets(), most)),
        DataType::LargeUtf8 => Some(by_offsets(array.as_string::<i64>().offsets(), most)),
        DataType::Binary => Some(by_offsets(array.as_binary::<i32>().offsets(), most)),
        DataType::LargeBinary => Some(by_offsets(array.as_binary::<i64>().offsets(), most)),
        DataType::Utf8View => Some(by_views(array.as_string_view().views())),
        DataType::BinaryView => Some(by_views(array.as_binary_view().views())),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = longer(dictionary.values(), most)?;
            if values.count_set_bits() == 0 {
                return Some(BooleanBuffer::new_unset(array.len()));
            }
            let is_longer = |key: usize| key < values.len() && values.value(key);
            Some(dictionary.normalized_keys().into_iter().map(is_longer).collect())
        }
        _ => None,
    }
}

fn of_calendar<T>(array: &ArrayRef) -> ArrayRef
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    let limits = temporal_limits(array.data_type()).or_else(|| clock_limits(array.data_type()));
    let (first, last) = limits.unwrap_or((0, 0));
    within::<T>(array, first.into(), last.into())
}

/// The values of a column from `first` to `last`; NULL for all others.
fn within<T>(array: &ArrayRef, first: i128, last: i128) -> ArrayRef
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    let is_within = |v: T::Native| (first..=last).contains(&v.into());
    let values = array.as_primitive::<T>();
    if values.values().iter().all(|v| is_within(*v)) {
        return Arc::clone(array);
    }
    let kept: PrimitiveArray<T> = values.unary_opt(|v| is_within(v).then_some(v));
    Arc::new(kept.with_data_type(array.data_type().clone()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryArray, Date64Array, Decimal128Array, DictionaryArray, LargeStringArray, StringArray,
        StringViewArray, Time32SecondArray, Time64MicrosecondArray, TimestampSecondArray,
    };
    use arrow::datatypes::Int8Type;

    use super::*;

    fn nulls(array: impl Array + 'static) -> Vec<bool> {
        let array: ArrayRef = Arc::new(array);
        let kept = sound_array(&array, 4).unwrap();
        assert_eq!(kept.data_type(), array.data_type());
        (0..kept.len()).map(|i| kept.is_null(i)).collect()
    }

    #[test]
    fn decimals_have_their_digits() {
        let decimals = |values: Vec<Option<i128>>, precision| {
            nulls(Decimal128Array::from(values).with_precision_and_scale(precision, 2).unwrap())
        };
        let values = [99_999, -99_999, 100_000, -100_000, i128::MIN, i128::MAX].map(Some);
        assert_eq!(decimals(values.to_vec(), 5), [false, false, true, true, true, true]);
        let end = 10_i128.pow(38);
        let values = [end - 1, 1 - end, end, -end, i128::MIN, i128::MAX].map(Some);
        assert_eq!(decimals(values.to_vec(), 38), [false, false, true, true, true, true]);
        assert_eq!(decimals(vec![None, Some(0)], 38), [true, false]);
    }

    #[test]
    fn moments_are_in_the_calendar() {
        let (first, last) = temporal_limits(&DataType::Timestamp(TimeUnit::Second, None)).unwrap();
        let moments = vec![first - 1, first, last, last + 1, i64::MIN];
        assert_eq!(nulls(TimestampSecondArray::from(moments)), [true, false, false, true, true]);
    }

    #[test]
    fn times_are_of_one_day() {
        let day = 86_400_000_000;
        let times = Time64MicrosecondArray::from(vec![-1, 0, day - 1, day, i64::MAX]);
        assert_eq!(nulls(times), [true, false, false, true, true]);
        let times = Time32SecondArray::from(vec![-1, 0, 86_399, 86_400, i32::MIN]);
        assert_eq!(nulls(times), [true, false, false, true, true]);
        let days = Date64Array::from(vec![0, i64::MAX, i64::MIN]);
        assert_eq!(nulls(days), [false, true, true]);
    }

    #[test]
    fn texts_of_every_type_are_short() {
        let texts =
            vec![Some("four"), None, Some("fives"), Some(""), Some("far longer than a view")];
        let long = [false, true, true, false, true];
        assert_eq!(nulls(StringArray::from(texts.clone())), long);
        assert_eq!(nulls(LargeStringArray::from(texts.clone())), long);
        assert_eq!(nulls(StringViewArray::from(texts.clone())), long);
        let bytes = texts.iter().map(|text| text.map(str::as_bytes)).collect();
        assert_eq!(nulls(BinaryArray::from_opt_vec(bytes)), long);
        let dictionary: DictionaryArray<Int8Type> = texts.into_iter().collect();
        assert_eq!(nulls(dictionary), long);
        let empty: DictionaryArray<Int8Type> = [None::<&str>, None].into_iter().collect();
        assert_eq!(nulls(empty), [true, true]);
        assert!(nulls(StringArray::from(Vec::<&str>::new())).is_empty());
    }

    #[test]
    fn a_sliced_column_is_its_slice() {
        let array: ArrayRef = Arc::new(StringArray::from(vec!["fives", "two", "other"]));
        let kept = sound_array(&array.slice(1, 2), 4).unwrap();
        assert_eq!(kept.as_string::<i32>(), &StringArray::from(vec![Some("two"), None]));
    }
}
