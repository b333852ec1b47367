//! Converts columns of Parquet and Arrow files to the types that the engine computes with.
//!
//! In: a column in the type that its writer chose. Out: the same values in the type of the table's
//! declaration. The function never fails: a value that the declared type cannot hold becomes NULL,
//! and each row is converted by itself.
//!
//! ```text
//! 41.0, 41.5, NaN, 1e300 as BIGINT       41, NULL, NULL, NULL
//! 08:30:00.000000999 in nanoseconds      08:30:00
//! the 16 bytes of a UUID                 '0b8e7a5c-…' in lower case
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, StringViewBuilder,
    Time64MicrosecondArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal256Type, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::micros::{computed, computed_type};

/// The 16 bytes of a UUID, as files store them.
pub const UUID: DataType = DataType::FixedSizeBinary(16);

/// Up to here, a DOUBLE holds each whole number; beyond, it holds one of several.
const MOST_OF_DOUBLE: f64 = 9_007_199_254_740_992.0;
/// The same for a REAL.
const MOST_OF_REAL: f64 = 16_777_216.0;

static FILE_VALUES: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(FileValues::new())));

/// `file_values(column, NULL of a type)`: the column of a file in this type.
pub fn file_values_function() -> Arc<ScalarUDF> {
    Arc::clone(&FILE_VALUES)
}

/// The type that a table gets for a column of a file, unless its owner declares another. All texts
/// have one type, all times of the day another, so that no writer's choice tells tables apart.
pub fn declared_type(of_file: &DataType) -> DataType {
    match of_file {
        DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Utf8,
        DataType::Float16 => DataType::Float32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Duration(_) => DataType::Int64,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal256(precision, scale) if *precision <= 38 => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, values) => match declared_type(values) {
            bytes if bytes.is_binary() || bytes.is_nested() => of_file.clone(),
            value => value,
        },
        other => computed_type(other).unwrap_or_else(|| other.clone()),
    }
}

/// Whether every value of a type is also a value of a wider one.
pub fn widens(from: &DataType, to: &DataType) -> bool {
    /// The digits of a whole number in base 2, and whether it has a sign.
    fn digits(data_type: &DataType) -> Option<(u8, bool)> {
        Some(match data_type {
            DataType::Int8 => (7, true),
            DataType::Int16 => (15, true),
            DataType::Int32 => (31, true),
            DataType::Int64 => (63, true),
            DataType::UInt8 => (8, false),
            DataType::UInt16 => (16, false),
            DataType::UInt32 => (32, false),
            DataType::UInt64 => (64, false),
            _ => return None,
        })
    }
    match (digits(from), digits(to)) {
        (Some((from, signed)), Some((to, with_sign))) => from < to && (with_sign || !signed),
        (Some((from, _)), None) => from < 53 && *to == DataType::Float64,
        (None, _) => *from == DataType::Float32 && *to == DataType::Float64,
    }
}

/// Whether a column of a declared type may be read as whole numbers: person ids of programs that
/// know no other numbers than DOUBLE.
pub fn counts_as_whole(from: &DataType, to: &DataType) -> bool {
    let is_float = matches!(from, DataType::Float32 | DataType::Float64);
    is_float && to.is_signed_integer()
}

/// Whether a column of a file may have values that a declared type cannot hold, and that are NULL
/// there.
pub fn may_lose(from: &DataType, to: &DataType) -> bool {
    match from {
        DataType::Float32 | DataType::Float64 => counts_as_whole(from, to),
        // Times outside of a day, more than 38 digits, and moments far beyond the calendar.
        DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Decimal256(..)
        | DataType::Date64
        | DataType::Duration(TimeUnit::Second | TimeUnit::Millisecond)
        | DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _) => true,
        DataType::Dictionary(_, values) => may_lose(values, to),
        _ => false,
    }
}

/// The values of a column of a file in a declared type. What the type cannot hold is NULL.
///
/// # Errors
/// An internal error for a type that no declaration reads as this one.
pub fn file_values(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    converted(array, to)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FileValues {
    signature: Signature,
}

impl FileValues {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FileValues {
    fn name(&self) -> &'static str {
        "file_values"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, to] => Ok(to.clone()),
            _ => plan_err!("file_values takes a column and a type"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = args.return_field.data_type();
        match args.args.as_slice() {
            [ColumnarValue::Array(array), _] => Ok(ColumnarValue::Array(converted(array, to)?)),
            [ColumnarValue::Scalar(value), _] => {
                let value = converted(&value.to_array()?, to)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
            }
            _ => exec_err!("file_values takes a column and a type"),
        }
    }
}

/// The values of a column in a declared type.
///
/// # Guarantee
/// The value of a row follows from this row alone. No value fails. Different whole numbers of a
/// DOUBLE or REAL stay different: a float that is not whole, or so large that it may stand for
/// several whole numbers, becomes NULL. Where such a column identifies people, no two people of the
/// file become one, and what is NULL belongs to nobody.
fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    let read = match from {
        DataType::Null => return Ok(new_null_array(to, array.len())),
        // Texts are not copied to one array before, whose offsets might overflow.
        DataType::Dictionary(_, values) if values.is_string() && to.is_string() => {
            return Ok(cast(array, to)?);
        }
        DataType::Dictionary(_, values) => cast(array, values)?,
        DataType::FixedSizeBinary(16) if to.is_string() => uuid_texts(array),
        DataType::Float16 => cast(array, &DataType::Float32)?,
        DataType::Float32 if to.is_signed_integer() => whole(array, MOST_OF_REAL)?,
        DataType::Float64 if to.is_signed_integer() => whole(array, MOST_OF_DOUBLE)?,
        DataType::Time32(_) | DataType::Time64(_) => times(array)?,
        DataType::Duration(_) => durations(array)?,
        moment if computed_type(moment).is_some_and(|computed| computed != *moment) => {
            computed(array)?
        }
        DataType::Decimal256(precision, scale) if matches!(to, DataType::Decimal128(..)) => {
            narrow_decimals(array, *precision, *scale)?
        }
        // A cast is lenient: what the type cannot hold is NULL.
        _ => cast(array, to)?,
    };
    if read.data_type() == from {
        return exec_err!("a column of a file has another type than its table");
    }
    converted(&read, to)
}

