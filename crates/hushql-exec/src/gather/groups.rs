//! Groups with undeclared keys, and their integers.
//!
//! In: rows of undeclared keys, and integers. Out: every group that has a unit, once, in the order
//! of the keys.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{SortOptions, take};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::new_group_values;
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use futures::StreamExt;

use super::gathered::{Gathered, add, each_integer};
use crate::grid::failed;
use crate::operator::bound_contributions::canonical;

/// Adds up groups with undeclared keys, from rows of (keys, integers).
///
/// # Guarantee
/// A function of the multiset of the input's rows: every group that contains a unit appears once,
/// in ascending order of the keys, NULL last. A group is left out if the integer that is compared
/// with the threshold (column `counter`) is 0, whatever its other integers are: without the rows of
/// the unit that caused them, the group might not exist.
///
/// # Errors
/// The errors of the rows; an error with a constant text for columns that differ from the plan, and
/// for a sum beyond 128 bits.
pub async fn groups(
    mut rows: SendableRecordBatchStream,
    key_columns: usize,
    columns: usize,
    counter: usize,
) -> Result<Gathered> {
    let schema = rows.schema();
    if schema.fields().len() != key_columns + columns || counter >= columns {
        return internal_err!("a release has as many inputs as it was planned with");
    }
    let fields: Vec<_> = schema.fields().iter().take(key_columns).cloned().collect();
    let key_schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let mut groups = new_group_values(key_schema, &GroupOrdering::None)?;
    let (mut sums, mut ids) = (vec![Vec::new(); columns], Vec::new());
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let (keys, integers) = batch.columns().split_at_checked(key_columns).ok_or_else(failed)?;
        let keys: Vec<ArrayRef> = keys.iter().map(canonical).collect();
        groups.intern(&keys, &mut ids)?;
        for (column, sums) in integers.iter().zip(&mut sums) {
            sums.resize(groups.len(), 0_i128);
            each_integer(column, |row, value| {
                match ids.get(row).and_then(|id| sums.get_mut(*id)) {
                    Some(entry) => add(entry, value),
                    None => Ok(()),
                }
            })?;
        }
    }
    if groups.is_empty() {
        return Ok(Gathered::Groups { keys: Vec::new(), sums });
    }
    let keys = groups.emit(EmitTo::All)?;
    sorted(&keys, sums, counter)
}

/// The groups whose compared integer is not 0, in the order of their keys.
fn sorted(keys: &[ArrayRef], sums: Vec<Vec<i128>>, counter: usize) -> Result<Gathered> {
    let order = |column: &ArrayRef| {
        let last = SortOptions { descending: false, nulls_first: false };
        SortField::new_with_options(column.data_type().clone(), last)
    };
    let names = RowConverter::new(keys.iter().map(order).collect())?.convert_columns(keys)?;
    let counts = sums.get(counter).map(Vec::as_slice).unwrap_or_default();
    let mut places: Vec<usize> =
        counts.iter().enumerate().filter(|(_, n)| **n >= 1).map(|(i, _)| i).collect();
    places.sort_unstable_by(|a, b| names.row(*a).cmp(&names.row(*b)));
    let indices = places.iter().map(|i| u64::try_from(*i)).collect::<Result<Vec<_>, _>>();
    let indices = arrow::array::UInt64Array::from(indices.map_err(|_| failed())?);
    let keys = keys.iter().map(|column| take(column, &indices, None));
    let pick = |sums: Vec<i128>| places.iter().filter_map(|i| sums.get(*i).copied()).collect();
    Ok(Gathered::Groups {
        keys: keys.collect::<Result<_, _>>()?,
        sums: sums.into_iter().map(pick).collect(),
    })
}
