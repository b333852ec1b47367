//! Whether a file is still the one that was declared.
//!
//! In: the files that a statement names, each opened once. Out: a refusal before anything is charged where a file is
//! another one than was declared, and, once its rows were read, the word that it was the same all the time.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;

use super::held::{Held, HeldFiles, STORE, Stamp};
use super::lenient::{Lines, Shape, read_cells};
use super::{hashes_content, plain_columns, same_columns, shape};
use crate::catalog::{FileFormat, Fingerprint, Source, Table, Unit};
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

/// The files of one statement: each is opened when it is first asked for, checked and read through that one handle, and
/// let go with the statement.
pub(crate) struct OpenFiles {
    store: Arc<HeldFiles>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    files: BTreeMap<String, Arc<Held>>,
    /// What claims rest on.
    verified: Vec<Verified>,
}

/// A file, and what it was when something was verified on it.
#[derive(Clone, PartialEq)]
struct Verified {
    location: String,
    fingerprint: Fingerprint,
    hashes: bool,
}

/// Paths stay out of plans and messages.
impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFiles").finish_non_exhaustive()
    }
}

/// Lets DataFusion find held files.
///
/// # Errors
/// DataFusion's, for a name that is no URL: never.
pub(crate) fn register(
    store: &Arc<HeldFiles>,
    runtime: &RuntimeEnv,
) -> Result<(), DataFusionError> {
    let url = ObjectStoreUrl::parse(STORE)?;
    runtime.register_object_store(url.as_ref(), Arc::clone(store) as _);
    Ok(())
}

impl OpenFiles {
    /// No file yet.
    pub(crate) fn new(store: &Arc<HeldFiles>) -> Self {
        Self { store: Arc::clone(store), open: Mutex::default() }
    }

    /// The file at a path, opened now or before.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn held(&self, location: &str) -> io::Result<Arc<Held>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = open.files.get(location) {
            return Ok(Arc::clone(held));
        }
        let held = self.store.open(location)?;
        open.files.insert(location.to_owned(), Arc::clone(&held));
        Ok(held)
    }

    /// What a file looks like, all through what was read of it so far.
    ///
    /// # Errors
    /// [`Error::Catalog`] when it cannot be read, or was changed since it was opened.
    pub(crate) fn fingerprint(&self, location: &str) -> Result<Fingerprint, Error> {
        let failed = |e| Error::catalog_from(format!("`{location}` cannot be read"), e);
        let held = self.held(location).map_err(failed)?;
        let sha256 = held.sha256().map_err(failed)?.to_owned();
        if !held.is_untouched() {
            return Err(Error::catalog(format!("`{location}` was changed while it was verified")));
        }
        let Stamp { device, inode, size, modified_nanos, changed_nanos } = held.stamp();
        let (device, changed_nanos) = (Some(device), Some(changed_nanos));
        Ok(Fingerprint { device, inode, size, modified_nanos, changed_nanos, sha256 })
    }

    /// Whether the file of a table is still the declared one; costs nothing. What is checked is what is read.
    ///
    /// # Guarantee
    /// Of a file without verified constraints, nothing is looked at but its header or footer, never a row: a
    /// refusal is free, and one that a person's row can cause would tell of that row for nothing. Where constraints
    /// were verified, the bytes are those that they were verified on: by what the file system says of the file, and
    /// where that differs, or the owner wants it so, by their SHA-256.
    ///
    /// # Errors
    /// A refusal when it is missing, was changed since its constraints were verified, or has other columns.
    pub(crate) fn check(&self, table: &Table) -> Result<(), Error> {
        let Source::File { format, location, options, fingerprint } = &table.source else {
            return Ok(());
        };
        let unread =
            |what| changed(table, what, "the owner puts the file back where it was".to_owned());
        let remade = |what| {
            let write = format!(
                "the owner puts a file with the columns of {} in its place, or declares it under a new name",
                table.name
            );
            changed(table, what, write)
        };
        let held = self.held(location).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidInput => unread("is no file"),
            _ => unread("cannot be read"),
        })?;
        if let Some(fingerprint) = fingerprint {
            let hashes = hashes_content(options);
            let same = if hashes || !is_same(fingerprint, held.stamp()) {
                held.sha256().map_err(|_| unread("cannot be read"))? == fingerprint.sha256
            } else {
                true
            };
            if !same {
                let unit = table.unit().map_or(String::new(), Unit::declaration);
                let write = format!(
                    "the owner verifies it again: ALTER TABLE {} SET PRIVACY UNIT {unit}",
                    table.name
                );
                let what = "was changed since MAX ROWS or UNIQUE was verified on it";
                return Err(changed(table, what, write));
            }
            let (location, fingerprint) = (location.clone(), fingerprint.clone());
            self.rely_on(Verified { location, fingerprint, hashes });
        }
        let named = match (format, shape(*format, options)?) {
            (FileFormat::Csv, Shape::Csv { header: true, delimiter }) => {
                let header = header_of(&held, delimiter).map_err(|_| unread("cannot be read"))?;
                header.iter().eq(table.columns.iter().map(|column| column.name.as_bytes()))
            }
            // Any line may be somebody's: nothing but the declaration says what is in these files.
            (FileFormat::Csv | FileFormat::Json, _) => true,
            (FileFormat::Parquet | FileFormat::Arrow, shape) => {
                let now = plain_columns(&held, *format, &shape, &table.name)
                    .map_err(|_| remade("is no longer of its format"))?;
                same_columns(&now, table)
            }
        };
        if named { Ok(()) } else { Err(remade("has other columns than were declared")) }
    }

    fn rely_on(&self, verified: Verified) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.verified.contains(&verified) {
            open.verified.push(verified);
        }
    }

    /// Whether everything that was verified is true of the rows that were read: asked when they were, and before
    /// anything is answered.
    ///
    /// # Guarantee
    /// When true, nobody wrote into a file that claims rest on between its check and now, as far as the file system
    /// knows; where it says that something happened, the bytes are still those that were verified. What comes out
    /// depends on files alone, never on a row.
    pub(crate) fn is_unchanged(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.verified.iter().all(|Verified { location, fingerprint, hashes }| {
            let Some(held) = open.files.get(location) else { return false };
            (held.is_untouched() && !hashes)
                || held.sha256_now().is_ok_and(|hash| hash == fingerprint.sha256)
        })
    }
}

