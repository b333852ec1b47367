//! Budgets of coupons: what one coupon pays for, earlier charges, and what never changes.

use hushql_privacy::privacy::Tally;

use super::*;
use crate::catalog::{CatalogError, Link};
use crate::ledger::Elsewhere;

/// The ε of a coupon.
const EACH: i64 = NANO / 10;

/// A budget of this many coupons of ε = 0.1, with a δ for thresholds.
fn coupons(name: &str, most: i64, atto: i64) -> Budget {
    Budget {
        promise: Some(spend(2 * NANO, 1_000)),
        coupon: Some(EACH),
        ..budget(name, "adult", Spend::of_coupons(most, atto))
    }
}

fn with(budget: &Budget) -> Vault {
    let vault = Vault::in_memory().unwrap();
    vault.create_table(&table("adult")).unwrap();
    vault.create_budget(budget).unwrap();
    vault
}

/// A statement with a release for each of these (ε, δ).
fn asks(releases: &[(i64, i64)]) -> ChargeRequest {
    let one = |(nano, atto): &(i64, i64)| request(*nano, *atto, &["adult"]).entries.remove(0);
    ChargeRequest { entries: releases.iter().map(one).collect(), ..request(1, 0, &["adult"]) }
}

fn left(vault: &Vault, budget: &str) -> Spend {
    vault.budget(budget).unwrap().left
}

#[test]
fn each_release_uses_one_coupon_and_no_two_pay_for_twice_as_much() {
    let vault = with(&coupons("few", 4, 10));
    let charge = vault.charge(&asks(&[(EACH, 0), (1, 0)])).unwrap();
    assert_eq!(charge.spend().to_string(), "2 coupons");
    assert_eq!(charge.left(), [("few".to_owned(), Spend::of_coupons(2, 10))]);
    // Twice the ε of a coupon, and one unit more than a coupon. Two coupons are left, but pay for
    // neither.
    for dear in [2 * EACH, EACH + 1] {
        let refused = vault.charge(&asks(&[(dear, 0)])).unwrap_err();
        assert!(matches!(&refused, VaultError::OverCoupon { .. }), "{refused:?}");
        assert!(refused.is_budget());
    }
    assert_eq!(
        vault.quote(&asks(&[(EACH, 0), (2 * EACH, 0)])).unwrap_err().to_string(),
        "the privacy budget `few` pays for a release with one coupon of ε = 0.1, and a release of this query costs ε = 0.2: write eps=0.1 or less; more coupons do not pay for more"
    );
    let refused = vault.charge(&asks(&[(1, 0), (1, 0), (1, 0)])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the privacy budget `few` does not suffice: this query costs 3 coupons, but only 2 coupons, δ = 1e-17 is left"
    );
    // A release with a δ uses a coupon and its δ; either can run out alone.
    assert!(vault.charge(&asks(&[(1, 11)])).unwrap_err().is_budget());
    let charge = vault.charge(&asks(&[(EACH, 10)])).unwrap();
    assert_eq!(charge.spend().to_string(), "1 coupon, δ = 1e-17");
    assert!(vault.charge(&asks(&[(1, 1)])).unwrap_err().is_budget());
    let _ = vault.charge(&asks(&[(1, 0)])).unwrap();
    assert_eq!(left(&vault, "few"), Spend::of_coupons(0, 0));
    assert!(vault.charge(&asks(&[(1, 0)])).unwrap_err().is_budget());
    assert_eq!(vault.entries().unwrap().len(), 4);
    vault.verify().unwrap();
}

