//! Exact integers in the form that the mechanisms take.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{DataFusionError, Result, internal_err};

use crate::grid::failed;

/// The exact integers of a bounded input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Gathered {
    /// One vector for each column of integers, one entry for each key.
    Sums(Vec<Vec<i128>>),
    /// For every outer group, its places in ascending order, each once, with their integers.
    Places(Vec<Vec<(u64, i128)>>),
    /// The keys in the data, each once, with their integers.
    Keys {
        /// The keys; `None` if there are none.
        values: Option<ArrayRef>,
        /// Their integers.
        sums: Vec<i128>,
    },
    /// The groups that contain a unit of the data, each once, in the order of their keys.
    Groups {
        /// The key columns; empty if there are no groups.
        keys: Vec<ArrayRef>,
        /// One vector for each column of integers, one entry for each group.
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
