//! Cells of people: from the statement of their owner to the vault.
//!
//! In: a budget and a column. Out: the partition, and one sentence about it. The files of the table
//! are pinned if they were not: a person whose cell changed unnoticed would spend twice.
//!
//! ```text
//! ALTER PRIVACY BUDGET research PARTITION BY region
//!     →   budget research: the people of customers are in 3 cells, by region; a release that shows which of them it reads is charged to these alone
//! ```

use crate::catalog::cells::cells;
use crate::catalog::{Catalog, CatalogError, Source, Table};
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::owner::declared_columns::column_of;

/// Partitions the people of a budget by a column.
///
/// # Errors
/// The reason why the column makes no cells, with what to write.
pub(super) fn partition(inner: &Inner, budget: &str, column: &str) -> Result<String, Error> {
    let catalog = inner.vault.catalog()?;
    let unknown = || CatalogError::UnknownBudget { budget: budget.to_owned() };
    let table = &catalog.budget(budget).ok_or_else(unknown)?.table;
    let root = checked(&catalog, budget, table, column)?;
    let pinned = pinned(inner, root)?;
    inner.vault.partition_budget(&catalog, budget, column, pinned.as_ref())?;
    let after = inner.vault.catalog()?;
    let count = after.cells_of(&root.name).map_or(0, |cells| cells.all().len());
    Ok(format!(
        "budget {budget}: the people of {} are in {count} cells, by {column}; a release that shows which cells it reads is charged to these alone",
        root.name
    ))
}

/// Removes the partition of a budget.
pub(super) fn drop(inner: &Inner, budget: &str) -> Result<String, Error> {
    inner.vault.drop_partition(budget)?;
    Ok(format!(
        "budget {budget}: its people are no longer partitioned; the most that was charged to one cell counts for all of them"
    ))
}

/// The table that names the people of a table, if this column can partition them. Its files are
/// pinned later.
///
/// # Errors
/// As [`partition`].
pub(super) fn checked<'a>(
    catalog: &'a Catalog,
    budget: &str,
    table: &str,
    column: &str,
) -> Result<&'a Table, Error> {
    let not_private = || CatalogError::NotPrivate { table: table.to_owned() };
    known(catalog, table)?;
    let (root, _) = catalog.root(table).ok_or_else(not_private)?;
    column_of(root, column)?;
    // A file without a fingerprint is pinned in the same step.
    let is_loose = matches!(root.source, Source::File { fingerprint: None, .. });
    match cells(root, column) {
        Ok(_) => Ok(root),
        Err(_) if is_loose => Ok(root),
        Err(reason) => Err(CatalogError::Cells { budget: budget.to_owned(), reason }.into()),
    }
}

/// The table with its files pinned. `None` if they are pinned already.
fn pinned(inner: &Inner, root: &Table) -> Result<Option<Table>, Error> {
    let Source::File { fingerprint: None, .. } = &root.source else { return Ok(None) };
    let mut table = root.clone();
    let found = inner.open_files().fingerprint(&root.source)?;
    if let Source::File { fingerprint, .. } = &mut table.source {
        *fingerprint = Some(found);
    }
    Ok(Some(table))
}
