//! Budgets in ρ beside budgets in ε: what each of them counts and refuses, and what never changes.

use hushql_privacy::privacy::{Cost, Loss, Notion, Selecting, Spend};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::{NANO, budget, entry, furnish, request, spend, table};
use crate::catalog::{Budget, CatalogError, PerQuery};
use crate::ledger::{ChargeRequest, Vault, VaultError};

fn asks(losses: Vec<Loss>) -> ChargeRequest {
    let entries = losses.into_iter().map(entry).collect();
    ChargeRequest { entries, ..request(1, 0, &["adult"]) }
}

fn rho_alone(rho: &str) -> Loss {
    Loss::concentrated(&rho.parse().unwrap())
}

fn in_rho(limit: Spend) -> Vault {
    let vault = Vault::in_memory().unwrap();
    vault.create_table(&table("adult")).unwrap();
    vault.create_budget(&budget("curve", "adult", limit)).unwrap();
    vault
}

#[test]
fn each_budget_counts_in_its_own_notion() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(3 * NANO, 5));
    vault.create_budget(&budget("curve", "adult", Spend::of_rho(NANO, 5))).unwrap();
    let half = "0.5".parse().unwrap();
    let choice = Loss::choice(&half, None, 1, Selecting::BoundedRange);
    let charge = vault.charge(&asks(vec![Loss::pure(&half), choice])).unwrap();
    // ρ: 0.122459332 and 0.03125.
    assert_eq!(charge.spend(), Cost::from_amounts(Some((NANO, 0)), (153_709_332, 0)));
    let left = [Spend::of_rho(846_290_668, 5), spend(2 * NANO, 5)];
    assert_eq!(charge.left().iter().map(|(_, left)| *left).collect::<Vec<_>>(), left);
    // One budget could pay an ε of 1.5, but the other could not: all or nothing.
    let dear = asks(vec![Loss::pure(&"1.5".parse().unwrap())]);
    let refused = vault.charge(&dear).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the privacy budget `curve` does not suffice: this query costs ρ = 0.952723429, but only ρ = 0.846290668, δ = 5e-18 is left"
    );
    // The budget in ε refuses a release without an ε, whatever the other budget has left.
    let refused = vault.charge(&asks(vec![rho_alone("0.1")])).unwrap_err();
    assert!(matches!(&refused, VaultError::NoEpsilon { budget } if budget == "research"));
    assert!(refused.is_budget());
    assert_eq!(
        vault.quote(&asks(vec![rho_alone("0.1")])).unwrap_err().to_string(),
        refused.to_string()
    );
    assert_eq!(vault.entries().unwrap().len(), 2);
    // In each budget, δ can run out alone.
    let delta = |atto: &str| Loss::approximate(&"1e-9".parse().unwrap(), &atto.parse().unwrap());
    assert!(vault.charge(&asks(vec![delta("6e-18")])).unwrap_err().is_budget());
    assert!(vault.charge(&asks(vec![delta("5e-18")])).is_ok());
    // Gaussian noise of (ε, δ) has a δ in one account and none in the other.
    let noise = |rho: i64| {
        let rho = Spend::of_rho(rho, 0).loss();
        Loss::gaussian(&"1e-9".parse().unwrap(), &"1e-18".parse().unwrap(), &rho)
    };
    assert!(vault.charge(&asks(vec![noise(7)])).unwrap_err().is_budget());
    vault.drop_budget("research").unwrap();
    let charge = vault.charge(&asks(vec![noise(7)])).unwrap();
    assert_eq!(charge.spend().to_string(), "ρ = 0.000000007");
}

#[test]
fn what_has_no_epsilon_bars_budgets_in_epsilon_for_ever() {
    let vault = in_rho(Spend::of_rho(NANO, 0));
    let charge = vault.charge(&asks(vec![rho_alone("0.25"), Loss::pure(&"1".parse().unwrap())]));
    let charge = charge.unwrap();
    assert_eq!(charge.spend().within(Notion::Approximate), None);
    assert_eq!(charge.left(), [("curve".to_owned(), Spend::of_rho(287_882_842, 0))]);
    let entries = vault.entries().unwrap();
    assert_eq!(entries[0].cost, Cost::from_amounts(None, (NANO / 4, 0)));
    assert_eq!(entries[1].cost, Cost::from_amounts(Some((NANO, 0)), (462_117_158, 0)));
    let late = vault.create_budget(&budget("late", "adult", spend(NANO, 0))).unwrap_err();
    assert!(matches!(late, VaultError::Catalog(CatalogError::Uncountable { .. })), "{late}");
    // Dropping everything and starting again does not help either.
    vault.drop_budget("curve").unwrap();
    vault.drop_table("adult").unwrap();
    vault.create_table(&table("adult")).unwrap();
    assert!(vault.create_budget(&budget("late", "adult", spend(NANO, 0))).is_err());
    let again = vault.create_budget(&budget("again", "adult", Spend::of_rho(NANO, 0))).unwrap();
    assert_eq!(again.spent, Spend::of_rho(712_117_158, 0));
}

