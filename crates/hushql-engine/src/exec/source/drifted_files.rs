//! Finds the files that do not fit the declaration of their table.
//!
//! In: the open files of a table. Out: the first file that differs, and how. Headers and footers
//! decide, and no row does, except in public tables. Only the owner may see which file it is.
//!
//! ```text
//! age BIGINT      b.parquet has age DOUBLE, and nobody verified that its values are whole      differs
//! age DOUBLE      b.parquet has age BIGINT                                                     fits
//! ```

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

use super::changed_files::{Misfit, other_format, remade, unread_file, unread_files, unread_table};
use super::external_table::members;
use super::file_columns::{first_cells, other_columns, plain_columns, schema_of_columns, shape_of};
use super::file_set::FileSet;
use super::lenient::TextFormat;
use super::lossy_columns::{count_values, floats_as_whole};
use super::managed_locations::managing_here;
use super::open_files::OpenFile;
use super::sqlite_table;
use super::text_views::viewed;
use crate::catalog::{Column, FileFormat, Privacy, Source, Table, quoted};
use crate::error::Error;
use crate::sql_type::sql_type;

/// The first way in which a set does not fit its table.
///
/// # Errors
/// A refusal that names no file, if one of them cannot be read.
pub(super) fn differing(set: &FileSet, table: &Table) -> Result<Option<Misfit>, Error> {
    let Source::File { format, location, options, .. } = &table.source else {
        return Err(Error::Internal);
    };
    let managed_by = set.managed_by().filter(|_| *format == FileFormat::Parquet);
    let above = || managing_here(location, *format).filter(|_| table.source.version().is_none());
    if let Some(by) = managed_by.or_else(above) {
        return Ok(Some(Misfit::Managed(by)));
    }
    let shape = shape_of(table)?;
    for ((held, shape), member) in members(set, &shape, options).into_iter().zip(&set.members) {
        let other = match (format, shape) {
            (FileFormat::Csv, TextFormat::Csv(csv)) if csv.header => {
                match first_cells(&held, &csv) {
                    // A text without lines has no rows.
                    Ok(None) => None,
                    Ok(Some(header)) => other_header(&header, table),
                    Err(_) => Some(other_format(&held, *format, table)?),
                }
            }
            // Any line may belong to a person, so only the declaration describes these files.
            (FileFormat::Csv | FileFormat::Json | FileFormat::Sqlite, _) => None,
            (FileFormat::Parquet | FileFormat::Arrow, shape) => {
                match plain_columns(&held, *format, &shape, &table.name) {
                    Ok(now) => match other_columns(&now, table, *format) {
                        Some(other) => Some(other),
                        None => other_floats(&held, &now, table, *format)?,
                    },
                    Err(_) => Some(other_format(&held, *format, table)?),
                }
            }
        };
        if let Some(other) = other {
            return Ok(Some(Misfit::Columns { file: member.shown(), other }));
        }
    }
    Ok(None)
}

/// What the single file of a table has in the place of the declared columns. Its header or footer
/// decides, and for public tables also the values of floats.
///
/// # Errors
/// A refusal if the file cannot be read, or is no longer in its format.
pub(super) fn other_in_file(
    held: &Arc<OpenFile>,
    format: FileFormat,
    table: &Table,
) -> Result<Option<String>, Error> {
    match (format, shape_of(table)?) {
        (FileFormat::Csv, TextFormat::Csv(csv)) if csv.header => {
            let header =
                first_cells(held, &csv).map_err(|_| unread_file(table, "cannot be read"))?;
            Ok(match header {
                Some(header) => other_header(&header, table),
                None => Some("no header".to_owned()),
            })
        }
        // Any line may belong to a person, so only the declaration describes these files.
        (FileFormat::Csv | FileFormat::Json, _) => Ok(None),
        (FileFormat::Sqlite, _) => sqlite_table::missing(held, table)
            .map_err(|trouble| unread_file(table, unread_table(trouble))),
        (FileFormat::Parquet | FileFormat::Arrow, shape) => {
            let now = plain_columns(held, format, &shape, &table.name)
                .map_err(|_| remade(table, "is no longer in its format"))?;
            match other_columns(&now, table, format) {
                None if table.is_public() => has_fractions(held, &now, table, format),
                other => Ok(other),
            }
        }
    }
}

