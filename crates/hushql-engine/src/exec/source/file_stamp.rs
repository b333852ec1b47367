//! What the file system says of an open file, by which a change of it shows.
//!
//! In: the metadata of a file. Out: a [`Stamp`]. Two stamps are equal if nobody wrote to the file
//! in between, unless the second one is taken within a moment of the first.
//!
//! ```text
//! device 42, inode 17, 81,920 bytes, modified at …, changed at …
//! ```

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use crate::catalog::Fingerprint;

/// Properties of a file from the file system. Writing to the file changes them, even if its size
/// and time are reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified_nanos: i64,
    /// The time of the last change of the file or its metadata; nobody can set it.
    pub(super) changed_nanos: i64,
}

/// After this time without a change, a further change cannot go unnoticed. The clocks of file
/// systems advance at least every ten milliseconds.
const SETTLED: Duration = Duration::from_secs(1);

impl Stamp {
    /// Whether the last change is so old that another one would give another stamp.
    pub(super) fn is_settled(self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let changed = u64::try_from(self.changed_nanos).map_or(Duration::MAX, Duration::from_nanos);
        now.checked_sub(changed).is_some_and(|ago| ago > SETTLED)
    }

    pub(super) fn from_metadata(metadata: &Metadata) -> Self {
        let nanos =
            |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified_nanos: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed_nanos: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Whether a file has this fingerprint, according to the file system.
pub(super) fn is_same(verified: &Fingerprint, stamp: Stamp) -> bool {
    verified.device == Some(stamp.device)
        && verified.inode == stamp.inode
        && verified.size == stamp.size
        && verified.modified_nanos == stamp.modified_nanos
        && verified.changed_nanos == Some(stamp.changed_nanos)
}
