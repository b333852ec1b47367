//! The vault on files that are damaged, altered, locked, full, moved, or not a vault.
//!
//! Each case ends in a refusal with an exact message, or in a vault that has forgotten nothing.

use std::fs;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::Arc;
use std::time::Duration;

use hushql_privacy::privacy::Spend;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rusqlite::Connection;
use tempfile::TempDir;

use super::checkpoints::many;
use super::views::view;
use super::{NANO, budget, file, request, spend, table, total};
use crate::catalog::{Budget, Catalog, Privacy, Table};
use crate::ledger::charging::charge;
#[cfg(unix)]
use crate::ledger::file::{anchor::Anchor, place::VaultPlace};
use crate::ledger::{BudgetState, LedgerEntry, Vault, VaultError};

type Dump = (Catalog, Vec<BudgetState>, Vec<LedgerEntry>, Vec<String>);

pub(super) fn dump(vault: &Vault) -> Dump {
    let catalog = Catalog::clone(&vault.catalog().unwrap());
    (catalog, vault.budgets().unwrap(), vault.entries().unwrap(), vault.analysts().unwrap())
}

/// A vault with rows in every table, small enough to damage everywhere.
fn specimen() -> (TempDir, PathBuf, Dump) {
    let (folder, path) = file(spend(50, 5));
    let vault = Vault::open(&path).unwrap();
    vault.create_table(&Table { privacy: Privacy::Public, ..table("states") }).unwrap();
    vault.create_view(&view("grown"), false).unwrap();
    vault.create_budget(&budget("strict", "adult", spend(40, 9))).unwrap();
    vault.create_budget(&budget("curve", "adult", Spend::of_rho(40, 9))).unwrap();
    let promise = Some(Spend::of_epsilon(7, 18));
    let promised = Budget { promise, ..budget("promised", "adult", Spend::of_rho(45, 9)) };
    vault.create_budget(&promised).unwrap();
    for _ in 0..6 {
        assert!(vault.charge(&request(3, 0, &["adult"])).is_ok());
    }
    let whole = dump(&vault);
    (folder, path, whole)
}

#[test]
fn flipped_bits_are_refused_or_change_nothing() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let (refused, _) = flip(specimen(), random(&mut rng, 1_500));
    assert!(refused > 500, "{refused}: the damage was not felt");
}

/// A vault whose file mostly precedes the newest checkpoint. Opening does not read that part.
#[test]
fn flipped_bits_of_a_long_ledger_give_nothing_back() {
    let mut rng = ChaCha20Rng::seed_from_u64(13);
    let (folder, path, _) = specimen();
    let vault = Vault::open(&path).unwrap();
    // There is room for 600 more entries; `strict` is created after them, and has 22 left.
    vault.drop_budget("strict").unwrap();
    vault.set_budget_limit("research", spend(1_000, 5), None).unwrap();
    vault.set_budget_limit("curve", Spend::of_rho(1_000, 9), None).unwrap();
    vault.drop_budget("promised").unwrap();
    assert!(vault.charge(&many(600)).is_ok());
    vault.create_budget(&budget("strict", "adult", spend(640, 9))).unwrap();
    let whole = dump(&vault);
    drop(vault);
    let (refused, found) = flip((folder, path, whole), random(&mut rng, 400));
    assert!(refused > 40, "{refused}: the damage was not felt");
    assert!(found > 40, "{found}: no damage was left to be found by the check");
}

/// This number of flips, three quarters of them in nonzero bytes: a small file consists mostly of
/// the unused ends of pages.
fn random(rng: &mut ChaCha20Rng, flips: usize) -> impl FnOnce(&[u8]) -> Vec<(usize, u8)> {
    move |bytes| {
        let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        let flip = |case| match case % 4 {
            0 => (rng.random_range(0..bytes.len()), 1 << rng.random_range(0..8)),
            _ => (used[rng.random_range(0..used.len())], 1 << rng.random_range(0..8)),
        };
        (0..flips).map(flip).collect()
    }
}

/// One bit of each byte, and each whole byte.
#[test]
#[ignore = "minutes"]
fn every_flipped_byte_is_refused_or_changes_nothing() {
    flip(specimen(), |bytes| {
        let low = |at: usize| (at, 1_u8 << (at % 8));
        (0..bytes.len()).map(low).chain((0..bytes.len()).map(|at| (at, 0xff))).collect()
    });
}

