//! CREATE EXTERNAL TABLE: from a location and options to a table with fixed columns.
//!
//! In: the owner's declaration. Out: a [`Table`], whose columns come from the declaration or from
//! the files. A location is a file, a folder with files, or a pattern of paths. The files below a
//! folder are read now, and neither their names nor their number is stored. Messages name columns,
//! and the location as the owner wrote it, but no file below it.
//!
//! ```text
//! LOCATION 'visits.csv'                                         one file
//! LOCATION 'visits' PARTITIONED BY (year INT)                   visits/year=2025/a.parquet, visits/year=2026/b.parquet, …
//! LOCATION 'visits/2025-*.csv.gz'                               visits/2025-01.csv.gz, visits/2025-02.csv.gz, …
//! LOCATION 's3://clinic/visits/*.parquet'                       objects of a bucket
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use glob::Pattern;
use sqlparser::ast as sql;

use super::cell_reader::{DATE_FORMAT, DECIMAL, NULL_VALUE};
use super::column_type::column_type;
use super::compressed::{COMPRESSION, Compression};
use super::csv_format::{COMMENT, DELIMITER, ESCAPE, HEADER, QUOTE, is_true};
use super::file_columns::{
    CONTENT_HASH, STRICT, columns_of, common_columns, first_cells, is_read_as, may_change,
    plain_columns, shape,
};
use super::file_discovery::{Selected, is_pattern};
use super::file_set::FileSet;
use super::foreign_files::refuse_foreign;
use super::json_columns::{INFERRED_ROWS, JsonKeys};
use super::lenient::TextFormat;
use super::line_breaks::{LINE_BREAKS, LineBreaks};
use super::location::{Scheme, StoreLocation, local_path};
use super::managed_locations::managing;
use super::open_files::{HeldFiles, OpenFile};
use super::remote::{IS_BUILT_IN, list};
use super::server_location::is_server;
use super::sqlite_table::{self, TABLE};
use super::unreadable_files::columns_are_readable;
use crate::catalog::{Column, FileFormat, Files, Privacy, RESERVED, Source, Table, quoted};
use crate::error::Error;
use crate::sql_type::sql_type;

/// A column whose values are in the names of folders. Its type is here unless it is text or listed
/// among the columns.
pub(crate) type Partition = (String, Option<sql::DataType>);

/// The owner's declaration of a table.
#[derive(Debug)]
pub(crate) struct WrittenTable<'a> {
    pub(crate) name: &'a str,
    pub(crate) columns: &'a [(String, sql::DataType)],
    pub(crate) format: FileFormat,
    pub(crate) partitioned_by: &'a [Partition],
    pub(crate) location: &'a str,
    pub(crate) options: &'a [(String, String)],
}

/// Declares one or several files as a table. Its columns are read now, and stay fixed.
///
/// # Errors
/// [`Error::Catalog`] when a file is missing, empty or not in its format, or files differ in their
/// columns.
pub(crate) fn declared(written: &WrittenTable<'_>) -> Result<Table, Error> {
    let path = local_path(written.location)?;
    let written = &WrittenTable { location: &path, ..*written };
    let WrittenTable { name, format, location, options, .. } = *written;
    let mut known = BTreeMap::new();
    for (key, value) in options {
        let key = key.trim_start_matches("format.");
        let taken = options_of(format);
        if !taken.contains(&key) {
            let taken = taken.join(", ");
            return Err(Error::catalog(format!(
                "{format} files have no option `{key}`; they take {taken}"
            )));
        }
        known.insert(key.to_owned(), value.clone());
    }
    if let (FileFormat::Csv, true) = (format, is_tab_separated(location)) {
        known.entry(DELIMITER.to_owned()).or_insert_with(|| r"\t".to_owned());
    }
    for option in [CONTENT_HASH, STRICT] {
        is_true(known.get(option), option, false)?;
    }
    LineBreaks::of_options(&known)?;
    shape(format, &known)?;
    let (location, files, columns) = match located(location)? {
        Located::File(path) => {
            let columns = of_one(written, &path, &mut known)?;
            (path, None, columns)
        }
        Located::Below(..) if format == FileFormat::Sqlite => {
            return Err(Error::catalog(format!(
                "`{location}` is not one file of this machine, and an SQLITE table is in one: write LOCATION 'folder/file.db'"
            )));
        }
        Located::Below(folder, pattern) => {
            let (files, columns) = of_several(written, &folder, pattern, &known)?;
            (folder, Some(Box::new(files)), columns)
        }
    };
    refuse_reserved(&columns)?;
    Ok(Table {
        name: name.to_owned(),
        source: Source::File { format, location, options: known, fingerprint: None, files },
        privacy: Privacy::Undeclared,
        columns,
    })
}

