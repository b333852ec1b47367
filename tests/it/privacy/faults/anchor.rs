//! The anchor: a vault that was put back is refused by the first program that opens it with its
//! anchor.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use hushql_vault::ledger::{LedgerEntry, Vault, VaultError};

use super::bench::{ASK, Bench, charges, one, said};
use crate::contract::program::Run;

/// A vault of one charge, with its anchor in another folder, and a child that asks once.
fn anchored() -> (Bench, PathBuf, PathBuf) {
    let arguments = ["@", "--anchor", "@anchor", "--analyst", "lab", "--format", "json", "-c", ASK];
    let bench = Bench::new(&arguments);
    let vault = bench.copy();
    let anchor = bench.anchor(&vault);
    (bench, vault, anchor)
}

/// The number in an anchor.
fn sequence(anchor: &Path) -> i64 {
    let text = fs::read_to_string(anchor).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("sequence "));
    line.unwrap().parse().unwrap()
}

fn ask(bench: &Bench, vault: &Path) -> Run {
    bench.run(vault.to_owned(), None).run
}

#[test]
fn every_charge_moves_the_anchor_before_it_is_handed_out() {
    let (_bench, vault, anchor) = anchored();
    let (first, second) = (
        Vault::open_anchored(&vault, &anchor).unwrap(),
        Vault::open_anchored(&vault, &anchor).unwrap(),
    );
    assert_eq!(sequence(&anchor), 1);
    assert_eq!(first.charge(&one(&first)).unwrap().sequence(), 2);
    assert_eq!(sequence(&anchor), 2);
    assert_eq!(second.charge(&one(&second)).unwrap().sequence(), 3);
    assert_eq!(sequence(&anchor), 3);
    assert!(first.charge(&one(&first)).unwrap_err().is_budget());
    assert_eq!(sequence(&anchor), 3);
    let left: Vec<_> = fs::read_dir(anchor.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_vault_that_was_put_back_is_refused() {
    let (bench, vault, anchor) = anchored();
    let old = fs::read(&vault).unwrap();
    let open = Vault::open_anchored(&vault, &anchor).unwrap();
    assert_eq!(said(&ask(&bench, &vault), "columns"), 1);
    assert_eq!(sequence(&anchor), 2);
    let new = fs::read(&vault).unwrap();

    fs::write(&vault, &old).unwrap();
    let says = format!(
        "the vault `{}` is older than its anchor `{}`: an older copy replaced it, and it answers no queries",
        vault.display(),
        anchor.display()
    );
    assert_eq!(Vault::open_anchored(&vault, &anchor).unwrap_err().to_string(), says);
    let run = ask(&bench, &vault);
    assert!(run.out.contains(&says) && run.status == 1, "{run:?}");
    // The handle that was open saw one charge and not the other: only the anchor knows.
    assert_eq!(open.charge(&one(&open)).unwrap_err().to_string(), says);
    assert!(matches!(open.ensure_analyst("eve"), Err(VaultError::PutBack { .. })));
    assert_eq!((sequence(&anchor), fs::read(&vault).unwrap()), (2, old));

    // Without the anchor it answers only if its owner takes that off, and then the histories part.
    let error = Vault::open(&vault).unwrap_err();
    assert!(matches!(error, VaultError::Unanchored { .. }), "{error}");
    let unanchored = Vault::remove_anchor(&vault).unwrap();
    assert_eq!(charges(&unanchored), 1);
    assert_eq!(unanchored.charge(&one(&unanchored)).unwrap().sequence(), 2);
    let error = Vault::open_anchored(&vault, &anchor).unwrap_err();
    assert!(matches!(error, VaultError::OtherHistory { .. }), "{error}");
    assert!(error.to_string().contains("an older copy was restored and charged since"), "{error}");

    // The newest one is welcome back.
    fs::write(&vault, new).unwrap();
    assert_eq!(charges(&Vault::open_anchored(&vault, &anchor).unwrap()), 2);
    assert_eq!(said(&ask(&bench, &vault), "columns"), 1);
}

/// What a charge says of itself once was all that its hash was made of. The same question, asked
/// again of an old copy, had the hash that the anchor knew, and could be answered with fresh noise
/// as often as the copy was put back.
#[test]
fn the_same_charge_on_an_old_copy_is_not_the_same() {
    let (bench, vault, anchor) = anchored();
    let old = fs::read(&vault).unwrap();
    assert_eq!(said(&ask(&bench, &vault), "columns"), 1);
    let asked = bench.open(&vault).unwrap().entries().unwrap();

    fs::write(&vault, &old).unwrap();
    drop(Vault::remove_anchor(&vault).unwrap());
    let plain = Bench::new(&["@", "--analyst", "lab", "--format", "json", "-c", ASK]);
    assert_eq!(said(&ask(&plain, &vault), "columns"), 1);
    let again = Vault::open(&vault).unwrap().entries().unwrap();
    let of = |entries: &[LedgerEntry]| {
        let entry = entries.last().unwrap();
        (entry.sequence, entry.analyst.clone(), entry.cost, entry.plan_hash)
    };
    assert_eq!(of(&asked), of(&again), "one question");
    let error = Vault::open_anchored(&vault, &anchor).unwrap_err();
    assert!(matches!(error, VaultError::OtherHistory { .. }), "{error}");
    let run = ask(&bench, &vault);
    assert!(run.out.contains("another history") && run.status == 1, "{run:?}");
}

#[test]
fn another_vault_is_refused() {
    let (_bench, vault, anchor) = anchored();
    fs::remove_file(&vault).unwrap();
    Vault::init(&vault).unwrap();
    let error = Vault::open_anchored(&vault, &anchor).unwrap_err();
    assert!(matches!(error, VaultError::PutBack { .. }), "{error}");
    // One that was charged for the same, as often.
    let (_bench, _, anchor) = anchored();
    let (_other, elsewhere, _) = anchored();
    let error = Vault::open_anchored(&elsewhere, &anchor).unwrap_err();
    assert!(matches!(error, VaultError::OtherHistory { .. }), "{error}");
}

#[test]
fn a_vault_that_is_ahead_moves_its_anchor() {
    let (_bench, vault, anchor) = anchored();
    let opened = Vault::remove_anchor(&vault).unwrap();
    drop(opened.charge(&one(&opened)).unwrap());
    drop(opened);
    assert_eq!(sequence(&anchor), 1);
    let open = Vault::open_anchored(&vault, &anchor).unwrap();
    assert_eq!(sequence(&anchor), 2);
    let opened = Vault::open(&vault).unwrap();
    drop(opened.charge(&one(&opened)).unwrap());
    drop(opened);
    // Also under an open handle, with whatever is charged next; here there is nothing left to
    // charge.
    assert!(open.charge(&one(&open)).unwrap_err().is_budget());
    drop(Vault::open_anchored(&vault, &anchor).unwrap());
    assert_eq!(sequence(&anchor), 3);
}

#[test]
fn an_anchor_is_made_by_an_explicit_word_only() {
    let (bench, vault, anchor) = anchored();
    let program = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hushql"));
        Run::from(command.args(arguments).output().unwrap())
    };
    let (path, shown) = (vault.to_str().unwrap(), anchor.to_str().unwrap());
    program(&["anchor", path, shown]).says(1, &["has an anchor and opens only with it"]);
    program(&[path, "--analyst", "lab", "-c", "SHOW PRIVACY"]).says(1, &["add `--anchor FILE`"]);
    program(&["anchor", path, "--remove"]).says(0, &["no longer has an anchor"]);
    program(&["anchor", path, shown])
        .says(1, &["already exists; HushQL never overwrites an anchor"]);
    assert_eq!(sequence(&anchor), 1);
    let beside = vault.with_file_name("anchor");
    program(&["anchor", path, beside.to_str().unwrap()]).says(1, &["in the vault's own folder"]);

    fs::remove_file(&anchor).unwrap();
    let missing = ask(&bench, &vault);
    assert!(missing.out.contains("there is no anchor `"), "{missing:?}");
    assert!(missing.out.contains("hushql anchor VAULT "), "{missing:?}");
    assert!(!anchor.exists(), "an anchor is never made on first use");
    program(&["anchor", path, shown]).says(0, &["created", "--anchor"]);
    assert_eq!(sequence(&anchor), 1);
    assert_eq!(said(&ask(&bench, &vault), "columns"), 1);
    assert_eq!(sequence(&anchor), 2);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&anchor).unwrap().permissions().mode() & 0o777, 0o600);

    let nowhere = vault.with_file_name("none.db");
    let other = anchor.with_file_name("other");
    program(&["anchor", nowhere.to_str().unwrap(), other.to_str().unwrap()])
        .says(1, &["there is no vault"]);
    assert!(!beside.exists() && !other.exists() && !nowhere.exists());
    program(&["demo", "--anchor", shown]).says(2, &["error:"]);
}

