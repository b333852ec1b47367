//! The vault under racing threads and processes, and under processes that are killed.
//!
//! The other process is this test program; an environment variable makes it run [`child`] on a
//! file.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use hushql_privacy::privacy::Spend;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use tempfile::TempDir;

use super::{budget, file, request, spend, total};
use crate::catalog::Budget;
use crate::ledger::{Charge, Vault, VaultError};

/// Charges one unit after another until the budget refuses. It waits for a lock that is held for
/// long.
fn spend_all(vault: &Vault, mut paid: impl FnMut(&Charge)) {
    loop {
        match vault.charge(&request(1, 0, &["adult"])) {
            Ok(charge) => paid(&charge),
            Err(VaultError::Locked { .. }) => {}
            Err(error) => {
                assert!(error.is_budget(), "{error}");
                return;
            }
        }
    }
}

#[test]
fn racing_threads_are_paid_exactly_what_there_is() {
    let (_folder, path) = file(spend(100, 0));
    let shared = Vault::open(&path).unwrap();
    let count = |vault: &Vault| {
        let mut paid = 0;
        spend_all(vault, |_| paid += 1);
        paid
    };
    // Eight threads with separate handles, and four more that share one.
    let paid: i32 = thread::scope(|scope| {
        let own = (0..8).map(|_| scope.spawn(|| count(&Vault::open(&path).unwrap())));
        let own: Vec<_> = own.collect();
        let sharing: Vec<_> = (0..4).map(|_| scope.spawn(|| count(&shared))).collect();
        own.into_iter().chain(sharing).map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(paid, 100);
    let vault = Vault::open(&path).unwrap();
    assert_eq!(vault.budget("research").unwrap().left, Spend::default());
    assert_eq!(total(&vault, "adult"), spend(100, 0));
}

/// A vault in a file, with a budget of this many coupons.
fn file_of_coupons(most: i64) -> (TempDir, PathBuf) {
    let (folder, path) = file(spend(1, 0));
    let vault = Vault::open(&path).unwrap();
    vault.drop_budget("research").unwrap();
    let limit = Spend::of_coupons(most, 0);
    let promise = Some(spend(1_000_000, 1));
    let coupons = Budget { promise, coupon: Some(1), ..budget("research", "adult", limit) };
    vault.create_budget(&coupons).unwrap();
    (folder, path)
}

#[test]
fn racing_threads_use_each_coupon_once() {
    let (_folder, path) = file_of_coupons(100);
    let paid: i32 = thread::scope(|scope| {
        let count = || {
            let mut paid = 0;
            spend_all(&Vault::open(&path).unwrap(), |_| paid += 1);
            paid
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(paid, 100);
    let vault = Vault::open(&path).unwrap();
    assert_eq!(vault.budget("research").unwrap().left, Spend::of_coupons(0, 0));
    assert_eq!(vault.entries().unwrap().len(), 100);
}

const CHILD: &str = "HUSHQL_TEST_VAULT";

/// The other process of the tests below. It spends the budget, and acknowledges each charge
/// afterwards.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let vault = Vault::open(&path).unwrap();
    println!();
    spend_all(&vault, |charge| {
        println!("paid {}", charge.sequence());
        std::io::stdout().flush().unwrap();
    });
    println!("done");
}

fn start_child(path: &Path) -> (Child, BufReader<ChildStdout>) {
    // The test harness names a test by its path within the crate.
    let name = module_path!().split_once("::").map(|(_, rest)| format!("{rest}::child")).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// The number of charges that a child acknowledged, in whole lines.
fn acknowledged(output: BufReader<ChildStdout>) -> usize {
    output.lines().map_while(Result::ok).filter(|line| line.starts_with("paid ")).count()
}

#[test]
fn racing_processes_are_paid_exactly_what_there_is() {
    let (_folder, path) = file(spend(100, 0));
    let children = [start_child(&path), start_child(&path)];
    let mut paid = 0;
    for (mut child, output) in children {
        paid += acknowledged(output);
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(paid, 100);
    assert_eq!(total(&Vault::open(&path).unwrap(), "adult"), spend(100, 0));
}

#[test]
fn a_killed_process_loses_no_charge() {
    let (_folder, path) = file(spend(1_000_000, 0));
    kill_often(&path, 25);
}

#[test]
fn a_killed_process_loses_no_coupon() {
    let (_folder, path) = file_of_coupons(1_000_000);
    kill_often(&path, 10);
    let vault = Vault::open(&path).unwrap();
    let used = vault.budget("research").unwrap().spent;
    let entries = i64::try_from(vault.entries().unwrap().len()).unwrap();
    assert_eq!(used, Spend::of_coupons(entries, 0));
}

/// Kills processes that charge one unit after another to the budget of a vault.
fn kill_often(path: &Path, rounds: i64) {
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let mut acknowledged_in_all = 0_i64;
    let mut before = 0_i64;
    for round in 0..rounds {
        let (mut child, mut output) = start_child(path);
        // From the first charge on, the child may be killed at any moment.
        let mut line = String::new();
        while !line.starts_with("paid ") {
            line.clear();
            assert!(
                output.read_line(&mut line).unwrap() > 0,
                "round {round}: the child pays nothing"
            );
        }
        thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged_in_all += 1 + i64::try_from(acknowledged(output)).unwrap();

        let vault = Vault::open(path).unwrap();
        let spent = vault.budget("research").unwrap().spent;
        assert_eq!(spent.nano, total(&vault, "adult").nano, "round {round}");
        // A kill between the sync and the acknowledgement leaves one charge without an
        // acknowledgement.
        let unheard = spent.nano - acknowledged_in_all;
        assert!((0..=round + 1).contains(&unheard), "round {round}: {unheard}");
        assert!(spent.nano > before);
        before = spent.nano;
    }
}
