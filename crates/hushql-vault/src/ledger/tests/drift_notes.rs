//! Notes of files on which a charged statement failed: quotes and charges read them in their own
//! transaction.

use super::*;

/// A request that reads these tables, planned with the present declarations.
fn reads(vault: &Vault, analyst: &str, tables: &[&str]) -> ChargeRequest {
    ChargeRequest {
        analyst: analyst.to_owned(),
        tables: tables.iter().map(|table| (*table).to_owned()).collect(),
        catalog: vault.catalog().unwrap(),
        ..request(NANO, 0, &["adult"])
    }
}

fn is_refused(vault: &Vault, request: &ChargeRequest) -> bool {
    let before = vault.budget("research").unwrap().spent;
    let quoted = vault.quote(request).map(drop);
    let charged = vault.charge(request).map(drop);
    let is_drift = |asked: &Result<(), VaultError>| matches!(asked, Err(VaultError::Drifted { table, .. }) if table == "adult");
    assert_eq!(is_drift(&quoted), is_drift(&charged), "{quoted:?} {charged:?}");
    let is_same = vault.budget("research").unwrap().spent == before;
    assert_eq!(is_same, is_drift(&charged), "{charged:?}");
    is_drift(&charged)
}

/// A statement that was planned before another one failed, and is charged afterwards, is refused
/// like a later one.
#[test]
fn a_charge_sees_the_failures_before_it() {
    for (replay, knows) in [(Replay::All, true), (Replay::Own, false), (Replay::Off, false)] {
        let vault = Vault::in_memory().unwrap();
        vault.create_table(&table("adult")).unwrap();
        let research = budget("research", "adult", spend(100 * NANO, 0));
        vault.create_budget(&Budget { replay, ..research }).unwrap();
        let planned = reads(&vault, "lab", &["adult"]);
        assert!(!is_refused(&vault, &planned));
        let catalog = vault.catalog().unwrap();
        vault.note_drift(&["adult".to_owned()], "lab", &planned.statement, &catalog).unwrap();
        assert!(is_refused(&vault, &planned), "{replay:?}");
        assert!(is_refused(&vault, &reads(&vault, "lab", &["adult"])), "{replay:?}");
        // An analyst who may not know of the failures of others pays for the statement.
        assert_eq!(is_refused(&vault, &reads(&vault, "eve", &["adult"])), knows, "{replay:?}");
        // A statement that reads no row of the table is charged.
        assert!(!is_refused(&vault, &reads(&vault, "lab", &[])), "{replay:?}");
        vault.refresh("adult").unwrap();
        assert!(!is_refused(&vault, &reads(&vault, "lab", &["adult"])), "{replay:?}");
    }
}
