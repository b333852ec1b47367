//! Compares the cost of a statement with every affected budget, and adds it to all of them or to
//! none.
//!
//! In: a [`ChargeRequest`]. Out: a [`Charge`], or a preview of it. The caller of [`pay`] holds the
//! write lock of the file, so nothing can change between the comparison and the addition. All
//! decisions depend on the request and the ledger, never on data: a charge is the same on
//! neighbouring databases.
//!
//! ```text
//! losses of a statement, exact      each rounded up once      added up          every budget of every unit domain
//! ⅓ and ⅓                       →   0.333333334, twice    →   0.666666668   →   spent + 0.666666668 ≤ limit ?
//! ```
//!
//! Budgets in ρ do the same with ρ. Budgets of coupons count entries, each with an ε of at most
//! that of a coupon. The comparison is a *privacy filter*: analysts may choose each query after
//! seeing earlier answers, and all charged releases together are still (ε, δ)-private, or
//! δ-approximately ρ-zCDP, for the ε or ρ and the δ of the limit (Dwork, Rothblum, Vadhan 2010;
//! Whitehouse, Ramdas, Rogers, Wu 2023).

use std::collections::BTreeSet;
use std::sync::Arc;

use hushql_privacy::privacy::{Cost, Loss, Notion, Spend, Tally};
use rusqlite::Connection;

use crate::catalog::cells::Cells;
use crate::catalog::store::{self, Account};
use crate::catalog::{Budget, Catalog, Cell, SliceOf, Touched};
use crate::ledger::charging::caps::{self, ChargeCaps};
use crate::ledger::charging::cell_charges::{
    Landing, check_beginning, landings, narrowed, place, spent_at,
};
use crate::ledger::charging::slice_shares::{SliceState, share_of, shares};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::chain::{LedgerEntry, Witness};
use crate::ledger::records::draw_records::BuiltOn;
use crate::ledger::records::sums::{CellOfPeople, EntrySum, REFINED};
use crate::ledger::records::{draw_records, drift, quota, statements};

/// The planned releases of a statement, with their privacy losses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeRequest {
    /// The analyst who asks.
    pub analyst: String,
    /// The hash of the plan; see [`plan_hash`](crate::ledger::plan_hash).
    pub plan_hash: [u8; 32],
    /// The text of the statement, as written.
    pub statement: String,
    /// The releases; each becomes an entry of the ledger.
    pub entries: Vec<ChargeEntry>,
    /// Whether the statement also shows answers that were paid for before. They are not part of the
    /// charge, and a refusal says so.
    pub shows_again: bool,
    /// The unit domains of all private tables that the releases read.
    pub unit_domains: Vec<String>,
    /// The private tables whose rows the releases read. A table on which a charged statement failed
    /// is refused.
    pub tables: BTreeSet<String>,
    /// The declarations with which the statement was planned. The charge compares them with the
    /// present ones.
    pub catalog: Arc<Catalog>,
    /// The most that the session may spend.
    pub caps: ChargeCaps,
    /// The kept draws that releases are built on, one for each entry of [`REFINED`].
    pub built_on: Vec<BuiltOn>,
}

impl ChargeRequest {
    /// The debt that this request pays.
    fn due(&self) -> Due {
        let losses = self.entries.iter().map(|entry| entry.loss.clone()).collect();
        Due { plan_hash: self.plan_hash, losses, unit_domains: self.unit_domains.clone() }
    }
}

/// The debt of a statement. A charge pays only for an equal debt, so no one can pay for one release
/// and run another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The hash of the plan.
    pub plan_hash: [u8; 32],
    /// The exact loss of each release, in order.
    pub losses: Vec<Loss>,
    /// The unit domains of all private tables that the statement reads.
    pub unit_domains: Vec<String>,
}

