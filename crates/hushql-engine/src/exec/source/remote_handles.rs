//! Files and objects of tables that other processes open again.
//!
//! In: the scan of a table over open files. Out: for each file its number, its path and its
//! properties from the file system. The other process opens the same path, and refuses it unless
//! the properties are equal: it reads the bytes that were checked here, or none. As for every file,
//! this process notices if the file changes before the end. An object is named by its store, its
//! path and its version. The other process asks for this version with the credentials of its own
//! environment.
//!
//! ```text
//! held://files/17 ─▶ ShippedFile { number: 17, path: "/data/visits.parquet", size: 81920, … } ─▶ held://files/17, over there
//! ```

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use super::check::register;
use super::location::ObjectVersion;
use super::open_files::{HeldFiles, OpenFile, STORE};
use super::remote::{IS_BUILT_IN, Stores};
use crate::catalog::{FileFormat, Source, Table};

/// True if the library was built with object stores, so that [`ReceivedFiles::receive`] takes their
/// objects.
pub const READS_OBJECTS: bool = IS_BUILT_IN;

/// A file that another process opens: where it is, and which properties it must have.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippedFile {
    /// Its number in the plan.
    number: u64,
    kept: Shipped,
}

/// Paths must not appear in messages.
impl fmt::Debug for ShippedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShippedFile").field("number", &self.number).finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Shipped {
    File { path: String, inode: u64, size: u64, modified_nanos: i64, changed_nanos: i64 },
    Object(ObjectVersion),
}

/// Whether another process that sees the same folders and stores can read a table: true for Parquet
/// and Arrow. The rows that a log of Delta Lake deletes from a file do not travel with a plan.
pub(crate) fn is_read_elsewhere(table: &Table) -> bool {
    match &table.source {
        source if source.version().is_some() => false,
        Source::File { format, .. } => match format {
            FileFormat::Parquet | FileFormat::Arrow => true,
            FileFormat::Csv | FileFormat::Json | FileFormat::Sqlite => false,
        },
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => false,
    }
}

impl HeldFiles {
    /// The files that a scan reads; `None` if it reads anything else, if it leaves out deleted rows
    /// of a file, or if the path of a file is unknown.
    pub(crate) fn shipped(&self, scan: &Arc<dyn ExecutionPlan>) -> Option<Vec<ShippedFile>> {
        let source = scan.downcast_ref::<DataSourceExec>()?;
        let files = source.data_source().downcast_ref::<FileScanConfig>()?;
        if files.object_store_url.as_str().trim_end_matches('/') != STORE {
            return None;
        }
        let mut shipped: Vec<ShippedFile> = Vec::new();
        for file in files.file_groups.iter().flat_map(|group| group.files()) {
            if file.extension::<ParquetRowSelection>().is_some() {
                return None;
            }
            let held = self.numbered(&file.object_meta.location)?;
            let file = described(&held)?;
            if !shipped.contains(&file) {
                shipped.push(file);
            }
        }
        Some(shipped)
    }
}

fn described(held: &OpenFile) -> Option<ShippedFile> {
    let kept = match held.object_version() {
        Some(version) => Shipped::Object(version),
        None => {
            let (path, stamp) = (held.path()?.to_owned(), held.stamp());
            Shipped::File {
                path,
                inode: stamp.inode,
                size: stamp.size,
                modified_nanos: stamp.modified_nanos,
                changed_nanos: stamp.changed_nanos,
            }
        }
    };
    Some(ShippedFile { number: held.number(), kept })
}

/// The files that a process opened for another process's plan. Dropping this value closes them.
pub struct ReceivedFiles {
    store: Arc<HeldFiles>,
    objects: Stores,
    open: Mutex<Vec<Arc<OpenFile>>>,
}

/// Paths must not appear in messages.
impl fmt::Debug for ReceivedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedFiles").finish_non_exhaustive()
    }
}

impl ReceivedFiles {
    /// Starts without files. Scans in this environment find received files by their numbers.
    ///
    /// # Errors
    /// DataFusion's, for a name that is not a URL; this never happens.
    pub fn within(runtime: &RuntimeEnv) -> Result<Self> {
        let store = Arc::<HeldFiles>::default();
        register(&store, runtime)?;
        Ok(Self { store, objects: Stores::default(), open: Mutex::default() })
    }

    /// Opens a file. For an object, this asks its store for nothing: each read asks for the
    /// described version.
    ///
    /// # Errors
    /// If the file cannot be opened, or is not the described one; for an object, if this process
    /// was built without object stores, or its environment has no credentials.
    pub fn receive(&self, file: &ShippedFile) -> Result<()> {
        let held = match &file.kept {
            Shipped::File { path, .. } => {
                self.store.open_as(path, file.number).map_err(external)?
            }
            Shipped::Object(version) => {
                let object = self.objects.object(version).map_err(external)?;
                self.store.hold_object_as(object, file.number)
            }
        };
        // Another machine may give the file system another device number, so it is not compared.
        if described(&held).as_ref() != Some(file) {
            return Err(external(io::Error::from(io::ErrorKind::InvalidData)));
        }
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(held);
        Ok(())
    }
}

fn external(error: io::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A file that changed, was replaced or was removed after its description is not read.
    #[test]
    fn only_the_described_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        fs::write(&path, "rows").unwrap();
        let store = HeldFiles::default();
        let held = store.open(path.to_str().unwrap()).unwrap();
        let file = described(&held).unwrap();
        let receive = || {
            let runtime = RuntimeEnv::default();
            ReceivedFiles::within(&runtime).unwrap().receive(&file)
        };
        receive().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "rows").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(receive().is_err(), "another file");
        fs::write(&path, "more rows").unwrap();
        assert!(receive().is_err(), "written to");
        fs::remove_file(&path).unwrap();
        assert!(receive().is_err(), "removed");
    }
}
