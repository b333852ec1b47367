//! Detects that two tables hold the same rows: one file under two paths, or two files with the same
//! bytes.
//!
//! In: the sources of two tables. Out: what they have in common. For tables with several files, one
//! common file is enough. A file that is declared twice has two budgets for the same people, so
//! owners are warned when they declare the unit of a table. The comparison uses the present
//! contents of the files; it does not detect the same rows in another order, format or compression.
//!
//! ```text
//! /data/visits.csv, /data/link-to-visits.csv   one file
//! /data/visits.csv, /data/copy-of-visits.csv   the same bytes
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;

use sha2::{Digest, Sha256};

use super::file_discovery::{Selected, walk};
use super::remote::list;
use super::sqlite_table::TABLE;
use crate::catalog::{FileFormat, Source};

/// What two files have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Same {
    /// They are the same file, perhaps under two names.
    File,
    /// They are two files with the same bytes.
    Bytes,
}

/// What the files of two tables have in common, if they share rows.
///
/// # Errors
/// The system's error when a file cannot be read.
pub(crate) fn same_rows(one: &Source, other: &Source) -> io::Result<Option<Same>> {
    if are_of_one_database(one, other) {
        return Ok(None);
    }
    match (one, other) {
        (
            Source::File { location, files: None, .. },
            Source::File { location: of_other, files: None, .. },
        ) => same(location, of_other),
        (Source::File { .. }, Source::File { .. }) if one.is_remote() || other.is_remote() => {
            objects_in_common(one, other)
        }
        (Source::File { .. }, Source::File { .. }) => common(&opened(one)?, &opened(other)?),
        (Source::Registered | Source::Postgres { .. } | Source::Released { .. }, _)
        | (_, Source::Registered | Source::Postgres { .. } | Source::Released { .. }) => Ok(None),
    }
}

/// Whether these are two tables of an SQLite file, or of copies of one. SQLite does not tell names
/// apart by case.
fn are_of_one_database(one: &Source, other: &Source) -> bool {
    let name = |source: &Source| match source {
        Source::File { format: FileFormat::Sqlite, options, .. } => options.get(TABLE).cloned(),
        Source::File { .. }
        | Source::Postgres { .. }
        | Source::Registered
        | Source::Released { .. } => None,
    };
    name(one).zip(name(other)).is_some_and(|(one, other)| !one.eq_ignore_ascii_case(&other))
}

/// What the objects of two tables have in common. Objects are not compared with files, because that
/// would mean to read their bytes.
fn objects_in_common(one: &Source, other: &Source) -> io::Result<Option<Same>> {
    let (some, others) = (objects(one)?, objects(other)?);
    let (names, tags): (BTreeSet<&String>, BTreeSet<&String>) =
        some.iter().map(|(name, tag)| (name, tag)).unzip();
    let is_same = others.iter().any(|(name, _)| names.contains(name));
    Ok(match (is_same, others.iter().any(|(_, tag)| tags.contains(tag))) {
        (true, _) => Some(Same::File),
        (false, true) => Some(Same::Bytes),
        (false, false) => None,
    })
}

/// The addresses of a table's objects, and the sizes and tags of the objects that have bytes.
fn objects(source: &Source) -> io::Result<Vec<(String, String)>> {
    let Source::File { location, files: Some(files), .. } = source else { return Ok(Vec::new()) };
    if !source.is_remote() {
        return Ok(Vec::new());
    }
    let selected = Selected::new(files.pattern.as_deref())?;
    let address = |name: &[u8]| match selected.is_location() {
        true => location.clone(),
        false => format!("{}/{}", location.trim_end_matches('/'), String::from_utf8_lossy(name)),
    };
    let found = list(location, &selected)?.into_iter().enumerate().map(|(i, found)| {
        let size = found.object.size();
        // Two objects without bytes have no rows in common.
        let tag = if size > 0 { found.object.tag() } else { format!("{location} {i}") };
        (address(&found.name), format!("{size} {tag}"))
    });
    Ok(found.collect())
}

