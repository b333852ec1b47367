//! Verifies that floats in columns of whole numbers are whole, for the owner.
//!
//! In: a table that is being declared, and its open files. Out: nothing, or a refusal with the
//! file, the column and the first value that is not whole. In files that may change afterwards,
//! nothing can be verified, so floats are refused there. The columns that assign rows to people are
//! left out: each of their rows is read by itself, and what is not whole belongs to nobody.
//!
//! ```text
//! age BIGINT, b.parquet: age DOUBLE 41.0, NaN      read as 41 and NULL
//! age BIGINT, b.parquet: age DOUBLE 41.5           refused: declare age DOUBLE
//! ```

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::DataType;

use super::check::OpenFiles;
use super::file_columns::{plain_columns, schema_of_columns};
use super::lenient::TextFormat;
use super::lossy_columns::{count_values, floats_as_whole};
use super::open_files::OpenFile;
use super::text_views::viewed;
use super::well_formed::read_files;
use crate::catalog::{Column, FileFormat, Source, Table, quoted};
use crate::error::Error;
use crate::sql_type::sql_type;

/// Refuses floats that are no values of their declared type. `people` are the columns that assign
/// rows to people, and `are_held` says that the declaration holds the bytes of the files. This may
/// block.
///
/// # Errors
/// [`Error::Catalog`], for the owner alone.
pub(crate) fn refuse_fractions(
    table: &Table,
    open: &OpenFiles,
    people: &[String],
    are_held: bool,
) -> Result<(), Error> {
    let Source::File { format, .. } = &table.source else { return Ok(()) };
    let Some(files) = columnar_files(table, open) else { return Ok(()) };
    let columns = table.file_columns();
    let schema = viewed(schema_of_columns(columns)?.as_ref());
    for (held, shape, of_file) in &files {
        let now = plain_columns(held, *format, shape, &table.name)?;
        let floats = floats_as_whole(&now, columns);
        let floats: Vec<&Column> = floats.filter(|c| !people.contains(&c.name)).collect();
        let Some(first) = floats.first() else { continue };
        if !are_held && !table.is_public() {
            return Err(not_held(table, first, of_file));
        }
        let places = columns.iter().enumerate().filter(|(_, column)| floats.contains(column));
        let places = places.map(|(place, _)| place).collect();
        let unread =
            |e| Error::catalog_from(format!("the files of {} cannot be read", table.name), e);
        let counts = count_values(held, *format, &schema, &places).map_err(unread)?;
        for (column, counts) in columns.iter().zip(counts) {
            if let Some(first) = &counts.first {
                let what = format!(
                    "{} of its values {} not whole or too large, the first is {} in row {}{of_file}",
                    counts.unfit,
                    if counts.unfit == 1 { "is" } else { "are" },
                    first.text,
                    first.line
                );
                return Err(refused(table, column, &what));
            }
        }
    }
    Ok(())
}

/// The remark of CREATE about such columns.
pub(crate) fn floats_notice(table: &Table, open: &OpenFiles) -> String {
    let Source::File { format, .. } = &table.source else { return String::new() };
    let mut said: Vec<String> = Vec::new();
    for (held, shape, of_file) in columnar_files(table, open).unwrap_or_default() {
        let Ok(now) = plain_columns(&held, *format, &shape, &table.name) else { continue };
        for column in floats_as_whole(&now, table.file_columns()) {
            let name = quoted(&column.name);
            if !said.iter().any(|text| text.starts_with(&format!("; {name} "))) {
                said.push(format!(
                    "; {name} is DOUBLE in the file{of_file} and read as {}: SET PRIVACY UNIT and SET PUBLIC refuse values that are not whole, unless the column names people",
                    declared_as(column)
                ));
            }
        }
    }
    said.concat()
}

/// Open files, as [`read_files`] returns them.
type ReadFiles = Vec<(Arc<OpenFile>, TextFormat, String)>;

fn columnar_files(table: &Table, open: &OpenFiles) -> Option<ReadFiles> {
    let Source::File { format, .. } = &table.source else { return None };
    match format {
        FileFormat::Csv | FileFormat::Json | FileFormat::Sqlite => None,
        FileFormat::Parquet | FileFormat::Arrow => read_files(table, open),
    }
}

fn declared_as(column: &Column) -> String {
    sql_type(&DataType::from_str(&column.data_type).unwrap_or(DataType::Int64))
}

fn refused(table: &Table, column: &Column, what: &str) -> Error {
    let (name, table) = (quoted(&column.name), quoted(&table.name));
    Error::catalog(format!(
        "{table}.{name} is declared as {}, and {what}: declare it as DOUBLE, as in CREATE OR REPLACE EXTERNAL TABLE {table} (…, {name} DOUBLE, …)",
        declared_as(column)
    ))
}

fn not_held(table: &Table, column: &Column, of_file: &str) -> Error {
    let (name, shown) = (quoted(&column.name), quoted(&table.name));
    Error::catalog(format!(
        "{shown}.{name} is declared as {}, and it is DOUBLE in the file{of_file}, where a fraction would be NULL without a word: declare it as DOUBLE, as in CREATE OR REPLACE EXTERNAL TABLE {shown} (…, {name} DOUBLE, …), or hold files whose values are whole with MAX ROWS, UNIQUE or OPTIONS ('content_hash' 'true')",
        declared_as(column)
    ))
}