/// Whether a file is the one of a fingerprint, by what the file system says. A fingerprint of an older vault lacks what
/// shows that somebody put back size and time; then only the hash tells.
fn is_same(verified: &Fingerprint, stamp: Stamp) -> bool {
    verified.device == Some(stamp.device)
        && verified.inode == stamp.inode
        && verified.size == stamp.size
        && verified.modified_nanos == stamp.modified_nanos
        && verified.changed_nanos == Some(stamp.changed_nanos)
}

fn changed(table: &Table, what: &str, write: String) -> Error {
    let message = format!("the file of {} {what}", table.name);
    Refusal::new(Reason::ChangedFile, &table.name, message, write).into()
}

/// The first line of a CSV file, taken apart.
fn header_of(held: &Arc<Held>, delimiter: u8) -> io::Result<csv::ByteRecord> {
    let mut record = csv::ByteRecord::new();
    if let Some(line) = Lines::new(held.reader()).next()? {
        read_cells(line, delimiter, &mut record);
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is checked and what is read are one open file, whatever stands at its path in between.
    #[test]
    fn a_file_is_opened_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("t.csv"), folder.path().join("other.csv"));
        std::fs::write(&path, "id\n1\n").unwrap();
        std::fs::write(&other, "id\n2\n").unwrap();
        let files = OpenFiles::new(&Arc::default());
        let location = path.to_str().unwrap();
        let checked = files.held(location).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(Arc::ptr_eq(&checked, &files.held(location).unwrap()));
    }

    /// Size and time of modification can be put back; a vault that notes no more than these notes too little.
    #[test]
    fn what_can_be_put_back_is_not_enough() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, modified_nanos: 4, changed_nanos: 5 };
        let fingerprint = |device, changed_nanos| Fingerprint {
            size: 3,
            modified_nanos: 4,
            changed_nanos,
            device,
            inode: 2,
            sha256: String::new(),
        };
        assert!(is_same(&fingerprint(Some(1), Some(5)), stamp));
        for (device, changed) in
            [(None, None), (Some(1), None), (None, Some(5)), (Some(1), Some(6))]
        {
            assert!(!is_same(&fingerprint(device, changed), stamp), "{device:?}, {changed:?}");
        }
    }
}
