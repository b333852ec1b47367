//! The binary under test, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// What a run of the binary came to.
#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Fails unless the run ended with this status and standard error holds all of these words.
    #[track_caller]
    pub fn says(&self, status: i32, words: &[&str]) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// The lines of standard output, each a JSON object.
    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            status: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// A folder with a vault `study.db` and whatever files a test puts beside it.
#[derive(Debug)]
pub struct Study {
    folder: TempDir,
}

impl Study {
    /// A folder with a fresh vault.
    pub fn new() -> Self {
        let study = Self { folder: tempfile::tempdir().unwrap() };
        study.run(&["init", "study.db"]).says(0, &["created vault"]);
        study
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// The binary with these arguments, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hushql"));
        command.args(arguments).current_dir(self.folder.path()).env("RUST_BACKTRACE", "0");
        // Not what whoever runs the tests has set up.
        command.env("HUSHQL_CONFIG", "").env_remove("HUSHQL_ANALYST");
        command.stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        self.command(arguments).output().unwrap().into()
    }

    /// Statements of the owner.
    pub fn owner(&self, sql: &str) -> Run {
        self.run(&["study.db", "--owner", "-c", sql])
    }

    /// Statements of an analyst.
    pub fn lab(&self, sql: &str) -> Run {
        self.run(&["study.db", "--analyst", "lab", "-c", sql])
    }

    /// Statements of an analyst, all of them, one JSON object each.
    pub fn answers(&self, sql: &str) -> Vec<Value> {
        let run = self.run(&[
            "study.db",
            "--analyst",
            "lab",
            "--format",
            "json",
            "--keep-going",
            "-c",
            sql,
        ]);
        run.lines()
    }

    /// How many charges the ledger holds, and everything that SHOW tells about the budgets.
    pub fn spent(&self) -> (i64, String) {
        let ledger = self.answers("SELECT COUNT(*) AS n FROM hushql.ledger; SHOW PRIVACY BUDGET");
        (ledger[0]["rows"][0][0].as_i64().unwrap(), ledger[1]["rows"].to_string())
    }

    /// A table `people` of four rows with a unit and a large budget. Its file may change, so that
    /// each question is paid.
    pub fn with_people() -> Self {
        let study = Self::new();
        study.write("people.csv", "id,age,city\n1,30,Rome\n2,41,Oslo\n3,52,Rome\n4,63,Bonn\n");
        study
            .owner(
                "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv'
                     OPTIONS ('content_hash' 'false');
                 ALTER TABLE people SET PRIVACY UNIT ROW;
                 ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 100);
                 ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Rome', 'Oslo');
                 CREATE PRIVACY BUDGET b FOR people LIMIT (epsilon=100000, delta=1e-5)
                     PER QUERY (max=50000)",
            )
            .says(0, &[]);
        study
    }
}

/// A file of the folder `../shared` beside the checkout, where there is one.
pub fn shared(name: &str) -> Option<String> {
    // Cargo says where it runs the tests; a test program that was moved knows where it was built.
    let checkout = std::env::var("CARGO_MANIFEST_DIR");
    let checkout = checkout.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    std::fs::read_to_string(Path::new(&checkout).join("../shared").join(name)).ok()
}