/// Opens a vault with each of these bytes changed by this mask. It either refuses, or has given
/// nothing back and shows only original data, and the check detects the damage. Returns how often
/// it refused, and how often only the check detected it.
fn flip(
    (folder, damaged, whole): (TempDir, PathBuf, Dump),
    flips: impl FnOnce(&[u8]) -> Vec<(usize, u8)>,
) -> (usize, usize) {
    let bytes = fs::read(&damaged).unwrap();
    let left = |states: &[BudgetState], name: &str| {
        states.iter().find(|state| state.budget.name == name).unwrap().left
    };
    let (strict, curve) = (left(&whole.1, "strict"), left(&whole.1, "curve"));
    let (mut refused, mut found, mut unchanged) = (0, 0, 0);
    for (at, mask) in flips(&bytes) {
        let mut copy = bytes.clone();
        copy[at] ^= mask;
        fs::write(&damaged, &copy).unwrap();
        match Vault::open_with(&damaged, Duration::ZERO) {
            Err(_) => refused += 1,
            Ok(vault) => {
                unchanged += 1;
                // The verified part is intact, and the vault shows the original data.
                let sound = vault.verify().is_ok();
                found += usize::from(!sound);
                let shows = |same: Option<bool>| {
                    assert!(same.unwrap_or(!sound), "byte {at}, sound: {sound}");
                };
                shows(vault.catalog().ok().map(|catalog| *catalog == whole.0));
                shows(vault.budgets().ok().map(|budgets| budgets == whole.1));
                shows(vault.entries().ok().map(|entries| entries == whole.2));
                shows(vault.analysts().ok().map(|analysts| analysts == whole.3));
                // It continues as before: of 40, for example, 18 are spent and 22 are left.
                let paid = vault.charge(&request(3, 0, &["adult"])).is_ok();
                drop(vault);
                if let (true, Ok(vault)) = (paid, Vault::open_with(&damaged, Duration::ZERO)) {
                    let states = vault.budgets().unwrap();
                    assert_eq!(strict.nano - left(&states, "strict").nano, 3, "byte {at}");
                    assert_eq!(curve.nano - left(&states, "curve").nano, 1, "byte {at}");
                    let most = request(strict.nano - 2, 0, &["adult"]);
                    assert!(vault.charge(&most).is_err(), "byte {at}");
                }
            }
        }
        let _ = fs::remove_file(folder.path().join("study.db-journal"));
    }
    assert!(unchanged > 100, "{unchanged}: nothing was opened");
    println!("{refused} refused, {found} found by the check");
    (refused, found)
}

