//! The formats of files into which answers are written.
//!
//! ```text
//! 'cities.csv' → CSV    'cities.parquet' → PARQUET    'cities.arrow' → ARROW    'cities' → none
//! ```

use std::fmt;

/// A file that is written, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTarget {
    /// The path, as written.
    pub path: String,
    /// The format that the path's ending names.
    pub format: CopyFormat,
    /// True if a column `x_error` follows each column x whose numbers have a ±.
    pub errors: bool,
}

/// The format of a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// A header and rows (RFC 4180).
    Csv,
    /// One JSON object on each line.
    Json,
    /// Apache Parquet.
    Parquet,
    /// A file of Arrow (its IPC format, also called Feather 2).
    Arrow,
}

impl CopyFormat {
    /// The format that the ending of a path names.
    pub fn for_path(path: &str) -> Option<Self> {
        let (before, ending) = path.rsplit_once('.')?;
        match ending.to_lowercase().as_str() {
            _ if before.is_empty() || before.ends_with('/') => None,
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "parquet" => Some(Self::Parquet),
            "arrow" => Some(Self::Arrow),
            _ => None,
        }
    }
}

impl fmt::Display for CopyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "CSV",
            Self::Json => "JSON",
            Self::Parquet => "PARQUET",
            Self::Arrow => "ARROW",
        })
    }
}
