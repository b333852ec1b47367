//! Finds the files of a table below a folder, and opens each of them where it finds it.
//!
//! In: a folder, and perhaps a pattern. Out: the files with their names below the folder, sorted by
//! the bytes of these names. Each folder is opened in the folder above it, never by a path, and no
//! link is followed: a link in the place of a file or folder makes the walk fail, because it may
//! lead out of the folder. Files that writers hide until they are complete are left out, as in
//! Spark and DataFusion.
//!
//! ```text
//! /data/visits                   year=2025/a.parquet   year=2026/b.parquet        and not _SUCCESS, .a.crc, b.parquet.tmp
//! /data/visits, year=2025/*      year=2025/a.parquet
//! /data/visits, **/b*            year=2026/b.parquet
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use glob::{MatchOptions, Pattern};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;

use super::managed_files::{METADATA, TableFormat};

/// The deepest nesting of folders.
const DEEPEST: usize = 64;

/// A file, and its name below the folder where the walk began.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) name: Vec<u8>,
    pub(super) file: File,
    /// The table in one of its folders, if metadata there say which files hold rows.
    pub(super) managed_by: Option<TableFormat>,
}

/// One part of a pattern, between two slashes.
enum Step {
    /// `**`: any number of folders.
    Any,
    One(Pattern),
}

/// The selection below a folder, or in a store.
pub(super) struct Selected {
    steps: Vec<Step>,
    is_location: bool,
}

impl Selected {
    /// The selection of a pattern. No pattern selects everything, and an empty one the location
    /// itself.
    ///
    /// # Errors
    /// If the pattern is invalid.
    pub(super) fn new(pattern: Option<&str>) -> io::Result<Self> {
        Ok(Self { steps: steps(pattern)?, is_location: pattern == Some("") })
    }

    /// Whether the location itself is the only object.
    pub(super) fn is_location(&self) -> bool {
        self.is_location
    }

    /// Whether the name of an object is selected and no part of it is hidden.
    #[cfg_attr(not(feature = "objects"), allow(dead_code, reason = "it is for objects of a store"))]
    pub(super) fn selects(&self, name: &str) -> bool {
        let mut at = closed(&self.steps, vec![0]);
        for part in name.split('/') {
            if is_hidden(part.as_bytes()) {
                return false;
            }
            at = after(&self.steps, &at, part.as_bytes());
        }
        at.contains(&self.steps.len())
    }
}

/// The files that a pattern selects below a folder; without a pattern, all files. A pattern that
/// selects a folder selects the files in it.
///
/// # Errors
/// If the folder is missing, the pattern is invalid, or something that it selects is a link, cannot
/// be opened, or is neither file nor folder.
pub(super) fn walk(folder: &str, pattern: Option<&str>) -> io::Result<Vec<FoundFile>> {
    let steps = steps(pattern)?;
    let root = File::open(folder)?;
    if !root.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mut walk = FolderWalk { steps: &steps, found: Vec::new() };
    let at = WalkPosition { prefix: &[], at: &closed(&steps, vec![0]), depth: 0, managed_by: None };
    walk.folder(root.into(), at)?;
    let mut found = walk.found;
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Whether a text is a pattern of paths that stays below its folder.
pub(super) fn is_pattern(pattern: &str) -> bool {
    steps(Some(pattern)).is_ok() && pattern.split('/').all(|part| part != "..")
}

fn steps(pattern: Option<&str>) -> io::Result<Vec<Step>> {
    let parts = pattern.into_iter().flat_map(|pattern| pattern.split('/'));
    let step = |part: &str| match part {
        "**" => Ok(Step::Any),
        _ => Pattern::new(part).map(Step::One).map_err(|_| io::ErrorKind::InvalidInput.into()),
    };
    parts.filter(|part| !matches!(*part, "" | ".")).map(step).collect()
}

/// Adds the positions in a pattern that need no further name: those after `**`.
fn closed(steps: &[Step], mut at: Vec<usize>) -> Vec<usize> {
    let mut i = 0;
    while let Some(place) = at.get(i).copied() {
        if matches!(steps.get(place), Some(Step::Any)) && !at.contains(&(place + 1)) {
            at.push(place + 1);
        }
        i += 1;
    }
    at
}

/// Whether a writer hides the file or folder with this name.
fn is_hidden(name: &[u8]) -> bool {
    let is_marked = name.starts_with(b"_") && !name.contains(&b'=');
    name.starts_with(b".") || is_marked || name.ends_with(b".tmp") || name.ends_with(b"._COPYING_")
}

struct FolderWalk<'a> {
    steps: &'a [Step],
    found: Vec<FoundFile>,
}

