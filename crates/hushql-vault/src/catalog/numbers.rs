//! The numbers of declarations: for each table, the number of the last declaration that touched it.
//!
//! In: the names of tables that are declared, altered, refreshed or dropped. Out: larger numbers
//! than any before, under a separate seal. Numbers only grow, even when a table is dropped. They
//! depend on declarations alone: a number that depended on the data in a file would reveal whether
//! someone joined.
//!
//! ```text
//! CREATE EXTERNAL TABLE a …    a 1
//! CREATE EXTERNAL TABLE b …    a 1, b 2
//! ALTER TABLE a REFRESH        a 3 (refreshed), b 2
//! DROP TABLE b                 a 3, b 4, .dropped b 5
//! ```

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::CatalogError;
use super::digest::Fields;
use super::seal::{SealedRows, check_seal, set_seal};

/// The tables of the numbers, and of the numbers that a REFRESH assigned.
pub(crate) const SCHEMA: &str = "
CREATE TABLE table_version (
    name TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER table_version_only_grows BEFORE UPDATE ON table_version
WHEN NEW.number <= OLD.number OR NEW.name IS NOT OLD.name
BEGIN SELECT RAISE(ABORT, 'the version of a table only grows'); END;

CREATE TRIGGER table_version_is_never_deleted BEFORE DELETE ON table_version
BEGIN SELECT RAISE(ABORT, 'the version of a table is never deleted'); END;

CREATE TABLE refreshed_table (
    name TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0)
) STRICT, WITHOUT ROWID;
";

/// The numbers of tables, and the number of the last REFRESH of each table that had one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableNumbers {
    last: BTreeMap<String, i64>,
    refreshed: BTreeMap<String, i64>,
}

impl TableNumbers {
    /// The number of the last declaration that touched a table; 0 if none did.
    pub(crate) fn of(&self, table: &str) -> i64 {
        self.last.get(table).copied().unwrap_or(0)
    }

    /// True if a table of this name was dropped after the declaration with this number. A table
    /// that has the name now is another one.
    pub(crate) fn was_dropped_after(&self, table: &str, number: i64) -> bool {
        self.of(&dropped_key(table)) > number
    }

    /// True if the last declaration of a table was a REFRESH: according to its owner, its rows are
    /// current.
    pub(crate) fn is_refreshed(&self, table: &str) -> bool {
        let refreshed = self.refreshed.get(table);
        refreshed.is_some() && refreshed == self.last.get(table)
    }

    fn digest(&self) -> [u8; 32] {
        let mut fields = Fields::new("hushql numbers 1");
        for numbers in [&self.last, &self.refreshed] {
            fields.text(&numbers.len().to_string());
            for (name, number) in numbers {
                fields.text(name);
                fields.integer(*number);
            }
        }
        fields.digest()
    }
}

/// The name under which the number of the last DROP of a table is stored. Names of tables contain
/// no dot.
pub(crate) fn dropped_key(table: &str) -> String {
    format!(".dropped {table}")
}

/// All numbers, checked against their seal.
///
/// # Errors
/// [`CatalogError::Damaged`] if they differ from what was written.
pub(crate) fn numbers(connection: &Connection) -> Result<TableNumbers, CatalogError> {
    let numbers = rows(connection)?;
    check_seal(connection, SealedRows::Versions, numbers.digest())?;
    Ok(numbers)
}

/// Marks tables as touched by a declaration; the caller holds the write lock.
///
/// # Errors
/// [`CatalogError::Damaged`] if the earlier numbers differ from what was written.
pub(crate) fn touch<'a>(
    connection: &Connection,
    tables: impl IntoIterator<Item = &'a str>,
) -> Result<(), CatalogError> {
    numbers(connection)?;
    for table in tables {
        connection.execute(
            "INSERT INTO table_version (name, number)
             VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM table_version))
             ON CONFLICT DO UPDATE SET number = excluded.number",
            [table],
        )?;
    }
    reseal(connection)
}

/// Records the owner's statement that a table's rows are current until its next declaration. The
/// caller holds the write lock.
///
/// # Guarantee
/// The table has a new number, and the declarations have a new version: earlier plans and stored
/// answers are not used again.
///
/// # Errors
/// As [`touch`].
pub(crate) fn refresh(connection: &Connection, table: &str) -> Result<(), CatalogError> {
    touch(connection, [table])?;
    connection.execute(
        "INSERT INTO refreshed_table (name, number)
         VALUES (?1, (SELECT number FROM table_version WHERE name = ?1))
         ON CONFLICT DO UPDATE SET number = excluded.number",
        [table],
    )?;
    reseal(connection)
}

/// Seals the present numbers.
pub(crate) fn reseal(connection: &Connection) -> Result<(), CatalogError> {
    set_seal(connection, SealedRows::Versions, rows(connection)?.digest())
}

fn rows(connection: &Connection) -> Result<TableNumbers, CatalogError> {
    let read = |sql: &str| -> Result<BTreeMap<String, i64>, CatalogError> {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    Ok(TableNumbers {
        last: read("SELECT name, number FROM table_version")?,
        refreshed: read("SELECT name, number FROM refreshed_table")?,
    })
}
