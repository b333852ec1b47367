//! The promises of a vault, with one charge after another. Races and damage are in separate files.
//!
//! The helpers before the tests make small tables, budgets and requests with exact costs.

#![allow(clippy::arithmetic_side_effects, reason = "test counters are small")]

mod account_sums;
mod built_on;
mod cell_limits;
mod checkpoints;
mod concentrated;
mod coupons;
mod damage;
mod declaration_history;
mod drift_notes;
mod group_commits;
mod moved_tables;
mod races;
mod rates;
mod release_tables;
mod session_caps;
mod slice_limits;
mod spent_elsewhere;
mod views;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hushql_privacy::privacy::{Cost, Epsilon, Loss, Notion, Rational, Spend};
use num_bigint::BigInt;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use tempfile::TempDir;

use super::{
    BudgetState, Charge, ChargeCaps, ChargeEntry, ChargeRequest, OWNER, Vault, VaultError,
    plan_hash,
};
use crate::catalog::{
    Budget, Catalog, Column, Domain, PerQuery, Privacy, Replay, Source, Table, Unit,
};

const NANO: i64 = 1_000_000_000;

fn spend(nano_epsilon: i64, atto_delta: i64) -> Spend {
    Spend::of_epsilon(nano_epsilon, atto_delta)
}

/// The (ε, δ) of a cost.
fn epsilon(cost: &Cost) -> Spend {
    cost.within(Notion::Approximate).unwrap()
}

fn table(name: &str) -> Table {
    let column = |name: &str, domain| Column {
        name: name.to_owned(),
        data_type: "Int64".to_owned(),
        nullable: false,
        domain,
        zone: None,
    };
    let age =
        Domain::Between { lo: "0".to_owned(), hi: "120".to_owned(), step: None, or_null: false };
    Table {
        name: name.to_owned(),
        source: Source::Registered,
        privacy: Privacy::Private(Unit::Column {
            column: "id".to_owned(),
            max_rows: Some(20),
            unique: false,
        }),
        columns: vec![column("id", None), column("age", Some(age))],
    }
}

fn budget(name: &str, table: &str, limit: Spend) -> Budget {
    Budget {
        name: name.to_owned(),
        table: table.to_owned(),
        limit,
        promise: None,
        coupon: None,
        per_query: PerQuery::default(),
        replay: Replay::All,
    }
}

/// A request for one release that costs exactly these units of the ledger.
fn request(nano: i64, atto: i64, unit_domains: &[&str]) -> ChargeRequest {
    let units =
        |units: i64, places: u32| Rational::new(BigInt::from(units), BigInt::from(10).pow(places));
    let epsilon = Epsilon::new(units(nano, 9)).unwrap();
    let loss = match atto {
        0 => Loss::pure(&epsilon),
        _ => Loss::approximate(
            &epsilon,
            &hushql_privacy::privacy::Delta::new(units(atto, 18)).unwrap(),
        ),
    };
    ChargeRequest {
        analyst: "lab".to_owned(),
        plan_hash: plan_hash("plan"),
        statement: "SELECT LAPLACE(eps=1) COUNT(*) FROM adult".to_owned(),
        entries: vec![entry(loss)],
        shows_again: false,
        unit_domains: unit_domains.iter().map(|unit_domain| (*unit_domain).to_owned()).collect(),
        tables: Default::default(),
        catalog: Arc::new(Catalog::of_any_vault()),
        caps: ChargeCaps::default(),
        built_on: Vec::new(),
    }
}

/// Changes the present declaration of a table.
fn alter(vault: &Vault, name: &str, change: impl FnOnce(&mut Table)) -> Result<(), VaultError> {
    let catalog = vault.catalog()?;
    let mut table = catalog.table(name).cloned().unwrap_or_else(|| table(name));
    change(&mut table);
    vault.alter_tables(&catalog, &[table])
}

fn entry(loss: Loss) -> ChargeEntry {
    ChargeEntry {
        mechanism: "LAPLACE".to_owned(),
        parameters: "eps=1".to_owned(),
        sensitivity: "1".to_owned(),
        loss,
        shared: false,
        cells: None,
    }
}

/// A vault with the table `adult` and its budget `research` with this limit.
fn furnish(vault: &Vault, limit: Spend) {
    vault.create_table(&table("adult")).unwrap();
    vault.create_budget(&budget("research", "adult", limit)).unwrap();
}

