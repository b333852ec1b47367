//! What the disk holds for certain, and what it may hold after the power is cut.
//!
//! In: the calls that programs made. Out: files as somebody finds them. A write reaches the disk
//! for certain only with a sync of its file, a name only with a sync of its folder. Before that, a
//! power cut keeps any of the writes, whole or to the end of a sector, in any order, and the first
//! of the names. A disk that lies keeps nothing for certain.
//!
//! ```text
//! write d · sync d · unlink j · ✂        the new pages, and the journal or not: its folder was not synced
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rand::RngExt;
use rand_chacha::ChaCha20Rng;

use crate::machine::{Call, Machine};

/// Bytes that a disk writes as a whole.
const SECTOR: usize = 512;

/// A file as the disk has it, and what was written since.
#[derive(Debug, Clone, Default)]
struct DiskFile {
    bytes: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

/// A folder: the files that its names lead to on the disk, and the changes since, each as a whole.
#[derive(Debug, Clone, Default)]
struct Folder {
    names: BTreeMap<char, usize>,
    pending: Vec<Vec<(char, Option<usize>)>>,
}

/// The disk of the vault, and that of the anchor.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<DiskFile>,
    vault: Folder,
    anchor: Folder,
    /// Whether syncs of the vault's disk do nothing.
    pub lies: bool,
}

impl DiskFile {
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

    /// Keeps each of the pending changes with a chance of `luck` in 100.
    fn cut(&mut self, rng: &mut ChaCha20Rng, luck: u32) {
        for change in std::mem::take(&mut self.pending) {
            if rng.random_range(0..100) >= luck {
                continue;
            }
            match change {
                Change::Write(at, bytes) if luck < 100 && rng.random_range(0..8) == 0 => {
                    let sectors = rng.random_range(0..=bytes.len() / SECTOR) * SECTOR;
                    self.apply(&Change::Write(at, bytes[..sectors].to_vec()));
                }
                change => self.apply(&change),
            }
        }
    }
}

impl Folder {
    /// The file that a name leads to now.
    fn now(&self, name: char) -> Option<usize> {
        let changes = self.pending.iter().flatten().rev();
        let changed = changes.filter(|(of, _)| *of == name).map(|(_, file)| *file).next();
        changed.unwrap_or_else(|| self.names.get(&name).copied())
    }

    /// Makes the first of the pending changes durable, and forgets the others.
    fn keep(&mut self, changes: usize) {
        let pending = std::mem::take(&mut self.pending);
        for (name, file) in pending.into_iter().take(changes).flatten() {
            match file {
                Some(file) => self.names.insert(name, file),
                None => self.names.remove(&name),
            };
        }
    }

    fn cut(&mut self, rng: &mut ChaCha20Rng, luck: u32) {
        let kept = match luck {
            0 => 0,
            100 => self.pending.len(),
            _ => rng.random_range(0..=self.pending.len()),
        };
        self.keep(kept);
    }
}

impl Disk {
    /// The disk of a machine that has long been at rest.
    pub fn of(machine: &Machine) -> Self {
        let mut disk = Self::default();
        let read = |path: &Path| fs::read(path).ok();
        for (name, bytes) in [('d', read(&machine.vault())), ('j', read(&machine.journal()))] {
            if let Some(bytes) = bytes {
                let file = disk.add(bytes);
                disk.vault.names.insert(name, file);
            }
        }
        for (name, bytes) in [('a', read(&machine.anchor())), ('n', read(&machine.new_anchor()))] {
            if let Some(bytes) = bytes {
                let file = disk.add(bytes);
                disk.anchor.names.insert(name, file);
            }
        }
        disk
    }

    fn add(&mut self, bytes: Vec<u8>) -> usize {
        self.files.push(DiskFile { bytes, pending: Vec::new() });
        self.files.len() - 1
    }

    /// Follows the calls that were made.
    pub fn follow(&mut self, calls: &[Call]) {
        calls.iter().for_each(|call| self.step(call));
    }

    fn step(&mut self, call: &Call) {
        let at = usize::try_from(call.detail).unwrap_or_default();
        let (creates, truncates) = (at & 64 != 0, at & 512 != 0);
        match (call.name.as_str(), call.file) {
            ("open", 'j') if creates && self.vault.now('j').is_none() => {
                let file = self.add(Vec::new());
                self.vault.pending.push(vec![('j', Some(file))]);
            }
            ("open", 'a') if truncates => match self.anchor.now('n') {
                Some(file) => self.files[file].pending.push(Change::Truncate(0)),
                None => {
                    let file = self.add(Vec::new());
                    self.anchor.pending.push(vec![('n', Some(file))]);
                }
            },
            ("write", 'd' | 'j' | 'a') => {
                self.change(call.file, Change::Write(at, call.bytes.clone()));
            }
            ("truncate", 'd' | 'j') => self.change(call.file, Change::Truncate(at)),
            ("sync", 'd' | 'j') if !self.lies => self.sync(call.file),
            ("sync", 'a') => self.sync('a'),
            ("unlink", 'j') => self.vault.pending.push(vec![('j', None)]),
            ("rename", 'a') => {
                let file = self.anchor.now('n');
                self.anchor.pending.push(vec![('a', file), ('n', None)]);
            }
            ("sync", 'f') if !self.lies => self.vault.keep(usize::MAX),
            ("sync", 'g') => self.anchor.keep(usize::MAX),
            _ => {}
        }
    }

    fn file(&self, file: char) -> Option<usize> {
        match file {
            // The anchor is only ever written as a new file.
            'a' => self.anchor.now('n'),
            name => self.vault.now(name),
        }
    }

    fn change(&mut self, file: char, change: Change) {
        if let Some(file) = self.file(file) {
            self.files[file].pending.push(change);
        }
    }

    fn sync(&mut self, file: char) {
        if let Some(file) = self.file(file) {
            self.files[file].sync();
        }
    }

    /// Cuts the power: the files of the machine are what is found afterwards.
    pub fn cut(&mut self, machine: &Machine, rng: &mut ChaCha20Rng, luck: u32) {
        self.files.iter_mut().for_each(|file| file.cut(rng, luck));
        self.vault.cut(rng, luck);
        self.anchor.cut(rng, luck);
        self.place(machine);
    }

    /// Writes the files of the machine anew.
    fn place(&self, machine: &Machine) {
        let found = |folder: &Folder, name| folder.now(name).map(|file| &self.files[file].bytes);
        place(&machine.vault(), found(&self.vault, 'd'));
        place(&machine.journal(), found(&self.vault, 'j'));
        place(&machine.anchor(), found(&self.anchor, 'a'));
        place(&machine.new_anchor(), found(&self.anchor, 'n'));
        machine.calls();
    }
}

/// Writes a file where it is, as the same file, or removes it.
pub fn place(path: &Path, bytes: Option<&Vec<u8>>) {
    match bytes {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None if path.exists() => fs::remove_file(path).unwrap(),
        None => {}
    }
}
