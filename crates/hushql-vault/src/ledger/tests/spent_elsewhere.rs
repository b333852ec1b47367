//! Amounts spent elsewhere, and replaced declarations: nothing spent is ever given back.

use super::*;
use crate::catalog::CatalogError;

/// Costs of (ε, δ) and (ρ, δ) in units of the ledger.
fn cost(epsilon: Option<(i64, i64)>, rho: (i64, i64)) -> Cost {
    Cost::from_amounts(epsilon, rho)
}

fn spent(vault: &Vault, budget: &str) -> Spend {
    vault.budget(budget).unwrap().spent
}

fn entries(vault: &Vault) -> usize {
    vault.entries().unwrap().len()
}

#[test]
fn what_was_spent_elsewhere_is_raised_and_never_lowered() {
    let (_folder, path) = file(spend(5 * NANO, 1000));
    let vault = Vault::open(&path).unwrap();
    let _ = vault.charge(&request(NANO, 0, &["adult"])).unwrap();
    let three = cost(Some((3 * NANO, 500)), (2 * NANO, 0));
    for _ in 0..3 {
        vault.set_spent("adult", None, three, &[]).unwrap();
        assert_eq!(spent(&vault, "research"), spend(3 * NANO, 500));
        assert_eq!(entries(&vault), 2, "what is spent already is not added again");
    }
    for less in [cost(Some((NANO, 0)), (0, 0)), cost(None, (NANO, 0)), Cost::zero()] {
        vault.set_spent("adult", None, less, &[]).unwrap();
        assert_eq!(spent(&vault, "research"), spend(3 * NANO, 500));
    }
    // Beyond the limit, nothing is left, and the vault is sound.
    vault.set_spent("adult", None, cost(Some((9 * NANO, 0)), (0, 0)), &[]).unwrap();
    assert_eq!(vault.budget("research").unwrap().left, spend(0, 0));
    assert!(vault.charge(&request(1, 0, &["adult"])).is_err());
    vault.verify().unwrap();
    drop(vault);
    let vault = Vault::open(&path).unwrap();
    assert_eq!(spent(&vault, "research"), spend(9 * NANO, 500));
    let last = vault.entries().unwrap().pop().unwrap();
    assert_eq!((last.analyst.as_str(), last.mechanism.as_str()), (OWNER, "SPENT"));
    assert_eq!(last.budgets, ["research"]);
}