/// Decimals of 256 bits with at most 38 digits. Arrow's cast between equal precisions believes
/// them, and would panic on a value with more.
fn narrow_decimals(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef> {
    let most = 10_i128.checked_pow(u32::from(precision)).map_or(i128::MAX, |end| end - 1);
    let narrow: Decimal128Array = array
        .as_primitive::<Decimal256Type>()
        .unary_opt(|value| value.to_i128().filter(|value| (-most..=most).contains(value)));
    Ok(Arc::new(narrow.with_precision_and_scale(precision, scale)?))
}

fn whole(array: &ArrayRef, most: f64) -> Result<ArrayRef> {
    let floats = cast(array, &DataType::Float64)?;
    let floats: &Float64Array = floats.as_primitive::<Float64Type>();
    let whole: Int64Array = floats.unary_opt(|float| whole_number(float, most));
    Ok(Arc::new(whole))
}

/// A float as a whole number; `None` for NaN, fractions, and numbers beyond this one.
#[allow(clippy::cast_possible_truncation, reason = "whole, and at most 2^53")]
fn whole_number(float: f64, most: f64) -> Option<i64> {
    (float.abs() <= most && float.fract() == 0.0).then_some(float as i64)
}

/// The number of units in a second.
fn units(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn in_micros(ticks: i64, unit: &TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Nanosecond => Some(ticks.div_euclid(1_000)),
        other => ticks.checked_mul(1_000_000 / units(other)),
    }
}

/// Times of the day in microseconds. What is no time of a day is NULL.
fn times(array: &ArrayRef) -> Result<ArrayRef> {
    const DAY: i64 = 86_400_000_000;
    let (DataType::Time32(unit) | DataType::Time64(unit)) = array.data_type() else {
        return exec_err!("these are no times of the day");
    };
    let ticks = match array.data_type() {
        DataType::Time32(_) => cast(&cast(array, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(array, &DataType::Int64)?,
    };
    let micros: Int64Array = ticks
        .as_primitive::<Int64Type>()
        .unary_opt(|tick| in_micros(tick, unit).filter(|micros| (0..DAY).contains(micros)));
    let times: Time64MicrosecondArray = micros.reinterpret_cast();
    Ok(Arc::new(times))
}

/// Durations as numbers of microseconds.
fn durations(array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Duration(unit) = array.data_type() else {
        return exec_err!("these are no durations");
    };
    let ticks = cast(array, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>();
    let micros: Int64Array = ticks.unary_opt(|tick| in_micros(tick, unit));
    Ok(Arc::new(micros))
}

fn uuid_texts(array: &ArrayRef) -> ArrayRef {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut text = String::with_capacity(36);
    for bytes in array.as_fixed_size_binary() {
        let Some(bytes) = bytes else {
            texts.append_null();
            continue;
        };
        text.clear();
        for (i, byte) in bytes.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 15] {
                text.extend(HEX.get(usize::from(digit)));
            }
        }
        texts.append_value(&text);
    }
    Arc::new(texts.finish())
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Array, Date64Array, Decimal32Array, Decimal256Array, DictionaryArray,
        DurationMillisecondArray, DurationNanosecondArray, FixedSizeBinaryArray, Float16Array,
        Float32Array, Int32Array, LargeStringArray, NullArray, StringArray, StringViewArray,
        Time32SecondArray, Time64NanosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, Time64MicrosecondType, i256};

    use super::*;

    fn read(array: impl Array + 'static, to: &DataType) -> ArrayRef {
        let array: ArrayRef = Arc::new(array);
        let read = converted(&array, to).unwrap();
        assert_eq!((read.data_type(), read.len()), (to, array.len()));
        read
    }

    fn numbers(array: impl Array + 'static) -> Vec<Option<i64>> {
        read(array, &DataType::Int64).as_primitive::<Int64Type>().iter().collect()
    }

    /// No two floats become one number, and no float fails.
    #[test]
    fn only_whole_floats_are_numbers() {
        let most = MOST_OF_DOUBLE;
        let floats = vec![0.0, -0.0, 41.0, 41.5, most, most + 2.0, -most, f64::NAN, f64::INFINITY];
        let expected = [Some(0), Some(0), Some(41), None, Some(1 << 53), None, Some(-(1 << 53))];
        assert_eq!(numbers(Float64Array::from(floats)), [&expected[..], &[None, None]].concat());
        let floats = vec![Some(16_777_216.0), Some(16_777_218.0), None, Some(0.5), Some(f32::MIN)];
        assert_eq!(numbers(Float32Array::from(floats)), [Some(1 << 24), None, None, None, None]);
        let narrow = read(Float64Array::from(vec![7.0, 3e9]), &DataType::Int32);
        assert_eq!(narrow.as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(7), None]));
    }

    #[test]
    fn every_text_is_one_type() {
        let expected =
            StringViewArray::from(vec![Some("a"), None, Some("a longer text than views")]);
        let values = || expected.iter();
        let to = DataType::Utf8View;
        let keyed: DictionaryArray<Int32Type> = values().collect();
        for array in [
            read(values().collect::<StringArray>(), &to),
            read(values().collect::<LargeStringArray>(), &to),
            read(keyed, &to),
        ] {
            assert_eq!(array.as_string_view(), &expected);
        }
        assert_eq!(read(NullArray::new(2), &to).null_count(), 2);
    }

    #[test]
    fn uuids_are_texts_with_hyphens() {
        let bytes =
            [Some([0x0b_u8, 0x8e, 0x7a, 0x5c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xfa, 0xff]), None];
        let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 16);
        let texts = read(array.unwrap(), &DataType::Utf8View);
        assert_eq!(texts.as_string_view().value(0), "0b8e7a5c-0001-0203-0405-06070809faff");
        assert!(texts.is_null(1));
    }

    #[test]
    fn times_outside_of_a_day_are_null() {
        let to = declared_type(&DataType::Time64(TimeUnit::Nanosecond));
        let times = |array: ArrayRef| -> Vec<Option<i64>> {
            let read = converted(&array, &to).unwrap();
            read.as_primitive::<Time64MicrosecondType>().iter().collect()
        };
        let nanoseconds = vec![Some(-1), Some(999), None, Some(86_400_000_000_000), Some(i64::MAX)];
        let read = times(Arc::new(Time64NanosecondArray::from(nanoseconds)));
        assert_eq!(read, [None, Some(0), None, None, None]);
        let seconds = Time32SecondArray::from(vec![30_600, 86_400, i32::MIN]);
        assert_eq!(times(Arc::new(seconds)), [Some(30_600_000_000), None, None]);
    }

    #[test]
    fn other_types_of_files_keep_their_values() {
        let durations = DurationMillisecondArray::from(vec![Some(-2), None, Some(i64::MAX)]);
        assert_eq!(numbers(durations), [Some(-2_000), None, None]);
        assert_eq!(numbers(DurationNanosecondArray::from(vec![-1, 1_999])), [Some(-1), Some(1)]);
        let half = Float16Array::from_iter_values([super::super::Half::from_f32(1.5)]);
        let real = read(half, &DataType::Float32);
        assert_eq!(
            real.as_primitive::<arrow::datatypes::Float32Type>().value(0).to_bits(),
            1.5_f32.to_bits()
        );
        let to = declared_type(&DataType::Decimal256(30, 2));
        let wide = [Some(i256::from(125)), None, Some(i256::MAX)];
        let wide = Decimal256Array::from_iter(wide).with_precision_and_scale(30, 2).unwrap();
        let wide = read(wide, &to);
        assert_eq!(
            wide.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(),
            [Some(125), None, None]
        );
        let to = declared_type(&DataType::Decimal32(5, 2));
        let small = Decimal32Array::from(vec![125]).with_precision_and_scale(5, 2).unwrap();
        assert_eq!(read(small, &to).as_primitive::<Decimal128Type>().value(0), 125);
        let days = read(Date64Array::from(vec![-1, 86_400_001]), &DataType::Date32);
        assert_eq!(days.as_primitive::<Date32Type>().values(), &[-1, 1]);
        let keyed = DictionaryArray::<Int32Type>::new(
            Int32Array::from(vec![Some(1), None, Some(0)]),
            Arc::new(Int64Array::from(vec![7, 8])),
        );
        assert_eq!(numbers(keyed), [Some(8), None, Some(7)]);
        assert_eq!(numbers(UInt64Array::from(vec![1, u64::MAX])), [Some(1), None]);
    }

    #[test]
    fn widening_loses_nothing() {
        let (int, long, double) = (DataType::Int32, DataType::Int64, DataType::Float64);
        assert!(widens(&int, &long) && widens(&DataType::UInt32, &long) && widens(&int, &double));
        assert!(
            !widens(&long, &int) && !widens(&DataType::UInt64, &long) && !widens(&long, &double)
        );
        assert!(
            !widens(&int, &DataType::UInt64) && !widens(&long, &long) && !widens(&double, &long)
        );
        assert!(counts_as_whole(&double, &long) && !counts_as_whole(&long, &long));
    }
}
