//! The rows of templates beside those of tables.
//!
//! In: an open connection and a template; the caller holds the transaction. Out: its row, under the
//! seal of the tables.
//!
//! ```text
//! CREATE TEMPLATE m(…) AS SELECT …   →   declared_table ('m', '{"template":"m",…}')
//! ```

use rusqlite::Connection;

use super::grants::{self, Granted};
use super::store::{DeclaredRow, declared, reseal_tables, store_row};
use super::{CatalogError, Template};

/// Stores a template. It replaces one of the same name only on request, and then whoever could
/// call the old one can call the new one. A new template has no grants.
///
/// # Errors
/// [`CatalogError::DuplicateTemplate`], [`CatalogError::DuplicateTable`] or
/// [`CatalogError::IsView`] when the name is taken.
pub(crate) fn insert_template(
    connection: &Connection,
    template: &Template,
    replace: bool,
) -> Result<(), CatalogError> {
    template.check()?;
    let name = template.name.clone();
    let is_new = match declared(connection, &name)? {
        None => true,
        Some(DeclaredRow::Template(_)) if replace => false,
        Some(DeclaredRow::Template(_)) => {
            return Err(CatalogError::DuplicateTemplate { template: name });
        }
        Some(DeclaredRow::View(_)) => return Err(CatalogError::IsView { view: name }),
        Some(
            DeclaredRow::Table(_)
            | DeclaredRow::Export(_)
            | DeclaredRow::About(_)
            | DeclaredRow::Floor(_)
            | DeclaredRow::Rules(_)
            | DeclaredRow::Months(_)
            | DeclaredRow::Present(_),
        ) => {
            return Err(CatalogError::DuplicateTable { table: name });
        }
    };
    store_row(connection, &name, template)?;
    if is_new {
        grants::forget(connection, &Granted::Template(name))?;
    }
    reseal_tables(connection)
}

/// Deletes a template and its grants.
///
/// # Errors
/// [`CatalogError::UnknownTemplate`] when it does not exist.
pub(crate) fn delete_template(connection: &Connection, name: &str) -> Result<(), CatalogError> {
    match declared(connection, name)? {
        Some(DeclaredRow::Template(_)) => {}
        Some(
            DeclaredRow::Table(_)
            | DeclaredRow::View(_)
            | DeclaredRow::Export(_)
            | DeclaredRow::About(_)
            | DeclaredRow::Floor(_)
            | DeclaredRow::Rules(_)
            | DeclaredRow::Months(_)
            | DeclaredRow::Present(_),
        )
        | None => return Err(CatalogError::UnknownTemplate { template: name.to_owned() }),
    }
    connection.execute("DELETE FROM declared_table WHERE name = ?1", [name])?;
    grants::forget(connection, &Granted::Template(name.to_owned()))?;
    reseal_tables(connection)
}
