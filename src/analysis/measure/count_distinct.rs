//! `COUNT(DISTINCT x)`: the number of different values in a group.
//!
//! In: a call and its argument's facts. Out: what is read: the pairs of a group and a value. A unit brings its
//! own different values of each group, as many of them as its bounds allow; a group's count is the number of
//! different values that any unit brought, so that a unit moves it by at most what it brought itself.
//!
//! ```text
//! groups=2, rows=3, COUNT(DISTINCT product) by city      at most 3 products of a person in each of 2 cities
//! ```

use arrow::datatypes::DataType;

use super::Input;
use crate::analysis::measure::input::{Argument, Read};
use crate::dialect::AggregateCall;
use crate::refusal::{Reason, Refusal};

/// What a count of different values reads.
///
/// # Guarantee
/// With k_j pairs kept of a unit in group j, removing the unit lowers the count of group j by 0..k_j and changes no
/// other: what other units keep does not depend on it, and a value stays as long as another unit brings it. So b = 1
/// for each kept pair, and Δ₁, Δ₂ and the range of scores are those of a count of rows with the same bounds.
///
/// # Errors
/// A refusal: bounds per group or row, values that are not told apart exactly.
pub(crate) fn distinct(
    call: &AggregateCall,
    argument: &Argument,
    text: &str,
) -> Result<Read, Refusal> {
    if call.bounds_per_group.is_some() || call.bounds_per_row.is_some() {
        return Err(Refusal::new(
            Reason::BadValue,
            text,
            "COUNT(DISTINCT x) takes no contribution bounds",
            "rows=n among the mechanism's parameters: n different values of a person in a group",
        ));
    }
    match &argument.data_type {
        integer if integer.is_integer() => {}
        DataType::Null
        | DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Decimal128(..) => {}
        float if float.is_floating() && argument.is_listed => {}
        float if float.is_floating() => {
            return Err(Refusal::new(
                Reason::Operand,
                text,
                "floats that differ in their last bits only are different values, which nobody means",
                "COUNT(DISTINCT CAST(x AS BIGINT)), or a domain with STEP",
            ));
        }
        other => {
            return Err(Refusal::new(
                Reason::Operand,
                text,
                format!("values of type {other} are not told apart"),
                "a number, a string, a date or a Boolean",
            ));
        }
    }
    Ok(Read::count(Input::Distinct(argument.column)))
}
