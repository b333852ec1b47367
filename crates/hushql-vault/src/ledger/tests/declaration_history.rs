//! The history of a vault: who changed which declaration, which statements were charged, and when.

use super::{NANO, alter, budget, file, furnish, request, spend, table};
use crate::catalog::{CatalogError, Privacy};
use crate::ledger::{ChargeRequest, OWNER, Vault, VaultError};

fn changes(vault: &Vault) -> Vec<String> {
    vault.declarations().unwrap().into_iter().map(|declared| declared.change).collect()
}

#[test]
fn every_declaration_is_in_the_history() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(NANO, 0));
    vault.set_budget_limit("research", spend(2 * NANO, 0), None).unwrap();
    // A refused declaration, or one that changes nothing, makes no entry.
    vault.set_budget_limit("research", spend(2 * NANO, 0), None).unwrap();
    let refused = vault.create_budget(&budget("research", "adult", spend(NANO, 0)));
    assert!(matches!(refused, Err(VaultError::Catalog(CatalogError::DuplicateBudget { .. }))));
    vault.drop_budget("research").unwrap();
    alter(&vault, "adult", |table| table.privacy = Privacy::Public).unwrap();
    vault.drop_table("adult").unwrap();
    assert_eq!(
        changes(&vault),
        [
            "column adult.age: between (0, 120)",
            "table adult: private, unit id max rows 20",
            "budget research: for adult, limit ε = 1, per query at most anything",
            "budget research: for adult, limit ε = 2, per query at most anything",
            "budget research: dropped",
            "table adult: public",
            "column adult.age: dropped",
            "table adult: dropped",
        ]
    );
    let entries = vault.declarations().unwrap();
    let numbers: Vec<i64> = entries.iter().map(|declared| declared.sequence).collect();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    assert!(entries.iter().all(|declared| declared.analyst == OWNER));
    assert!(entries.windows(2).all(|two| two[0].at <= two[1].at && two[0].at > 1_700_000_000));
}

#[test]
fn a_history_that_was_altered_is_refused() {
    for (alteration, refused_at_once) in [
        ("UPDATE declaration SET change = 'budget research: dropped' WHERE sequence = 3", false),
        ("UPDATE declaration SET at = at - 1 WHERE sequence = 1", false),
        ("DELETE FROM declaration WHERE sequence = 1", false),
        ("DELETE FROM declaration WHERE sequence = 3", true),
    ] {
        let (_folder, path) = file(spend(NANO, 0));
        let other = rusqlite::Connection::open(&path).unwrap();
        other
            .execute_batch(&format!(
                "DROP TRIGGER declaration_is_never_changed; DROP TRIGGER declaration_is_never_deleted; {alteration}"
            ))
            .unwrap();
        for name in ["changed", "deleted"] {
            let verb = if name == "changed" { "UPDATE" } else { "DELETE" };
            other
                .execute_batch(&format!(
                    "CREATE TRIGGER declaration_is_never_{name} BEFORE {verb} ON declaration
BEGIN SELECT RAISE(ABORT, 'the history is never {name}'); END;"
                ))
                .unwrap();
        }
        drop(other);
        let vault = Vault::open(&path).unwrap();
        let error = vault.declarations().unwrap_err();
        assert!(matches!(error, VaultError::Corrupt { .. }), "{alteration}: {error}");
        // A new entry must not hide the loss of the history's end.
        let appended = vault.set_budget_limit("research", spend(5, 0), None);
        assert_eq!(appended.is_err(), refused_at_once, "{alteration}");
    }
}

#[test]
fn a_charge_says_when_and_what() {
    let vault = Vault::in_memory().unwrap();
    furnish(&vault, spend(NANO, 0));
    let ask = request(1, 0, &["adult"]);
    for _ in 0..2 {
        assert!(vault.charge(&ask).is_ok());
    }
    let entries = vault.entries().unwrap();
    let hash = entries[0].statement;
    assert_eq!(entries[1].statement, hash, "one text, kept once");
    assert_eq!(vault.statement(&hash).unwrap(), Some(ask.statement));
    assert_eq!(vault.statement(&[7; 32]).unwrap(), None);
    assert!(entries.iter().all(|entry| entry.at > 1_700_000_000));
    vault.raw(|connection| {
        let altered = connection.execute_batch("UPDATE statement SET text = 'SELECT 1'");
        assert!(altered.unwrap_err().to_string().contains("never changed"));
        connection
            .execute_batch(
                "DROP TRIGGER statement_is_never_changed; UPDATE statement SET text = 'SELECT 1'",
            )
            .unwrap();
    });
    assert!(matches!(vault.statement(&hash), Err(VaultError::Corrupt { .. })));
    assert!(vault.create_table(&table("other")).is_ok());
}

/// Texts are never deleted, so they are kept short.
#[test]
fn of_a_long_text_its_beginning_is_kept() {
    let (_folder, path) = file(spend(9 * NANO, 0));
    let vault = Vault::open(&path).unwrap();
    for (length, is_whole) in [(4_096, true), (4_097, false), (900_000, false)] {
        let statement = "é".repeat(length / 2) + &"x".repeat(length % 2);
        let ask = ChargeRequest { statement: statement.clone(), ..request(1, 0, &["adult"]) };
        let _ = vault.charge(&ask).unwrap();
        let entry = vault.entries().unwrap().pop().unwrap();
        let kept = vault.statement(&entry.statement).unwrap().unwrap();
        assert_eq!(kept == statement, is_whole, "{length}");
        assert!(kept.len() <= 4_096 && kept.starts_with(&statement[..3_000]), "{length}");
        let end = format!("… (shortened: {length} bytes in all, sha256:");
        assert_eq!(kept.contains(&end), !is_whole, "{length}");
    }
    let long = "9".repeat(5_000);
    let mut ask = request(1, 0, &["adult"]);
    ask.entries[0].parameters = long.clone();
    let _ = vault.charge(&ask).unwrap();
    let entry = vault.entries().unwrap().pop().unwrap();
    assert_eq!(entry.parameters, format!("{}…", &long[..1_024]));
    vault.verify().unwrap();
}
