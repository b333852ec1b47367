//! A release table under every fault: its charge is durable before it is stored, and it is stored
//! before it is shown.

use hushql::{Engine, Output};
use hushql_vault::ledger::Vault;
use rusqlite::Connection;

use super::bench::{Bench, CHANGES, Case, ONE, Tally, each, from_the_charge};
use crate::seed::Share;

/// A statement that stores rows.
struct Stores {
    create: &'static str,
    /// What the answer that names the table says.
    said: &'static str,
    /// A column of the rows.
    shown: &'static str,
    /// How many rows there are.
    rows: usize,
}

const RELEASE: Stores = Stores {
    create: "CREATE RELEASE TABLE r AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM people",
    said: "release_table",
    shown: " n ",
    rows: 1,
};

const SYNTHETIC: Stores = Stores {
    create: "CREATE SYNTHETIC TABLE r WITH (rows=4000) AS AIM(eps=1) SELECT age > 40 AS old, CLAMP(age, 0, 99) AS age FROM people",
    said: "synthetic_table",
    shown: " old ",
    rows: 4_000,
};

/// How many entries the ledger of a vault has, and how many release tables.
fn held(vault: &Vault, path: &std::path::Path) -> (usize, i64) {
    let connection = Connection::open(path).unwrap();
    let count = "SELECT count(*) FROM release_table";
    (vault.entries().unwrap().len(), connection.query_row(count, [], |row| row.get(0)).unwrap())
}

/// What a case left: a vault before the charge, behind it, or with the table; and no more was shown
/// than was paid for.
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
    // The charge stands whatever became of the table.
    let spent = vault.budget("b").unwrap().spent.nano;
    assert_eq!(spent, if left.0 == 1 { ONE } else { 2 * ONE }, "{about}");
    let shown = if said {
        "said"
    } else if shown {
        "shown"
    } else {
        "silent"
    };
    tally.add(format!("{left:?} {shown}"));
    drop(vault);
    reopened(path, stores, left, &about);
    bench.drop(&outcome);
}

/// What somebody finds who opens the vault afterwards: all rows of the table; or none, and then its
/// name is free, and what is left of the budget is enough for it.
fn reopened(path: &std::path::Path, stores: &Stores, left: (usize, i64), about: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = Engine::open(path).unwrap_or_else(|error| panic!("{about}: {error}"));
        let lab = engine.analyst("lab").unwrap();
        let rows = async || match lab.execute("SELECT * FROM r").await {
            Ok(Output::Answer(answer)) => {
                Some(answer.batches().iter().map(|batch| batch.num_rows()).sum::<usize>())
            }
            Ok(other) => panic!("{about}: {other:?}"),
            Err(_) => None,
        };
        let before = lab.budgets().unwrap()[0].spent.nano;
        if left.1 == 0 {
            assert_eq!(rows().await, None, "half a table: {about}");
            let made = lab.execute(stores.create).await;
            assert!(made.is_ok(), "{made:?} after {about}");
            assert_eq!(lab.budgets().unwrap()[0].spent.nano, before + ONE, "{about}");
        }
        assert_eq!(rows().await, Some(stores.rows), "{about}");
    });
}

#[test]
fn a_table_is_stored_behind_its_charge_and_before_it_is_shown() {
    faults(&RELEASE, Share::one_in(2));
}

#[test]
#[ignore = "long: a minute"]
fn a_table_is_stored_whatever_fails() {
    faults(&RELEASE, Share::all());
}

#[test]
fn a_synthetic_table_is_stored_behind_its_charge_and_before_it_is_shown() {
    faults(&SYNTHETIC, Share::one_in(2));
}

#[test]
#[ignore = "long: a minute"]
fn a_synthetic_table_is_stored_whatever_fails() {
    faults(&SYNTHETIC, Share::all());
}

fn faults(stores: &Stores, share: Share) {
    let bench = Bench::new(&["@", "--analyst", "lab", "-c", stores.create]);
    let (outcome, calls) = bench.calls(bench.copy());
    outcome.run.says(0, &["cost ε = 1"]);
    assert!(outcome.run.out.contains(stores.said), "{outcome:?}");
    assert_eq!(held(&bench.open(&outcome.vault).unwrap(), &outcome.vault), (3, 1));
    let whole = share.is_whole();
    let cases = from_the_charge(&calls, &[&CHANGES[..], &["entropy"]].concat(), share);
    let tally = Tally::default();
    each(&cases, |case| inspect(&bench, stores, *case, &tally));
    tally.saw(&cases, whole, &["(1, 0) silent", "(2, 0) silent", "(2, 0) shown", "(3, 1) silent"]);
}
