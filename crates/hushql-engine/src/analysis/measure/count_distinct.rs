//! `COUNT(DISTINCT x)`: the number of distinct values in a group.
//!
//! In: a call and its argument's facts. Out: the aggregate to read: pairs of a group and a value. A
//! unit contributes its distinct values in each group, as many as its bounds allow. The count of a
//! group is the number of distinct values that any unit contributed, so one unit changes it by at
//! most the number of values that it contributed itself.
//!
//! ```text
//! groups=2, rows=3, COUNT(DISTINCT product) by city      at most 3 products of a person in each of 2 cities
//! ```

use arrow::datatypes::DataType;

use super::Input;
use crate::analysis::measure::input::{AggregateRead, Argument};
use crate::dialect::AggregateCall;
use crate::dialect::aggregate::argument_of;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// The aggregate that a count of distinct values reads.
///
/// # Guarantee
/// If k_j pairs of a unit are sampled in group j, removing the unit lowers the count of group j by
/// 0 to k_j and changes no other group: the samples of other units do not depend on it, and a value
/// remains as long as another unit contributes it. So b = 1 for each sampled pair, and Δ₁, Δ₂ and
/// the range of scores are those of a count of rows with the same bounds.
///
/// # Errors
/// Refuses bounds per group or row, and values that cannot be compared exactly.
pub(crate) fn distinct(
    call: &AggregateCall,
    argument: &Argument,
    text: &str,
) -> Result<AggregateRead, Refusal> {
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
        | DataType::Time64(_)
        | DataType::Decimal128(..) => {}
        float if float.is_floating() && argument.is_listed => {}
        float if float.is_floating() => {
            return Err(Refusal::new(
                Reason::Operand,
                text,
                "floats that differ only in their last bits would count as different values",
                format!(
                    "COUNT(DISTINCT CAST({} AS BIGINT)), or a domain with STEP",
                    argument_of(text)
                ),
            ));
        }
        other => {
            return Err(Refusal::new(
                Reason::Operand,
                text,
                format!("values of type {} cannot be compared for DISTINCT", sql_type(other)),
                "a number, a string, a date or a Boolean",
            ));
        }
    }
    Ok(AggregateRead::count(Input::Distinct(argument.column)))
}
