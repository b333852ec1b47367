//! The cell of a unit, and the column by which a budget partitions its people.
//!
//! In: a budget, a table and a column. Out: a row beside the budget, under the same seal.
//!
//! ```text
//! research   PARTITION BY region   →   (customers, region, since 17)      cells: 'Oslo', 'Rome', other
//! ```
//!
//! A partition has a *beginning*: the number of the ledger's newest entry at the time of its
//! declaration, or of the last declaration that touched a table of these people. Charges to cells
//! of an earlier beginning count for all cells, as much as the most expensive of the old cells: a
//! person of that cell may be in any cell today.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Connection;

use super::CatalogError;
use super::digest::Fields;

/// The table of partitions.
pub(crate) const SCHEMA: &str = "
CREATE TABLE cell_column (
    budget TEXT PRIMARY KEY NOT NULL REFERENCES budget (name),
    table_name TEXT NOT NULL,
    column_name TEXT NOT NULL,
    since INTEGER NOT NULL CHECK (since >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER cells_never_begin_earlier BEFORE UPDATE ON cell_column
WHEN NEW.since < OLD.since
BEGIN SELECT RAISE(ABORT, 'cells never begin earlier than they did'); END;
";

/// A column whose values partition the people of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The table that names the people.
    pub table: String,
    /// Its column.
    pub column: String,
    /// The number of the ledger's newest entry when the cells began.
    pub since: i64,
}

/// A cell: a listed value, or all other values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// A listed value, as canonical text.
    Value(String),
    /// NULL, and unlisted values.
    Other,
}

impl Cell {
    /// The cell as the ledger stores it; `None` is *other*.
    pub(crate) fn stored(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Other => None,
        }
    }

    /// The inverse of [`Cell::stored`].
    pub(crate) fn read(stored: Option<String>) -> Self {
        stored.map_or(Self::Other, Self::Value)
    }
}

impl fmt::Display for Cell {
    /// The value in quotes, or `other`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "'{}'", value.replace('\'', "''")),
            Self::Other => f.write_str("other"),
        }
    }
}

/// Cells of one beginning to which alone a release is charged: all rows that it reads belong to
/// units in these cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// The column.
    pub column: String,
    /// The beginning of the cells.
    pub since: i64,
    /// At least one cell.
    pub cells: BTreeSet<Cell>,
}

impl fmt::Display for Touched {
    /// As in `region 'Oslo'`, or `region 'Oslo' and 'Rome'`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST_SHOWN: usize = 6;
        let shown: Vec<String> = self.cells.iter().take(MOST_SHOWN).map(Cell::to_string).collect();
        let more = self.cells.len().saturating_sub(shown.len());
        write!(f, "{} ", self.column)?;
        match (shown.split_last(), more) {
            (Some((last, [])), 0) => f.write_str(last),
            (Some((last, first)), 0) => write!(f, "{} and {last}", first.join(", ")),
            (_, more) => write!(f, "{} and {more} more", shown.join(", ")),
        }
    }
}

/// The partition of each budget, by name.
pub(super) fn rows(connection: &Connection) -> Result<Vec<(String, Partition)>, CatalogError> {
    let mut statement = connection.prepare_cached(
        "SELECT budget, table_name, column_name, since FROM cell_column ORDER BY budget",
    )?;
    let rows = statement.query_map([], |row| {
        let partition = Partition { table: row.get(1)?, column: row.get(2)?, since: row.get(3)? };
        Ok((row.get(0)?, partition))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Adds the partition of one budget to the digest of all budgets.
pub(super) fn into_digest(fields: &mut Fields, partition: Option<&Partition>) {
    match partition {
        None => fields.text(""),
        Some(Partition { table, column, since }) => {
            fields.text("partition");
            fields.text(table);
            fields.text(column);
            fields.integer(*since);
        }
    }
}
