//! The machine: what a program asks of the system, under orders of the simulation.
//!
//! The shim of the `faults` tests (`tests/faults/shim.c`) is loaded before the C library, so that
//! it sees every call of SQLite and of the vault on their files, the clock, and all entropy. It
//! reads an order before each call: which call fails and how, the time of the day, and the seed of
//! the random bytes. It writes each call down. The test runs itself again under the shim.
//!
//! ```text
//! test ─▶ the same test, LD_PRELOAD=shim.so ─ order ─▶ shim ─ calls ─▶ disk
//! ```

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::history::Trouble;

/// Where a child has its files.
const ROOT: &str = "SIMULATION_ROOT";

/// The number of a child.
const WORKER: &str = "SIMULATION_WORKER";

/// One call on the files of the vault, as the shim wrote it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// With `!` before it if it was not made.
    pub name: String,
    /// `d` the vault, `j` its journal, `f` their folder, `a` the anchor, `g` its folder.
    pub file: char,
    /// Offset, length, flags or lock.
    pub detail: i64,
    /// What was written.
    pub bytes: Vec<u8>,
}

/// The system under a simulated program.
#[derive(Debug)]
pub struct Machine {
    root: PathBuf,
    /// The number of this child, from 0.
    pub worker: u64,
    number: Cell<u64>,
    seed: Cell<u64>,
    clock: Cell<i64>,
}

impl Machine {
    /// Runs `body` in `workers` children at the same time, each on a machine of its own. In a
    /// child, calls it.
    pub fn run(test: &str, workers: u64, body: impl FnOnce(&Self)) {
        if let Ok(root) = std::env::var(ROOT) {
            let worker = std::env::var(WORKER).unwrap().parse().unwrap();
            let root = PathBuf::from(root);
            let (number, seed, clock) = (Cell::new(0), Cell::new(0), Cell::new(0));
            let machine = Self { root, worker, number, seed, clock };
            machine.set(0, 0);
            return body(&machine);
        }
        // Nothing of the disk is real, least of all its syncs.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::tempdir_in(place.canonicalize().unwrap()).unwrap();
        let shim = build(folder.path());
        let children: Vec<_> = (0..workers)
            .map(|worker| child(test, &shim, &folder.path().join(worker.to_string()), worker))
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            print!("{}", String::from_utf8_lossy(&output.stdout));
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {errors}", output.status);
        }
    }

    /// The vault.
    pub fn vault(&self) -> PathBuf {
        self.root.join("vault/study.db")
    }

    /// The journal that SQLite makes beside the vault.
    pub fn journal(&self) -> PathBuf {
        self.root.join("vault/study.db-journal")
    }

    /// The anchor.
    pub fn anchor(&self) -> PathBuf {
        self.root.join("anchor/mark")
    }

    /// The file that becomes the anchor.
    pub fn new_anchor(&self) -> PathBuf {
        self.root.join("anchor/mark.new")
    }

    /// A folder for data, which no fault reaches.
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Begins a world: its seed, and the time of the day in seconds since 1970.
    pub fn set(&self, seed: u64, clock: i64) {
        self.seed.set(seed);
        self.clock.set(clock);
        self.order(None);
        self.calls();
    }

    /// Moves the clock by seconds.
    pub fn jump(&self, seconds: i64) {
        self.clock.set(self.clock.get() + seconds);
        self.order(None);
    }

    /// From now on this call fails; without one, none does.
    pub fn order(&self, trouble: Option<&Trouble>) {
        self.number.set(self.number.get() + 1);
        let (number, clock, seed) = (self.number.get(), self.clock.get(), self.seed.get());
        let hit = trouble.map_or_else(
            || "- - 0 -".to_owned(),
            |Trouble { call, file, which, how, .. }| {
                format!("{call} {file} {which} {}", how.name())
            },
        );
        fs::write(self.root.join("orders"), format!("{number} {hit} {clock} {seed}\n")).unwrap();
    }

    /// The calls since the last time.
    pub fn calls(&self) -> Vec<Call> {
        let log = self.root.join("log");
        let calls = self.calls_so_far();
        fs::OpenOptions::new().write(true).open(log).unwrap().set_len(0).unwrap();
        calls
    }

    /// The same, and they stay.
    pub fn calls_so_far(&self) -> Vec<Call> {
        let text = fs::read_to_string(self.root.join("log")).unwrap();
        text.lines().filter_map(Call::parse).collect()
    }
}

impl Call {
    /// A line of the log; nothing for calls that neither change a file nor show locks.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(5, ' ').skip(1);
        let mut word = || words.next().unwrap_or_default();
        let (name, file, detail, hex) = (word(), word(), word(), word());
        if matches!(name, "read" | "stat" | "statx" | "close" | "access") {
            return None;
        }
        let digit = |byte: u8| if byte < b'a' { byte - b'0' } else { byte - b'a' + 10 };
        let bytes = hex.as_bytes().chunks_exact(2).map(|two| digit(two[0]) << 4 | digit(two[1]));
        Some(Self {
            name: name.to_owned(),
            file: file.chars().next()?,
            detail: detail.parse().ok()?,
            bytes: bytes.collect(),
        })
    }
}

/// The shim, built with the C compiler that Rust links with.
fn build(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../faults/shim.c");
    let built = folder.join("shim.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-fPIC", "-O1", "-o"]).args([&built, &source]).arg("-ldl");
    let made = command.output().unwrap_or_else(|error| {
        panic!("the simulation needs a C compiler, and `{compiler}` does not start: {error}")
    });
    assert!(made.status.success(), "{compiler}: {}", String::from_utf8_lossy(&made.stderr));
    built
}

/// This test once more, under the shim.
fn child(test: &str, shim: &Path, root: &Path, worker: u64) -> std::process::Child {
    for folder in ["vault", "anchor", "data"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("orders"), "").unwrap();
    let machine = Machine {
        root: root.to_owned(),
        worker,
        number: Cell::new(0),
        seed: Cell::new(0),
        clock: Cell::new(0),
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .envs([("LD_PRELOAD", shim), (ROOT, root)].map(|(name, path)| (name, path.as_os_str())))
        .env(WORKER, worker.to_string())
        .env("SHIM_VAULT", machine.vault())
        .env("SHIM_ANCHOR", machine.anchor())
        .env("SHIM_ORDERS", root.join("orders"))
        .env("SHIM_LOG", root.join("log"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}