/// What the first line of a CSV file lacks. It may be a row, so its text is not shown.
fn other_header(header: &csv::ByteRecord, table: &Table) -> Option<String> {
    let columns = table.file_columns();
    if header.iter().eq(columns.iter().map(|column| column.name.as_bytes())) {
        return None;
    }
    let is_there = |column: &&Column| header.iter().any(|cell| cell == column.name.as_bytes());
    let missing: Vec<String> =
        columns.iter().filter(|c| !is_there(c)).map(|c| quoted(&c.name)).collect();
    Some(match missing.as_slice() {
        [] if header.len() == columns.len() => {
            "a header with the columns in another order".to_owned()
        }
        [] => format!("a header with {} cells for {} columns", header.len(), columns.len()),
        missing => format!("a header without {}", missing.join(", ")),
    })
}

/// Floats in a column that is declared as whole numbers. A fraction would be NULL without a word,
/// so only a declaration that verified the values of files that cannot change lets them stand. The
/// columns that assign rows to people may be floats, because their rows are read one by one.
fn other_floats(
    held: &Arc<OpenFile>,
    now: &SchemaRef,
    table: &Table,
    format: FileFormat,
) -> Result<Option<String>, Error> {
    match table.is_public() {
        true => has_fractions(held, now, table, format),
        false => Ok(unverified_float(now, table).map(lost_in)),
    }
}

/// What a file has in such a column.
pub(super) fn lost_in(column: &Column) -> String {
    let name = quoted(&column.name);
    let declared = DataType::from_str(&column.data_type).unwrap_or(DataType::Int64);
    let declared = sql_type(&declared);
    format!("{name} DOUBLE in the place of {name} {declared}, where a fraction would be NULL")
}

/// The first column of a private table that is declared as whole numbers, and in which a file has
/// floats that nobody verified.
///
/// # Guarantee
/// It follows from the file's own description of its columns, and from no value.
pub(super) fn unverified_float<'a>(now: &SchemaRef, table: &'a Table) -> Option<&'a Column> {
    let Source::File { fingerprint: None, .. } = &table.source else { return None };
    let unit = table.unit()?.columns();
    floats_as_whole(now, table.file_columns()).find(|column| !unit.contains(&column.name))
}

/// What a file of a public table has, if a float there is none of the declared whole numbers. The
/// values of the column are read for that.
///
/// # Errors
/// A refusal, if the file cannot be read.
fn has_fractions(
    held: &Arc<OpenFile>,
    now: &SchemaRef,
    table: &Table,
    format: FileFormat,
) -> Result<Option<String>, Error> {
    let columns = table.file_columns();
    let floats: Vec<&Column> = floats_as_whole(now, columns).collect();
    if floats.is_empty() {
        return Ok(None);
    }
    let places = columns.iter().enumerate().filter(|(_, column)| floats.contains(column));
    let places = places.map(|(place, _)| place).collect();
    let schema = viewed(schema_of_columns(columns)?.as_ref());
    let counts = count_values(held, format, &schema, &places).map_err(|_| unread_files(table))?;
    let unfit = columns.iter().zip(counts).find(|(_, counts)| counts.unfit > 0);
    Ok(unfit.map(|(column, _)| lost_in(column)))
}

/// A table before its unit is declared, whose files were not verified. Those of a version of a log
/// were, when the table was created.
pub(super) fn undeclared(table: &Table) -> Table {
    let mut anew = Table { privacy: Privacy::Undeclared, ..table.clone() };
    if anew.source.version().is_some() {
        return anew;
    }
    if let Source::File { fingerprint, .. } = &mut anew.source {
        *fingerprint = None;
    }
    anew
}
