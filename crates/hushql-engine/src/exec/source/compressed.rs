//! Compressed text files: what their options say, and their text.
//!
//! In: the options of a table, and the location of its file. Out: how the file is compressed, and a
//! reader of the text. The text is expanded while it is read, so its length does not matter. A
//! stream that is cut short or damaged fails like a disk, because the file is broken, and not a
//! row.
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

/// The option that names the compression of a text file.
pub(super) const COMPRESSION: &str = "compression";

/// The compression of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// None.
    Uncompressed,
    /// RFC 1952, one member or several.
    Gzip,
    /// RFC 8878, one frame or several.
    Zstd,
}

impl Compression {
    /// The value of the option that follows from the ending of a file's name, if one does.
    pub(super) fn by_name(location: &str) -> Option<&'static str> {
        let ends =
            |end: &str| location.len() > end.len() && location.to_ascii_lowercase().ends_with(end);
        match (ends(".gz"), ends(".zst")) {
            (true, _) => Some("gzip"),
            (false, true) => Some("zstd"),
            (false, false) => None,
        }
    }

    /// The compression that the options name.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a name other than `gzip`, `zstd` and `none`.
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
    /// If there is not enough memory to expand it.
    pub(super) fn text(self, file: FileReader) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Uncompressed => Box::new(file),
            Self::Gzip => Box::new(MultiGzDecoder::new(file)),
            Self::Zstd => Box::new(zstd::Decoder::new(file)?),
        })
    }
}
