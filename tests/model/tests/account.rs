//! The account keeps its promises in every state of the model, and each broken step is refuted.

#![allow(missing_docs, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use hushql_model::{AccountModel, Broken};
use stateright::{Checker, HasDiscoveries, Model};

/// The number of different states.
const STATES: usize = 780_090;

/// Whether a promise is found broken, with the steps that lead there.
fn refutes(broken: Broken, promise: &'static str) -> Option<usize> {
    let checker =
        AccountModel { broken }.checker().finish_when(HasDiscoveries::AnyOf([promise].into()));
    let checker = checker.spawn_bfs().join();
    let steps = checker.discovery(promise)?.into_actions();
    println!("{broken:?}: {promise}: refuted after {} steps: {steps:?}", steps.len());
    Some(steps.len())
}

#[test]
fn the_account_keeps_its_promises_in_every_state() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = AccountModel { broken: Broken::Nothing }.checker().threads(threads);
    let checker = checker.spawn_bfs().join();
    println!("{} states, {} deep", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
    // If the sizes change, README.md has to say so.
    assert_eq!(checker.unique_state_count(), STATES);
}

#[test]
fn every_broken_step_is_refuted() {
    for (broken, promise) in [
        (Broken::ChargeBeforeSync, "what was shown is on the disk"),
        (Broken::AnchorLags, "what was shown is in the ledger of every open program"),
        (Broken::AnchorFirst, "the anchor is never ahead of a file that nobody replaced"),
        (Broken::AnchorFollowsUnsynced, "the anchor is never ahead of a file that nobody replaced"),
        (Broken::SumReadBeforeLock, "no more is charged than the budget has"),
        (Broken::CheckpointBeforeEntry, "every checkpoint is the sum of its entries"),
        (Broken::KeptBeforePaid, "a kept draw was paid for before it was kept"),
    ] {
        let steps = refutes(broken, promise).unwrap_or_else(|| panic!("{broken:?} is not refuted"));
        assert!(steps < 30, "{broken:?} takes {steps} steps");
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The functions that README.md names beside the steps are in the file that it names.
#[test]
fn the_functions_of_the_steps_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let vault = root.join("../../crates/hushql-vault/src/ledger");
    let files = sources(&vault);
    let mut found = 0;
    for line in readme.lines().filter(|line| line.starts_with("| `")) {
        let functions = line.split('|').nth(3).unwrap();
        for named in functions.split('`').skip(1).step_by(2) {
            let (file, function) = named.split_once(": ").unwrap();
            let path = files.iter().find(|path| path.ends_with(file));
            let text = fs::read_to_string(path.unwrap_or_else(|| panic!("no {file}"))).unwrap();
            assert!(text.contains(&format!("fn {function}")), "{named}");
            found += 1;
        }
    }
    assert!(found >= 15, "{found} functions");
}
