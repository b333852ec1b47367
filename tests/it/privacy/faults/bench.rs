//! A vault that is copied for every case, the child that works on the copy, and two hands to run
//! cases.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use hushql::privacy::Loss;
use hushql_vault::catalog::Catalog;
use hushql_vault::ledger::{ChargeEntry, ChargeRequest, Vault, VaultError, plan_hash};
use tempfile::TempDir;

use super::shim::{self, Call, Fault};
use crate::contract::program::{Run, Study};
use crate::seed::Share;

/// What every statement of these tests costs, in units of the ledger.
pub const ONE: i64 = 1_000_000_000;

/// A statement that is charged 1.
pub const ASK: &str = "SELECT LAPLACE(eps=1) COUNT(*) FROM people";

/// A fault at a call.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub at: usize,
    pub fault: Fault,
}

/// A vault, and what a child does to copies of it.
#[derive(Debug)]
pub struct Bench {
    study: Study,
    copies: TempDir,
    arguments: Vec<String>,
    next: AtomicUsize,
}

/// One copy with what a child did to it.
#[derive(Debug)]
pub struct Outcome {
    pub run: Run,
    pub vault: PathBuf,
}

impl Bench {
    /// A vault with a table and a budget of 3, of which 1 is spent; in the arguments `@` is the
    /// path of the copy.
    pub fn new(arguments: &[&str]) -> Self {
        let study = Study::new();
        study.write("people.csv", "id,age,city\n1,30,Rome\n2,41,Oslo\n3,52,Rome\n4,63,Bonn\n");
        let location = study.path("people.csv");
        let declared = study.owner(&format!(
            "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION '{}' OPTIONS ('content_hash' 'false');
             ALTER TABLE people SET PRIVACY UNIT ROW;
             CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=3)",
            location.display()
        ));
        declared.says(0, &[]);
        study.lab(ASK).says(0, &[]);
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let copies = tempfile::tempdir().unwrap();
        let bench = Self { study, copies, arguments, next: AtomicUsize::new(0) };
        if bench.is_anchored() {
            Vault::make_anchor(bench.original(), bench.copies.path().join("anchor")).unwrap();
        }
        bench
    }

    /// Declares more in the vault that is copied.
    pub fn declare(&self, sql: &str) {
        self.study.owner(sql).says(0, &[]);
    }

    /// Whether the child holds its vault to an anchor.
    fn is_anchored(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "@anchor")
    }

    /// The vault that is copied.
    pub fn original(&self) -> PathBuf {
        self.study.path("study.db")
    }

    /// A folder of its own for a case, with a copy of the vault.
    pub fn copy(&self) -> PathBuf {
        let vault = self.fresh();
        std::fs::copy(self.original(), &vault).unwrap();
        if self.is_anchored() {
            let anchor = self.anchor(&vault);
            std::fs::create_dir(anchor.parent().unwrap()).unwrap();
            std::fs::copy(self.copies.path().join("anchor"), anchor).unwrap();
        }
        self.adopt(&vault).unwrap();
        vault
    }

    /// Makes a copied vault at home where it is, and opens it.
    pub fn adopt(&self, vault: &Path) -> Result<Vault, VaultError> {
        Vault::adopt(vault, self.is_anchored().then(|| self.anchor(vault)))
    }

    /// What is declared in the vault that is copied.
    pub fn open_original(&self) -> Vault {
        if self.is_anchored() {
            Vault::open_anchored(self.original(), self.copies.path().join("anchor")).unwrap()
        } else {
            Vault::open(self.original()).unwrap()
        }
    }

    /// Opens the vault of a case, held to its anchor if it has one.
    pub fn open(&self, vault: &Path) -> Result<Vault, VaultError> {
        if self.is_anchored() {
            Vault::open_anchored(vault, self.anchor(vault))
        } else {
            Vault::open(vault)
        }
    }

    /// A folder of its own, and the path of a vault that is not there.
    pub fn fresh(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // SQLite resolves links, and the shim compares paths as text.
        let folder = self.copies.path().canonicalize().unwrap().join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        folder.join("study.db")
    }

    /// The child on a vault, not started yet and not under the shim.
    pub fn command(&self, vault: &Path) -> Command {
        let mut command = self.study.command(&[]);
        let (path, anchor) = (vault.to_str().unwrap(), self.anchor(vault));
        for argument in &self.arguments {
            let argument = argument.replace("@anchor", anchor.to_str().unwrap());
            command.arg(argument.replace('@', path));
        }
        command
    }

    /// Runs the child on a vault, with a fault or without.
    pub fn run(&self, vault: PathBuf, case: Option<Case>) -> Outcome {
        self.run_with(vault, |command| {
            if let Some(Case { at, fault }) = case {
                command.env("SHIM_AT", at.to_string()).env("SHIM_FAULT", fault.name());
            }
        })
    }

    /// Runs the child where the system gives no random bytes for noise.
    pub fn run_without_entropy(&self, vault: PathBuf) -> Outcome {
        self.run_with(vault, |command| {
            command.env("SHIM_ENTROPY", "fail");
        })
    }

    /// Runs the child where the system says this time, in seconds since 1970.
    pub fn run_at(&self, vault: PathBuf, seconds: i64) -> Outcome {
        self.run_with(vault, |command| {
            command.env("SHIM_CLOCK", seconds.to_string());
        })
    }

    fn run_with(&self, vault: PathBuf, fault: impl FnOnce(&mut Command)) -> Outcome {
        let mut command = self.command(&vault);
        let anchor = self.anchor(&vault);
        shim::under(&mut command, &vault, self.is_anchored().then_some(anchor.as_path()));
        // Written anew: a vault may be given to several children.
        let _ = std::fs::remove_file(self.log(&vault));
        command.env("SHIM_LOG", self.log(&vault));
        fault(&mut command);
        let run = command.output().unwrap().into();
        Outcome { run, vault }
    }

    /// The calls that the child makes when nothing fails.
    pub fn calls(&self, vault: PathBuf) -> (Outcome, Vec<Call>) {
        let outcome = self.run(vault, None);
        let calls = shim::calls(&self.log(&outcome.vault));
        assert!(calls.len() > 20, "the shim sees nothing: {outcome:?}");
        (outcome, calls)
    }

    /// Where the shim writes the calls of a case down.
    pub fn log(&self, vault: &Path) -> PathBuf {
        self.beside(vault, "log")
    }

    /// Where the anchor of a copy is, if it has one: in another folder.
    pub fn anchor(&self, vault: &Path) -> PathBuf {
        self.beside(vault, "anchor").join("study.anchor")
    }

    /// A path for something of a case that is not in its folder.
    fn beside(&self, vault: &Path, what: &str) -> PathBuf {
        let folder = vault.parent().unwrap();
        folder.with_file_name(format!("{}.{what}", folder.file_name().unwrap().to_str().unwrap()))
    }

    /// Forgets a case.
    pub fn drop(&self, outcome: &Outcome) {
        std::fs::remove_dir_all(outcome.vault.parent().unwrap()).unwrap();
        std::fs::remove_file(self.log(&outcome.vault)).unwrap();
        if self.is_anchored() {
            std::fs::remove_dir_all(self.anchor(&outcome.vault).parent().unwrap()).unwrap();
        }
    }
}

