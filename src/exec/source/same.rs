//! Detects that two files hold the same rows: one file under two paths, or two files with the same bytes.
//!
//! In: two paths. Out: what they have in common. A file that is declared twice has two budgets for the same people, so
//! owners are warned when they declare the unit of a table. The comparison uses the present contents of the files; it
//! does not detect the same rows in another order, format or compression.
//!
//! ```text
//! /data/visits.csv, /data/link-to-visits.csv   one file
//! /data/visits.csv, /data/copy-of-visits.csv   the same bytes
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// What two files have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Same {
    /// They are one file, perhaps under two names.
    File,
    /// They are two files with the same bytes.
    Bytes,
}

/// What two files have in common, if they hold the same rows.
///
/// # Errors
/// The system's error when a file cannot be read.
pub(crate) fn same(one: &str, other: &str) -> io::Result<Option<Same>> {
    if one == other {
        return Ok(Some(Same::File));
    }
    // Opening a path that is not a file may wait forever.
    if !fs::metadata(one)?.is_file() || !fs::metadata(other)?.is_file() {
        return Ok(None);
    }
    // Compares the opened files, even if the paths change meanwhile.
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (of_one, of_other) = (one.metadata()?, other.metadata()?);
    if (of_one.dev(), of_one.ino()) == (of_other.dev(), of_other.ino()) {
        return Ok(Some(Same::File));
    }
    if of_one.len() != of_other.len() || !same_bytes(&mut one, &mut other)? {
        return Ok(None);
    }
    Ok(Some(Same::Bytes))
}

fn same_bytes(one: &mut impl Read, other: &mut impl Read) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0_u8; 1 << 16], vec![0_u8; 1 << 16]);
    loop {
        let (of_left, of_right) = (block(one, &mut left)?, block(other, &mut right)?);
        if of_left != of_right {
            return Ok(false);
        }
        if of_left.is_empty() {
            return Ok(true);
        }
    }
}

/// The next bytes: as many as fit, or all that are left.
fn block<'a>(file: &mut impl Read, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer.get(..filled).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_known_by_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let rows = "id\n".repeat(100_000);
        fs::write(path("a"), &rows).unwrap();
        fs::hard_link(path("a"), path("hard")).unwrap();
        std::os::unix::fs::symlink(path("a"), path("soft")).unwrap();
        fs::write(path("copy"), &rows).unwrap();
        fs::write(path("longer"), format!("{rows}1\n")).unwrap();
        fs::write(path("other"), format!("{}ie\n", &rows[3..])).unwrap();
        let same = |a: &str, b: &str| {
            let found = same(&path(a), &path(b)).unwrap();
            assert_eq!(found, same(&path(b), &path(a)).unwrap(), "{a} {b}");
            found
        };
        for name in ["a", "hard", "soft"] {
            assert_eq!(same("a", name), Some(Same::File), "{name}");
            assert_eq!(same(name, "copy"), Some(Same::Bytes), "{name}");
            assert_eq!(same(name, "longer"), None, "{name}");
            assert_eq!(same(name, "other"), None, "{name}");
        }
        assert!(super::same(&path("a"), &path("nothing")).is_err());
    }
}