/// Where a folder is: its name below the first folder and the number of folders between them, its
/// positions in the pattern, and the table in a folder above it.
#[derive(Clone, Copy)]
struct WalkPosition<'a> {
    prefix: &'a [u8],
    at: &'a [usize],
    depth: usize,
    managed_by: Option<TableFormat>,
}

impl FolderWalk<'_> {
    fn folder(&mut self, folder: OwnedFd, position: WalkPosition<'_>) -> io::Result<()> {
        let WalkPosition { prefix, at, depth, mut managed_by } = position;
        if depth > DEEPEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut folder = Dir::from_fd(folder)?;
        let (mut names, mut has_metadata) = (Vec::new(), false);
        for entry in folder.iter() {
            let name = entry?.file_name().to_bytes().to_vec();
            managed_by = managed_by.or_else(|| TableFormat::of_entry(&name));
            has_metadata |= name == METADATA.as_bytes();
            let reached = after(self.steps, at, &name);
            if !is_hidden(&name) && !reached.is_empty() {
                names.push((name, reached));
            }
        }
        if has_metadata && managed_by.is_none() {
            managed_by = managed_by_metadata(&folder)?;
        }
        for (name, reached) in names {
            let file = File::from(opened(&folder, &name)?);
            let metadata = file.metadata()?;
            let path = match prefix {
                [] => name,
                _ => [prefix, b"/", &name].concat(),
            };
            if metadata.is_dir() {
                let (prefix, at) = (path.as_slice(), reached.as_slice());
                let below = WalkPosition { prefix, at, depth: depth + 1, managed_by };
                self.folder(file.into(), below)?;
            } else if !metadata.is_file() {
                return Err(io::ErrorKind::InvalidInput.into());
            } else if reached.contains(&self.steps.len()) {
                self.found.push(FoundFile { name: path, file, managed_by });
            }
        }
        Ok(())
    }
}

