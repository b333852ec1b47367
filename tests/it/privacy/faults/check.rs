//! `hushql check`: a whole vault is said to be sound, and damage that opening it does not meet is
//! found.

use std::process::Command;

use hushql::privacy::{Loss, Spend};
use hushql_vault::ledger::{ChargeRequest, Vault};
use rusqlite::Connection;

use super::bench::{Bench, ONE, charges, one, said};
use crate::contract::program::Run;

fn check(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hushql"));
    Run::from(command.arg("check").args(arguments).output().unwrap())
}

/// Charges so many entries in one statement.
fn charge(vault: &Vault, entries: usize) {
    vault.set_budget_limit("b", Spend::of_epsilon(10_000 * ONE, 0), None).unwrap();
    let mut request: ChargeRequest = one(vault);
    let entry = request.entries.remove(0);
    assert_eq!(entry.loss, Loss::pure(&"1".parse().unwrap()));
    request.entries = vec![entry; entries];
    assert!(vault.charge(&request).is_ok());
}

#[test]
fn a_whole_vault_is_verified() {
    let ask = "SELECT epsilon FROM hushql.ledger WHERE sequence = 7; SELECT LAPLACE(eps=1) COUNT(*) FROM people";
    let bench =
        Bench::new(&["@", "--analyst", "lab", "--keep-going", "--format", "json", "-c", ask]);
    let path = bench.copy();
    let shown = path.to_str().unwrap();
    check(&[shown]).says(
        0,
        &[&format!("the vault {shown} is sound: 1 entry in the ledger, and 1 budget agrees")],
    );
    charge(&Vault::open(&path).unwrap(), 600);
    check(&[shown]).says(0, &["601 entries in the ledger"]);

    // An old entry is altered: everything that is opened with is as it was.
    let other = Connection::open(&path).unwrap();
    let trigger: String = other
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'ledger_is_never_changed'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let alter = "UPDATE ledger SET epsilon_nano = 1 WHERE sequence = 100";
    other
        .execute_batch(&format!("DROP TRIGGER ledger_is_never_changed; {alter}; {trigger}"))
        .unwrap();
    drop(other);
    let vault = Vault::open(&path).unwrap();
    assert_eq!(vault.budget("b").unwrap().spent.nano, 601 * ONE);
    check(&[shown]).says(1, &["is damaged (the chain of its ledger is broken)"]);
    // Whoever reads the entries of that page is refused; what is charged now depends on none of
    // them.
    let run = Run::from(bench.command(&path).output().unwrap());
    assert!(run.out.contains("is damaged (the chain of its ledger is broken)"), "{run:?}");
    assert_eq!(said(&run, "columns"), 1, "{run:?}");
    assert_eq!(Vault::open(&path).unwrap().budget("b").unwrap().spent.nano, 602 * ONE);
    check(&[bench.fresh().to_str().unwrap()]).says(1, &["there is no vault"]);
    check(&[]).says(2, &["Usage"]);
}

#[test]
fn an_anchored_vault_is_verified_with_its_anchor() {
    let bench = Bench::new(&["@", "--anchor", "@anchor", "--analyst", "lab", "-c", "SELECT 1"]);
    let path = bench.copy();
    let anchor = bench.anchor(&path);
    let (shown, anchor) = (path.to_str().unwrap(), anchor.to_str().unwrap());
    let old = std::fs::read(&path).unwrap();
    charge(&bench.open(&path).unwrap(), 300);
    check(&[shown, "--anchor", anchor]).says(0, &["is sound: 301 entries in the ledger"]);
    // A vault that was put back is sound in itself, and older than its anchor.
    std::fs::write(&path, old).unwrap();
    check(&[shown]).says(1, &["has an anchor and opens only with it"]);
    check(&[shown, "--anchor", anchor])
        .says(1, &["older than its anchor", "an older copy replaced it"]);
    assert_eq!(charges(&Vault::remove_anchor(&path).unwrap()), 1);
    check(&[shown]).says(0, &["is sound: 1 entry"]);
}
