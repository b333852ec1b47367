//! Cells of people: the values of one column. Each cell has a separate share of a budget's limit.
//!
//! In: declarations. Out: the cells of the people of a unit domain, or why a column makes none.
//! Each unit is in exactly one cell: the value of its row in that column. So a release about one
//! cell costs the other cells nothing. Unlisted values and NULL belong to the cell *other*.
//!
//! ```text
//! customers (id UNIQUE, region IN ('Oslo', 'Rome'))    PARTITION BY region    cells: 'Oslo', 'Rome', other
//! visits (patient) PER MONTH OF (visited_at)           for every budget       cells: '1970-01' to '2049-12', other
//! ```
//!
//! Cells belong to people, not to a budget. All budgets of the same people count in the same cells,
//! since the loss of a unit does not depend on which budget counts it.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::cell::{Cell, Partition};
use super::month_units::MONTHS;
use super::store::{accounts, reseal_budgets};
use super::{Catalog, CatalogError, Domain, Source, Table, Unit, quoted};

/// The largest number of values of a column that partitions people.
const MOST: usize = 1_000;

/// The cells of people that are in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells<'a> {
    /// The table that names the people.
    pub table: &'a Table,
    /// Its column.
    pub column: &'a str,
    /// The text of the column's Arrow type.
    pub data_type: &'a str,
    /// The listed values of the column, or the months of the calendar.
    values: &'a [Option<String>],
    /// True if a unit is one month of a person: the cells are the months of the column's dates.
    pub are_months: bool,
    /// The beginning of the cells.
    pub since: i64,
}

impl<'a> Cells<'a> {
    /// The listed values, without NULL.
    pub fn values(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.values.iter().filter_map(Option::as_deref)
    }

    /// All cells, *other* last.
    pub fn all(&self) -> BTreeSet<Cell> {
        self.values().map(|value| Cell::Value(value.to_owned())).chain([Cell::Other]).collect()
    }
}

impl Catalog {
    /// The partition declared for a budget, whether or not it is in effect.
    pub fn partition(&self, budget: &str) -> Option<&Partition> {
        self.partitions.get(budget)
    }

    /// The same snapshot with these partitions.
    #[must_use]
    pub(crate) fn with_partitions(
        mut self,
        partitions: impl IntoIterator<Item = (String, Partition)>,
    ) -> Self {
        self.partitions.extend(partitions);
        self
    }

    /// The partitions of all budgets of the people of a unit domain.
    pub(crate) fn partitions_of<'a>(
        &'a self,
        unit_domain: &'a str,
    ) -> impl Iterator<Item = &'a Partition> {
        self.budgets_of(unit_domain).filter_map(|budget| self.partition(&budget.name))
    }

    /// The cells of the people of a unit domain; `None` if no partition is in effect.
    ///
    /// # Guarantee
    /// Every unit of the unit domain is in exactly one of the cells. Their table is that of the
    /// unit domain, in which a unit has one row; its files cannot change unnoticed; and the column
    /// has a list of values that the scan enforces. Or a unit is one month of a person, and the
    /// cells are the months of the calendar. All partitions declared for these people agree.
    /// The cells began when the newest of the partitions did.
    pub fn cells_of(&self, unit_domain: &str) -> Option<Cells<'_>> {
        let mut partitions = self.partitions_of(unit_domain);
        let first = partitions.next()?;
        let mut since = first.since;
        for other in partitions {
            if (&other.table, &other.column) != (&first.table, &first.column) {
                return None;
            }
            since = since.max(other.since);
        }
        // Joined people are charged through their own tables, too, and those have no cell.
        let table = self.table(&first.table).filter(|table| table.name == unit_domain)?;
        let cells = cells(table, &first.column).ok()?;
        Some(Cells { since, ..cells })
    }

    /// True if some budget partitions the people of this table, whether or not it is in effect.
    pub fn is_partitioned(&self, table: &str) -> bool {
        self.partitions.values().any(|partition| partition.table == table)
    }
}

