//! The anchor: a record of a ledger's newest entry, in another place than the vault.
//!
//! A vault cannot detect that an older copy of itself has replaced its whole file. Its owner may
//! therefore keep an anchor: a small text file with the number and the chain hash of the last
//! entry, in a place that a restore of the vault's folder does not reach. In: a verified ledger.
//! Out: a moved anchor, or a refusal. If the anchor itself is never replaced with an older copy, a
//! vault that is opened with it never forgets a charge that was made with it.
//!
//! The vault commits first and the anchor follows, both under the vault's write lock and before the
//! vault returns the charge. A program that dies between the two leaves a vault that is ahead of
//! its anchor. This does no harm: the charge counts, no answer was given, and the next charge moves
//! the anchor.
//!
//! ```text
//! hushql anchor 1
//! sequence 17
//! chain 5c0a…
//! check 91fe…          SHA-256 of the above
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use crate::catalog::store::Fields;
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::place::SyncedFolder;
use crate::ledger::records::chain::{self, Mark, Witness};

/// The anchor of an open vault.
#[derive(Debug)]
pub(crate) struct Anchor {
    path: PathBuf,
    shown: String,
    folder: SyncedFolder,
    /// Whether a sync of the anchor or of its folder has failed.
    unsynced: AtomicBool,
}

impl Anchor {
    /// Opens an existing anchor.
    ///
    /// # Errors
    /// [`VaultError::NoAnchor`] when it does not exist, [`VaultError::Anchor`] when it cannot be
    /// read.
    pub(crate) fn open(path: &Path) -> Result<Self, VaultError> {
        let shown = path.display().to_string();
        // Resolve a link once: a rename over it would replace the link and leave its target behind.
        let resolved = match fs::canonicalize(path) {
            Ok(resolved) => resolved,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VaultError::NoAnchor { anchor: shown });
            }
            Err(source) => return Err(VaultError::Anchor { anchor: shown, source }),
        };
        let folder = SyncedFolder::for_file(&resolved);
        let folder =
            folder.map_err(|source| VaultError::Anchor { anchor: shown.clone(), source })?;
        let anchor = Self { path: resolved, shown, folder, unsynced: AtomicBool::new(false) };
        anchor.read()?;
        Ok(anchor)
    }

    /// The anchor's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an anchor for this place in the chain. It is durable once the vault has moved it.
    ///
    /// # Errors
    /// [`VaultError::AnchorExists`] when the path is taken, [`VaultError::AnchorBeside`] in the
    /// vault's own folder, [`VaultError::AnchorUnmade`] if the file cannot be created.
    pub(crate) fn create(path: &Path, vault: &Path, mark: Mark) -> Result<Self, VaultError> {
        let shown = path.display().to_string();
        let failed = |source| VaultError::AnchorUnmade { anchor: shown.clone(), source };
        let folder = |path: &Path| {
            let path = std::path::absolute(path)?;
            fs::canonicalize(path.parent().unwrap_or(&path))
        };
        let vault = fs::canonicalize(vault).map_err(failed)?;
        if folder(path).map_err(failed)? == folder(&vault).map_err(failed)? {
            return Err(VaultError::AnchorBeside { anchor: shown });
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(path) {
            Ok(mut file) => {
                let written = file.write_all(text(mark).as_bytes());
                written.inspect_err(|_| drop(fs::remove_file(path))).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(VaultError::AnchorExists { anchor: shown });
            }
            Err(source) => return Err(failed(source)),
        }
        Self::open(path)
    }

    /// Refuses a vault that does not contain the anchor's entry; the caller holds a transaction.
    ///
    /// # Guarantee
    /// `Ok` only if the ledger has an entry with this number and this hash, and so, as far as its
    /// chain is intact, every entry that existed when the anchor was last moved. Opening a vault
    /// verifies the chain from the newest checkpoint on, and `hushql check` verifies it from the
    /// first entry on.
    pub(crate) fn check(&self, connection: &Connection, vault: &str) -> Result<(), Fault> {
        let known = self.read()?;
        if known.sequence > 0 {
            let (vault, anchor) = (vault.to_owned(), self.shown.clone());
            match chain::hash_of(connection, known.sequence)? {
                Some(hash) if hash == known.hash => {}
                Some(_) => return Err(VaultError::OtherHistory { path: vault, anchor }.into()),
                None => return Err(VaultError::PutBack { path: vault, anchor }.into()),
            }
        }
        Ok(())
    }

    /// Moves the anchor durably to the end of a ledger. The caller holds the vault's write lock and
    /// has followed the chain to its end; nobody else moves the anchor at the same time.
    ///
    /// # Guarantee
    /// `Ok` only if the anchor on the disk is at least as far as the ledger. At every moment the
    /// path names the complete old anchor or the complete new one.
    pub(crate) fn follow(
        &self,
        connection: &Connection,
        witness: &Witness,
        vault: &str,
    ) -> Result<(), Fault> {
        self.check(connection, vault)?;
        // Write it even if it is there already: the program that moved it may have died before the
        // sync.
        let moved = self.write(witness.mark()).and_then(|()| self.noted(self.folder.sync()));
        Ok(moved.map_err(|source| VaultError::Anchor { anchor: self.shown.clone(), source })?)
    }

    /// True if a sync has failed. The content of the disk is then unknown.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Relaxed)
    }

    fn noted(&self, synced: io::Result<()>) -> io::Result<()> {
        synced.inspect_err(|_| self.unsynced.store(true, Ordering::Relaxed))
    }

    fn write(&self, mark: Mark) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let fresh = PathBuf::from(name);
        let mut options = fs::OpenOptions::new();
        // Overwrite the file of a program that died: the caller holds the vault's lock.
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&fresh)?;
        file.write_all(text(mark).as_bytes())?;
        self.noted(file.sync_all())?;
        drop(file);
        fs::rename(&fresh, &self.path)
    }

    fn read(&self) -> Result<Mark, VaultError> {
        let anchor = || self.shown.clone();
        match fs::read(&self.path) {
            Ok(bytes) => {
                parse(&bytes).ok_or_else(|| VaultError::AnchorDamaged { anchor: anchor() })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(VaultError::NoAnchor { anchor: anchor() })
            }
            Err(source) => Err(VaultError::Anchor { anchor: anchor(), source }),
        }
    }
}

