//! The rows of names whose people are known, beside those of tables.
//!
//! In: an open connection and a name; the caller holds the transaction. Out: its row, under the
//! seal of the tables.
//!
//! ```text
//! survey   →   declared_table ('.present survey', '{"present_table":"survey"}')
//! ```

use rusqlite::{Connection, params};

use super::CatalogError;
use super::public_presence::PresenceOfTable;
use super::store::{body, checked_table_rows, reseal_tables};

/// Stores that charges on a name are for people whose presence is public, or forgets it.
pub(crate) fn set_present(
    connection: &Connection,
    table: &str,
    is_present: bool,
) -> Result<(), CatalogError> {
    checked_table_rows(connection)?;
    let key = PresenceOfTable::key(table);
    if is_present {
        let row = PresenceOfTable { present_table: table.to_owned() };
        connection.execute(
            "INSERT INTO declared_table (name, body) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET body = excluded.body",
            params![key, body(&row)?],
        )?;
    } else {
        connection.execute("DELETE FROM declared_table WHERE name = ?1", [key])?;
    }
    reseal_tables(connection)
}
