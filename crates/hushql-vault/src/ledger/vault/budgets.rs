//! Budgets of a vault: their state, as the owner and each analyst see it, and the changes of their
//! limits and slices.
//!
//! In: the name of a budget, a new limit or a slice. Out: the change in the vault. It is refused if
//! the slices would leave less to everyone else than they have spent. Nothing here gives back a
//! spent amount.
//!
//! ```text
//! ALTER PRIVACY BUDGET b ADD SLICE lab LIMIT (epsilon=3)      limit 5, everyone else spent 2   →   declared
//! ALTER PRIVACY BUDGET b ADD SLICE lab LIMIT (epsilon=4)      limit 5, everyone else spent 2   →   refused
//! ```

use hushql_privacy::privacy::Spend;
use rusqlite::Connection;

use crate::catalog::store::{self, Account};
use crate::catalog::{Catalog, CatalogError, Slice, SliceOf, alter};
use crate::ledger::charging::charge;
use crate::ledger::charging::slice_shares::{SliceState, check_covered, share_of, shares};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst::{self, OWNER};
use crate::ledger::records::chain::Witness;
use crate::ledger::vault::{BudgetState, Vault};

/// A change of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceChange {
    /// ADD SLICE.
    Add(Slice),
    /// ALTER SLICE … SET LIMIT.
    SetLimit(Slice),
    /// DROP SLICE, of this analyst.
    Drop(String),
}

impl Vault {
    /// Sets the limit of a budget, and the (ε, δ) from which it was derived (`ACCOUNTANT ZCDP`).
    /// With a limit below the spent amount, nothing is left, and nothing is given back.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the budget does not exist, if the limit is out of range or counts
    /// in another notion, or if the limit minus the slices of the budget does not cover what
    /// everyone else has spent.
    pub fn set_budget_limit(
        &self,
        budget: &str,
        limit: Spend,
        promise: Option<Spend>,
    ) -> Result<(), VaultError> {
        self.declare(|connection, witness| {
            alter::set_limit(connection, budget, limit, promise)?;
            covered(connection, witness, budget)
        })
    }

    /// Adds, changes or drops a slice of a budget.
    ///
    /// # Guarantee
    /// After `Ok`, unless the slice was dropped, the limit of the budget minus its slices covers
    /// what everyone without a slice has spent. So the spending of others never makes a slice
    /// refuse, now or later. Dropping a slice keeps this property, because the amount reserved for
    /// its analyst covers what they spent.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`] for a name that no analyst can have; [`VaultError::Catalog`] if
    /// the budget or the slice does not exist, the slice exists already or counts in another
    /// notion, or not enough is available.
    pub fn change_slice(
        &self,
        budget: &str,
        change: &SliceChange,
    ) -> Result<BudgetState, VaultError> {
        match change {
            SliceChange::Add(slice) => analyst::admit(&slice.analyst)?,
            SliceChange::SetLimit(_) | SliceChange::Drop(_) => {}
        }
        self.declare(|connection, witness| {
            match change {
                SliceChange::Add(slice) => {
                    alter::insert_slice(connection, budget, slice)?;
                    covered(connection, witness, budget)?;
                }
                SliceChange::SetLimit(slice) => {
                    alter::set_slice_limit(connection, budget, slice)?;
                    covered(connection, witness, budget)?;
                }
                SliceChange::Drop(analyst) => {
                    witness.advance(connection)?;
                    alter::delete_slice(connection, budget, analyst)?;
                }
            }
            let catalog = store::load(connection)?;
            state(&account(connection, budget)?, witness, &catalog)
        })
    }