/// The cells that a column makes of the units of a table.
///
/// # Errors
/// The reason why it makes no cells, with what to write.
pub fn cells<'a>(table: &'a Table, column: &str) -> Result<Cells<'a>, String> {
    let (shown, name) = (quoted(column), quoted(&table.name));
    match table.unit() {
        Some(Unit::Row) => {}
        Some(Unit::Month { date, .. }) if date == column => {}
        Some(Unit::Month { date, .. }) => {
            return Err(format!(
                "its unit is one month of a person, so that its cells are the months of {0}: leave PARTITION BY out, or write PARTITION BY {0}",
                quoted(date)
            ));
        }
        Some(Unit::Column { unique: true, .. }) => {}
        Some(Unit::Column { column: unit, unique: false, .. }) => {
            return Err(format!(
                "one person may have several rows of {name}, and so be in several cells: write ALTER TABLE {name} SET PRIVACY UNIT ({}) UNIQUE if everyone has one row",
                quoted(unit)
            ));
        }
        Some(Unit::Present { .. }) => {
            return Err(format!(
                "who is in {name} is public, and neighbours replace what a person's row says, which may be in one cell and then in another: keep one account for all, without PARTITION BY"
            ));
        }
        Some(Unit::Via(link)) => {
            return Err(format!(
                "the rows of {name} lead to their people through {0}: partition by a column of {0}",
                quoted(&link.table)
            ));
        }
        None => {
            return Err(format!(
                "{name} has no privacy unit: write ALTER TABLE {name} SET PRIVACY UNIT … first"
            ));
        }
    }
    match &table.source {
        Source::File { fingerprint: Some(_), .. } => {}
        Source::File { fingerprint: None, .. } => {
            return Err(format!(
                "the files of {name} may change unnoticed, and a person may move to another cell: write ALTER PRIVACY BUDGET … PARTITION BY {shown} once more, which pins them"
            ));
        }
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => {
            return Err(format!(
                "the rows of {name} are not in files, so that nothing tells when a person moves to another cell: copy them into a file, and write CREATE EXTERNAL TABLE … STORED AS PARQUET LOCATION '…'"
            ));
        }
    }
    let known = table.column(column).ok_or_else(|| format!("{name} has no column {shown}"))?;
    if table.unit().is_some_and(|unit| unit.month().is_some()) {
        let (column, data_type) = (known.name.as_str(), known.data_type.as_str());
        return Ok(Cells { table, column, data_type, values: &MONTHS, are_months: true, since: 0 });
    }
    if table.unit().is_some_and(|unit| unit.columns().contains(&known.name)) {
        return Err(format!("{shown} is the privacy unit of {name}: partition by another column"));
    }
    let is_exact = ["Utf8", "LargeUtf8", "Utf8View", "Boolean", "Date32"]
        .into_iter()
        .chain(["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"])
        .any(|exact| exact == known.data_type);
    if !is_exact {
        return Err(format!(
            "{shown} is neither a text, an integer, a date nor a boolean: partition by a column that is"
        ));
    }
    match &known.domain {
        Some(Domain::In(values)) if values.len() <= MOST => {
            let (column, data_type) = (known.name.as_str(), known.data_type.as_str());
            Ok(Cells { table, column, data_type, values, are_months: false, since: 0 })
        }
        Some(Domain::In(_)) => {
            Err(format!("{shown} has more than {MOST} values: partition by a column with fewer"))
        }
        Some(Domain::Between { .. }) | None => Err(format!(
            "the values of {shown} are not listed: write ALTER TABLE {name} ALTER COLUMN {shown} SET PRIVACY DOMAIN IN (…) first"
        )),
    }
}

/// Stores the partition of a budget, and replaces an earlier one.
///
/// # Errors
/// [`CatalogError::UnknownBudget`].
pub(crate) fn set(
    connection: &Connection,
    budget: &str,
    partition: &Partition,
) -> Result<(), CatalogError> {
    known(connection, budget)?;
    let Partition { table, column, since } = partition;
    connection.execute(
        "INSERT INTO cell_column (budget, table_name, column_name, since) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET table_name = excluded.table_name,
             column_name = excluded.column_name, since = excluded.since",
        params![budget, table, column, since],
    )?;
    reseal_budgets(connection)
}

/// Deletes the partition of a budget. Returns whether there was one.
///
/// # Errors
/// [`CatalogError::UnknownBudget`].
pub(crate) fn delete(connection: &Connection, budget: &str) -> Result<bool, CatalogError> {
    known(connection, budget)?;
    let deleted = connection.execute("DELETE FROM cell_column WHERE budget = ?1", [budget])?;
    reseal_budgets(connection)?;
    Ok(deleted > 0)
}

fn known(connection: &Connection, budget: &str) -> Result<(), CatalogError> {
    match accounts(connection)?.iter().any(|account| account.budget.name == budget) {
        true => Ok(()),
        false => Err(CatalogError::UnknownBudget { budget: budget.to_owned() }),
    }
}
