//! A crowd that races for a budget: 8 processes of 64 threads each, for exactly 100 charges.
//!
//! Another process is this test program again, told by a variable to run [`child`] on a file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use hushql::privacy::Spend;
use hushql_vault::ledger::{Vault, VaultError};

use super::bench::{Bench, ONE, charges, one};

const CHILD: &str = "HUSHQL_TEST_CROWD";
const PROCESSES: usize = 8;
const THREADS: usize = 64;

/// A handle; a lock that is held for long is waited for.
fn open(path: &Path) -> Vault {
    loop {
        match Vault::open(path) {
            Ok(vault) => return vault,
            Err(VaultError::Locked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Charges one after another until the budget says no.
fn spend_all(vault: &Vault) -> usize {
    let mut paid = 0;
    loop {
        match vault.charge(&one(vault)) {
            Ok(_) => paid += 1,
            Err(VaultError::Locked { .. }) => {}
            Err(error) => {
                assert!(error.is_budget(), "{error}");
                return paid;
            }
        }
    }
}

/// A process of the crowd: half of its threads share a handle, the others have their own.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let shared = open(&path);
    let paid: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|i| {
                let (shared, path) = (&shared, &path);
                scope.spawn(
                    move || {
                        if i % 2 == 0 { spend_all(shared) } else { spend_all(&open(path)) }
                    },
                )
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("\npaid {paid}");
}

#[test]
fn a_crowd_is_paid_exactly_what_there_is() {
    let bench = Bench::new(&[]);
    let path = bench.copy();
    let vault = Vault::open(&path).unwrap();
    // One is spent already.
    vault.set_budget_limit("b", Spend::of_epsilon(101 * ONE, 0), None).unwrap();
    let (_, name) = module_path!().split_once("::").unwrap();
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &format!("{name}::child"), "--nocapture", "--test-threads=1"])
                .env(CHILD, &path)
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut paid = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix("paid "));
        paid.push(line.unwrap().parse::<usize>().unwrap());
    }
    assert_eq!(paid.iter().sum::<usize>(), 100, "{paid:?}");
    assert_eq!(charges(&vault), 101);
    assert!(vault.charge(&one(&vault)).unwrap_err().is_budget());
}
