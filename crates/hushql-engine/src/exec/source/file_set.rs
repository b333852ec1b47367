//! The files of a table that has several: opened together, and identified together.
//!
//! In: a folder and a selection below it. Out: a [`FileSet`], whose files stay open, with the
//! values that the names of their folders give to columns. Names are as private as rows, so no text
//! that leaves this file contains one. A hash over the sorted list of names, sizes and versions
//! identifies a set.
//!
//! ```text
//! year=2025/who=Ann%20Lee/a.parquet, partitioned by year and who   →   the values 2025 and Ann Lee, for all of its rows
//! year=__HIVE_DEFAULT_PARTITION__/b.parquet                        →   NULL and NULL
//! ```

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use sha2::{Digest, Sha256};

use super::delta::{LogColumn, TableVersion};
use super::file_discovery::{FoundFile, Selected, walk};
use super::file_stamp::Stamp;
use super::location::{StoreLocation, percent_decoded};
use super::managed_files::TableFormat;
use super::open_files::{HeldFiles, OpenFile};
use super::remote::{FoundObject, list};
use super::version_columns::lay_out;
use crate::catalog::{Files, Fingerprint, LakeVersion};

/// The most files that may have been added since an earlier declaration, for it to be recognised.
const MOST_NEW: usize = 400;

/// Hive's name for the folder of NULL.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// One file of a set.
pub(super) struct Member {
    name: Vec<u8>,
    pub(super) held: Arc<OpenFile>,
    /// The values of the columns that the names of folders give, in the order of the columns.
    pub(super) values: Vec<Option<String>>,
    /// The table in one of its folders, if metadata there say which files hold rows.
    managed_by: Option<TableFormat>,
}

impl Member {
    /// The name of the file below the folder; only the owner may see it.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Whether the name of the file has this ending, in upper or lower case.
    pub(super) fn ends_with(&self, end: &str) -> bool {
        self.name.to_ascii_lowercase().ends_with(end.as_bytes())
    }

    /// The keys in the names of its folders.
    pub(super) fn keys(&self) -> Vec<String> {
        pairs(&self.name).into_iter().map(|(key, _)| key).collect()
    }
}

/// The open files of a table, by name.
pub(super) struct FileSet {
    pub(super) members: Vec<Member>,
    /// The names that the table's columns have in the files; `None` if they are the table's own.
    names: Option<Vec<String>>,
    /// Whether a log says which files these are.
    is_of_log: bool,
}

/// Names must not appear in plans and messages.
impl fmt::Debug for FileSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set").finish_non_exhaustive()
    }
}

impl FileSet {
    /// Opens the selected files below a folder.
    ///
    /// # Errors
    /// As [`walk`], and as [`TableVersion::read`].
    pub(super) fn open(store: &HeldFiles, folder: &str, files: &Files) -> io::Result<Self> {
        if let Some(version) = &files.version {
            let read = TableVersion::read(folder, Some(version.number))?;
            return Self::of_version(store, folder, &read, (files, version));
        }
        let member = |name: Vec<u8>, held: Arc<OpenFile>, managed_by| {
            let values = values(&name, &files.partitioned_by);
            held.keys.get_or_init(|| files.partitioned_by.clone());
            Member { name, held, values, managed_by }
        };
        let pattern = files.pattern.as_deref();
        let mut members = Vec::new();
        if StoreLocation::new(folder).is_some() {
            for found in list(folder, &Selected::new(pattern)?)? {
                let FoundObject { name, object, managed_by } = found;
                members.push(member(name, store.hold_object(object)?, managed_by));
            }
        } else {
            for FoundFile { name, file, managed_by } in walk(folder, pattern)? {
                let path = std::str::from_utf8(&name).ok().map(|name| format!("{folder}/{name}"));
                members.push(member(name, store.hold(file, path)?, managed_by));
            }
        }
        // An empty file has no rows, no columns and no header.
        members.retain(|member| member.held.stamp().size > 0);
        Ok(Self { members, names: None, is_of_log: false })
    }