#[test]
fn how_a_budget_counts_never_changes() {
    let vault = in_rho(Spend::of_rho(NANO, 0));
    furnish_beside(&vault);
    let promise = Some(Spend::of_epsilon(NANO, 8));
    let refused = |name: &str, limit, promise, notion: &str| {
        let error = vault.set_budget_limit(name, limit, promise).unwrap_err();
        assert!(error.to_string().contains(&format!("counts in {notion}, and")), "{error}");
    };
    let rho = Spend::of_rho(NANO, 4);
    refused("curve", spend(NANO, 0), None, "rho");
    refused("curve", rho, promise, "rho");
    refused("plain", rho, None, "epsilon");
    refused("plain", rho, promise, "epsilon");
    refused("promised", rho, None, "epsilon");
    refused("promised", spend(NANO, 8), None, "epsilon");
    vault.set_budget_limit("promised", Spend::of_rho(5, 4), promise).unwrap();
    let state = vault.budget("promised").unwrap();
    assert_eq!((state.budget.limit, state.budget.promise), (Spend::of_rho(5, 4), promise));
    assert!(
        vault.set_budget_limit("nobody", rho, None).unwrap_err().to_string().contains("no privacy")
    );
}

fn furnish_beside(vault: &Vault) {
    vault.create_budget(&budget("plain", "adult", spend(NANO, 0))).unwrap();
    let promise = Some(Spend::of_epsilon(NANO, 8));
    let promised = Budget { promise, ..budget("promised", "adult", Spend::of_rho(NANO / 9, 4)) };
    vault.create_budget(&promised).unwrap();
}

#[test]
fn per_query_amounts_are_those_of_the_notion() {
    let vault = Vault::in_memory().unwrap();
    vault.create_table(&table("adult")).unwrap();
    let per_query = PerQuery { max: Some(NANO / 8), ..PerQuery::default() };
    let capped = Budget { per_query, ..budget("curve", "adult", Spend::of_rho(NANO, 0)) };
    vault.create_budget(&capped).unwrap();
    let error = vault.charge(&asks(vec![Loss::pure(&"0.506".parse().unwrap())])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this query costs ρ = 0.125354734, and the privacy budget `curve` allows ρ = 0.125 per query"
    );
    assert!(vault.charge(&asks(vec![Loss::pure(&"0.5".parse().unwrap())])).is_ok());
    let per_query = PerQuery { min: Some(NANO / 50), ..PerQuery::default() };
    let least = Budget { per_query, ..budget("coarse", "adult", Spend::of_rho(NANO, 0)) };
    vault.create_budget(&least).unwrap();
    let error = vault.charge(&asks(vec![Loss::pure(&"0.1999".parse().unwrap())])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this query costs ρ = 0.019913737, and the privacy budget `coarse` takes at least ρ = 0.02 per query: write rho=0.02 or more for all releases of the query together"
    );
    assert!(vault.charge(&asks(vec![Loss::pure(&"0.2004".parse().unwrap())])).is_ok());
}

/// Compares random losses with a table of sums: both notions in one history, with the file read
/// again at the end.
#[test]
fn random_charges_agree_with_their_sums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let vault = Vault::init(&path).unwrap();
    furnish(&vault, spend(40 * NANO, 300));
    vault.create_budget(&budget("curve", "adult", Spend::of_rho(2 * NANO, 100))).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    let mut spent = Cost::zero();
    let limits = [spend(40 * NANO, 300), Spend::of_rho(2 * NANO, 100)];
    let (mut paid, mut refused) = (0, 0);
    for step in 0..400 {
        let epsilon = format!("0.{:04}", rng.random_range(1..=4000)).parse().unwrap();
        let delta = format!("{}e-18", rng.random_range(1..=9)).parse().unwrap();
        let loss = match rng.random_range(0..5) {
            0 => Loss::pure(&epsilon),
            1 => Loss::approximate(&epsilon, &delta),
            2 => Loss::gaussian(
                &epsilon,
                &delta,
                &(epsilon.value() / super::Rational::from_integer(30.into())),
            ),
            3 => Loss::choice(&epsilon, None, rng.random_range(1..=5), Selecting::BoundedRange),
            _ => Loss::choice(&epsilon, Some(&delta), 2, Selecting::Pure),
        };
        let cost = Cost::round_up(&loss).unwrap();
        let after = spent.plus(cost).unwrap();
        let fits = limits.iter().all(|limit| limit.pays(after.within(limit.notion).unwrap()));
        let result = vault.charge(&asks(vec![loss]));
        assert_eq!(result.is_ok(), fits, "step {step}");
        if fits {
            (spent, paid) = (after, paid + 1);
        } else {
            refused += 1;
        }
    }
    assert!(paid > 50 && refused > 50, "{paid} {refused}");
    let again = Vault::open(&path).unwrap();
    let states = again.budgets().unwrap().into_iter().map(|state| state.spent);
    let expected = [Notion::Concentrated, Notion::Approximate].map(|n| spent.within(n).unwrap());
    assert_eq!(states.collect::<Vec<_>>(), expected);
}
