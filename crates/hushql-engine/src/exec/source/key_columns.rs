//! Columns of files whose values are also in the names of their folders.
//!
//! In: the open files of a partitioned table. Out: nothing, or a refusal with the file and the
//! first row that contradicts the name of its folder. Polars keeps the key in the files, and DuckDB
//! does so if asked.
//!
//! ```text
//! year=2025/a.parquet: year 2025, 2025      fits
//! year=2025/b.parquet: year 2025, 2026      refused: row 2 has 2026
//! ```
//!
//! # Guarantee
//! The name of the folder is the value of its rows in every query, and no reader looks at the
//! column in the files, so a row that contradicts it changes nothing that anybody sees. Only the
//! owner's declaration reads the column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Scalar, StringArray};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;

use super::cell_reader::{CellFormat, CellReader, ReadCell};
use super::check::OpenFiles;
use super::column_batches::batches_of;
use super::csv_format::CsvFormat;
use super::external_table::members;
use super::file_columns::{first_cells, plain_columns, schema_of_columns, shape_of};
use super::json_objects::read_object;
use super::lenient::TextFormat;
use super::open_files::OpenFile;
use crate::catalog::{Column, FileFormat, Privacy, Source, Table, quoted};
use crate::error::Error;
use crate::visible;

/// The longest text of a value that is shown.
const SHOWN: usize = 40;

/// A row whose column contradicts the name of its folder.
struct OtherKey {
    place: String,
    column: String,
    has: String,
    folder: String,
}

/// Refuses files of which a row contradicts the name of its folder. This may block.
///
/// # Errors
/// [`Error::Catalog`] for the owner alone, with the first such row.
pub(crate) fn refuse_other_keys(table: &Table, open: &OpenFiles) -> std::result::Result<(), Error> {
    let Source::File { format, options, files: Some(files), .. } = &table.source else {
        return Ok(());
    };
    // A log says the values of its partitions, whatever the names of folders are.
    if files.partitioned_by.is_empty() || files.version.is_some() {
        return Ok(());
    }
    let unread = |e| Error::catalog_from(format!("the files of {} cannot be read", table.name), e);
    let shape = shape_of(table)?;
    let set = open.checked(&Table { privacy: Privacy::Undeclared, ..table.clone() })?;
    let keys = table.columns.get(table.file_columns().len()..).unwrap_or_default();
    for ((held, shape), member) in members(&set, &shape, options).into_iter().zip(&set.members) {
        let folder = FolderKeys::new(keys, &member.values)?;
        let found = match (format, &shape) {
            (FileFormat::Csv, TextFormat::Csv(csv)) => {
                csv_keys(&held, &csv.with_all_cells(), &folder).map_err(unread)?
            }
            (FileFormat::Sqlite, _) => None,
            (FileFormat::Csv | FileFormat::Json, _) => {
                json_keys(&held, &shape, &folder).map_err(unread)?
            }
            (FileFormat::Parquet | FileFormat::Arrow, _) => {
                plain_columns(&held, *format, &shape, &table.name)?;
                stored_keys(&held, *format, &folder).map_err(unread)?
            }
        };
        if let Some(OtherKey { place, column, has, folder }) = found {
            return Err(Error::catalog(format!(
                "{place} of {} has {has} as {column}, and its folder says {folder}: move the row into the folder of its value, or write the files without the column; if both mean the same, PARTITIONED BY ({column} TYPE) names the type in which they are compared",
                member.shown()
            )));
        }
    }
    Ok(())
}

/// The values of a folder's name.
struct FolderKeys<'a>(Vec<(&'a Column, DataType, ArrayRef)>);

impl<'a> FolderKeys<'a> {
    fn new(keys: &'a [Column], values: &[Option<String>]) -> std::result::Result<Self, Error> {
        let schema = schema_of_columns(keys)?;
        let types = schema.fields().iter().map(|field| field.data_type().clone());
        let keys = keys.iter().zip(types).zip(values).map(|((column, data_type), value)| {
            let text: ArrayRef = Arc::new(StringArray::from(vec![value.as_deref()]));
            let value = cast_with_options(&text, &data_type, &lenient());
            Ok((column, data_type, value?))
        });
        let keys = keys.collect::<std::result::Result<_, ArrowError>>();
        Ok(Self(keys.map_err(|_| Error::Internal)?))
    }

    /// The first of these values of a column that contradicts the folder: its place.
    fn other(&self, key: usize, values: &ArrayRef) -> Result<Option<usize>> {
        let Some((_, data_type, value)) = self.0.get(key) else { return Ok(None) };
        let read = cast_with_options(values, data_type, &lenient())?;
        let same = not_distinct(&read, &Scalar::new(Arc::clone(value)))?;
        Ok(same.iter().position(|same| same != Some(true)))
    }