fn file(limit: Spend) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    furnish(&Vault::init(&path).unwrap(), limit);
    (folder, path)
}

/// The sum of the ledger's entries for one unit domain.
fn total(vault: &Vault, unit_domain: &str) -> Spend {
    let mut sum = Spend::default();
    for entry in vault.entries().unwrap() {
        if entry.unit_domains.iter().any(|name| name == unit_domain) {
            sum = sum.plus(epsilon(&entry.cost)).unwrap();
        }
    }
    sum
}

#[test]
fn a_charge_is_rounded_up_once_per_release() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(NANO, 0));
    let third = Epsilon::new(Rational::new(1.into(), 3.into())).unwrap();
    let mut ask = request(NANO, 0, &["adult", "adult"]);
    ask.entries = vec![entry(Loss::pure(&third)); 2];
    let quotes = vault.quote(&ask).unwrap();
    assert_eq!(vault.budget("research").unwrap().spent, Spend::default(), "a quote is free");
    let charge = vault.charge(&ask).unwrap();
    assert_eq!(epsilon(&charge.spend()), spend(666_666_668, 0), "a repeated space is one space");
    assert_eq!((quotes[0].spent, quotes[0].after), (Spend::default(), epsilon(&charge.spend())));
    assert_eq!(charge.left(), [("research".to_owned(), spend(333_333_332, 0))]);
    let entries = vault.entries().unwrap();
    let numbers: Vec<_> = entries.iter().map(|entry| (entry.sequence, entry.charge)).collect();
    assert_eq!(numbers, [(1, 1), (2, 1)]);
    assert_eq!(entries[0].cost, Cost::from_amounts(Some((333_333_334, 0)), (55_046_805, 0)));
    assert_eq!(
        (&entries[0].unit_domains[..], &entries[0].budgets[..]),
        (&["adult".to_owned()][..], &["research".to_owned()][..])
    );
    assert_eq!(vault.analysts().unwrap(), ["lab", OWNER]);
    // The exact remainder can be spent, and one unit more cannot.
    assert!(vault.charge(&request(333_333_333, 0, &["adult"])).unwrap_err().is_budget());
    assert!(vault.charge(&request(333_333_332, 0, &["adult"])).is_ok());
}

#[test]
fn a_charge_touches_every_budget_or_none() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(3 * NANO, 0));
    vault.create_budget(&budget("strict", "adult", spend(NANO, 0))).unwrap();
    vault.create_table(&table("bids")).unwrap();
    vault.create_budget(&budget("market", "bids", spend(2 * NANO, 0))).unwrap();
    let both = vault.charge(&request(NANO, 0, &["bids", "adult"])).unwrap();
    let names: Vec<_> = both.left().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["market", "research", "strict"]);
    let refused = vault.charge(&request(1, 0, &["adult", "bids"])).unwrap_err();
    assert!(matches!(refused, VaultError::Exhausted { budget, .. } if budget == "strict"));
    let spent: Vec<_> = vault.budgets().unwrap().iter().map(|s| s.spent.nano).collect();
    assert_eq!(spent, [NANO; 3]);
    assert_eq!(vault.entries().unwrap().len(), 1);
    assert!(vault.charge(&request(NANO, 0, &["bids"])).is_ok());
}

