//! Accounts whose units are months of people: what a declaration may not mix, and the cells that
//! every budget has.
//!
//! In: the declarations before and after a change, and the ledger. Out: the rows that say which
//! names are counted by months, the partition of each of their budgets, or a refusal.
//!
//! What was charged for whole persons bounds nothing for a month: to take one month of a person
//! away replaces the person's rows by fewer ones. What was charged for months bounds one month, and
//! a person may have rows in many. So a name that was charged keeps the kind of its unit.
//!
//! ```text
//! visits (patient), charged            SET PRIVACY UNIT (patient) PER MONTH OF (visited_at)     refused
//! visits (patient) PER MONTH OF (d)    CREATE OR REPLACE …, SET PRIVACY UNIT (patient)          refused, once charged
//! ```

use rusqlite::Connection;

use crate::catalog::cell::Partition;
use crate::catalog::cells;
use crate::catalog::month_units::MonthUnit;
use crate::catalog::name::check_name;
use crate::catalog::store::set_months;
use crate::catalog::{Catalog, CatalogError, Table, Unit, quoted, store};
use crate::ledger::error::Fault;
use crate::ledger::records::chain::Witness;

/// Checks the units in time of changed declarations, stores which names they count, and gives each
/// budget of such a table its months as cells. The caller holds the write lock, and is about to
/// give changed cells a new beginning.
///
/// # Guarantee
/// After `Ok`, all charges on the name of a table whose unit is a month of a person were made for
/// the same units, all charges on the name of another private table for others, and no other name
/// counts for the people of such a table.
///
/// # Errors
/// [`CatalogError::Declaration`], with what to write.
pub(crate) fn keep(connection: &Connection, witness: &mut Witness) -> Result<(), Fault> {
    witness.advance(connection)?;
    let catalog = store::load(connection)?;
    for table in catalog.tables() {
        let Some(unit) = table.unit() else { continue };
        let refuse = |reason: String| {
            Err::<(), Fault>(CatalogError::Declaration { table: table.name.clone(), reason }.into())
        };
        let charged = witness.is_charged(&catalog.people(&table.name));
        let counted = catalog.counted_months(&table.name);
        let Some((person, date)) = unit.month() else {
            match (counted, charged) {
                (None, _) => {}
                (Some(_), false) => set_months(connection, &table.name, None)?,
                (Some(MonthUnit { person, date }), true) => refuse(format!(
                    "what was charged to this name protects one month of a person, and a person with rows in many months would lose more: write SET PRIVACY UNIT ({}) PER MONTH OF ({}), or CREATE EXTERNAL TABLE under another name for other people",
                    quoted(person),
                    quoted(date)
                ))?,
            }
            continue;
        };
        if let Some(reason) = unjoined(&catalog, table) {
            refuse(reason)?;
        }
        let own = MonthUnit { person: person.to_owned(), date: date.to_owned() };
        match (counted == Some(&own), charged) {
            (true, _) => {}
            (false, false) => set_months(connection, &table.name, Some(own.clone()))?,
            (false, true) => refuse(other_units(&own))?,
        }
    }
    for (name, ..) in catalog.month_names() {
        if witness.is_charged(&[name.to_owned()].into()) && catalog.people(name).len() > 1 {
            let reason = "its charges are for months of people, and those of other names are not: declare SPENT without TOGETHER WITH".to_owned();
            return Err(CatalogError::Declaration { table: name.to_owned(), reason }.into());
        }
    }
    with_cells(connection, witness, &store::load(connection)?)
}

/// Stores that a name is counted by months, before an amount is declared as spent on it.
///
/// # Errors
/// [`CatalogError::Declaration`] if it was charged for other units.
pub(crate) fn count(
    connection: &Connection,
    witness: &Witness,
    name: &str,
    (person, date): (&str, &str),
) -> Result<(), Fault> {
    check_name(name)?;
    let catalog = store::load(connection)?;
    let own = MonthUnit { person: person.to_owned(), date: date.to_owned() };
    let is_known = catalog.counted_months(name) == Some(&own);
    if !is_known && (person == date || witness.is_charged(&catalog.people(name))) {
        let (table, reason) = (name.to_owned(), other_units(&own));
        return Err(CatalogError::Declaration { table, reason }.into());
    }
    Ok(set_months(connection, name, Some(own))?)
}

/// Why charges on a name bound nothing for months of people.
fn other_units(MonthUnit { person, date }: &MonthUnit) -> String {
    format!(
        "what was charged to this name was charged for other units, and bounds nothing for the month of a person ({}, {}): keep the unit that it has, or declare these months in a new vault",
        quoted(person),
        quoted(date)
    )
}

/// Why a table cannot have months of people as its units, if its declarations contradict that.
fn unjoined(catalog: &Catalog, table: &Table) -> Option<String> {
    let name = quoted(&table.name);
    let others: Vec<String> =
        catalog.people(&table.name).iter().filter(|other| **other != table.name).cloned().collect();
    if !others.is_empty() {
        return Some(format!(
            "its people are those of {} too, and charges there are not charges to a month: declare the months in a vault of their own",
            others.join(", ")
        ));
    }
    if let Some(other) = catalog.referring(&table.name).next() {
        return Some(format!(
            "{} leads to its people, and has no month: write ALTER TABLE {} DROP PRIVACY UNIT first",
            other.name,
            quoted(&other.name)
        ));
    }
    let floor = catalog.floors_of(&table.name, [table.name.as_str()]).into_iter().next();
    floor.map(|floor| {
        format!(
            "the floor of {} counts people, and one person may be many of these units: write ALTER TABLE {name} DROP PRIVACY FLOOR, or ALTER PRIVACY BUDGET … DROP PER QUERY, first",
            floor.set_by
        )
    })
}

/// Partitions the budgets of tables whose units are months of people by these months.
fn with_cells(connection: &Connection, witness: &Witness, catalog: &Catalog) -> Result<(), Fault> {
    for budget in catalog.budgets() {
        let Some(root) = catalog.table(catalog.unit_domain_of(budget)) else { continue };
        let Some((_, date)) = root.unit().and_then(Unit::month) else { continue };
        let known = catalog.partition(&budget.name);
        if known.is_some_and(|known| known.table == root.name && known.column == date) {
            continue;
        }
        let (table, column) = (root.name.clone(), date.to_owned());
        let since = witness.mark().sequence;
        cells::set(connection, &budget.name, &Partition { table, column, since })?;
    }
    Ok(())
}
