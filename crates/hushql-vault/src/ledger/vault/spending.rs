//! The spending of each budget by analyst and day.
//!
//! In: the ledger, a reader, and how far back. Out: for each budget, day and analyst, the amount
//! and the number of charges. For a budget with slices, an analyst sees only the charges on their
//! own share.
//!
//! ```text
//! entries 17 lab ε = 1, 18 lab ε = ½, 19 eve ε = 2   →   research  2026-03-01  lab  ε = 1.5  2 charges
//!                                                        research  2026-03-01  eve  ε = 2    1 charge
//! ```

use std::collections::{BTreeMap, BTreeSet};

use hushql_privacy::privacy::{Spend, Tally};

use crate::catalog::{Catalog, Cell, SliceOf, Touched};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::chain::LedgerEntry;
use crate::ledger::records::time;
use crate::ledger::vault::{BudgetState, Vault};

/// Seconds in a day.
const DAY: i64 = 86_400;

/// The spending of an analyst from a budget on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The budget.
    pub budget: String,
    /// The days since 1970 (UTC).
    pub day: i64,
    /// The analyst.
    pub analyst: String,
    /// The amount, in the measure of the budget.
    pub spend: Spend,
    /// The number of charges.
    pub charges: i64,
}

/// The amount that was lately spent of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentLately {
    /// By charges that count for everyone.
    pub all: Spend,
    /// By charges to a cell alone, for each cell that had some.
    pub cells: BTreeMap<Cell, Spend>,
}

/// Sums of charges: those to all cells, and those to single ones, by the beginning of the cells.
#[derive(Default)]
struct ByBeginning {
    all: Option<Spend>,
    cells: BTreeMap<i64, BTreeMap<Cell, Spend>>,
}

impl ByBeginning {
    fn add(&mut self, touched: Option<&Touched>, spend: Spend) -> Result<(), Fault> {
        let Some(touched) = touched else {
            self.all = Some(self.all.map_or(Ok(spend), |all| all.plus(spend))?);
            return Ok(());
        };
        let sums = self.cells.entry(touched.since).or_default();
        for cell in &touched.cells {
            let sum = sums.get(cell).map_or(Ok(spend), |sum| sum.plus(spend))?;
            sums.insert(cell.clone(), sum);
        }
        Ok(())
    }

    /// The sums under the cells that began there.
    fn at(mut self, since: Option<i64>, zero: Spend) -> Result<SpentLately, Fault> {
        let cells = since.and_then(|since| self.cells.remove(&since)).unwrap_or_default();
        let mut all = self.all.unwrap_or(zero);
        for ended in self.cells.values() {
            let most = |of: fn(&Spend) -> i64| ended.values().map(of).max().unwrap_or_default();
            let (nano, atto_delta) = (most(|sum| sum.nano), most(|sum| sum.atto_delta));
            all = all.plus(Spend { nano, atto_delta, ..zero })?;
        }
        Ok(SpentLately { all, cells })
    }
}

/// A budget, the names of its people, and the analysts whose charges the reader sees.
struct Account<'a> {
    state: &'a BudgetState,
    people: BTreeSet<String>,
    seen: ShownAnalysts,
}

/// The analysts whose charges are shown.
enum ShownAnalysts {
    All,
    Only(String),
    /// Everyone without a slice.
    Without(BTreeSet<String>),
}

impl<'a> Account<'a> {
    /// The account of this state, as the reader sees it.
    fn seen_by(reader: &str, state: &'a BudgetState, catalog: &Catalog) -> Self {
        let BudgetState { budget, slices, .. } = state;
        let with_slices = catalog.slices(&budget.name).iter().map(|slice| slice.analyst.clone());
        let seen = match slices.as_slice() {
            _ if reader == OWNER => ShownAnalysts::All,
            [] => ShownAnalysts::All,
            [share, ..] => match &share.of {
                SliceOf::Analyst(analyst) => ShownAnalysts::Only(analyst.clone()),
                SliceOf::EveryoneElse => ShownAnalysts::Without(with_slices.collect()),
            },
        };
        Self { state, people: catalog.people(catalog.unit_domain_of(budget)), seen }
    }

