//! Object stores in a program that was built without them: there are no objects.
//!
//! In: a location in a store. Out: an error. The feature `objects` of the crate builds `remote`
//! instead.

#![allow(dead_code, reason = "it has the shape of what is built in its place")]

use std::convert::Infallible;
use std::io;
use std::ops::Range;

use super::file_discovery::Selected;
use super::location::{ObjectVersion, StoreLocation};
use super::managed_files::TableFormat;

/// Whether object stores are built in, for messages.
pub(super) const IS_BUILT_IN: bool = false;

/// An object; none exists.
pub(super) struct Object(Infallible);

/// The stores of a plan; none exists.
#[derive(Default)]
pub(super) struct Stores(());

impl Stores {
    pub(super) fn object(&self, _version: &ObjectVersion) -> io::Result<Object> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// An object, and its name below the location that was searched.
pub(super) struct FoundObject {
    pub(super) name: Vec<u8>,
    pub(super) object: Object,
    pub(super) managed_by: Option<TableFormat>,
}

impl Object {
    pub(super) fn description(&self) -> ObjectVersion {
        match self.0 {}
    }

    pub(super) fn size(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn modified_nanos(&self) -> i64 {
        match self.0 {}
    }

    pub(super) fn version(&self) -> String {
        match self.0 {}
    }

    pub(super) fn tag(&self) -> String {
        match self.0 {}
    }

    pub(super) fn bytes(&self, _range: Range<u64>) -> io::Result<Vec<u8>> {
        match self.0 {}
    }
}

/// Finds nothing.
///
/// # Errors
/// Always.
pub(super) fn list(_location: &str, _selected: &Selected) -> io::Result<Vec<FoundObject>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Finds nothing.
///
/// # Errors
/// Always.
pub(super) fn names_below(_location: &str) -> io::Result<Vec<String>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the environment has the credentials for a store. Here, no store can be read.
pub(super) fn has_client(_place: &StoreLocation) -> bool {
    false
}