#[test]
fn what_has_no_epsilon_has_no_coupon() {
    let vault = with(&coupons("few", 4, 10));
    let rho = ChargeRequest {
        entries: vec![entry(Loss::concentrated(&"0.0001".parse().unwrap()))],
        ..asks(&[])
    };
    assert!(matches!(vault.charge(&rho).unwrap_err(), VaultError::NoEpsilon { .. }));
    // Another budget may count in its own measure: all or nothing.
    vault.create_budget(&budget("curve", "adult", Spend::of_rho(NANO, 0))).unwrap();
    vault.create_budget(&budget("sums", "adult", spend(3 * EACH, 0))).unwrap();
    assert!(vault.charge(&rho).is_err());
    let charge = vault.charge(&asks(&[(EACH, 0), (EACH, 0)])).unwrap();
    assert_eq!(charge.spend().to_string(), "ε = 0.2, ρ = 0.009991676, 2 coupons");
    assert!(vault.charge(&asks(&[(EACH, 0), (EACH, 0)])).is_err());
    assert_eq!(left(&vault, "few"), Spend::of_coupons(2, 10));
    vault.drop_budget("few").unwrap();
    vault.drop_budget("sums").unwrap();
    let _ = vault.charge(&rho).unwrap();
    let late = vault.create_budget(&coupons("late", 9, 0)).unwrap_err();
    assert!(matches!(late, VaultError::Catalog(CatalogError::Uncoupled { .. })), "{late}");
}

/// Every earlier charge uses a coupon, too, if one coupon could have paid for it.
#[test]
fn earlier_charges_count_or_bar_the_budget() {
    let vault = with(&budget("sums", "adult", spend(9 * NANO, 100)));
    let _ = vault.charge(&asks(&[(EACH, 0), (EACH / 2, 0), (EACH / 2, 3)])).unwrap();
    let state = vault.create_budget(&coupons("few", 4, 10)).unwrap();
    assert_eq!((state.spent, state.left), (Spend::of_coupons(3, 3), Spend::of_coupons(1, 7)));
    vault.drop_budget("few").unwrap();
    let _ = vault.charge(&asks(&[(EACH + 1, 0)])).unwrap();
    for replace in [false, true] {
        let refused = vault.put_budget(&coupons("few", 4, 10), None, &[], replace).unwrap_err();
        let says = "the privacy budget `few` cannot count coupons of ε = 0.1: a release that was charged to these people costs more than that";
        assert!(refused.to_string().starts_with(says), "{refused}");
    }
    let refused = vault.put_budget(&coupons("sums", 4, 10), None, &[], true).unwrap_err();
    assert!(matches!(refused, VaultError::Catalog(CatalogError::Uncoupled { .. })));
    assert_eq!(left(&vault, "sums"), spend(9 * NANO - 3 * EACH - 1, 97));
    // Coupons of the ε of the most expensive release pay for all releases.
    let larger = Budget { coupon: Some(EACH + 1), ..coupons("sums", 4, 10) };
    let state = vault.put_budget(&larger, None, &[], true).unwrap();
    assert_eq!(state.left, Spend::of_coupons(0, 7));
    assert!(vault.charge(&asks(&[(1, 0)])).unwrap_err().is_budget());
}

/// A table cannot join people on whom more than a coupon was charged at once.
#[test]
fn what_joins_must_fit_the_coupons() {
    let vault = with(&coupons("few", 9, 10));
    vault.create_table(&Table { name: "other".to_owned(), ..table("adult") }).unwrap();
    vault.create_budget(&budget("wide", "other", spend(9 * NANO, 100))).unwrap();
    let other =
        |nano| ChargeRequest { catalog: vault.catalog().unwrap(), ..request(nano, 0, &["other"]) };
    let link = || {
        let via = Unit::Via(Link {
            columns: vec!["id".to_owned()],
            table: "adult".to_owned(),
            references: vec!["id".to_owned()],
            max_rows: None,
        });
        alter(&vault, "other", |table| table.privacy = Privacy::Private(via))
    };
    let _ = vault.charge(&other(EACH + 1)).unwrap();
    let refused = link().unwrap_err();
    assert!(matches!(refused, VaultError::Catalog(CatalogError::UncarriedCoupons { .. })));
    let larger = Budget { coupon: Some(EACH + 1), ..coupons("few", 9, 10) };
    vault.put_budget(&larger, None, &[], true).unwrap();
    link().unwrap();
    assert_eq!(left(&vault, "few"), Spend::of_coupons(8, 10));
}

