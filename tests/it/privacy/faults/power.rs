//! Power that is cut: what the disk holds then, rebuilt from the calls that the child made.
//!
//! A write reaches the disk for certain only with a sync of its file, a name (a journal made or
//! removed) only with a sync of its folder; before that, any part of it may be there or not. For
//! every moment of a run, several such disks are built and opened. Killing a process shows less:
//! the system still writes what it was given.

use std::fs;
use std::path::Path;

use hushql_vault::ledger::Vault;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::bench::{ASK, Bench, Case, Tally, charges, each, said};
use super::shim::{self, Call, Fault};

/// A file as the disk has it, and what was written since.
#[derive(Debug, Clone, Default)]
struct Disk {
    bytes: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Disk {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(at, bytes) => {
                let end = at + bytes.len();
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[*at..end].copy_from_slice(bytes);
            }
            Change::Truncate(length) => self.bytes.resize(*length, 0),
        }
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            self.apply(&change);
        }
    }

    /// What may be found after the power was cut; of a write perhaps only its first sectors.
    fn cut(mut self, rng: &mut ChaCha20Rng, luck: u32) -> Vec<u8> {
        for change in std::mem::take(&mut self.pending) {
            if rng.random_range(0..100) >= luck {
                continue;
            }
            match change {
                Change::Write(at, bytes) if luck < 100 && rng.random_range(0..8) == 0 => {
                    let half = bytes.len() / 2 / 512 * 512;
                    self.apply(&Change::Write(at, bytes[..half].to_vec()));
                }
                change => self.apply(&change),
            }
        }
        self.bytes
    }
}

/// The vault and its journal: the disk's names for them, and the names since.
#[derive(Debug, Clone, Default)]
struct World {
    vault: Disk,
    journals: Vec<Disk>,
    /// The journal that the name leads to, on the disk, and after each change since.
    named: Option<usize>,
    names: Vec<Option<usize>>,
}

impl World {
    fn now(&self) -> Option<usize> {
        self.names.last().copied().unwrap_or(self.named)
    }

    fn file(&mut self, file: char) -> &mut Disk {
        match (file, self.now()) {
            ('d', _) => &mut self.vault,
            (_, Some(journal)) => &mut self.journals[journal],
            (_, None) => panic!("a journal without a name"),
        }
    }

    fn step(&mut self, call: &Call) {
        let at = usize::try_from(call.detail).unwrap_or_default();
        match (call.name.as_str(), call.file) {
            // O_CREAT
            ("open", 'j') if at & 64 != 0 && self.now().is_none() => {
                self.journals.push(Disk::default());
                self.names.push(Some(self.journals.len() - 1));
            }
            ("write", 'd' | 'j') => {
                let change = Change::Write(at, call.bytes.clone());
                self.file(call.file).pending.push(change);
            }
            ("truncate", 'd' | 'j') => self.file(call.file).pending.push(Change::Truncate(at)),
            ("sync", 'd' | 'j') => self.file(call.file).sync(),
            ("unlink", 'j') => self.names.push(None),
            ("sync", 'f') => {
                self.named = self.now();
                self.names.clear();
            }
            _ => {}
        }
    }

    /// Writes a disk as it may be found.
    fn cut(&self, rng: &mut ChaCha20Rng, luck: u32, vault: &Path) {
        let kept = match luck {
            0 => 0,
            100 => self.names.len(),
            _ => rng.random_range(0..=self.names.len()),
        };
        let named = kept.checked_sub(1).map_or(self.named, |last| self.names[last]);
        fs::write(vault, self.vault.clone().cut(rng, luck)).unwrap();
        if let Some(journal) = named {
            let bytes = self.journals[journal].clone().cut(rng, luck);
            fs::write(vault.with_file_name("study.db-journal"), bytes).unwrap();
        }
    }
}