/// Changes a vault without its triggers, as anyone who can write the file may.
pub(super) fn alter(path: &Path, sql: &str) {
    let other = Connection::open(path).unwrap();
    let triggers: Vec<(String, String)> = {
        let triggers = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'";
        let mut statement = other.prepare(triggers).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    // Remove the triggers and restore them, unless the change is about them.
    let rows_only = !sql.contains("TRIGGER");
    for (name, _) in triggers.iter().filter(|_| rows_only) {
        other.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    other.execute_batch(sql).unwrap();
    for (_, text) in triggers.iter().filter(|_| rows_only) {
        other.execute_batch(text).unwrap();
    }
}

#[test]
fn altered_rows_are_refused() {
    let (folder, path, _) = specimen();
    let damaged = folder.path().join("damaged.db");
    for (sql, says) in [
        (
            "UPDATE budget SET limit_loss = 60 WHERE name = 'strict'",
            "the budgets are not what was declared",
        ),
        ("DELETE FROM budget WHERE name = 'strict'", "the budgets are not what was declared"),
        (
            "UPDATE budget SET min_loss = 1 WHERE name = 'strict'",
            "the budgets are not what was declared",
        ),
        (
            "UPDATE budget SET spent_loss = 19 WHERE name = 'strict'",
            "a budget disagrees with the ledger",
        ),
        (
            "UPDATE declared_table SET body = replace(body, '20', '21')",
            "the declared tables are not what was declared",
        ),
        (
            "DELETE FROM declared_table WHERE name = 'states'",
            "the declared tables are not what was declared",
        ),
        (
            "UPDATE table_version SET number = number + 9 WHERE name = 'states'",
            "the versions of tables are not what was declared",
        ),
        (
            "INSERT INTO table_version VALUES ('nothing', 99)",
            "the versions of tables are not what was declared",
        ),
        (
            "INSERT INTO refreshed_table SELECT * FROM table_version WHERE name = 'states'",
            "the versions of tables are not what was declared",
        ),
        ("INSERT INTO analyst VALUES ('eve')", "the list of analysts is not what was written"),
        (
            "UPDATE ledger SET epsilon_nano = 2 WHERE sequence = 3",
            "the chain of its ledger is broken",
        ),
        ("UPDATE ledger SET rho_nano = 0 WHERE sequence = 3", "the chain of its ledger is broken"),
        (
            "UPDATE ledger SET rho_delta_atto = 1 WHERE sequence = 3",
            "the chain of its ledger is broken",
        ),
        (
            "UPDATE ledger SET epsilon_nano = NULL, delta_atto = NULL WHERE sequence = 3",
            "the chain of its ledger is broken",
        ),
        (
            "UPDATE budget SET spent_loss = 5 WHERE name = 'curve'",
            "a budget disagrees with the ledger",
        ),
        (
            "UPDATE budget SET notion = 'epsilon' WHERE name = 'curve'",
            "the budgets are not what was declared",
        ),
        (
            "UPDATE budget SET promised_epsilon = 8 WHERE name = 'promised'",
            "the budgets are not what was declared",
        ),
        (
            "UPDATE budget SET promised_epsilon = NULL, promised_delta = NULL",
            "the budgets are not what was declared",
        ),
        ("DELETE FROM ledger WHERE sequence = 1", "the chain of its ledger is broken"),
        ("DELETE FROM ledger WHERE sequence = 6", "the end of the ledger is missing"),
        ("DELETE FROM ledger", "the end of the ledger is missing"),
        ("DROP TRIGGER budget_never_refunds", "its tables are not those of a vault"),
        (
            "CREATE TRIGGER t AFTER INSERT ON ledger BEGIN UPDATE budget SET limit_loss = 99; END",
            "its tables are not those of a vault",
        ),
    ] {
        fs::copy(&path, &damaged).unwrap();
        alter(&damaged, sql);
        let error = Vault::open(&damaged).unwrap_err();
        assert!(matches!(error, VaultError::Corrupt { .. }), "{sql}: {error}");
        assert!(error.to_string().contains(&format!("is damaged ({says})")), "{sql}: {error}");
    }
}

#[test]
fn a_file_that_sqlite_finds_unsound_is_refused() {
    let (_folder, path, _) = specimen();
    let mut bytes = fs::read(&path).unwrap();
    // The header's count of free pages: no row depends on it, but pages could be lost or used
    // twice.
    bytes[39] = 5;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(
        Vault::open(&path).unwrap_err().to_string(),
        format!(
            "the vault `{}` is damaged (SQLite's own check fails) and answers no queries until its owner restores it",
            path.display()
        )
    );
}

#[test]
fn an_open_vault_notices_damage_before_it_charges() {
    let (_folder, path, _) = specimen();
    let vault = Vault::open(&path).unwrap();
    alter(&path, "UPDATE budget SET limit_loss = limit_loss + 100");
    for error in [
        vault.charge(&request(1, 0, &["adult"])).map(drop).unwrap_err(),
        // A change of the catalog must not seal data that it did not read.
        vault.set_budget_limit("strict", spend(9, 9), None).unwrap_err(),
        vault.drop_budget("strict").unwrap_err(),
    ] {
        assert!(error.to_string().contains("the budgets are not what was declared"), "{error}");
    }
}

#[test]
fn an_open_vault_notices_that_it_was_put_back() {
    let (_folder, path, _) = specimen();
    let vault = Vault::open(&path).unwrap();
    let seal = |connection: &Connection| -> [u8; 32] {
        let sql = "SELECT digest FROM seal WHERE kind = 'ledger'";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let older: String = vault.raw(seal).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(vault.charge(&request(1, 0, &["adult"])).is_ok());
    // The file is consistent: it has the exact state before the last charge.
    alter(
        &path,
        &format!(
            "DELETE FROM ledger WHERE sequence = 7;
             UPDATE budget SET spent_loss = CASE notion WHEN 'rho' THEN 6 ELSE 18 END;
             UPDATE seal SET digest = x'{older}' WHERE kind = 'ledger'"
        ),
    );
    let error = vault.charge(&request(1, 0, &["adult"])).map(drop).unwrap_err();
    assert!(error.to_string().contains("not the ledger that was there before"), "{error}");
    // A new handle cannot detect this: the promise excludes anyone who can restore an older file.
    assert_eq!(Vault::open(&path).unwrap().entries().unwrap().len(), 6);
}

#[test]
fn what_is_no_vault_is_refused_with_a_sentence() {
    let (folder, path, _) = specimen();
    let bytes = fs::read(&path).unwrap();
    let other = folder.path().join("other.db");
    let shown = other.display().to_string();
    let says = |content: Option<&[u8]>| {
        if let Some(content) = content {
            fs::write(&other, content).unwrap();
        }
        Vault::open_with(&other, Duration::ZERO).unwrap_err().to_string()
    };
    let no_vault =
        format!("`{shown}` is not a HushQL vault; create one with `hushql init` under a new name");
    assert_eq!(
        says(None),
        format!("there is no vault `{shown}`; make one with `hushql init {shown}`")
    );
    assert!(!other.exists(), "opening never creates");
    assert_eq!(says(Some(b"")), no_vault);
    assert_eq!(says(Some(&[0x5a; 10_000])), no_vault);
    assert_eq!(says(Some(b"id,age\n1,30\n")), no_vault);
    for length in (1..bytes.len()).step_by(509) {
        let mut error = says(Some(&bytes[..length]));
        // If opening does not read the lost part, adopting a copy detects it.
        if error.contains("was copied") {
            error = Vault::adopt(&other, None::<&Path>).unwrap_err().to_string();
        }
        assert!(error == no_vault || error.contains("is damaged"), "{length}: {error}");
    }
    fs::remove_file(&other).unwrap();
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert_eq!(says(None), no_vault, "another program's database");

    let folder = folder.path();
    assert_eq!(
        Vault::open(folder).unwrap_err().to_string(),
        format!("`{}` is not a file, so it cannot be a vault", folder.display())
    );
    assert_eq!(
        Vault::init(&path).unwrap_err().to_string(),
        format!("`{}` already exists; HushQL never overwrites a vault", path.display())
    );
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let error = Vault::init(folder.join("no/such/folder.db")).unwrap_err();
    assert!(error.to_string().contains("cannot be opened; check that"), "{error}");
}

#[test]
fn a_vault_of_another_format_is_refused() {
    let (_folder, path, _) = specimen();
    let shown = path.display();
    let older = "no HushQL upgrades it; create a new vault, and declare budgets there with what is left of the old ones";
    let advice = [(0, older), (1, older), (8, "open it with the newer HushQL that made it")];
    for (format, advice) in advice {
        let number = format!("PRAGMA user_version = {format}");
        Connection::open(&path).unwrap().execute_batch(&number).unwrap();
        let before = fs::read(&path).unwrap();
        let refusal = format!(
            "the vault `{shown}` has format {format}, but this program reads format 7: {advice}"
        );
        let none = None::<&Path>;
        for refused in [Vault::open(&path), Vault::upgrade(&path, none), Vault::adopt(&path, none)]
        {
            assert_eq!(refused.unwrap_err().to_string(), refusal);
        }
        assert_eq!(fs::read(&path).unwrap(), before, "it stays as it is");
    }
}

#[cfg(unix)]
#[test]
fn a_vault_is_its_makers_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = file(spend(NANO, 0));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A backup on a read-only medium is checked there, at any path, and nothing is charged to it.
#[test]
fn a_vault_is_looked_at_without_being_written() {
    let none = None::<&Path>;
    let (folder, path) = file(spend(NANO, 0));
    let _ = Vault::open(&path).unwrap().charge(&request(1, 0, &["adult"])).unwrap();
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    assert!(matches!(Vault::open(&copy).unwrap_err(), VaultError::NotAtHome { .. }));
    let before = fs::read(&copy).unwrap();
    let vault = Vault::open_to_read(&copy, none).unwrap();
    assert_eq!(vault.verify().unwrap(), Vault::open(&path).unwrap().verify().unwrap());
    let charged = vault.charge(&request(1, 0, &["adult"])).unwrap_err();
    assert!(matches!(charged, VaultError::NotAtHome { .. }), "{charged}");
    let at_home = Vault::open_to_read(&path, none).unwrap();
    let charged = at_home.charge(&request(1, 0, &["adult"])).unwrap_err();
    assert!(matches!(charged, VaultError::ReadOnly { .. }), "{charged}");
    // It stays like this after a failure that leaves the state unknown.
    at_home.handle.lock().unwrap().poisoned = true;
    assert!(at_home.charge(&request(1, 0, &["adult"])).is_err());
    drop(at_home);
    assert!(vault.ensure_analyst("new").is_err());
    assert_eq!(fs::read(&copy).unwrap(), before);
    // Damage and an anchor are checked as usual.
    let elsewhere = tempfile::tempdir().unwrap();
    let anchor = elsewhere.path().join("anchor");
    let anchored = Vault::make_anchor(&path, &anchor).unwrap();
    fs::copy(&path, &copy).unwrap();
    let refused = Vault::open_to_read(&copy, none).unwrap_err();
    assert!(matches!(refused, VaultError::Unanchored { .. }), "{refused}");
    Vault::open_to_read(&copy, Some(&anchor)).unwrap().verify().unwrap();
    let _ = anchored.charge(&request(1, 0, &["adult"])).unwrap();
    let refused = Vault::open_to_read(&copy, Some(&anchor)).unwrap_err();
    assert!(matches!(refused, VaultError::PutBack { .. }), "{refused}");
}

#[cfg(unix)]
#[test]
fn a_read_only_vault_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = file(spend(NANO, 0));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    if fs::OpenOptions::new().append(true).open(&path).is_ok() {
        eprintln!("not tested: this user may write read-only files");
    } else {
        let error = Vault::open(&path).unwrap_err();
        assert!(matches!(error, VaultError::ReadOnly { .. }), "{error}");
    }
    // SQLite itself refuses, too, for every user.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let vault = Vault::open(&path).unwrap();
    vault.raw(|connection| connection.execute_batch("PRAGMA query_only = ON")).unwrap();
    assert_eq!(
        vault.charge(&request(1, 0, &["adult"])).unwrap_err().to_string(),
        format!(
            "the vault `{}` is read-only, so no query can be charged or answered",
            path.display()
        )
    );
}

#[test]
fn a_locked_vault_is_refused_and_recovers() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open_with(&path, Duration::from_millis(20)).unwrap();
    let says = format!(
        "the vault `{}` is in use by another program; nothing was charged, try again",
        path.display()
    );
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(vault.charge(&request(1, 0, &["adult"])).unwrap_err().to_string(), says);
    assert!(vault.budgets().is_ok(), "a writer that has not committed yet disturbs no reader");
    other.execute_batch("ROLLBACK; BEGIN EXCLUSIVE").unwrap();
    assert_eq!(vault.budgets().unwrap_err().to_string(), says);
    assert_eq!(Vault::open_with(&path, Duration::ZERO).unwrap_err().to_string(), says);
    // A reader lets a charge be written, but not committed.
    other.execute_batch("ROLLBACK; BEGIN; SELECT * FROM ledger").unwrap();
    let mut statement = other.prepare("SELECT * FROM analyst").unwrap();
    let mut rows = statement.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    assert_eq!(vault.charge(&request(1, 0, &["adult"])).unwrap_err().to_string(), says);
    drop(rows);
    drop(statement);
    other.execute_batch("ROLLBACK").unwrap();
    // Nothing was charged in the meantime, and the handle still works.
    assert_eq!(vault.budget("research").unwrap().spent, Spend::default());
    assert_eq!(vault.charge(&request(1, 0, &["adult"])).unwrap().sequence(), 1);
}

#[test]
fn a_full_disk_charges_nothing() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open(&path).unwrap();
    vault.raw(|connection| {
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    });
    let mut paid = 0;
    let error = loop {
        match vault.charge(&request(1, 0, &["adult"])) {
            Ok(_) => paid += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, VaultError::DiskFull { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "the disk of the vault `{}` is full, so no query can be charged or answered",
            path.display()
        )
    );
    assert_eq!(total(&vault, "adult"), spend(paid, 0));
    assert_eq!(vault.budget("research").unwrap().spent, spend(paid, 0));
    vault.raw(|connection| {
        connection.query_row("PRAGMA max_page_count = 100000", [], |_| Ok(())).unwrap();
    });
    assert_eq!(vault.charge(&request(1, 0, &["adult"])).unwrap().sequence(), paid + 1);
    assert_eq!(total(&Vault::open(&path).unwrap(), "adult"), spend(paid + 1, 0));
}

#[test]
fn a_failed_commit_poisons_the_handle() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open(&path).unwrap();
    // A deferred foreign key makes COMMIT itself fail, as a failed sync would.
    let refused = vault.write(|connection, witness| {
        connection.execute_batch("PRAGMA defer_foreign_keys = ON")?;
        witness.advance(connection)?;
        connection.execute_batch("UPDATE budget SET table_name = 'nowhere'")?;
        Ok(())
    });
    assert!(refused.is_err());
    assert!(vault.handle.lock().unwrap().poisoned);
    // The unfinished change is gone, and the vault continues.
    assert_eq!(vault.budgets().unwrap().len(), 1);
    assert_eq!(vault.charge(&request(1, 0, &["adult"])).unwrap().sequence(), 1);
    let again = Vault::open(&path).unwrap();
    assert_eq!(again.charge(&request(1, 0, &["adult"])).unwrap().sequence(), 2);
}

