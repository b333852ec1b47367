//! Files that stay open, so that look-ups made of their rows can be kept.
//!
//! In: a file that a statement has opened and verified. Out: a [`Pinned`] file. Two of them are
//! equal if they are the same file, read in the same way, and not written to in between. The file
//! stays open as long as one of them is kept, so that no other file can take its inode.
//!
//! ```text
//! Pinned    device 42, inode 17, 81,920 bytes, changed at …, PARQUET, columns o_orderkey BIGINT, …
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The file of a table, once a statement has opened and verified it.
pub type PinnedFile = Arc<dyn Fn() -> Option<Pinned> + Send + Sync>;

/// A file that stays open, with a stamp of how it is read and of its last change.
#[derive(Clone)]
pub struct Pinned {
    stamp: String,
    bytes: u64,
    /// Holds the file open.
    _open: Arc<dyn Any + Send + Sync>,
}

/// Equal if it is the same file, read in the same way, and not written to in between.
impl PartialEq for Pinned {
    fn eq(&self, other: &Self) -> bool {
        self.stamp == other.stamp
    }
}

/// Leaves out what it is read from.
impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}

impl Pinned {
    /// An open file. `stamp` holds its properties and how it is read; `open` holds it open.
    pub fn new(stamp: String, bytes: u64, open: Arc<dyn Any + Send + Sync>) -> Self {
        Self { stamp, bytes, _open: open }
    }

    /// Distinguishes the file from a later state of it, and from the same file read in another way.
    pub fn stamp(&self) -> &str {
        &self.stamp
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
