//! The lists of tables and columns that exist for readers, kept until the next declaration.
//!
//! In: a reader, and the catalog that exists for it. Out: its list; the same one while the catalog
//! is the same, so that what is made of the list can be kept with it.
//!
//! ```text
//! catalog of lab, twice      →  one list
//! after a declaration        →  another list, unless it has the same tables and columns
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;

use crate::catalog::Catalog;

/// The most readers whose lists are kept.
const MOST_READERS: usize = 100;

/// A table or a view that a session may name.
///
/// ```
/// # use hushql_engine as hushql;
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let adult = &session.schemas()?[0];
/// assert_eq!((adult.name.as_str(), adult.is_view), ("adult", false));
/// assert!(adult.schema.field_with_name("age").is_ok());
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSchema {
    /// The name.
    pub name: String,
    /// Whether it is a view.
    pub is_view: bool,
    /// The columns; empty for a view that can no longer be read.
    pub schema: SchemaRef,
}

/// The list of a reader, and the catalog that it was made of.
struct KnownList {
    catalog: Arc<Catalog>,
    tables: Arc<[TableSchema]>,
}

/// The lists, by reader.
#[derive(Default)]
pub(crate) struct KnownSchemas(Mutex<HashMap<String, KnownList>>);

impl fmt::Debug for KnownSchemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownSchemas")
    }
}

impl KnownSchemas {
    /// The list of a reader for this catalog. `listed` makes it; without the columns of a view that
    /// cannot be read now, it is not kept.
    pub(crate) fn of(
        &self,
        reader: &str,
        catalog: &Arc<Catalog>,
        listed: impl FnOnce() -> Vec<TableSchema>,
    ) -> Arc<[TableSchema]> {
        let earlier = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match known.get(reader) {
                Some(list) if Arc::ptr_eq(&list.catalog, catalog) => {
                    return Arc::clone(&list.tables);
                }
                list => list.map(|list| Arc::clone(&list.tables)),
            }
        };
        let tables: Arc<[TableSchema]> = listed().into();
        // A catalog with release tables is made anew for each query.
        let tables = earlier.filter(|earlier| *earlier == tables).unwrap_or(tables);
        if tables.iter().any(|table| table.is_view && table.schema.fields().is_empty()) {
            return tables;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_READERS && !known.contains_key(reader) {
            known.clear();
        }
        let list = KnownList { catalog: Arc::clone(catalog), tables: Arc::clone(&tables) };
        known.insert(reader.to_owned(), list);
        tables
    }
}
