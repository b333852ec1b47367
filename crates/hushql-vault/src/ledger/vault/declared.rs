//! Declarations of a vault that concern spending: budgets, replaced tables, and amounts spent
//! elsewhere.
//!
//! In: an owner's declaration. Out: the declaration in the vault, with every budget at the sum of
//! its charges. Nothing here gives back a spent amount. A replaced table keeps its name, and with
//! it its budgets and its charges. An amount spent elsewhere is an entry of the ledger, like any
//! charge.
//!
//! ```text
//! CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=5) SPENT (epsilon=3)      charged so far: ε = 1
//!     →   an entry SPENT of ε = 2, and the budget with ε = 2 left
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::PoisonError;

use hushql_privacy::privacy::{Cost, Spend};

use crate::catalog::{
    Budget, Catalog, CatalogError, PerQuery, PrivacyFloor, Slice, SpentUnit, Table, TableRules,
    alter,
};
use crate::catalog::{grants, numbers, store};
use crate::ledger::charging::carried::Elsewhere;
use crate::ledger::charging::{carried, charge, month_accounts, moves, presence_accounts};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst;
use crate::ledger::records::roles::{self, Role};
use crate::ledger::records::sums::EntrySum;
use crate::ledger::vault::budgets::{account, covered, state};
use crate::ledger::vault::{BudgetState, Vault};

/// All declarations of one state of a vault, with the spent amounts.
#[derive(Debug)]
pub struct Inventory {
    /// The declarations.
    pub catalog: Catalog,
    /// The budgets by name, each with everything spent on the people of its table.
    pub budgets: Vec<(BudgetState, Spending)>,
    /// Groups of names whose charges count for the same people, with the amounts spent on them.
    /// Each group has a charge or several names.
    pub people: Vec<(BTreeSet<String>, Spending)>,
    /// The roles by name.
    pub roles: Vec<Role>,
}

/// The amounts spent on the same people, in every notion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// By everyone.
    pub all: Elsewhere,
    /// By each analyst who has a slice of a budget of these people and has spent something.
    pub by: Vec<(String, Elsewhere)>,
    /// What counts of `all` for every person, whatever the cell.
    pub all_everywhere: Elsewhere,
    /// What counts of `by` for every person, whatever the cell.
    pub by_everywhere: Vec<(String, Elsewhere)>,
}

impl Vault {
    /// Declares a budget for the unit domain of a private table. The budget follows the table into
    /// another unit domain.
    ///
    /// # Guarantee
    /// It starts with everything that was ever charged to that unit domain, under any budget.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the name is taken, the table is missing or not private, an amount
    /// is out of range, or the budget cannot count earlier charges: one in ε or coupons cannot
    /// count releases without an ε, and one in coupons cannot count releases of more than a coupon.
    pub fn create_budget(&self, budget: &Budget) -> Result<BudgetState, VaultError> {
        self.put_budget(budget, None, &[], false)
    }

    /// As [`Vault::create_budget`], with options: at least `spent` counts as spent on the people of
    /// its table; it has these slices, each with the least amount that its analyst spent; and it
    /// may replace a budget of the same name for the same table, with its slices.
    ///
    /// # Guarantee
    /// The spent amount of no budget falls.
    ///
    /// # Errors
    /// As [`Vault::create_budget`]; [`CatalogError::OtherTable`] if the budget of this name is for
    /// another table; for slices, as [`Vault::change_slice`](Self::change_slice). If amounts are
    /// declared as spent, slices may leave less to everyone else than they have spent.
    pub fn put_budget(
        &self,
        budget: &Budget,
        spent: Option<Elsewhere>,
        slices: &[(Slice, Option<Elsewhere>)],
        replace: bool,
    ) -> Result<BudgetState, VaultError> {
        slices.iter().try_for_each(|(slice, _)| analyst::admit(&slice.analyst))?;
        self.declare(|connection, witness| {
            let catalog = store::load(connection)?;
            let table = store::table(&catalog, &budget.table)?;
            let not_private = || CatalogError::NotPrivate { table: budget.table.clone() };
            let unit_domain = catalog.unit_domain(&table.name).ok_or_else(not_private)?;
            witness.advance(connection)?;
            match catalog.budget(&budget.name) {
                Some(old) if replace && old.table == budget.table => {
                    alter::delete_budget(connection, &budget.name)?;
                    // Whoever could use the old one can use the new one.
                    grants::put(connection, catalog.grants())?;
                }
                Some(old) if replace => {
                    let (budget, table) = (budget.name.clone(), old.table.clone());
                    return Err(CatalogError::OtherTable { budget, table }.into());
                }
                Some(_) | None => {}
            }
            for (slice, spent) in slices {
                if let Some(least) = spent {
                    let by = Some(slice.analyst.as_str());
                    carried::raise(connection, witness, (&table.name, by), &[], *least)?;
                }
            }
            match spent {
                Some(least) => {
                    carried::raise(connection, witness, (&table.name, None), &[], least)?;
                }
                None => budget.check()?,
            }
            let uncountable = || match budget.coupon {
                Some(coupon) => CatalogError::Uncoupled {
                    budget: budget.name.clone(),
                    coupon: Spend::of_epsilon(coupon, 0).loss_text(),
                },
                None => CatalogError::Uncountable { budget: budget.name.clone() },
            };
            let all = witness.counted(budget, &catalog.people(unit_domain))?;
            store::insert_budget(connection, budget, all.ok_or_else(uncountable)?)?;
            for (slice, _) in slices {
                alter::insert_slice(connection, &budget.name, slice)?;
            }
            // A rebuilt budget keeps its old state.
            if spent.is_none() && slices.iter().all(|(_, spent)| spent.is_none()) {
                covered(connection, witness, &budget.name)?;
            }
            state(&account(connection, &budget.name)?, witness, &store::load(connection)?)
        })
    }

