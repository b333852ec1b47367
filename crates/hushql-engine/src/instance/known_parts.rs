//! The parts of the declarations that exist for each reader, kept until the next declaration.
//!
//! In: all declarations, and a reader. Out: the part that exists for the reader. A view exists for
//! those who may ask about its tables, so its query is read to find these; that is done once.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::catalog::{Catalog, CatalogVersion, View};

/// The most readers whose parts are kept.
const MOST_READERS: usize = 1_000;

/// The parts of one state of the declarations, by reader.
#[derive(Default)]
pub(crate) struct KnownParts(Mutex<(CatalogVersion, HashMap<String, Arc<Catalog>>)>);

impl fmt::Debug for KnownParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownParts")
    }
}

impl KnownParts {
    /// The part of this catalog that exists for a reader. `reads` returns the names of the tables
    /// that a view reads.
    pub(crate) fn of(
        &self,
        whole: &Arc<Catalog>,
        reader: &str,
        reads: impl Fn(&View) -> Option<BTreeSet<String>>,
    ) -> Arc<Catalog> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.0.is(&whole.version()) || known.1.len() >= MOST_READERS {
            *known = (whole.version(), HashMap::new());
        }
        if let Some(part) = known.1.get(reader) {
            return Arc::clone(part);
        }
        let part = whole.seen_by(reader, reads);
        known.1.insert(reader.to_owned(), Arc::clone(&part));
        part
    }
}
