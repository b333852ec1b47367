//! Amounts that were spent elsewhere, in another vault about the same people.
//!
//! In: a name, the least cost that counts as spent on its people, and names whose people they are too. Out: an entry of the
//! ledger for what was missing, and every budget with it. Amounts are raised, never lowered: the larger of the two counts,
//! so that the same statement may be repeated.
//!
//! ```text
//! visits: ε = 1 charged     SPENT (epsilon=3)   →   an entry of ε = 2
//! visits: ε = 3 charged     SPENT (epsilon=3)   →   nothing to do
//! ```

use rusqlite::Connection;

use crate::catalog::joins::join_unit_domains;
use crate::catalog::name::check_name;
use crate::catalog::store;
use crate::ledger::charging::moves::carry;
use crate::ledger::error::Fault;
use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::chain::{LedgerEntry, Witness, plan_hash};
use crate::ledger::records::statements;
use crate::privacy::Cost;

/// Raises what counts as spent on the people of a table to at least this cost. The caller has followed the chain.
///
/// # Guarantee
/// After `Ok`, charges on the table and on each of the other names count for the people of all of them, for good. What is
/// spent on them is at least `least`, and is returned; every budget shows what is spent. No amount has fallen.
///
/// # Errors
/// [`CatalogError::Name`](crate::catalog::CatalogError::Name) for an unusable name, and
/// [`CatalogError::Uncarried`](crate::catalog::CatalogError::Uncarried) if a budget in ε could not count an amount without
/// one. The caller rolls back.
pub(crate) fn raise(
    connection: &Connection,
    witness: &mut Witness,
    table: &str,
    together: &[String],
    least: Cost,
) -> Result<Cost, Fault> {
    let catalog = store::load(connection)?;
    let unit_domain = catalog.unit_domain(table).unwrap_or(table).to_owned();
    check_name(table)?;
    for name in together {
        check_name(name)?;
        let other = catalog.unit_domain(name).unwrap_or(name);
        for name in [table, name, other].into_iter().filter(|name| *name != unit_domain) {
            join_unit_domains(connection, &unit_domain, name)?;
        }
    }
    let catalog = store::load(connection)?;
    let people = catalog.people(&unit_domain);
    if let Some(missing) = least.beyond(witness.spent(&people)?) {
        let statement = format!("SPENT ({missing})");
        statements::keep(connection, &statement)?;
        let entry = LedgerEntry {
            sequence: 0,
            charge: 0,
            analyst: OWNER.to_owned(),
            unit_domains: vec![unit_domain.clone()],
            budgets: catalog.budgets_of(&unit_domain).map(|budget| budget.name.clone()).collect(),
            mechanism: "SPENT".to_owned(),
            parameters: "elsewhere".to_owned(),
            sensitivity: String::new(),
            cost: missing,
            plan_hash: plan_hash(&statement),
            at: None,
            statement: Some(statements::hash(&statement)),
            nonce: [0; 16],
            chain: [0; 32],
        };
        witness.append(connection, vec![entry])?;
    }
    carry(connection, witness, &catalog)?;
    witness.spent(&people)
}