#[test]
fn refusals_say_what_is_wrong() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(NANO, 1_000_000_000_000));
    let says = |ask: &ChargeRequest| {
        let (quoted, charged) = (vault.quote(ask).unwrap_err(), vault.charge(ask).unwrap_err());
        assert_eq!(quoted.to_string(), charged.to_string());
        charged.to_string()
    };
    assert_eq!(
        says(&request(2 * NANO, 0, &["adult"])),
        "the privacy budget `research` does not suffice: this query costs ε = 2, but only ε = 1, δ = 1e-6 is left"
    );
    assert!(says(&request(1, 1_000_000_000_001, &["adult"])).contains("does not suffice"));
    assert_eq!(
        says(&request(1, 0, &["adult", "bids"])),
        "the private table `bids` has no privacy budget; its owner can create one with `CREATE PRIVACY BUDGET … FOR bids LIMIT (epsilon=…)`"
    );
    let nothing = "a charge needs a release, a loss greater than 0 and a private table";
    assert_eq!(says(&request(1, 0, &[])), nothing);
    assert_eq!(says(&ChargeRequest { entries: Vec::new(), ..request(1, 0, &["adult"]) }), nothing);
    let free = ChargeRequest { entries: vec![entry(Loss::zero())], ..request(1, 0, &["adult"]) };
    assert_eq!(says(&free), nothing);
    let read_of_nothing = ChargeEntry { shared: true, ..entry(Loss::zero()) };
    let first = ChargeRequest { entries: vec![read_of_nothing], ..request(1, 0, &["adult"]) };
    assert_eq!(says(&first), nothing);
    let paid = request(1, 0, &["adult"]).entries;
    let behind = paid.into_iter().chain([entry(Loss::zero())]).collect();
    assert_eq!(says(&ChargeRequest { entries: behind, ..request(1, 0, &["adult"]) }), nothing);
    let stranger = ChargeRequest { analyst: "a b".to_owned(), ..request(1, 0, &["adult"]) };
    assert_eq!(
        says(&stranger),
        "`a b` cannot be the name of an analyst: use 1 to 64 letters from a to z, digits, `_` and `-`, and nothing that reads like `owner`"
    );
    let huge = Epsilon::new(Rational::from_integer(1_000_000.into())).unwrap();
    let loss = (0..20_000).fold(Loss::zero(), |loss, _| loss.plus(&Loss::pure(&huge)));
    let huge = ChargeRequest { entries: vec![entry(loss)], ..request(1, 0, &["adult"]) };
    assert_eq!(says(&huge), "the cost of this query is out of range");

    let per_query = PerQuery { max: Some(NANO / 2), ..PerQuery::default() };
    let capped = Budget { per_query, ..budget("capped", "adult", spend(NANO, 0)) };
    vault.create_budget(&capped).unwrap();
    assert_eq!(
        says(&request(NANO / 2 + 1, 0, &["adult"])),
        "this query costs ε = 0.500000001, and the privacy budget `capped` allows ε = 0.5 per query"
    );
    assert!(vault.entries().unwrap().is_empty());
    assert!(vault.charge(&request(NANO / 2, 0, &["adult"])).is_ok());
}

#[test]
fn the_least_of_every_budget_is_compared() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(2 * NANO, 9));
    for (name, min) in [("little", 7), ("more", 1_000), ("some", 80)] {
        let per_query = PerQuery { min: Some(min), ..PerQuery::default() };
        let guarded = Budget { per_query, ..budget(name, "adult", spend(NANO, 9)) };
        vault.create_budget(&guarded).unwrap();
    }
    // The message names the budget with the highest minimum, even if others are not met either.
    for (nano, atto) in [(1, 0), (7, 9), (80, 0), (999, 9)] {
        let asked = request(nano, atto, &["adult"]);
        for error in [vault.quote(&asked).map(drop), vault.charge(&asked).map(drop)] {
            let error = error.unwrap_err();
            assert!(error.is_budget());
            let cost = spend(nano, atto);
            assert_eq!(
                error.to_string(),
                format!(
                    "this query costs {cost}, and the privacy budget `more` takes at least ε = 0.000001 per query: write eps=0.000001 or more for all releases of the query together"
                )
            );
        }
    }
    assert!(vault.entries().unwrap().is_empty());
    // The releases of a charge count together.
    let halves = vec![entry(Loss::pure(&"0.0000005".parse().unwrap())); 2];
    let together = ChargeRequest { entries: halves, ..request(1, 0, &["adult"]) };
    assert!(vault.charge(&together).is_ok());
    assert!(vault.charge(&request(1_000, 0, &["adult"])).is_ok());
}

#[test]
fn budgets_give_nothing_back() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(2 * NANO, 0));
    let asked = vault.charge(&request(NANO, 0, &["adult"])).map(|charge| epsilon(&charge.spend()));
    assert_eq!(asked.unwrap(), spend(NANO, 0));
    // Dropping and creating a budget, or the table itself, does not change the spent amount.
    vault.drop_budget("research").unwrap();
    vault.drop_table("adult").unwrap();
    furnish(&vault, spend(3 * NANO, 0));
    let BudgetState { spent, left, .. } = vault.budget("research").unwrap();
    assert_eq!((spent, left), (spend(NANO, 0), spend(2 * NANO, 0)));
    // A limit below the spent amount leaves nothing; a later, higher one leaves the difference.
    vault.set_budget_limit("research", spend(1, 0), None).unwrap();
    assert_eq!(vault.budget("research").unwrap().left, Spend::default());
    assert!(vault.charge(&request(1, 0, &["adult"])).unwrap_err().is_budget());
    vault.set_budget_limit("research", spend(NANO + 5, 0), None).unwrap();
    assert!(vault.charge(&request(6, 0, &["adult"])).unwrap_err().is_budget());
    assert!(vault.charge(&request(5, 0, &["adult"])).is_ok());
    // The new budget is exhausted from the beginning.
    let late = vault.create_budget(&budget("late", "adult", spend(NANO, 0))).unwrap();
    assert_eq!((late.spent, late.left), (spend(NANO + 5, 0), Spend::default()));
}