    /// Removes a budget and its slices. Its charges remain: a later budget of the same tables
    /// starts with them.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the budget does not exist.
    pub fn drop_budget(&self, budget: &str) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(alter::delete_budget(connection, budget)?))
    }

    /// All budgets with their state, by name, as the owner sees them.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if a budget disagrees with the ledger, or the file cannot be read.
    pub fn budgets(&self) -> Result<Vec<BudgetState>, VaultError> {
        self.budgets_for(OWNER)
    }

    /// All budgets that exist for this analyst with their state, by name, as the analyst sees them:
    /// for a budget with slices, their own share.
    ///
    /// # Guarantee
    /// For an analyst with a share of a budget, its state does not depend on the spending of
    /// analysts with other shares, as long as the limit covers the slices and what everyone else
    /// has spent.
    ///
    /// # Errors
    /// As [`Vault::budgets`].
    pub fn budgets_for(&self, reader: &str) -> Result<Vec<BudgetState>, VaultError> {
        self.read(|connection, witness| {
            let catalog = store::load(connection)?;
            let accounts = charge::accounts(connection, witness, &catalog)?;
            let sight = catalog.sight(reader).filter(|_| reader != OWNER);
            let exists = |account: &&Account| {
                sight.as_ref().is_none_or(|sight| sight.budgets.contains(&account.budget.name))
            };
            let seen = accounts.iter().filter(exists);
            let states = seen.map(|account| state(account, witness, &catalog));
            states.map(|state| state.map(|state| state.shown_to(reader))).collect()
        })
    }

    /// A budget with its state.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the budget does not exist, otherwise as [`Vault::budgets`].
    pub fn budget(&self, name: &str) -> Result<BudgetState, VaultError> {
        self.budget_for(name, OWNER)
    }

    /// A budget with its state, as this analyst sees it.
    ///
    /// # Errors
    /// As [`Vault::budget`].
    pub fn budget_for(&self, name: &str, reader: &str) -> Result<BudgetState, VaultError> {
        let states = self.budgets_for(reader)?;
        states.into_iter().find(|state| state.budget.name == name).ok_or_else(|| {
            VaultError::Catalog(CatalogError::UnknownBudget { budget: name.to_owned() })
        })
    }
}

impl BudgetState {
    /// The state as this analyst sees it.
    fn shown_to(self, reader: &str) -> Self {
        if reader == OWNER {
            return self;
        }
        match share_of(self.slices, reader) {
            Some(share) => {
                let SliceState { spent, left, .. } = share;
                Self { budget: self.budget, spent, left, slices: vec![share] }
            }
            None => Self { slices: Vec::new(), ..self },
        }
    }

    /// The slice of an analyst, or of everyone else.
    pub fn slice(&self, of: &SliceOf) -> Option<&SliceState> {
        self.slices.iter().find(|slice| slice.of == *of)
    }
}

/// The state of a budget, with all of its shares.
pub(super) fn state(
    account: &Account,
    witness: &Witness,
    catalog: &Catalog,
) -> Result<BudgetState, Fault> {
    let people = catalog.people(catalog.unit_domain_of(&account.budget));
    let slices = shares(account, witness, &people, None)?;
    let (budget, spent) = (account.budget.clone(), account.spent);
    let left = budget.limit.minus(spent);
    Ok(BudgetState { budget, spent, left, slices })
}

/// The budget of this name.
pub(super) fn account(connection: &Connection, budget: &str) -> Result<Account, Fault> {
    let mut accounts = store::accounts(connection)?.into_iter();
    let known = accounts.find(|account| account.budget.name == budget);
    Ok(known.ok_or_else(|| CatalogError::UnknownBudget { budget: budget.to_owned() })?)
}

/// Refuses slices of a budget that leave less to everyone else than they have spent.
pub(super) fn covered(
    connection: &Connection,
    witness: &mut Witness,
    budget: &str,
) -> Result<(), Fault> {
    witness.advance(connection)?;
    let Account { budget, slices, .. } = account(connection, budget)?;
    let catalog = store::load(connection)?;
    let people = catalog.people(catalog.unit_domain_of(&budget));
    check_covered(&budget, budget.limit, &slices, witness, &people)
}