    /// The amount of an entry in this budget; `None` if the entry is not charged to it, or not
    /// shown to the reader.
    fn share(&self, entry: &LedgerEntry) -> Option<Spend> {
        let is_shown = match &self.seen {
            ShownAnalysts::All => true,
            ShownAnalysts::Only(analyst) => entry.analyst == *analyst,
            ShownAnalysts::Without(analysts) => !analysts.contains(&entry.analyst),
        };
        let is_charged = entry.unit_domains.iter().any(|name| self.people.contains(name));
        if !is_shown || !is_charged {
            return None;
        }
        self.state.budget.counted(entry.cost, Tally::of(&entry.cost))
    }
}

impl Vault {
    /// The spending of each analyst from each of these budgets on each day, as this reader sees it,
    /// by budget, day and analyst.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the ledger was altered, or the file cannot be read.
    pub fn spent_by_day(
        &self,
        states: &[BudgetState],
        reader: &str,
    ) -> Result<Vec<Spent>, VaultError> {
        type Of = (String, i64, String);
        let mut sums: BTreeMap<Of, (Spend, BTreeSet<i64>)> = BTreeMap::new();
        self.walk(
            states,
            reader,
            |_| true,
            |account, entry, spend| {
                let day = entry.at.div_euclid(DAY);
                let key = (account.state.budget.name.clone(), day, entry.analyst.clone());
                let zero = Spend { nano: 0, atto_delta: 0, ..spend };
                let (sum, charges) = sums.entry(key).or_insert((zero, BTreeSet::new()));
                *sum = sum.plus(spend)?;
                charges.insert(entry.charge);
                Ok(())
            },
        )?;
        let number = |charges: &BTreeSet<i64>| i64::try_from(charges.len()).unwrap_or(i64::MAX);
        let spent = sums.into_iter().map(|((budget, day, analyst), (spend, charges))| Spent {
            budget,
            day,
            analyst,
            spend,
            charges: number(&charges),
        });
        Ok(spent.collect())
    }

    /// The amount spent of each of these budgets in the last days, as this reader sees it, in the
    /// order of the budgets. Charges to cells that have ended count for all cells, as much as those
    /// to the dearest of them.
    ///
    /// # Errors
    /// As [`Vault::spent_by_day`].
    pub fn spent_lately(
        &self,
        states: &[BudgetState],
        reader: &str,
        days: i64,
    ) -> Result<Vec<SpentLately>, VaultError> {
        let since = time::now()?.saturating_sub(days.saturating_mul(DAY));
        let mut sums: BTreeMap<String, ByBeginning> = BTreeMap::new();
        let is_late = |entry: &LedgerEntry| entry.at > since;
        self.walk(states, reader, is_late, |account, entry, spend| {
            if is_late(entry) {
                let own = sums.entry(account.state.budget.name.clone()).or_default();
                own.add(entry.cells.as_ref(), spend)?;
            }
            Ok(())
        })?;
        let catalog = self.catalog()?;
        let of = |state: &BudgetState| {
            let cells = catalog.cells_of(catalog.unit_domain_of(&state.budget));
            let sums = sums.remove(&state.budget.name).unwrap_or_default();
            let zero = Spend { nano: 0, atto_delta: 0, ..state.budget.limit };
            sums.at(cells.map(|cells| cells.since), zero)
        };
        let all: Result<Vec<_>, Fault> = states.iter().map(of).collect();
        all.map_err(|fault| fault.at(self.path()))
    }

    /// Visits the entries that count for these budgets, newest page first. It stops at the first
    /// page without a wanted entry.
    fn walk(
        &self,
        states: &[BudgetState],
        reader: &str,
        is_wanted: impl Fn(&LedgerEntry) -> bool,
        mut visit: impl FnMut(&Account<'_>, &LedgerEntry, Spend) -> Result<(), Fault>,
    ) -> Result<(), VaultError> {
        let catalog = self.catalog()?;
        let accounts: Vec<Account<'_>> =
            states.iter().map(|state| Account::seen_by(reader, state, &catalog)).collect();
        let extent = self.extent()?;
        let mut next = extent.last();
        while next > 0 {
            let page = self.page(&extent, next)?;
            next = page.first().map_or(0, |entry| entry.sequence.saturating_sub(1));
            if !page.iter().any(&is_wanted) {
                return Ok(());
            }
            for entry in &page {
                for account in &accounts {
                    if let Some(spend) = account.share(entry) {
                        let visited = visit(account, entry, spend);
                        visited.map_err(|fault| fault.at(self.path()))?;
                    }
                }
            }
        }
        Ok(())
    }
}
