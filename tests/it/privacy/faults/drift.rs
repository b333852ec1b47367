//! The note of a folder that drifted, under every fault: it is behind its charge, whole or absent,
//! and a program that ends in between costs one more query.

use hushql_vault::ledger::Vault;

use super::bench::{Bench, Case, Tally, each};
use super::shim::{Call, Fault};

const COUNT: &str = "SELECT LAPLACE(eps=1) COUNT(*) AS n FROM visits";
const SENTENCE: &str = "a query was charged and failed on them";

/// How many charges the ledger of a vault has, and how many notes.
fn held(vault: &Vault) -> (usize, usize) {
    let entries = vault.entries().unwrap();
    let notes = entries.iter().filter(|entry| entry.mechanism == "DRIFT").count();
    (entries.len() - notes, notes)
}

/// What a case left, and what is said when the question is asked twice more.
fn inspect(bench: &Bench, case: Case, tally: &Tally) {
    let outcome = bench.run(bench.copy(), Some(case));
    let (run, path) = (&outcome.run, &outcome.vault);
    let about = format!("{case:?}: {run:?}");
    let vault = bench.open(path).unwrap_or_else(|error| panic!("{about}: {error}"));
    let (charges, notes) = held(&vault);
    vault.verify().unwrap_or_else(|error| panic!("{about}: {error}"));
    drop(vault);
    assert!(matches!((charges, notes), (1 | 2, 0) | (2, 1)), "{about}");
    assert!(!run.err.contains(SENTENCE) && !run.err.contains("panicked"), "{about}");
    let again = bench.run(path.clone(), None).run;
    assert_eq!(again.err.contains(SENTENCE), notes == 1, "{about}: {again:?}");
    let third = bench.run(path.clone(), None).run;
    assert!(third.err.contains(SENTENCE), "{about}: {third:?}");
    let now = held(&bench.open(path).unwrap());
    assert_eq!(now, (charges + 1 - notes, 1), "{about}");
    tally.add(format!("{charges} {notes}"));
    bench.drop(&outcome);
}

#[test]
fn a_drift_is_noted_behind_its_charge() {
    let bench = Bench::new(&["@", "--analyst", "lab", "-c", COUNT]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "id,cost\n1,2\n").unwrap();
    bench.declare(&format!(
        "CREATE EXTERNAL TABLE visits STORED AS CSV LOCATION '{}';
         ALTER TABLE visits SET PRIVACY UNIT ROW;
         CREATE PRIVACY BUDGET v FOR visits LIMIT (epsilon=9)",
        folder.path().display()
    ));
    std::fs::write(folder.path().join("b.csv"), "id,price\n1,2\n").unwrap();
    let (outcome, calls) = bench.calls(bench.copy());
    assert_eq!(held(&bench.open(&outcome.vault).unwrap()), (2, 1), "{outcome:?}");
    // From the write lock of the charge on.
    let first = calls.iter().position(|call| call.is("write", 'j')).unwrap();
    let changes = ["write", "sync", "truncate", "unlink"];
    let hit = |call: &&Call| call.number > 0 && changes.contains(&call.name.as_str());
    let faults = [Fault::Kill, Fault::KillHalf, Fault::KillAfter, Fault::Eio, Fault::EnospcOn];
    let cases: Vec<Case> = calls[first..]
        .iter()
        .filter(hit)
        .flat_map(|call| {
            let hits = faults.into_iter().filter(|fault| fault.hits(call));
            hits.map(|fault| Case { at: call.number, fault }).collect::<Vec<_>>()
        })
        .collect();
    let tally = Tally::default();
    each(&cases, |case| inspect(&bench, *case, &tally));
    println!("{} faults: {tally:?}", cases.len());
    for what in ["1 0", "2 0", "2 1"] {
        assert!(tally.of(what) > 0, "never {what}: {tally:?}");
    }
}
