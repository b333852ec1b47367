//! The types that expressions below a release may compute with.
//!
//! In: a type. Out: whether functions, aggregates, keys and joins have been reviewed for it. A
//! table may have columns of other types, and rows pass them on, but nothing is computed from them.
//! Some kernels fail on the first value of a type that they do not support, and a query that fails
//! only if a row exists would reveal that it exists.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*)          FROM (SELECT id, a_list FROM t)     answered
//! SELECT LAPLACE(eps=1) COUNT(MIN(a_list)) …                                  refused
//! ```

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;

use crate::analysis::expr::shape::{is_string, readable, type_of};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// True if expressions may compute with values of this type.
pub(crate) fn is_known(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..) => true,
        // Kernels would divide decimals with a negative scale by powers of ten that do not exist.
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale >= 0,
        DataType::Dictionary(_, value) => is_string(value),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Duration(_)
        | DataType::Interval(_)
        | DataType::List(_)
        | DataType::ListView(_)
        | DataType::FixedSizeList(..)
        | DataType::LargeList(_)
        | DataType::LargeListView(_)
        | DataType::Struct(_)
        | DataType::Union(..)
        | DataType::Map(..)
        | DataType::RunEndEncoded(..) => false,
    }
}

/// Refuses an expression of a type that must not be computed with.
///
/// # Errors
/// A type that has not been reviewed.
pub(crate) fn check(expr: &Expr, schema: &DFSchema) -> Result<(), Refusal> {
    let data_type = type_of(expr, schema)?;
    if is_known(&data_type) {
        return Ok(());
    }
    let hint = match data_type {
        DataType::Interval(_) | DataType::Duration(_) => {
            "an INTERVAL only beside a literal date or timestamp"
        }
        _ => "columns of numbers, texts, dates and times, or the number of rows",
    };
    let message =
        format!("values of type {} cannot be computed with below a release", sql_type(&data_type));
    Err(Refusal::new(Reason::Function, readable(expr), message, hint))
}
