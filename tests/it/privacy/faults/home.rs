//! One vault under two names: each name has a journal of its own, and one may undo what was charged
//! under the other.
//!
//! A killed charge leaves a hot journal. Whoever opens the file by that name rolls it back,
//! whatever was charged by another name meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hushql_vault::ledger::{Vault, VaultError};

use super::bench::{ASK, Bench, Case, charges, one, said};
use super::shim::Fault;
use crate::contract::program::Run;

/// A vault of one charge beside which a killed charge has left its journal, and the journal.
fn killed() -> (Bench, PathBuf, PathBuf) {
    let bench = Bench::new(&["@", "--analyst", "lab", "--format", "json", "-c", ASK]);
    let (_, calls) = bench.calls(bench.copy());
    // Before the sync of the vault its pages are written over, and the journal has what was there.
    let sync = calls.iter().find(|call| call.is("sync", 'd')).unwrap();
    let outcome = bench.run(bench.copy(), Some(Case { at: sync.number, fault: Fault::Kill }));
    let journal = outcome.vault.with_file_name("study.db-journal");
    assert!(fs::metadata(&journal).unwrap().len() > 512);
    (bench, outcome.vault, journal)
}

fn hushql(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hushql"));
    Run::from(command.args(arguments).output().unwrap())
}

/// By a hard link a charge of 1 was once answered, and forgotten when the vault was opened by its
/// own name.
#[test]
fn a_vault_with_two_names_is_refused() {
    let (bench, vault, _) = killed();
    let alias = vault.with_file_name("alias.db");
    fs::hard_link(&vault, &alias).unwrap();
    for path in [&alias, &vault] {
        let error = Vault::open(path).unwrap_err();
        assert!(matches!(error, VaultError::Linked { links: 2, .. }), "{error}");
        assert!(matches!(bench.adopt(path), Err(VaultError::Linked { .. })));
    }
    let run = bench.run(alias.clone(), None).run;
    assert_eq!((said(&run, "columns"), run.status), (0, 1), "{run:?}");
    fs::remove_file(&alias).unwrap();
    assert_eq!(charges(&Vault::open(&vault).unwrap()), 1);
    // A name that comes while the vault is open stops the next charge.
    let open = Vault::open(&vault).unwrap();
    assert_eq!(open.charge(&one(&open)).unwrap().sequence(), 2);
    fs::hard_link(&vault, &alias).unwrap();
    assert!(matches!(open.charge(&one(&open)), Err(VaultError::Linked { .. })));
    fs::remove_file(&alias).unwrap();
    assert_eq!(open.charge(&one(&open)).unwrap().sequence(), 3);
}

/// Moved away after a crash, charged, and moved back: the old journal would undo the charge.
#[test]
fn a_journal_of_another_state_is_not_rolled_back() {
    let (bench, vault, journal) = killed();
    let open = Vault::open(bench.copy()).unwrap();
    drop(open);
    let away = vault.with_file_name("away.db");
    fs::rename(&vault, &away).unwrap();
    assert!(matches!(Vault::open(&away), Err(VaultError::NotAtHome { .. })));
    // What the killed charge had written stays written: its own journal is not beside it.
    let adopted = bench.adopt(&away).unwrap();
    let before = charges(&adopted);
    assert_eq!(
        adopted.charge(&one(&adopted)).unwrap().sequence(),
        i64::try_from(before).unwrap() + 1
    );
    drop(adopted);

    fs::rename(&away, &vault).unwrap();
    let bytes = fs::read(&vault).unwrap();
    let error = Vault::open(&vault).unwrap_err();
    assert!(matches!(error, VaultError::ForeignJournal { .. }), "{error}");
    assert!(matches!(bench.adopt(&vault), Err(VaultError::ForeignJournal { .. })));
    let path = vault.to_str().unwrap();
    let run = hushql(&[path, "--analyst", "lab", "-c", ASK]);
    run.says(1, &["belongs to another state of the vault", "move the file"]);
    assert_eq!(fs::read(&vault).unwrap(), bytes, "nothing was rolled back");

    // As the message says.
    fs::rename(&journal, journal.with_file_name("kept")).unwrap();
    assert!(matches!(Vault::open(&vault), Err(VaultError::NotAtHome { .. })));
    hushql(&["adopt", path]).says(0, &["is now at home in this place"]);
    assert_eq!(charges(&Vault::open(&vault).unwrap()), before + 1);
}

