//! The versions of a table of Delta Lake, read from its log.
//!
//! In: the folder of a table, and the number of a version, or none for the newest. Out: a
//! [`TableVersion`]: its columns, and the files that hold its rows. Rows are read by the scan of
//! several files, as those of a folder are; here, only the log is read, which says which files
//! these are. Nothing here relies on the statistics in a log.
//!
//! ```text
//! visits/_delta_log/00000000000000000007.json     visits, version 7: a.parquet, year=2025/b.parquet
//! ```
//!
//! Errors of the kind [`io::ErrorKind::InvalidInput`] are sentences for the owner about the table,
//! and come again until somebody changes the folder.

mod actions;
mod checkpoint;
mod deleted_rows;
mod log_error;
mod log_files;
mod log_schema;
mod log_state;
mod table_folder;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

pub(super) use log_schema::LogColumn;

use actions::{AddedFile, DeletionVector};
use deleted_rows::deleted_rows;
use log_error::unreadable;
use log_schema::{columns_of, is_known};
use log_state::{log_files, replay};
use table_folder::TableFolder;

/// One version of a table.
pub(super) struct TableVersion {
    pub(super) number: u64,
    pub(super) columns: Vec<LogColumn>,
    /// By their paths below the folder.
    pub(super) files: BTreeMap<String, DataFile>,
    folder: TableFolder,
}

/// What the log says of a file with rows.
pub(super) struct DataFile {
    pub(super) size: u64,
    /// The values that all rows of the file have, by the names of columns in files.
    pub(super) values: BTreeMap<String, Option<String>>,
    /// The numbers of the rows that were deleted, ascending.
    pub(super) deleted: Vec<u64>,
}

/// How a file of a version is read.
#[derive(Debug)]
pub(super) struct FileLayout {
    /// Where each column of the table is among those of the file; `None` for one that the file
    /// lacks.
    pub(super) places: Vec<Option<usize>>,
    /// The numbers of the rows that were deleted, ascending.
    pub(super) deleted: Vec<u64>,
}

impl TableVersion {
    /// Reads a version of the table in a folder, or the newest one.
    ///
    /// # Errors
    /// A sentence for the owner, or the system's error.
    pub(super) fn read(folder: &str, number: Option<u64>) -> io::Result<Self> {
        let folder = TableFolder::open(folder)?;
        let log = log_files(&folder)?;
        let newest = log.newest().ok_or_else(|| unreadable("its log is empty"))?;
        let number = number.unwrap_or(newest);
        if number > newest {
            return Err(unreadable(format!("its log has no version {number}")));
        }
        let (protocol, metadata, added) = replay(&folder, &log, number)?;
        is_known(&protocol)?;
        let columns = columns_of(&protocol, &metadata)?;
        let mut files = BTreeMap::new();
        for (name, AddedFile { partition_values, size, deletion_vector, .. }) in added {
            let values = values_of(&name, &columns, partition_values)?;
            let deleted = deletion_vector.as_ref().map_or_else(
                || Ok(Vec::new()),
                |vector: &DeletionVector| deleted_rows(&folder, vector),
            );
            files.insert(name, DataFile { size, values, deleted: deleted.map_err(missing)? });
        }
        Ok(Self { number, columns, files, folder })
    }

    /// Opens a file of the version.
    ///
    /// # Errors
    /// A sentence for the owner if the file is not the one that the log describes.
    pub(super) fn open(&self, name: &str, file: &DataFile) -> io::Result<File> {
        let open = self.folder.file(name).map_err(missing)?;
        let size = open.metadata()?.len();
        match size == file.size {
            true => Ok(open),
            false => Err(unreadable(format!(
                "its log says that `{name}` has {} bytes, and it has {size}",
                file.size
            ))),
        }
    }

    /// The column of this name.
    pub(super) fn column(&self, name: &str) -> Option<&LogColumn> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// A file that is gone stays gone.
fn missing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            unreadable("a file of this version is missing: it was removed, as VACUUM does")
        }
        _ => error,
    }
}

/// The values of a file for the columns by which the table is partitioned. An empty text is NULL,
/// as the log's own rules say.
fn values_of(
    file: &str,
    columns: &[LogColumn],
    mut given: BTreeMap<String, Option<String>>,
) -> io::Result<BTreeMap<String, Option<String>>> {
    let mut values = BTreeMap::new();
    for column in columns.iter().filter(|column| column.is_partition) {
        let value = given.remove(&column.physical).ok_or_else(|| {
            unreadable(format!("its log has no value of `{}` for `{file}`", column.name))
        })?;
        values.insert(column.physical.clone(), value.filter(|value| !value.is_empty()));
    }
    Ok(values)
}

/// The number of the newest version of the table in a folder.
///
/// # Errors
/// As [`TableVersion::read`].
pub(super) fn newest_number(folder: &str) -> io::Result<u64> {
    let log = log_files(&TableFolder::open(folder)?)?;
    log.newest().ok_or_else(|| unreadable("its log is empty"))
}
