//! The amount that each analyst can still spend of a budget with slices.
//!
//! In: a budget, its slices, and the ledger. Out: a share for each slice, and one for everyone
//! else. A share never depends on the spending of analysts with other shares: from its declaration
//! on, a slice is reserved for its analyst, spent or not.
//!
//! ```text
//! research ε = 10, lab ε = 3, eve ε = 2      lab spent 1, eve 2, ann ½, bob ½
//!   lab: 3 − 1 = 2 left      eve: 2 − 2 = 0 left      everyone else: 10 − 3 − 2 − ½ − ½ = 4 left
//! ```
//!
//! # Guarantee
//! A charge must fit the share of its analyst and the whole budget. Suppose the limit minus the
//! slices covers what everyone else has spent, as every declaration of a slice or limit requires.
//! Then the whole budget never refuses what a share allows: what the budget reveals to an analyst
//! depends on the declarations and on the charges to that share alone. If an owner later declares
//! more as spent (SPENT, or tables whose people are joined), this can fail, and the whole budget
//! refuses.

use std::collections::BTreeSet;

use hushql_privacy::privacy::Spend;

use crate::catalog::store::Account;
use crate::catalog::{Budget, CatalogError, Slice, SliceOf};
use crate::ledger::charging::cell_charges::spent_at;
use crate::ledger::error::Fault;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::sums::CellOfPeople;

/// A share of a budget: a slice, or the rest for everyone else.
///
/// ```
/// use hushql_privacy::privacy::Spend;
/// use hushql_vault::catalog::{Budget, PerQuery, Privacy, Replay, Slice, SliceOf, Source, Table, Unit};
/// use hushql_vault::ledger::{SliceChange, Vault};
///
/// let vault = Vault::in_memory()?;
/// vault.create_table(&Table {
///     name: "adult".to_owned(),
///     source: Source::Registered,
///     privacy: Privacy::Private(Unit::Row),
///     columns: Vec::new(),
/// })?;
/// vault.create_budget(&Budget {
///     name: "research".to_owned(),
///     table: "adult".to_owned(),
///     limit: Spend::of_epsilon(10_000_000_000, 0),
///     promise: None,
///     coupon: None,
///     per_query: PerQuery::default(),
///     replay: Replay::All,
/// })?;
/// let slice = Slice { analyst: "lab".to_owned(), limit: Spend::of_epsilon(3_000_000_000, 0) };
/// vault.change_slice("research", &SliceChange::Add(slice))?;
/// let states = vault.budgets()?;
/// let slice = &states[0].slices[0];
/// assert_eq!((slice.of.to_string().as_str(), slice.left.loss_text().as_str()), ("lab", "3"));
/// # Ok::<(), hushql_vault::ledger::VaultError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SliceState {
    /// Its owner.
    pub of: SliceOf,
    /// The most that its owner may ever spend.
    pub limit: Spend,
    /// The amount that its owner spent.
    pub spent: Spend,
    /// The amount that its owner has left, as far as the whole budget covers it.
    pub left: Spend,
}

/// The shares of a budget: one for each slice, by analyst, then that of everyone else. The amounts
/// are those of one cell, or of the most expensive one. Empty without slices.
///
/// # Errors
/// [`Fault::Damage`] if the budget cannot count the earlier charges.
pub(crate) fn shares(
    account: &Account,
    witness: &Witness,
    people: &BTreeSet<String>,
    place: Option<CellOfPeople<'_>>,
) -> Result<Vec<SliceState>, Fault> {
    let Account { budget, slices, .. } = account;
    if slices.is_empty() {
        return Ok(Vec::new());
    }
    let whole = budget.limit.minus(spent_at(budget, witness, people, |_| true, place)?);
    let state = |of, limit: Spend, spent| {
        let own = limit.minus(spent);
        let left = Spend {
            nano: own.nano.min(whole.nano),
            atto_delta: own.atto_delta.min(whole.atto_delta),
            ..own
        };
        SliceState { of, limit, spent, left }
    };
    let mut shares = Vec::with_capacity(slices.len());
    let mut rest = budget.limit;
    for slice in slices {
        let is_own = |analyst: &str| analyst == slice.analyst;
        let spent = spent_at(budget, witness, people, is_own, place)?;
        // The reserved amount of a slice is the same in all cells.
        let most = spent_at(budget, witness, people, is_own, None)?;
        rest = without(rest, reserved(slice, most));
        shares.push(state(SliceOf::Analyst(slice.analyst.clone()), slice.limit, spent));
    }
    let spent = spent_by_others(budget, slices, witness, people, place)?;
    shares.push(state(SliceOf::EveryoneElse, rest, spent));
    Ok(shares)
}

/// The share from which an analyst pays; `None` in a budget without slices.
pub(crate) fn share_of(shares: Vec<SliceState>, payer: &str) -> Option<SliceState> {
    let own = |share: &SliceState| match &share.of {
        SliceOf::Analyst(analyst) => analyst == payer,
        // The last share.
        SliceOf::EveryoneElse => true,
    };
    shares.into_iter().find(own)
}

/// Refuses slices that leave less of a limit than everyone else has spent.
///
/// # Errors
/// [`CatalogError::Slice`], with the amount that is available.
pub(crate) fn check_covered(
    budget: &Budget,
    limit: Spend,
    slices: &[Slice],
    witness: &Witness,
    people: &BTreeSet<String>,
) -> Result<(), Fault> {
    if slices.is_empty() {
        return Ok(());
    }
    let mut rest = limit;
    let mut fits = true;
    for slice in slices {
        let is_own = |analyst: &str| analyst == slice.analyst;
        let spent = spent_at(budget, witness, people, is_own, None)?;
        let reserved = reserved(slice, spent);
        fits &= rest.pays(reserved);
        rest = without(rest, reserved);
    }
    let spent = spent_by_others(budget, slices, witness, people, None)?;
    if fits && rest.pays(spent) {
        return Ok(());
    }
    let reason = format!(
        "its limit of {limit} leaves {rest} to everyone else, who have spent {spent} already; make the slices smaller, or raise the limit first"
    );
    Err(CatalogError::Slice { budget: budget.name.clone(), reason }.into())
}

/// The reserved amount of a slice: its limit, or the spent amount if that is larger.
fn reserved(slice: &Slice, spent: Spend) -> Spend {
    Spend {
        nano: slice.limit.nano.max(spent.nano),
        atto_delta: slice.limit.atto_delta.max(spent.atto_delta),
        ..slice.limit
    }
}

/// The rest of an amount, at least 0 in each part.
fn without(from: Spend, part: Spend) -> Spend {
    Spend {
        nano: from.nano.saturating_sub(part.nano).max(0),
        atto_delta: from.atto_delta.saturating_sub(part.atto_delta).max(0),
        ..from
    }
}

fn spent_by_others(
    budget: &Budget,
    slices: &[Slice],
    witness: &Witness,
    people: &BTreeSet<String>,
    place: Option<CellOfPeople<'_>>,
) -> Result<Spend, Fault> {
    let has_slice = |analyst: &str| slices.iter().any(|slice| slice.analyst == analyst);
    spent_at(budget, witness, people, |analyst| !has_slice(analyst), place)
}
