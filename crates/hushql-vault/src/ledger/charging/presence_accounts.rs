//! Accounts of people whose presence is public: what a declaration may not mix.
//!
//! In: the declarations before and after a change, and the ledger. Out: the rows that say which
//! names are counted in this way, or a refusal.
//!
//! What was charged where neighbours add or remove a person bounds less where they replace what one
//! says, and what was charged where they replace it bounds nothing of presence. Exact answers show
//! who is there, and public columns, and leave no charge. So a name that was charged keeps its kind
//! of neighbours, one whose presence was ever public stays so, with every column that was, and
//! people of both kinds never share an account.
//!
//! ```text
//! survey (id) UNIQUE, charged                SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC     refused
//! survey (id) UNIQUE PRESENCE PUBLIC         SET PRIVACY UNIT (id) UNIQUE                     refused
//! survey (id) … PUBLIC WITH (region)         SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC     refused
//! ```

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::catalog::name::check_name;
use crate::catalog::present_rows::set_present;
use crate::catalog::{Catalog, CatalogError, Table, quoted, store};
use crate::ledger::error::Fault;
use crate::ledger::records::chain::Witness;

/// Checks the units of changed declarations whose presence is public, and stores which names they
/// count. The caller holds the write lock.
///
/// # Guarantee
/// After `Ok`, all charges on the name of a table whose presence is public were made for neighbours
/// that replace what one person says, all charges on the name of another private table for
/// neighbours that add or remove, and no other name counts for the people of the former. No name
/// protects a presence, or a column, that an earlier declaration under this name made public.
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
        let counted = catalog.counts_present(&table.name);
        let Some((person, public)) = unit.present() else {
            if counted {
                refuse(format!(
                    "this name protects what people say, and not that they are in it, which exact answers may have shown: write SET PRIVACY UNIT (column) UNIQUE PRESENCE PUBLIC, or CREATE EXTERNAL TABLE under another name for the unit {}",
                    unit.declaration()
                ))?;
            }
            continue;
        };
        if let Some(reason) = unjoined(&catalog, table) {
            refuse(reason)?;
        }
        if !counted && charged {
            refuse(other_neighbours(person))?;
        }
        let mut known: BTreeSet<String> = public.iter().cloned().collect();
        known.insert(person.to_owned());
        let before = catalog.ever_public(&table.name);
        let is_hidden = |name: &&String| !known.contains(*name) && table.column(name).is_some();
        if let Some(hidden) = before.into_iter().flatten().find(is_hidden) {
            let ever = before.into_iter().flatten().filter(|name| table.column(name).is_some());
            let all = ever.chain(public).filter(|name| *name != person);
            let all: BTreeSet<String> = all.map(|name| quoted(name)).collect();
            refuse(format!(
                "{0} was public, and exact answers may have shown it: add it to WITH (…), as in SET PRIVACY UNIT ({1}) UNIQUE PRESENCE PUBLIC WITH ({2})",
                quoted(hidden),
                quoted(person),
                all.into_iter().collect::<Vec<_>>().join(", ")
            ))?;
        }
        known.extend(before.into_iter().flatten().cloned());
        if before != Some(&known) {
            set_present(connection, &table.name, known)?;
        }
    }
    for name in catalog.present_names() {
        let own = [name.to_owned()].into();
        if witness.is_charged(&own) && catalog.people(name).len() > 1 {
            let reason = "its charges protect what people say, and those of other names that they are there: declare SPENT without TOGETHER WITH".to_owned();
            return Err(CatalogError::Declaration { table: name.to_owned(), reason }.into());
        }
    }
    Ok(())
}

/// Stores that a name is counted in this way, before an amount is declared as spent on it.
///
/// # Errors
/// [`CatalogError::Declaration`] if it was charged for neighbours that add or remove.
pub(crate) fn count(connection: &Connection, witness: &Witness, name: &str) -> Result<(), Fault> {
    check_name(name)?;
    let catalog = store::load(connection)?;
    if !catalog.counts_present(name) && witness.is_charged(&catalog.people(name)) {
        let (table, reason) = (name.to_owned(), other_neighbours("person"));
        return Err(CatalogError::Declaration { table, reason }.into());
    }
    let known = catalog.ever_public(name).cloned().unwrap_or_default();
    Ok(set_present(connection, name, known)?)
}

/// Why charges on a name bound less where presence is public.
fn other_neighbours(person: &str) -> String {
    let person = quoted(person);
    format!(
        "what was charged to this name was charged for neighbours that add or remove a person, and one budget never mixes them with neighbours that replace what a person says: keep SET PRIVACY UNIT ({person}) UNIQUE, or declare ({person}) UNIQUE PRESENCE PUBLIC in a new vault"
    )
}

/// Why the presence of a table's people cannot be public, if its declarations contradict that.
fn unjoined(catalog: &Catalog, table: &Table) -> Option<String> {
    let name = quoted(&table.name);
    let people = catalog.people(&table.name);
    let others: Vec<&str> =
        people.iter().filter(|other| **other != table.name).map(String::as_str).collect();
    if !others.is_empty() {
        return Some(format!(
            "its people are those of {} too, where it is private who is there: declare PRESENCE PUBLIC in a vault of its own",
            others.join(", ")
        ));
    }
    if let Some(other) = catalog.referring(&table.name).next() {
        return Some(format!(
            "{} leads to its people, and what a person may change there is not derived for public presence: write ALTER TABLE {} DROP PRIVACY UNIT first",
            other.name,
            quoted(&other.name)
        ));
    }
    let floor = catalog.floors_of(&table.name, [table.name.as_str()]).into_iter().next();
    if let Some(floor) = floor {
        return Some(format!(
            "the floor of {} hides how many people there are, which is public here: write ALTER TABLE {name} DROP PRIVACY FLOOR, or ALTER PRIVACY BUDGET … DROP PER QUERY, first",
            floor.set_by
        ));
    }
    let budget = catalog.budgets_of(&table.name).find(|b| catalog.partition(&b.name).is_some());
    budget.map(|budget| {
        format!(
            "the cells of the budget {0} are those of people who may change their cell here: write ALTER PRIVACY BUDGET {0} DROP PARTITION first",
            quoted(&budget.name)
        )
    })
}