/// The options of a format.
fn options_of(format: FileFormat) -> &'static [&'static str] {
    match format {
        FileFormat::Csv => &[
            HEADER,
            DELIMITER,
            QUOTE,
            ESCAPE,
            COMMENT,
            NULL_VALUE,
            DECIMAL,
            DATE_FORMAT,
            LINE_BREAKS,
            COMPRESSION,
            CONTENT_HASH,
            STRICT,
        ],
        FileFormat::Json => &[LINE_BREAKS, COMPRESSION, CONTENT_HASH, STRICT],
        FileFormat::Parquet | FileFormat::Arrow => &[CONTENT_HASH, STRICT],
        FileFormat::Sqlite => &[TABLE, CONTENT_HASH, STRICT],
    }
}

/// Whether the name of a file says that tabs separate its cells, as in `visits.tsv.gz`.
fn is_tab_separated(location: &str) -> bool {
    let name = location.to_ascii_lowercase();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    name.ends_with(".tsv") || name.ends_with(".tab")
}

fn of_one(
    written: &WrittenTable<'_>,
    path: &str,
    options: &mut BTreeMap<String, String>,
) -> Result<Vec<Column>, Error> {
    let WrittenTable { format, location, columns, partitioned_by, .. } = *written;
    if !partitioned_by.is_empty() {
        return Err(Error::catalog(format!(
            "`{location}` is one file, and PARTITIONED BY is for folders whose names hold values: leave it out, or name the folder above them"
        )));
    }
    if let (FileFormat::Csv | FileFormat::Json, Some(named)) =
        (format, Compression::by_name(location))
    {
        options.entry(COMPRESSION.to_owned()).or_insert_with(|| named.to_owned());
    }
    let shape = shape(format, options)?;
    if let Some(table) = managing(path, format) {
        return Err(table.refused(location));
    }
    let read = |e| Error::catalog_from(format!("`{path}` cannot be read"), e);
    let held = Arc::new(OpenFile::open(path, 0).map_err(read)?);
    let shown = format!("`{path}`");
    if format == FileFormat::Sqlite {
        return of_database(written, &held, options, &shown);
    }
    if let (FileFormat::Json, [_, ..]) = (format, columns) {
        refuse_foreign(&held, &shape, &shown)?;
        let found = columns.iter().map(column).collect::<Result<_, _>>()?;
        let first = [(Arc::clone(&held), shape)];
        let keys = JsonKeys::of(&first, Some(INFERRED_ROWS)).map_err(read)?;
        held.stored.get_or_init(|| keys.with_offsets());
        return Ok(with_zones(found, &held, format));
    }
    let inferred = plain_columns(&held, format, &shape, &shown)?;
    if format == FileFormat::Parquet {
        columns_are_readable(&held, &shown)?;
    }
    let found = match columns {
        [] => columns_of(&inferred),
        columns => given(columns, &inferred, format, shape.has_names())?,
    };
    Ok(with_zones(found, &held, format))
}

