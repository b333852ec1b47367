//! The anchor: the newest entry of a ledger, kept in another place than the vault.
//!
//! A vault cannot know that its whole file was exchanged for an older copy of itself. Its owner may keep an
//! anchor where whoever restores the vault's folder does not reach: a small text file with the number and
//! the chain hash of the last entry. In goes a verified ledger, out comes a moved anchor or a refusal. It
//! assumes that the anchor itself is not put back; it then guarantees that no charge that was handed out
//! under the anchor is ever forgotten by a vault that is opened with it.
//!
//! The vault commits first and the anchor follows, both within the vault's write lock and before the charge
//! is handed out. A program that dies between the two leaves a vault that is ahead, which is fine: the charge
//! stands, nobody was answered, and the next one moves the anchor.
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

use rusqlite::Connection;

use super::chain::{self, Mark, Witness};
use super::error::{Fault, VaultError};
use super::place::Folder;
use crate::catalog::store::Fields;

/// An anchor that a vault is held to.
#[derive(Debug)]
pub(super) struct Anchor {
    path: PathBuf,
    shown: String,
    folder: Folder,
}

impl Anchor {
    /// An anchor that exists.
    ///
    /// # Errors
    /// [`VaultError::NoAnchor`] when it does not, [`VaultError::Anchor`] when it cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self, VaultError> {
        let shown = path.display().to_string();
        // A link is followed once: renaming over it would replace the link and leave its target behind.
        let resolved = match fs::canonicalize(path) {
            Ok(resolved) => resolved,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VaultError::NoAnchor { anchor: shown });
            }
            Err(source) => return Err(VaultError::Anchor { anchor: shown, source }),
        };
        let folder = Folder::of(&resolved);
        let folder =
            folder.map_err(|source| VaultError::Anchor { anchor: shown.clone(), source })?;
        let anchor = Self { path: resolved, shown, folder };
        anchor.read()?;
        Ok(anchor)
    }

    /// A new anchor at this place in the chain; durable once the vault has moved it.
    ///
    /// # Errors
    /// [`VaultError::AnchorExists`] when the path is taken, [`VaultError::AnchorBeside`] in the vault's own folder,
    /// [`VaultError::AnchorUnmade`] where no file can be made.
    pub(super) fn create(path: &Path, vault: &Path, mark: Mark) -> Result<Self, VaultError> {
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

    /// Refuses a vault that does not hold the anchor's entry; the caller holds a transaction.
    ///
    /// # Guarantee
    /// `Ok` only if the ledger has an entry of this number with this very hash, and so, as far as its chain is whole, every
    /// entry that was there when the anchor was last moved. The chain is followed from the newest checkpoint on when a vault
    /// is opened, and from the first entry by `hushql check`.
    pub(super) fn check(&self, connection: &Connection, vault: &str) -> Result<(), Fault> {
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

    /// Moves the anchor to the end of a ledger, durably; the caller holds the vault's write lock and has followed the
    /// chain to its end, and no one else moves the anchor meanwhile.
    ///
    /// # Guarantee
    /// `Ok` only when the disk holds an anchor that is at least as far as the ledger is. At every moment the
    /// path names the old anchor or the new one, whole.
    pub(super) fn follow(
        &self,
        connection: &Connection,
        witness: &Witness,
        vault: &str,
    ) -> Result<(), Fault> {
        self.check(connection, vault)?;
        // Written even where it is: whoever moved it there may have died before the sync.
        let moved = self.write(witness.mark()).and_then(|()| self.folder.sync());
        Ok(moved.map_err(|source| VaultError::Anchor { anchor: self.shown.clone(), source })?)
    }

    fn write(&self, mark: Mark) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let fresh = PathBuf::from(name);
        let mut options = fs::OpenOptions::new();
        // What a program that died left there is written over: the vault's lock is held.
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&fresh)?;
        file.write_all(text(mark).as_bytes())?;
        file.sync_all()?;
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

/// The reverse; `None` for what [`text`] never writes.
fn parse(bytes: &[u8]) -> Option<Mark> {
    let found = std::str::from_utf8(bytes).ok()?;
    let mut lines = found.lines().skip(1);
    let sequence = lines.next()?.strip_prefix("sequence ")?.parse().ok()?;
    let hash = unhex(lines.next()?.strip_prefix("chain ")?)?;
    let mark = Mark { sequence, hash };
    // The check, the first line, and every other way to write the same.
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
    fn what_is_written_is_read_and_nothing_else_is() {
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
