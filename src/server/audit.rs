//! The audit log: each log-in and statement, with its role, time and outcome, as one JSON object on
//! a line.
//!
//! In: the hash of a statement, never its text, and its outcome; log-ins that succeed or fail. Out:
//! a line that holds the hash of the line before it. So a reader notices if a line is changed, or
//! removed from the middle. The chain has no key: a process that may write the file can cut off its
//! end, or replace all of it. A statement that may hold a password has no hash. Nothing depends on
//! rows.
//!
//! ```text
//! {"at":1790000000,"event":"log-in","role":"lab","from":"10.0.0.7","code":"00000","before":""}
//! {"at":1790000007,"event":"statement","role":"lab","statement":"9f…","code":"00000","cost":"ε = 0.5","charge":17,"before":"3c…"}
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hushql::Receipt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::statement_kind::StatementText;

/// The log.
#[derive(Debug)]
pub(super) struct Audit(Mutex<AuditLog>);

#[derive(Debug)]
struct AuditLog {
    file: File,
    /// The hash of the last line.
    before: String,
    /// The length of the complete lines, if the file may hold more bytes.
    whole: Option<u64>,
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(line: &[u8]) -> String {
    hex(Sha256::digest(line))
}

impl Audit {
    /// Opens a file for appending. Only its owner can read it, and no other server may append to it
    /// meanwhile.
    ///
    /// # Errors
    /// The errors of the file; also if another server has it open.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.try_lock().map_err(|_| {
            io::Error::other("another server writes this log: give each one a file of its own")
        })?;
        let is_file = file.metadata()?.is_file();
        #[cfg(unix)]
        if is_file {
            use std::os::unix::fs::PermissionsExt;
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        let mut before = String::new();
        if is_file {
            let (mut reader, mut line) = (BufReader::new(file.try_clone()?), Vec::new());
            let mut is_whole = true;
            while reader.read_until(b'\n', &mut line)? > 0 {
                is_whole = line.pop_if(|last| *last == b'\n').is_some();
                before = hash(&line);
                line.clear();
            }
            if !is_whole {
                // An incomplete line, left by a full disk or a power failure. It ends here, and the
                // next line holds its hash.
                file.write_all(b"\n")?;
            }
        }
        Ok(Self(Mutex::new(AuditLog { file, before, whole: None })))
    }

    /// Records a statement of a role or of the owner.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn statement(
        &self,
        role: &str,
        statement: &StatementText,
        code: &str,
        receipt: Option<&Receipt>,
    ) -> io::Result<()> {
        let text = (!statement.holds_password).then(|| hash(statement.sql.as_bytes()));
        self.log().append(json!({
            "event": "statement",
            "role": role,
            "statement": text,
            "code": code,
            "cost": receipt.map(|receipt| receipt.spent.to_string()),
            "charge": receipt.map(|receipt| receipt.sequence),
        }))
    }

    /// Records a log-in that succeeded or failed. A text that cannot be the name of a role is left
    /// out, because it may be anything, such as a password.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn log_in(&self, role: &str, from: Option<IpAddr>, code: &str) -> io::Result<()> {
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "_-".contains(sign);
        let is_name = (1..=64).contains(&role.len()) && role.chars().all(is_sign);
        self.log().append(json!({
            "event": "log-in",
            "role": is_name.then_some(role),
            "from": from.map(|from| from.to_string()),
            "code": code,
        }))
    }

    fn log(&self) -> MutexGuard<'_, AuditLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditLog {
    /// Appends a whole line, or nothing.
    fn append(&mut self, mut line: Value) -> io::Result<()> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        line["at"] = json!(since.map_or(0, |since| since.as_secs()));
        line["before"] = json!(self.before);
        let line = line.to_string();
        if let Some(whole) = self.whole {
            self.file.set_len(whole)?;
            self.whole = None;
        }
        // A pipe has no length, and nothing to cut off.
        let length = self.file.metadata().ok().filter(std::fs::Metadata::is_file);
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        match written {
            Ok(()) => self.before = hash(line.as_bytes()),
            Err(_) => self.whole = length.map(|file| file.len()),
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(number: usize) -> StatementText {
        StatementText::of(&format!("SELECT {number}"))
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let mut before = String::new();
        let line = |line: &str| {
            let read = serde_json::from_str(line).unwrap_or(Value::Null);
            assert!(read.is_null() || read["before"] == before.as_str());
            before = hash(line.as_bytes());
            read
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn each_line_holds_the_hash_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for sql in ["SELECT 1", "CREATE ROLE lab PASSWORD 'correct horse'", "SELECT 2"] {
            let log = Audit::open(&path).unwrap();
            log.statement("lab", &StatementText::of(sql), "00000", None).unwrap();
        }
        let log = Audit::open(&path).unwrap();
        log.log_in("lab", Some([10, 0, 0, 7].into()), "28P01").unwrap();
        log.log_in("correct horse", None, "28P01").unwrap();
        let lines = lines(&path);
        assert_eq!(lines.len(), 5);
        assert!(lines[1]["statement"].is_null());
        assert_eq!((&lines[3]["role"], &lines[3]["from"]), (&json!("lab"), &json!("10.0.0.7")));
        assert!(!std::fs::read_to_string(&path).unwrap().contains("horse"));
    }

    #[test]
    fn a_line_that_breaks_off_ends_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        Audit::open(&path).unwrap().statement("lab", &asked(1), "00000", None).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{{\"at\":17")).unwrap();
        Audit::open(&path).unwrap().statement("lab", &asked(2), "00000", None).unwrap();
        let lines = lines(&path);
        assert!(lines.len() == 3 && lines[1].is_null() && !lines[2].is_null());
    }

    /// If a line could not be written, the next line does not hold its hash.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_not_written_is_not_the_line_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = Audit::open(&path).unwrap();
        log.statement("lab", &asked(1), "00000", None).unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut log.log().file, full);
        assert!(log.statement("lab", &asked(2), "00000", None).is_err());
        log.log().file = file;
        log.statement("lab", &asked(3), "00000", None).unwrap();
        assert_eq!(lines(&path).len(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_that_of_one_server_and_of_nobody_else() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let log = Audit::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Audit::open(&path).unwrap_err().to_string().contains("another server"));
        drop(log);
        Audit::open(&path).unwrap();
    }
}