/// The files of a table.
fn opened(source: &Source) -> io::Result<Vec<File>> {
    let Source::File { location, files, .. } = source else { return Ok(Vec::new()) };
    match files {
        Some(files) => {
            let found = walk(location, files.pattern.as_deref())?;
            Ok(found.into_iter().map(|found| found.file).collect())
        }
        None if fs::metadata(location)?.is_file() => Ok(vec![File::open(location)?]),
        None => Ok(Vec::new()),
    }
}

/// What two sets of files have in common. An empty file holds no rows.
fn common(some: &[File], others: &[File]) -> io::Result<Option<Same>> {
    let mut inodes = BTreeSet::new();
    let mut sizes: BTreeMap<u64, Vec<&File>> = BTreeMap::new();
    for file in some {
        let metadata = file.metadata()?;
        inodes.insert((metadata.dev(), metadata.ino()));
        sizes.entry(metadata.len()).or_default().push(file);
    }
    let mut alike: BTreeMap<u64, Vec<&File>> = BTreeMap::new();
    for file in others {
        let metadata = file.metadata()?;
        if inodes.contains(&(metadata.dev(), metadata.ino())) {
            return Ok(Some(Same::File));
        }
        if metadata.len() > 0 && sizes.contains_key(&metadata.len()) {
            alike.entry(metadata.len()).or_default().push(file);
        }
    }
    for (size, files) in alike {
        let hashes: BTreeSet<Vec<u8>> = sizes
            .get(&size)
            .into_iter()
            .flatten()
            .map(|file| hash(file))
            .collect::<io::Result<_>>()?;
        for file in files {
            if hashes.contains(&hash(file)?) {
                return Ok(Some(Same::Bytes));
            }
        }
    }
    Ok(None)
}

/// The SHA-256 of a file's bytes.
fn hash(file: &File) -> io::Result<Vec<u8>> {
    let (mut file, mut hash) = (file.try_clone()?, Sha256::new());
    file.rewind()?;
    let mut buffer = vec![0_u8; 1 << 16];
    loop {
        let block = block(&mut file, &mut buffer)?;
        if block.is_empty() {
            return Ok(hash.finalize().to_vec());
        }
        hash.update(block);
    }
}

/// What two files have in common, if they hold the same rows.
fn same(one: &str, other: &str) -> io::Result<Option<Same>> {
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

/// The next bytes: as many as fit, or all the rest.
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
    use crate::catalog::Files;

    fn table(location: &str, files: Option<Files>) -> Source {
        let (location, options) = (location.to_owned(), BTreeMap::new());
        let files = files.map(Box::new);
        Source::File { format: FileFormat::Csv, location, options, fingerprint: None, files }
    }

    /// One common file is as bad as many.
    #[test]
    fn one_file_among_several_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for (name, rows) in [
            ("a/k=1/x", "id\n1\n"),
            ("a/y", ""),
            ("b/y", ""),
            ("b/x", "id\n2\n"),
            ("c/copy", "id\n1\n"),
            ("d/z", "id\n3\n"),
            ("lone", "id\n3\n"),
        ] {
            fs::create_dir_all(std::path::Path::new(&path(name)).parent().unwrap()).unwrap();
            fs::write(path(name), rows).unwrap();
        }
        fs::hard_link(path("b/x"), path("d/hard")).unwrap();
        let all = |name: &str| {
            table(
                &path(name),
                Some(Files { pattern: None, partitioned_by: Vec::new(), version: None }),
            )
        };
        for (one, other, expected) in [
            (all("a"), all("a"), Some(Same::File)),
            (all("a"), all("b"), None),
            (all("a"), all("c"), Some(Same::Bytes)),
            (all("b"), all("d"), Some(Same::File)),
            (all("d"), table(&path("lone"), None), Some(Same::Bytes)),
            (all("d"), table(&path("d/z"), None), Some(Same::File)),
            (all("a"), table(&path("lone"), None), None),
            (all("a"), Source::Registered, None),
        ] {
            assert_eq!(same_rows(&one, &other).unwrap(), expected, "{one:?} {other:?}");
            assert_eq!(same_rows(&other, &one).unwrap(), expected, "{other:?} {one:?}");
        }
        assert!(same_rows(&all("nothing"), &all("a")).is_err());
    }

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
