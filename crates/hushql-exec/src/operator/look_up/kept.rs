//! Keeps look-ups from one statement to the next.
//!
//! In: look-ups over files that stay open. Out: the same look-up, for a later statement that reads
//! the same columns of the same files in the same way. A file is the same if its device, inode,
//! size and times have not changed since it was verified. It stays open as long as a look-up of it
//! is kept, so that no other file can take its inode.
//!
//! ```text
//! Identity    orders 42.17.81920.… [o_orderkey, o_custkey] WHERE both IS NOT NULL, joined with customer 42.18.… [c_custkey]
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use tokio::sync::OnceCell;

use super::index::LookUp;
use crate::pinned::Pinned;

/// The most bytes that an engine without a memory limit keeps.
const MOST_BYTES: usize = 256 << 20;

/// At most one part in this many of an engine's memory is kept.
const PART: usize = 16;

/// An engine with less memory keeps no look-ups.
const LEAST_MEMORY: usize = PART * MOST_BYTES;

/// Identifies the rows of a look-up without reading them.
///
/// # Guarantee
/// If two are equal, they stand for the same columns of the same rows, in some order.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsIdentity {
    rows: String,
    files: Vec<Pinned>,
}

impl RowsIdentity {
    /// Columns of a file. Their description has their names and types.
    pub fn of_file(file: Pinned, columns: &str) -> Self {
        Self { rows: columns.to_owned(), files: vec![file] }
    }

    /// The bytes of the file whose rows these are. Other files are only looked up.
    pub fn bytes(&self) -> u64 {
        self.files.first().map_or(0, Pinned::bytes)
    }

    /// A name that is unique as long as the files are open.
    fn name(&self) -> String {
        let stamps: Vec<&str> = self.files.iter().map(Pinned::stamp).collect();
        format!("{} {stamps:?}", self.rows)
    }

    /// The rows that a step makes of these. The description of the step must determine the result.
    pub fn then(mut self, step: &str) -> Self {
        self.rows = format!("({}) {step}", self.rows);
        self
    }

    /// The rows that a step makes of these and others.
    pub fn with(mut self, other: Self, step: &str) -> Self {
        self.rows = format!("({}) ({}) {step}", self.rows, other.rows);
        self.files.extend(other.files);
        self
    }
}

/// The index that running statements use, once one of them has made it.
pub(super) type InUse = OnceCell<Arc<LookUp>>;

/// The look-ups that an engine keeps, the most recently used one last.
pub struct KeptLookUps {
    kept: Mutex<Vec<(RowsIdentity, Arc<LookUp>)>>,
    /// The look-ups that running statements use or make, by name. The plans of these statements
    /// hold their files open.
    in_use: Mutex<Vec<(String, Weak<InUse>)>>,
    /// The most bytes of all look-ups.
    most: usize,
    _memory: Option<MemoryReservation>,
}

/// For an engine without a memory limit.
impl Default for KeptLookUps {
    fn default() -> Self {
        Self::with(MOST_BYTES, None)
    }
}

/// Leaves out private rows.
impl fmt::Debug for KeptLookUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptLookUps").finish_non_exhaustive()
    }
}

impl KeptLookUps {
    /// The look-ups of an engine with this memory; `None` if it is too little to keep any.
    ///
    /// # Guarantee
    /// The memory for all look-ups is reserved now, so keeping one never takes memory from a
    /// statement.
    pub fn within(memory: &Arc<dyn MemoryPool>) -> Option<Self> {
        match memory.memory_limit() {
            MemoryLimit::Infinite => Some(Self::default()),
            MemoryLimit::Finite(limit) if limit >= LEAST_MEMORY => {
                let reserved = MemoryConsumer::new("look-ups").register(memory);
                let most = limit / PART;
                reserved.try_grow(most).ok()?;
                Some(Self::with(most, Some(reserved)))
            }
            MemoryLimit::Finite(_) | MemoryLimit::Unknown => None,
        }
    }

    fn with(most: usize, memory: Option<MemoryReservation>) -> Self {
        Self { kept: Mutex::default(), in_use: Mutex::default(), most, _memory: memory }
    }

    /// The most bytes of all look-ups.
    pub fn most(&self) -> usize {
        self.most
    }

    fn all(&self) -> MutexGuard<'_, Vec<(RowsIdentity, Arc<LookUp>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_in_use(&self) -> MutexGuard<'_, Vec<(String, Weak<InUse>)>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place where concurrent statements find the look-up of these rows. The first statement
    /// makes it. If that one fails or ends early, the next one does.
    pub(super) fn in_use(&self, wanted: &RowsIdentity) -> Arc<InUse> {
        let mut all = self.all_in_use();
        // Once no plan holds a look-up, its name may stand for other files.
        all.retain(|(_, one)| one.strong_count() > 0);
        let name = wanted.name();
        let found = all.iter().find(|(own, _)| *own == name).and_then(|(_, one)| one.upgrade());
        found.unwrap_or_else(|| {
            let one = Arc::default();
            all.push((name, Arc::downgrade(&one)));
            one
        })
    }

    /// The look-up of these rows, if it is kept.
    pub(super) fn find(&self, wanted: &RowsIdentity) -> Option<Arc<LookUp>> {
        let mut all = self.all();
        let at = all.iter().position(|(identity, _)| identity == wanted)?;
        let found = all.remove(at);
        let look_up = Arc::clone(&found.1);
        all.push(found);
        Some(look_up)
    }

    /// Keeps a look-up, and forgets the least recently used ones if all together are too large. A
    /// look-up that is too large alone is not kept.
    pub(super) fn keep(&self, identity: RowsIdentity, look_up: &Arc<LookUp>) {
        if look_up.size() > self.most {
            return;
        }
        let mut all = self.all();
        all.retain(|(kept, _)| *kept != identity);
        all.push((identity, Arc::clone(look_up)));
        let mut bytes: usize = all.iter().map(|(_, look_up)| look_up.size()).sum();
        while bytes > self.most && !all.is_empty() {
            bytes -= all.remove(0).1.size();
        }
    }

    /// Forgets all look-ups and closes their files. Running statements go on with theirs, but later
    /// ones do not share them.
    pub fn clear(&self) {
        self.all().clear();
        self.all_in_use().clear();
    }

    /// The number of kept look-ups, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn len(&self) -> usize {
        self.all().len()
    }
}
