//! ALTER TABLE … SET ABOUT n PEOPLE: a number that the owner states of a table.
//!
//! In: a private table and a number that anyone may know. Out: one sentence, with the warnings that
//! follow for the budgets of its people. No row is counted.
//!
//! ```text
//! ALTER TABLE visits SET ABOUT 5000 PEOPLE   →   table visits is about 5000 people, as you state it
//! ```

use crate::catalog::{Catalog, quoted};
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;
use crate::owner::promise::warnings;

/// States about how many people a table is, or forgets it.
///
/// # Errors
/// [`Error::Catalog`] if the table is not private, or leads to the people of another one.
pub(super) fn set(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    people: Option<u64>,
) -> Result<String, Error> {
    let entry = known(catalog, table)?;
    let Some(people) = people else {
        inner.vault.set_about(table, None)?;
        return Ok(format!("table {table} no longer states about how many people it is"));
    };
    if entry.unit().is_none() {
        let name = quoted(table);
        return Err(Error::catalog(format!(
            "table {table} has no privacy unit, so it is about nobody: write ALTER TABLE {name} SET PRIVACY UNIT (column) first"
        )));
    }
    match catalog.unit_domain(table) {
        Some(domain) if domain != table => Err(Error::catalog(format!(
            "table {table} leads to the people of {domain}: write ALTER TABLE {} SET ABOUT {people} PEOPLE",
            quoted(domain)
        ))),
        Some(_) | None => {
            inner.vault.set_about(table, Some(people))?;
            let after = inner.vault.catalog()?;
            let warned: String =
                after.budgets_of(table).map(|budget| warnings(&after, budget)).collect();
            Ok(format!("table {table} is about {people} people, as you state it{warned}"))
        }
    }
}
