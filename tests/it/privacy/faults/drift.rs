//! The note of a folder that drifted, under every fault: it is behind its charge, whole or absent,
//! and a program that ends in between costs one more query.

use hushql_vault::ledger::Vault;

use super::bench::{Bench, CHANGES, Case, Tally, each, from_the_charge};
use crate::seed::Share;

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
    faults(Share::one_in(2));
}

#[test]
#[ignore = "long: a minute"]
fn a_drift_is_noted_whatever_fails() {
    faults(Share::all());
}

fn faults(share: Share) {
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
    let whole = share.is_whole();
    let cases = from_the_charge(&calls, &CHANGES, share);
    let tally = Tally::default();
    each(&cases, |case| inspect(&bench, *case, &tally));
    tally.saw(&cases, whole, &["1 0", "2 0", "2 1"]);
}
