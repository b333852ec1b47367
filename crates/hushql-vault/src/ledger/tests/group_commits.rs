//! Charges of one process that are paid together have the same effect as separate ones, with fewer
//! commits.

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::{file, request, spend, total};
use crate::ledger::{Charge, ChargeRequest, Vault, VaultError};

const THREADS: usize = 16;

/// The number of transactions committed to a file: the counter in its header.
fn commits(path: &Path) -> u32 {
    let header = std::fs::read(path).unwrap();
    u32::from_be_bytes(header[24..28].try_into().unwrap())
}

/// Charges from many threads at once, while another program holds the file.
fn together(
    vault: &Vault,
    path: &Path,
    request_of: impl Fn(usize) -> ChargeRequest + Sync,
) -> Vec<Result<Charge, VaultError>> {
    let other = Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ready = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|i| {
                let (ready, request_of) = (&ready, &request_of);
                scope.spawn(move || {
                    ready.wait();
                    vault.charge(&request_of(i))
                })
            })
            .collect();
        ready.wait();
        thread::sleep(Duration::from_millis(200));
        other.execute_batch("ROLLBACK").unwrap();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn charges_that_wait_together_share_a_commit() {
    let (_folder, path) = file(spend(1_000, 0));
    let vault = Vault::open(&path).unwrap();
    let before = commits(&path);
    let paid = together(&vault, &path, |_| request(1, 0, &["adult"]));
    let mut numbers: Vec<i64> = paid.into_iter().map(|charge| charge.unwrap().sequence()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=i64::try_from(THREADS).unwrap()).collect::<Vec<_>>());
    // All charges arrive while the file is held. A late one may need a separate commit.
    let commits = commits(&path) - before;
    assert!((1..=4).contains(&commits), "{commits} commits");
    assert_eq!(Vault::open(&path).unwrap().verify().unwrap().entries, 16);
    assert_eq!(total(&vault, "adult"), spend(16, 0));
}

#[test]
fn a_request_that_is_refused_touches_no_other() {
    let (_folder, path) = file(spend(10, 0));
    let vault = Vault::open(&path).unwrap();
    let outcomes = together(&vault, &path, |i| {
        let mut ask = request(if i % 3 == 0 { 11 } else { 2 }, 0, &["adult"]);
        ask.analyst = format!("lab-{i}");
        if i % 3 == 1 && i > 3 {
            ask.unit_domains.push("bids".to_owned());
        }
        ask
    });
    let (mut paid, mut strangers) = (0, 0);
    for (i, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Ok(charge) => {
                assert_ne!(i % 3, 0);
                assert_eq!(charge.left()[0].1.nano % 2, 0);
                paid += 1;
            }
            Err(VaultError::NoBudget { table }) => {
                assert_eq!((table.as_str(), i % 3), ("bids", 1));
                strangers += 1;
            }
            Err(error) => assert!(error.is_budget(), "{error}"),
        }
    }
    assert_eq!((paid, strangers), (5, 4));
    assert_eq!(total(&vault, "adult"), spend(10, 0));
    // An analyst whose charge was refused was not admitted.
    let known = vault.analysts().unwrap();
    for (i, outcome) in outcomes.iter().enumerate() {
        assert_eq!(known.contains(&format!("lab-{i}")), outcome.is_ok(), "{i}: {known:?}");
    }
    assert_eq!(Vault::open(&path).unwrap().verify().unwrap().entries, 5);
}

#[test]
fn a_commit_that_fails_fails_for_all_of_its_charges() {
    let (_folder, path) = file(spend(1_000, 0));
    let vault = Vault::open_with(&path, Duration::from_millis(20)).unwrap();
    // A reader lets charges be written, but not committed.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN").unwrap();
    let rows: i64 = other.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
    thread::scope(|scope| {
        let charge = || vault.charge(&request(1, 0, &["adult"]));
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(charge)).collect();
        for thread in threads {
            let refused = thread.join().unwrap();
            assert!(matches!(refused, Err(VaultError::Locked { .. })), "{refused:?}");
        }
    });
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(vault.charge(&request(1, 0, &["adult"])).unwrap().sequence(), 1);
    assert_eq!(total(&vault, "adult"), spend(1, 0));
}

/// While the file cannot be opened again, no request is paid. Afterwards all are.
#[test]
fn a_poisoned_handle_pays_for_nobody() {
    let (folder, path) = file(spend(1_000, 0));
    let vault = Vault::open(&path).unwrap();
    let refused = vault.write(|connection, _| {
        connection.execute_batch(
            "PRAGMA defer_foreign_keys = ON; UPDATE budget SET table_name = 'nowhere'",
        )?;
        Ok(())
    });
    assert!(refused.is_err());
    let away = folder.path().join("away.db");
    std::fs::rename(&path, &away).unwrap();
    let all = || {
        thread::scope(|scope| {
            let charge = || vault.charge(&request(1, 0, &["adult"]));
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(charge)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    };
    assert!(all().iter().all(|paid| matches!(paid, Err(VaultError::Moved { .. }))));
    std::fs::rename(&away, &path).unwrap();
    assert!(all().iter().all(Result::is_ok));
    assert_eq!(Vault::open(&path).unwrap().entries().unwrap().len(), 4);
}
