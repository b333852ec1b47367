//! A kept draw under every fault: its charge is durable before it is kept, it is kept before it is
//! shown, and what is replayed is what was shown.

use hushql_vault::ledger::Vault;
use rusqlite::Connection;

use super::bench::{Bench, CHANGES, Case, Tally, each, from_the_charge};
use crate::seed::Share;

const COUNT: &str = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people WHERE age > 35";

/// How many entries the ledger of a vault has, and how many draws it keeps.
fn held(vault: &Vault, path: &std::path::Path) -> (usize, i64) {
    let connection = Connection::open(path).unwrap();
    let count = "SELECT count(*) FROM kept_draw";
    (vault.entries().unwrap().len(), connection.query_row(count, [], |row| row.get(0)).unwrap())
}

/// The number that was shown, if one was.
fn shown(out: &str) -> Option<String> {
    let mut cells = out.split(['│', '┆', '\n']).map(str::trim);
    cells.find(|cell| cell.parse::<i64>().is_ok()).map(str::to_owned)
}

/// What a case left, and what is answered when the question is asked once more.
fn inspect(bench: &Bench, case: Case, tally: &Tally) {
    let outcome = bench.run(bench.copy(), Some(case));
    let (run, path) = (&outcome.run, &outcome.vault);
    let about = format!("{case:?}: {run:?}");
    let vault = bench.open(path).unwrap_or_else(|error| panic!("{about}: {error}"));
    let left = held(&vault, path);
    vault.verify().unwrap_or_else(|error| panic!("{about}: {error}"));
    drop(vault);
    let first = shown(&run.out);
    match left {
        (1, 0) => assert!(first.is_none(), "an answer that nobody paid for: {about}"),
        (2, 0) | (3, 1) => {}
        _ => panic!("{left:?}: {about}"),
    }
    // What was charged is answered, and the answer says that the next one is paid again.
    if left == (2, 0) && first.is_some() {
        let note = "could not keep this answer: whoever asks the question again pays again";
        assert!(run.out.contains(note) || run.err.contains(note), "{about}");
    }
    let again = bench.run(path.clone(), None);
    let replayed = again.run.out.contains("replayed") || again.run.err.contains("replayed");
    assert_eq!(replayed, left == (3, 1), "{about}: {again:?}");
    let second = shown(&again.run.out);
    assert!(second.is_some(), "{about}: {again:?}");
    let now = held(&bench.open(path).unwrap(), path);
    match left {
        // Never two answers for one charge, and never an answer for none.
        (3, 1) => {
            assert!(first.is_none() || first == second, "{about}: {again:?}");
            assert_eq!(now, (4, 1), "{about}");
        }
        _ => assert_eq!(now, (left.0 + 2, 1), "{about}"),
    }
    tally.add(format!("{left:?} {}", if first.is_some() { "shown" } else { "silent" }));
    bench.drop(&outcome);
}

#[test]
fn a_draw_is_kept_behind_its_charge_and_before_it_is_shown() {
    faults(Share::one_in(2));
}

#[test]
#[ignore = "long: a minute"]
fn a_draw_is_kept_whatever_fails() {
    faults(Share::all());
}

fn faults(share: Share) {
    let bench = Bench::new(&["@", "--analyst", "lab", "-c", COUNT]);
    bench.declare("ALTER TABLE people REFRESH; ALTER PRIVACY BUDGET b SET REPLAY (ALL)");
    let (outcome, calls) = bench.calls(bench.copy());
    outcome.run.says(0, &["cost ε = 1"]);
    assert_eq!(held(&bench.open(&outcome.vault).unwrap(), &outcome.vault), (3, 1));
    let whole = share.is_whole();
    let cases = from_the_charge(&calls, &[&CHANGES[..], &["entropy"]].concat(), share);
    let tally = Tally::default();
    each(&cases, |case| inspect(&bench, *case, &tally));
    let ends = ["(1, 0) silent", "(2, 0) shown", "(2, 0) silent", "(3, 1) shown", "(3, 1) silent"];
    tally.saw(&cases, whole, &ends);
}

/// A time that cannot be is said, and nothing is charged, kept or declared under it.
#[test]
fn a_clock_before_1970_is_said() {
    let sentence = "this machine's clock is wrong, it says a time before 1970: set it";
    for arguments in [
        &["@", "--analyst", "lab", "-c", COUNT][..],
        &["@", "--analyst", "lab", "-c", "SELECT 1 AS x"],
        &["@", "--owner", "-c", "CREATE ROLE ann PASSWORD 'correct horse'"],
        &["check", "@"],
    ] {
        let bench = Bench::new(arguments);
        let before = bench.copy();
        let outcome = bench.run_at(before.clone(), -86_400);
        assert!(outcome.run.err.contains(sentence), "{arguments:?}: {outcome:?}");
        assert!(!outcome.run.err.contains("panicked"), "{outcome:?}");
        let vault = bench.open(&before).unwrap();
        assert_eq!(held(&vault, &before), (1, 0), "{arguments:?}");
        assert!(!bench.run_at(before, 86_400).run.err.contains("clock"), "{arguments:?}");
    }
}
