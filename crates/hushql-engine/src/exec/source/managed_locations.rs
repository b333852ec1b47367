//! Finds the table of another format that manages the files of a location.
//!
//! In: a folder or a file, here or in a store. Out: the format of a table in a folder above it.
//! Only names of folders and of metadata are looked at, no row.
//!
//! ```text
//! /lake/visits/year=2025, below /lake/visits/_delta_log     →     Delta Lake
//! ```

use std::path::Path;

use super::changed_files::managed;
use super::location::StoreLocation;
use super::managed_files::{METADATA, TableFormat, managed_above};
use super::remote::names_below;
use crate::catalog::{FileFormat, Source, Table};
use crate::error::Error;

/// The table whose folder is this one of a store, or a folder above it. It asks the store for the
/// names in up to three folders for each folder above this one, so only declarations call it.
fn managed_above_in_store(place: &StoreLocation) -> Option<TableFormat> {
    let mut path = place.path.as_str();
    loop {
        let below = |name: &str| {
            let folder = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            // What cannot be listed fails where the files are listed.
            names_below(&format!("{}/{folder}", place.root())).unwrap_or_default()
        };
        for name in ["_delta_log", ".hoodie"] {
            if !below(name).is_empty() {
                return TableFormat::of_entry(name.as_bytes());
            }
        }
        if let Some(found) =
            below(METADATA).iter().find_map(|name| TableFormat::of_metadata(name.as_bytes()))
        {
            return Some(found);
        }
        if path.is_empty() {
            return None;
        }
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// The table that manages the files of a location, for a declaration. Only Parquet files are looked
/// at: these formats do not keep their rows in the other ones.
pub(super) fn managing(location: &str, format: FileFormat) -> Option<TableFormat> {
    match (format, StoreLocation::new(location)) {
        (FileFormat::Csv | FileFormat::Json | FileFormat::Arrow | FileFormat::Sqlite, _) => None,
        (FileFormat::Parquet, Some(place)) => managed_above_in_store(&place),
        (FileFormat::Parquet, None) => managed_above(Path::new(location)),
    }
}

/// What the owner of a table should do if a table of another format manages its single file: the
/// finding, and the remedy.
pub(crate) fn managed_file(table: &Table) -> Option<(String, &'static str)> {
    let Source::File { format, location, files: None, .. } = &table.source else { return None };
    let found = managing(location, *format)?;
    Some((format!("the file of the table is {}", found.finding()), found.remedy()))
}

/// Refuses files that a table of another format manages from a folder above them.
///
/// # Errors
/// A refusal that says which format. It follows from no file of this table.
pub(super) fn is_unmanaged(table: &Table) -> Result<(), Error> {
    let Source::File { format, location, .. } = &table.source else { return Ok(()) };
    // A version is read from the log itself.
    if table.source.version().is_some() {
        return Ok(());
    }
    managing(location, *format).map_or(Ok(()), |by| Err(managed(table, by)))
}

/// The same without asking a store, for a query that is charged.
pub(super) fn managing_here(location: &str, format: FileFormat) -> Option<TableFormat> {
    match StoreLocation::new(location) {
        None => managing(location, format),
        Some(_) => None,
    }
}
