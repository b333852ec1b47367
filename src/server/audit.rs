//! The audit log: who asked when, and what came of it, one JSON object in a line.
//!
//! In: the hash of a statement, never its text, and its outcome. Out: a line that holds the hash of the line before it, so that no line
//! can be taken out or changed unnoticed. A statement that may hold a password has no hash. Nothing depends on rows.
//!
//! ```text
//! {"at":1790000000,"role":"lab","statement":"9f…","code":"00000","cost":"ε = 0.5","charge":17,"before":"3c…"}
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use hushql::Receipt;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::words::holds_password;

/// The log.
#[derive(Debug)]
pub(super) struct Audit(Mutex<(File, String)>);

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Audit {
    /// Appends to a file, which only its owner reads.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let mut last = String::new();
        for line in BufReader::new(file.try_clone()?).lines() {
            last = hex(Sha256::digest(line?.as_bytes()));
        }
        Ok(Self(Mutex::new((file, last))))
    }

    /// Writes down a statement of a role, or of the owner.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn write(
        &self,
        role: &str,
        statement: &str,
        code: &str,
        receipt: Option<&Receipt>,
    ) -> io::Result<()> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let hash = (!holds_password(statement)).then(|| hex(Sha256::digest(statement.as_bytes())));
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, before) = &mut *log;
        let line = json!({
            "at": since.map_or(0, |since| since.as_secs()),
            "role": role,
            "statement": hash,
            "code": code,
            "cost": receipt.map(|receipt| receipt.spent.to_string()),
            "charge": receipt.map(|receipt| receipt.sequence),
            "before": *before,
        })
        .to_string();
        *before = hex(Sha256::digest(line.as_bytes()));
        file.write_all(format!("{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_holds_the_hash_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for sql in ["SELECT 1", "CREATE ROLE lab PASSWORD 'correct horse'", "SELECT 2"] {
            Audit::open(&path).unwrap().write("lab", sql, "00000", None).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut before = String::new();
        for line in &lines {
            let read: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(read["before"], before.as_str());
            before = hex(Sha256::digest(line.as_bytes()));
        }
        let read: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
        assert!(read["statement"].is_null() && !text.contains("horse"));
    }
}
