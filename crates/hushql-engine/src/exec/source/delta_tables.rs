//! CREATE EXTERNAL TABLE … STORED AS DELTA, and the newer versions of such a table.
//!
//! In: the owner's declaration, or a declared table. Out: a [`Table`] over the files that hold the
//! rows of one version of a table of Delta Lake: the newest one at the declaration. The
//! declaration reads these files to their end and keeps their hash. Every query reads this version,
//! until REFRESH takes the newest one.
//!
//! ```text
//! STORED AS DELTA LOCATION 'visits'     version 7 of the log in visits/_delta_log
//! ```
//!
//! Columns by which the table is partitioned are its last ones, as those of folders are.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::str::FromStr;

use arrow::datatypes::DataType;

use super::csv_format::is_true;
use super::delta::{LogColumn, TableVersion, newest_number};
use super::external_table::{WrittenTable, column, refuse_reserved};
use super::file_columns::{CONTENT_HASH, STRICT, is_read_as, may_change};
use super::file_set::FileSet;
use super::location::{StoreLocation, local_path};
use super::multi_file_scan::typed;
use super::open_files::HeldFiles;
use super::unreadable_files::columns_are_readable;
use super::version_columns::type_in_table;
use crate::catalog::{
    Column, FileFormat, Files, Fingerprint, LakeVersion, Privacy, Source, Table, quoted,
};
use crate::error::Error;
use crate::sql_type::sql_type;

/// Declares the newest version of a table of Delta Lake as a table.
///
/// # Errors
/// [`Error::Catalog`] when the folder has no log, or its newest version asks for something that is
/// not known here, has columns of other types, or lacks a file.
pub(crate) fn declared_version(written: &WrittenTable<'_>) -> Result<Table, Error> {
    let WrittenTable { name, columns, partitioned_by, location, .. } = *written;
    let folder = folder_of(location)?;
    if !partitioned_by.is_empty() {
        return Err(Error::catalog(
            "the log of a DELTA table says what it is partitioned by: leave PARTITIONED BY out",
        ));
    }
    let options = options_of(written.options)?;
    let shown = format!("`{location}`");
    let version = TableVersion::read(&folder, None).map_err(|e| unread(&shown, e))?;
    let wanted = match columns {
        [] => all_columns(name, &shown, &version)?,
        columns => columns.iter().map(column).collect::<Result<_, _>>()?,
    };
    let (files, columns, fingerprint) = pinned(&folder, &shown, &version, wanted)?;
    refuse_reserved(&columns)?;
    Ok(Table {
        name: name.to_owned(),
        source: Source::File {
            format: FileFormat::Parquet,
            location: folder,
            options,
            fingerprint: Some(fingerprint),
            files: Some(Box::new(files)),
        },
        privacy: Privacy::Undeclared,
        columns,
    })
}

/// A table over the newest version in place of the declared one, with the same columns.
///
/// # Errors
/// [`Error::Catalog`] when that version cannot be read, or lacks a column.
pub(crate) fn newest_version(table: &Table) -> Result<Table, Error> {
    let Source::File { location, .. } = &table.source else { return Err(Error::Internal) };
    let shown = format!("the newest version of {}", table.name);
    let version = TableVersion::read(location, None).map_err(|e| unread(&shown, e))?;
    let (of_version, columns, found) = pinned(location, &shown, &version, table.columns.clone())?;
    let mut newest = Table { columns, ..table.clone() };
    if let Source::File { files, fingerprint, .. } = &mut newest.source {
        (*files, *fingerprint) = (Some(Box::new(of_version)), Some(found));
    }
    Ok(newest)
}

/// The numbers of the declared version of a table and of the newest one, if that is a later one.
/// Only names in the folder of its log are looked at.
pub(crate) fn newer_version(table: &Table) -> Option<(u64, u64)> {
    let Source::File { location, .. } = &table.source else { return None };
    let declared = table.source.version()?.number;
    let newest = newest_number(location).ok()?;
    (newest > declared).then_some((declared, newest))
}

fn folder_of(location: &str) -> Result<String, Error> {
    let path = local_path(location)?;
    if StoreLocation::new(&path).is_some() {
        return Err(Error::catalog(format!(
            "`{location}` is in an object store, and DELTA tables are read from folders of this machine: copy the folder, or write its present rows as Parquet, as DuckDB does: COPY (FROM delta_scan('…')) TO 'rows.parquet'"
        )));
    }
    let cannot = |e| Error::catalog_from(format!("there is no readable folder `{location}`"), e);
    let path = fs::canonicalize(path.as_ref()).map_err(cannot)?;
    if !fs::metadata(&path).map_err(cannot)?.is_dir() {
        return Err(Error::catalog(format!(
            "`{location}` is a file, and a DELTA table is a folder with {LOG} in it: name that folder"
        )));
    }
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(Error::catalog("the path of a table's files is valid UTF-8")),
    }
}

/// The folder in a table's folder that has its log, for messages.
const LOG: &str = "_delta_log";

fn options_of(written: &[(String, String)]) -> Result<BTreeMap<String, String>, Error> {
    let mut options = BTreeMap::new();
    for (key, value) in written {
        if ![CONTENT_HASH, STRICT].contains(&key.as_str()) {
            return Err(Error::catalog(format!(
                "DELTA tables have no option `{key}`; they take {CONTENT_HASH}, {STRICT}"
            )));
        }
        options.insert(key.clone(), value.clone());
    }
    for option in [CONTENT_HASH, STRICT] {
        is_true(options.get(option), option, false)?;
    }
    if may_change(&options) {
        return Err(Error::catalog(format!(
            "a DELTA table is one version of its log, whose files do not change: leave {CONTENT_HASH} out; ALTER TABLE t REFRESH takes the newest version"
        )));
    }
    Ok(options)
}