/// An older copy replaces the vault between the write and its confirmation.
#[cfg(unix)]
#[test]
fn a_vault_exchanged_within_a_charge_is_not_answered() {
    let (folder, path) = file(spend(NANO, 0));
    let old = folder.path().join("old.db");
    let vault = Vault::open(&path).unwrap();
    vault.ensure_analyst("lab").unwrap();
    fs::copy(&path, &old).unwrap();
    let paid = vault.write(|connection, witness| {
        witness.advance(connection)?;
        let charge = charge::pay(connection, witness, &request(1, 0, &["adult"]));
        // SQLite checked the file before its first write, and does not check again.
        fs::rename(&old, &path).unwrap();
        charge
    });
    assert!(matches!(paid, Err(VaultError::Moved { .. })), "{paid:?}");
    assert!(matches!(vault.entries(), Err(VaultError::Moved { .. })));
    assert!(Vault::adopt(&path, None::<&Path>).unwrap().entries().unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn a_removed_vault_is_not_charged() {
    let (_folder, path) = file(spend(NANO, 0));
    let vault = Vault::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(
        vault.charge(&request(1, 0, &["adult"])).unwrap_err().to_string(),
        format!(
            "the vault `{}` was moved or removed while it was open, so nothing can be charged to it",
            path.display()
        )
    );
}

/// What is read again after it was written is what was meant, or nothing is paid.
#[test]
fn a_row_that_is_written_otherwise_pays_for_nothing() {
    for (row, what) in [
        ("epsilon_nano = 0", "an amount"),
        ("analyst = 'owner'", "a name"),
        ("plan_hash = zeroblob(32)", "a hash"),
    ] {
        let (_folder, path, before) = specimen();
        let vault = Vault::open(&path).unwrap();
        let sql = format!(
            "DROP TRIGGER ledger_is_never_changed;
             CREATE TEMP TRIGGER otherwise AFTER INSERT ON main.ledger
             BEGIN UPDATE ledger SET {row} WHERE sequence = NEW.sequence; END"
        );
        vault.raw(|connection| connection.execute_batch(&sql)).unwrap();
        let refused = vault.charge(&request(3, 0, &["adult"]));
        assert!(matches!(refused, Err(VaultError::Corrupt { .. })), "{what}: {refused:?}");
        drop(vault);
        let left = Connection::open(&path).unwrap();
        let entries: i64 =
            left.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0)).unwrap();
        assert_eq!(usize::try_from(entries).unwrap(), before.2.len(), "{what}");
    }
}

