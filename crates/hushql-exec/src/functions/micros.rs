//! Converts moments of files to microseconds, and their dates to days, whatever a file holds.
//!
//! In: timestamps of any unit, with a time zone or without, or dates in milliseconds. Out:
//! timestamps in microseconds without a zone, and dates in days. Moments with a zone become moments
//! in UTC. Finer parts are cut off toward the past, also before 1970. The function never fails: a
//! moment that microseconds cannot hold becomes NULL.
//!
//! ```text
//! 1969-12-31 23:59:59.999999999, in nanoseconds      1969-12-31 23:59:59.999999
//! 9999-12-31 23:59:59, in seconds                    9999-12-31 23:59:59
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Date32Array, Int64Array, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::any_one;

static IN_MICROSECONDS: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(InMicroseconds { signature: any_one() })));

/// The function that gives each value of a file the type of [`computed_type`].
pub fn in_microseconds_function() -> Arc<ScalarUDF> {
    Arc::clone(&IN_MICROSECONDS)
}

/// The type in which the engine computes with dates and moments of a file's type; `None` for other
/// types.
pub fn computed_type(of_file: &DataType) -> Option<DataType> {
    match of_file {
        DataType::Timestamp(..) => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        DataType::Date32 | DataType::Date64 => Some(DataType::Date32),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InMicroseconds {
    signature: Signature,
}

impl ScalarUDFImpl for InMicroseconds {
    fn name(&self) -> &'static str {
        "in_microseconds"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first().and_then(computed_type) {
            Some(computed) => Ok(computed),
            None => plan_err!("in_microseconds takes a date or timestamp"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(computed(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let computed = computed(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?))
            }
            _ => exec_err!("in_microseconds takes one column"),
        }
    }
}

pub(super) fn computed(array: &ArrayRef) -> Result<ArrayRef> {
    const DAY: i64 = 86_400_000;
    if *array.data_type() == DataType::Date32 {
        return Ok(Arc::clone(array));
    }
    let ticks = cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
    let micros = |of: &dyn Fn(i64) -> Option<i64>| -> Int64Array {
        ticks.iter().map(|tick| tick.and_then(of)).collect()
    };
    let micros = match array.data_type() {
        DataType::Date64 => {
            let day = |tick: i64| i32::try_from(tick.div_euclid(DAY)).ok();
            let days: Date32Array = ticks.iter().map(|tick| tick.and_then(day)).collect();
            return Ok(Arc::new(days));
        }
        DataType::Timestamp(TimeUnit::Second, _) => micros(&|tick| tick.checked_mul(1_000_000)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => micros(&|tick| tick.checked_mul(1_000)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => ticks,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            micros(&|tick| Some(tick.div_euclid(1_000)))
        }
        other => return exec_err!("{other} is no type of dates or timestamps"),
    };
    let micros: TimestampMicrosecondArray = micros.reinterpret_cast();
    Ok(Arc::new(micros))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Array, Date64Array, TimestampMillisecondArray, TimestampNanosecondArray,
        TimestampSecondArray,
    };

    use super::*;

    fn ticks(array: impl Array + 'static) -> Vec<Option<i64>> {
        let array: ArrayRef = Arc::new(array);
        let computed = computed(&array).unwrap();
        assert_eq!(Some(computed.data_type()), computed_type(array.data_type()).as_ref());
        let numbers = match computed.data_type() {
            DataType::Date32 => cast(&computed, &DataType::Int32).unwrap(),
            _ => computed,
        };
        let numbers = cast(&numbers, &DataType::Int64).unwrap();
        numbers.as_primitive::<Int64Type>().iter().collect()
    }

    /// No moment is moved into a later microsecond or day, and none fails.
    #[test]
    fn every_unit_is_cut_toward_the_past() {
        let nanoseconds = vec![i64::MIN, -1_001, -1_000, -1, 0, 999, 1_000, i64::MAX];
        let expected = [i64::MIN.div_euclid(1_000), -2, -1, -1, 0, 0, 1, i64::MAX / 1_000];
        assert_eq!(ticks(TimestampNanosecondArray::from(nanoseconds)), expected.map(Some));
        let milliseconds = TimestampMillisecondArray::from(vec![Some(-1), None, Some(i64::MAX)]);
        assert_eq!(ticks(milliseconds), [Some(-1_000), None, None]);
        // The last second of year 9999.
        let seconds = TimestampSecondArray::from(vec![253_402_300_799, i64::MIN]);
        let seconds = seconds.with_timezone("Europe/Berlin");
        assert_eq!(ticks(seconds), [Some(253_402_300_799_000_000), None]);
        let dates = Date64Array::from(vec![-1, 0, 86_400_001, i64::MAX]);
        assert_eq!(ticks(dates), [Some(-1), Some(0), Some(1), None]);
    }
}