/// One release of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeEntry {
    /// The mechanism, such as `LAPLACE`.
    pub mechanism: String,
    /// Its parameters, such as `eps=1`.
    pub parameters: String,
    /// The sensitivity to which its noise is calibrated.
    pub sensitivity: String,
    /// Its exact loss.
    pub loss: Loss,
    /// Whether it is computed from the draw of an earlier entry, which has the loss of both.
    pub shared: bool,
    /// The cells to which alone it is charged: all rows that it reads belong to units in these
    /// cells. `None` for all cells.
    pub cells: Option<Touched>,
}

/// The proof of a durable payment for a statement.
///
/// Only [`Vault::charge`](crate::ledger::Vault::charge) makes one, and it cannot be copied: one
/// payment allows one execution.
///
/// ```compile_fail
/// fn twice(charge: &hushql_vault::ledger::Charge) -> hushql_vault::ledger::Charge {
///     charge.clone()
/// }
/// ```
#[derive(Debug)]
#[must_use = "a charge without an execution pays for nothing"]
pub struct Charge {
    sequence: i64,
    due: Due,
    spend: Cost,
    left: Vec<(String, Spend)>,
}

impl Charge {
    /// Whether the charge pays for this debt.
    ///
    /// # Guarantee
    /// True only for the same plan with the same exact losses over the same unit domains.
    pub fn settles(&self, due: &Due) -> bool {
        self.due == *due
    }

    /// The amount charged to each budget, in the notions in which the budgets count.
    ///
    /// # Guarantee
    /// At least the exact sum of the losses in the request; exactly the sum of the entries in the
    /// ledger.
    pub fn spend(&self) -> Cost {
        self.spend
    }

    /// The number of its first entry in the ledger.
    pub fn sequence(&self) -> i64 {
        self.sequence
    }

    /// The remainder of each budget directly after this charge, by name.
    pub fn left(&self) -> &[(String, Spend)] {
        &self.left
    }
}

/// The effect of a possible charge on a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetQuote {
    /// The budget.
    pub budget: String,
    /// The slice that pays, if the budget has slices. The amounts are then those of the slice.
    pub slice: Option<SliceOf>,
    /// The charged cell with the least left, with its column, if not all cells are charged. The
    /// amounts are then those of this cell.
    pub cell: Option<String>,
    /// Its limit.
    pub limit: Spend,
    /// The (ε, δ) from which its accountant derived its limit.
    pub promise: Option<Spend>,
    /// The ε of a coupon, in 10⁻⁹, if it counts coupons.
    pub coupon: Option<i64>,
    /// The amount spent now.
    pub spent: Spend,
    /// The amount spent after the charge.
    pub after: Spend,
}

/// All budgets, with spent amounts that agree with the ledger.
///
/// # Guarantee
/// `Ok` only if the spent amount of every budget is the sum of the ledger's entries that count for
/// the unit domain of its table. The catalog must be current, and the witness must have advanced in
/// the same transaction.
pub(crate) fn accounts(
    connection: &Connection,
    witness: &Witness,
    catalog: &Catalog,
) -> Result<Vec<Account>, Fault> {
    let accounts = store::accounts(connection)?;
    for Account { budget, spent, .. } in &accounts {
        check_beginning(witness, catalog.cells_of(catalog.unit_domain_of(budget)))?;
        let charged = witness.counted(budget, &catalog.people(catalog.unit_domain_of(budget)))?;
        if charged != Some(*spent) {
            return Err(Fault::Damage("a budget disagrees with the ledger".to_owned()));
        }
    }
    Ok(accounts)
}

/// Checks a request against every affected budget, and changes nothing.
///
/// # Guarantee
/// `Ok` only if all of these hold:
/// - The declarations are those with which the request was planned.
/// - None of its tables has a note of a charged statement that failed on its files.
/// - Every unit domain of the request has a budget, and the analyst may use all of its budgets.
/// - The cost is neither below a budget's minimum per query nor above its maximum.
/// - The cost is within the caps of the session.
/// - Every budget, and the analyst's share of it, can pay the whole cost in its notion, in every
///   cell that is charged.
pub(crate) fn quote(
    connection: &Connection,
    witness: &Witness,
    request: &ChargeRequest,
) -> Result<Vec<BudgetQuote>, Fault> {
    Ok(price(connection, witness, request)?.budgets)
}

