//! Vaults that older programs made are carried over: every entry as it was, whatever is interrupted.
//!
//! `tests/data/vaults/format-N.db` was made by the last program of its format and has never been opened since;
//! `tests/data/README.md` says what each of them holds.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hushql::catalog::Replay;
use hushql::ledger::{ChargeEntry, ChargeRequest, Vault, VaultError};
use hushql::privacy::Loss;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};
use sha2::{Digest, Sha256};

use super::bench::{Bench, Case, Tally, each, one};
use super::shim::{Call, Fault};
use crate::contract::program::Run;

/// What a vault of an older format holds.
#[derive(Debug, PartialEq)]
struct Older {
    format: i64,
    /// The name, the loss and the δ of every budget.
    spent: &'static [(&'static str, i64, i64)],
    tables: usize,
    /// A line of the history that it has after the upgrade.
    declared: &'static str,
}

const FOUR: Older = Older {
    format: 4,
    spent: &[("shop", 2_150_000_000, 0), ("thrifty", 292_719, 0), ("wide", 2_150_000_000, 0)],
    tables: 3,
    declared: "budget shop: for customers, limit ε = 5",
};

const FIVE: Older = Older {
    format: 5,
    spent: &[
        ("curve", 11_355_219, 0),
        ("inn", 5_800_000_000, 10_000_000_000),
        ("shop", 5_800_000_000, 10_000_000_000),
        ("thrifty", 11_355_219, 0),
        ("wide", 5_800_000_000, 10_000_000_000),
    ],
    tables: 5,
    declared: "budget brief: dropped",
};

const SIX: Older = Older {
    format: 6,
    spent: &[
        ("curve", 11_052_084, 0),
        ("inn", 5_800_000_000, 10_000_000_000),
        ("shop", 5_800_000_000, 10_000_000_000),
        ("thrifty", 11_052_084, 0),
        ("whole", 11_052_084, 0),
        ("wide", 5_800_000_000, 10_000_000_000),
    ],
    tables: 5,
    declared: "budget brief: dropped",
};

const SEVEN: Older = Older {
    format: 7,
    spent: &[
        ("curve", 11_052_084, 0),
        ("inn", 5_800_000_000, 10_000_000_000),
        ("shop", 5_800_000_000, 10_000_000_000),
        ("strip", 3, 0),
        ("thrifty", 11_052_084, 0),
        ("whole", 11_052_084, 0),
        ("wide", 5_800_000_000, 10_000_000_000),
    ],
    tables: 6,
    declared: "budget brief: dropped",
};

const EIGHT: Older = Older {
    format: 8,
    spent: &[
        ("curve", 11_052_084, 0),
        ("inn", 5_800_000_000, 10_000_000_000),
        ("pen", 750_000_000, 0),
        ("shop", 5_800_000_000, 10_000_000_000),
        ("strip", 3, 0),
        ("thrifty", 11_052_084, 0),
        ("whole", 11_052_084, 0),
        ("wide", 5_800_000_000, 10_000_000_000),
    ],
    tables: 7,
    declared: "budget brief: dropped",
};

const NINE: Older = Older { format: 9, ..EIGHT };

const OLDER: [&Older; 6] = [&FOUR, &FIVE, &SIX, &SEVEN, &EIGHT, &NINE];

impl Older {
    fn fixture(&self, extension: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vaults");
        folder.join(format!("format-{}.{extension}", self.format))
    }

    /// A copy in a folder of its own, at home there.
    fn copy(&self, bench: &Bench, anchored: bool) -> PathBuf {
        let vault = self.stray(bench);
        if self.format >= 5 {
            settle(&vault, anchored);
        }
        vault
    }

    /// A copy as somebody has copied it, at home elsewhere.
    fn stray(&self, bench: &Bench) -> PathBuf {
        let vault = bench.fresh();
        fs::copy(self.fixture("db"), &vault).unwrap();
        vault
    }

    /// A copy of its anchor.
    fn anchor(&self, folder: &Path) -> PathBuf {
        let anchor = folder.join(format!("{}.anchor", self.format));
        fs::copy(self.fixture("anchor"), &anchor).unwrap();
        anchor
    }

