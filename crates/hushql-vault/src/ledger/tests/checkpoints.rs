//! Checkpoints agree with the sums of all entries, and every disagreement is detected.
//!
//! The specimen has 2,500 entries, from few charges: nine checkpoints, the newest at entry 2304,
//! and two pages.

use std::path::{Path, PathBuf};

use hushql_privacy::privacy::{Cost, Epsilon, Loss, Rational};
use rusqlite::Connection;
use tempfile::TempDir;

use super::damage::{alter, dump};
use super::{entry, epsilon, file, request, spend, total};
use crate::ledger::charging::charge;
use crate::ledger::records::checkpoint::{self, Checkpoint};
use crate::ledger::records::sums::{EntrySum, Sums};
use crate::ledger::{ChargeRequest, Vault, VaultError};

const ENTRIES: i64 = 2_500;
const MISSING: &str = "a checkpoint of its ledger is missing or damaged";
const BROKEN: &str = "the chain of its ledger is broken";

/// A request for this number of releases, each with one unit of ε.
pub(super) fn many(entries: i64) -> ChargeRequest {
    let epsilon = Epsilon::new(Rational::new(1.into(), 1_000_000_000.into())).unwrap();
    let entries = (0..entries).map(|_| entry(Loss::pure(&epsilon))).collect();
    ChargeRequest { entries, ..request(1, 0, &["adult"]) }
}

/// A vault with many charges, whose budget has 500 units left.
pub(super) fn specimen() -> (TempDir, PathBuf) {
    let (folder, path) = file(spend(ENTRIES + 500, 0));
    let vault = Vault::open(&path).unwrap();
    for entries in [1, 254, 2, 2_000, 200, 43] {
        assert!(vault.charge(&many(entries)).is_ok());
    }
    (folder, path)
}

fn says<T: std::fmt::Debug>(result: Result<T, VaultError>, detail: &str, about: &str) {
    let error = result.expect_err(about);
    assert!(matches!(error, VaultError::Corrupt { .. }), "{about}: {error}");
    assert!(error.to_string().contains(&format!("is damaged ({detail})")), "{about}: {error}");
}

fn stored(vault: &Vault) -> Vec<i64> {
    vault.raw(|connection| {
        let mut statement =
            connection.prepare("SELECT sequence FROM checkpoint ORDER BY 1").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    })
}

#[test]
fn every_256th_entry_is_sealed_with_its_charge() {
    let (_folder, path) = specimen();
    let vault = Vault::open(&path).unwrap();
    assert_eq!(stored(&vault), (1..=9).map(|i| 256 * i).collect::<Vec<_>>());
    let at = |sequence| vault.raw(|connection| Checkpoint::read(connection, sequence)).unwrap();
    let entries = vault.entries().unwrap();
    for sequence in [256, 2_304] {
        let checkpoint = at(sequence);
        let entry = &entries[usize::try_from(sequence - 1).unwrap()];
        assert_eq!((checkpoint.sequence, checkpoint.chain), (entry.sequence, entry.chain));
        assert_eq!(
            epsilon(&checkpoint.spent.wide[&(vec!["adult".to_owned()], "lab".to_owned())].cost),
            spend(sequence, 0)
        );
    }
    // A vault that is opened from a checkpoint works like one that has read everything.
    assert_eq!(vault.budget("research").unwrap().spent, spend(ENTRIES, 0));
    assert_eq!(total(&vault, "adult"), spend(ENTRIES, 0));
    assert_eq!(vault.charge(&request(100, 0, &["adult"])).unwrap().sequence(), ENTRIES + 1);
    assert!(vault.charge(&request(401, 0, &["adult"])).unwrap_err().is_budget());
    let verified = vault.verify().unwrap();
    assert_eq!((verified.entries, verified.budgets), (ENTRIES + 1, 1));
    assert_eq!(verified.to_string(), "2501 entries in the ledger, and 1 budget agrees with them");
    // A later budget starts with the sum of the checkpoint and the entries after it.
    let late = vault.create_budget(&super::budget("late", "adult", spend(9_999, 0))).unwrap();
    assert_eq!(late.spent, spend(ENTRIES + 100, 0));
}

#[test]
fn a_charge_that_is_rolled_back_leaves_no_checkpoint() {
    let (_folder, path) = file(spend(1_000, 0));
    let vault = Vault::open(&path).unwrap();
    vault.ensure_analyst("lab").unwrap();
    let undone = vault.write(|connection, witness| {
        witness.advance(connection)?;
        drop(charge::pay(connection, witness, &many(300))?);
        Err::<(), _>(VaultError::EmptyCharge.into())
    });
    assert!(undone.is_err());
    assert_eq!(stored(&vault), [0_i64; 0]);
    assert!(vault.charge(&many(255)).is_ok());
    assert_eq!(stored(&vault), [0_i64; 0]);
    assert!(vault.charge(&many(1)).is_ok());
    assert_eq!(stored(&vault), [256]);
    assert_eq!(Vault::open(&path).unwrap().verify().unwrap().entries, 256);
}

