//! A small memory, and a folder that counts the files of a run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::spill_file::{SpillFile, TempFileFactory};

use crate::operator::spill::SpillFolder;

/// The memory and the folder of one run.
pub(crate) struct LittleMemory {
    counted: Arc<Counted>,
    runtime: Arc<RuntimeEnv>,
}

struct Counted {
    folder: SpillFolder,
    files: AtomicUsize,
}

impl TempFileFactory for Counted {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.folder.create_temp_file(description)
    }
}

impl LittleMemory {
    pub(crate) fn new(folder: &Path, bytes: usize) -> Self {
        let folder = SpillFolder::open(folder).unwrap();
        let counted = Arc::new(Counted { folder, files: AtomicUsize::new(0) });
        let factory: Arc<dyn TempFileFactory> = Arc::clone(&counted) as _;
        let disk = DiskManagerBuilder::default().with_temp_file_factory(factory);
        let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
        let runtime = runtime.with_memory_limit(bytes, 1.0).build_arc().unwrap();
        Self { counted, runtime }
    }

    pub(crate) fn context(&self) -> Arc<TaskContext> {
        Arc::new(TaskContext::default().with_runtime(Arc::clone(&self.runtime)))
    }

    /// The files that were opened so far.
    pub(crate) fn files(&self) -> usize {
        self.counted.files.load(Ordering::Relaxed)
    }
}
