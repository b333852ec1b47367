//! The formats of files into which answers are written.
//!
//! ```text
//! 'cities.csv' → CSV        'cities.parquet' → PARQUET        'cities' → none
//! ```

use std::fmt;

/// The format of a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// A header and rows (RFC 4180).
    Csv,
    /// One JSON object on each line.
    Json,
    /// Apache Parquet.
    Parquet,
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
        })
    }
}