/// A request that every budget can pay.
struct Price {
    entries: Vec<LedgerEntry>,
    asked: Cost,
    budgets: Vec<BudgetQuote>,
    /// The budgets, and the names whose charges count for their people.
    charged: Vec<(Budget, BTreeSet<String>)>,
}

fn price(
    connection: &Connection,
    witness: &Witness,
    request: &ChargeRequest,
) -> Result<Price, Fault> {
    // A part of the declarations must not decide which budgets are charged.
    let catalog = request.catalog.whole();
    if !catalog.version().is(&store::version(connection)?) {
        return Err(VaultError::Redeclared.into());
    }
    let unit_domains: BTreeSet<&String> = request.unit_domains.iter().collect();
    if unit_domains.is_empty() || request.entries.is_empty() {
        return Err(VaultError::EmptyCharge.into());
    }
    let mut asked = Cost::zero();
    let mut rounded = Vec::with_capacity(request.entries.len());
    for entry in &request.entries {
        let cost = Cost::round_up(&entry.loss)?;
        // A release that shares a draw has no loss. Every other release has one.
        if cost.is_nothing() && (!entry.shared || asked.is_nothing()) {
            return Err(VaultError::EmptyCharge.into());
        }
        asked = asked.plus(cost)?;
        rounded.push(cost);
    }
    caps::check(connection, &request.caps, &request.analyst, &asked)?;

    let accounts = accounts(connection, witness, catalog)?;
    let binds = |account: &Account, unit_domain: &str| {
        catalog.same_people(catalog.unit_domain_of(&account.budget), unit_domain)
    };
    let is_usable = |account: &Account| !request.catalog.hides_budget(&account.budget.name);
    for unit_domain in &unit_domains {
        let mut bound = accounts.iter().filter(|account| binds(account, unit_domain)).peekable();
        // To somebody who may not use each budget of these people, they have none.
        if bound.peek().is_none() || !bound.all(is_usable) {
            return Err(VaultError::NoBudget { table: (*unit_domain).clone() }.into());
        }
    }
    // After the budgets: that somebody was charged shows that there is one.
    drift::check(connection, &request.tables, &request.analyst, catalog)?;
    let touched: Vec<&Account> = accounts
        .iter()
        .filter(|account| unit_domains.iter().any(|unit_domain| binds(account, unit_domain)))
        .collect();
    check_built_on(request, &touched)?;
    // A release without an (ε, δ) cannot be charged to a budget in ε, and a release above the ε of
    // a coupon cannot be charged to a budget of coupons.
    let tally = rounded.iter().map(Tally::of).try_fold(Tally::default(), Tally::plus)?;
    let within = |budget: &Budget| {
        let name = || budget.name.clone();
        budget.counted(asked, tally).ok_or_else(|| match budget.coupon {
            Some(coupon) if tally.dearest < i64::MAX => VaultError::OverCoupon {
                budget: name(),
                asked: Spend::of_epsilon(tally.dearest, 0),
                coupon: Spend::of_epsilon(coupon, 0),
            },
            Some(_) | None => VaultError::NoEpsilon { budget: name() },
        })
    };
    // Both bounds hold for the new charge alone: a very cheap release does not reach the minimum
    // because an earlier answer is shown beside it.
    check_minimum(&touched, request.shows_again, within)?;
    for Account { budget, .. } in &touched {
        let asked = within(budget)?;
        if !budget.per_query.allows(asked) {
            let most = budget.per_query.most_text(asked.notion);
            return Err(VaultError::OverMax { budget: budget.name.clone(), asked, most }.into());
        }
    }
    let cells: Vec<Option<Touched>> = request
        .entries
        .iter()
        .map(|entry| narrowed(catalog, &unit_domains, entry.cells.as_ref()))
        .collect();
    let costs: Vec<_> = cells.iter().cloned().zip(rounded.iter().copied()).collect();
    let landings = landings(&costs)?;
    let mut budgets = Vec::with_capacity(touched.len());
    let mut charged = Vec::with_capacity(touched.len());
    for account in &touched {
        let people = catalog.people(catalog.unit_domain_of(&account.budget));
        let counted = |sum: &EntrySum| account.budget.counted(sum.cost, sum.tally);
        let mut dearest: Option<BudgetQuote> = None;
        for Landing { cell, asked } in &landings {
            let asked = match counted(asked) {
                Some(asked) => asked,
                None => within(&account.budget)?,
            };
            let site =
                Site { account, witness, people: &people, analyst: &request.analyst, catalog };
            let quote = site.quoted(cell.as_ref(), asked)?;
            let left = |quote: &BudgetQuote| quote.limit.minus(quote.after).nano;
            if dearest.as_ref().is_none_or(|known| left(&quote) < left(known)) {
                dearest = Some(quote);
            }
        }
        budgets.extend(dearest);
        charged.push((account.budget.clone(), people));
    }
    let notions: Vec<Notion> = budgets.iter().map(|quote| quote.limit.notion).collect();

    let unit_domains: Vec<String> = unit_domains.into_iter().cloned().collect();
    let names: Vec<String> = budgets.iter().map(|quote| quote.budget.clone()).collect();
    let entries = request.entries.iter().zip(costs).map(|(entry, (cells, cost))| LedgerEntry {
        sequence: 0,
        charge: 0,
        analyst: request.analyst.clone(),
        unit_domains: unit_domains.clone(),
        budgets: names.clone(),
        mechanism: entry.mechanism.clone(),
        parameters: statements::beginning(&entry.parameters),
        sensitivity: statements::beginning(&entry.sensitivity),
        cost,
        plan_hash: request.plan_hash,
        at: 0,
        // The payment fills this in.
        statement: [0; 32],
        cells,
        nonce: [0; 16],
        chain: [0; 32],
    });
    let asked = asked.in_coupons(tally.releases, &notions).counted_in(&notions);
    Ok(Price { entries: entries.collect(), asked, budgets, charged })
}