/// The anchor's text.
fn text(mark: Mark) -> String {
    let Mark { sequence, hash } = mark;
    let said = format!("hushql anchor 1\nsequence {sequence}\nchain {}\n", hex(&hash));
    let mut fields = Fields::new("hushql anchor 1");
    fields.text(&said);
    format!("{said}check {}\n", hex(&fields.digest()))
}

/// The inverse of [`text`]; `None` for any other text.
fn parse(bytes: &[u8]) -> Option<Mark> {
    let found = std::str::from_utf8(bytes).ok()?;
    let mut lines = found.lines().skip(1);
    let sequence = lines.next()?.strip_prefix("sequence ")?.parse().ok()?;
    let hash = unhex(lines.next()?.strip_prefix("chain ")?)?;
    let mark = Mark { sequence, hash };
    // This compares the check and the first line, and rejects any other notation of the same
    // values.
    (text(mark) == found).then_some(mark)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    for (i, byte) in hash.iter_mut().enumerate() {
        let at = i.checked_mul(2)?;
        *byte = u8::from_str_radix(text.get(at..at.checked_add(2)?)?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_anchors_are_read() {
        let mark = Mark { sequence: 17, hash: [0xa7; 32] };
        let written = text(mark);
        assert_eq!(parse(written.as_bytes()), Some(mark));
        assert_eq!(parse(text(Mark::default()).as_bytes()), Some(Mark::default()));
        for at in 0..written.len() {
            for bit in 0..8 {
                let mut bytes = written.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert_eq!(parse(&bytes), None, "byte {at}, bit {bit}");
            }
            assert_eq!(parse(&written.as_bytes()[..at]), None, "cut at {at}");
        }
        assert_eq!(parse(format!("{written}\n").as_bytes()), None);
        assert_eq!(parse(written.replace("sequence 17", "sequence 017").as_bytes()), None);
    }
}
