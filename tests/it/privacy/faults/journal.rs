//! A journal that was damaged after its program died: the next one rolls back what it can, and then
//! looks.

use std::fs;
use std::path::Path;

use hushql_vault::ledger::Vault;

use super::bench::{ASK, Bench, Case, Tally, charges, each, one};
use super::shim::Fault;

fn damage(step: usize) {
    let bench = Bench::new(&["@", "--analyst", "lab", "-c", ASK]);
    let (_, calls) = bench.calls(bench.copy());
    // Before the sync of the vault its pages are written over, and the journal has what was there.
    let sync = calls.iter().find(|call| call.is("sync", 'd')).unwrap();
    let outcome = bench.run(bench.copy(), Some(Case { at: sync.number, fault: Fault::Kill }));
    let journal_of = |vault: &Path| vault.with_file_name("study.db-journal");
    let vault = fs::read(&outcome.vault).unwrap();
    let journal = fs::read(journal_of(&outcome.vault)).unwrap();
    let original = Vault::open(bench.original()).unwrap();
    assert_eq!(charges(&Vault::open(&outcome.vault).unwrap()), 1);

    let places: Vec<usize> = (0..journal.len()).step_by(step).collect();
    let tally = Tally::default();
    each(&places, |at| {
        let mut journal = journal.clone();
        journal[*at] ^= 1 << (at % 8);
        let path = bench.fresh();
        fs::write(&path, &vault).unwrap();
        fs::write(journal_of(&path), journal).unwrap();
        match bench.adopt(&path) {
            Err(_) => tally.add("refused"),
            Ok(opened) => {
                // Nobody was answered, so the charge may be there or not; but nothing else.
                let mut paid = charges(&opened);
                assert!((1..=2).contains(&paid), "{at}: {paid}");
                assert_eq!(*opened.catalog().unwrap(), *original.catalog().unwrap(), "{at}");
                while opened.charge(&one(&opened)).is_ok() {
                    paid += 1;
                }
                assert!(paid <= 3, "{at}: {paid}");
                tally.add("opened");
            }
        }
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    });
    println!("{} flips: {tally:?}", places.len());
    assert!(tally.of("refused") > 0 && tally.of("opened") > 0, "{tally:?}");
}

#[test]
fn a_damaged_journal_gives_nothing_back() {
    damage(61);
}

#[test]
#[ignore = "long: minutes"]
fn a_journal_damaged_anywhere_gives_nothing_back() {
    damage(1);
}
