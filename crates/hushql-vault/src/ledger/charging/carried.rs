//! Amounts that were spent in another vault on the same people.
//!
//! In: a name, the least cost that counts as spent on its people, and other names of the same
//! people. Out: a ledger entry for the missing amount, and the updated budgets. Amounts are raised,
//! never lowered: the larger one counts, so the same statement can be repeated.
//!
//! ```text
//! visits: ε = 1 charged     SPENT (epsilon=3)   →   an entry of ε = 2
//! visits: ε = 3 charged     SPENT (epsilon=3)   →   nothing to do
//! visits: nothing charged   SPENT (epsilon=0.12, releases=3, dearest=0.05)   →   entries of ε = 0.05, 0.035 and 0.035
//! ```

use hushql_privacy::privacy::{Cost, Notion, ParameterError, Tally};
use rusqlite::Connection;

use crate::catalog::cell::Partition;
use crate::catalog::joins::join_unit_domains;
use crate::catalog::name::check_name;
use crate::catalog::{Catalog, cells, store};
use crate::ledger::charging::moves::carry;
use crate::ledger::error::Fault;
use crate::ledger::records::analyst::{self, OWNER};
use crate::ledger::records::chain::{LedgerEntry, Witness, plan_hash};
use crate::ledger::records::kinds::SPENT;
use crate::ledger::records::statements;
use crate::ledger::records::sums::EntrySum;

/// Spending in another vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    /// The total cost of its releases.
    pub cost: Cost,
    /// The number of releases, and the largest ε of one of them. Without it, they count as one
    /// release.
    pub tally: Option<Tally>,
}

impl From<Cost> for Elsewhere {
    /// Counts as one release.
    fn from(cost: Cost) -> Self {
        Self { cost, tally: None }
    }
}

/// The largest number of entries that one SPENT can add.
const MOST: i64 = 100_000;

/// Raises the spent amount on the people of a table, by everyone or by one analyst, to at least
/// this cost. The caller has followed the chain, and checked the analyst's name.
///
/// # Guarantee
/// After `Ok`, charges on the table and on each of the other names permanently count for the people
/// of all of them. The amount spent on each of them, by the analyst if one is named, is at least
/// `least`, whatever their cells, and the amount spent on the people of the dearest cell is
/// returned. Every budget shows its spent amount. No amount has fallen. If `least` has a
/// tally, then at least as many releases count, the most expensive has at least that ε, and no
/// added release has a larger one.
///
/// # Errors
/// [`CatalogError::Name`](crate::catalog::CatalogError::Name) for an unusable name, and
/// [`CatalogError::Uncarried`](crate::catalog::CatalogError::Uncarried) if a budget in ε could not
/// count an amount without one. The caller rolls back.
pub(crate) fn raise(
    connection: &Connection,
    witness: &mut Witness,
    (table, by): (&str, Option<&str>),
    together: &[String],
    least: Elsewhere,
) -> Result<Cost, Fault> {
    let is_meant = |analyst: &str| by.is_none_or(|by| by == analyst);
    let payer = by.unwrap_or(OWNER);
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
    let everywhere = witness.sum_everywhere(&catalog, &people, is_meant)?;
    let catalog = match missing(least, everywhere)?.is_empty() {
        true => catalog,
        false => folded(connection, witness, &catalog, &unit_domain)?,
    };
    let missing = missing(least, witness.sum_everywhere(&catalog, &people, is_meant)?)?;
    if let Some(first) = missing.first() {
        let all = missing.iter().try_fold(Cost::zero(), |sum, cost| sum.plus(*cost))?;
        let all = if missing.len() == 1 { *first } else { all };
        let statement = format!("SPENT ({all})");
        let hash = statements::keep(connection, &statement)?;
        analyst::add(connection, payer)?;
        let entries = missing.iter().map(|cost| LedgerEntry {
            sequence: 0,
            charge: 0,
            analyst: payer.to_owned(),
            unit_domains: vec![unit_domain.clone()],
            budgets: catalog.budgets_of(&unit_domain).map(|budget| budget.name.clone()).collect(),
            mechanism: SPENT.to_owned(),
            parameters: "elsewhere".to_owned(),
            sensitivity: String::new(),
            cost: *cost,
            plan_hash: plan_hash(&statement),
            at: 0,
            cells: None,
            statement: hash,
            nonce: [0; 16],
            chain: [0; 32],
        });
        witness.append(connection, entries.collect())?;
    }
    carry(connection, witness, &catalog)?;
    Ok(witness.sum_by(&people, is_meant)?.cost)
}

/// Begins the cells of these people anew, so that what was charged to one of them counts for all:
/// nobody knows which of them an amount from elsewhere was spent on. Returns the declarations
/// afterwards.
fn folded(
    connection: &Connection,
    witness: &Witness,
    catalog: &Catalog,
    unit_domain: &str,
) -> Result<Catalog, Fault> {
    for budget in catalog.budgets_of(unit_domain) {
        if let Some(partition) = catalog.partition(&budget.name) {
            let since = witness.mark().sequence;
            cells::set(connection, &budget.name, &Partition { since, ..partition.clone() })?;
        }
    }
    Ok(store::load(connection)?)
}

/// An amount divided by a number, rounded up; 0 if the number is 0.
fn ceil_share(amount: i64, number: i64) -> i64 {
    let down = amount.checked_div(number).unwrap_or(0);
    let rest = amount.checked_rem(number).unwrap_or(0);
    down.saturating_add(i64::from(rest > 0))
}

/// The entries to add to a present cost and tally; none if both suffice.
///
/// # Guarantee
/// The present cost plus that of the entries is at least `least`. With a tally, the number of
/// entries and the largest ε are at least those of the tally, and no entry has a larger ε. An entry
/// that stands for several releases elsewhere counts as one release of its ε: their composition is
/// as private as one such release.
fn missing(least: Elsewhere, present: EntrySum) -> Result<Vec<Cost>, ParameterError> {
    let EntrySum { cost, tally: present } = present;
    let beyond = least.cost.beyond(cost);
    let Some(tally) = least.tally else { return Ok(beyond.into_iter().collect()) };
    let beyond_of = |notion| beyond.and_then(|cost| cost.within(notion));
    let parts = |notion| beyond_of(notion).map_or((0, 0), |part| (part.nano, part.atto_delta));
    let has_epsilon = beyond.is_none() || beyond_of(Notion::Approximate).is_some();
    let (epsilon, rho) = (parts(Notion::Approximate), parts(Notion::Concentrated));
    // Without an ε, it does not count in coupons.
    if !has_epsilon {
        return Ok(beyond.into_iter().collect());
    }
    let dearer = tally.dearest > present.dearest;
    let shares = ceil_share(epsilon.0, tally.dearest);
    let number = tally.releases.saturating_sub(present.releases).max(shares);
    let number = number.max(i64::from(dearer || beyond.is_some()));
    if number > MOST {
        return Err(ParameterError::Overflow);
    }
    let mut left = epsilon.0;
    let mut entries = Vec::new();
    for at in 0..number {
        let even = ceil_share(left, number.saturating_sub(at));
        let own = if at == 0 && dearer { tally.dearest } else { even };
        left = left.saturating_sub(own).max(0);
        let (delta, rho) = if at == 0 { (epsilon.1, rho) } else { (0, (0, 0)) };
        entries.push(Cost::from_amounts(Some((own, delta)), rho));
    }
    Ok(entries)
}
