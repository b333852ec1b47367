//! The files of a log of Delta Lake: its commits and checkpoints.
//!
//! In: the names in the folder of a log. Out: the files from which a version is read: a checkpoint,
//! if there is one, and all commits behind it. Other files, such as `_last_checkpoint`, checksums
//! and compacted commits, repeat what these say and are not looked at.
//!
//! ```text
//! 00…10.checkpoint.parquet, 00…11.json, 00…12.json      version 12: the checkpoint of 10, and the commits 11 and 12
//! ```

use std::collections::BTreeMap;
use std::io;

use super::log_error::unreadable;

/// The folder of the log in the folder of a table.
pub(super) const LOG: &str = "_delta_log";

/// The names in a folder of a log, by version.
#[derive(Debug, Default)]
pub(super) struct LogFiles {
    commits: BTreeMap<u64, String>,
    checkpoints: BTreeMap<u64, Vec<Vec<String>>>,
}

/// The files from which a version is read, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VersionFiles {
    /// The files of one checkpoint; none if the commits begin with version 0.
    pub(super) checkpoint: Vec<String>,
    pub(super) commits: Vec<String>,
}

/// What a name in the folder of a log stands for.
#[derive(Debug, PartialEq, Eq)]
enum LogFile {
    Commit,
    Checkpoint,
    /// A part of a checkpoint: its number, and how many there are.
    Part(u64, u64),
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// The version and the kind of a file of a log; `None` for one that is not looked at.
fn of_name(name: &str) -> Option<(u64, LogFile)> {
    let parts: Vec<&str> = name.split('.').collect();
    let version = number(parts.first()?, 20)?;
    let kind = match parts.get(1..)? {
        ["json"] => LogFile::Commit,
        ["checkpoint", "parquet"] => LogFile::Checkpoint,
        ["checkpoint", part, of, "parquet"] => LogFile::Part(number(part, 10)?, number(of, 10)?),
        // The middle is a UUID.
        ["checkpoint", id, "json" | "parquet"] if id.len() == 36 => LogFile::Checkpoint,
        _ => return None,
    };
    Some((version, kind))
}

impl LogFiles {
    pub(super) fn of_names(names: Vec<String>) -> Self {
        let mut found = Self::default();
        let mut parts: BTreeMap<(u64, u64), BTreeMap<u64, String>> = BTreeMap::new();
        for name in names {
            match of_name(&name) {
                None => {}
                Some((version, LogFile::Commit)) => drop(found.commits.insert(version, name)),
                Some((version, LogFile::Checkpoint)) => {
                    found.checkpoints.entry(version).or_default().push(vec![name]);
                }
                Some((version, LogFile::Part(part, of))) => {
                    parts.entry((version, of)).or_default().insert(part, name);
                }
            }
        }
        for ((version, of), parts) in parts {
            // A checkpoint that lacks a part is still being written.
            if parts.keys().copied().eq(1..=of) {
                let names = parts.into_values().collect();
                found.checkpoints.entry(version).or_default().push(names);
            }
        }
        found
    }

    /// The newest version.
    pub(super) fn newest(&self) -> Option<u64> {
        let commit = self.commits.last_key_value().map(|(version, _)| *version);
        commit.max(self.checkpoints.last_key_value().map(|(version, _)| *version))
    }

    /// The ways to read a version, the shortest first. All of them give the same rows.
    ///
    /// # Errors
    /// A sentence for the owner, if a commit is missing.
    pub(super) fn ways_to(&self, version: u64) -> io::Result<Vec<VersionFiles>> {
        let mut ways = Vec::new();
        let mut missing = None;
        let mut add = |from: Option<u64>, checkpoint: Vec<String>| {
            let first = from.map_or(Some(0), |from| from.checked_add(1)).unwrap_or(u64::MAX);
            let mut commits = Vec::new();
            for number in first..=version {
                match self.commits.get(&number) {
                    Some(name) => commits.push(name.clone()),
                    None => {
                        missing = missing.or(Some(number));
                        return;
                    }
                }
            }
            ways.push(VersionFiles { checkpoint, commits });
        };
        for (from, files) in self.checkpoints.range(..=version).rev() {
            for checkpoint in files {
                add(Some(*from), checkpoint.clone());
            }
        }
        add(None, Vec::new());
        match (ways.is_empty(), missing) {
            (true, Some(missing)) => Err(unreadable(format!(
                "version {missing} is missing from its log, so version {version} cannot be read"
            ))),
            _ => Ok(ways),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(version: u64) -> String {
        format!("{version:020}.json")
    }

    fn ways(names: &[String], version: u64) -> Vec<(usize, usize)> {
        let log = LogFiles::of_names(names.to_vec());
        let ways = log.ways_to(version).unwrap_or_default();
        ways.iter().map(|way| (way.checkpoint.len(), way.commits.len())).collect()
    }

    #[test]
    fn names_say_what_files_are() {
        let id = "01234567-89ab-cdef-0123-456789abcdef";
        for (rest, expected) in [
            ("json".to_owned(), Some(LogFile::Commit)),
            ("checkpoint.parquet".to_owned(), Some(LogFile::Checkpoint)),
            (format!("checkpoint.{id}.json"), Some(LogFile::Checkpoint)),
            (format!("checkpoint.{id}.parquet"), Some(LogFile::Checkpoint)),
            ("checkpoint.0000000002.0000000003.parquet".to_owned(), Some(LogFile::Part(2, 3))),
            ("crc".to_owned(), None),
            (format!("{:020}.compacted.json", 9), None),
            (format!("{id}.json"), None),
            ("json.tmp".to_owned(), None),
        ] {
            let expected = expected.map(|kind| (7, kind));
            assert_eq!(of_name(&format!("{:020}.{rest}", 7)), expected, "{rest}");
        }
        for name in ["_last_checkpoint", "7.json", "0000000000000000000x.json", "_sidecars"] {
            assert_eq!(of_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_version_is_read_from_a_checkpoint_or_from_the_beginning() {
        let mut names: Vec<String> = (0..5).map(commit).collect();
        assert_eq!(ways(&names, 4), [(0, 5)]);
        assert_eq!(ways(&names, 2), [(0, 3)]);
        names.push(format!("{:020}.checkpoint.parquet", 3));
        assert_eq!(ways(&names, 4), [(1, 1), (0, 5)]);
        assert_eq!(ways(&names, 2), [(0, 3)]);
        assert_eq!(LogFiles::of_names(names.clone()).newest(), Some(4));
        // Commits before a checkpoint may be gone.
        names.retain(|name| *name != commit(1));
        assert_eq!(ways(&names, 4), [(1, 1)]);
        assert!(ways(&names, 2).is_empty());
        // A checkpoint in parts counts when all of them are there.
        let part = |i: u64| format!("{:020}.checkpoint.{i:010}.{:010}.parquet", 4, 2);
        names.push(part(2));
        assert_eq!(ways(&names, 4), [(1, 1)]);
        names.push(part(1));
        assert_eq!(ways(&names, 4), [(2, 0), (1, 1)]);
        names.push(commit(7));
        let log = LogFiles::of_names(names);
        assert_eq!(log.newest(), Some(7));
        let refused = log.ways_to(7).unwrap_err().to_string();
        assert!(refused.contains("version 5 is missing"), "{refused}");
        assert_eq!(LogFiles::of_names(Vec::new()).newest(), None);
    }
}