    #[track_caller]
    fn is_carried_over(&self, vault: &Vault, path: &Path) {
        for table in ["ledger", "budget", "declared_table", "analyst"] {
            assert_eq!(self.rows(table, path), self.rows(table, &self.fixture("db")), "{table}");
        }
        let budgets = vault.budgets().unwrap();
        let spent: Vec<_> = budgets
            .iter()
            .map(|s| (s.budget.name.as_str(), s.spent.nano, s.spent.atto_delta))
            .collect();
        assert_eq!(spent, self.spent);
        let with_min = budgets.iter().filter(|state| state.budget.per_query.min.is_some()).count();
        assert_eq!(with_min, if self.format >= 6 { 2 } else { 0 });
        let with_coupons = budgets.iter().filter(|state| state.budget.coupon.is_some()).count();
        assert_eq!(with_coupons, usize::from(self.format >= 7));
        let is_dated = self.format >= 5;
        let entries = vault.entries().unwrap();
        assert!(entries.iter().all(|e| e.at.is_some() == is_dated));
        assert!(entries.iter().all(|e| e.statement.is_some() == is_dated));
        let catalog = vault.catalog().unwrap();
        assert_eq!(catalog.tables().count(), self.tables);
        assert!(catalog.view("northern").is_some());
        assert_eq!(vault.analysts().unwrap(), ["lab", "other", "owner"]);
        let history = vault.declarations().unwrap();
        assert!(history.iter().any(|d| d.change.starts_with(self.declared)));
        if self.format >= 5 {
            for table in ["declaration", "statement", "joined_space"] {
                let before = self.rows(table, &self.fixture("db"));
                assert_eq!(self.rows(table, path), before, "{table}");
            }
        }
        if self.format >= 8 {
            for table in ["slice", "release_table", "release_grant", "kept_draw"] {
                let before = self.rows(table, &self.fixture("db"));
                assert!(!before.is_empty(), "{table}");
                assert_eq!(self.rows(table, path), before, "{table}");
            }
        }
        if self.format >= 9 {
            for table in ["role", "log_in_secret", "cell_column", "table_version"] {
                let before = self.rows(table, &self.fixture("db"));
                assert!(!before.is_empty(), "{table}");
                assert_eq!(self.rows(table, path), before, "{table}");
            }
        }
        // Only what the owner said before is replayed.
        for state in &budgets {
            let is_replayed = self.format >= 8 && state.budget.name == "pen";
            let replay = if is_replayed { Replay::Own } else { Replay::Off };
            assert_eq!(state.budget.replay, replay, "{}", state.budget.name);
        }
        vault.verify().unwrap();
        if self.format >= 5 {
            let places = |path: &Path| -> Vec<_> {
                let rows = self.rows("checkpoint", path).into_iter();
                rows.map(|row| (row[0].clone(), row[1].clone())).collect()
            };
            assert_eq!(places(path), places(&self.fixture("db")));
        }
    }