/// Every case, by as many threads as there are processors; the first one that fails ends the test.
pub fn each<T: Sync>(cases: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let hands = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..hands {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(case);
                }
            });
        }
    });
}

/// A request that costs 1, as a later program would make it; of no catalog where the vault is not
/// readable.
pub fn one(vault: &Vault) -> ChargeRequest {
    ChargeRequest {
        analyst: "lab".to_owned(),
        plan_hash: plan_hash("later"),
        statement: ASK.to_owned(),
        entries: vec![ChargeEntry {
            mechanism: "LAPLACE".to_owned(),
            parameters: "eps=1".to_owned(),
            sensitivity: "1".to_owned(),
            loss: Loss::pure(&"1".parse().unwrap()),
            shared: false,
            cells: None,
        }],
        shows_again: false,
        unit_domains: vec!["people".to_owned()],
        tables: Default::default(),
        catalog: catalog(vault).unwrap_or_default(),
        caps: Default::default(),
        built_on: Vec::new(),
    }
}

/// The declarations. A crowd may hold the lock for longer than one look waits.
fn catalog(vault: &Vault) -> Result<Arc<Catalog>, VaultError> {
    let looks = (0..20).map(|_| vault.catalog());
    let mut looks = looks.skip_while(|known| matches!(known, Err(VaultError::Locked { .. })));
    looks.next().unwrap_or_else(|| vault.catalog())
}

