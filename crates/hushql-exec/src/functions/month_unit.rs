//! `month_unit(person, x)`: one month of a person as a text, which identifies a privacy unit.
//!
//! In: the column that identifies a person, and dates or timestamps. Out: a text for each row; two
//! rows have the same text if and only if they have the same person and the same month, or the same
//! person and no date. It never fails. A moment outside of the years 0001 to 9999 is no date.
//!
//! ```text
//! month_unit(7, DATE '2026-03-31')      '24314|7'        months since January of year 0
//! month_unit(7, NULL)                   '|7'
//! ```

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, LargeStringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Decimal128Type};
use chrono::{DateTime, Datelike};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::moments::{Moments, is_local_moment};

static MONTH_UNIT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(UnitOfMonth::new())));

/// The function behind [`month_unit`].
pub(super) fn month_unit_function() -> Arc<ScalarUDF> {
    Arc::clone(&MONTH_UNIT)
}

/// The unit of a row whose unit is one month of a person.
///
/// # Guarantee
/// Equal for two rows exactly if their persons are equal and their dates are in the same month, or
/// both have none: the months are numbers, and end at the first bar. NULL only without a person.
pub fn month_unit(person: Expr, date: Expr) -> Expr {
    MONTH_UNIT.call(vec![person, date])
}

/// Whether a column can say in which month a row is.
pub fn has_months(data_type: &DataType) -> bool {
    is_local_moment(data_type)
}

/// The month, counted from January of year 0, of a moment that is this many of its type's ticks
/// later; `None` for NULL, outside of the calendar, and for other types.
pub fn month_of(value: &ScalarValue, later: i64) -> Option<i64> {
    if !has_months(&value.data_type()) {
        return None;
    }
    let Moments { a_day, ticks } = Moments::from_array(&value.to_array().ok()?).ok()?;
    let tick = ticks.iter().next().flatten()?;
    month_of_day(tick.checked_add(later)?.div_euclid(a_day))
}

/// The month of a day since 1970.
fn month_of_day(day: i64) -> Option<i64> {
    let date = DateTime::from_timestamp(day.checked_mul(86_400)?, 0)?;
    i64::from(date.year()).checked_mul(12)?.checked_add(i64::from(date.month0()))
}

/// Writes the person of each row behind its month.
fn units(person: &ArrayRef, date: &ArrayRef) -> Result<ArrayRef> {
    let Moments { a_day, ticks } = Moments::from_array(date)?;
    let mut units = LargeStringBuilder::new();
    let mut each = |write: &mut dyn FnMut(usize, &mut LargeStringBuilder) -> std::fmt::Result| {
        for (row, tick) in ticks.iter().enumerate() {
            if person.is_null(row) {
                units.append_null();
                continue;
            }
            if let Some(month) = tick.and_then(|tick| month_of_day(tick.div_euclid(a_day))) {
                write!(units, "{month}")?;
            }
            units.write_str("|")?;
            write(row, &mut units)?;
            units.append_value("");
        }
        Ok::<(), std::fmt::Error>(())
    };
    match person.data_type() {
        // The text of a day far from today could not be written.
        DataType::Date32 => {
            let days = person.as_primitive::<Date32Type>();
            each(&mut |row, text| write!(text, "{}", days.value(row)))?;
        }
        DataType::Decimal128(..) => {
            let digits = person.as_primitive::<Decimal128Type>();
            each(&mut |row, text| write!(text, "{}", digits.value(row)))?;
        }
        other if other.is_integer() || other.is_string() => {
            let texts = cast(person, &DataType::LargeUtf8)?;
            let texts = texts.as_string::<i64>();
            each(&mut |row, text| text.write_str(texts.value(row)))?;
        }
        other => return exec_err!("a unit is not identified by a column of type {other}"),
    }
    Ok(Arc::new(units.finish()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct UnitOfMonth {
    signature: Signature,
}

impl UnitOfMonth {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for UnitOfMonth {
    fn name(&self) -> &'static str {
        "month_unit"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, date] if has_months(date) => Ok(DataType::LargeUtf8),
            _ => plan_err!("month_unit takes a person and a date"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [person, date] = args.args.as_slice() else {
            return exec_err!("month_unit takes a person and a date");
        };
        let (person, date) = (person.to_array(args.number_rows)?, date.to_array(args.number_rows)?);
        Ok(ColumnarValue::Array(units(&person, &date)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the tests make their arrays on the spot")]
    fn texts(person: ArrayRef, date: ArrayRef) -> Vec<Option<String>> {
        let units = units(&person, &date).unwrap();
        units.as_string::<i64>().iter().map(|unit| unit.map(str::to_owned)).collect()
    }

    #[test]
    fn a_unit_is_a_person_and_a_month() {
        // 1969-12-31, 1970-01-01, 1970-01-31, 1970-02-01, no date, and no date of the calendar.
        let days = [Some(-1), Some(0), Some(30), Some(31), None, Some(i32::MAX)];
        let person = Arc::new(Int64Array::from(vec![7; 6]));
        let of = texts(person, Arc::new(Date32Array::from(days.to_vec())));
        let of: Vec<_> = of.iter().map(|unit| unit.as_deref().unwrap()).collect();
        assert_eq!(of, ["23639|7", "23640|7", "23640|7", "23641|7", "|7", "|7"]);
    }

    #[test]
    fn no_two_units_have_one_text() {
        let names = StringArray::from(vec![Some("a"), Some("|a"), Some("23640|a"), None, Some("")]);
        let none = TimestampMicrosecondArray::from(vec![None; 5]);
        let of = texts(Arc::new(names.clone()), Arc::new(none));
        let shown: Vec<_> = of.iter().map(|unit| unit.as_deref().unwrap_or("NULL")).collect();
        assert_eq!(shown, ["|a", "||a", "|23640|a", "NULL", "|"]);
        let first = TimestampMicrosecondArray::from(vec![0; 5]);
        let of = texts(Arc::new(names), Arc::new(first));
        assert_eq!(of[0].as_deref(), Some("23640|a"));
        assert_eq!(of[1].as_deref(), Some("23640||a"));
    }

    #[test]
    fn the_month_of_a_moment_is_that_of_its_last_tick() {
        let day = |day| ScalarValue::Date32(Some(day));
        assert_eq!((month_of(&day(31), 0), month_of(&day(31), -1)), (Some(23_641), Some(23_640)));
        let moment = ScalarValue::TimestampMicrosecond(Some(0), None);
        assert_eq!((month_of(&moment, 0), month_of(&moment, -1)), (Some(23_640), Some(23_639)));
        assert_eq!(month_of(&ScalarValue::Date32(None), 0), None);
        assert_eq!(month_of(&day(i32::MAX), 0), None);
        assert_eq!(month_of(&ScalarValue::Int64(Some(3)), 0), None);
    }
}
