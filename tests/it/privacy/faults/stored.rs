//! A release table under every fault: its charge is durable before it is stored, and it is stored before it is shown.

use hushql::ledger::Vault;
use rusqlite::Connection;

use super::bench::{Bench, Case, Tally, each};
use super::shim::{Call, Fault};

/// A statement that stores rows.
struct Stores {
    create: &'static str,
    /// What the answer that names the table says.
    said: &'static str,
    /// A column of the rows.
    shown: &'static str,
}

const RELEASE: Stores = Stores {
    create: "CREATE RELEASE TABLE r AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people",
    said: "release_table",
    shown: " n ",
};

const SYNTHETIC: Stores = Stores {
    create: "CREATE SYNTHETIC TABLE r AS AIM(eps=1) SELECT age > 40 AS old FROM people",
    said: "synthetic_table",
    shown: " old ",
};

/// How many entries the ledger of a vault has, and how many release tables.
fn held(vault: &Vault, path: &std::path::Path) -> (usize, i64) {
    let connection = Connection::open(path).unwrap();
    let count = "SELECT count(*) FROM release_table";
    (vault.entries().unwrap().len(), connection.query_row(count, [], |row| row.get(0)).unwrap())
}

/// What a case left: a vault before the charge, behind it, or with the table; and no more was shown than was paid for.
fn inspect(bench: &Bench, stores: &Stores, case: Case, tally: &Tally) {
    let outcome = bench.run(bench.copy(), Some(case));
    let (run, path) = (&outcome.run, &outcome.vault);
    let about = format!("{case:?}: {run:?}");
    let vault = bench.open(path).unwrap_or_else(|error| panic!("{about}: {error}"));
    let left = held(&vault, path);
    let (said, shown) = (run.out.contains(stores.said), run.out.contains(stores.shown));
    match left {
        (1, 0) => assert!(!said && !shown, "an answer that nobody paid for: {about}"),
        (2, 0) => assert!(!said, "a table that is not stored: {about}"),
        // Where the last sync failed, it was stored all the same.
        (3, 1) => assert!(!(said && shown), "an answer beside its table: {about}"),
        _ => panic!("{left:?}: {about}"),
    }
    vault.verify().unwrap_or_else(|error| panic!("{about}: {error}"));
    let shown = if said {
        "said"
    } else if shown {
        "shown"
    } else {
        "silent"
    };
    tally.add(format!("{left:?} {shown}"));
    drop(vault);
    bench.drop(&outcome);
}

#[test]
fn a_table_is_stored_behind_its_charge_and_before_it_is_shown() {
    every_fault(&RELEASE);
}

#[test]
fn a_synthetic_table_is_stored_behind_its_charge_and_before_it_is_shown() {
    every_fault(&SYNTHETIC);
}

fn every_fault(stores: &Stores) {
    let bench = Bench::new(&["@", "--analyst", "lab", "-c", stores.create]);
    let (outcome, calls) = bench.calls(bench.copy());
    outcome.run.says(0, &["cost ε = 1"]);
    assert!(outcome.run.out.contains(stores.said), "{outcome:?}");
    assert_eq!(held(&bench.open(&outcome.vault).unwrap(), &outcome.vault), (3, 1));
    // From the write lock of the charge on.
    let first = calls.iter().position(|call| call.is("write", 'j')).unwrap();
    let changes = ["write", "sync", "truncate", "unlink", "entropy"];
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
    each(&cases, |case| inspect(&bench, stores, *case, &tally));
    println!("{} faults: {tally:?}", cases.len());
    for what in ["(1, 0) silent", "(2, 0) silent", "(2, 0) shown", "(3, 1) silent"] {
        assert!(tally.of(what) > 0, "never {what}: {tally:?}");
    }
}