    /// Opens the files of a version of a table of Delta Lake. The log, not the names of the files,
    /// says which values the last columns have.
    ///
    /// # Errors
    /// A sentence for the owner about a file or a column that is not as the log describes it; the
    /// system's error for a file that cannot be opened.
    pub(super) fn of_version(
        store: &HeldFiles,
        folder: &str,
        read: &TableVersion,
        (files, version): (&Files, &LakeVersion),
    ) -> io::Result<Self> {
        let column = |name: &String| {
            read.column(name).ok_or_else(|| {
                let gone = format!("version {} has no column `{name}`", read.number);
                io::Error::new(io::ErrorKind::InvalidInput, gone)
            })
        };
        let own = version.columns.iter().map(column).collect::<io::Result<Vec<_>>>()?;
        let last = files.partitioned_by.iter().map(column).collect::<io::Result<Vec<_>>>()?;
        let mut members = Vec::new();
        for (name, file) in &read.files {
            let held = store.hold(read.open(name, file)?, Some(format!("{folder}/{name}")))?;
            lay_out(&held, &own, file.deleted.clone(), &format!("`{name}`")).map_err(|error| {
                match held.is_readable() && held.is_untouched() {
                    true => io::Error::new(io::ErrorKind::InvalidInput, error.message()),
                    false => io::Error::other("a file changed while it was read"),
                }
            })?;
            let value = |column: &&LogColumn| file.values.get(&column.physical).cloned().flatten();
            members.push(Member {
                name: name.clone().into_bytes(),
                held,
                values: last.iter().map(value).collect(),
                managed_by: None,
            });
        }
        let names: Vec<String> = own.iter().map(|column| column.physical.clone()).collect();
        Ok(Self { members, names: (names != version.columns).then_some(names), is_of_log: true })
    }

