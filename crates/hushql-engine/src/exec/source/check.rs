//! Checks whether a file is still the declared one.
//!
//! In: the files that a statement names, each opened once. Out: a refusal before anything is
//! charged, if a file differs from the declared one; and after its rows were read, whether the file
//! stayed the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;

use super::changed_files::{
    CHANGED, DIFFER, Misfit, SET_CHANGED, changed, changed_files, declared_again, in_their_place,
    managed, other_version, remade, unread_file, unread_files, verified_again,
};
use super::drifted_files::{differing, other_in_file, undeclared, unverified_float};
use super::file_columns::{hashes_content, shape_of};
use super::file_set::FileSet;
use super::file_stamp::{Stamp, is_same};
use super::location::StoreLocation;
use super::managed_locations::is_unmanaged;
use super::open_files::{HeldFiles, OpenFile, STORE};
use super::postgres::Servers;
use super::remote::has_client;
use crate::catalog::{FileFormat, Files, Fingerprint, Source, Table};
use crate::error::Error;
use hushql_exec::pinned::Pinned;

/// The files of one statement. Each file is opened at its first use, checked and read through the
/// same handle, and closed with the statement.
pub(crate) struct OpenFiles {
    store: Arc<HeldFiles>,
    open: Mutex<Open>,
    servers: Servers,
}

#[derive(Default)]
struct Open {
    files: BTreeMap<String, Arc<OpenFile>>,
    /// The files that must keep their fingerprints.
    verified: Vec<VerifiedFile>,
    /// The files of tables that have several, by their selection.
    sets: BTreeMap<(String, Files), Arc<FileSet>>,
    /// The sets that must keep their hashes.
    verified_sets: Vec<VerifiedSet>,
    /// The private tables whose files do not fit their declaration.
    drifted: BTreeSet<String>,
}

/// A set, the hash of its names and bytes when constraints were verified on it, and whether the
/// hash alone decides.
struct VerifiedSet {
    set: Arc<FileSet>,
    sha256: String,
    hashes: bool,
}

/// A file, and its properties at the time when its table's privacy unit was declared.
#[derive(Clone, PartialEq)]
struct VerifiedFile {
    location: String,
    fingerprint: Fingerprint,
    hashes: bool,
}

/// How many bytes of a statement's files were read since a moment.
pub(crate) struct Reading(Vec<(Arc<OpenFile>, u64)>);

impl Reading {
    /// The percentage of the bytes that were read, at most 99, because there is work after the last
    /// byte; `None` if there are no bytes to read. A file that is read twice counts as read after
    /// the first time, and one of which only a part is read never counts as read.
    pub(crate) fn percent(&self) -> Option<u8> {
        let size = |held: &OpenFile| u128::from(held.stamp().size);
        let all: u128 = self.0.iter().map(|(held, _)| size(held)).sum();
        let read: u128 = self
            .0
            .iter()
            .map(|(held, before)| u128::from(held.read().saturating_sub(*before)).min(size(held)))
            .sum();
        let percent = (read * 100).checked_div(all)?;
        u8::try_from(percent.min(99)).ok()
    }
}

/// Paths must not appear in plans and messages.
impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFiles").finish_non_exhaustive()
    }
}

