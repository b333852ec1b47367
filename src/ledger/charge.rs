//! A statement's cost, compared with every budget it touches and added to all of them or to none.
//!
//! A [`ChargeRequest`] goes in; a [`Charge`], or the same as a preview, comes out. The caller of
//! [`pay`] holds the write lock of the file, so that nothing happens between the comparison and the
//! addition. Everything here is decided from the request and the ledger, never from data: a charge is the
//! same on neighbouring databases.
//!
//! ```text
//! losses of a statement, exact      each rounded up once      added up          every budget of every space
//! ⅓ and ⅓                       →   0.333333334, twice    →   0.666666668   →   spent + 0.666666668 ≤ limit ?
//! ```
//!
//! The same is done with ρ, for the budgets that count in it. That comparison is a *filter*: it holds for questions
//! that were chosen after seeing the answers before them, and then all that was ever charged is (ε, δ)-private, or
//! δ-approximately ρ-zCDP, for the limit's ε or ρ and δ (Dwork, Rothblum, Vadhan 2010; Whitehouse, Ramdas, Rogers,
//! Wu 2023).

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use super::chain::{LedgerEntry, Witness};
use super::error::{Fault, VaultError};
use super::statements;
use crate::catalog::store::{self, Account};
use crate::catalog::{Budget, Catalog};
use crate::privacy::{Cost, Loss, Notion, Spend};

/// What a statement is about to release, and at what loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeRequest {
    /// Who asks.
    pub analyst: String,
    /// The hash of the plan; see [`plan_hash`](super::plan_hash).
    pub plan_hash: [u8; 32],
    /// The text of the statement, as it was written.
    pub statement: String,
    /// The releases; each becomes an entry of the ledger.
    pub entries: Vec<ChargeEntry>,
    /// The unit spaces of all private tables that any of the releases reads.
    pub spaces: Vec<String>,
    /// The declarations that the statement was planned with. They are compared with today's when it is charged.
    pub catalog: Arc<Catalog>,
}

impl ChargeRequest {
    /// What is owed.
    fn due(&self) -> Due {
        let losses = self.entries.iter().map(|entry| entry.loss.clone()).collect();
        Due { plan_hash: self.plan_hash, losses, spaces: self.spaces.clone() }
    }
}

/// What a statement owes. A payment is for what owes the same, so that nobody pays for one release and runs another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The hash of the plan.
    pub plan_hash: [u8; 32],
    /// The exact loss of every release, in their order.
    pub losses: Vec<Loss>,
    /// The unit spaces of all private tables that are read.
    pub spaces: Vec<String>,
}

/// One release of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeEntry {
    /// The mechanism, such as `LAPLACE`.
    pub mechanism: String,
    /// Its parameters, such as `eps=1`.
    pub parameters: String,
    /// The sensitivity that it is calibrated to.
    pub sensitivity: String,
    /// Its exact loss.
    pub loss: Loss,
}

/// The proof that a statement was paid for, durably.
///
/// It is made by [`Vault::charge`](super::Vault::charge) alone and cannot be copied: one payment, one
/// execution.
///
/// ```compile_fail
/// fn twice(charge: &hushql::ledger::Charge) -> hushql::ledger::Charge {
///     charge.clone()
/// }
/// ```
#[derive(Debug)]
#[must_use = "a charge that is not executed is paid for nothing"]
pub struct Charge {
    sequence: i64,
    due: Due,
    spend: Cost,
    left: Vec<(String, Spend)>,
}

impl Charge {
    /// Whether this is what was paid for.
    ///
    /// # Guarantee
    /// True only for the same plan with the same exact losses over the same unit spaces.
    pub fn settles(&self, due: &Due) -> bool {
        self.due == *due
    }

    /// What was charged to each budget, in the notions that the budgets count in.
    ///
    /// # Guarantee
    /// At least the exact sum of the losses in the request; exactly the sum of the entries in the ledger.
    pub fn spend(&self) -> Cost {
        self.spend
    }

    /// The number of its first entry in the ledger.
    pub fn sequence(&self) -> i64 {
        self.sequence
    }

    /// What each budget had left right after this charge, by name.
    pub fn left(&self) -> &[(String, Spend)] {
        &self.left
    }
}

/// What a charge would do to a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetQuote {
    /// The budget.
    pub budget: String,
    /// Its limit.
    pub limit: Spend,
    /// The (ε, δ) that its limit was derived from, with `ACCOUNTANT ZCDP`.
    pub promise: Option<Spend>,
    /// What is spent now.
    pub spent: Spend,
    /// What would be spent after the charge.
    pub after: Spend,
}

/// All budgets, with what is spent of them proven by the ledger.
///
/// # Guarantee
/// `Ok` only if the amount beside every budget is the sum of the ledger's entries that count for the unit space of its
/// table. The catalog must be current, and the witness must have been advanced, in the same transaction.
pub(super) fn accounts(
    connection: &Connection,
    witness: &Witness,
    catalog: &Catalog,
) -> Result<Vec<Account>, Fault> {
    let accounts = store::accounts(connection)?;
    for Account { budget, spent, .. } in &accounts {
        let charged = witness.spent(&catalog.people(catalog.space_of(budget)))?;
        if charged.within(budget.limit.notion) != Some(*spent) {
            return Err(Fault::Damage("a budget disagrees with the ledger".to_owned()));
        }
    }
    Ok(accounts)
}

