//! Finds tables by the names that users write, and suggests similar names.
//!
//! In: the catalog, and a name. Out: the table of this name, or an error that suggests a similar
//! one.
//!
//! ```text
//! DESCRIBE adlut  →  there is no table `adlut`: did you mean `adult`?
//! ```

use crate::bind::BindError;
use crate::catalog::store::no_table;
use crate::catalog::{Catalog, CatalogError, Table};
use crate::error::Error;
use crate::refusal::nearest;

/// The table of this name.
pub(crate) fn known<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Table, Error> {
    catalog.table(name).ok_or_else(|| match no_table(catalog, name) {
        CatalogError::UnknownTable { table: name } => {
            let suggestion = nearest_name(catalog, &name);
            BindError::UnknownTable { name, suggestion }.into()
        }
        other => other.into(),
    })
}

/// The name of a table or view that is similar to this name.
fn nearest_name(catalog: &Catalog, name: &str) -> Option<String> {
    let tables = catalog.tables().map(|table| table.name.as_str());
    nearest(name, tables.chain(catalog.views().map(|view| view.name.as_str())))
}

/// Adds the name of a similar view to an error about an unknown table. The planner knows only the
/// views that a query reads.
pub(crate) fn suggesting(error: BindError, catalog: &Catalog) -> BindError {
    match error {
        BindError::At { position, source } => suggesting(*source, catalog).placed(Some(position)),
        BindError::UnknownTable { name, suggestion: None } => {
            let suggestion = nearest_name(catalog, &name);
            BindError::UnknownTable { name, suggestion }
        }
        other => other,
    }
}
