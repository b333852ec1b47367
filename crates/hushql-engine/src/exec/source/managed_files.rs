//! Recognizes files of tables whose metadata say which of the files hold rows: those of Delta Lake,
//! Iceberg and Hudi.
//!
//! In: a folder, or the names in it. Out: the [`TableFormat`] that manages its files. Such a table
//! keeps the files of deleted and replaced rows for a while. Read as plain Parquet files, they
//! would bring back people who were deleted.
//!
//! ```text
//! visits/_delta_log/00000000000000000000.json         Delta Lake: visits, and every folder in it
//! visits/metadata/v3.metadata.json                    Iceberg
//! visits/.hoodie                                      Hudi
//! ```

use std::fs;
use std::path::Path;

use crate::error::Error;

/// A format of tables whose metadata say which files hold rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableFormat {
    Delta,
    Iceberg,
    Hudi,
}

/// The folder in which Iceberg keeps its metadata.
pub(super) const METADATA: &str = "metadata";

impl TableFormat {
    /// The format whose tables have an entry of this name in their folder.
    pub(super) fn of_entry(name: &[u8]) -> Option<Self> {
        match name {
            b"_delta_log" => Some(Self::Delta),
            b".hoodie" => Some(Self::Hudi),
            _ => None,
        }
    }

    /// The format whose tables have a file of this name in their folder [`METADATA`].
    pub(super) fn of_metadata(name: &[u8]) -> Option<Self> {
        let is_of_iceberg =
            name.ends_with(b".metadata.json") || name.ends_with(b".metadata.json.gz");
        is_of_iceberg.then_some(Self::Iceberg)
    }

    /// The format of the table in a folder, if the path of a file below it shows that it is one:
    /// the format, and the length of the folder's path.
    #[cfg_attr(not(feature = "objects"), allow(dead_code, reason = "it is for objects of a store"))]
    pub(super) fn of_path(path: &str) -> Option<(Self, usize)> {
        let mut at = 0;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let next = parts.peek().map(|name| name.as_bytes());
            let found = match part {
                METADATA => next.and_then(Self::of_metadata),
                // A file of the name is no table.
                _ => next.and_then(|_| Self::of_entry(part.as_bytes())),
            };
            if let Some(found) = found {
                return Some((found, at));
            }
            at += part.len() + 1;
        }
        None
    }

    fn name(self) -> &'static str {
        match self {
            Self::Delta => "Delta Lake",
            Self::Iceberg => "Iceberg",
            Self::Hudi => "Hudi",
        }
    }

    /// What is wrong with files that are declared without their table.
    pub(super) fn finding(self) -> String {
        let name = self.name();
        format!(
            "part of a table of {name}, whose metadata say which files hold its rows: read as PARQUET, deleted rows would be in it, too"
        )
    }

    /// What an owner does about it.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Delta => {
                "write STORED AS DELTA and the table's folder, which has _delta_log in it, or write the present rows as Parquet into another folder"
            }
            Self::Iceberg => {
                "write the present rows as Parquet into another folder, as DuckDB does: COPY (FROM iceberg_scan('folder')) TO 'rows.parquet'"
            }
            Self::Hudi => {
                "write the present rows as Parquet into another folder, as Spark does: spark.read.format('hudi').load('folder').write.parquet('rows')"
            }
        }
    }

    /// The refusal of a location that an owner declares.
    pub(super) fn refused(self, location: &str) -> Error {
        Error::catalog(format!("`{location}` is {}; {}", self.finding(), self.remedy()))
    }
}

/// The table whose folder is this one or a folder above it.
pub(super) fn managed_above(folder: &Path) -> Option<TableFormat> {
    folder.ancestors().find_map(managed_in)
}

fn managed_in(folder: &Path) -> Option<TableFormat> {
    let is_there = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    if is_there("_delta_log") {
        return Some(TableFormat::Delta);
    }
    if is_there(".hoodie") {
        return Some(TableFormat::Hudi);
    }
    let entries = fs::read_dir(folder.join(METADATA)).ok()?;
    entries
        .filter_map(Result::ok)
        .find_map(|entry| TableFormat::of_metadata(entry.file_name().as_encoded_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_the_format() {
        for (path, expected) in [
            ("_delta_log/0.json", Some((TableFormat::Delta, 0))),
            ("a/b/_delta_log/0.json", Some((TableFormat::Delta, 4))),
            ("a/.hoodie/hoodie.properties", Some((TableFormat::Hudi, 2))),
            ("a/metadata/v1.metadata.json", Some((TableFormat::Iceberg, 2))),
            ("metadata/0-x.gz.metadata.json", Some((TableFormat::Iceberg, 0))),
            ("metadata/v1.metadata.json.gz", Some((TableFormat::Iceberg, 0))),
            ("metadata/snap-1.avro", None),
            ("metadata/a/v1.metadata.json", None),
            ("a/_delta_log", None),
            ("a/v1.metadata.json", None),
        ] {
            assert_eq!(TableFormat::of_path(path), expected, "{path}");
        }
    }

    #[test]
    fn folders_above_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let lone = folder.path().join("lone/year=2025");
        fs::create_dir_all(&lone).unwrap();
        assert_eq!(managed_above(&lone), None);
        for (place, expected) in [
            ("delta/_delta_log", TableFormat::Delta),
            ("hudi/.hoodie", TableFormat::Hudi),
            ("iceberg/metadata/v1.metadata.json", TableFormat::Iceberg),
        ] {
            fs::create_dir_all(folder.path().join(place)).unwrap();
            let root = folder.path().join(place.split('/').next().unwrap());
            for below in ["", "data", "data/year=2025/x"] {
                assert_eq!(managed_above(&root.join(below)), Some(expected), "{below}");
            }
        }
        assert_eq!(managed_above(&lone), None);
    }
}
