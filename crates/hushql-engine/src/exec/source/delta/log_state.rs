//! A version of a table of Delta Lake, added up from its log.
//!
//! In: the folder of a table, and a version. Out: its protocol, its description, and the files that
//! hold its rows. What the log says twice in different ways is refused and not decided here.
//!
//! ```text
//! 0.json  add a, add b
//! 1.json  remove b, add c      version 1: a, c
//! ```

use std::collections::BTreeMap;
use std::io;

use super::actions::{Actions, AddedFile, DeletionVector, Protocol, TableMetadata, read_actions};
use super::checkpoint::read_checkpoint;
use super::log_error::unreadable;
use super::log_files::{LOG, LogFiles, VersionFiles};
use super::table_folder::TableFolder;
use crate::exec::source::location::percent_decoded;

/// A file, by its decoded path and its deletion vector.
type FileKey = (String, Option<String>);

fn key(path: &str, deleted: Option<&DeletionVector>) -> io::Result<FileKey> {
    let path = percent_decoded(path.as_bytes())
        .ok_or_else(|| unreadable("its log names a file whose path is not UTF-8"))?;
    Ok((path, deleted.map(DeletionVector::identity)))
}

/// The state of a table at one version.
#[derive(Debug, Default)]
pub(super) struct LogState {
    protocol: Option<Protocol>,
    metadata: Option<TableMetadata>,
    files: BTreeMap<FileKey, AddedFile>,
}

/// What a log says of a version: the protocol, the description, and the files by their decoded
/// paths.
pub(super) type Replayed = (Protocol, TableMetadata, BTreeMap<String, AddedFile>);

impl LogState {
    /// Adds an action of a checkpoint, in which each file occurs once.
    fn add_kept(&mut self, actions: Actions, sidecars: &mut Vec<String>) -> io::Result<()> {
        self.describe(actions.protocol, actions.meta_data);
        sidecars.extend(actions.sidecar.map(|sidecar| sidecar.path));
        let Some(add) = actions.add else { return Ok(()) };
        let key = key(&add.path, add.deletion_vector.as_ref())?;
        match self.files.insert(key, add) {
            None => Ok(()),
            Some(before) => Err(twice(&before.path)),
        }
    }

    fn describe(&mut self, protocol: Option<Protocol>, metadata: Option<TableMetadata>) {
        self.protocol = protocol.or(self.protocol.take());
        self.metadata = metadata.or(self.metadata.take());
    }

    /// Adds the actions of a commit, whose order does not count.
    fn commit(&mut self, actions: Vec<Actions>) -> io::Result<()> {
        let (mut added, mut removed) = (BTreeMap::new(), Vec::new());
        for Actions { add, remove, meta_data, protocol, sidecar, .. } in actions {
            if sidecar.is_some() {
                return Err(unreadable("a commit of its log has a sidecar"));
            }
            self.describe(protocol, meta_data);
            if let Some(remove) = remove {
                removed.push(key(&remove.path, remove.deletion_vector.as_ref())?);
            }
            if let Some(add) = add {
                let key = key(&add.path, add.deletion_vector.as_ref())?;
                if let Some(before) = added.insert(key, add) {
                    return Err(twice(&before.path));
                }
            }
        }
        for key in removed {
            if added.contains_key(&key) {
                return Err(unreadable(format!(
                    "its log adds and removes `{}` in one version",
                    key.0
                )));
            }
            self.files.remove(&key);
        }
        self.files.append(&mut added);
        Ok(())
    }

    fn finished(self) -> io::Result<Replayed> {
        let (Some(protocol), Some(metadata)) = (self.protocol, self.metadata) else {
            return Err(unreadable("its log has no protocol or no metadata"));
        };
        let mut files = BTreeMap::new();
        for ((path, _), added) in self.files {
            if files.contains_key(&path) {
                return Err(twice(&path));
            }
            files.insert(path, added);
        }
        Ok((protocol, metadata, files))
    }
}

fn twice(path: &str) -> io::Error {
    unreadable(format!("its log has the file `{path}` twice in one version"))
}

/// The names of a table's log.
///
/// # Errors
/// A sentence for the owner, if the folder has no log.
pub(super) fn log_files(folder: &TableFolder) -> io::Result<LogFiles> {
    let names = folder.names(LOG).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unreadable(format!("it has no folder {LOG}")),
        _ => error,
    })?;
    Ok(LogFiles::of_names(names))
}

/// Reads a version of a table. Where one of its checkpoints cannot be read, as it may be written
/// just now, the commits before it are.
///
/// # Errors
/// A sentence for the owner if the log cannot be read, and the system's error otherwise.
pub(super) fn replay(folder: &TableFolder, log: &LogFiles, version: u64) -> io::Result<Replayed> {
    let mut first_error = None;
    for way in log.ways_to(version)? {
        match read(folder, &way).and_then(LogState::finished) {
            Ok(replayed) => return Ok(replayed),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn read(folder: &TableFolder, way: &VersionFiles) -> io::Result<LogState> {
    let mut state = LogState::default();
    let mut sidecars = Vec::new();
    for name in &way.checkpoint {
        let bytes = folder.bytes(&format!("{LOG}/{name}"))?;
        read_checkpoint(name, bytes, |actions| state.add_kept(actions, &mut sidecars))?;
    }
    for name in sidecars {
        let name = percent_decoded(name.as_bytes())
            .filter(|name| !name.contains('/'))
            .ok_or_else(|| unreadable("its log names a sidecar in another folder"))?;
        let bytes = folder.bytes(&format!("{LOG}/_sidecars/{name}"))?;
        let mut more = Vec::new();
        read_checkpoint(&name, bytes, |actions| state.add_kept(actions, &mut more))?;
        if !more.is_empty() {
            return Err(unreadable("a sidecar of its log names another one"));
        }
    }
    for name in &way.commits {
        let bytes = folder.bytes(&format!("{LOG}/{name}"))?;
        state.commit(read_actions(&bytes, name)?)?;
    }
    Ok(state)
}
