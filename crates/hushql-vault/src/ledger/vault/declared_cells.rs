//! The cells of a budget's people: how they are declared, dropped, and shown with their spent
//! amounts.
//!
//! In: a budget and a column. Out: the partition in the vault, beginning at the newest entry of the
//! ledger, or the amounts left in each cell.
//!
//! ```text
//! ALTER PRIVACY BUDGET b PARTITION BY region     earlier charges count for all cells
//! ```

use hushql_privacy::privacy::Spend;
use rusqlite::Connection;

use crate::catalog::cell::Partition;
use crate::catalog::cells::{cells, delete, set};
use crate::catalog::{Budget, Catalog, CatalogError, Cell, Granted, Table, numbers, quoted, store};
use crate::ledger::charging::cell_charges::{place, spent_at};
use crate::ledger::charging::moves;
use crate::ledger::charging::slice_shares::{SliceState, share_of, shares};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst::OWNER;
use crate::ledger::vault::Vault;
use crate::ledger::vault::budgets::account;

/// The amounts spent and left of a budget in one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellState {
    /// The column.
    pub column: String,
    /// The cell.
    pub cell: Cell,
    /// True if it is a month.
    pub is_month: bool,
    /// The spent amount.
    pub spent: Spend,
    /// The remaining amount.
    pub left: Spend,
}

impl Vault {
    /// Partitions the people of a budget by the values of a column, from now on. `pinned` is the
    /// table with its files fixed, if they were not fixed before. Both were decided on this
    /// snapshot.
    ///
    /// # Guarantee
    /// Earlier charges count for all cells, as much as for the most expensive of earlier cells.
    ///
    /// # Errors
    /// [`CatalogError::Cells`] if the column makes no cells, or the people are partitioned by
    /// another column; [`VaultError::Redeclared`] if anything was declared since.
    pub fn partition_budget(
        &self,
        planned: &Catalog,
        name: &str,
        column: &str,
        pinned: Option<&Table>,
    ) -> Result<(), VaultError> {
        self.declare(|connection, witness| {
            moves::redeclared(connection, witness, |before| {
                if !planned.version().is(&before.version()) {
                    return Err(VaultError::Redeclared.into());
                }
                let Some(table) = pinned else { return Ok(()) };
                numbers::touch(connection, [table.name.as_str()])?;
                Ok(store::update_table(connection, table)?)
            })?;
            let catalog = store::load(connection)?;
            let unknown = || CatalogError::UnknownBudget { budget: name.to_owned() };
            let budget = catalog.budget(name).ok_or_else(unknown)?;
            let partition = partition(&catalog, budget, column)?;
            let since = witness.mark().sequence;
            Ok(set(connection, name, &Partition { since, ..partition })?)
        })
    }

    /// Removes the partition of a budget. Its people then have one cell, with the charges of the
    /// most expensive cell.
    ///
    /// # Errors
    /// [`CatalogError::Cells`] if it has no partition, [`CatalogError::UnknownBudget`] if it does
    /// not exist.
    pub fn drop_partition(&self, budget: &str) -> Result<(), VaultError> {
        self.declare(|connection, _| match deleted(connection, budget)? {
            true => Ok(()),
            false => {
                let reason = "it has no partition".to_owned();
                Err(CatalogError::Cells { budget: budget.to_owned(), reason }.into())
            }
        })
    }

    /// The amounts spent and left of a budget in each cell, as this reader sees them. Empty if no
    /// cells are in effect.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the budget does not exist; [`VaultError::Corrupt`] if it
    /// disagrees with the ledger.
    pub fn cells_for(&self, budget: &str, reader: &str) -> Result<Vec<CellState>, VaultError> {
        self.read(|connection, witness| {
            let catalog = store::load(connection)?;
            if reader != OWNER && !catalog.is_for(reader, &Granted::Budget(budget.to_owned())) {
                return Err(CatalogError::UnknownBudget { budget: budget.to_owned() }.into());
            }
            let account = account(connection, budget)?;
            let unit_domain = catalog.unit_domain_of(&account.budget);
            let Some(cells) = catalog.cells_of(unit_domain) else { return Ok(Vec::new()) };
            let people = catalog.people(unit_domain);
            let state = |cell: Cell| -> Result<CellState, Fault> {
                let here = Some(place(&cells, &cell));
                let spent = spent_at(&account.budget, witness, &people, |_| true, here)?;
                let whole = (spent, account.budget.limit.minus(spent));
                let share = match reader == OWNER {
                    true => None,
                    false => share_of(shares(&account, witness, &people, here)?, reader),
                };
                let (spent, left) = match share {
                    Some(SliceState { spent, left, .. }) => (spent, left),
                    None => whole,
                };
                let is_month = cells.are_months && cell != Cell::Other;
                Ok(CellState { column: cells.column.to_owned(), cell, is_month, spent, left })
            };
            cells.all().into_iter().map(state).collect()
        })
    }
}

/// Deletes the partition of a budget, unless its cells are months. Returns whether there was one.
fn deleted(connection: &Connection, budget: &str) -> Result<bool, Fault> {
    let catalog = store::load(connection)?;
    let domain = catalog.budget(budget).map(|budget| catalog.unit_domain_of(budget));
    if domain.and_then(|domain| catalog.cells_of(domain)).is_some_and(|cells| cells.are_months) {
        let reason = "each month is a unit of its own, and so a cell".to_owned();
        return Err(CatalogError::Cells { budget: budget.to_owned(), reason }.into());
    }
    Ok(delete(connection, budget)?)
}

/// The partition of a budget's people by a column.
///
/// # Errors
/// [`CatalogError::Cells`], with what to write.
fn partition(catalog: &Catalog, budget: &Budget, column: &str) -> Result<Partition, CatalogError> {
    let refuse = |reason| CatalogError::Cells { budget: budget.name.clone(), reason };
    let not_private = || CatalogError::NotPrivate { table: budget.table.clone() };
    let (root, _) = catalog.root(&budget.table).ok_or_else(not_private)?;
    cells(root, column).map_err(refuse)?;
    let others = catalog.budgets_of(&root.name).filter(|other| other.name != budget.name);
    for other in others {
        let Some(known) = catalog.partition(&other.name) else { continue };
        if (known.table.as_str(), known.column.as_str()) != (root.name.as_str(), column) {
            let (name, by) = (&other.name, &known.column);
            return Err(refuse(format!(
                "the privacy budget `{name}` partitions the same people by {by}, and they have one partition: write PARTITION BY {}, or ALTER PRIVACY BUDGET {} DROP PARTITION first",
                quoted(by),
                quoted(name)
            )));
        }
    }
    Ok(Partition { table: root.name.clone(), column: column.to_owned(), since: 0 })
}
