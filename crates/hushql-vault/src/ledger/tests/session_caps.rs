//! The caps of a session: of a statement and of a day, beside the budgets.

use super::*;
use crate::ledger::CostCap;

/// A vault whose budget has much left.
fn vault() -> Vault {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(NANO, NANO));
    vault
}

fn cap(nano: i64, atto: i64) -> Option<CostCap> {
    Some(CostCap { epsilon: Some(Spend::of_epsilon(nano, atto)), rho: None })
}

fn asks(vault: &Vault, nano: i64, atto: i64, caps: ChargeCaps) -> Result<(), VaultError> {
    let catalog = vault.catalog().unwrap();
    let request = ChargeRequest { caps, catalog, ..request(nano, atto, &["adult"]) };
    let quoted = vault.quote(&request).map(drop);
    let charged = vault.charge(&request).map(drop);
    assert_eq!(quoted.is_ok(), charged.is_ok(), "a quote promises what a charge does");
    charged
}

#[test]
fn a_statement_costs_no_more_than_its_cap_in_either_part() {
    let vault = vault();
    let caps = ChargeCaps { statement: cap(100, 7), ..ChargeCaps::default() };
    for (nano, atto, allowed) in
        [(100, 7, true), (101, 0, false), (1, 8, false), (100, 0, true), (1, 7, true)]
    {
        assert_eq!(asks(&vault, nano, atto, caps).is_ok(), allowed, "{nano} {atto}");
    }
    let text = asks(&vault, 101, 0, caps).unwrap_err().to_string();
    assert!(
        text.contains("this session may spend ε = 0.0000001, δ = 7e-18 on one query"),
        "{text}"
    );
    assert!(asks(&vault, 101, 0, ChargeCaps::default()).is_ok(), "another session has no cap");
}

/// A caller who names a ρ does not turn the owner's cap on ε into one on ρ, and one who names an ε
/// is held to it where the owner caps ρ alone.
#[test]
fn what_a_caller_states_binds_beside_the_caps_of_the_owner() {
    let vault = vault();
    let rho = |nano| Spend::of_rho(nano, 7);
    let (tenth, much) = (NANO / 10, 5 * NANO);
    let both = CostCap { rho: Some(rho(tenth)), ..cap(tenth, 7).unwrap() };
    let only_rho = CostCap { epsilon: None, rho: Some(rho(tenth)) };
    let of_epsilon = |nano| cap(nano, 7);
    let of_rho = |nano| Some(CostCap { epsilon: None, rho: Some(rho(nano)) });
    for (statement, stated, nano, allowed) in [
        (Some(both), of_rho(much), 4 * tenth, false),
        (Some(both), of_rho(much), tenth, true),
        (Some(both), of_epsilon(much), 4 * tenth, false),
        (Some(both), of_epsilon(tenth / 2), tenth, false),
        (Some(only_rho), of_epsilon(tenth), tenth, true),
        (Some(only_rho), of_epsilon(tenth / 2), tenth, false),
        (None, of_epsilon(tenth), tenth + 1, false),
        (None, of_epsilon(tenth), tenth, true),
    ] {
        let caps = ChargeCaps { statement, stated, day: None };
        assert_eq!(asks(&vault, nano, 0, caps).is_ok(), allowed, "{caps:?} {nano}");
    }
}

#[test]
fn a_day_counts_the_charges_of_all_sessions_of_an_analyst() {
    let vault = vault();
    let day = ChargeCaps { day: cap(100, 0), ..ChargeCaps::default() };
    assert!(asks(&vault, 60, 0, ChargeCaps::default()).is_ok());
    assert!(asks(&vault, 41, 0, day).is_err());
    assert!(asks(&vault, 40, 0, day).is_ok());
    let refused = asks(&vault, 1, 0, day).unwrap_err();
    assert!(refused.is_budget());
    assert!(refused.to_string().contains("of which ε = 0 is left"), "{refused}");
    // Another analyst has a day of their own.
    let eve = ChargeRequest {
        analyst: "eve".to_owned(),
        caps: day,
        catalog: vault.catalog().unwrap(),
        ..request(100, 0, &["adult"])
    };
    vault.ensure_analyst("eve").unwrap();
    assert!(vault.charge(&eve).is_ok());
}

/// An analyst's own entries have numbers without gaps, and those of others have none.
#[test]
fn entries_of_others_have_no_number() {
    let vault = vault();
    vault.ensure_analyst("eve").unwrap();
    let charge = |analyst: &str| {
        let (analyst, catalog) = (analyst.to_owned(), vault.catalog().unwrap());
        let request = ChargeRequest { analyst, catalog, ..request(1, 0, &["adult"]) };
        vault.charge(&request).unwrap().sequence()
    };
    let all = ["lab", "eve", "lab", "eve"].map(charge);
    assert_eq!(all.map(|sequence| vault.own_number(sequence, "lab").unwrap()), [1, 0, 2, 0]);
}

#[test]
fn a_charge_without_an_epsilon_needs_a_cap_in_rho() {
    let vault = vault();
    let entries = vec![entry(Loss::concentrated(&"0.000001".parse().unwrap()))];
    let asked = |caps| ChargeRequest {
        entries: entries.clone(),
        caps,
        catalog: vault.catalog().unwrap(),
        ..request(1, 0, &["adult"])
    };
    let both = CostCap { rho: Some(Spend::of_rho(1_000, 0)), ..cap(1, 0).unwrap() };
    let quote = |statement| vault.quote(&asked(ChargeCaps { statement, ..ChargeCaps::default() }));
    assert!(matches!(quote(cap(1_000_000, 0)), Err(VaultError::CapWithoutRho)));
    // The budget counts ε, and refuses for a reason of its own what the cap lets pass.
    assert!(matches!(quote(Some(both)), Err(VaultError::NoEpsilon { .. })));
    let less = CostCap { rho: Some(Spend::of_rho(999, 0)), ..both };
    assert!(matches!(quote(Some(less)), Err(VaultError::OverCap { .. })));
}

#[test]
fn charges_at_the_same_time_share_the_cap_of_a_day() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Arc::new(Vault::open(&path).unwrap());
    let day = ChargeCaps { day: cap(50, 0), ..ChargeCaps::default() };
    let asking = |_| {
        let vault = Arc::clone(&vault);
        std::thread::spawn(move || asks_only(&vault, 10, day).is_ok())
    };
    let all: Vec<_> = (0..12).map(asking).collect();
    let paid = all.into_iter().map(|one| one.join().unwrap());
    assert_eq!(paid.filter(|paid| *paid).count(), 5);
}

fn asks_only(vault: &Vault, nano: i64, caps: ChargeCaps) -> Result<(), VaultError> {
    let catalog = vault.catalog()?;
    vault.charge(&ChargeRequest { caps, catalog, ..request(nano, 0, &["adult"]) }).map(drop)
}