    /// The rows of a table in the columns that it has in this format and has still, read without the library. Budgets of
    /// format 4 kept a space.
    fn rows(&self, table: &str, path: &Path) -> Vec<Vec<Value>> {
        let mut columns = columns(table, &self.fixture("db"));
        columns.retain(|column| table != "budget" || column != "space");
        let connection = Connection::open(path).unwrap();
        let sql = format!("SELECT {} FROM {table} ORDER BY 1", columns.join(", "));
        let mut statement = connection.prepare(&sql).unwrap();
        let read = |row: &Row<'_>| (0..columns.len()).map(|i| row.get(i)).collect();
        let rows = statement.query_map([], read).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// How many entries its ledger has.
    fn entries(&self) -> usize {
        self.rows("ledger", &self.fixture("db")).len()
    }
}

/// The columns of a table, in order.
fn columns(table: &str, path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
    let names = statement.query_map([table], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

/// Makes a copy at home where it is, as a program of format 5 does.
fn settle(vault: &Path, anchored: bool) {
    let inode = |path: &Path| fs::metadata(path).unwrap().ino().cast_signed();
    let name = vault.file_name().unwrap().as_encoded_bytes();
    let (file, folder) = (inode(vault), inode(vault.parent().unwrap()));
    let fields: [&[u8]; 5] = [
        b"hushql home 1",
        name,
        &file.to_be_bytes(),
        &folder.to_be_bytes(),
        &i64::from(anchored).to_be_bytes(),
    ];
    let mut seal = Sha256::new();
    for field in fields {
        seal.update(u64::try_from(field.len()).unwrap().to_be_bytes());
        seal.update(field);
    }
    let seal: [u8; 32] = seal.finalize().into();
    let connection = Connection::open(vault).unwrap();
    let home = "UPDATE home SET name = ?1, file = ?2, folder = ?3, anchored = ?4";
    connection.execute(home, params![name, file, folder, anchored]).unwrap();
    let sealed = "UPDATE seal SET digest = ?1 WHERE kind = 'home'";
    assert_eq!(connection.execute(sealed, params![seal]).unwrap(), 1);
}

/// Changes a vault behind its triggers, which are as before afterwards.
fn damage(vault: &Path, change: &str) {
    let connection = Connection::open(vault).unwrap();
    let mut statement =
        connection.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").unwrap();
    let triggers = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let triggers: Vec<(String, String)> = triggers.map(Result::unwrap).collect();
    for (name, _) in &triggers {
        connection.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    connection.execute_batch(change).unwrap();
    for (_, sql) in &triggers {
        connection.execute_batch(sql).unwrap();
    }
}

fn hushql(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hushql"));
    Run::from(command.args(arguments).output().unwrap())
}

#[test]
fn an_old_vault_is_carried_over() {
    let bench = Bench::new(&[]);
    for older in OLDER {
        let path = older.copy(&bench, false);
        let shown = path.to_str().unwrap();
        let refused = hushql(&[shown, "--analyst", "lab", "-c", "SHOW PRIVACY"]);
        refused.says(1, &[&format!("its owner can upgrade it with `hushql upgrade {shown}`")]);
        let error = Vault::open(&path).unwrap_err();
        assert!(matches!(error, VaultError::Version { found, .. } if found == older.format));
        hushql(&["upgrade", shown]).says(0, &["has the present format"]);
        let vault = Vault::open(&path).unwrap();
        older.is_carried_over(&vault, &path);
        // New entries follow on the old ones, and know when they were made.
        let loss = Loss::pure(&"0.1".parse().unwrap());
        let request = one(&vault);
        let entries = request.entries.into_iter().map(|e| ChargeEntry { loss: loss.clone(), ..e });
        let request = ChargeRequest {
            unit_domains: vec!["visits".to_owned()],
            entries: entries.collect(),
            ..one(&vault)
        };
        let before = older.entries();
        let sequence = vault.charge(&request).unwrap().sequence();
        assert_eq!(usize::try_from(sequence).unwrap(), before + 1);
        assert!(vault.entries().unwrap()[before].at.is_some());
        drop(vault);
        hushql(&["upgrade", shown]).says(0, &["has the present format"]);
        assert_eq!(Vault::open(&path).unwrap().entries().unwrap().len(), before + 1);
    }
    hushql(&["upgrade", "nowhere.db"]).says(1, &["there is no vault"]);
}

#[test]
fn the_anchor_follows() {
    let bench = Bench::new(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    for older in OLDER {
        let path = older.copy(&bench, true);
        let anchor = older.anchor(elsewhere.path());
        let (shown, held) = (path.to_str().unwrap(), anchor.to_str().unwrap());
        hushql(&["upgrade", shown, "--anchor", held]).says(0, &[]);
        assert!(matches!(Vault::open(&path), Err(VaultError::Unanchored { .. })));
        older.is_carried_over(&Vault::open_anchored(&path, &anchor).unwrap(), &path);
    }
    // A vault that does not hold the anchor's entry is left as it is.
    let (four, five) = (FOUR.anchor(elsewhere.path()), FIVE.anchor(elsewhere.path()));
    for (older, anchor) in [(&FOUR, five), (&FIVE, four)] {
        let path = older.copy(&bench, true);
        let before = fs::read(&path).unwrap();
        match Vault::upgrade(&path, Some(&anchor)).unwrap_err() {
            VaultError::PutBack { .. } if *older == FOUR => {}
            VaultError::OtherHistory { .. } if *older == FIVE => {}
            error => panic!("{error}"),
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    // Nor is one carried over that has an anchor, and is not held to it.
    let path = FIVE.copy(&bench, true);
    let before = fs::read(&path).unwrap();
    for refused in [Vault::upgrade(&path, None::<&Path>), Vault::adopt(&path, None::<&Path>)] {
        assert!(matches!(refused, Err(VaultError::Unanchored { .. })));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

/// A copy would be a second vault; its owner says which one is used, in the same words as for a vault of today.
#[test]
fn a_copy_is_carried_over_by_who_adopts_it() {
    let bench = Bench::new(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    let path = FIVE.stray(&bench);
    let anchor = FIVE.anchor(elsewhere.path());
    let (shown, held) = (path.to_str().unwrap(), anchor.to_str().unwrap());
    let before = fs::read(&path).unwrap();
    let refused = hushql(&["upgrade", shown, "--anchor", held]);
    refused.says(1, &[&format!("its owner adopts it with `hushql adopt {shown}`")]);
    assert_eq!(fs::read(&path).unwrap(), before);
    hushql(&["adopt", shown, "--anchor", held]).says(0, &[]);
    FIVE.is_carried_over(&Vault::open_anchored(&path, &anchor).unwrap(), &path);
    let path = SIX.stray(&bench);
    let anchor = SIX.anchor(elsewhere.path());
    SIX.is_carried_over(&Vault::adopt(&path, Some(&anchor)).unwrap(), &path);
    // Format 4 knew no home.
    let path = FOUR.stray(&bench);
    FOUR.is_carried_over(&Vault::adopt(&path, None::<&Path>).unwrap(), &path);
}

/// A vault of an older format in which the column of the next one exists already.
const NEXT: &str = "ALTER TABLE budget ADD COLUMN coupon_epsilon INTEGER";

/// Nor is one with a column that no format had.
const OTHER: &str = "ALTER TABLE budget ADD COLUMN other INTEGER";

/// Damage is not carried over, and what is refused stays as it was.
#[test]
fn a_damaged_vault_is_not_carried_over() {
    let bench = Bench::new(&[]);
    let always = [
        ("UPDATE ledger SET epsilon_nano = 1 WHERE sequence = 2", "chain of its ledger is broken"),
        ("UPDATE budget SET limit_loss = limit_loss + 1", "not what was declared"),
        ("UPDATE budget SET default_epsilon = 5 WHERE name = 'wide'", "not what was declared"),
        (
            "UPDATE budget SET spent_loss = spent_loss + 1 WHERE name = 'shop'",
            "disagrees with the ledger",
        ),
        ("UPDATE budget SET spent_loss = spent_loss - 1", "disagrees with the ledger"),
        ("UPDATE declared_table SET name = 'x' WHERE name = 'northern'", "not what was declared"),
        ("INSERT INTO analyst VALUES ('nobody')", "list of analysts"),
        ("DELETE FROM ledger WHERE sequence = (SELECT max(sequence) FROM ledger)", "is damaged"),
        ("CREATE TABLE x (y)", "not those of a vault"),
    ];
    let since_five = [
        ("UPDATE ledger SET rho_nano = 1 WHERE sequence = 270", "chain of its ledger is broken"),
        ("UPDATE ledger SET at = at + 1 WHERE sequence = 280", "chain of its ledger is broken"),
        ("DELETE FROM checkpoint", "a checkpoint of its ledger is missing or damaged"),
        ("UPDATE checkpoint SET sums = '[]'", "a checkpoint of its ledger is missing or damaged"),
        ("UPDATE statement SET text = text || ' '", "a statement of its ledger is missing"),
        ("DELETE FROM declaration WHERE sequence = 3", "the history grows at its end only"),
        ("UPDATE declaration SET analyst = 'lab'", "the chain of its declarations is broken"),
        ("DELETE FROM joined_space", "not what was declared"),
        ("UPDATE home SET folder = folder + 1", "its home is not what was written"),
        ("ALTER TABLE budget ADD COLUMN min_loss INTEGER", "not those of a vault"),
    ];
    let four = always.map(|case| (&FOUR, case)).into_iter();
    let five = always.into_iter().chain(since_five).map(|case| (&FIVE, case));
    let six = always.into_iter().chain(since_five).map(|(change, says)| {
        // The column that comes next.
        (&SIX, (if change.starts_with("ALTER") { NEXT } else { change }, says))
    });
    let seven = always.into_iter().chain(since_five).map(|(change, says)| {
        (&SEVEN, (if change.starts_with("ALTER") { OTHER } else { change }, says))
    });
    let since_eight = [
        ("UPDATE slice SET limit_loss = limit_loss + 1", "not what was declared"),
        ("UPDATE release_table SET about = '{}'", "stored answers are not"),
        ("DELETE FROM release_grant", "stored answers are not"),
        ("UPDATE kept_draw SET drawn = x'00'", "a kept draw was altered"),
    ];
    let eight = always.into_iter().chain(since_five).chain(since_eight).map(|(change, says)| {
        (&EIGHT, (if change.starts_with("ALTER") { OTHER } else { change }, says))
    });
    let since_nine = [
        ("UPDATE role SET may_log_in = 1", "the roles are not what was declared"),
        ("DELETE FROM role WHERE name = 'lab'", "the roles are not what was declared"),
        ("UPDATE log_in_secret SET secret = zeroblob(32)", "the roles are not what was declared"),
        ("UPDATE table_version SET number = number + 1", "the versions of tables are not"),
        ("UPDATE cell_column SET since = since + 1", "not what was declared"),
        ("ALTER TABLE role ADD COLUMN takes_defaults INTEGER", "not those of a vault"),
    ];
    let nine = always.into_iter().chain(since_five).chain(since_eight).chain(since_nine);
    let nine = nine.map(|(change, says)| {
        (&NINE, (if change.contains("min_loss") { OTHER } else { change }, says))
    });
    let all = four.chain(five).chain(six).chain(seven).chain(eight).chain(nine);
    for (older, (change, says)) in all {
        let path = older.copy(&bench, false);
        damage(&path, change);
        let before = fs::read(&path).unwrap();
        for moved in [false, true] {
            let carried = match moved {
                false => Vault::upgrade(&path, None::<&Path>),
                true => Vault::adopt(&path, None::<&Path>),
            };
            let error = carried.unwrap_err().to_string();
            assert!(error.contains(says), "{}: {change}: {error}", older.format);
            assert_eq!(fs::read(&path).unwrap(), before, "{change}");
        }
    }
}

/// Every write, sync and unlink of an upgrade as the last thing that the program does.
#[test]
fn an_upgrade_is_done_or_not() {
    let bench = Bench::new(&["upgrade", "@"]);
    for older in OLDER {
        let (outcome, calls) = bench.calls(older.copy(&bench, false));
        outcome.run.says(0, &["has the present format"]);
        let changes = ["write", "sync", "truncate", "unlink"];
        let hit = |call: &&Call| call.number > 0 && changes.contains(&call.name.as_str());
        let faults = [Fault::Kill, Fault::KillHalf, Fault::KillAfter];
        let cases: Vec<Case> = calls
            .iter()
            .filter(hit)
            .flat_map(|call| {
                let hits = faults.into_iter().filter(|fault| fault.hits(call));
                hits.map(|fault| Case { at: call.number, fault }).collect::<Vec<_>>()
            })
            .collect();
        assert!(cases.len() > 40, "{}", cases.len());
        let tally = Tally::default();
        each(&cases, |case| {
            let outcome = bench.run(older.copy(&bench, false), Some(*case));
            let path = &outcome.vault;
            match Vault::open(path) {
                Ok(vault) => {
                    older.is_carried_over(&vault, path);
                    tally.add("done");
                }
                Err(VaultError::Version { found, .. }) if found == older.format => {
                    tally.add("not done");
                }
                Err(error) => panic!("{case:?}: {error}"),
            }
            older.is_carried_over(&Vault::upgrade(path, None::<&Path>).unwrap(), path);
        });
        println!("format {}: {} kills: {tally:?}", older.format, cases.len());
        assert!(tally.of("done") > 0 && tally.of("not done") > 20, "{tally:?}");
    }
}