/// The data that opening a vault reads: the newest checkpoint and the entries after it.
#[test]
fn damage_from_the_newest_checkpoint_on_is_refused() {
    let (folder, path) = specimen();
    let damaged = folder.path().join("damaged.db");
    let newest = |sql: &str| format!("{sql} WHERE sequence = 2304");
    for (sql, detail) in [
        (newest("DELETE FROM checkpoint"), MISSING),
        (newest("UPDATE checkpoint SET sums = replace(sums, '2304', '2303')"), MISSING),
        (newest("UPDATE checkpoint SET sums = '{}'"), MISSING),
        (newest("UPDATE checkpoint SET sums = ''"), MISSING),
        (newest("UPDATE checkpoint SET chain = zeroblob(32)"), MISSING),
        (newest("UPDATE checkpoint SET digest = zeroblob(32)"), MISSING),
        ("DELETE FROM checkpoint".to_owned(), MISSING),
        // One checkpoint too many, or a ledger that is too short for it.
        (
            "INSERT INTO checkpoint SELECT 2560, chain, sums, cells, digest FROM checkpoint LIMIT 1"
                .to_owned(),
            MISSING,
        ),
        ("DELETE FROM ledger WHERE sequence > 2303".to_owned(), MISSING),
        ("DELETE FROM ledger".to_owned(), MISSING),
        (newest("UPDATE ledger SET chain = zeroblob(32)"), BROKEN),
        (newest("DELETE FROM ledger"), BROKEN),
        ("UPDATE ledger SET epsilon_nano = 0 WHERE sequence = 2305".to_owned(), BROKEN),
        ("DELETE FROM ledger WHERE sequence = 2400".to_owned(), BROKEN),
        ("DELETE FROM ledger WHERE sequence = 2500".to_owned(), "the end of the ledger is missing"),
        ("UPDATE budget SET spent_loss = 2499".to_owned(), "a budget disagrees with the ledger"),
    ] {
        std::fs::copy(&path, &damaged).unwrap();
        alter(&damaged, &sql);
        says(Vault::open(&damaged), detail, &sql);
    }
}

/// Opening a vault does not read the entries before the newest checkpoint: their sums are sealed,
/// and nothing is given back. Reading them is refused, and so is the check of the whole vault.
#[test]
fn damage_before_the_newest_checkpoint_is_found_by_reads_and_by_the_check() {
    let (_folder, damaged) = specimen();
    let whole = std::fs::read(&damaged).unwrap();
    // Which of the two pages detects it.
    for (sql, pages, detail) in [
        ("UPDATE ledger SET epsilon_nano = 0 WHERE sequence = 100", [true, false], BROKEN),
        ("UPDATE ledger SET analyst = 'owner' WHERE sequence = 2048", [true, false], BROKEN),
        ("UPDATE ledger SET chain = zeroblob(32) WHERE sequence = 2048", [true, false], BROKEN),
        ("DELETE FROM ledger WHERE sequence = 1", [true, false], BROKEN),
        ("DELETE FROM ledger WHERE sequence BETWEEN 1 AND 2048", [true, false], BROKEN),
        ("UPDATE ledger SET nonce = zeroblob(16) WHERE sequence = 2304", [false, true], BROKEN),
        ("UPDATE ledger SET rho_nano = 0 WHERE sequence = 2049", [false, true], BROKEN),
        ("UPDATE ledger SET epsilon_nano = -1 WHERE sequence = 7", [true, false], ""),
        // A page reads the checkpoint at its end; only the check reads the others.
        ("DELETE FROM checkpoint WHERE sequence = 2048", [true, true], MISSING),
        ("UPDATE checkpoint SET sums = '{}' WHERE sequence = 2048", [true, true], MISSING),
        ("DELETE FROM checkpoint WHERE sequence = 256", [false, false], MISSING),
        (
            "UPDATE checkpoint SET chain = zeroblob(32) WHERE sequence = 512",
            [false, false],
            MISSING,
        ),
    ] {
        std::fs::write(&damaged, &whole).unwrap();
        alter_anything(&damaged, sql);
        let vault = Vault::open(&damaged).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let extent = vault.extent().unwrap();
        for (sequence, refused) in [(1, pages[0]), (2_049, pages[1])] {
            match vault.page(&extent, sequence) {
                Ok(_) => assert!(!refused, "{sql}: page of {sequence}"),
                Err(error) => assert!(refused, "{sql}: page of {sequence}: {error}"),
            }
        }
        assert_eq!(vault.entries().is_err(), pages.contains(&true), "{sql}");
        // SQLite detects a broken constraint before the chain is verified.
        let detail = if detail.is_empty() { "SQLite's own check fails" } else { detail };
        says(vault.verify(), detail, sql);
        // Nothing was given back.
        assert_eq!(vault.budget("research").unwrap().spent, spend(ENTRIES, 0), "{sql}");
        assert!(vault.charge(&request(501, 0, &["adult"])).unwrap_err().is_budget(), "{sql}");
        assert!(vault.charge(&request(500, 0, &["adult"])).is_ok(), "{sql}");
    }
}

