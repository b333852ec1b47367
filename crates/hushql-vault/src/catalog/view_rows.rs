//! The rows of views beside those of tables.
//!
//! In: an open connection and a view; the caller holds the transaction. Out: its row, under the
//! seal of the tables.
//!
//! ```text
//! CREATE VIEW v AS SELECT …   →   declared_table ('v', '{"name":"v",…}')
//! ```

use rusqlite::Connection;

use super::store::{DeclaredRow, SealedRows, declared, reseal_tables, store_row};
use super::{CatalogError, View};

/// Stores a view. It replaces one of the same name only on request.
///
/// # Errors
/// [`CatalogError::DuplicateTable`] or [`CatalogError::DuplicateView`] when the name is taken.
pub(crate) fn insert_view(
    connection: &Connection,
    view: &View,
    replace: bool,
) -> Result<(), CatalogError> {
    view.check()?;
    match declared(connection, &view.name)? {
        None => {}
        Some(DeclaredRow::View(_)) if replace => {}
        Some(DeclaredRow::View(_)) => {
            return Err(CatalogError::DuplicateView { view: view.name.clone() });
        }
        Some(DeclaredRow::Table(_)) => {
            return Err(CatalogError::DuplicateTable { table: view.name.clone() });
        }
        Some(DeclaredRow::Template(_)) => {
            return Err(CatalogError::IsTemplate { template: view.name.clone() });
        }
        Some(
            DeclaredRow::Export(_)
            | DeclaredRow::About(_)
            | DeclaredRow::Floor(_)
            | DeclaredRow::Rules(_)
            | DeclaredRow::Months(_)
            | DeclaredRow::Present(_),
        ) => {
            return Err(SealedRows::Tables.damage());
        }
    }
    store_row(connection, &view.name, view)?;
    reseal_tables(connection)
}

/// Deletes a view.
///
/// # Errors
/// [`CatalogError::UnknownView`] when it does not exist, [`CatalogError::IsTable`] when a table has
/// the name.
pub(crate) fn delete_view(connection: &Connection, name: &str) -> Result<(), CatalogError> {
    match declared(connection, name)? {
        Some(DeclaredRow::View(_)) => {}
        Some(DeclaredRow::Table(_)) => {
            return Err(CatalogError::IsTable { table: name.to_owned() });
        }
        // A user may write the internal name of an export folder; it names no view.
        Some(DeclaredRow::Template(_)) => {
            return Err(CatalogError::IsTemplate { template: name.to_owned() });
        }
        Some(
            DeclaredRow::Export(_)
            | DeclaredRow::About(_)
            | DeclaredRow::Floor(_)
            | DeclaredRow::Rules(_)
            | DeclaredRow::Months(_)
            | DeclaredRow::Present(_),
        )
        | None => {
            return Err(CatalogError::UnknownView { view: name.to_owned() });
        }
    }
    connection.execute("DELETE FROM declared_table WHERE name = ?1", [name])?;
    reseal_tables(connection)
}
