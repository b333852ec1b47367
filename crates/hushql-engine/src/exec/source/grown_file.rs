//! Whether a file has only grown: whether all rows of an earlier declaration are in it, unchanged
//! and in their place; and whether a folder has all of its earlier files.
//!
//! In: a table with the fingerprint of its earlier file, and the fingerprint that a declaration has
//! just taken. Out: true or false. The owner's declaration asks; no query does.
//!
//! ```text
//! "1,2026-01-03\n"  →  "1,2026-01-03\n2,2026-02-01\n"     grown: a prefix that ends at a line's end
//! "1,2026-01-03"    →  "1,2026-01-034\n"                  not: the last row has changed
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use sha2::{Digest, Sha256};

use super::check::OpenFiles;
use super::compressed::Compression;
use crate::catalog::{FileFormat, Fingerprint, Source};

/// Whether the rows of a file are those on which it was declared before, with others behind them.
///
/// # Guarantee
/// True only if the file that now has the fingerprint `now` begins with the bytes of the earlier
/// one, these end with a line, and a line is a record both before and now; or if both have the same
/// bytes. The bytes are read once, so that both hashes are of the same file. Each record of a text
/// is read by itself, in columns and types that the declaration fixes: then no earlier row is read
/// otherwise.
pub(crate) fn has_grown(before: &Source, now: &Fingerprint) -> bool {
    let Source::File { format, location, options, fingerprint: Some(held), files: None } = before
    else {
        return false;
    };
    if held.over_lines != now.over_lines {
        return false;
    }
    if held.sha256 == now.sha256 {
        return held.size == now.size;
    }
    let is_text = matches!(format, FileFormat::Csv | FileFormat::Json);
    let is_plain = Compression::of_options(options).is_ok_and(|is| is == Compression::Uncompressed);
    if !is_text || !is_plain || now.over_lines || held.size == 0 || held.size > now.size {
        return false;
    }
    prefix_of(location, held.size).is_ok_and(|read| {
        read.is_some_and(|read| {
            read.ends_with_line && read.prefix == held.sha256 && read.whole == now.sha256
        })
    })
}

/// Whether all files on which a folder was declared before are in it, with others beside them.
///
/// # Guarantee
/// True only if the files that now have the fingerprint `now` hold each earlier file, under its
/// name and with its bytes, and a line is a record both before and now, or neither time. Each file
/// is read by itself: then no earlier row is read otherwise.
pub(crate) fn folder_has_grown(open: &OpenFiles, before: &Source, now: &Fingerprint) -> bool {
    let Source::File { location, fingerprint: Some(held), files: Some(files), .. } = before else {
        return false;
    };
    if held.over_lines != now.over_lines || held.files.is_none() || files.version.is_some() {
        return false;
    }
    open.set(location, files).is_ok_and(|set| {
        let is_now = set.sha256().is_ok_and(|sha256| sha256 == now.sha256);
        is_now && set.holds_earlier(&held.sha256).unwrap_or(false)
    })
}

/// The hashes of a file and of its beginning.
struct HashedPrefix {
    prefix: String,
    whole: String,
    /// Whether the last byte of the beginning ends a line.
    ends_with_line: bool,
}

/// Hashes a file and its first bytes; `None` if it has fewer.
fn prefix_of(location: &str, size: u64) -> io::Result<Option<HashedPrefix>> {
    let mut file = BufReader::new(File::open(location)?);
    let mut left = size;
    let (mut whole, mut prefix, mut last) = (Sha256::new(), None, None);
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            break;
        }
        let own = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (before, behind) = bytes.split_at(own);
        whole.update(before);
        left = left.saturating_sub(u64::try_from(own).unwrap_or(u64::MAX));
        last = before.last().copied().or(last);
        if left == 0 && prefix.is_none() {
            prefix = Some(hex(whole.clone()));
        }
        whole.update(behind);
        let read = bytes.len();
        file.consume(read);
    }
    let hashed =
        |prefix| HashedPrefix { prefix, whole: hex(whole), ends_with_line: last == Some(b'\n') };
    Ok(prefix.map(hashed))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn fingerprint(bytes: &str, over_lines: bool) -> Fingerprint {
        Fingerprint {
            size: bytes.len() as u64,
            modified_nanos: 0,
            changed_nanos: None,
            device: None,
            inode: 0,
            sha256: hex(Sha256::new_with_prefix(bytes)),
            files: None,
            over_lines,
        }
    }

    fn grown(before: &str, now: &str, options: &[(&str, &str)], format: FileFormat) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, now).unwrap();
        let option = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let source = Source::File {
            format,
            location: path.to_str().unwrap().to_owned(),
            options: options.iter().map(option).collect::<BTreeMap<_, _>>(),
            fingerprint: Some(fingerprint(before, false)),
            files: None,
        };
        has_grown(&source, &fingerprint(now, false))
    }

    #[test]
    fn only_whole_lines_behind_unchanged_ones_are_growth() {
        let csv = |before: &str, now: &str| grown(before, now, &[], FileFormat::Csv);
        assert!(csv("a\n1\n", "a\n1\n2\n"));
        assert!(csv("a\n1\n", "a\n1\n2"));
        assert!(csv("a\n1\n", "a\n1\n"));
        // The last line went on, a row changed, rows went, and the file was empty.
        assert!(!csv("a\n1", "a\n12\n"));
        assert!(!csv("a\n1", "a\n1\n2\n"));
        assert!(!csv("a\n1\n2\n", "a\n3\n2\n4\n"));
        assert!(!csv("a\n1\n2\n", "a\n1\n"));
        assert!(!csv("", "a\n1\n"));
        // Longer than one buffer.
        let long = "12345678\n".repeat(3_000);
        assert!(csv(&long, &format!("{long}1\n")));
        assert!(!csv(&long, &format!("2{}1\n", &long[1..])));
        let of = |format| grown("a\n1\n", "a\n1\n2\n", &[], format);
        assert!(of(FileFormat::Json) && !of(FileFormat::Parquet) && !of(FileFormat::Arrow));
        assert!(!grown("a\n", "a\n1\n", &[("compression", "gzip")], FileFormat::Csv));
    }

    #[test]
    fn records_over_lines_may_be_read_otherwise() {
        let source = |over_lines| Source::File {
            format: FileFormat::Csv,
            location: "/nowhere".to_owned(),
            options: BTreeMap::new(),
            fingerprint: Some(fingerprint("a\n", over_lines)),
            files: None,
        };
        assert!(has_grown(&source(true), &fingerprint("a\n", true)));
        assert!(!has_grown(&source(true), &fingerprint("a\nb\n", true)));
        assert!(!has_grown(&source(false), &fingerprint("a\n", true)));
    }
}
