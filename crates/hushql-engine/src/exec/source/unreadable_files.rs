//! Says why a Parquet or Arrow file cannot be read.
//!
//! In: a file that its reader refuses. Out: a sentence for its owner, with what to do. It follows
//! from the first and last bytes of the file, and from its description of columns; no cell is
//! quoted.
//!
//! ```text
//! `a.parquet` is a pointer of Git LFS and not the file: fetch it with `git lfs pull`
//! `a.arrow` has a column `h` of a type that Arrow files cannot have here: …
//! ```

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use datafusion::parquet::file::metadata::ParquetMetaData;
use hushql_exec::file_schema::{unknown_in_footer, unknown_in_text};

use super::foreign_files::GIT_LFS;
use super::open_files::{Chunks, OpenFile};
use crate::catalog::FileFormat;
use crate::error::Error;

/// The bytes with which files begin and end.
const PARQUET: &[u8] = b"PAR1";
const ENCRYPTED_PARQUET: &[u8] = b"PARE";
const ARROW: &[u8] = b"ARROW1";

/// The refusal of a file that is not in its format.
pub(super) fn wrong_format(held: &Arc<OpenFile>, format: FileFormat, shown: &str) -> Error {
    let what = match (format, ends(held)) {
        (FileFormat::Parquet | FileFormat::Arrow, Ok((start, end))) => reason(format, &start, &end),
        _ => None,
    };
    match what {
        Some(what) => Error::catalog(format!("{shown} {what}")),
        None => Error::catalog(not_in(shown, format)),
    }
}

/// The sentence about a file that is not in its format.
pub(super) fn not_in(shown: &str, format: FileFormat) -> String {
    let article = match format {
        FileFormat::Arrow | FileFormat::Sqlite => "an",
        FileFormat::Csv | FileFormat::Json | FileFormat::Parquet => "a",
    };
    format!("{shown} is not {article} {format} file")
}

/// The refusal of a file whose columns are all those of its folders.
pub(super) fn no_column(shown: &str) -> Error {
    Error::catalog(format!(
        "{shown} has no column of its own: a table needs one besides those of PARTITIONED BY"
    ))
}

fn reason(format: FileFormat, start: &[u8], end: &[u8]) -> Option<&'static str> {
    let (pointer, what) = GIT_LFS;
    if start.starts_with(pointer) {
        return Some(what);
    }
    let is_cut = "is cut off: its end is missing, so copy or write it again";
    let is_damaged = "has a footer that cannot be read: copy or write it again";
    match format {
        FileFormat::Parquet if start.starts_with(ENCRYPTED_PARQUET) => {
            Some("is encrypted: write it again without encryption")
        }
        FileFormat::Parquet if start.starts_with(PARQUET) && end.ends_with(PARQUET) => {
            Some(is_damaged)
        }
        FileFormat::Parquet if start.starts_with(PARQUET) => Some(is_cut),
        FileFormat::Arrow if start.starts_with(ARROW) && end.ends_with(ARROW) => Some(is_damaged),
        FileFormat::Arrow if start.starts_with(ARROW) => Some(is_cut),
        FileFormat::Arrow if start.starts_with(&[0xff; 4]) => Some(
            "is a stream of Arrow and not a file: write it as a file (pyarrow.ipc.new_file in place of new_stream), or as Parquet",
        ),
        FileFormat::Arrow if start.starts_with(b"FEA1") => {
            Some("is in the first version of Feather: write it in the second, or as Parquet")
        }
        FileFormat::Parquet
        | FileFormat::Arrow
        | FileFormat::Csv
        | FileFormat::Json
        | FileFormat::Sqlite => None,
    }
}

fn ends(held: &Arc<OpenFile>) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut start, mut end) = (Vec::new(), Vec::new());
    held.reader().take(64).read_to_end(&mut start)?;
    let mut reader = held.reader();
    reader.seek(SeekFrom::Start(held.stamp().size.saturating_sub(8)))?;
    reader.take(8).read_to_end(&mut end)?;
    Ok((start, end))
}

/// Refuses a Parquet file with a column of a type that its reader does not know.
///
/// # Errors
/// A sentence with the column.
pub(super) fn known_in_parquet(metadata: &ParquetMetaData, shown: &str) -> Result<(), Error> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let arrow = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == "ARROW:schema"));
    unknown(arrow.and_then(|pair| unknown_in_text(pair.value.as_ref()?)), shown)
}

/// The same for an Arrow file.
///
/// # Errors
/// A sentence with the column.
pub(super) fn known_in_arrow(held: &Arc<OpenFile>, shown: &str) -> Result<(), Error> {
    unknown(footer(held).ok().and_then(|footer| unknown_in_footer(&footer)), shown)
}

fn unknown(column: Option<String>, shown: &str) -> Result<(), Error> {
    let Some(column) = column else { return Ok(()) };
    Err(Error::catalog(format!(
        "{shown} has a column `{}` of a type that cannot be read, such as Int128: write it as Int64, Decimal or text",
        column.escape_debug()
    )))
}

/// The description of columns at the end of an Arrow file: behind it are its length, in 4 bytes,
/// and the name of the format.
fn footer(held: &Arc<OpenFile>) -> io::Result<Vec<u8>> {
    let size = held.stamp().size;
    let behind = 4 + ARROW.len();
    let end = size.saturating_sub(u64::try_from(behind).map_err(io::Error::other)?);
    let mut reader = held.reader();
    reader.seek(SeekFrom::Start(end))?;
    let mut length = [0_u8; 4];
    reader.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length)).min(end);
    reader.seek(SeekFrom::Start(end - length))?;
    let mut footer = Vec::new();
    reader.take(length).read_to_end(&mut footer)?;
    Ok(footer)
}

/// Reads the first row of each column of a Parquet file. The footer does not say everything: a
/// column may be encrypted, or compressed in a way that the reader does not know.
///
/// # Errors
/// A sentence with the column that cannot be read.
pub(super) fn columns_are_readable(held: &Arc<OpenFile>, shown: &str) -> Result<(), Error> {
    let file = || Chunks(Arc::clone(held));
    let footer = ArrowReaderMetadata::load(&file(), ArrowReaderOptions::default());
    let footer = footer.map_err(|_| wrong_format(held, FileFormat::Parquet, shown))?;
    for (i, column) in footer.schema().fields().iter().enumerate() {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file(), footer.clone());
        let only = ProjectionMask::roots(builder.parquet_schema(), [i]);
        let first = builder.with_projection(only).with_batch_size(1).with_limit(1).build();
        if first.is_ok_and(|mut rows| rows.next().is_none_or(|row| row.is_ok())) {
            continue;
        }
        return Err(Error::catalog(format!(
            "the column `{}` of {shown} cannot be read: it is encrypted, damaged, or compressed in a way that this program does not know; write the file again without encryption, compressed with zstd or snappy",
            column.name()
        )));
    }
    Ok(())
}