/// The table in a folder that has a folder for metadata.
fn managed_by_metadata(folder: &Dir) -> io::Result<Option<TableFormat>> {
    // Something else may have this name.
    let Ok(metadata) = opened(folder, METADATA.as_bytes()) else { return Ok(None) };
    if !File::from(metadata.try_clone()?).metadata()?.is_dir() {
        return Ok(None);
    }
    for entry in Dir::from_fd(metadata)?.iter() {
        if let Some(found) = TableFormat::of_metadata(entry?.file_name().to_bytes()) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The positions in the pattern after a name. After the end of the pattern, everything is selected.
fn after(steps: &[Step], at: &[usize], name: &[u8]) -> Vec<usize> {
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: false,
    };
    let text = String::from_utf8_lossy(name);
    let next = at.iter().filter_map(|place| match steps.get(*place) {
        None | Some(Step::Any) => Some(*place),
        Some(Step::One(pattern)) => pattern.matches_with(&text, options).then_some(*place + 1),
    });
    closed(steps, next.collect())
}

/// Opens a file or folder in a folder, without waiting for the writer of a pipe. All files of a
/// table are open at once, so this raises the limit of open files when it is reached, as far as the
/// system permits.
///
/// # Errors
/// The system's; of the kind `InvalidInput` for a link or a socket.
pub(super) fn opened(folder: &Dir, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let open = || openat(folder.as_fd(), OsStr::from_bytes(name), flags, Mode::empty());
    match open() {
        Err(Errno::EMFILE) => {
            let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
            setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
            Ok(open()?)
        }
        // The errors for a link and for a socket.
        Err(Errno::ELOOP | Errno::EMLINK | Errno::ENXIO) => Err(io::ErrorKind::InvalidInput.into()),
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &str, pattern: Option<&str>) -> io::Result<Vec<String>> {
        let found = walk(folder, pattern)?;
        Ok(found.into_iter().map(|f| String::from_utf8(f.name).unwrap()).collect())
    }

    #[test]
    fn patterns_select_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a.csv",
            "b.csv",
            "_SUCCESS",
            ".hidden",
            "c.csv.tmp",
            "d.csv._COPYING_",
            "x/a.csv",
            "x/y/b.csv",
            "_temporary/a.csv",
            "_k=1/a.csv",
            "odd\n'\"=.csv",
            "x/[.csv",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "id\n").unwrap();
        }
        let root = folder.path().to_str().unwrap();
        let all =
            ["_k=1/a.csv", "a.csv", "b.csv", "odd\n'\"=.csv", "x/[.csv", "x/a.csv", "x/y/b.csv"];
        for (pattern, selected) in [
            (None, &all[..]),
            (Some("**"), &all),
            (Some("*"), &all),
            (Some("*.csv"), &all[1..4]),
            (Some("[ab].csv"), &all[1..3]),
            (Some("?.csv"), &all[1..3]),
            (Some("x/*.csv"), &all[4..6]),
            (Some("x"), &all[4..]),
            (Some("**/b.csv"), &["b.csv", "x/y/b.csv"]),
            (Some("**/y/**"), &all[6..]),
            (Some("x/[[].csv"), &all[4..5]),
            (Some("./x//a.csv"), &all[5..6]),
            (Some("none*"), &[]),
        ] {
            assert_eq!(names(root, pattern).unwrap(), selected, "{pattern:?}");
            let of_names = Selected::new(pattern).unwrap();
            let is_selected = |name: &&&str| of_names.selects(name);
            let found: Vec<_> =
                all.iter().chain(&["_SUCCESS", "_temporary/a.csv"]).filter(is_selected).collect();
            assert_eq!(found, selected.iter().collect::<Vec<_>>(), "{pattern:?}");
        }
        for pattern in ["[", "a**"] {
            assert!(names(root, Some(pattern)).is_err() && !is_pattern(pattern), "{pattern}");
        }
        assert!(!is_pattern("x/../*"));
        assert!(names(&format!("{root}/a.csv"), None).is_err());
        assert!(names(&format!("{root}/nothing"), None).is_err());
    }

    /// A link may lead to other people's rows, and a pipe has no rows.
    #[test]
    fn links_and_pipes_are_no_files() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.csv"), "id\n1\n").unwrap();
        for make in [
            |folder: &str, outside: &str| {
                symlink(format!("{outside}/secret.csv"), format!("{folder}/l"))
            },
            |folder: &str, outside: &str| symlink(outside, format!("{folder}/l")),
            |folder: &str, _: &str| symlink("nothing", format!("{folder}/l")),
            |folder: &str, _: &str| symlink("a.csv", format!("{folder}/l")),
            |folder: &str, _: &str| {
                Ok(nix::unistd::mkfifo(format!("{folder}/l").as_str(), Mode::S_IRUSR)?)
            },
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().to_str().unwrap();
            fs::write(folder.path().join("a.csv"), "id\n").unwrap();
            make(root, outside.path().to_str().unwrap()).unwrap();
            assert!(names(root, None).is_err());
            assert_eq!(names(root, Some("a*")).unwrap(), ["a.csv"]);
        }
    }
}
