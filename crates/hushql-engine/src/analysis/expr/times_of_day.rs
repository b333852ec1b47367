//! Times of the day below a release: constants, and their hours, minutes and seconds.
//!
//! In: a constant, or a column of type TIME. Out: a time within a day, or the range of its part.
//!
//! ```text
//! TIME '08:30'                08:30:00
//! EXTRACT(HOUR FROM at)       a public key from 0 to 23
//! ```

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;

use super::facts::{Facts, KeySource};
use super::interval::Interval;
use super::unlisted_constants::literal;
use crate::analysis::expr::shape::{Total, is_string, no_value, readable};
use crate::functions::{LAST_MICROSECOND, cast_value};
use crate::refusal::{Reason, Refusal};

/// A constant time of the day, which lies within one.
pub(super) fn constant_time(
    value: &ScalarValue,
    to: &DataType,
    whole: &Expr,
) -> Result<Total, Refusal> {
    let is_text = is_string(&value.data_type());
    let time = cast_value(value, to).ok().filter(|_| is_text || value.is_null());
    let is_within = |time: &ScalarValue| match time {
        ScalarValue::Time64Microsecond(Some(micros)) => (0..=LAST_MICROSECOND).contains(micros),
        other => value.is_null() && other.is_null(),
    };
    match time.filter(is_within) {
        Some(time) => literal(time),
        None => Err(no_value(value.try_as_str().flatten().unwrap_or_default(), to, whole)),
    }
}

/// A part of a time of the day.
///
/// # Guarantee
/// The values of a TIME lie within a day: `sound` keeps no others where a column enters, and
/// constants are folded to such. So the part is one of these integers.
pub(super) fn time_part(part: &Expr, x: &Total, whole: &Expr) -> Result<Facts, Refusal> {
    let text = if let Expr::Literal(value, _) = part { value.try_as_str().flatten() } else { None };
    let named = text.unwrap_or_default().to_lowercase();
    let last = match named.as_str() {
        "hour" => 23,
        "minute" | "second" => 59,
        _ => {
            return Err(Refusal::new(
                Reason::Function,
                readable(whole),
                "only hour, minute and second can be extracted from a TIME",
                "EXTRACT(HOUR FROM x) for the hour, from 0 to 23",
            ));
        }
    };
    let mut facts = Facts::ranged(Interval::integer_range(0, last), x.facts.nullable);
    facts.keys = Some(KeySource::Integers(0, last));
    Ok(facts)
}