/// The columns of a table in an SQLite file, whose name there becomes an option.
fn of_database(
    written: &WrittenTable<'_>,
    held: &Arc<OpenFile>,
    options: &mut BTreeMap<String, String>,
    shown: &str,
) -> Result<Vec<Column>, Error> {
    if may_change(options) {
        return Err(Error::catalog(
            "an SQLITE file that changes while it is read has no rows to count: leave ('content_hash' 'false') out, and declare each new state with ALTER TABLE … REFRESH",
        ));
    }
    let table = options.get(TABLE).map_or(written.name, String::as_str).to_owned();
    let columns = written.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let (name, columns) = sqlite_table::columns(held, written.name, &table, columns, shown)?;
    options.insert(TABLE.to_owned(), name);
    Ok(columns)
}

/// The columns, with the zones that a file names for its moments. The columns of JSON files are
/// found by name, and others by their place.
fn with_zones(columns: Vec<Column>, held: &OpenFile, format: FileFormat) -> Vec<Column> {
    let Some(stored) = held.stored.get() else { return columns };
    let of = |(i, column): (usize, Column)| {
        let field = match format {
            FileFormat::Json => stored.field_with_name(&column.name).ok(),
            FileFormat::Csv | FileFormat::Parquet | FileFormat::Arrow | FileFormat::Sqlite => {
                stored.fields().get(i).map(AsRef::as_ref)
            }
        };
        let zone = match field.map(|field| field.data_type()) {
            Some(DataType::Timestamp(_, zone)) if column.data_type.starts_with("Timestamp") => {
                zone.as_ref().map(ToString::to_string)
            }
            _ => None,
        };
        Column { zone, ..column }
    };
    columns.into_iter().enumerate().map(of).collect()
}

fn of_several(
    written: &WrittenTable<'_>,
    folder: &str,
    pattern: Option<String>,
    options: &BTreeMap<String, String>,
) -> Result<(Files, Vec<Column>), Error> {
    let WrittenTable { format, location, columns, partitioned_by, .. } = *written;
    let names: Vec<String> = partitioned_by.iter().map(|(name, _)| name.clone()).collect();
    let files = Files { pattern, partitioned_by: names, version: None };
    let shape = shape(format, options)?;
    let unread = |e: io::Error| match e.kind() {
        _ if StoreLocation::new(folder).is_some() => in_no_store(location, &e),
        io::ErrorKind::InvalidInput => Error::catalog(format!(
            "below `{location}` is a link, a pipe or a device, which is not followed: a table has files and folders only"
        )),
        _ => Error::catalog_from(format!("the files of `{location}` cannot be read"), e),
    };
    let set = FileSet::open(&HeldFiles::default(), folder, &files).map_err(unread)?;
    if let Some(table) = managing(folder, format)
        .or_else(|| set.managed_by().filter(|_| format == FileFormat::Parquet))
    {
        return Err(table.refused(location));
    }
    has_these_keys(&set, &files.partitioned_by)?;
    // A column of the folders' names may be listed with its type.
    let is_partition = |name: &String| files.partitioned_by.contains(name);
    let own: Vec<_> = columns.iter().filter(|(name, _)| !is_partition(name)).cloned().collect();
    let members = members(&set, &shape, options);
    let found = match (own.as_slice(), format) {
        // A JSON object may lack a key, which is then NULL. So the owner's list of columns decides.
        (own @ [_, ..], FileFormat::Json) => own.iter().map(column).collect::<Result<_, _>>()?,
        (own, _) => match (common_columns(&members, format, location)?, own) {
            (Some(inferred), []) => columns_of(&inferred),
            (Some(inferred), own) => given(own, &inferred, format, shape.has_names())?,
            (None, []) => {
                return Err(Error::catalog(format!(
                    "there is no file in `{location}` to take the columns from: write CREATE EXTERNAL TABLE {} (column TYPE, …) STORED AS {format} …",
                    quoted(written.name)
                )));
            }
            (None, own) => own.iter().map(column).collect::<Result<_, _>>()?,
        },
    };
    if let (FileFormat::Parquet, Some((first, _))) = (format, members.first()) {
        columns_are_readable(first, &format!("a file of `{location}`"))?;
    }
    let mut found = match members.first() {
        Some((first, _)) => with_zones(found, first, format),
        None => found,
    };
    for (name, data_type) in partitioned_by {
        let listed = columns.iter().find(|(listed, _)| listed == name).map(|(_, t)| t);
        let text = sql::DataType::Text;
        let data_type = data_type.as_ref().or(listed).unwrap_or(&text).clone();
        if found.iter().any(|column| column.name == *name) {
            return Err(Error::catalog(format!(
                "the files have a column `{name}` of their own, whose place in the lines is unknown without a header: leave it out of PARTITIONED BY, and rename the folders"
            )));
        }
        found.push(column(&(name.clone(), data_type))?);
    }
    Ok((files, found))
}