    /// Sets the default, minimum and maximum cost of one query.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the budget does not exist, or an amount contradicts another or
    /// the limit.
    pub fn set_per_query(&self, budget: &str, per_query: PerQuery) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(alter::set_per_query(connection, budget, per_query)?))
    }

    /// Raises the spent amount on the people of a table, by everyone or by one analyst, to at least
    /// this cost, and joins these names permanently with the table's name. The tables need not
    /// exist any more.
    ///
    /// # Guarantee
    /// The spent amount of no budget falls, and no charge counts for fewer people than before.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if a name is unusable, or a budget in ε could not count an amount
    /// without an ε; [`VaultError::AnalystName`] for a name that no analyst can have.
    pub fn set_spent(
        &self,
        table: &str,
        by: Option<&str>,
        least: impl Into<Elsewhere>,
        together: &[String],
    ) -> Result<Cost, VaultError> {
        self.set_spent_of(table, by, least, together, None)
    }

    /// As [`Vault::set_spent`]. If `unit` says so, the amount was spent on months of people, or on
    /// what people say whose presence is public; later charges on the table's name are for these
    /// units.
    ///
    /// # Errors
    /// As [`Vault::set_spent`]; [`CatalogError::Declaration`] if the name was charged for other
    /// units.
    pub fn set_spent_of(
        &self,
        table: &str,
        by: Option<&str>,
        least: impl Into<Elsewhere>,
        together: &[String],
        unit: Option<&SpentUnit>,
    ) -> Result<Cost, VaultError> {
        let least = least.into();
        let names = match together {
            [] => String::new(),
            _ => format!(", together with {}", together.join(", ")),
        };
        by.iter().try_for_each(|by| analyst::admit(by))?;
        let of = by.map_or_else(String::new, |by| format!(" by {by}"));
        let words = format!("spent on {table}{of}: at least {}{names}", least.cost);
        self.declare_as(vec![words], |connection, witness| {
            witness.advance(connection)?;
            match unit {
                None => {}
                Some(SpentUnit::Months { person, date }) => {
                    month_accounts::count(connection, witness, table, (person, date))?;
                }
                Some(SpentUnit::Present) => presence_accounts::count(connection, witness, table)?,
            }
            carried::raise(connection, witness, (table, by), together, least)
        })
    }

    /// Replaces a table of the same name, after a decision that was based on this snapshot. Its
    /// budgets and its charges remain.
    ///
    /// # Guarantee
    /// As [`Vault::alter_tables`]. The history has an entry for it, even if the new declaration
    /// equals the old one.
    ///
    /// # Errors
    /// As [`Vault::alter_tables`].
    pub fn replace_table(&self, planned: &Catalog, table: &Table) -> Result<(), VaultError> {
        let words = format!("table {}: replaced", table.name);
        self.declare_as(vec![words], |connection, witness| {
            moves::redeclared(connection, witness, |before| {
                if !planned.version().is(&before.version()) {
                    return Err(VaultError::Redeclared.into());
                }
                numbers::touch(connection, [table.name.as_str()])?;
                Ok(store::update_table(connection, table)?)
            })
        })
    }

    /// Declares the folder into which the answers of an analyst may be written, or removes it.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`] for a name that no analyst can have.
    pub fn set_export(&self, analyst: &str, folder: Option<&str>) -> Result<(), VaultError> {
        analyst::admit(analyst)?;
        // Everyone can read the history, but not everyone may know where files are.
        let done = if folder.is_some() { "declared" } else { "dropped" };
        let words = format!("export folder of {analyst}: {done}");
        self.declare_as(vec![words], |connection, _| {
            Ok(store::set_export(connection, analyst, folder)?)
        })
    }

    /// States about how many people a table is, or forgets it.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the table does not exist.
    pub fn set_about(&self, table: &str, people: Option<u64>) -> Result<(), VaultError> {
        self.declare(|connection, _| {
            store::table(&store::load(connection)?, table)?;
            Ok(store::set_about(connection, table, people)?)
        })
    }

    /// Sets the floor of people of a table, or drops it.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the table does not exist.
    pub fn set_floor(&self, table: &str, floor: Option<PrivacyFloor>) -> Result<(), VaultError> {
        self.declare(|connection, _| {
            store::table(&store::load(connection)?, table)?;
            Ok(store::set_floor(connection, table, floor)?)
        })
    }

    /// Sets the rules of a table for everyone or for a role, or drops them.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the table or the role does not exist.
    pub fn set_rules(
        &self,
        table: &str,
        role: Option<&str>,
        rules: Option<TableRules>,
    ) -> Result<(), VaultError> {
        self.declare(|connection, _| {
            store::table(&store::load(connection)?, table)?;
            if let Some(role) = role
                && !roles::all(connection)?.iter().any(|known| known.name == role)
            {
                return Err(CatalogError::UnknownRole { role: role.to_owned() }.into());
            }
            Ok(store::set_rules(connection, table, role, rules)?)
        })
    }

    /// The anchor with which the vault was opened.
    pub fn anchor(&self) -> Option<PathBuf> {
        // A handle that a panic poisoned is not used any more, but its anchor has not moved.
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        handle.anchor.as_ref().map(|anchor| anchor.path().to_owned())
    }

    /// True if the vault was opened with an anchor.
    ///
    /// # Errors
    /// [`VaultError::Poisoned`] after a failure that left the state of the vault unknown.
    pub fn is_anchored(&self) -> Result<bool, VaultError> {
        Ok(self.lock()?.anchor.is_some())
    }

    /// All declarations and spent amounts, in one state of the vault.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the stored declarations were altered, or the file cannot be read.
    pub fn inventory(&self) -> Result<Inventory, VaultError> {
        self.read(|connection, witness| {
            let catalog = store::load(connection)?;
            // If a budget counts coupons, the export needs the number of releases, too.
            let counts = |names: &BTreeSet<String>| {
                let mut budgets = names.iter().flat_map(|name| catalog.budgets_of(name));
                budgets.any(|budget| budget.coupon.is_some())
            };
            let spent_on = |names: &BTreeSet<String>| -> Result<Spending, Fault> {
                let has_tally = counts(names);
                let of = |EntrySum { cost, tally }| Elsewhere {
                    cost,
                    tally: has_tally.then_some(tally),
                };
                let spent = |is_meant: &dyn Fn(&str) -> bool| -> Result<Elsewhere, Fault> {
                    Ok(of(witness.sum_by(names, is_meant)?))
                };
                let everywhere = |is_meant: &dyn Fn(&str) -> bool| -> Result<Elsewhere, Fault> {
                    Ok(of(witness.sum_everywhere(&catalog, names, is_meant)?))
                };
                let budgets = names.iter().flat_map(|name| catalog.budgets_of(name));
                let slices = budgets.flat_map(|budget| catalog.slices(&budget.name));
                let with_slices: BTreeSet<&String> = slices.map(|slice| &slice.analyst).collect();
                let (mut by, mut by_everywhere) = (Vec::new(), Vec::new());
                for analyst in witness.analysts_on(names) {
                    if with_slices.contains(&analyst) {
                        let is_meant = |other: &str| other == analyst;
                        by.push((analyst.clone(), spent(&is_meant)?));
                        by_everywhere.push((analyst.clone(), everywhere(&is_meant)?));
                    }
                }
                let (all, all_everywhere) = (spent(&|_| true)?, everywhere(&|_| true)?);
                Ok(Spending { all, by, all_everywhere, by_everywhere })
            };
            let mut budgets = Vec::new();
            for account in charge::accounts(connection, witness, &catalog)? {
                let people = catalog.people(catalog.unit_domain_of(&account.budget));
                budgets.push((state(&account, witness, &catalog)?, spent_on(&people)?));
            }
            let joined = store::joined_rows(connection)?;
            let joined = joined.into_iter().flat_map(|(one, other)| [one, other]);
            let names: BTreeSet<String> = joined.chain(witness.charged_names()).collect();
            let people: BTreeSet<BTreeSet<String>> =
                names.iter().map(|name| catalog.people(name)).collect();
            let mut spent = Vec::new();
            for names in people {
                let spending = spent_on(&names)?;
                spent.push((names, spending));
            }
            Ok(Inventory { catalog, budgets, people: spent, roles: roles::all(connection)? })
        })
    }
}