/// Runs SQL that may also write values that the table's constraints forbid.
fn alter_anything(path: &Path, sql: &str) {
    alter(path, &format!("PRAGMA ignore_check_constraints = ON; {sql}"));
}

/// Someone who writes a checkpoint with its digest can open a vault with it, as with every seal.
/// The entries reveal it.
#[test]
fn a_wrong_sum_that_was_sealed_is_found_by_the_check() {
    let (_folder, path) = specimen();
    let vault = Vault::open(&path).unwrap();
    let newest = vault.raw(|connection| Checkpoint::read(connection, 2_304)).unwrap();
    drop(vault);
    let sum = newest.spent.wide[&(vec!["adult".to_owned()], "lab".to_owned())];
    assert_eq!((sum.tally.releases, sum.tally.dearest), (2_304, 1));
    let rho = sum.cost.amounts();
    let cost = Cost::from_amounts(Some((4, 0)), (rho[2].unwrap(), 0));
    let wide = [((vec!["adult".to_owned()], "lab".to_owned()), EntrySum { cost, ..sum })].into();
    let spent = Sums { wide, ..Sums::default() };
    alter(
        &path,
        "DELETE FROM checkpoint WHERE sequence = 2304; UPDATE budget SET spent_loss = 200",
    );
    Checkpoint { spent, ..newest }.write(&Connection::open(&path).unwrap()).unwrap();
    let vault = Vault::open(&path).unwrap();
    says(vault.verify(), MISSING, "a sum that is too small");
}

#[test]
fn an_open_handle_compares_every_checkpoint_that_it_passes() {
    let (_folder, path) = file(spend(1_000, 0));
    let (behind, ahead) = (Vault::open(&path).unwrap(), Vault::open(&path).unwrap());
    assert!(behind.charge(&many(10)).is_ok());
    assert!(ahead.charge(&many(300)).is_ok());
    alter(&path, "UPDATE checkpoint SET sums = replace(sums, '256', '255')");
    says(behind.budgets(), MISSING, "the handle that was behind");
    says(behind.charge(&many(1)), MISSING, "the handle that was behind, charging");
    // The other handle added up these entries itself.
    assert!(ahead.charge(&many(1)).is_ok());
}

#[test]
fn the_file_itself_forbids_other_checkpoints() {
    let (_folder, path) = specimen();
    let vault = Vault::open(&path).unwrap();
    for (sql, why) in [
        ("UPDATE checkpoint SET sums = '{}'", "never changed"),
        ("DELETE FROM checkpoint", "never deleted"),
        (
            "INSERT OR REPLACE INTO checkpoint SELECT * FROM checkpoint WHERE sequence = 256",
            "at their end only",
        ),
        (
            "INSERT INTO checkpoint SELECT 300, chain, sums, cells, digest FROM checkpoint",
            "at their end",
        ),
    ] {
        let error = vault.raw(|connection| connection.execute_batch(sql)).unwrap_err();
        assert!(error.to_string().contains(why), "{sql}: {error}");
    }
}

/// Pages show the ledger up to the extent that was read; later charges do not appear.
#[test]
fn pages_are_those_of_the_moment_that_was_seen() {
    let (_folder, path) = specimen();
    let vault = Vault::open(&path).unwrap();
    let extent = vault.extent().unwrap();
    assert!(Vault::open(&path).unwrap().charge(&many(300)).is_ok());
    let numbers = |sequence| -> Vec<i64> {
        let page = vault.page(&extent, sequence).unwrap();
        page.iter().map(|entry| entry.sequence).collect()
    };
    assert_eq!(numbers(1), (1..=2_048).collect::<Vec<_>>());
    assert_eq!(numbers(2_500), (2_049..=2_500).collect::<Vec<_>>());
    assert!(numbers(0).is_empty() && numbers(2_501).is_empty());
    assert_eq!(vault.entries().unwrap().len(), 2_800);
    assert_eq!(checkpoint::before(extent.last()), 2_304);
    let (_, budgets, ..) = dump(&vault);
    assert_eq!(budgets[0].left, spend(200, 0));
}