/// The files of a set with their text formats. An option says how they are compressed, or else the
/// ending of each name.
pub(super) fn members(
    set: &FileSet,
    shape: &TextFormat,
    options: &BTreeMap<String, String>,
) -> Vec<(Arc<OpenFile>, TextFormat)> {
    let is_named = !options.contains_key(COMPRESSION);
    let member = |member: &super::file_set::Member| {
        let compression = match (is_named, member.ends_with(".gz"), member.ends_with(".zst")) {
            (true, true, _) => Some(Compression::Gzip),
            (true, false, true) => Some(Compression::Zstd),
            (false, _, _) | (true, false, false) => None,
        };
        let shape = match compression {
            Some(compression) => shape.clone().compressed(compression),
            None => shape.clone(),
        };
        (Arc::clone(&member.held), without_keys(&member.held, shape))
    };
    set.members.iter().map(member).collect()
}

/// The format of a file, without the cells whose columns the names of its folders say. What cannot
/// be read fails where its rows are read.
fn without_keys(held: &Arc<OpenFile>, shape: TextFormat) -> TextFormat {
    let keys = held.keys.get().map(Vec::as_slice).unwrap_or_default();
    match shape {
        TextFormat::Csv(csv) if csv.header && !keys.is_empty() => match first_cells(held, &csv) {
            Ok(Some(header)) => TextFormat::Csv(csv.without(&header, keys)),
            Ok(None) | Err(_) => TextFormat::Csv(csv),
        },
        other => other,
    }
}

/// Refuses folders whose names have other keys than PARTITIONED BY. A key becomes a column, and the
/// names of columns are public, so the owner must write them.
fn has_these_keys(set: &FileSet, declared: &[String]) -> Result<(), Error> {
    let mut found = BTreeSet::new();
    for member in &set.members {
        let keys = member.keys();
        if let Some(missing) = declared.iter().find(|name| !keys.contains(name)) {
            return Err(Error::catalog(format!(
                "a file is in no folder of PARTITIONED BY ({0}): each one lies below a folder `{0}=…`",
                quoted(missing)
            )));
        }
        found.extend(keys);
    }
    if found.iter().all(|key| declared.contains(key)) {
        return Ok(());
    }
    let others = found.iter().filter(|key| !declared.contains(key));
    let all: Vec<String> = declared.iter().chain(others).map(|key| quoted(key)).collect();
    Err(Error::catalog(format!(
        "the names of folders hold values, as in `key=value`: write PARTITIONED BY ({}) before LOCATION, with a type behind each name that is not text",
        all.join(", ")
    )))
}

/// Where the rows of a table are.
enum Located {
    /// In the file at an absolute path.
    File(String),
    /// In the files that a pattern selects below the folder at an absolute path, or in all of its
    /// files.
    Below(String, Option<String>),
}