/// Registers the store of open files with DataFusion.
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
        Self { store: Arc::clone(store), open: Mutex::default(), servers: Servers::default() }
    }

    /// The file at a path. It is opened now unless it is already open.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn held(&self, location: &str) -> io::Result<Arc<OpenFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = open.files.get(location) {
            return Ok(Arc::clone(held));
        }
        let held = self.store.open(location)?;
        open.files.insert(location.to_owned(), Arc::clone(&held));
        Ok(held)
    }

    /// Counts the bytes that are read of these files from now on.
    ///
    /// # Guarantee
    /// None: it counts the bytes of private tables, too. The caller that shows the count decides
    /// who may see it.
    pub(crate) fn reading(&self) -> Reading {
        // The remaining bytes of a server are unknown.
        if self.servers.are_used() {
            return Reading(Vec::new());
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let files = open.files.values().chain(open.sets.values().flat_map(|set| set.held()));
        Reading(files.map(|held| (Arc::clone(held), held.read())).collect())
    }

    /// The files of a table that has several. They are listed and opened now unless they already
    /// are.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub(super) fn set(&self, location: &str, files: &Files) -> io::Result<Arc<FileSet>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let selected = (location.to_owned(), files.clone());
        if let Some(set) = open.sets.get(&selected) {
            return Ok(Arc::clone(set));
        }
        let set = Arc::new(FileSet::open(&self.store, location, files)?);
        open.sets.insert(selected, Arc::clone(&set));
        Ok(set)
    }

    /// The SHA-256 of the contents of a table's files; `None` if they cannot be read, or changed
    /// since they were opened. It is computed once for each state of a file.
    pub(crate) fn content(&self, source: &Source) -> Option<String> {
        let Source::File { location, files, .. } = source else { return None };
        if files.is_some() {
            return Some(self.fingerprint(source).ok()?.sha256);
        }
        let held = self.held(location).ok()?;
        let stamp = held.stamp();
        // An object has a version instead, and a file that changed just now may change again under
        // the same stamp.
        let is_known = held.version().is_empty() && stamp.is_settled();
        if let (true, true, Some(sha256)) =
            (is_known, held.is_untouched(), self.store.sha256_of(stamp))
        {
            return Some(sha256);
        }
        let sha256 = held.sha256().ok()?.to_owned();
        if !held.is_untouched() {
            return None;
        }
        if is_known {
            self.store.keep_sha256(stamp, &sha256);
        }
        Some(sha256)
    }

    /// Whether the single file of a table can be opened.
    pub(crate) fn is_readable(&self, source: &Source) -> bool {
        matches!(source, Source::File { location, files: None, .. } if self.held(location).is_ok())
    }

    /// The fingerprint of a table's files, which must not have changed since they were opened.
    ///
    /// # Errors
    /// [`Error::Catalog`] when a file cannot be read, or changed since it was opened.
    pub(crate) fn fingerprint(&self, source: &Source) -> Result<Fingerprint, Error> {
        let Source::File { location, files, .. } = source else { return Err(Error::Internal) };
        let failed = |e| Error::catalog_from(format!("`{location}` cannot be read"), e);
        if let Some(files) = files {
            let set = self.set(location, files).map_err(failed)?;
            let fingerprint = set.fingerprint().map_err(failed)?;
            return match set.is_untouched() {
                true => Ok(fingerprint),
                false => Err(Error::catalog(format!(
                    "the files of `{location}` were changed while they were verified"
                ))),
            };
        }
        let held = self.held(location).map_err(failed)?;
        let sha256 = held.sha256().map_err(failed)?.to_owned();
        if !held.is_untouched() {
            return Err(Error::catalog(format!("`{location}` was changed while it was verified")));
        }
        let Stamp { device, inode, size, modified_nanos, changed_nanos } = held.stamp();
        let (device, changed_nanos) = (Some(device), Some(changed_nanos));
        Ok(Fingerprint {
            device,
            inode,
            size,
            modified_nanos,
            changed_nanos,
            sha256,
            files: None,
            over_lines: false,
        })
    }

    /// Checks that the file of a table is still the declared one; costs nothing. The statement then
    /// reads the file that was checked.
    ///
    /// # Guarantee
    /// Without a fingerprint, only the header or footer of a file is read, never a row. A refusal
    /// is free, so a refusal that a person's row can cause would reveal that row at no cost. With a
    /// fingerprint, the bytes are those on which the privacy unit was declared, and a refusal
    /// reveals only that the file was changed, and nothing of either content. The properties from
    /// the file system decide; if they differ, or the owner wants it, the SHA-256 of the bytes
    /// decides. For a private table with several files, only the folder is looked for, which exists
    /// without files, too: the list of its files is as private as their rows, and
    /// [`OpenFiles::checked`] reads it after the charge.
    ///
    /// # Errors
    /// A refusal if the file is missing, changed since its privacy unit was declared, or has other
    /// columns.
    pub(crate) fn check(&self, table: &Table) -> Result<(), Error> {
        self.check_for(table, false)
    }

    /// Checks as [`OpenFiles::check`], for a statement of the owner or of an analyst. The owner
    /// learns which columns of a private file differ.
    ///
    /// # Errors
    /// As [`OpenFiles::check`].
    pub(crate) fn check_for(&self, table: &Table, is_owner: bool) -> Result<(), Error> {
        self.checked_one(table, is_owner || table.is_public())
    }

    /// Checks as [`OpenFiles::check`]. The refusal of a single file says which columns differ, if
    /// the reader may know. Where only its rows differ, there is no column to name.
    fn checked_one(&self, table: &Table, names_columns: bool) -> Result<(), Error> {
        let (format, location, files) = match &table.source {
            Source::File { format, location, files, .. } => (format, location, files),
            Source::Postgres { .. } => return self.servers.check(table),
            Source::Registered | Source::Released { .. } => return Ok(()),
        };
        if files.is_some() {
            if table.is_public() {
                return self.checked(table).map(drop);
            }
            return if is_there(location) { Ok(()) } else { Err(unread_files(table)) };
        }
        let unread = |what| unread_file(table, what);
        // The names of the folders above the file tell nothing about a row.
        is_unmanaged(table)?;
        let held = self.held(location).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidInput => unread("is not a file"),
            _ => unread("cannot be read"),
        })?;
        let is_same = self.has_its_fingerprint(table, &held)?;
        let is_changed = || changed(table, CHANGED, declared_again(table));
        if !is_same && !names_columns {
            return Err(is_changed());
        }
        match other_in_file(&held, *format, table)? {
            Some(other) if names_columns => {
                Err(remade(table, &format!("has other columns than were declared: {other}")))
            }
            Some(_) => Err(remade(table, "has other columns than were declared")),
            None if is_same => Ok(()),
            None => Err(is_changed()),
        }
    }

    /// Whether the single file of a table is the one on which its declaration relies, if it relies
    /// on one. The statement relies on it then, too.
    ///
    /// # Errors
    /// A refusal if the file cannot be read.
    fn has_its_fingerprint(&self, table: &Table, held: &Arc<OpenFile>) -> Result<bool, Error> {
        let Source::File { location, options, fingerprint: Some(fingerprint), .. } = &table.source
        else {
            return Ok(true);
        };
        let hashes = hashes_content(options);
        if hashes || !is_same(fingerprint, held.stamp()) {
            let sha256 = held.sha256().map_err(|_| unread_file(table, "cannot be read"))?;
            if sha256 != fingerprint.sha256 {
                return Ok(false);
            }
        }
        let (location, fingerprint) = (location.clone(), fingerprint.clone());
        self.rely_on(VerifiedFile { location, fingerprint, hashes });
        Ok(true)
    }

    /// Whether the single file of a private table that may change has fractions in a column that is
    /// declared as whole numbers, according to its footer.
    ///
    /// # Guarantee
    /// None: one person's value may have made floats of a column. The caller must fail behind a
    /// charge.
    pub(super) fn has_unverified_floats(&self, table: &Table, held: &OpenFile) -> bool {
        held.columns.get().is_some_and(|now| unverified_float(now, table).is_some())
    }

    /// The file of a table, if the file system shows that it is the verified one, and would show a
    /// later change. A file that changed just now could change again within the same tick of a
    /// coarse clock.
    pub(super) fn pinned(&self, table: &Table) -> Option<Pinned> {
        let Source::File { format, location, options, fingerprint: Some(fingerprint), files: None } =
            &table.source
        else {
            return None;
        };
        let held = self.held(location).ok()?;
        is_same(fingerprint, held.stamp()).then(|| read_as(table, *format, options, held))?
    }

    /// The file of a public table, if the file system shows that it did not change since it was
    /// opened, and would show a later change.
    pub(super) fn pinned_public(&self, table: &Table) -> Option<Pinned> {
        let Source::File { format, location, options, fingerprint: _, files: None } = &table.source
        else {
            return None;
        };
        let held = self.held(location).ok()?;
        let is_known = table.is_public() && held.is_untouched();
        is_known.then(|| read_as(table, *format, options, held))?
    }

    /// Checks that the files of a table are still the declared ones. Only its owner may see the
    /// result, which depends on the list of files.
    ///
    /// # Errors
    /// As [`OpenFiles::check`], and as [`OpenFiles::checked`].
    pub(crate) fn check_as_owner(&self, table: &Table) -> Result<(), Error> {
        match &table.source {
            Source::File { files: Some(_), .. } => {
                let set = self.unchanged(table)?;
                is_unmanaged(table)?;
                differing(&set, table)?.map_or(Ok(()), |misfit| Err(misfit.told(table)))
            }
            Source::File { files: None, .. }
            | Source::Postgres { .. }
            | Source::Registered
            | Source::Released { .. } => self.checked_one(table, true),
        }
    }

    /// Checks that each file of a table that has several has the declared columns. Only its owner
    /// may see which file has not. The caller is about to verify constraints on these files, so
    /// their fingerprint is not compared, except that of a version of a log.
    ///
    /// # Errors
    /// A refusal that names the first file that has other columns, or another format.
    pub(crate) fn fits_its_declaration(&self, table: &Table) -> Result<(), Error> {
        is_unmanaged(table)?;
        // The declaration verifies anew what an earlier one did.
        let table = &undeclared(table);
        match &table.source {
            // The declaration of a version holds its files.
            source if source.version().is_some() => self.check_as_owner(table),
            Source::File { location, files: Some(files), .. } => {
                let set = self.set(location, files).map_err(|_| unread_files(table))?;
                differing(&set, table)?.map_or(Ok(()), |misfit| Err(misfit.told(table)))
            }
            Source::File { files: None, .. } => self.checked_one(table, true),
            Source::Postgres { .. } | Source::Registered | Source::Released { .. } => Ok(()),
        }
    }

    /// The files of a table that has several, each with the declared columns.
    ///
    /// # Guarantee
    /// That of [`OpenFiles::check`] for the files together. For a private table, the caller must
    /// have a charge or be its owner.
    ///
    /// # Errors
    /// A refusal that names no file if one of them cannot be read or has other columns, or if the
    /// files differ from those that constraints were verified on. For a private table, it depends
    /// on its rows, and must not reach an analyst.
    pub(super) fn checked(&self, table: &Table) -> Result<Arc<FileSet>, Error> {
        let set = self.unchanged(table)?;
        match differing(&set, table)? {
            None => Ok(set),
            Some(misfit) => {
                self.found_unfit(table, &set);
                Err(match misfit {
                    Misfit::Columns { .. } => changed_files(table, DIFFER, in_their_place(table)),
                    Misfit::Managed(by) => managed(table, by),
                })
            }
        }
    }

    /// Remembers that the files of a private table do not fit its declaration, although they did
    /// not change since they were opened.
    fn found_unfit(&self, table: &Table, set: &FileSet) {
        if !table.is_public() && set.is_untouched() {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.drifted.insert(table.name.clone());
        }
    }

    /// Remembers that a private table has damaged files: they could be read and did not change, but
    /// their contents could not be decoded into rows.
    pub(crate) fn found_damaged(&self, table: &Table) {
        let Source::File { location, files, .. } = &table.source else { return };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_whole = |held: &Arc<OpenFile>| held.is_readable() && held.is_untouched();
        let are_whole = match files {
            Some(files) => open
                .sets
                .get(&(location.clone(), files.as_ref().clone()))
                .is_some_and(|set| set.held().all(is_whole)),
            None => open.files.get(location).is_some_and(is_whole),
        };
        if are_whole && !table.is_public() {
            open.drifted.insert(table.name.clone());
        }
    }

    /// The private tables whose files do not fit their declaration. These files were read
    /// completely and did not change meanwhile; they differ from the files that constraints were
    /// verified on, have other columns, or are damaged. Tables with a link, or with a file that may
    /// not be read, are listed, too. A file that could not be read for another reason does not
    /// count.
    ///
    /// # Guarantee
    /// None: it depends on the list of files. The caller must have a charge, and must have reported
    /// that its statement failed.
    pub(crate) fn drifted(&self) -> Vec<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drifted.iter().cloned().collect()
    }

    /// The files of a table that has several. If constraints were verified on its files, these must
    /// be the same files.
    ///
    /// # Errors
    /// As [`OpenFiles::checked`], except for files with other columns.
    fn unchanged(&self, table: &Table) -> Result<Arc<FileSet>, Error> {
        let Source::File { location, options, fingerprint, files: Some(files), .. } = &table.source
        else {
            return Err(Error::Internal);
        };
        let unread = || unread_files(table);
        let set = self.set(location, files).map_err(|error| {
            let is_here = StoreLocation::new(location).is_none();
            if is_here && lasts(&error) && !table.is_public() {
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.drifted.insert(table.name.clone());
            }
            unread()
        })?;
        if let Some(fingerprint) = fingerprint {
            let hashes = hashes_content(options);
            let is_same = match hashes || !set.has_list_of(fingerprint) {
                true => set.sha256().map_err(|_| unread())? == fingerprint.sha256,
                false => true,
            };
            if !is_same {
                self.found_unfit(table, &set);
                return Err(match &files.version {
                    Some(version) => other_version(table, version.number),
                    None => changed_files(table, SET_CHANGED, verified_again(table)),
                });
            }
            let (set, sha256) = (Arc::clone(&set), fingerprint.sha256.clone());
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.verified_sets.push(VerifiedSet { set, sha256, hashes });
        }
        Ok(set)
    }

    /// The rows of a server's table, with the columns of a schema.
    pub(super) fn served(&self, table: &Table, schema: &SchemaRef) -> SendableRecordBatchStream {
        self.servers.rows(table, schema)
    }

    fn rely_on(&self, verified: VerifiedFile) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.verified.contains(&verified) {
            open.verified.push(verified);
        }
    }

    /// Whether all verified files are unchanged. The caller asks after reading the rows and before
    /// answering.
    ///
    /// # Guarantee
    /// If true, according to the file system, nobody wrote to a verified file or to a file of a set
    /// between its check and now; or somebody did, and its bytes are still the verified ones. The
    /// result depends on files alone, never on a row.
    pub(crate) fn is_unchanged(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_verified = |set: &Arc<FileSet>| {
            let mut known = open.verified_sets.iter().filter(|known| Arc::ptr_eq(&known.set, set));
            let is_same = |known: &VerifiedSet| {
                (set.is_untouched() && !known.hashes)
                    || set.sha256_now().is_ok_and(|hash| hash == known.sha256)
            };
            match known.next() {
                None => set.is_untouched(),
                Some(first) => is_same(first) && known.all(is_same),
            }
        };
        if !open.sets.values().all(is_verified) {
            return false;
        }
        open.verified.iter().all(|VerifiedFile { location, fingerprint, hashes }| {
            let Some(held) = open.files.get(location) else { return false };
            (held.is_untouched() && !hashes)
                || held.sha256_now().is_ok_and(|hash| hash == fingerprint.sha256)
        })
    }
}