#[test]
fn how_coupons_count_never_changes() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open(&path).unwrap();
    vault.create_budget(&coupons("few", 4, 10)).unwrap();
    let promise = Some(spend(3 * NANO, 1_000));
    for (limit, promise) in [
        (spend(NANO, 0), None),
        (spend(NANO, 0), promise),
        (Spend::of_rho(NANO, 0), promise),
        (Spend::of_coupons(5, 0), None),
    ] {
        let refused = vault.set_budget_limit("few", limit, promise).unwrap_err();
        assert!(refused.to_string().contains("counts in epsilon, and"), "{refused}");
    }
    vault.set_budget_limit("few", Spend::of_coupons(6, 10), promise).unwrap();
    let state = vault.budget("few").unwrap().budget;
    assert_eq!((state.limit, state.coupon), (Spend::of_coupons(6, 10), Some(EACH)));
    for (sql, why) in [
        ("UPDATE budget SET coupon_epsilon = 1 WHERE name = 'few'", "how a budget counts"),
        ("UPDATE budget SET coupon_epsilon = NULL WHERE name = 'few'", "how a budget counts"),
        ("UPDATE budget SET coupon_epsilon = 1 WHERE name = 'research'", "how a budget counts"),
        ("UPDATE budget SET notion = 'epsilon' WHERE name = 'few'", "how a budget counts"),
        ("UPDATE budget SET spent_loss = 7 WHERE name = 'few'", "cap_loss"),
    ] {
        let error = vault.raw(|connection| connection.execute_batch(sql)).unwrap_err();
        assert!(error.to_string().contains(why), "{sql}: {error}");
    }
    // A budget that contradicts itself is refused.
    for wrong in [
        Budget { coupon: None, ..coupons("x", 4, 0) },
        Budget { coupon: Some(0), ..coupons("x", 4, 0) },
        Budget { promise: None, ..coupons("x", 4, 0) },
        Budget { coupon: Some(1), ..budget("x", "adult", spend(NANO, 0)) },
        Budget {
            per_query: PerQuery { max: Some(1), ..PerQuery::default() },
            ..coupons("x", 4, 0)
        },
        Budget {
            per_query: PerQuery { default: Some(EACH + 1), ..PerQuery::default() },
            ..coupons("x", 4, 0)
        },
        coupons("x", 0, 0),
    ] {
        let refused = vault.create_budget(&wrong).unwrap_err();
        assert!(matches!(refused, VaultError::Catalog(CatalogError::Amount { .. })), "{wrong:?}");
    }
}

/// Spending elsewhere uses at least as many coupons here, and no release appears smaller than it
/// was.
#[test]
fn coupons_spent_elsewhere_are_raised_and_never_lowered() {
    let elsewhere = |nano, releases, dearest| Elsewhere {
        cost: Cost::from_amounts(Some((nano, 5)), (nano / 100, 0)),
        tally: Some(Tally { releases, dearest }),
    };
    let vault = with(&coupons("few", 20, 10));
    for _ in 0..3 {
        vault.set_spent("adult", None, elsewhere(120_000_001, 3, 50_000_000), &[]).unwrap();
        let amounts: Vec<_> =
            vault.entries().unwrap().iter().map(|entry| epsilon(&entry.cost)).collect();
        assert_eq!(amounts, [spend(50_000_000, 5), spend(35_000_001, 0), spend(35_000_000, 0)]);
        assert_eq!(left(&vault, "few"), Spend::of_coupons(17, 5));
    }
    // The same number of releases, but one of them is more expensive.
    vault.set_spent("adult", None, elsewhere(120_000_001, 3, EACH), &[]).unwrap();
    assert_eq!(left(&vault, "few"), Spend::of_coupons(16, 5));
    // More ε than these releases could have cost: more releases are added until it fits.
    vault.set_spent("adult", None, elsewhere(520_000_001, 4, EACH), &[]).unwrap();
    assert_eq!(left(&vault, "few"), Spend::of_coupons(13, 5));
    // Without a tally it is one release, and no coupon pays for it.
    let one = Cost::from_amounts(Some((NANO, 0)), (0, 0));
    let refused = vault.set_spent("adult", None, one, &[]).unwrap_err();
    assert!(matches!(refused, VaultError::Catalog(CatalogError::UncarriedCoupons { .. })));
    let dearer = elsewhere(NANO, 3, EACH + 1);
    assert!(vault.set_spent("adult", None, dearer, &[]).is_err());
    assert!(vault.set_spent("adult", None, elsewhere(NANO, i64::MAX, EACH), &[]).is_err());
    assert_eq!(left(&vault, "few"), Spend::of_coupons(13, 5));
    vault.verify().unwrap();
}

