//! Refuses files that are no text, or whose first line shows that an option is missing.
//!
//! In: a file that an owner declares as CSV or JSON. Out: a refusal that says what the file is and
//! what to write. Only declarations look at files this way. A query never does, as its refusal
//! would follow from rows.
//!
//! ```text
//! BZh9…                            compressed with bzip2: expand it
//! Kunden-Nr;Geburtsdatum           one column: OPTIONS ('delimiter' ';')
//! # made by X ⏎ id,name            a comment: OPTIONS ('comment' '#')
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use super::compressed::Compression;
use super::csv_format::CsvFormat;
use super::lenient::TextFormat;
use super::open_files::OpenFile;
use crate::catalog::FileFormat;
use crate::error::Error;
use crate::visible;

/// The number of bytes at the beginning of a file that are looked at.
const LOOKED_AT: u64 = 1 << 16;

/// The number of comment lines in which the header of a file is looked for.
const COMMENTS: usize = 100;

/// The first bytes of files that are no text, what such a file is, and what to do.
const FOREIGN: [(&[u8], &str); 15] = [
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"BZh", "is compressed with bzip2: expand it, or compress it with gzip or zstd"),
    (b"\xfd7zXZ\0", "is compressed with xz: expand it, or compress it with gzip or zstd"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive: unpack it"),
    (
        b"PK\x03\x04",
        "is a ZIP archive, as a workbook (.xlsx) is: unpack it, or save a sheet as CSV",
    ),
    (b"\x1f\x8b", "is compressed with gzip: write OPTIONS ('compression' 'gzip')"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: write OPTIONS ('compression' 'zstd')"),
    (b"PAR1", "is a Parquet file: write STORED AS PARQUET"),
    (b"ARROW1", "is an Arrow file: write STORED AS ARROW"),
    (b"ORC", "is an ORC file: write its rows as Parquet, as pyarrow does"),
    (b"Obj\x01", "is an Avro file: write its rows as Parquet, as DuckDB does"),
    (
        b"SQLite format 3\0",
        "is an SQLite database: write STORED AS SQLITE, and OPTIONS ('table' 'name')",
    ),
    (b"%PDF-", "is a PDF document, not a table"),
    GIT_LFS,
];

/// What Git keeps in place of a large file.
pub(super) const GIT_LFS: (&[u8], &str) = (
    b"version https://git-lfs",
    "is a pointer of Git LFS and not the file: fetch it with `git lfs pull`",
);

const UTF_16: &str = "is UTF-16: convert it, as `iconv -f UTF-16 -t UTF-8` does";

/// Refuses a file that is no text of its format.
///
/// # Errors
/// [`Error::Catalog`] with what the file is.
pub(super) fn refuse_foreign(
    held: &Arc<OpenFile>,
    shape: &TextFormat,
    shown: &str,
) -> Result<(), Error> {
    let compression = shape.compression();
    let read = |e| Error::catalog_from(format!("{shown} cannot be read"), e);
    let is = |what: &str| Err(Error::catalog(format!("{shown} {what}")));
    let format_name = match shape {
        TextFormat::Csv(_) => FileFormat::Csv,
        TextFormat::Json { .. } => FileFormat::Json,
    };
    let foreign = |what: &str| is(&format!("is not a {format_name} file: it {what}"));
    if compression == Compression::Uncompressed {
        let raw = beginning(held.reader()).map_err(read)?;
        // A header may begin with PAR1.
        let is_text = is_printed(first_line(&raw)) && std::str::from_utf8(first_line(&raw)).is_ok();
        let is_foreign = |magic: &[u8]| {
            raw.starts_with(magic) && !(is_text && magic.iter().all(u8::is_ascii_alphanumeric))
        };
        if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| is_foreign(magic)) {
            return foreign(what);
        }
    }
    let text = beginning(compression.text(held.reader()).map_err(read)?).map_err(read)?;
    let is_utf_16 = match text.as_slice() {
        [b'\xff', b'\xfe', ..] | [b'\xfe', b'\xff', ..] => true,
        [0, a, 0, b, ..] | [a, 0, b, 0, ..] => [a, b].into_iter().all(u8::is_ascii_graphic),
        _ => false,
    };
    if is_utf_16 {
        return foreign(UTF_16);
    }
    let TextFormat::Csv(format) = shape else { return Ok(()) };
    let line = first_line(&text);
    if !is_printed(line) {
        return Ok(());
    }
    if line.strip_suffix(b"\r").unwrap_or(line).contains(&b'\r') {
        return is(
            "ends its lines with a carriage return alone: convert them, as `tr '\\r' '\\n'` does",
        );
    }
    match missing_option(held, format).map_err(read)? {
        Some(what) => is(&what),
        None => Ok(()),
    }
}