/// Checks a request against every budget it touches; changes nothing.
///
/// # Guarantee
/// `Ok` only if what is declared is what the request was planned with, every unit space of the request has a budget, the cost
/// is neither below a budget's minimum per query nor above its maximum, and every budget holds the whole cost, in the
/// notion that it counts in.
pub(super) fn quote(
    connection: &Connection,
    witness: &Witness,
    request: &ChargeRequest,
) -> Result<Vec<BudgetQuote>, Fault> {
    Ok(price(connection, witness, request)?.budgets)
}

/// A request that every budget holds.
struct Price {
    entries: Vec<LedgerEntry>,
    asked: Cost,
    budgets: Vec<BudgetQuote>,
}

fn price(
    connection: &Connection,
    witness: &Witness,
    request: &ChargeRequest,
) -> Result<Price, Fault> {
    let catalog = &request.catalog;
    if !catalog.version().is(&store::version(connection)?) {
        return Err(VaultError::Redeclared.into());
    }
    let spaces: BTreeSet<&String> = request.spaces.iter().collect();
    if spaces.is_empty() || request.entries.is_empty() {
        return Err(VaultError::EmptyCharge.into());
    }
    let mut asked = Cost::zero();
    let mut rounded = Vec::with_capacity(request.entries.len());
    for entry in &request.entries {
        let cost = Cost::round_up(&entry.loss)?;
        if cost.is_nothing() {
            return Err(VaultError::EmptyCharge.into());
        }
        asked = asked.plus(cost)?;
        rounded.push(cost);
    }

    let accounts = accounts(connection, witness, catalog)?;
    let binds = |account: &Account, space: &str| {
        catalog.same_people(catalog.space_of(&account.budget), space)
    };
    for space in &spaces {
        if !accounts.iter().any(|account| binds(account, space)) {
            return Err(VaultError::NoBudget { table: (*space).clone() }.into());
        }
    }
    let touched: Vec<&Account> = accounts
        .iter()
        .filter(|account| spaces.iter().any(|space| binds(account, space)))
        .collect();
    // A budget counts what it can: a release without an (ε, δ) cannot be charged to one in ε.
    let within = |budget: &Budget| {
        let uncounted = || VaultError::NoEpsilon { budget: budget.name.clone() };
        asked.within(budget.limit.notion).ok_or_else(uncounted)
    };
    check_minimum(&touched, within)?;
    for Account { budget, .. } in &touched {
        let asked = within(budget)?;
        if !budget.per_query.allows(asked) {
            let most = budget.per_query.most_text(asked.notion);
            return Err(VaultError::OverMax { budget: budget.name.clone(), asked, most }.into());
        }
    }
    let mut budgets = Vec::with_capacity(touched.len());
    for Account { budget, spent, .. } in &touched {
        let asked = within(budget)?;
        let (name, limit, promise) = (budget.name.clone(), budget.limit, budget.promise);
        let left = limit.minus(*spent);
        if !left.pays(asked) {
            return Err(VaultError::Exhausted { budget: name, asked, left }.into());
        }
        let after = spent.plus(asked)?;
        budgets.push(BudgetQuote { budget: name, limit, promise, spent: *spent, after });
    }
    let notions: Vec<Notion> = budgets.iter().map(|quote| quote.limit.notion).collect();

    let spaces: Vec<String> = spaces.into_iter().cloned().collect();
    let names: Vec<String> = budgets.iter().map(|quote| quote.budget.clone()).collect();
    let statement = statements::hash(&request.statement);
    let entries = request.entries.iter().zip(rounded).map(|(entry, cost)| LedgerEntry {
        sequence: 0,
        charge: 0,
        analyst: request.analyst.clone(),
        spaces: spaces.clone(),
        budgets: names.clone(),
        mechanism: entry.mechanism.clone(),
        parameters: entry.parameters.clone(),
        sensitivity: entry.sensitivity.clone(),
        cost,
        plan_hash: request.plan_hash,
        at: None,
        statement: Some(statement),
        nonce: [0; 16],
        chain: [0; 32],
    });
    Ok(Price { entries: entries.collect(), asked: asked.counted_in(&notions), budgets })
}

/// Refuses a cost below the minimum per query of one of these budgets, and names the one that wants the most.
fn check_minimum(
    touched: &[&Account],
    within: impl Fn(&Budget) -> Result<Spend, VaultError>,
) -> Result<(), Fault> {
    let mut most: Option<(&Budget, Spend, Spend)> = None;
    for Account { budget, .. } in touched {
        let asked = within(budget)?;
        let Some(least) = budget.per_query.least(asked.notion) else { continue };
        let is_more = most.is_none_or(|(.., known)| known.nano < least.nano);
        if !budget.per_query.is_reached_by(asked) && is_more {
            most = Some((budget, asked, least));
        }
    }
    match most {
        Some((budget, asked, least)) => {
            Err(VaultError::UnderMin { budget: budget.name.clone(), asked, least }.into())
        }
        None => Ok(()),
    }
}

/// Charges a request. The result is worth nothing before the caller's commit has succeeded.
///
/// # Guarantee
/// `Ok` only if [`quote`] would be, and then every touched budget has grown by the whole cost and the
/// ledger by the request's entries; the caller rolls back on an error, so that nothing has changed.
pub(super) fn pay(
    connection: &Connection,
    witness: &mut Witness,
    request: &ChargeRequest,
) -> Result<Charge, Fault> {
    let Price { entries, asked, budgets } = price(connection, witness, request)?;
    statements::keep(connection, &request.statement)?;
    let sequence = witness.append(connection, entries)?;
    for quote in &budgets {
        store::set_spent(connection, &quote.budget, quote.after)?;
    }
    let left = budgets.into_iter().map(|quote| {
        let left = quote.limit.minus(quote.after);
        (quote.budget, left)
    });
    Ok(Charge { sequence, due: request.due(), spend: asked, left: left.collect() })
}
