//! A vault that is moved, exchanged or put back under an open handle: nothing goes into a file that
//! nobody opens again, and the file at the path is left alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hushql::privacy::Spend;
use hushql_vault::catalog::{Budget, PerQuery, Replay};
use hushql_vault::ledger::{Vault, VaultError};

use super::bench::{ASK, Bench, ONE, charges, one};

/// A vault with one charge, and an open handle of it.
fn open() -> (Bench, PathBuf, Vault) {
    let bench = Bench::new(&[]);
    let path = bench.copy();
    let vault = Vault::open(&path).unwrap();
    (bench, path, vault)
}

/// A charge and a declaration, both refused because the file is not where it was.
#[track_caller]
fn refuses(vault: &Vault) {
    let budget = Budget {
        name: "late".to_owned(),
        table: "people".to_owned(),
        limit: Spend::of_epsilon(ONE, 0),
        promise: None,
        coupon: None,
        per_query: PerQuery::default(),
        replay: Replay::All,
    };
    for error in [
        vault.charge(&one(vault)).map(drop).unwrap_err(),
        vault.create_budget(&budget).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, VaultError::Moved { .. }), "{error}");
        assert!(error.to_string().contains("was moved or removed while it was open"), "{error}");
    }
}

fn aside(path: &Path) -> PathBuf {
    path.with_file_name("old.db")
}

#[test]
fn a_vault_that_was_exchanged_is_not_charged() {
    let (_bench, path, vault) = open();
    let before = fs::read(&path).unwrap();
    fs::rename(&path, aside(&path)).unwrap();
    refuses(&vault);
    // The very same bytes, but another file: whoever opens it next would not see the charge.
    fs::write(&path, &before).unwrap();
    refuses(&vault);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read(aside(&path)).unwrap(), before);
    // Back where it was it is the same file again.
    fs::rename(aside(&path), &path).unwrap();
    assert_eq!(vault.charge(&one(&vault)).unwrap().sequence(), 2);
    assert_eq!(charges(&Vault::open(&path).unwrap()), 2);
}

#[test]
fn a_folder_that_was_exchanged_is_noticed() {
    let (bench, path, vault) = open();
    let folder = path.parent().unwrap();
    let moved = folder.with_file_name("moved");
    fs::rename(folder, &moved).unwrap();
    refuses(&vault);
    fs::create_dir(folder).unwrap();
    fs::copy(bench.original(), &path).unwrap();
    refuses(&vault);
    assert_eq!(charges(&Vault::open(moved.join("study.db")).unwrap()), 1);
}

/// SQLite follows the link once and looks at its target only.
#[test]
fn a_link_that_leads_elsewhere_is_noticed() {
    let (bench, path, _) = open();
    let link = path.with_file_name("link.db");
    symlink(&path, &link).unwrap();
    let vault = Vault::open(&link).unwrap();
    assert_eq!(vault.charge(&one(&vault)).unwrap().sequence(), 2);
    fs::remove_file(&link).unwrap();
    symlink(bench.copy(), &link).unwrap();
    refuses(&vault);
    assert_eq!(charges(&Vault::open(&path).unwrap()), 2);
}

/// The file is the same, its content is an older one.
#[test]
fn a_vault_that_was_written_over_is_noticed() {
    let (_bench, path, vault) = open();
    let before = fs::read(&path).unwrap();
    assert_eq!(vault.charge(&one(&vault)).unwrap().sequence(), 2);
    fs::write(&path, &before).unwrap();
    let error = vault.charge(&one(&vault)).unwrap_err();
    assert!(error.to_string().contains("not the ledger that was there before"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// A session that has answered finds another vault at the path.
#[test]
fn an_engine_does_not_answer_over_an_exchanged_vault() {
    let (bench, path, _) = open();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let session = hushql::Engine::open(&path).unwrap().analyst("lab").unwrap();
    assert!(runtime.block_on(session.query(ASK)).is_ok());
    let fresh = bench.copy();
    fs::rename(fresh, &path).unwrap();
    let error = runtime.block_on(session.query(ASK)).unwrap_err().to_string();
    assert!(error.contains("was moved or removed while it was open"), "{error}");
    assert_eq!(charges(&bench.adopt(&path).unwrap()), 1);
}