    /// The columns of the table under the names that they have in the files.
    pub(super) fn named_as_in_files(&self, columns: SchemaRef) -> SchemaRef {
        let Some(names) = &self.names else { return columns };
        let names = names.iter().map(Some).chain(std::iter::repeat(None));
        let fields = columns.fields().iter().zip(names).map(|(field, name)| match name {
            Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
            None => Arc::clone(field),
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The table of another format to which a file belongs: its metadata say which files hold rows.
    pub(super) fn managed_by(&self) -> Option<TableFormat> {
        self.members.iter().find_map(|member| member.managed_by)
    }

    /// What identifies the set: the list of its files, and the hash of their bytes.
    pub(super) fn fingerprint(&self) -> io::Result<Fingerprint> {
        Ok(Fingerprint {
            size: 0,
            modified_nanos: 0,
            changed_nanos: None,
            device: None,
            inode: 0,
            sha256: self.content(|held| held.sha256().map(str::to_owned))?,
            files: Some(self.list()),
            over_lines: false,
        })
    }

    /// Whether the list of the files equals that of a fingerprint, according to the file system.
    pub(super) fn has_list_of(&self, fingerprint: &Fingerprint) -> bool {
        fingerprint.files.as_ref() == Some(&self.list())
    }

    /// The hash of the names and bytes of the files.
    pub(super) fn sha256(&self) -> io::Result<String> {
        self.content(|held| held.sha256().map(str::to_owned))
    }

    /// The same hash, over the present bytes.
    pub(super) fn sha256_now(&self) -> io::Result<String> {
        self.content(OpenFile::sha256_now)
    }

    /// The files, open.
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<OpenFile>> {
        self.members.iter().map(|member| &member.held)
    }

    /// Whether no file changed since it was opened.
    pub(super) fn is_untouched(&self) -> bool {
        self.members.iter().all(|member| member.held.is_untouched())
    }

    fn list(&self) -> String {
        let mut hash = Sha256::new();
        for Member { name, held, .. } in &self.members {
            let Stamp { device, inode, size, modified_nanos, changed_nanos } = held.stamp();
            named(&mut hash, name);
            for number in [device, inode, size] {
                hash.update(number.to_le_bytes());
            }
            for time in [modified_nanos, changed_nanos] {
                hash.update(time.to_le_bytes());
            }
            named(&mut hash, held.version().as_bytes());
        }
        self.add_log(&mut hash);
        hexadecimal(&hash.finalize())
    }

    fn content(&self, of: impl Fn(&Arc<OpenFile>) -> io::Result<String>) -> io::Result<String> {
        let mut hash = Sha256::new();
        for Member { name, held, .. } in &self.members {
            named(&mut hash, name);
            hash.update(of(held)?);
        }
        self.add_log(&mut hash);
        Ok(hexadecimal(&hash.finalize()))
    }

    /// Whether these files hold all of an earlier set, whose names and bytes have this hash. The
    /// newest files, or the last ones by name, are left out until the others have it.
    ///
    /// # Guarantee
    /// True only if each file of the earlier set is among these, under its name and with its bytes,
    /// except for a collision of SHA-256. Never for the version of a log.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn holds_earlier(&self, sha256: &str) -> io::Result<bool> {
        if self.is_of_log {
            return Ok(false);
        }
        let bytes = self.members.iter().map(|member| member.held.sha256().map(str::to_owned));
        let bytes: Vec<String> = bytes.collect::<io::Result<_>>()?;
        let all: Vec<(usize, &Member)> = self.members.iter().enumerate().collect();
        let mut by_age = all.clone();
        by_age.sort_by_key(|(_, member)| {
            let Stamp { modified_nanos, changed_nanos, .. } = member.held.stamp();
            (changed_nanos, modified_nanos)
        });
        let has_hash = |order: &[(usize, &Member)], new: usize| {
            let earlier = order.iter().take(order.len().saturating_sub(new)).map(|(i, _)| *i);
            let earlier: BTreeSet<usize> = earlier.collect();
            let mut hash = Sha256::new();
            for ((i, member), bytes) in all.iter().zip(&bytes) {
                if earlier.contains(i) {
                    named(&mut hash, &member.name);
                    hash.update(bytes);
                }
            }
            !earlier.is_empty() && hexadecimal(&hash.finalize()) == sha256
        };
        let mut orders = [&by_age, &all].into_iter();
        Ok(orders.any(|order| (0..=MOST_NEW).any(|new| has_hash(order, new))))
    }

    /// Adds to a hash what a log says of the files: the names of columns, the values of partitions,
    /// and the deleted rows. The names of files found in a folder say all of it.
    fn add_log(&self, hash: &mut Sha256) {
        if !self.is_of_log {
            return;
        }
        for name in self.names.iter().flatten() {
            named(hash, name.as_bytes());
        }
        for Member { values, held, .. } in &self.members {
            for value in values {
                hash.update([u8::from(value.is_some())]);
                named(hash, value.as_deref().unwrap_or_default().as_bytes());
            }
            let deleted = held.layout.get().map_or(&[][..], |layout| layout.deleted.as_slice());
            hash.update(deleted.len().to_le_bytes());
            for row in deleted {
                hash.update(row.to_le_bytes());
            }
        }
    }
}

/// Adds the length of a name and the name to a hash, so that different lists of names give
/// different texts.
fn named(hash: &mut Sha256, name: &[u8]) {
    hash.update(name.len().to_le_bytes());
    hash.update(name);
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The values that the names of folders give to columns. A missing folder, or a folder whose name
/// is not text, gives NULL, so that no person's folder can make a query fail.
fn values(name: &[u8], columns: &[String]) -> Vec<Option<String>> {
    let pairs = pairs(name);
    let value = |column: &String| {
        let (_, value) = pairs.iter().find(|(key, _)| key == column)?;
        value.clone().filter(|value| !value.is_empty() && value != NULL)
    };
    columns.iter().map(value).collect()
}

/// The keys and values in the names of the folders above a file.
fn pairs(name: &[u8]) -> Vec<(String, Option<String>)> {
    let mut parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
    parts.pop();
    let pair = |part: &[u8]| {
        let at = part.iter().position(|byte| *byte == b'=')?;
        let (key, value) = part.split_at_checked(at)?;
        Some((percent_decoded(key)?, percent_decoded(value.get(1..)?)))
    };
    parts.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_give_values() {
        let columns = ["year", "who"].map(str::to_owned);
        for (name, expected) in [
            ("year=2025/who=Ann%20Lee/a", [Some("2025"), Some("Ann Lee")]),
            ("who=a=b/x/year=1/a", [Some("1"), Some("a=b")]),
            ("year=__HIVE_DEFAULT_PARTITION__/who=/a", [None, None]),
            ("Year=2025/whom=x/who=y", [None, None]),
            ("year=%zz%4/who=%27%0a\"/a", [Some("%zz%4"), Some("'\n\"")]),
            ("year=%ff/a", [None, None]),
            ("a", [None, None]),
        ] {
            let values = values(name.as_bytes(), &columns);
            assert_eq!(values, expected.map(|value| value.map(str::to_owned)), "{name}");
        }
        assert_eq!(values(b"year=\xff/who=x/a", &columns), [None, Some("x".to_owned())]);
    }

    #[test]
    fn every_change_is_another_list() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("k=1/a", "id\n1\n");
        write("b", "id\n2\n");
        let files = Files { pattern: None, partitioned_by: Vec::new(), version: None };
        let open = || {
            FileSet::open(&HeldFiles::default(), folder.path().to_str().unwrap(), &files).unwrap()
        };
        let before = open();
        let fingerprint = before.fingerprint().unwrap();
        assert!(open().has_list_of(&fingerprint));
        let same = |set: &FileSet| {
            (set.has_list_of(&fingerprint), set.sha256().unwrap() == fingerprint.sha256)
        };
        write("c", "id\n3\n");
        assert_eq!(same(&open()), (false, false), "added");
        fs::remove_file(folder.path().join("c")).unwrap();
        assert_eq!(same(&open()), (true, true));
        fs::rename(folder.path().join("k=1"), folder.path().join("k=2")).unwrap();
        assert_eq!(same(&open()), (false, false), "renamed");
        fs::rename(folder.path().join("k=2"), folder.path().join("k=1")).unwrap();
        assert!(before.is_untouched());
        write("b", "id\n2\n");
        assert_eq!(same(&open()), (false, true), "written again");
        assert!(!before.is_untouched() && before.sha256_now().unwrap() == fingerprint.sha256);
        write("b", "");
        assert_eq!(same(&open()), (false, false), "emptied");
        assert!(!format!("{before:?}").contains("k="));
    }
}
