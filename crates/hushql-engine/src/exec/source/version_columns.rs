//! The columns of files of a table of Delta Lake, in the order of the table.
//!
//! In: an open Parquet file, and the columns that the log describes. Out: the file's columns as
//! those of any Parquet file of a table, in the order and under the names of the table. A column
//! that a file lacks, because it was added later, is NULL in all of its rows. A column that a file
//! has in a narrower type is read in the log's type.
//!
//! ```text
//! log   id BIGINT, ward VARCHAR, stay BIGINT
//! file  ward VARCHAR, id INT                      →   id from INT, ward, stay NULL
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DataFusionError;
use datafusion::parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::delta::{FileLayout, LogColumn};
use super::file_columns::{in_parquet, plain};
use super::open_files::OpenFile;
use crate::catalog::FileFormat;
use crate::error::Error;
use crate::functions::{declared_type, widens};
use crate::sql_type::sql_type;

/// The type in which the engine computes with a column of a log; `None` if it is not read.
pub(super) fn type_in_table(column: &LogColumn) -> Option<DataType> {
    column.data_type.as_ref().ok().map(declared_type)
}

/// Reads which columns a file has, and lays them out as those of the table, without the rows of
/// these numbers, which were deleted.
///
/// # Errors
/// [`Error::Catalog`] for the owner, with a file that is no Parquet file or has fewer rows, or a
/// column that the file has in a type that is not the log's.
pub(super) fn lay_out(
    held: &Arc<OpenFile>,
    columns: &[&LogColumn],
    deleted: Vec<u64>,
    shown: &str,
) -> Result<(), Error> {
    let file = in_parquet(held, shown)?;
    let rows = held.rows.get().and_then(|rows| u64::try_from(*rows).ok());
    if deleted.last().is_some_and(|last| rows.is_none_or(|rows| *last >= rows)) {
        return Err(Error::catalog(format!(
            "its log deletes rows of {shown} that are behind its end"
        )));
    }
    let (mut stored, mut read, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for column in columns {
        let Ok(of_log) = &column.data_type else { return Err(Error::Internal) };
        let wanted = Field::new(&column.name, declared_type(of_log), true);
        let place = file.fields().iter().position(|field| *field.name() == column.physical);
        let is_like = |field: &&Arc<Field>| field.name().eq_ignore_ascii_case(&column.physical);
        let like = file.fields().iter().find(is_like);
        let found = match (place.and_then(|place| file.fields().get(place)), like) {
            (Some(field), _) => field.as_ref().clone().with_name(&column.name).with_nullable(true),
            (None, None) => Field::new(&column.name, of_log.clone(), true),
            (None, Some(other)) => {
                return Err(Error::catalog(format!(
                    "{shown} has a column `{}`, and the log calls it `{}`",
                    other.name(),
                    column.physical
                )));
            }
        };
        places.push(place);
        let is = plain(&found, FileFormat::Parquet);
        if !holds(wanted.data_type(), is.data_type()) {
            return Err(Error::catalog(format!(
                "{shown} has the column `{}` as {}, and the log as {}",
                column.name,
                sql_type(is.data_type()),
                sql_type(wanted.data_type())
            )));
        }
        stored.push(found);
        read.push(wanted);
    }
    held.stored.get_or_init(|| Arc::new(Schema::new(stored)));
    held.columns.get_or_init(|| Arc::new(Schema::new(read)));
    held.layout.get_or_init(|| FileLayout { places, deleted });
    Ok(())
}

/// The rows of a file that were not deleted; `None` for all of them.
///
/// # Errors
/// An internal error if a number is not that of a row, or if the number of rows is unknown.
pub(super) fn selected_rows(held: &OpenFile) -> Result<Option<RowSelection>, DataFusionError> {
    let Some(layout) = held.layout.get().filter(|layout| !layout.deleted.is_empty()) else {
        return Ok(None);
    };
    let rows = held.rows.get().ok_or_else(crate::grid::failed)?;
    let (mut parts, mut at) = (Vec::new(), 0_usize);
    for deleted in &layout.deleted {
        let deleted = usize::try_from(*deleted).map_err(|_| crate::grid::failed())?;
        let kept = deleted.checked_sub(at).ok_or_else(crate::grid::failed)?;
        parts.extend([RowSelector::select(kept), RowSelector::skip(1)]);
        at = deleted.saturating_add(1);
    }
    let kept = rows.checked_sub(at).ok_or_else(crate::grid::failed)?;
    parts.push(RowSelector::select(kept));
    Ok(Some(RowSelection::from(parts)))
}

/// The number of rows of a file that were not deleted; `None` if it is unknown.
pub(super) fn rows_of(held: &OpenFile) -> Option<usize> {
    let deleted = held.layout.get().map_or(0, |layout| layout.deleted.len());
    held.rows.get()?.checked_sub(deleted)
}

/// Whether every value of a file's column is one of the log's type.
fn holds(log: &DataType, file: &DataType) -> bool {
    match (file, log) {
        (DataType::Decimal128(digits, scale), DataType::Decimal128(most, finest)) => {
            let whole = |digits: &u8, scale: &i8| i16::from(*digits) - i16::from(*scale);
            scale <= finest && whole(digits, scale) <= whole(most, finest)
        }
        _ => file == log || widens(file, log) || (file.is_binary() && log.is_binary()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_wider_or_equal() {
        use DataType as T;
        for (log, file, expected) in [
            (T::Int64, T::Int32, true),
            (T::Int32, T::Int64, false),
            (T::Float64, T::Float32, true),
            (T::Float64, T::Int32, true),
            (T::Float64, T::Int64, false),
            (T::Int64, T::Float64, false),
            (T::Decimal128(12, 2), T::Decimal128(10, 2), true),
            (T::Decimal128(12, 4), T::Decimal128(10, 2), true),
            (T::Decimal128(12, 4), T::Decimal128(11, 2), false),
            (T::Decimal128(12, 2), T::Decimal128(10, 3), false),
            (T::Utf8, T::Int64, false),
            (T::Binary, T::BinaryView, true),
            (T::Binary, T::Utf8, false),
        ] {
            assert_eq!(holds(&log, &file), expected, "{log} {file}");
        }
    }
}