    fn told(&self, key: usize, place: String, has: &str) -> Option<OtherKey> {
        let (column, _, value) = self.0.get(key)?;
        let folder = match value.is_null(0) {
            true => "NULL".to_owned(),
            false => array_value_to_string(value, 0).unwrap_or_default(),
        };
        let shown =
            |text: &str| visible::line(&text.chars().take(SHOWN).collect::<String>()).to_string();
        let (has, folder) = (shown(has), shown(&folder));
        Some(OtherKey { place, column: quoted(&column.name), has, folder })
    }

    /// A cell of a text file that contradicts the folder.
    fn other_cell(&self, key: usize, line: u64, cell: Option<&str>) -> Result<Option<OtherKey>> {
        let Some((_, data_type, _)) = self.0.get(key) else { return Ok(None) };
        let reader = CellReader::new(data_type, &CellFormat::default());
        let read = match cell.map(|cell| reader.read(cell)) {
            Some(ReadCell::Text(text)) => Some(text.into_owned()),
            Some(ReadCell::Null | ReadCell::Unfit) | None => None,
        };
        let text: ArrayRef = Arc::new(StringArray::from(vec![read]));
        Ok(match self.other(key, &text)? {
            None => None,
            Some(_) => self.told(key, format!("line {line}"), cell.unwrap_or("NULL")),
        })
    }
}

fn lenient() -> CastOptions<'static> {
    CastOptions { safe: true, ..CastOptions::default() }
}

/// The last cell of each key that was compared: rows of a folder mostly have the same one.
type Compared = Vec<Option<Option<String>>>;

fn csv_keys(
    held: &Arc<OpenFile>,
    format: &CsvFormat,
    folder: &FolderKeys<'_>,
) -> Result<Option<OtherKey>> {
    let Some(header) = first_cells(held, format)?.filter(|_| format.header) else {
        return Ok(None);
    };
    let places: Vec<Option<usize>> = folder
        .0
        .iter()
        .map(|(key, ..)| header.iter().position(|cell| cell == key.name.as_bytes()))
        .collect();
    if places.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut compared: Compared = vec![None; places.len()];
    let mut lines = format.lines(held.reader())?;
    lines.next()?;
    let mut record = csv::ByteRecord::new();
    while let Some(line) = lines.next()? {
        if !format.read_cells(line, &mut record) || record.len() != header.len() {
            continue;
        }
        for (key, (place, before)) in places.iter().zip(&mut compared).enumerate() {
            let Some(place) = place else { continue };
            let cell = record.get(*place).and_then(|cell| std::str::from_utf8(cell).ok());
            let cell = cell.filter(|cell| !cell.is_empty());
            if before.as_ref().is_some_and(|before| before.as_deref() == cell) {
                continue;
            }
            if let Some(other) = folder.other_cell(key, lines.first_line(), cell)? {
                return Ok(Some(other));
            }
            *before = Some(cell.map(str::to_owned));
        }
    }
    Ok(None)
}

fn json_keys(
    held: &Arc<OpenFile>,
    shape: &TextFormat,
    folder: &FolderKeys<'_>,
) -> Result<Option<OtherKey>> {
    let mut compared: Compared = vec![None; folder.0.len()];
    let mut lines = shape.lines(held.reader())?;
    while let Some(line) = lines.next()? {
        let Some(object) = read_object(line) else { continue };
        for (key, ((column, ..), before)) in folder.0.iter().zip(&mut compared).enumerate() {
            // An object that lacks the key contradicts nothing.
            let Some(value) = object.get(&column.name) else { continue };
            let cell = match value {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            if before.as_ref() == Some(&cell) {
                continue;
            }
            if let Some(other) = folder.other_cell(key, lines.first_line(), cell.as_deref())? {
                return Ok(Some(other));
            }
            *before = Some(cell);
        }
    }
    Ok(None)
}

fn stored_keys(
    held: &Arc<OpenFile>,
    format: FileFormat,
    folder: &FolderKeys<'_>,
) -> Result<Option<OtherKey>> {
    // Without the column of a key, a file has no such place.
    let Some(structs) = held.structs.get() else { return Ok(None) };
    for (key, (column, ..)) in folder.0.iter().enumerate() {
        let Some(place) = structs.place_of(&column.name) else { continue };
        let mut row: u64 = 0;
        for batch in batches_of(held, format, &[place])? {
            let batch = batch?;
            let Some(values) = batch.columns().first() else { continue };
            if let Some(at) = folder.other(key, values)? {
                let line = row.saturating_add(u64::try_from(at).unwrap_or_default());
                let has = match values.is_null(at) {
                    true => "NULL".to_owned(),
                    false => array_value_to_string(values, at)?,
                };
                return Ok(folder.told(key, format!("row {}", line.saturating_add(1)), &has));
            }
            row = row.saturating_add(u64::try_from(batch.num_rows()).unwrap_or_default());
        }
    }
    Ok(None)
}