/// A budget in ε cannot count an amount without an ε, so the amount is not written at all.
#[test]
fn a_rho_alone_is_refused_where_a_budget_counts_in_epsilon() {
    let (_folder, path) = file(spend(5 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    let refused = vault.set_spent("adult", None, cost(None, (NANO, 0)), &[]).unwrap_err();
    assert!(matches!(&refused, VaultError::Catalog(CatalogError::Uncarried { .. })), "{refused:?}");
    assert_eq!(entries(&vault), 0);
    vault.drop_budget("research").unwrap();
    vault.set_spent("adult", None, cost(None, (NANO, 7)), &[]).unwrap();
    let refused = vault.create_budget(&budget("research", "adult", spend(NANO, 0))).unwrap_err();
    assert!(
        matches!(&refused, VaultError::Catalog(CatalogError::Uncountable { .. })),
        "{refused:?}"
    );
    let rho = budget("rho", "adult", Spend::of_rho(5 * NANO, 100));
    assert_eq!(vault.create_budget(&rho).unwrap().spent, Spend::of_rho(NANO, 7));
}

/// Names of tables that were dropped or never existed here count for the people with whom they are
/// joined.
#[test]
fn joined_names_are_joined_for_good() {
    let (_folder, path) = file(spend(9 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    vault.set_spent("gone", None, cost(Some((NANO, 0)), (NANO, 0)), &[]).unwrap();
    let two = cost(Some((2 * NANO, 0)), (NANO, 0));
    let others = ["adult".to_owned(), "later".to_owned()];
    vault.set_spent("gone", None, two, &others).unwrap();
    assert_eq!(spent(&vault, "research"), spend(2 * NANO, 0));
    let later = Table { name: "later".to_owned(), ..table("adult") };
    vault.create_table(&later).unwrap();
    let budget = budget("later", "later", spend(9 * NANO, 0));
    assert_eq!(vault.create_budget(&budget).unwrap().spent, spend(2 * NANO, 0));
    let charged =
        ChargeRequest { catalog: vault.catalog().unwrap(), ..request(NANO, 0, &["later"]) };
    let _ = vault.charge(&charged).unwrap();
    assert_eq!(spent(&vault, "research"), spend(3 * NANO, 0));
    for name in ["", "a.b", "a\nb", "__hushql_x"] {
        let refused = vault.set_spent("adult", None, two, &[name.to_owned()]).unwrap_err();
        assert!(matches!(&refused, VaultError::Catalog(CatalogError::Name { .. })), "{name}");
    }
}

/// For every order of replaced tables, recreated budgets and raised amounts, no amount falls, in
/// any notion.
#[test]
fn no_amount_falls_whatever_is_declared() {
    let names = ["a", "b", "c"];
    for seed in 0..20 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let vault = Vault::in_memory().unwrap();
        vault.ensure_analyst("lab").unwrap();
        for name in names {
            vault.create_table(&Table { name: name.to_owned(), ..table("a") }).unwrap();
            vault.create_budget(&budget(name, name, spend(99 * NANO, 99))).unwrap();
        }
        let (mut before, mut charges): (BTreeMap<String, Spend>, i64) = (BTreeMap::new(), 0);
        for _ in 0..60 {
            let name = names[rng.random_range(0..3)];
            let other = names[rng.random_range(0..3)];
            let some = rng.random_range(0..10) * NANO;
            let least = cost(Some((some, rng.random_range(0..5))), (some / 2, 0));
            let entry = Table { name: name.to_owned(), ..table("a") };
            // A refusal changes nothing.
            match rng.random_range(0..7) {
                0 => {
                    let asked = ChargeRequest {
                        catalog: vault.catalog().unwrap(),
                        ..request(NANO, 0, &[name])
                    };
                    charges += i64::from(vault.charge(&asked).is_ok());
                }
                1 => drop(vault.set_spent(name, None, least, &[])),
                2 if rng.random_range(0..3) == 0 => {
                    drop(vault.set_spent(name, None, least, &[other.to_owned()]));
                }
                3 => {
                    let limit = spend(rng.random_range(1..99) * NANO, 99);
                    let spent = (rng.random_range(0..2) == 0).then_some(least.into());
                    drop(vault.put_budget(&budget(name, name, limit), spent, &[], true));
                }
                4 => {
                    let catalog = vault.catalog().unwrap();
                    let undeclared = Table { privacy: Privacy::Undeclared, ..entry };
                    drop(vault.replace_table(&catalog, &undeclared));
                }
                5 => drop(alter(&vault, name, |table| table.privacy = entry.privacy)),
                _ => {
                    let via = Unit::Via(crate::catalog::Link {
                        columns: vec!["id".to_owned()],
                        table: other.to_owned(),
                        references: vec!["id".to_owned()],
                        max_rows: None,
                    });
                    drop(alter(&vault, name, |table| table.privacy = Privacy::Private(via)));
                }
            }
            for state in vault.budgets().unwrap() {
                let name = state.budget.name;
                let old = before.insert(name.clone(), state.spent).unwrap_or_default();
                assert!(
                    old.nano <= state.spent.nano && old.atto_delta <= state.spent.atto_delta,
                    "{seed}: {name} had {old} and has {}",
                    state.spent
                );
            }
            assert_eq!(vault.budgets().unwrap().len(), 3);
        }
        assert!(charges > 0);
        vault.verify().unwrap();
    }
}