#[test]
fn declarations_are_kept_and_refused() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open(&path).unwrap();
    let says = |result: Result<(), VaultError>| result.unwrap_err().to_string();
    assert_eq!(says(vault.create_table(&table("adult"))), "there is a table `adult` already");
    assert_eq!(says(vault.drop_table("bids")), "there is no table `bids`");
    assert_eq!(says(alter(&vault, "bids", |_| ())), "there is no table `bids`");
    assert_eq!(says(vault.drop_budget("b")), "there is no privacy budget `b`");
    assert_eq!(
        says(vault.drop_table("adult")),
        "the table `adult` has privacy budgets (research); drop them first"
    );
    assert!(says(vault.set_budget_limit("research", spend(0, 0), None)).contains("greater than 0"));
    assert!(
        says(vault.create_budget(&budget("research", "adult", spend(1, 0))).map(drop))
            .contains("already")
    );
    assert!(
        says(vault.create_budget(&budget("b", "bids", spend(1, 0))).map(drop)).contains("`bids`")
    );
    vault.create_table(&Table { privacy: Privacy::Public, ..table("states") }).unwrap();
    assert!(
        says(vault.create_budget(&budget("b", "states", spend(1, 0))).map(drop))
            .contains("no privacy unit")
    );

    let before = vault.catalog().unwrap();
    let public = Table { privacy: Privacy::Public, ..table("adult") };
    let refused = vault.alter_tables(&before, &[public, table("x")]);
    assert_eq!(says(refused), "there is no table `x`");
    assert_eq!(before, vault.catalog().unwrap(), "a refused change changes nothing");
    alter(&vault, "adult", |table| table.privacy = Privacy::Private(Unit::Row)).unwrap();
    // Another handle sees the change, although it read the catalog before.
    let other = Vault::open(&path).unwrap();
    assert_eq!(other.catalog().unwrap().table("adult").unwrap().unit(), Some(&Unit::Row));
    alter(&vault, "adult", |table| table.columns[1].domain = None).unwrap();
    let catalog = other.catalog().unwrap();
    assert_eq!(catalog.table("adult").unwrap().column("age").unwrap().domain, None);
    assert_eq!(
        catalog.budgets_of("adult").map(|b| b.name.as_str()).collect::<Vec<_>>(),
        ["research"]
    );
    assert_eq!(*catalog, *Vault::open(&path).unwrap().catalog().unwrap());
}

#[test]
fn the_file_itself_forbids_refunds() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(2 * NANO, 0));
    let charge = vault.charge(&request(NANO, 0, &["adult"])).unwrap();
    assert_eq!(charge.sequence(), 1);
    let fails = |sql: &str, why: &str| {
        let error = vault.raw(|connection| connection.execute_batch(sql)).unwrap_err();
        assert!(error.to_string().contains(why), "{sql}: {error}");
    };
    let copy = "SELECT sequence, charge, analyst, spaces, budgets, mechanism, parameters, \
                sensitivity, 0, 0, 0, 0, plan_hash, at, statement, cells, nonce, chain FROM ledger";
    fails("UPDATE ledger SET epsilon_nano = 0", "never changed");
    fails("DELETE FROM ledger", "never deleted");
    fails(&format!("INSERT OR REPLACE INTO ledger {copy}"), "at its end only");
    fails("UPDATE budget SET spent_loss = spent_loss - 1", "never given back");
    fails("UPDATE budget SET spent_loss = limit_loss + 1", "cap_loss");
    fails("UPDATE budget SET spent_delta = 1", "cap_delta");
    fails("UPDATE budget SET notion = 'rho'", "how a budget counts never changes");
    let promise = "UPDATE budget SET promised_epsilon = 1, promised_delta = 1";
    fails(promise, "how a budget counts never changes");
    fails("DELETE FROM declared_table", "FOREIGN KEY");
}

