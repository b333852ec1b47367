//! Prints the speed of a vault. It only asserts that no program of a crowd is refused.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::checkpoints::many;
use super::{file, furnish, request, spend, total};
use crate::ledger::Vault;

const CHILD: &str = "HUSHQL_TEST_QUEUE";

/// A process of the crowd. It opens the vault and makes this number of charges; none of them may be
/// refused.
#[test]
fn child() {
    let Some(told) = std::env::var(CHILD).ok() else { return };
    let (questions, path) = told.split_once(' ').unwrap();
    for _ in 0..questions.parse().unwrap() {
        // Like a program that asks one question.
        let vault = Vault::open(path).unwrap();
        vault.catalog().unwrap();
        vault.quote(&request(1, 0, &["adult"])).unwrap();
        assert!(vault.charge(&request(1, 0, &["adult"])).unwrap().sequence() > 0);
    }
}

fn start(path: &Path, questions: usize) -> Child {
    let name = module_path!().split_once("::").map(|(_, rest)| format!("{rest}::child")).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{questions} {}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Eight processes charge at the same time. With SQLite's own time-out, some of them were refused
/// because of the lock.
fn crowd(questions: usize) {
    let (_folder, path) = file(spend(1_000_000, 0));
    let began = Instant::now();
    let children: Vec<Child> = (0..8).map(|_| start(&path, questions)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success(), "a question was refused");
    }
    let asked = 8 * questions;
    println!("8 processes, {asked} questions: {:?}", began.elapsed());
    let vault = Vault::open(&path).unwrap();
    assert_eq!(total(&vault, "adult"), spend(i64::try_from(asked).unwrap(), 0));
    vault.verify().unwrap();
}

#[test]
fn nobody_is_refused_for_being_one_of_eight_processes() {
    crowd(20);
}

#[test]
#[ignore = "half a minute"]
fn nobody_is_refused_for_being_one_of_eight_processes_for_long() {
    crowd(200);
}

/// Durable charges per second, with one thread and with many, in memory and on the disk of
/// temporary files.
#[test]
#[ignore = "prints rates"]
fn charges_a_second() {
    let disk = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm");
    for folder in [Some(&disk), memory.as_ref().ok()].into_iter().flatten() {
        for threads in [1, 8, 64] {
            let path = folder.path().join(format!("{threads}.db"));
            let vault = Vault::init(&path).unwrap();
            furnish(&vault, spend(1_000_000_000, 0));
            let (paid, began) = (AtomicUsize::new(0), Instant::now());
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        while began.elapsed() < Duration::from_secs(3) {
                            assert!(vault.charge(&request(1, 0, &["adult"])).is_ok());
                            paid.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            let rate = paid.into_inner() as u128 * 1_000 / began.elapsed().as_millis();
            println!("{}: {threads} threads, {rate} charges a second", path.display());
        }
    }
}

/// The time to open a vault, by the size of its ledger.
#[test]
#[ignore = "a minute or two: prints times"]
fn opening_does_not_wait_for_the_ledger() {
    for entries in [0, 1_000, 108_000, 1_000_000_i64] {
        let (_folder, path) = file(spend(10_000_000, 0));
        let vault = Vault::open(&path).unwrap();
        let mut left = entries;
        while left > 0 {
            let now = left.min(50_000);
            assert!(vault.charge(&many(now)).is_ok());
            left -= now;
        }
        drop(vault);
        let mut times: Vec<Duration> = (0..21)
            .map(|_| {
                let began = Instant::now();
                Vault::open(&path).unwrap();
                began.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{entries} entries: opened in {:?}, at most {:?}", times[10], times[20]);
        let vault = Vault::open(&path).unwrap();
        let began = Instant::now();
        vault.verify().unwrap();
        println!("{entries} entries: verified in {:?}", began.elapsed());
    }
}