fn located(location: &str) -> Result<Located, Error> {
    if let Some(place) = StoreLocation::new(location) {
        place.checked(location)?;
        return in_store(location, &place);
    }
    if is_server(location) {
        // The location may hold a password, so the message does not repeat it.
        return Err(Error::catalog(
            "the location is a PostgreSQL server: write STORED AS POSTGRES, and OPTIONS (table 'schema.name') behind the location",
        ));
    }
    let cannot = |e| Error::catalog_from(format!("there is no readable file `{location}`"), e);
    let text = |path: &Path| match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(Error::catalog("the path of a table's files is valid UTF-8")),
    };
    let is_missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let path = match fs::canonicalize(location) {
        // A pattern comes second, because a file's name may look like one.
        Err(error) if is_missing(&error) && location.contains(['*', '?', '[']) => {
            return below(location);
        }
        found => found.map_err(cannot)?,
    };
    let metadata = fs::metadata(&path).map_err(cannot)?;
    if metadata.is_dir() {
        return Ok(Located::Below(text(&path)?, None));
    }
    if !metadata.is_file() {
        return Err(Error::catalog(format!("`{location}` is not a file")));
    }
    if metadata.len() == 0 {
        return Err(Error::catalog(format!("the file `{location}` is empty")));
    }
    Ok(Located::File(path.to_string_lossy().into_owned()))
}

/// A location in a store: an object, a folder of objects, or what a pattern selects below a folder.
fn in_store(location: &str, place: &StoreLocation) -> Result<Located, Error> {
    let (above, pattern) = split(location, &place.path)?;
    let root = |path: &[String]| format!("{}/{}", place.root(), path.join("/"));
    if place.scheme == Scheme::Http {
        return Ok(Located::Below(format!("{}/{}", place.root(), place.path), Some(String::new())));
    }
    if !pattern.is_empty() {
        return Ok(Located::Below(root(&above), Some(pattern)));
    }
    let is_object = !location.ends_with('/') && !place.path.is_empty() && {
        let one = Selected::new(Some("")).map_err(|_| Error::Internal)?;
        match list(&root(&above), &one) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(in_no_store(location, &error)),
        }
    };
    Ok(Located::Below(root(&above), is_object.then(String::new)))
}

/// Why a store cannot be read, without its text, which may hold credentials and names.
fn in_no_store(location: &str, error: &io::Error) -> Error {
    Error::catalog(match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "the environment has no credentials for `{location}`, or the store refuses them: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_SERVICE_ACCOUNT_PATH, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY; for what anyone may read, AWS_SKIP_SIGNATURE=true"
        ),
        io::ErrorKind::Unsupported if IS_BUILT_IN => format!(
            "the store of `{location}` does not tell versions of an object apart: it needs a strong ETag for each"
        ),
        io::ErrorKind::Unsupported => format!(
            "`{location}` is in an object store, and this program was built without them: build it with `cargo build --release --features objects`"
        ),
        io::ErrorKind::NotFound => format!("there is no object `{location}`"),
        _ => format!("the store of `{location}` cannot be read"),
    })
}

/// The folders above a pattern, and the pattern below them.
fn split(location: &str, path: &str) -> Result<(Vec<String>, String), Error> {
    let parts: Vec<&str> = path.split('/').collect();
    let above: Vec<String> = parts.iter().map_while(|part| literal(part)).collect();
    let pattern = parts.get(above.len()..).unwrap_or_default().join("/");
    match is_pattern(&pattern) {
        true => Ok((above, pattern)),
        false => Err(Error::catalog(format!(
            "`{location}` is not a pattern: * and ? stand for letters of one name, [ab] for one of these, and ** alone for any folders"
        ))),
    }
}

/// The folder above a pattern, and the pattern below it.
fn below(location: &str) -> Result<Located, Error> {
    let (above, pattern) = split(location, location)?;
    let folder = match above.as_slice() {
        [] => ".".to_owned(),
        [root] if root.is_empty() => "/".to_owned(),
        above => above.join("/"),
    };
    let cannot = |e| Error::catalog_from(format!("there is no readable folder `{folder}`"), e);
    let path = fs::canonicalize(&folder).map_err(cannot)?;
    if !fs::metadata(&path).map_err(cannot)?.is_dir() {
        return Err(Error::catalog(format!("`{folder}` is not a folder")));
    }
    match path.to_str() {
        Some(path) => Ok(Located::Below(path.to_owned(), Some(pattern))),
        None => Err(Error::catalog("the path of a table's files is valid UTF-8")),
    }
}

