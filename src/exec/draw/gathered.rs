//! Exact integers, as the mechanisms are given them.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{DataFusionError, Result, internal_err};

use crate::grid::failed;

/// The exact integers of a feed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Gathered {
    /// One vector per column of integers, one entry per key.
    Sums(Vec<Vec<i128>>),
    /// For every outer group its places in ascending order, each once, with their integers.
    Places(Vec<Vec<(u64, i128)>>),
    /// The keys that the data have, each once, with their integers.
    Keys {
        /// The keys; `None` when there is none.
        values: Option<ArrayRef>,
        /// Their integers.
        sums: Vec<i128>,
    },
    /// The groups that a unit of the data is in, each once, in the order of their keys.
    Groups {
        /// The key columns; none where there is no group.
        keys: Vec<ArrayRef>,
        /// One vector per column of integers, one entry per group.
        sums: Vec<Vec<i128>>,
    },
}

/// Visits a column of counts or raw sums; NULL is 0.
pub(crate) fn each_integer(
    column: &ArrayRef,
    mut visit: impl FnMut(usize, i128) -> Result<()>,
) -> Result<()> {
    match column.data_type() {
        DataType::Int64 => {
            for (row, value) in column.as_primitive::<Int64Type>().iter().enumerate() {
                visit(row, i128::from(value.unwrap_or(0)))?;
            }
        }
        DataType::Decimal128(..) => {
            for (row, value) in column.as_primitive::<Decimal128Type>().iter().enumerate() {
                visit(row, value.unwrap_or(0))?;
            }
        }
        _ => return internal_err!("a release reads counts and raw sums"),
    }
    Ok(())
}

pub(crate) fn add(entry: &mut i128, value: i128) -> Result<(), DataFusionError> {
    *entry = entry.checked_add(value).ok_or_else(failed)?;
    Ok(())
}
