//! Decides which comparisons may skip parts of a file.
//!
//! In: the type of a column. Out: whether the minimum and maximum that a file records for it hold
//! for every row.

use arrow::datatypes::DataType;

/// Whether the minimum and maximum that a file records for a column of this type may be used to
/// skip parts of the file.
///
/// # Guarantee
/// When true, the values of the type are integers of 32 or 64 bits that Parquet stores, orders and
/// compares as they are. All writers use the same order, and so do the oldest statistics fields;
/// every value has a place in it, and bounds are never truncated. So if the bounds of a part of a
/// file rule out a comparison, it holds for no row of that part. None of this is certain for other
/// types:
///
/// - floats: some writers record NaN if one person has it, or the values after it, and −0.0
///   separately from 0.0;
/// - texts and bytes: bounds are truncated to a prefix, and old ones use the order of signed bytes;
/// - decimals and unsigned numbers: old bounds use the order of signed bytes and numbers;
/// - 8 and 16 bits: the file holds 32 bits, and values that do not fit differ from the compared
///   ones;
/// - times: a file may store them in a time zone whose clocks are put back;
/// - NULL: only some writers record the number of NULLs.
pub fn prunes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int32 | DataType::Int64 | DataType::Date32)
}