/// Opens what is found after a cut at every moment of a run.
///
/// Returns how often a charge was found that nobody can have been answered for yet.
fn cut_everywhere(bench: &Bench, before: &[u8], calls: &[Call], about: &str) -> usize {
    // Per moment: the disk lost everything that was not synced, nothing, or some of it.
    let lucks = [0, 100, 20, 50, 80, 50];
    let moments: Vec<usize> = (0..=calls.len())
        .filter(|at| *at == 0 || !["lock", "stat", "read"].contains(&calls[at - 1].name.as_str()))
        .collect();
    let tally = Tally::default();
    each(&moments, |at| {
        let mut world = World {
            vault: Disk { bytes: before.to_vec(), pending: Vec::new() },
            ..World::default()
        };
        calls[..*at].iter().for_each(|call| world.step(call));
        let noise = |call: &&Call| call.is("entropy", '-') && call.detail == 32;
        let drawn = calls[..*at].iter().filter(noise).count();
        for (i, luck) in lucks.into_iter().enumerate() {
            let mut rng = ChaCha20Rng::seed_from_u64((at * lucks.len() + i) as u64);
            let path = bench.fresh();
            world.cut(&mut rng, luck, &path);
            let vault = bench.adopt(&path);
            let vault = vault.unwrap_or_else(|error| panic!("{about}, {at}, {luck} %: {error}"));
            let found = charges(&vault);
            // What may have been answered is there, and at most the charge that was under way.
            assert!((1 + drawn..=2 + drawn).contains(&found), "{about}, {at}, {luck} %: {found}");
            tally.add(if found == 1 + drawn { "before" } else { "after" });
            fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    });
    println!("{about}: {tally:?}");
    assert!(tally.of("before") > 100, "{about}: {tally:?}");
    tally.of("after")
}

fn bench() -> Bench {
    let twice = format!("{ASK}; {ASK}");
    Bench::new(&["@", "--analyst", "lab", "--format", "json", "--keep-going", "-c", &twice])
}

#[test]
fn power_that_is_cut_takes_no_charge_back() {
    let bench = bench();
    let copy = bench.copy();
    let before = fs::read(&copy).unwrap();
    let (outcome, calls) = bench.calls(copy);
    assert_eq!(said(&outcome.run, "columns"), 2, "{outcome:?}");
    assert!(cut_everywhere(&bench, &before, &calls, "nothing fails") > 20);

    // A program that has run out of file descriptors cannot open the folder, and SQLite then leaves
    // out its sync, without a word: when the journal is made, and when it is removed. Nor does it
    // mind when the first one fails.
    let of_folder =
        |call: &&Call| call.file == 'f' && ["open", "sync"].contains(&call.name.as_str());
    let noise = calls.iter().position(|call| call.is("entropy", '-') && call.detail == 32).unwrap();
    // From the first page of the journal on.
    let journal = calls.iter().position(|call| call.is("write", 'j')).unwrap();
    for call in calls[journal..noise].iter().filter(of_folder) {
        let copy = bench.copy();
        let before = fs::read(&copy).unwrap();
        let outcome = bench.run(copy, Some(Case { at: call.number, fault: Fault::Eio }));
        let mut calls = shim::calls(&bench.log(&outcome.vault));
        // It was written down, and not made.
        calls.retain(|made| made.number != call.number);
        cut_everywhere(&bench, &before, &calls, &format!("{} {} fails", call.name, call.number));
    }
}

/// The last thing before the noise is the sync of the folder from which the journal was removed;
/// nothing is written to the vault between the noise and the next charge.
#[test]
fn a_charge_is_on_disk_before_the_first_random_draw() {
    let bench = bench();
    let (_, calls) = bench.calls(bench.copy());
    let mut last = 0;
    let mut charged = 0;
    for (at, call) in calls.iter().enumerate() {
        if !(call.is("entropy", '-') && call.detail == 32) {
            continue;
        }
        let before = &calls[last..at];
        let place = |name, file| before.iter().rposition(|call| call.is(name, file)).unwrap();
        let (write, sync) = (place("write", 'd'), place("sync", 'd'));
        let (unlink, folder) = (place("unlink", 'j'), place("sync", 'f'));
        assert!(write < sync && sync < unlink && unlink < folder, "{before:?}");
        let changes = |call: &&Call| ["write", "truncate", "unlink"].contains(&call.name.as_str());
        assert_eq!(before.iter().skip(folder).filter(changes).count(), 0, "{before:?}");
        (last, charged) = (at, charged + 1);
    }
    assert_eq!(charged, 2, "one key for the noise of each query: {calls:?}");
    assert!(!calls[last..].iter().any(|call| call.name == "write"), "{:?}", &calls[last..]);
}

/// No entropy, no answer, and no refund.
#[test]
fn without_entropy_the_charge_stands() {
    let bench = bench();
    let outcome = bench.run_without_entropy(bench.copy());
    assert_eq!(said(&outcome.run, "columns"), 0, "{outcome:?}");
    assert_eq!(outcome.run.out.matches("what was charged stays charged").count(), 2, "{outcome:?}");
    assert_eq!(charges(&Vault::open(&outcome.vault).unwrap()), 3);
}