/// What another program has committed is on the disk before the anchor says that it is there: after
/// a power cut, a vault behind its anchor would be refused as an older copy.
#[cfg(unix)]
#[test]
fn an_anchor_follows_what_is_on_the_disk() {
    let (_folder, path) = file(spend(50, 5));
    let elsewhere = tempfile::tempdir().unwrap();
    let anchor = elsewhere.path().join("anchor");
    let unsynced = || Some(Arc::new(VaultPlace::without_syncs(&path).unwrap()));
    // The entries that a vault has when it is given its anchor may be those of another program.
    let new = Vault::open(&path).unwrap();
    new.with_handle(|handle| handle.place = unsynced());
    let made = Anchor::create(&anchor, &path, new.with_handle(|handle| handle.witness.mark()));
    let refused = new.held_to(made.unwrap());
    assert!(matches!(refused, Err(VaultError::Unsynced { .. })), "{refused:?}");
    fs::remove_file(&anchor).unwrap();

    let ours = Vault::make_anchor(&path, &anchor).unwrap();
    let theirs = Vault::open_anchored(&path, &anchor).unwrap();
    ours.with_handle(|handle| {
        handle.place = unsynced();
        handle.move_anchor("study.db").expect("nothing is new");
        assert!(theirs.charge(&request(3, 0, &["adult"])).is_ok());
        let refused = handle.move_anchor("study.db");
        assert!(matches!(refused, Err(VaultError::Unsynced { .. })), "{refused:?}");
        assert!(handle.unsynced, "the system reports it once");
    });
}
