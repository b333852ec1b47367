//! The history of the shell: one file for each vault and each name.
//!
//! In: the vault and the user of a shell. Out: the path of a file that only this user can read, or
//! `None` if it cannot be created. Queries reveal what an analyst intends, so other analysts must
//! not see them, even if they share a service account.
//!
//! ```text
//! hushql study.db --analyst lab  →  ~/.local/share/hushql/history-lab-5f1c…  (0600, in a folder of 0700)
//! ```

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::arguments::{Asker, TablesFrom};

/// The file for this vault and this name in the user's data directory, created if necessary.
pub(super) fn file(place: &TablesFrom, asker: &Asker) -> Option<PathBuf> {
    let folder = dirs::data_dir()?.join("hushql");
    // The shell also works without a history.
    private(&folder, &name(place, asker)).ok()
}

/// Whether an input may hold a password. Such an input is not remembered, neither in the file nor
/// in memory.
pub(super) fn is_secret(input: &str) -> bool {
    let lower = input.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == "password")
}

/// A file name that is unique for the vault and the user. Names of analysts consist of letters,
/// digits, `_` and `-`.
fn name(place: &TablesFrom, asker: &Asker) -> String {
    let vault = match place {
        TablesFrom::Demo => None,
        TablesFrom::Vault(path) | TablesFrom::Anchored { vault: path, .. } => {
            Some(fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
        }
    };
    let asker = match asker {
        Asker::Owner => "owner",
        Asker::Analyst(name) => name,
    };
    let mut hash = Sha256::new();
    // No name contains this byte. If the file system ignores case, the hash still distinguishes
    // names.
    hash.update(asker.as_bytes());
    hash.update([0]);
    if let Some(path) = &vault {
        hash.update([1]);
        hash.update(path.as_os_str().as_encoded_bytes());
    }
    let digest: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("history-{asker}-{digest}")
}

/// A file with this name that only this user can read, in a folder that only this user can read,
/// even if they existed before.
fn private(folder: &Path, name: &str) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let path = folder.join(name);
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// All analysts of an account once had one file, which any of them could scroll through.
    #[test]
    fn every_vault_and_name_has_a_file_of_its_own() {
        let lab = |name: &str| Asker::Analyst(name.to_owned());
        let vault = |path: &str| TablesFrom::Vault(path.into());
        let files = [
            name(&TablesFrom::Demo, &lab("demo")),
            name(&TablesFrom::Demo, &lab("lab")),
            name(&TablesFrom::Demo, &Asker::Owner),
            name(&vault("/a.db"), &lab("lab")),
            name(&vault("/a.db"), &lab("Lab")),
            name(&vault("/a.db"), &lab("other")),
            name(&vault("/a.db"), &Asker::Owner),
            name(&vault("/b.db"), &lab("lab")),
        ];
        let different: BTreeSet<_> = files.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(different.len(), files.len(), "{files:?}");
        assert!(files[3].starts_with("history-lab-"), "{files:?}");
        let anchored = TablesFrom::Anchored { vault: "/a.db".into(), anchor: "/x".into() };
        assert_eq!(name(&anchored, &lab("lab")), files[3]);
    }

    #[test]
    fn the_file_is_the_users_alone() {
        let folder = std::env::temp_dir().join(format!("hushql-history-{}", std::process::id()));
        let below = folder.join("data").join("hushql");
        let path = private(&below, "history-lab-1").unwrap();
        assert_eq!((mode(&path), mode(&below)), (0o600, 0o700));
        // The content stays, with narrower permissions.
        fs::write(&path, "#V2\nSELECT 1;\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&below, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(private(&below, "history-lab-1").unwrap(), path);
        assert_eq!((mode(&path), mode(&below)), (0o600, 0o700));
        assert_eq!(fs::read_to_string(&path).unwrap(), "#V2\nSELECT 1;\n");
        // Another user could choose the target of a link.
        std::os::unix::fs::symlink(&path, below.join("history-x-2")).unwrap();
        assert!(private(&below, "history-x-2").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_password_is_not_remembered() {
        for input in
            ["CREATE ROLE lab PASSWORD 'x'", "alter user lab\npassword\n'x';", "-- password"]
        {
            assert!(is_secret(input), "{input}");
        }
        for input in ["SELECT passwords FROM t", "SHOW ROLES", "DROP ROLE lab"] {
            assert!(!is_secret(input), "{input}");
        }
    }
}