/// A budget to which an analyst is charged.
struct Site<'a> {
    account: &'a Account,
    witness: &'a Witness,
    people: &'a BTreeSet<String>,
    analyst: &'a str,
    catalog: &'a Catalog,
}

impl Site<'_> {
    /// The effect of a cost on the budget, or on the share that pays, in one cell or in all.
    ///
    /// # Errors
    /// [`VaultError::Exhausted`] if the share, or the whole budget, is too small there.
    fn quoted(&self, cell: Option<&Cell>, asked: Spend) -> Result<BudgetQuote, Fault> {
        let Account { budget, .. } = self.account;
        let cells = self.catalog.cells_of(self.catalog.unit_domain_of(budget));
        let found = cells.as_ref().zip(cell).map(|(cells, cell)| place(cells, cell));
        match self.quoted_at(found, asked) {
            // If all cells together cannot pay, some single cell cannot.
            Err(Fault::Refusal(VaultError::Exhausted { .. })) if found.is_none() => {
                for cell in cells.iter().flat_map(Cells::all) {
                    let here = cells.as_ref().map(|cells| place(cells, &cell));
                    self.quoted_at(here, asked)?;
                }
                self.quoted_at(None, asked)
            }
            quoted => quoted,
        }
    }

    fn quoted_at(
        &self,
        place: Option<CellOfPeople<'_>>,
        asked: Spend,
    ) -> Result<BudgetQuote, Fault> {
        let Self { account, witness, people, analyst, catalog } = *self;
        let Budget { limit, promise, coupon, .. } = account.budget;
        let name = || account.budget.name.clone();
        let spent = spent_at(&account.budget, witness, people, |_| true, place)?;
        let whole = limit.minus(spent);
        let share = share_of(shares(account, witness, people, place)?, analyst);
        let (slice, left, spent) = match share {
            Some(SliceState { of, spent, left, .. }) => (Some(of), left, spent),
            None => (None, whole, spent),
        };
        let column = place.and_then(|place| catalog.cells_of(place.unit_domain));
        let cell = column.zip(place).map(|(cells, place)| Touched {
            column: cells.column.to_owned(),
            since: cells.since,
            cells: [place.cell.clone()].into(),
        });
        // A share never has more left than the whole budget.
        if !left.pays(asked) || !whole.pays(asked) {
            let cell = cell.map(Box::new);
            return Err(VaultError::Exhausted { budget: name(), slice, cell, asked, left }.into());
        }
        let cell = cell.map(|cell| cell.to_string());
        // The limit of a share is what it can still spend: the whole budget may have less than its
        // limit.
        let limit = if slice.is_some() { spent.plus(left)? } else { limit };
        let after = spent.plus(asked)?;
        Ok(BudgetQuote { budget: name(), slice, cell, limit, promise, coupon, spent, after })
    }
}

