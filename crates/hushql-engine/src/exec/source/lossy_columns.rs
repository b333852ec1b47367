//! Counts the values of Parquet and Arrow files that the declared types cannot hold, for the owner.
//!
//! In: an open file and the declared columns. Out: how many values of each column become NULL, and
//! the first one. Only columns whose conversion can lose a value are read.
//!
//! ```text
//! id DOUBLE read as BIGINT: 1.0, 2.5, NaN, 1e300        2 cells are not BIGINT, the first is 2.5 in row 2
//! ```
//!
//! NaN is how programs without a NULL write a missing number, so it is not counted.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;

use super::column_batches::batches_of;
use super::fitting_types::CellCounts;
use super::open_files::OpenFile;
use crate::catalog::{Column, FileFormat};
use crate::functions::{counts_as_whole, file_values, may_lose};

/// The places of the columns of a file whose conversion to the declared type can lose a value. The
/// caller has read the file's own columns, as
/// [`plain_columns`](super::file_columns::plain_columns) does.
pub(super) fn lossy_columns(held: &OpenFile, declared: &Schema) -> BTreeSet<usize> {
    let Some(stored) = held.stored.get() else { return BTreeSet::new() };
    let both = stored.fields().iter().zip(declared.fields());
    let lossy = both.map(|(stored, declared)| may_lose(stored.data_type(), declared.data_type()));
    lossy.enumerate().filter(|(_, is_lossy)| *is_lossy).map(|(i, _)| i).collect()
}

/// The columns that are declared as whole numbers, and that are floats in a file with these
/// columns.
pub(super) fn floats_as_whole<'a>(
    file: &Schema,
    declared: &'a [Column],
) -> impl Iterator<Item = &'a Column> {
    let both = file.fields().iter().zip(declared);
    let floats: Vec<&'a Column> = both
        .filter(|(field, column)| {
            let to = DataType::from_str(&column.data_type);
            to.is_ok_and(|to| counts_as_whole(field.data_type(), &to))
        })
        .map(|(_, column)| column)
        .collect();
    floats.into_iter()
}

/// Counts over these columns of a file.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn count_values(
    held: &Arc<OpenFile>,
    format: FileFormat,
    declared: &SchemaRef,
    columns: &BTreeSet<usize>,
) -> Result<Vec<CellCounts>> {
    let mut counts = vec![CellCounts::default(); declared.fields().len()];
    if columns.is_empty() {
        return Ok(counts);
    }
    // A file of a table of Delta Lake may have its columns in another order, or lack some.
    let place = |i: &usize| match held.layout.get() {
        Some(layout) => layout.places.get(*i).copied().flatten(),
        None => Some(*i),
    };
    let columns: Vec<usize> = columns.iter().copied().filter(|i| place(i).is_some()).collect();
    let structs = held.structs.get();
    let needed: Vec<usize> = match structs {
        Some(structs) => structs.needed(&columns),
        None => columns.iter().filter_map(place).collect::<BTreeSet<_>>().into_iter().collect(),
    };
    let mut row = 0;
    for batch in batches_of(held, format, &needed)? {
        let batch = batch?;
        for i in &columns {
            let values = match structs {
                Some(structs) => structs.values(*i, &needed, batch.columns())?,
                None => needed
                    .iter()
                    .position(|of| place(i) == Some(*of))
                    .and_then(|at| batch.columns().get(at))
                    .cloned(),
            };
            let both = (counts.get_mut(*i), declared.fields().get(*i));
            if let (Some(values), (Some(counts), Some(field))) = (values, both) {
                add(counts, &values, field.data_type(), row)?;
            }
        }
        row += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
    }
    Ok(counts)
}

/// Adds the counts of some values of a column, which begin behind this row.
fn add(counts: &mut CellCounts, values: &ArrayRef, to: &DataType, before: u64) -> Result<()> {
    let read = file_values(values, to)?;
    let valid = read.len() - read.null_count();
    counts.valid = counts.valid.saturating_add(u64::try_from(valid).unwrap_or(u64::MAX));
    if read.null_count() == values.null_count() {
        return Ok(());
    }
    for (i, row) in (before + 1..).take(values.len()).enumerate() {
        if values.is_valid(i) && read.is_null(i) && !is_nan(values, i) {
            counts.unfit(row, "row", &shown(values.as_ref(), i));
        }
    }
    Ok(())
}

fn is_nan(values: &ArrayRef, i: usize) -> bool {
    match values.data_type() {
        DataType::Float32 => values.as_primitive::<Float32Type>().value(i).is_nan(),
        DataType::Float64 => values.as_primitive::<Float64Type>().value(i).is_nan(),
        _ => false,
    }
}
/// A value as text. Arrow has none for moments beyond its calendar.
fn shown(values: &dyn Array, row: usize) -> String {
    let options = FormatOptions::new().with_display_error(false);
    let text = ArrayFormatter::try_new(values, &options)
        .and_then(|formatter| formatter.value(row).try_to_string());
    text.unwrap_or_else(|_| "a value beyond the calendar".to_owned())
}