/// For every spending here and elsewhere, sums, numbers and the most expensive release are at least
/// those of both.
#[test]
fn nothing_falls_behind_what_was_raised() {
    let mut rng = ChaCha20Rng::seed_from_u64(31);
    for _ in 0..200 {
        let vault = with(&budget("wide", "adult", spend(99 * NANO, 100)));
        for _ in 0..rng.random_range(0..4) {
            let _ = vault.charge(&asks(&[(rng.random_range(1..40), 0)])).unwrap();
        }
        let (releases, dearest) = (rng.random_range(1..6), rng.random_range(1..40));
        let nano = rng.random_range(dearest..=releases * dearest);
        let cost = Cost::from_amounts(Some((nano, 0)), (0, 0));
        let elsewhere = Elsewhere { cost, tally: Some(Tally { releases, dearest }) };
        let before = vault.entries().unwrap();
        vault.set_spent("adult", None, elsewhere, &[]).unwrap();
        let entries: Vec<i64> =
            vault.entries().unwrap().iter().map(|entry| epsilon(&entry.cost).nano).collect();
        assert!(entries.iter().sum::<i64>() >= nano);
        assert!(i64::try_from(entries.len()).unwrap() >= releases);
        assert!(*entries.iter().max().unwrap() >= dearest);
        assert!(entries[before.len()..].iter().all(|added| *added <= dearest));
        vault.set_spent("adult", None, elsewhere, &[]).unwrap();
        assert_eq!(vault.entries().unwrap().len(), entries.len());
    }
}

/// Random releases on one or several handles agree with an independent count, across checkpoints,
/// and after the file is opened again.
#[test]
fn random_charges_agree_with_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let vault = Vault::init(&path).unwrap();
    vault.create_table(&table("adult")).unwrap();
    vault.create_budget(&coupons("few", 400, 600)).unwrap();
    let mut handles = [vault, Vault::open(&path).unwrap()];
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let (mut used, mut atto, mut refused) = (0_i64, 0_i64, [0; 3]);
    for step in 0..600 {
        let releases: Vec<(i64, i64)> = (0..rng.random_range(1..=3))
            .map(|_| {
                let delta = if rng.random_range(0..3) == 0 { rng.random_range(1..4) } else { 0 };
                (rng.random_range(1..=EACH + EACH / 10), delta)
            })
            .collect();
        let (more, delta) = (
            i64::try_from(releases.len()).unwrap(),
            releases.iter().map(|(_, delta)| delta).sum::<i64>(),
        );
        let dear = releases.iter().any(|(nano, _)| *nano > EACH);
        let fits = used + more <= 400 && atto + delta <= 600;
        if rng.random_range(0..20) == 0 {
            handles[1] = Vault::open(&path).unwrap();
        }
        match handles[rng.random_range(0..2)].charge(&asks(&releases)) {
            Ok(charge) => {
                assert!(!dear && fits, "step {step}");
                (used, atto) = (used + more, atto + delta);
                assert_eq!(charge.left()[0].1, Spend::of_coupons(400 - used, 600 - atto));
            }
            Err(VaultError::OverCoupon { .. }) => {
                assert!(dear, "step {step}");
                refused[0] += 1;
            }
            Err(VaultError::Exhausted { .. }) => {
                assert!(!dear && !fits, "step {step}");
                refused[1 + usize::from(used + more <= 400)] += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(used > 256 && refused[0] > 20 && refused[1] > 20, "{used} {refused:?}");
    drop(handles);
    let again = Vault::open(&path).unwrap();
    assert_eq!(again.budget("few").unwrap().spent, Spend::of_coupons(used, atto));
    again.verify().unwrap();
    // Another budget that begins now has the same count.
    let late = again.create_budget(&coupons("late", 999, 999)).unwrap();
    assert_eq!(late.spent, Spend::of_coupons(used, atto));
}