/// Checks releases that are built on kept draws, and are charged what these leave of their ε.
///
/// # Guarantee
/// `Ok` only if each such release has its own draw, and every affected budget counts in ε and has
/// counted the earlier draw, as all entries for its people count. In ρ and in coupons the
/// difference would be too little, and a cap bounds what one session or day may reveal.
///
/// # Errors
/// [`VaultError::Redeclared`]: the statement is planned again.
fn check_built_on(request: &ChargeRequest, touched: &[&Account]) -> Result<(), Fault> {
    let refined = request.entries.iter().filter(|entry| entry.mechanism == REFINED).count();
    let in_epsilon = |Account { budget, .. }: &&Account| {
        budget.limit.notion == Notion::Approximate
            && budget.promise.is_none()
            && budget.coupon.is_none()
    };
    let keys: BTreeSet<_> = request.built_on.iter().map(|one| one.question).collect();
    let is_sound = refined == request.built_on.len()
        && refined == keys.len()
        && (refined == 0
            || request.caps == ChargeCaps::default() && touched.iter().all(in_epsilon));
    match is_sound {
        true => Ok(()),
        false => Err(VaultError::Redeclared.into()),
    }
}

/// Refuses a cost below the minimum per query of one of these budgets, and names the one with the
/// highest minimum.
fn check_minimum(
    touched: &[&Account],
    shows_again: bool,
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
            let budget = budget.name.clone();
            Err(VaultError::UnderMin { budget, asked, least, shows_again }.into())
        }
        None => Ok(()),
    }
}

/// Charges a request. The result is valid only after the caller's commit succeeds.
///
/// # Guarantee
/// `Ok` only if [`quote`] would be `Ok`. Then the spent amount of every affected budget has grown
/// by the whole cost, the ledger by the request's entries, and no later release builds on the draws
/// that this one builds on. On an error the caller rolls back, and nothing changes.
pub(crate) fn pay(
    connection: &Connection,
    witness: &mut Witness,
    request: &ChargeRequest,
) -> Result<Charge, Fault> {
    let Price { mut entries, asked, budgets, charged } = price(connection, witness, request)?;
    draw_records::take(connection, &request.analyst, &request.built_on)?;
    quota::check(connection, witness, &request.analyst)?;
    let statement = statements::keep(connection, &request.statement)?;
    entries.iter_mut().for_each(|entry| entry.statement = statement);
    let sequence = witness.append(connection, entries)?;
    for (budget, people) in &charged {
        let spent = spent_at(budget, witness, people, |_| true, None)?;
        store::set_spent(connection, &budget.name, spent)?;
    }
    let left = budgets.into_iter().map(|quote| {
        let left = quote.limit.minus(quote.after);
        (quote.budget, left)
    });
    Ok(Charge { sequence, due: request.due(), spend: asked, left: left.collect() })
}