/// The bytes before the first line feed.
fn first_line(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// Whether bytes have no control characters of ASCII but tabs and carriage returns.
fn is_printed(bytes: &[u8]) -> bool {
    !bytes.iter().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r'))
}

/// The first bytes of a text.
fn beginning(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LOOKED_AT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the first line of a CSV file says about an option that is not written.
fn missing_option(held: &Arc<OpenFile>, format: &CsvFormat) -> io::Result<Option<String>> {
    let format = &format.with_all_cells();
    let mut lines = format.lines(held.reader())?;
    let Some(first) = lines.next()?.map(<[u8]>::to_vec) else { return Ok(None) };
    let Ok(text) = std::str::from_utf8(&first) else {
        return Ok(format.header.then(|| {
            "has a header that is not UTF-8: convert the file, as `iconv -f WINDOWS-1252 -t UTF-8` does"
                .to_owned()
        }));
    };
    if cells(format, &first) != 1 {
        return Ok(None);
    }
    if first.starts_with(b"#") && !format.says_comment {
        for _ in 0..COMMENTS {
            let Some(line) = lines.next()? else { break };
            if line.starts_with(b"#") {
                continue;
            }
            // The header below the comments may need another delimiter, too.
            let is_wider = cells(format, line) > 1 || likely_delimiter(format, line).is_some();
            return Ok(is_wider.then(|| {
                "begins with a comment: write OPTIONS ('comment' '#'), or ('comment' '') if its first line names the column".to_owned()
            }));
        }
    }
    Ok(likely_delimiter(format, &first).filter(|_| !format.says_delimiter).map(|delimiter| {
        let name = match format.header {
            true => format!(" named {}", visible::line(text)),
            false => String::new(),
        };
        format!(
            "would have one column{name}: write OPTIONS ('delimiter' '{delimiter}'), or ('delimiter' ',') if it has one"
        )
    }))
}

fn cells(format: &CsvFormat, line: &[u8]) -> usize {
    let mut record = csv::ByteRecord::new();
    format.read_cells(line, &mut record);
    record.len()
}

/// The delimiter that cuts a line of one cell into several.
fn likely_delimiter(format: &CsvFormat, line: &[u8]) -> Option<&'static str> {
    let cut = |delimiter| cells(&CsvFormat { delimiter, ..format.clone() }, line);
    let all = [(b';', ";"), (b'\t', r"\t"), (b'|', "|")].map(|(byte, name)| (cut(byte), name));
    all.into_iter()
        .rev()
        .max_by_key(|(cells, _)| *cells)
        .filter(|(n, _)| *n > 1)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[track_caller]
    fn says(bytes: &[u8], written: &[(&str, &str)]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let held = Arc::new(OpenFile::open(file.path().to_str().unwrap(), 0).unwrap());
        let options = written.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let options: BTreeMap<String, String> = options.collect();
        let shape = TextFormat::Csv(CsvFormat::of_options(&options).unwrap());
        refuse_foreign(&held, &shape, "`t`").err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_no_csv_is_named() {
        for (bytes, written, expected) in [
            (&b"\xff\xfei\0d\0"[..], &[][..], "UTF-16"),
            (b"i\0d\0\n\0", &[], "UTF-16"),
            (b"\0i\0d", &[], "UTF-16"),
            (b"BZh91AY&SY\x10\x9f", &[], "bzip2"),
            (b"\xfd7zXZ\0\0", &[], "xz"),
            (b"PK\x03\x04\x14", &[], "ZIP"),
            (b"\x1f\x8b\x08", &[], "'compression' 'gzip'"),
            (b"PAR1\x15", &[], "STORED AS PARQUET"),
            (b"ORC\x11\x00\x00\n\x06\x12", &[], "ORC file"),
            (b"Obj\x01\x04\x14avro.codec", &[], "Avro file"),
            (b"version https://git-lfs.github.com/spec/v1\n", &[], "git lfs pull"),
            (b"id,x\r1,a\r2,b\r", &[], "carriage return"),
            (b"id,stra\xdfe\n1,a\n", &[], "not UTF-8"),
            (
                b"Kunden-Nr;Geburtsdatum\n1;2\n",
                &[],
                "named Kunden-Nr;Geburtsdatum: write OPTIONS ('delimiter' ';')",
            ),
            (b"id\tx;y\tz\n1\t2\t3\n", &[], r"'delimiter' '\t'"),
            (b"1;2\n", &[("has_header", "false")], "one column: write OPTIONS ('delimiter' ';')"),
            (b"# made\n#\nid,x\n", &[], "'comment' '#'"),
            (b"# made\nid;x\n", &[], "'comment' '#'"),
            (b"# made\nid;x\n", &[("comment", "#")], "'delimiter' ';'"),
        ] {
            let said = says(bytes, written).unwrap();
            assert!(said.contains(expected), "{said}");
        }
        for (bytes, written) in [
            (&b"id,x\r\n1,a\r\n"[..], &[][..]),
            (b"\xef\xbb\xbfid,x\n", &[]),
            (b"a;b\n1\n", &[("delimiter", ",")]),
            (b"\"a;b\"\n1\n", &[]),
            (b"a;b,c\n1,2\n", &[]),
            (b"#chrom,pos\n1,2\n", &[]),
            (b"# of visits\n1\n2\n", &[]),
            (b"# of visits\n1,2\n", &[("comment", "")]),
            (b"id\n1;2\n", &[]),
            (b"PAR1,PAR2\n1,2\n", &[]),
            (b"", &[]),
        ] {
            assert_eq!(says(bytes, written), None);
        }
    }
}
