//! Text files that are compressed: what their options say, and their bytes as they were before.
//!
//! In: the options of a table and where its file lies. Out: how it is compressed, and a reader of
//! the text. The text is read as it is expanded, so its length does not matter. A stream that is
//! cut short or damaged fails as a disk does: it is the file that is broken, not a row.
//!
//! ```text
//! LOCATION 'visits.csv.gz'                                   gzip
//! LOCATION 'visits.2025' OPTIONS ('compression' 'zstd')      zstd
//! ```

use std::collections::BTreeMap;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use super::open_files::FileReader;
use crate::error::Error;

/// The option that names how a text file is compressed.
pub(super) const COMPRESSION: &str = "compression";

/// How the bytes of a text file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// Not at all.
    Uncompressed,
    /// RFC 1952, one member or several.
    Gzip,
    /// RFC 8878, one frame or several.
    Zstd,
}

impl Compression {
    /// The value of the option that the end of a file's name stands for, if it stands for one.
    pub(super) fn by_name(location: &str) -> Option<&'static str> {
        let ends =
            |end: &str| location.len() > end.len() && location.to_ascii_lowercase().ends_with(end);
        match (ends(".gz"), ends(".zst")) {
            (true, _) => Some("gzip"),
            (false, true) => Some("zstd"),
            (false, false) => None,
        }
    }

    /// What the options say.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a name that is none of `gzip`, `zstd` and `none`.
    pub(super) fn of_options(options: &BTreeMap<String, String>) -> Result<Self, Error> {
        match options.get(COMPRESSION).map(|name| name.to_lowercase()).as_deref() {
            None | Some("none" | "uncompressed") => Ok(Self::Uncompressed),
            Some("gzip" | "gz") => Ok(Self::Gzip),
            Some("zstd" | "zst") => Ok(Self::Zstd),
            Some(name) => Err(Error::catalog(format!(
                "compression is 'gzip', 'zstd' or 'none', not '{name}'"
            ))),
        }
    }

    /// A reader of the text of a file.
    ///
    /// # Errors
    /// If the memory for expanding it cannot be had.
    pub(super) fn text(self, file: FileReader) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Uncompressed => Box::new(file),
            Self::Gzip => Box::new(MultiGzDecoder::new(file)),
            Self::Zstd => Box::new(zstd::Decoder::new(file)?),
        })
    }
}
