//! Vaults that older programs made are carried over: every entry as it was, whatever is interrupted.
//!
//! `tests/data/vaults/format-4.db` was made by the program before format 5, with three tables, a view, budgets of
//! both kinds and six entries, and has never been opened since.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hushql::ledger::{ChargeRequest, Vault, VaultError};
use rusqlite::Connection;

use super::bench::{Bench, Case, Tally, each, one};
use super::shim::{Call, Fault};
use crate::contract::program::Run;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vaults").join(name)
}

/// A copy of the old vault in a folder of its own.
fn old(bench: &Bench) -> PathBuf {
    let vault = bench.fresh();
    fs::copy(fixture("format-4.db"), &vault).unwrap();
    vault
}

/// The number, ε in 10⁻⁹ and hash of every entry, read without the library.
fn entries(vault: &Path) -> Vec<(i64, Option<i64>, [u8; 32])> {
    let connection = Connection::open(vault).unwrap();
    let sql = "SELECT sequence, epsilon_nano, chain FROM ledger ORDER BY sequence";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

fn hushql(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hushql"));
    Run::from(command.args(arguments).output().unwrap())
}

/// What each budget has spent, in its own measure.
fn spent(vault: &Vault) -> Vec<(String, i64, i64)> {
    let states = vault.budgets().unwrap().into_iter();
    states.map(|s| (s.budget.name, s.spent.nano, s.spent.atto_delta)).collect()
}

#[track_caller]
fn is_carried_over(vault: &Vault, path: &Path) {
    assert_eq!(entries(path), entries(&fixture("format-4.db")));
    let spent = spent(vault);
    let names: Vec<&str> = spent.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["shop", "thrifty", "wide"]);
    assert_eq!((spent[0].1, spent[2].1), (2_150_000_000, 2_150_000_000));
    assert_eq!((spent[1].1, spent[1].2), (292_719, 0));
    let old = vault.entries().unwrap();
    assert!(old.iter().all(|entry| entry.at.is_none() && entry.statement.is_none()));
    let catalog = vault.catalog().unwrap();
    assert_eq!(catalog.tables().count(), 3);
    assert!(catalog.view("northern").is_some());
    assert_eq!(vault.analysts().unwrap(), ["lab", "other", "owner"]);
    let history = vault.declarations().unwrap();
    assert!(
        history.iter().any(|d| d.change.starts_with("budget shop: for customers, limit ε = 5"))
    );
}

#[test]
fn an_old_vault_is_carried_over() {
    let bench = Bench::new(&[]);
    let path = old(&bench);
    let shown = path.to_str().unwrap();
    let refused = hushql(&[shown, "--analyst", "lab", "-c", "SHOW PRIVACY"]);
    refused.says(1, &[&format!("its owner carries it over with `hushql upgrade {shown}`")]);
    assert!(matches!(Vault::open(&path), Err(VaultError::Version { found: 4, .. })));
    hushql(&["upgrade", shown]).says(0, &["has today's format"]);
    let vault = Vault::open(&path).unwrap();
    is_carried_over(&vault, &path);
    // New entries follow on the old ones, and know when they were made.
    let request = ChargeRequest { spaces: vec!["customers".to_owned()], ..one(&vault) };
    assert_eq!(vault.charge(&request).unwrap().sequence(), 7);
    assert!(vault.entries().unwrap()[6].at.is_some());
    drop(vault);
    hushql(&["upgrade", shown]).says(0, &["has today's format"]);
    assert_eq!(Vault::open(&path).unwrap().entries().unwrap().len(), 7);
    hushql(&["upgrade", "nowhere.db"]).says(1, &["there is no vault"]);
}

#[test]
fn the_anchor_follows() {
    let bench = Bench::new(&[]);
    let path = old(&bench);
    let elsewhere = tempfile::tempdir().unwrap();
    let anchor = elsewhere.path().join("study.anchor");
    fs::copy(fixture("format-4.anchor"), &anchor).unwrap();
    let (shown, held) = (path.to_str().unwrap(), anchor.to_str().unwrap());
    hushql(&["upgrade", shown, "--anchor", held]).says(0, &[]);
    assert!(matches!(Vault::open(&path), Err(VaultError::Unanchored { .. })));
    is_carried_over(&Vault::open_anchored(&path, &anchor).unwrap(), &path);

    // A vault that does not hold the anchor's entry is left as it is.
    let path = old(&bench);
    let connection = Connection::open(&path).unwrap();
    let cut = "DROP TRIGGER ledger_is_never_deleted; DELETE FROM ledger WHERE sequence = 6";
    connection.execute_batch(cut).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    assert!(Vault::upgrade(&path, Some(&anchor)).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Damage is not carried over, and what is refused stays as it was.
#[test]
fn a_damaged_vault_is_not_carried_over() {
    let bench = Bench::new(&[]);
    let put_back = "CREATE TRIGGER ledger_is_never_changed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is never changed'); END";
    for (damage, says) in [
        ("UPDATE ledger SET epsilon_nano = 1 WHERE sequence = 2", "chain of its ledger is broken"),
        ("UPDATE budget SET limit_loss = limit_loss + 1", "not what was declared"),
        ("UPDATE budget SET spent_loss = spent_loss + 1", "disagrees with the ledger"),
        ("DELETE FROM analyst WHERE name = 'nobody'; CREATE TABLE x (y)", "not those of a vault"),
    ] {
        let path = old(&bench);
        let connection = Connection::open(&path).unwrap();
        let batch = format!("DROP TRIGGER ledger_is_never_changed; {damage}; {put_back}");
        connection.execute_batch(&batch).unwrap();
        drop(connection);
        let before = fs::read(&path).unwrap();
        let error = Vault::upgrade(&path, None::<&Path>).unwrap_err();
        assert!(error.to_string().contains(says), "{damage}: {error}");
        assert_eq!(fs::read(&path).unwrap(), before, "{damage}");
    }
}

/// Every write, sync and unlink of an upgrade as the last thing that the program does.
#[test]
fn an_upgrade_is_done_or_not() {
    let bench = Bench::new(&["upgrade", "@"]);
    let (outcome, calls) = bench.calls(old(&bench));
    outcome.run.says(0, &["has today's format"]);
    let changes = ["write", "sync", "truncate", "unlink"];
    let hit = |call: &&Call| call.number > 0 && changes.contains(&call.name.as_str());
    let faults = [Fault::Kill, Fault::KillHalf, Fault::KillAfter];
    let cases: Vec<Case> = calls
        .iter()
        .filter(hit)
        .flat_map(|call| {
            let hits = faults.into_iter().filter(|fault| fault.hits(call));
            hits.map(|fault| Case { at: call.number, fault }).collect::<Vec<_>>()
        })
        .collect();
    assert!(cases.len() > 40, "{}", cases.len());
    let tally = Tally::default();
    each(&cases, |case| {
        let outcome = bench.run(old(&bench), Some(*case));
        let path = &outcome.vault;
        match Vault::open(path) {
            Ok(vault) => {
                is_carried_over(&vault, path);
                tally.add("done");
            }
            Err(VaultError::Version { found: 4, .. }) => tally.add("not done"),
            Err(error) => panic!("{case:?}: {error}"),
        }
        is_carried_over(&Vault::upgrade(path, None::<&Path>).unwrap(), path);
    });
    println!("{} kills: {tally:?}", cases.len());
    assert!(tally.of("done") > 0 && tally.of("not done") > 20, "{tally:?}");
}
