//! The rows of names whose people are known, beside those of tables.
//!
//! In: an open connection and a name; the caller holds the transaction. Out: its row, under the
//! seal of the tables.
//!
//! ```text
//! survey   →   declared_table ('.present survey', '{"present_table":"survey","known":["id"]}')
//! ```

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::CatalogError;
use super::public_presence::PresenceOfTable;
use super::store::{checked_table_rows, reseal_tables, store_row};

/// Stores that charges on a name are for people whose presence is public, and which of their
/// columns are known.
pub(crate) fn set_present(
    connection: &Connection,
    table: &str,
    known: BTreeSet<String>,
) -> Result<(), CatalogError> {
    checked_table_rows(connection)?;
    let key = PresenceOfTable::key(table);
    let row = PresenceOfTable { present_table: table.to_owned(), known };
    store_row(connection, &key, &row)?;
    reseal_tables(connection)
}
