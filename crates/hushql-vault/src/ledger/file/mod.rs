//! The file of a vault: its place, its tables, its locks and journal, and its anchor.

pub(crate) mod anchor;
pub(crate) mod cached_read;
pub(crate) mod handle;
pub(crate) mod home;
pub(crate) mod journal;
pub(crate) mod place;
pub(crate) mod schema;
pub(crate) mod wait;
