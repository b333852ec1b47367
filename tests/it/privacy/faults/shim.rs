//! The shim, built once with the C compiler that Rust links with, and what a child under it did.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Eio,
    Enospc,
    Eintr,
    /// This call and every later one.
    EioOn,
    EnospcOn,
    /// Half of a write, and no space for the rest.
    Short,
    /// The process ends before, within or after the call.
    Kill,
    KillHalf,
    KillAfter,
}

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::Eio,
        Self::Enospc,
        Self::Eintr,
        Self::EioOn,
        Self::EnospcOn,
        Self::Short,
        Self::Kill,
        Self::KillHalf,
        Self::KillAfter,
    ];

    /// Its name in the shim.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eio => "eio",
            Self::Enospc => "enospc",
            Self::Eintr => "eintr",
            Self::EioOn => "eio-on",
            Self::EnospcOn => "enospc-on",
            Self::Short => "short",
            Self::Kill => "kill",
            Self::KillHalf => "kill-half",
            Self::KillAfter => "kill-after",
        }
    }

    /// Whether it can happen to this call: half of it only to a write.
    pub fn hits(self, call: &Call) -> bool {
        call.name == "write" || !matches!(self, Self::Short | Self::KillHalf)
    }
}

/// A call of the child, as the shim wrote it down.
#[derive(Debug, Clone)]
pub struct Call {
    /// From 1; 0 for a request for random bytes, which is no call on the vault.
    pub number: usize,
    pub name: String,
    /// `d` the vault, `j` its journal, `w` its -wal, `f` its folder, `a` the anchor, `g` the
    /// anchor's folder.
    pub file: char,
    /// Offset, length, flags or lock.
    pub detail: i64,
    /// What was written.
    pub bytes: Vec<u8>,
}

impl Call {
    fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        let (number, name, file, detail) = (word(), word(), word(), word());
        let byte = |at: usize| u8::from_str_radix(&word_at(line, at), 16).unwrap();
        let hex = line.rsplit_once(' ').unwrap().1.len();
        Self {
            number: number.parse().unwrap(),
            name: name.to_owned(),
            file: file.chars().next().unwrap(),
            detail: detail.parse().unwrap(),
            bytes: (0..hex / 2).map(byte).collect(),
        }
    }

    pub fn is(&self, name: &str, file: char) -> bool {
        self.name == name && self.file == file
    }
}

/// The two digits of a byte in the last word of a line.
fn word_at(line: &str, at: usize) -> String {
    let hex = line.rsplit_once(' ').unwrap().1;
    hex[2 * at..2 * at + 2].to_owned()
}

/// The library, built where cargo lets tests write.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(folder).unwrap();
        let (built, fresh) =
            (folder.join("shim.so"), folder.join(format!("shim-{}.so", std::process::id())));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let made = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&fresh, &source])
            .arg("-ldl")
            .output();
        let made = made.unwrap_or_else(|error| {
            panic!("the fault tests need a C compiler, and `{compiler}` does not start: {error}")
        });
        assert!(made.status.success(), "{compiler}: {}", String::from_utf8_lossy(&made.stderr));
        // Another run of the tests may be doing the same: the last one wins, and all are alike.
        std::fs::rename(&fresh, &built).unwrap();
        built
    })
}

/// Puts a child under the shim.
pub fn under<'a>(command: &'a mut Command, vault: &Path, anchor: Option<&Path>) -> &'a mut Command {
    if let Some(anchor) = anchor {
        command.env("SHIM_ANCHOR", anchor);
    }
    command.env("LD_PRELOAD", library()).env("SHIM_VAULT", vault)
}

/// The calls of a child, in order.
pub fn calls(log: &Path) -> Vec<Call> {
    std::fs::read_to_string(log).unwrap().lines().map(Call::parse).collect()
}