#[test]
fn a_damaged_anchor_is_refused() {
    let (bench, vault, anchor) = anchored();
    let text = fs::read_to_string(&anchor).unwrap();
    let open = Vault::open_anchored(&vault, &anchor).unwrap();
    for damaged in ["", "hushql anchor 1\n", &text.replace("sequence 1", "sequence 0")] {
        fs::write(&anchor, damaged).unwrap();
        let error = Vault::open_anchored(&vault, &anchor).unwrap_err();
        assert!(matches!(error, VaultError::AnchorDamaged { .. }), "{error}");
        assert!(ask(&bench, &vault).out.contains("is damaged: the vault answers no queries"));
        assert!(matches!(open.charge(&one(&open)), Err(VaultError::AnchorDamaged { .. })));
    }
    assert_eq!(charges(&open), 1);
    fs::write(&anchor, text).unwrap();
    assert_eq!(open.charge(&one(&open)).unwrap().sequence(), 2);
}

/// Where the anchor cannot be moved, a charge stands and is not handed out.
#[test]
fn an_anchor_that_cannot_be_moved_answers_nothing() {
    let (_bench, vault, anchor) = anchored();
    let open = Vault::open_anchored(&vault, &anchor).unwrap();
    // A folder in the way of the file that is to become the anchor.
    let fresh = anchor.with_file_name("study.anchor.new");
    fs::create_dir(&fresh).unwrap();
    let error = open.charge(&one(&open)).unwrap_err();
    assert!(matches!(error, VaultError::Anchor { .. }), "{error}");
    assert!(error.to_string().contains("what was charged stays charged"), "{error}");
    // The vault is opened again, and nothing more is charged before the anchor follows.
    assert!(matches!(open.charge(&one(&open)), Err(VaultError::Anchor { .. })));
    // Whoever opens it next hears of it before anything is charged.
    assert!(matches!(Vault::open_anchored(&vault, &anchor), Err(VaultError::Anchor { .. })));
    assert_eq!((charges(&Vault::remove_anchor(&vault).unwrap()), sequence(&anchor)), (2, 1));
    fs::remove_dir(&fresh).unwrap();
    assert_eq!(charges(&Vault::open_anchored(&vault, &anchor).unwrap()), 2);
    assert_eq!(sequence(&anchor), 2);
}

#[test]
fn threads_share_an_anchor() {
    let (_bench, vault, anchor) = anchored();
    Vault::open_anchored(&vault, &anchor)
        .unwrap()
        .set_budget_limit("b", hushql::privacy::Spend::of_epsilon(40 * super::bench::ONE, 0), None)
        .unwrap();
    let work = || {
        let vault = Vault::open_anchored(&vault, &anchor).unwrap();
        let (mut paid, mut late) = (0, 0);
        loop {
            match vault.charge(&one(&vault)) {
                Ok(charge) => {
                    assert!(sequence(&anchor) >= charge.sequence());
                    paid += 1;
                }
                Err(VaultError::Locked { .. }) => {}
                Err(VaultError::AnchorLate { .. }) => late += 1,
                Err(error) => {
                    assert!(error.is_budget(), "{error}");
                    return (paid, late);
                }
            }
        }
    };
    let sums: Vec<(i64, i64)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let in_all: i64 = sums.iter().map(|(paid, late)| paid + late).sum();
    assert_eq!(in_all, 39, "{sums:?}");
    assert_eq!(sequence(&anchor), 40);
}