/// The refusal of a version that cannot be read.
fn unread(shown: &str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidInput if error.get_ref().is_some() => {
            Error::catalog(format!("{shown} cannot be read as a DELTA table: {error}"))
        }
        io::ErrorKind::InvalidInput => Error::catalog(format!(
            "{shown} cannot be read as a DELTA table: one of its files is a link, a pipe or a device, which is not followed"
        )),
        _ => Error::catalog_from(format!("{shown} cannot be read"), error),
    }
}

/// All columns of a version, those of partitions last.
fn all_columns(name: &str, shown: &str, version: &TableVersion) -> Result<Vec<Column>, Error> {
    let typed = |column: &LogColumn| {
        type_in_table(column).map(|data_type| (column.name.clone(), data_type))
    };
    let all = || {
        let (last, own): (Vec<_>, Vec<_>) = version.columns.iter().partition(|c| c.is_partition);
        own.into_iter().chain(last)
    };
    if let Some((other, of_type)) = all().find_map(|c| Some((&c.name, c.data_type.as_ref().err()?)))
    {
        let read: Vec<String> = all()
            .filter_map(typed)
            .map(|(name, data_type)| format!("{} {}", quoted(&name), sql_type(&data_type)))
            .collect();
        let instead = match read.is_empty() {
            true => "it has no column that is".to_owned(),
            false => format!(
                "name the other columns, as in CREATE EXTERNAL TABLE {} ({}) STORED AS DELTA …",
                quoted(name),
                read.join(", ")
            ),
        };
        return Err(Error::catalog(format!(
            "{shown} has a column `{other}` of type {of_type}, which is not read from a DELTA table: {instead}"
        )));
    }
    let column = |(name, data_type): (String, DataType)| Column {
        name,
        data_type: data_type.to_string(),
        nullable: true,
        domain: None,
        zone: None,
    };
    Ok(all().filter_map(typed).map(column).collect())
}

/// The files of a version, the columns of a table over it in their order, and the hash of the
/// files. All of them are read.
///
/// # Errors
/// [`Error::Catalog`] for columns that the version does not have in these types, and for files and
/// values that cannot be read.
fn pinned(
    folder: &str,
    shown: &str,
    version: &TableVersion,
    wanted: Vec<Column>,
) -> Result<(Files, Vec<Column>, Fingerprint), Error> {
    let (mut own, mut last) = (Vec::new(), Vec::new());
    for column in wanted {
        let of_log = in_log(version, &column, shown)?;
        if of_log.is_partition { last.push(column) } else { own.push(column) }
    }
    if own.is_empty() {
        return Err(Error::catalog(format!(
            "{shown} needs a column that is in its files, and not only those by which it is partitioned"
        )));
    }
    let names = |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect();
    let lake = LakeVersion { number: version.number, columns: names(&own) };
    let files = Files { pattern: None, partitioned_by: names(&last), version: Some(lake.clone()) };
    let set = FileSet::of_version(&HeldFiles::default(), folder, version, (&files, &lake));
    let set = set.map_err(|e| unread(shown, e))?;
    values_are_typed(&set, &last, shown)?;
    if let Some(first) = set.held().next() {
        columns_are_readable(first, &format!("a file of {shown}"))?;
    }
    let read = |e| Error::catalog_from(format!("{shown} cannot be read"), e);
    let fingerprint = set.fingerprint().map_err(read)?;
    if !set.is_untouched() {
        return Err(Error::catalog(format!(
            "the files of {shown} were changed while they were read; run the statement again"
        )));
    }
    own.append(&mut last);
    Ok((files, own, fingerprint))
}

/// The column of the log that a column of the table is.
fn in_log<'a>(
    version: &'a TableVersion,
    column: &Column,
    shown: &str,
) -> Result<&'a LogColumn, Error> {
    let name = &column.name;
    let Some(of_log) = version.column(name) else {
        let all: Vec<&str> = version.columns.iter().map(|column| column.name.as_str()).collect();
        return Err(Error::catalog(format!(
            "{shown} has no column `{name}`; it has {}",
            all.join(", ")
        )));
    };
    let is = type_in_table(of_log);
    let wanted = DataType::from_str(&column.data_type).ok();
    match (&is, &wanted) {
        (Some(is), Some(to)) if is == to || is_read_as(is, to, FileFormat::Parquet) => Ok(of_log),
        _ => Err(Error::catalog(format!(
            "{shown} has the column `{name}` as {}, not {}",
            match (&is, &of_log.data_type) {
                (Some(is), _) => sql_type(is),
                (None, Err(name)) => name.clone(),
                (None, Ok(_)) => return Err(Error::Internal),
            },
            wanted.map_or_else(|| column.data_type.clone(), |wanted| sql_type(&wanted))
        ))),
    }
}

/// Refuses values of partitions that are none of their column's type: they would be NULL.
fn values_are_typed(set: &FileSet, columns: &[Column], shown: &str) -> Result<(), Error> {
    for (i, column) in columns.iter().enumerate() {
        let data_type = DataType::from_str(&column.data_type).map_err(|_| Error::Internal)?;
        for value in set.members.iter().filter_map(|member| member.values.get(i)?.as_deref()) {
            let read = typed(Some(value), &data_type).map_err(|_| Error::Internal)?;
            if read.is_null() {
                return Err(Error::catalog(format!(
                    "the log of {shown} has a value of `{}` that is not {}: `{}`",
                    column.name,
                    sql_type(&data_type),
                    value.escape_debug()
                )));
            }
        }
    }
    Ok(())
}
