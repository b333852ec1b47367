//! Budgets and charges while declarations change: which budgets a charge counts against, and the
//! least spent amounts.
//!
//! The reference stores only the history of each table: the charges to its people, wherever its
//! unit led. The vault must count and show all of them in every budget that now covers the table's
//! people.

use std::collections::{BTreeMap, BTreeSet};

use hushql_privacy::privacy::{Loss, Spend};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::{NANO, alter, budget, entry, request, spend, table};
use crate::catalog::{CatalogError, Link, Privacy, Table, Unit};
use crate::ledger::{ChargeRequest, Vault, VaultError};

const TABLES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn column() -> Privacy {
    Privacy::Private(Unit::Column { column: "id".to_owned(), max_rows: None, unique: false })
}

fn via(target: &str) -> Privacy {
    Privacy::Private(Unit::Via(Link {
        columns: vec!["id".to_owned()],
        table: target.to_owned(),
        references: vec!["id".to_owned()],
        max_rows: None,
    }))
}

fn declared(name: &str, privacy: Privacy) -> Table {
    Table { privacy, ..table(name) }
}

/// The declarations, and the charges to the people of each table.
#[derive(Debug, Default)]
struct Reference {
    tables: BTreeMap<&'static str, Privacy>,
    budgets: BTreeMap<String, (&'static str, i64)>,
    /// The cost of each charge.
    charges: Vec<i64>,
    /// The charges to a table's people, by its name, even after it is dropped.
    seen: BTreeMap<&'static str, BTreeSet<usize>>,
    /// The names that share charges: those of tables that separated after a charge to common
    /// people.
    classes: Vec<BTreeSet<&'static str>>,
    /// The unit domains that were ever charged.
    charged: BTreeSet<&'static str>,
}

impl Reference {
    fn unit_domain(&self, table: &'static str) -> Option<&'static str> {
        let mut table = *self.tables.get_key_value(table)?.0;
        for _ in TABLES {
            match self.tables.get(table)? {
                Privacy::Private(Unit::Via(link)) => {
                    table = self.tables.get_key_value(link.table.as_str())?.0;
                }
                Privacy::Private(_) => return Some(table),
                Privacy::Public | Privacy::Undeclared => return None,
            }
        }
        None
    }

    fn home(&self, table: &'static str) -> &'static str {
        self.unit_domain(table).unwrap_or(table)
    }

    fn class(&self, unit_domain: &'static str) -> BTreeSet<&'static str> {
        let found = self.classes.iter().find(|class| class.contains(unit_domain));
        found.cloned().unwrap_or_else(|| BTreeSet::from([unit_domain]))
    }

    fn is_charged(&self, class: &BTreeSet<&'static str>) -> bool {
        class.iter().any(|unit_domain| self.charged.contains(unit_domain))
    }

    fn join(&mut self, one: &'static str, other: &'static str) {
        let both: BTreeSet<_> = self.class(one).union(&self.class(other)).copied().collect();
        self.classes.retain(|class| class.is_disjoint(&both));
        self.classes.push(both);
    }

    /// Whether every link leads to a column of a private table.
    fn is_whole(&self) -> bool {
        self.tables.iter().all(|(name, privacy)| match privacy {
            Privacy::Private(Unit::Via(_)) => {
                let root = self.unit_domain(name).and_then(|root| self.tables.get(root));
                matches!(root, Some(Privacy::Private(Unit::Column { .. })))
            }
            _ => true,
        })
    }

    /// Declares tables again; each table takes its charges along.
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<&'static str, Privacy>)) -> bool {
        let old = self.tables.clone();
        let before: Vec<_> = TABLES.iter().map(|name| self.unit_domain(name)).collect();
        change(&mut self.tables);
        if !self.is_whole() {
            self.tables = old;
            return false;
        }
        for (name, left) in TABLES.into_iter().zip(before) {
            let entered = self.unit_domain(name);
            if left == entered {
                continue;
            }
            if let Some(left) = left.filter(|left| self.is_charged(&self.class(left))) {
                self.join(name, left);
            }
            if let Some(entered) = entered.filter(|_| self.is_charged(&self.class(name))) {
                self.join(name, entered);
            }
        }
        true
    }

    fn binds(&self, budget: &str, unit_domain: &'static str) -> bool {
        self.class(self.home(self.budgets[budget].0)).contains(unit_domain)
    }

    /// The charges to the people of a budget's table, under any table.
    fn at_least(&self, budget: &str) -> i64 {
        let home = self.home(self.budgets[budget].0);
        let of = TABLES.iter().filter(|name| self.home(name) == home);
        let seen: BTreeSet<usize> =
            of.filter_map(|name| self.seen.get(name)).flatten().copied().collect();
        seen.into_iter().map(|charge| self.charges[charge]).sum()
    }

    fn left(&self, budget: &str, spent: i64) -> i64 {
        (self.budgets[budget].1 - spent).max(0)
    }
}

/// One vault and its reference, with random declarations and charges.
struct Walk {
    vault: Vault,
    reference: Reference,
    rng: ChaCha20Rng,
    spent: BTreeMap<String, i64>,
    paid: usize,
}

impl Walk {
    fn pick(&mut self) -> &'static str {
        TABLES[self.rng.random_range(0..TABLES.len())]
    }

    fn privacy(&mut self) -> Privacy {
        match self.rng.random_range(0..8) {
            0 => Privacy::Public,
            1 => Privacy::Undeclared,
            2 => Privacy::Private(Unit::Row),
            3 | 4 => column(),
            _ => via(self.pick()),
        }
    }

    fn declare(&mut self) {
        let name = self.pick();
        match self.rng.random_range(0..6) {
            0 => {
                let privacy = self.privacy();
                let made = self.vault.create_table(&declared(name, privacy.clone())).is_ok();
                let is_new = !self.reference.tables.contains_key(name);
                let whole =
                    is_new && self.reference.change(|tables| drop(tables.insert(name, privacy)));
                assert_eq!(made, whole, "CREATE {name}");
            }
            1 => {
                let dropped = self.vault.drop_table(name).is_ok();
                let is_free = self.reference.tables.contains_key(name)
                    && self.reference.budgets.values().all(|(table, _)| *table != name);
                let whole = is_free && self.reference.change(|tables| drop(tables.remove(name)));
                assert_eq!(dropped, whole, "DROP {name}");
            }
            _ => {
                let privacy = self.privacy();
                let altered = alter(&self.vault, name, |t| t.privacy = privacy.clone()).is_ok();
                let whole = self.reference.tables.contains_key(name)
                    && self.reference.change(|tables| drop(tables.insert(name, privacy)));
                assert_eq!(altered, whole, "ALTER {name}");
            }
        }
    }

    fn budget(&mut self) {
        let (table, name) = (self.pick(), format!("b{}", self.rng.random_range(0..4)));
        let limit = self.rng.random_range(1..=400);
        let known = self.reference.budgets.contains_key(&name);
        match self.rng.random_range(0..5) {
            0..=2 => {
                let made = self.vault.create_budget(&budget(&name, table, spend(limit, 0))).is_ok();
                let expected = !known && self.reference.unit_domain(table).is_some();
                assert_eq!(made, expected, "budget {name} for {table}");
                if expected {
                    self.reference.budgets.insert(name, (table, limit));
                }
            }
            3 => {
                assert_eq!(
                    self.vault.set_budget_limit(&name, spend(limit, 0), None).is_ok(),
                    known
                );
                self.reference.budgets.entry(name).and_modify(|(_, old)| *old = limit);
            }
            _ => {
                assert_eq!(self.vault.drop_budget(&name).is_ok(), known);
                self.reference.budgets.remove(&name);
                self.spent.remove(&name);
            }
        }
    }

    fn charge(&mut self) {
        let tables = [self.pick(), self.pick()];
        let unit_domains: BTreeSet<&'static str> =
            tables.iter().filter_map(|table| self.reference.unit_domain(table)).collect();
        let unit_domains: Vec<&str> = unit_domains.into_iter().collect();
        let cost = self.rng.random_range(1..=9);
        let ask = self.planned(cost, &unit_domains);
        let bound = |unit_domain: &str| {
            let binding = TABLES.iter().find(|name| **name == unit_domain).unwrap();
            let of = self.reference.budgets.keys();
            of.filter(|name| self.reference.binds(name, binding)).cloned().collect::<Vec<_>>()
        };
        let touched: BTreeSet<String> =
            unit_domains.iter().flat_map(|unit_domain| bound(unit_domain)).collect();
        let has_budgets = unit_domains.iter().all(|unit_domain| !bound(unit_domain).is_empty());
        let fits = |name: &String| cost <= self.reference.left(name, self.spent[name]);
        let expected = !unit_domains.is_empty() && has_budgets && touched.iter().all(fits);
        assert_eq!(self.vault.quote(&ask).is_ok(), expected, "{ask:?}");
        let charge = self.vault.charge(&ask);
        assert_eq!(charge.is_ok(), expected, "{ask:?}");
        let Ok(charge) = charge else { return };
        // The affected budgets: those of tables that share people with a table that is read.
        for (name, (table, _)) in &self.reference.budgets {
            if self
                .reference
                .unit_domain(table)
                .is_some_and(|unit_domain| unit_domains.contains(&unit_domain))
            {
                assert!(touched.contains(name), "{name}");
            }
        }
        let charged: BTreeSet<String> =
            charge.left().iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(charged, touched);
        let number = self.reference.charges.len();
        self.reference.charges.push(cost);
        for name in TABLES {
            if let Some(unit_domain) =
                self.reference.unit_domain(name).filter(|s| unit_domains.contains(s))
            {
                self.reference.charged.insert(unit_domain);
                self.reference.seen.entry(name).or_default().insert(number);
            }
        }
        self.paid += 1;
    }

    /// A request that was planned with the present declarations.
    fn planned(&self, cost: i64, unit_domains: &[&str]) -> ChargeRequest {
        ChargeRequest { catalog: self.vault.catalog().unwrap(), ..request(cost, 0, unit_domains) }
    }

    /// Checks that the vault shows the amounts of the reference, and compares charges with them.
    fn check(&mut self, step: usize) {
        let states = self.vault.budgets().unwrap();
        assert_eq!(states.len(), self.reference.budgets.len(), "step {step}");
        let all: i64 = self.reference.charges.iter().sum();
        for state in &states {
            let name = &state.budget.name;
            let spent = state.spent.nano;
            let before = self.spent.insert(name.clone(), spent).unwrap_or(0);
            assert!(spent >= before, "step {step}: {name} got something back");
            assert!(spent >= self.reference.at_least(name), "step {step}: {name} forgets");
            assert!(spent <= all, "step {step}: {name} counts a charge twice");
            assert_eq!(state.left.nano, self.reference.left(name, spent), "step {step}: {name}");
        }
        let Some(unit_domain) = self.reference.unit_domain(self.pick_at(step)) else { return };
        let binding = states.iter().filter(|s| self.reference.binds(&s.budget.name, unit_domain));
        let Some(left) = binding.map(|state| state.left.nano).min() else { return };
        assert!(self.vault.quote(&self.planned(left + 1, &[unit_domain])).is_err(), "step {step}");
        if left > 0 {
            self.vault.quote(&self.planned(left, &[unit_domain])).unwrap();
        }
    }

    fn pick_at(&self, step: usize) -> &'static str {
        TABLES[step % TABLES.len()]
    }
}

#[test]
fn budgets_bind_the_people_of_their_tables_whatever_is_declared() {
    let mut paid = 0;
    for seed in 0..12 {
        let rng = ChaCha20Rng::seed_from_u64(seed);
        let vault = Vault::in_memory().unwrap();
        let reference = Reference::default();
        let mut walk = Walk { vault, reference, rng, spent: BTreeMap::new(), paid: 0 };
        for step in 0..500 {
            // At first most steps declare, later most steps charge; then this repeats.
            let declares = if step % 100 < 30 { 7 } else { 2 };
            match walk.rng.random_range(0..10) {
                n if n < declares => walk.declare(),
                n if n < declares + 2 => walk.budget(),
                _ => walk.charge(),
            }
            walk.check(step);
        }
        paid += walk.paid;
    }
    assert!(paid > 300, "{paid} charges: the walk tests refusals only");
}

/// A charge that names two unit domains counts once after they are joined; the limit covers both.
#[test]
fn unit_domains_that_are_joined_add_up_once() {
    let vault = Vault::in_memory().unwrap();
    for (name, limit) in [("people", 100), ("visits", 10)] {
        vault.create_table(&declared(name, column())).unwrap();
        vault.create_budget(&budget(&format!("of_{name}"), name, spend(limit, 0))).unwrap();
    }
    assert!(vault.charge(&request(3, 0, &["people"])).is_ok());
    assert!(vault.charge(&request(2, 0, &["people", "visits"])).is_ok());
    assert!(vault.charge(&request(4, 0, &["visits"])).is_ok());
    alter(&vault, "visits", |t| t.privacy = via("people")).unwrap();
    let spent = || vault.budgets().unwrap().iter().map(|s| s.spent.nano).collect::<Vec<_>>();
    assert_eq!(spent(), [9, 9]);
    // The remainder of the strict budget applies to all of them.
    let ask = |cost, unit_domain: &str| {
        let catalog = vault.catalog().unwrap();
        vault.charge(&ChargeRequest { catalog, ..request(cost, 0, &[unit_domain]) }).map(drop)
    };
    assert!(ask(2, "people").unwrap_err().is_budget());
    ask(1, "people").unwrap();
    // Joined unit domains remain joined.
    alter(&vault, "visits", |t| t.privacy = column()).unwrap();
    assert_eq!(spent(), [10, 10]);
    assert!(ask(1, "people").unwrap_err().is_budget() && ask(1, "visits").unwrap_err().is_budget());
    vault.set_budget_limit("of_visits", spend(12, 0), None).unwrap();
    ask(1, "visits").unwrap();
    assert_eq!(spent(), [11, 11]);
    let fails = |sql: &str| vault.raw(|c| c.execute_batch(sql)).unwrap_err().to_string();
    assert!(fails("DELETE FROM joined_space").contains("never parted"));
    assert!(fails("UPDATE joined_space SET other = 'z'").contains("never parted"));
}

/// A budget that moves to people with more charges than its limit has nothing left, and nothing
/// fails.
#[test]
fn a_budget_may_arrive_exhausted() {
    let vault = Vault::in_memory().unwrap();
    for (name, limit) in [("people", 100), ("visits", 10)] {
        vault.create_table(&declared(name, column())).unwrap();
        vault.create_budget(&budget(&format!("of_{name}"), name, spend(limit, 0))).unwrap();
    }
    assert!(vault.charge(&request(50, 0, &["people"])).is_ok());
    alter(&vault, "visits", |t| t.privacy = via("people")).unwrap();
    let state = vault.budget("of_visits").unwrap();
    assert_eq!((state.spent, state.left), (spend(50, 0), Spend::default()));
    let catalog = vault.catalog().unwrap();
    let refused = vault.charge(&ChargeRequest { catalog, ..request(1, 0, &["people"]) });
    let refused = refused.unwrap_err();
    assert!(matches!(refused, VaultError::Exhausted { budget, .. } if budget == "of_visits"));
    vault.set_budget_limit("of_visits", spend(60, 0), None).unwrap();
    assert_eq!(vault.budget("of_visits").unwrap().left, spend(10, 0));
}

/// A budget in ε cannot count releases that have only a ρ, wherever their tables come from.
#[test]
fn a_budget_that_cannot_count_what_comes_is_named() {
    let vault = Vault::in_memory().unwrap();
    for name in ["people", "visits"] {
        vault.create_table(&declared(name, column())).unwrap();
    }
    vault.create_budget(&budget("curve", "people", Spend::of_rho(NANO, 0))).unwrap();
    vault.create_budget(&budget("plain", "visits", spend(NANO, 0))).unwrap();
    let entries = vec![entry(Loss::concentrated(&"0.25".parse().unwrap()))];
    let ask = ChargeRequest { entries, ..request(1, 0, &["people"]) };
    assert!(vault.charge(&ask).is_ok());
    let before = vault.catalog().unwrap();
    let refused = alter(&vault, "visits", |t| t.privacy = via("people")).unwrap_err();
    assert!(
        matches!(&refused, VaultError::Catalog(CatalogError::Uncarried { budget }) if budget == "plain"),
        "{refused}"
    );
    assert_eq!(before, vault.catalog().unwrap());
    vault.drop_budget("plain").unwrap();
    alter(&vault, "visits", |t| t.privacy = via("people")).unwrap();
}

/// A statement that was planned or checked with other declarations is neither charged nor declared.
#[test]
fn what_was_planned_before_a_declaration_is_not_charged_after_it() {
    let vault = Vault::in_memory().unwrap();
    vault.create_table(&declared("people", column())).unwrap();
    vault.create_budget(&budget("wide", "people", spend(NANO, 0))).unwrap();
    let planned = vault.catalog().unwrap();
    let ask = || ChargeRequest { catalog: planned.clone(), ..request(1, 0, &["people"]) };
    assert!(vault.charge(&ask()).is_ok(), "charges are not declarations");
    vault.create_budget(&budget("strict", "people", spend(9, 0))).unwrap();
    let stale = |result: Result<(), VaultError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, VaultError::Redeclared), "{error}");
    };
    stale(vault.quote(&ask()).map(drop));
    stale(vault.charge(&ask()).map(drop));
    stale(vault.alter_tables(&planned, &[declared("people", Privacy::Public)]));
    let of_no_vault = ChargeRequest { catalog: std::sync::Arc::default(), ..ask() };
    stale(vault.charge(&of_no_vault).map(drop));
    // The earlier declaration restores the earlier state.
    vault.drop_budget("strict").unwrap();
    assert!(vault.charge(&ask()).is_ok());
    assert_eq!(vault.entries().unwrap().len(), 2);
}