/// The kinds of calls that change a file.
pub const CHANGES: [&str; 4] = ["write", "sync", "truncate", "unlink"];

/// A share of the faults at each call of these kinds, from the write lock of the charge on.
pub fn from_the_charge(calls: &[Call], kinds: &[&str], mut share: Share) -> Vec<Case> {
    let faults = [Fault::Kill, Fault::KillHalf, Fault::KillAfter, Fault::Eio, Fault::EnospcOn];
    let first = calls.iter().position(|call| call.is("write", 'j')).unwrap();
    let hit = |call: &&Call| call.number > 0 && kinds.contains(&call.name.as_str());
    let cases = calls[first..].iter().filter(hit).flat_map(|call| {
        let hits = faults.into_iter().filter(|fault| fault.hits(call));
        hits.map(|fault| Case { at: call.number, fault }).collect::<Vec<_>>()
    });
    cases.filter(|_| share.takes_next()).collect()
}

/// How many charges a vault holds; what is spent says the same.
#[track_caller]
pub fn charges(vault: &Vault) -> usize {
    let charges = vault.entries().unwrap().len();
    assert_eq!(vault.budget("b").unwrap().spent.nano, ONE * i64::try_from(charges).unwrap());
    charges
}

/// How many lines of the child's output are answers, or declarations that are said to be done.
pub fn said(run: &Run, what: &str) -> usize {
    assert!(!run.err.contains("panicked"), "{run:?}");
    run.out.lines().filter(|line| line.starts_with(&format!("{{\"{what}\""))).count()
}

/// Calls of one kind, told apart: the first and the last of each are hit where all would be too
/// many.
pub fn ends_of_each_kind(calls: &[Call]) -> Vec<&Call> {
    let same = |a: &Call, b: &Call| {
        (&a.name, a.file, a.name == "lock" && a.detail == b.detail)
            == (&b.name, b.file, a.name == "lock")
    };
    let ends = calls.iter().enumerate().filter(|(i, call)| {
        !calls[..*i].iter().any(|other| same(other, call))
            || !calls[i + 1..].iter().any(|other| same(other, call))
    });
    ends.map(|(_, call)| call).collect()
}

/// Counts what cases came to, for a last look at whether they tested anything.
#[derive(Debug, Default)]
pub struct Tally(Mutex<std::collections::BTreeMap<String, usize>>);

impl Tally {
    pub fn add(&self, what: impl Into<String>) {
        *self.0.lock().unwrap().entry(what.into()).or_default() += 1;
    }

    pub fn of(&self, what: &str) -> usize {
        self.0.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    /// Every way in which it can end was seen; by a sample, more than one.
    pub fn saw(&self, cases: &[Case], is_whole: bool, ends: &[&str]) {
        println!("{} faults: {self:?}", cases.len());
        let never: Vec<_> = ends.iter().filter(|end| self.of(end) == 0).collect();
        let missed = if is_whole { 0 } else { ends.len() - 2 };
        assert!(never.len() <= missed, "never {never:?}: {self:?}");
    }
}

/// The sync of the folder whose failure SQLite forgives: that of a journal's new name. The vault
/// has synced the folder itself before.
pub fn forgiven(calls: &[Call]) -> Vec<usize> {
    let trio = |calls: &[Call]| {
        calls[0].is("sync", 'j') && calls[1].is("open", 'f') && calls[2].is("sync", 'f')
    };
    calls.windows(3).filter(|calls| trio(calls)).map(|calls| calls[2].number).collect()
}
