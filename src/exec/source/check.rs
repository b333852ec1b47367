//! Checks whether a file is still the declared one.
//!
//! In: the files that a statement names, each opened once. Out: a refusal, before anything is charged, if a file
//! differs from the declared one; and after its rows were read, whether the file stayed the same.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;

use super::held::{Held, HeldFiles, STORE, Stamp};
use super::lenient::{Shape, read_cells};
use super::{hashes_content, plain_columns, same_columns, shape};
use crate::catalog::{FileFormat, Fingerprint, Source, Table, Unit};
use crate::error::Error;
use crate::exec::operator::look_up::Pinned;
use crate::refusal::{Reason, Refusal};

/// The files of one statement. Each file is opened at its first use, checked and read through the same handle, and
/// closed with the statement.
pub(crate) struct OpenFiles {
    store: Arc<HeldFiles>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    files: BTreeMap<String, Arc<Held>>,
    /// The files on which verified constraints depend.
    verified: Vec<Verified>,
}

/// A file, and its properties at the time when constraints were verified on it.
#[derive(Clone, PartialEq)]
struct Verified {
    location: String,
    fingerprint: Fingerprint,
    hashes: bool,
}

/// Paths must not appear in plans and messages.
impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFiles").finish_non_exhaustive()
    }
}

/// Registers held files with DataFusion.
///
/// # Errors
/// DataFusion's, for a name that is not a URL; this never happens.
pub(crate) fn register(
    store: &Arc<HeldFiles>,
    runtime: &RuntimeEnv,
) -> Result<(), DataFusionError> {
    let url = ObjectStoreUrl::parse(STORE)?;
    runtime.register_object_store(url.as_ref(), Arc::clone(store) as _);
    Ok(())
}

impl OpenFiles {
    /// An empty set of files.
    pub(crate) fn new(store: &Arc<HeldFiles>) -> Self {
        Self { store: Arc::clone(store), open: Mutex::default() }
    }

    /// The file at a path; opened now, unless it is already open.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn held(&self, location: &str) -> io::Result<Arc<Held>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = open.files.get(location) {
            return Ok(Arc::clone(held));
        }
        let held = self.store.open(location)?;
        open.files.insert(location.to_owned(), Arc::clone(&held));
        Ok(held)
    }

    /// The fingerprint of a file, which must not have changed since it was opened.
    ///
    /// # Errors
    /// [`Error::Catalog`] when the file cannot be read, or was changed since it was opened.
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

    /// Checks that the file of a table is still the declared one; costs nothing. The checked file is the one that is read.
    ///
    /// # Guarantee
    /// If a file has no verified constraints, only its header or footer is read, never a row. A refusal is free, so a
    /// refusal that a person's row can cause would reveal that row for nothing. If constraints were verified, the bytes
    /// are those that they were verified on. The properties from the file system decide that; if they differ, or the
    /// owner wants it so, the SHA-256 of the bytes decides.
    ///
    /// # Errors
    /// A refusal if the file is missing, was changed since its constraints were verified, or has other columns.
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
            io::ErrorKind::InvalidInput => unread("is not a file"),
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
        let shape = shape(*format, options)?;
        let named = match (format, shape) {
            (FileFormat::Csv, Shape::Csv { header: true, delimiter, .. }) => {
                let header =
                    header_of(&held, shape, delimiter).map_err(|_| unread("cannot be read"))?;
                header.iter().eq(table.columns.iter().map(|column| column.name.as_bytes()))
            }
            // Any line may belong to a person, so only the declaration describes these files.
            (FileFormat::Csv | FileFormat::Json, _) => true,
            (FileFormat::Parquet | FileFormat::Arrow, shape) => {
                let now = plain_columns(&held, *format, &shape, &table.name)
                    .map_err(|_| remade("is no longer of its format"))?;
                same_columns(&now, table)
            }
        };
        if named { Ok(()) } else { Err(remade("has other columns than were declared")) }
    }

    /// The file of a table, if the file system says that it is the one that was verified, and would say so if it were written
    /// to from now on: a file that was changed just now could be changed again at the same moment of a coarse clock.
    pub(super) fn pinned(&self, table: &Table) -> Option<Pinned> {
        let Source::File { format, location, options, fingerprint: Some(fingerprint) } =
            &table.source
        else {
            return None;
        };
        let held = self.held(location).ok()?;
        let stamp = held.stamp();
        let is_pinned =
            !hashes_content(options) && is_same(fingerprint, stamp) && stamp.is_settled();
        let read = format!("{stamp:?} {format} {options:?}");
        is_pinned.then(|| Pinned::new(read, stamp.size, held))
    }

    fn rely_on(&self, verified: Verified) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.verified.contains(&verified) {
            open.verified.push(verified);
        }
    }

    /// Whether everything that was verified holds for the rows that were read. The caller asks after reading them and
    /// before answering.
    ///
    /// # Guarantee
    /// If true, no verified file was written to between its check and now, according to the file system; or it was, and
    /// its bytes are still those that were verified. The result depends on files alone, never on a row.
    pub(crate) fn is_unchanged(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.verified.iter().all(|Verified { location, fingerprint, hashes }| {
            let Some(held) = open.files.get(location) else { return false };
            (held.is_untouched() && !hashes)
                || held.sha256_now().is_ok_and(|hash| hash == fingerprint.sha256)
        })
    }
}

/// Whether a file has this fingerprint, according to the file system. A fingerprint of an older vault lacks the
/// properties that reveal a reset size and time; then only the hash decides.
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

/// The cells of the first line of a CSV file.
fn header_of(held: &Arc<Held>, shape: Shape, delimiter: u8) -> io::Result<csv::ByteRecord> {
    let mut record = csv::ByteRecord::new();
    if let Some(line) = shape.lines(held.reader())?.next()? {
        read_cells(line, delimiter, &mut record);
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checked file and the file that is read are one open file, even if another file replaces it at its path.
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

    /// Size and time of modification can be reset, so a vault that stores only these stores too little.
    #[test]
    fn properties_that_can_be_reset_are_not_enough() {
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