/// A model of a vault, in its shortest form.
#[derive(Default)]
struct Reference {
    spent: BTreeMap<&'static str, Spend>,
    budgets: BTreeMap<String, (&'static str, Spend)>,
    entries: usize,
}

impl Reference {
    fn spent(&self, unit_domain: &str) -> Spend {
        self.spent.get(unit_domain).copied().unwrap_or_default()
    }

    fn left(&self, name: &str) -> Spend {
        let (unit_domain, limit) = self.budgets[name];
        let spent = self.spent(unit_domain);
        if spent.nano > limit.nano || spent.atto_delta > limit.atto_delta {
            return spend(0, 0);
        }
        spend(limit.nano - spent.nano, limit.atto_delta - spent.atto_delta)
    }

    fn charge(&mut self, asked: Spend, unit_domains: &[&'static str]) -> bool {
        let of = |unit_domain| self.budgets.iter().filter(move |(_, (s, _))| *s == unit_domain);
        let fits = |name: &str| {
            let left = self.left(name);
            asked.nano <= left.nano && asked.atto_delta <= left.atto_delta
        };
        let pays = unit_domains.iter().all(|unit_domain| {
            of(*unit_domain).count() > 0 && of(*unit_domain).all(|(n, _)| fits(n))
        });
        if pays {
            self.entries += 1;
            for unit_domain in unit_domains {
                let sum = self.spent.entry(unit_domain).or_default();
                *sum = spend(sum.nano + asked.nano, sum.atto_delta + asked.atto_delta);
            }
        }
        pays
    }
}

#[test]
fn ten_thousand_random_steps_agree_with_the_reference() {
    const SPACES: [&str; 3] = ["adult", "bids", "orders"];
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let vault = Vault::in_memory().unwrap();
    SPACES.iter().for_each(|name| vault.create_table(&table(name)).unwrap());
    let mut reference = Reference::default();
    let mut paid = 0;
    for step in 0..10_000 {
        let name = format!("b{}", rng.random_range(0..5));
        let unit_domain = SPACES[rng.random_range(0..3)];
        // Limits grow with the steps, so that some charges are paid and others refused throughout.
        let limit = spend(rng.random_range(1..=10 + 3 * step), rng.random_range(0..=3 * step));
        match rng.random_range(0..20) {
            0..=1 => {
                let made = vault.create_budget(&budget(&name, unit_domain, limit)).is_ok();
                assert_eq!(made, !reference.budgets.contains_key(&name), "step {step}");
                reference.budgets.entry(name).or_insert((unit_domain, limit));
            }
            2 => {
                let dropped = vault.drop_budget(&name).is_ok();
                assert_eq!(dropped, reference.budgets.remove(&name).is_some(), "step {step}");
            }
            3..=5 => {
                let set = vault.set_budget_limit(&name, limit, None).is_ok();
                assert_eq!(set, reference.budgets.contains_key(&name), "step {step}");
                reference.budgets.entry(name).and_modify(|(_, old)| *old = limit);
            }
            _ => {
                let count = rng.random_range(1..=2);
                let unit_domains = &SPACES[..count];
                let asked = spend(rng.random_range(1..=9), rng.random_range(0..=9));
                let ask = request(asked.nano, asked.atto_delta, unit_domains);
                let quoted = vault.quote(&ask).is_ok();
                let charged = vault.charge(&ask).is_ok();
                let expected = reference.charge(asked, unit_domains);
                assert_eq!((quoted, charged), (expected, expected), "step {step}");
                paid += usize::from(charged);
            }
        }
        if step % 10 == 0 {
            let states = vault.budgets().unwrap();
            assert_eq!(states.len(), reference.budgets.len());
            for state in states {
                let (unit_domain, limit) = reference.budgets[&state.budget.name];
                assert_eq!(
                    (state.budget.limit, state.spent),
                    (limit, reference.spent(unit_domain))
                );
                assert_eq!(state.left, reference.left(&state.budget.name), "step {step}");
            }
        }
    }
    assert!((1_000..7_000).contains(&paid), "{paid} charges: the history tests one side only");
    assert_eq!(vault.entries().unwrap().len(), reference.entries);
    SPACES.iter().for_each(|unit_domain| {
        assert_eq!(total(&vault, unit_domain), reference.spent(unit_domain))
    });
}

#[test]
fn a_vault_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Vault>();
    shared::<Charge>();
    shared::<VaultError>();
}
