//! The long run: a vault that lives through thousands of programs which are killed, at a call or at
//! a moment.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hushql::privacy::Spend;
use hushql_vault::ledger::Vault;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::bench::{ASK, Bench, Case, ONE, charges, each, said};
use super::shim::Fault;
use crate::contract::program::Run;

/// 100 vaults, each killed 100 times; every other time the next program, not the test, finds the
/// journal.
#[test]
#[ignore = "long: ten minutes or more"]
fn ten_thousand_killed_programs_lose_no_charge() {
    lives(100, 100);
}

/// The same, short.
#[test]
fn killed_programs_lose_no_charge() {
    lives(4, 15);
}

fn lives(vaults: u64, kills: usize) {
    let thrice = format!("{ASK}; {ASK}; {ASK}");
    let bench = Bench::new(&["@", "--analyst", "lab", "--format", "json", "-c", &thrice]);
    let (outcome, calls) = bench.calls(bench.copy());
    assert_eq!(said(&outcome.run, "columns"), 2, "{outcome:?}");
    let last = calls.iter().map(|call| call.number).max().unwrap();
    let (heard, unheard) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let seeds: Vec<u64> = (0..vaults).collect();
    each(&seeds, |seed| {
        let mut rng = ChaCha20Rng::seed_from_u64(*seed);
        let path = bench.copy();
        Vault::open(&path)
            .unwrap()
            .set_budget_limit("b", Spend::of_epsilon(1_000 * ONE, 0), None)
            .unwrap();
        let (mut answered, mut killed) = (1, 0);
        for round in 0..kills {
            let run: Run = if rng.random_range(0..4) == 0 {
                let mut command = bench.command(&path);
                let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
                let mut child = child.unwrap();
                thread::sleep(Duration::from_micros(rng.random_range(20_000..120_000)));
                // It may have ended by itself.
                let _ = child.kill();
                child.wait_with_output().unwrap().into()
            } else {
                let faults = [Fault::Kill, Fault::KillHalf, Fault::KillAfter];
                let fault = faults[rng.random_range(0..faults.len())];
                let case = Case { at: rng.random_range(1..=last * 3 / 2), fault };
                bench.run(path.clone(), Some(case)).run
            };
            answered += said(&run, "columns");
            killed += usize::from(run.status != 0);
            if round % 2 == 0 {
                let found = charges(&Vault::open(&path).unwrap());
                let most = answered + killed;
                assert!((answered..=most).contains(&found), "{seed}, {round}: {found}, {run:?}");
            }
        }
        let found = charges(&Vault::open(&path).unwrap());
        assert!((answered..=answered + killed).contains(&found), "{seed}: {found}");
        heard.fetch_add(answered, Ordering::Relaxed);
        unheard.fetch_add(found - answered, Ordering::Relaxed);
    });
    let (heard, unheard) = (heard.into_inner(), unheard.into_inner());
    println!("{heard} answers, {unheard} charges that nobody heard of");
    assert!(heard > 0 && unheard > 0);
}
