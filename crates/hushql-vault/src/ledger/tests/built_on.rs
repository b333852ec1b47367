//! Charges of releases that build on a kept draw: each draw carries one of them at most, and only
//! where every budget counts in ε.

use std::thread;

use super::*;
use crate::ledger::{AskedDraw, BuiltOn, CostCap, KeptDraw, REFINED};

/// The question, without its ε.
fn question() -> AskedDraw {
    AskedDraw {
        identity: b"COUNT(*)".to_vec(),
        tables: vec!["adult".to_owned()],
        contents: Vec::new(),
        unit_domains: vec!["adult".to_owned()],
        live: Vec::new(),
    }
}

/// The draw of an analyst that a later one may build on.
fn found(vault: &Vault, analyst: &str) -> Option<BuiltOn> {
    let catalog = vault.catalog().unwrap();
    let mut all = vault.refinable(&[question()], analyst, &catalog).unwrap();
    all.remove(0).unwrap().found.map(|(built_on, _)| built_on)
}

/// The key of the question.
fn key(vault: &Vault) -> [u8; 32] {
    let catalog = vault.catalog().unwrap();
    vault.refinable(&[question()], "lab", &catalog).unwrap()[0].as_ref().unwrap().question
}

/// Keeps a draw at ε = ½, which is charged.
fn keep(vault: &Vault) {
    let charge = vault.charge(&request(NANO / 2, 0, &["adult"])).unwrap().sequence();
    let draw = KeptDraw { charge, drawn: vec![1, 2, 3], question: Some(key(vault)) };
    let own = u8::try_from(charge).unwrap();
    vault.keep_draws(&[([own; 32], draw)], "lab", "SELECT …").unwrap();
}

/// Releases at ε = 1, so many, that build on this draw at ε = ½.
fn refined(built_on: &BuiltOn, releases: usize) -> ChargeRequest {
    let [half, one] = ["0.5", "1"].map(|epsilon| epsilon.parse().unwrap());
    let loss = Loss::refined(&half, &one).unwrap();
    let entry = ChargeEntry { mechanism: REFINED.to_owned(), ..entry(loss) };
    let built_on = vec![built_on.clone(); releases];
    ChargeRequest { entries: vec![entry; releases], built_on, ..request(1, 0, &["adult"]) }
}

fn refused(vault: &Vault, request: &ChargeRequest) {
    let error = vault.charge(request).unwrap_err();
    assert!(matches!(error, VaultError::Redeclared), "{error:?}");
}

#[test]
fn a_draw_carries_one_release() {
    let (_folder, path) = file(spend(9 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    keep(&vault);
    let built_on = found(&vault, "lab").unwrap();
    assert_eq!(found(&vault, "eve"), None, "it is of its analyst");
    // Another analyst cannot take it, a quote takes nothing, and one draw carries no two releases.
    refused(&vault, &ChargeRequest { analyst: "eve".to_owned(), ..refined(&built_on, 1) });
    refused(&vault, &refined(&built_on, 2));
    vault.quote(&refined(&built_on, 1)).unwrap();
    assert_eq!(found(&vault, "lab"), Some(built_on.clone()));
    let charge = vault.charge(&refined(&built_on, 1)).unwrap();
    assert_eq!(epsilon(&charge.spend()), spend(NANO / 2, 0));
    assert_eq!(total(&vault, "adult"), spend(NANO, 0), "both draws cost the larger ε");
    assert_eq!(found(&vault, "lab"), None);
    refused(&vault, &refined(&built_on, 1));
    assert_eq!(total(&vault, "adult"), spend(NANO, 0));
    vault.verify().unwrap();
    // Whatever happened to the finer draw, the next one is new, or built on another one.
    assert_eq!(found(&Vault::open(&path).unwrap(), "lab"), None);
    keep(&vault);
    assert!(found(&vault, "lab").is_some());
}

/// A refused charge leaves the draw where it is.
#[test]
fn what_is_not_charged_takes_nothing() {
    let (_folder, path) = file(spend(NANO * 9 / 10, 0));
    let vault = Vault::open(&path).unwrap();
    keep(&vault);
    let built_on = found(&vault, "lab").unwrap();
    assert!(vault.charge(&refined(&built_on, 1)).unwrap_err().is_budget());
    assert_eq!(found(&vault, "lab"), Some(built_on));
}

#[test]
fn of_many_charges_at_once_one_gets_the_draw() {
    let (_folder, path) = file(spend(99 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    keep(&vault);
    let request = refined(&found(&vault, "lab").unwrap(), 1);
    let paid: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|at| {
                let (vault, path, request) = (&vault, &path, &request);
                scope.spawn(move || match at % 2 {
                    0 => vault.charge(request).is_ok(),
                    _ => Vault::open(path).unwrap().charge(request).is_ok(),
                })
            })
            .collect();
        threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
    });
    assert_eq!(paid, 1);
    assert_eq!(total(&vault, "adult"), spend(NANO, 0));
}

/// The difference is all that is left to pay in ε. In ρ and in coupons it is too little, and a cap
/// bounds what a session may reveal.
#[test]
fn only_budgets_in_epsilon_count_what_is_left() {
    let others = [
        budget("curve", "adult", Spend::of_rho(99 * NANO, 0)),
        Budget {
            promise: Some(spend(99 * NANO, 1_000)),
            coupon: Some(NANO),
            ..budget("few", "adult", Spend::of_coupons(9, 0))
        },
    ];
    for other in others {
        let (_folder, path) = file(spend(9 * NANO, 0));
        let vault = Vault::open(&path).unwrap();
        keep(&vault);
        let built_on = found(&vault, "lab").unwrap();
        vault.create_budget(&other).unwrap();
        refused(&vault, &refined(&built_on, 1));
        assert_eq!(found(&vault, "lab"), Some(built_on));
    }
    let (_folder, path) = file(spend(9 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    keep(&vault);
    let built_on = found(&vault, "lab").unwrap();
    let cap = CostCap { epsilon: Some(spend(NANO, 0)), rho: None };
    let caps = ChargeCaps { day: Some(cap), ..ChargeCaps::default() };
    refused(&vault, &ChargeRequest { caps, ..refined(&built_on, 1) });
    // An entry says that it builds on a draw if, and only if, it does.
    refused(&vault, &ChargeRequest { built_on: Vec::new(), ..refined(&built_on, 1) });
    refused(&vault, &ChargeRequest { built_on: vec![built_on], ..request(1, 0, &["adult"]) });
}

/// Budgets that are declared later count what was charged before.
#[test]
fn later_budgets_count_what_a_refinement_may_lose() {
    let (_folder, path) = file(spend(9 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    keep(&vault);
    let _paid = vault.charge(&refined(&found(&vault, "lab").unwrap(), 1)).unwrap();
    let few = Budget {
        promise: Some(spend(99 * NANO, 1_000)),
        coupon: Some(5 * NANO),
        ..budget("few", "adult", Spend::of_coupons(9, 0))
    };
    assert!(vault.create_budget(&few).is_err(), "no coupon pays for a refinement");
    vault.create_budget(&budget("curve", "adult", Spend::of_rho(99 * NANO, 0))).unwrap();
    let spent = vault.budget("curve").unwrap().spent;
    let alone = |epsilon: &str| Cost::round_up(&Loss::pure(&epsilon.parse().unwrap())).unwrap();
    let both = alone("0.5").plus(alone("1.5")).unwrap();
    assert_eq!(Some(spent), both.within(Notion::Concentrated));
}
