//! Updates budgets and charges when the declared tables change, in the same transaction.
//!
//! In: a change of the declared tables, and the ledger, followed to its end. Out: the change, the
//! unit domains that are now joined, and every budget with everything ever spent on the people of
//! its table. A table that leaves a unit domain after a charge takes the charge along under its own
//! name. The spent amount of a budget never falls, and no charge is forgotten.
//!
//! ```text
//! visits: 1 charged       people: 3 charged      visits VIA (patient) REFERENCES people(id)
//! budget of visits: 1     budget of people: 3    both budgets: 4, and from now on every charge on either
//! ```

use std::collections::BTreeSet;

use hushql_privacy::privacy::Spend;
use rusqlite::Connection;

use crate::catalog::joins::{carry_spent, join_unit_domains};
use crate::catalog::{Budget, Catalog, CatalogError, store};
use crate::ledger::error::Fault;
use crate::ledger::records::chain::Witness;

/// Changes declared tables and carries their charges over. `change` takes the declarations before
/// the change.
///
/// # Guarantee
/// After `Ok`, every charge made while a table was in some unit domain counts for the table's
/// present unit domain. Every budget shows the sum of the charges that count for its table's unit
/// domain. No such sum has fallen.
///
/// # Errors
/// Errors of the change itself; [`CatalogError::Declaration`] if a link would lead to no unit;
/// [`CatalogError::Uncarried`] if a budget could not count earlier charges. The caller rolls back.
pub(crate) fn redeclared(
    connection: &Connection,
    witness: &mut Witness,
    change: impl FnOnce(&Catalog) -> Result<(), Fault>,
) -> Result<(), Fault> {
    witness.advance(connection)?;
    let before = store::load(connection)?;
    change(&before)?;
    let after = store::load(connection)?;
    if let Some(table) = after.broken_link() {
        let reason = "its link does not lead to a column that names a person".to_owned();
        let table = table.name.clone();
        return Err(CatalogError::Declaration { table, reason }.into());
    }
    join(connection, witness, &before, &after)?;
    carry(connection, witness, &store::load(connection)?)
}

/// Joins the unit domains of tables that moved with those in which they were charged.
fn join(
    connection: &Connection,
    witness: &Witness,
    before: &Catalog,
    after: &Catalog,
) -> Result<(), Fault> {
    let tables = before.tables().chain(after.tables()).map(|table| table.name.as_str());
    for table in tables.collect::<BTreeSet<_>>() {
        let (left, entered) = (before.unit_domain(table), after.unit_domain(table));
        if left == entered {
            continue;
        }
        // The table's own name keeps its history. First, the name joins the unit domain that the
        // table leaves.
        if let Some(left) = left.filter(|left| *left != table)
            && witness.is_charged(&before.people(left))
        {
            join_unit_domains(connection, table, left)?;
        }
        // Then the table's new unit domain joins the name.
        if let Some(entered) = entered.filter(|entered| *entered != table)
            && witness.is_charged(&store::load(connection)?.people(table))
        {
            join_unit_domains(connection, table, entered)?;
        }
    }
    Ok(())
}

/// Writes, for every budget, the amount spent on the people of its table.
pub(crate) fn carry(
    connection: &Connection,
    witness: &Witness,
    now: &Catalog,
) -> Result<(), Fault> {
    for account in store::accounts(connection)? {
        let budget = &account.budget;
        let spent = witness.counted(budget, &now.people(now.unit_domain_of(budget)))?;
        let spent = spent.ok_or_else(|| uncarried(budget))?;
        if spent != account.spent {
            carry_spent(connection, &budget.name, spent)?;
        }
    }
    Ok(())
}

/// The error for a budget that cannot count earlier charges to people who joined its own.
fn uncarried(budget: &Budget) -> CatalogError {
    let name = budget.name.clone();
    match budget.coupon {
        Some(coupon) => {
            let coupon = Spend::of_epsilon(coupon, 0).loss_text();
            CatalogError::UncarriedCoupons { budget: name, coupon }
        }
        None => CatalogError::Uncarried { budget: name },
    }
}