/// The name that a part of a pattern stands for, if it matches one name only.
fn literal(part: &str) -> Option<String> {
    if !part.contains(['*', '?', '[']) {
        return Some(part.to_owned());
    }
    let escaped = [("[*]", "*"), ("[?]", "?"), ("[]]", "]"), ("[[]", "[")];
    let name = escaped.iter().fold(part.to_owned(), |name, (from, to)| name.replace(from, to));
    (Pattern::escape(&name) == part).then_some(name)
}

/// The location of a table, in a form that can be declared again.
pub(crate) fn written_location(location: &str, files: Option<&Files>) -> String {
    match files.and_then(|files| files.pattern.as_deref()) {
        // With a slash at its end, the location is a folder of the store, even if an object gets
        // its name.
        None if StoreLocation::new(location).is_some() => {
            format!("{}/", location.trim_end_matches('/'))
        }
        None => location.to_owned(),
        Some("") => location.to_owned(),
        Some(pattern) => {
            let above = Pattern::escape(location);
            format!("{}/{pattern}", above.trim_end_matches('/'))
        }
    }
}

/// A column as the owner declared it.
pub(super) fn column((name, data_type): &(String, sql::DataType)) -> Result<Column, Error> {
    let data_type = column_type(name, data_type)?.to_string();
    Ok(Column { name: name.clone(), data_type, nullable: true, domain: None, zone: None })
}

/// Refuses the names of the engine's hidden columns: such a column could replace the hidden one.
pub(crate) fn refuse_reserved(columns: &[Column]) -> Result<(), Error> {
    match columns.iter().find(|c| c.name.to_lowercase().starts_with(RESERVED)) {
        None => Ok(()),
        Some(column) => Err(Error::catalog(format!(
            "the column `{}` cannot be used: names that begin with {RESERVED} belong to the engine",
            column.name
        ))),
    }
}

/// The columns that the owner declared, checked against the file.
fn given(
    columns: &[(String, sql::DataType)],
    inferred: &SchemaRef,
    format: FileFormat,
    header: bool,
) -> Result<Vec<Column>, Error> {
    if columns.len() != inferred.fields().len() {
        let found = inferred.fields().len();
        return Err(Error::catalog(format!("the file has {found} columns, not {}", columns.len())));
    }
    let mut given = Vec::new();
    for ((name, data_type), field) in columns.iter().zip(inferred.fields()) {
        let data_type = column_type(name, data_type)?;
        // The text of a CSV cell is read as any type, but a header still names its columns.
        let is_read =
            format == FileFormat::Csv || is_read_as(field.data_type(), &data_type, format);
        if (header && name != field.name()) || !is_read {
            return Err(Error::catalog(format!(
                "the file's column is {} {}, not {name} {}",
                field.name(),
                sql_type(field.data_type()),
                sql_type(&data_type)
            )));
        }
        given.push(Column {
            name: name.clone(),
            data_type: data_type.to_string(),
            nullable: true,
            domain: None,
            zone: None,
        });
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_parts_are_names() {
        for name in ["a", "a b", "[odd]*", "?", "[[", "]", "a[b]c", ""] {
            assert_eq!(literal(&Pattern::escape(name)).as_deref(), Some(name));
        }
        for pattern in ["*", "a?", "[ab]", "[!a]", "[[]*", "[*]?"] {
            assert_eq!(literal(pattern), None, "{pattern}");
        }
        assert_eq!(literal("a]").as_deref(), Some("a]"));
        let files = |pattern: &str| Files {
            pattern: Some(pattern.to_owned()),
            partitioned_by: Vec::new(),
            version: None,
        };
        assert_eq!(written_location("/a[b]", Some(&files("*.csv"))), "/a[[]b[]]/*.csv");
        assert_eq!(written_location("/", Some(&files("*.csv"))), "/*.csv");
        assert_eq!(written_location("/a[b]", None), "/a[b]");
    }
}