/// The same under a handle that was open all the time.
#[test]
fn an_open_handle_rolls_no_other_state_back() {
    let (bench, vault, journal) = killed();
    let old = fs::read(&journal).unwrap();
    let open = Vault::open(&vault).unwrap();
    let later = one(&open);
    assert!(!journal.exists(), "its own crash is rolled back");
    let away = vault.with_file_name("away.db");
    fs::rename(&vault, &away).unwrap();
    let adopted = bench.adopt(&away).unwrap();
    let adopted_then = charges(&adopted);
    assert!(adopted.charge(&one(&adopted)).is_ok());
    drop(adopted);
    fs::rename(&away, &vault).unwrap();
    fs::write(&journal, old).unwrap();
    assert!(matches!(open.charge(&later), Err(VaultError::ForeignJournal { .. })));
    assert!(matches!(open.budgets(), Err(VaultError::ForeignJournal { .. })));
    fs::remove_file(&journal).unwrap();
    assert!(matches!(open.charge(&later), Err(VaultError::NotAtHome { .. })));
    assert_eq!(charges(&bench.adopt(&vault).unwrap()), adopted_then + 1);
}

/// A crash is rolled back where it happened, also when file and journal are moved together.
#[test]
fn a_crash_is_rolled_back_with_its_own_journal() {
    let (_bench, vault, journal) = killed();
    assert_eq!(charges(&Vault::open(&vault).unwrap()), 1);
    assert!(!journal.exists());

    let (bench, vault, journal) = killed();
    let elsewhere = bench.fresh();
    fs::rename(&vault, &elsewhere).unwrap();
    fs::rename(&journal, elsewhere.with_file_name("study.db-journal")).unwrap();
    let adopted = bench.adopt(&elsewhere).unwrap();
    assert_eq!(charges(&adopted), 1);
}

#[test]
fn a_copy_is_refused_until_its_owner_adopts_it() {
    let bench = Bench::new(&["@", "--analyst", "lab", "--format", "json", "-c", ASK]);
    let copy = bench.fresh();
    fs::copy(bench.original(), &copy).unwrap();
    let error = Vault::open(&copy).unwrap_err();
    assert!(matches!(error, VaultError::NotAtHome { .. }), "{error}");
    let path = copy.to_str().unwrap();
    assert!(error.to_string().contains(&format!("`hushql adopt {path}`")), "{error}");
    let run = bench.run(copy.clone(), None).run;
    assert_eq!((said(&run, "columns"), run.status), (0, 1), "{run:?}");
    hushql(&["adopt", path]).says(0, &["use no other copy"]);
    assert_eq!(charges(&Vault::open(&copy).unwrap()), 1);
    // Where the original was, it still is.
    assert_eq!(charges(&Vault::open(bench.original()).unwrap()), 1);
    hushql(&["adopt", "nowhere.db"]).says(1, &["there is no vault"]);
}

/// A vault with an anchor is adopted with it only.
#[test]
fn an_anchored_copy_is_adopted_with_its_anchor() {
    let bench = Bench::new(&["@", "--anchor", "@anchor", "--analyst", "lab", "-c", ASK]);
    let vault = bench.copy();
    let moved = vault.with_file_name("moved.db");
    fs::rename(&vault, &moved).unwrap();
    let unanchored = Vault::adopt(&moved, None::<&Path>);
    assert!(matches!(unanchored, Err(VaultError::Unanchored { .. })));
    assert!(matches!(Vault::remove_anchor(&moved), Err(VaultError::NotAtHome { .. })));
    let adopted = Vault::adopt(&moved, Some(bench.anchor(&vault))).unwrap();
    assert_eq!(adopted.charge(&one(&adopted)).unwrap().sequence(), 2);
}

/// A bind mount gives one file a second path, with one link and one inode.
#[test]
fn a_bind_mount_is_another_place() {
    let bench = Bench::new(&[]);
    let vault = bench.copy();
    let alias = vault.with_file_name("alias.db");
    fs::write(&alias, "").unwrap();
    let (from, to) = (vault.to_str().unwrap(), alias.to_str().unwrap());
    let binary = env!("CARGO_BIN_EXE_hushql");
    // In a mount namespace of its own, which ends with the shell.
    let script = format!(
        "mount --bind '{from}' '{to}' || exit 77
         echo mounted
         '{binary}' '{to}' --analyst lab -c '{ASK}'"
    );
    let run = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    let Ok(output) = run else {
        println!("skipped: there is no `unshare` here");
        return;
    };
    if !output.stdout.starts_with(b"mounted") {
        println!("skipped: nothing can be mounted here");
        return;
    }
    Run::from(output).says(1, &["was copied, restored, renamed, moved or mounted elsewhere"]);
    assert_eq!(charges(&Vault::open(&vault).unwrap()), 1);
}