/// An open file, and a text that identifies how it is read as this table; `None` if its properties
/// would not show a change.
fn read_as(
    table: &Table,
    format: FileFormat,
    options: &BTreeMap<String, String>,
    held: Arc<OpenFile>,
) -> Option<Pinned> {
    let stamp = held.stamp();
    // An object has a version instead.
    let is_file = held.version().is_empty();
    let is_told = is_file && !hashes_content(options) && stamp.is_settled();
    // If a file does not name its columns, the position of a name among all columns decides what it
    // means.
    let columns: Vec<_> =
        table.columns.iter().map(|column| (&column.name, &column.data_type)).collect();
    let shape = shape_of(table).ok()?;
    let read = format!("{stamp:?} {format} {options:?} {columns:?} {shape:?}");
    is_told.then(|| Pinned::new(read, stamp.size, held))
}

/// Whether the folder exists, or the environment has the store's credentials. No file is opened.
fn is_there(location: &str) -> bool {
    match StoreLocation::new(location) {
        Some(place) => has_client(&place),
        None => std::fs::read_dir(location).is_ok(),
    }
}

/// Whether opening the files fails until somebody changes the folder: a link is among them, or a
/// file that may not be read. A missing file was removed just now.
fn lasts(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file that is checked and the file that is read are one open file, even if another file
    /// replaces it at its path.
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

    /// Two scans of one statement see the files that the first one found, and notice a file that is
    /// written meanwhile.
    #[test]
    fn files_are_listed_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("a.csv", "id\n1\n").unwrap();
        write("b.csv", "id\n2\n").unwrap();
        let column = crate::catalog::Column {
            name: "id".to_owned(),
            data_type: "Int64".to_owned(),
            nullable: true,
            domain: None,
            zone: None,
        };
        let table = Table {
            name: "t".to_owned(),
            source: Source::File {
                format: FileFormat::Csv,
                location: folder.path().to_str().unwrap().to_owned(),
                options: BTreeMap::new(),
                fingerprint: None,
                files: Some(Box::new(Files {
                    pattern: None,
                    partitioned_by: Vec::new(),
                    version: None,
                })),
            },
            privacy: crate::catalog::Privacy::Private(crate::catalog::Unit::Row),
            columns: vec![column],
        };
        let files = OpenFiles::new(&Arc::default());
        let first = files.checked(&table).unwrap();
        write("c.csv", "no header\n").unwrap();
        std::fs::remove_file(folder.path().join("a.csv")).unwrap();
        std::fs::rename(folder.path().join("c.csv"), folder.path().join("b.csv")).unwrap();
        let again = files.checked(&table).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && again.members.len() == 2);
        // Before the charge, nobody looks at a private table's files. Another statement finds the
        // present files.
        let next = OpenFiles::new(&Arc::default());
        assert!(next.check(&table).is_ok());
        assert!(next.checked(&table).is_err() && next.check_as_owner(&table).is_err());
        let public = Table { privacy: crate::catalog::Privacy::Public, ..table.clone() };
        assert!(next.check(&public).is_err());
        write("b.csv", "id\n2\n").unwrap();
        let last = OpenFiles::new(&Arc::default());
        last.checked(&table).unwrap();
        assert!(last.is_unchanged());
        write("b.csv", "id\n3\n").unwrap();
        assert!(!last.is_unchanged());
    }

    /// Size and time of modification can be reset, so a fingerprint with these alone is not enough.
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
            files: None,
            over_lines: false,
        };
        assert!(is_same(&fingerprint(Some(1), Some(5)), stamp));
        for (device, changed) in
            [(None, None), (Some(1), None), (None, Some(5)), (Some(1), Some(6))]
        {
            assert!(!is_same(&fingerprint(device, changed), stamp), "{device:?}, {changed:?}");
        }
    }
}
