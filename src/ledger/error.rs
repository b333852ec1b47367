//! Why a vault refuses, in sentences for people.
//!
//! SQLite's codes and the vault's own checks go in; out comes a [`VaultError`] that says what happened to
//! which file and what to do. It tells the cases apart that call for different actions (wait, restore a
//! backup, free disk space, ask the owner) and keeps the source of each. No message depends on data.
//!
//! ```
//! use hushql::ledger::{Vault, VaultError};
//!
//! let error = Vault::open("/nowhere/study.db").unwrap_err();
//! assert!(matches!(error, VaultError::Missing { .. }));
//! assert!(error.to_string().ends_with("make one with `hushql init /nowhere/study.db`"));
//! ```

use std::io;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_READONLY_DBMOVED;
use thiserror::Error;

use crate::catalog::CatalogError;
use crate::ledger::version::OLDEST;
use crate::privacy::{Notion, ParameterError, Spend};
use crate::sampler::SamplerError;

/// Why a vault refuses.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VaultError {
    /// There is no such file. A vault is never made on first use: deleting it must not reset a budget.
    #[error(
        "there is no vault{}; make one with `hushql init {}`",
        named(path),
        path_or(path, "PATH")
    )]
    Missing {
        /// The file.
        path: String,
    },
    /// `init` was asked to make a file that exists.
    #[error("{} exists already; a vault is never overwritten", this(path))]
    Exists {
        /// The file.
        path: String,
    },
    /// The path is a directory or another thing that is no file.
    #[error("{} is not a file, so it cannot be a vault", this(path))]
    NotAFile {
        /// The path.
        path: String,
    },
    /// The file is empty, or something else.
    #[error(
        "{} is not a HushQL vault; `hushql init` makes one under a name that no file has",
        this(path)
    )]
    NotAVault {
        /// The file.
        path: String,
    },
    /// The file was made by another version of this program.
    #[error(
        "the vault{} has format {found} and this program reads format {known}{}",
        named(path),
        other_version(path, *found, *known)
    )]
    Version {
        /// The file.
        path: String,
        /// The format of the file.
        found: i64,
        /// The format that this program reads.
        known: i64,
    },
    /// The file is damaged.
    #[error(
        "the vault{} is damaged ({detail}): nothing is answered until its owner restores it",
        named(path)
    )]
    Corrupt {
        /// The file.
        path: String,
        /// What was found.
        detail: String,
        /// What SQLite or the catalog said, if they noticed.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The file cannot be written, so nothing can be charged.
    #[error("the vault{} is read-only, and what cannot be charged is not answered", named(path))]
    ReadOnly {
        /// The file.
        path: String,
    },
    /// The file is not where it was when it was opened.
    #[error(
        "the vault{} was moved or removed while it was open, and nothing can be charged to it",
        named(path)
    )]
    Moved {
        /// Where the file was.
        path: String,
    },
    /// The file has more than one name, and each name would have a journal of its own.
    #[error(
        "the vault{} has {links} names (hard links), and a charge under one of them can be undone under another: remove all names but one",
        named(path)
    )]
    Linked {
        /// The file.
        path: String,
        /// How many names it has.
        links: u64,
    },
    /// The file, its folder or its name is not the one that the vault remembers.
    #[error(
        "the vault{} was copied, restored, renamed, moved or mounted elsewhere since it was last used; if this is the only copy that is used from now on, its owner says so with `hushql adopt {}`",
        named(path),
        path_or(path, "VAULT")
    )]
    NotAtHome {
        /// The file.
        path: String,
    },
    /// A journal would undo transactions that were committed since it was begun.
    #[error(
        "beside the vault{} lies a journal of another state of it, and rolling it back could undo charges: move the file `{}-journal` away, and keep it",
        named(path),
        path_or(path, "VAULT")
    )]
    ForeignJournal {
        /// The file.
        path: String,
    },
    /// The vault has an anchor and was opened without one.
    #[error(
        "the vault{} has an anchor and is opened with it only: add `--anchor FILE`; its owner takes the anchor off with `hushql anchor {} --remove`",
        named(path),
        path_or(path, "VAULT")
    )]
    Unanchored {
        /// The file.
        path: String,
    },
    /// The file may not be opened.
    #[error(
        "the vault{} cannot be opened; check that you may read and write it and its folder",
        named(path)
    )]
    CannotOpen {
        /// The file.
        path: String,
        /// What the system said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another program held the file for longer than the time-out.
    #[error(
        "the vault{} is in use by another program; nothing was charged, try again",
        named(path)
    )]
    Locked {
        /// The file.
        path: String,
    },
    /// The disk is full.
    #[error(
        "the disk of the vault{} is full, and what cannot be charged is not answered",
        named(path)
    )]
    DiskFull {
        /// The file.
        path: String,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// Reading or writing the file failed.
    #[error(
        "reading or writing the vault{} failed, and what cannot be charged is not answered",
        named(path)
    )]
    Failed {
        /// The file.
        path: String,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// An earlier write failed in a way that leaves it unknown what is on the disk.
    #[error("an earlier write to the vault{} failed; open it again", named(path))]
    Poisoned {
        /// The file.
        path: String,
    },
    /// The names in the vault's folder may not outlast a power cut, and with them the last transaction.
    #[error(
        "the folder of the vault{} cannot be synced, and what may be forgotten is not answered",
        named(path)
    )]
    Unsynced {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The vault ends before its anchor's entry.
    #[error(
        "the vault{} is older than its anchor{}: it was put back; nothing is answered",
        named(path),
        named(anchor)
    )]
    PutBack {
        /// The file.
        path: String,
        /// The anchor.
        anchor: String,
    },
    /// Where the anchor has its entry, the vault has another one.
    #[error(
        "the vault{} has another history than its anchor{}: it was put back and charged since, or the anchor is another vault's; nothing is answered",
        named(path),
        named(anchor)
    )]
    OtherHistory {
        /// The file.
        path: String,
        /// The anchor.
        anchor: String,
    },
    /// There is no such anchor. It is never made on first use: deleting it must not make it forget.
    #[error(
        "there is no anchor{}; an owner who knows that the vault was not put back makes one with `hushql anchor VAULT {}`",
        named(anchor),
        path_or(anchor, "FILE")
    )]
    NoAnchor {
        /// The anchor.
        anchor: String,
    },
    /// An anchor was to be made where a file is.
    #[error("{} exists already; an anchor is never overwritten", this(anchor))]
    AnchorExists {
        /// The anchor.
        anchor: String,
    },
    /// An anchor was to be made in the folder of its vault.
    #[error(
        "{} is in the vault's own folder and would be put back with it; keep the anchor elsewhere",
        this(anchor)
    )]
    AnchorBeside {
        /// The anchor.
        anchor: String,
    },
    /// The anchor's text is none that was ever written.
    #[error(
        "the anchor{} is damaged: nothing is answered until its owner restores it, or, knowing that the vault was not put back, removes it and makes another",
        named(anchor)
    )]
    AnchorDamaged {
        /// The anchor.
        anchor: String,
    },
    /// The anchor cannot be read or moved.
    #[error(
        "the anchor{} cannot be read or written: what was charged stays charged and is not answered",
        named(anchor)
    )]
    Anchor {
        /// The anchor.
        anchor: String,
        /// What the system said.
        source: io::Error,
    },
    /// The anchor cannot be made.
    #[error(
        "the anchor{} cannot be made; check that its folder is there and that you may write to it",
        named(anchor)
    )]
    AnchorUnmade {
        /// The anchor.
        anchor: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another program held the vault when its anchor should have been moved.
    #[error(
        "the vault{} was in use by another program before its anchor could be moved: what was charged stays charged and is not answered",
        named(path)
    )]
    AnchorLate {
        /// The file.
        path: String,
    },
    /// The catalog refused a declaration.
    #[error(transparent)]
    Catalog(CatalogError),
    /// A private table without a budget is asked.
    #[error(
        "the private table `{table}` has no privacy budget; its owner makes one with `CREATE PRIVACY BUDGET … FOR {table} LIMIT (epsilon=…)`"
    )]
    NoBudget {
        /// The unit space, named like its table.
        table: String,
    },
    /// The budget does not hold what the query costs.
    #[error(
        "the privacy budget `{budget}` does not suffice: this query costs {asked}, and left is {left}{}",
        without_delta(budget, asked, left)
    )]
    Exhausted {
        /// The budget.
        budget: String,
        /// What the query costs.
        asked: Spend,
        /// What is left.
        left: Spend,
    },
    /// A release has a ρ only, and the budget counts in ε.
    #[error(
        "the privacy budget `{budget}` counts in epsilon, and this query has a release that is priced in rho"
    )]
    NoEpsilon {
        /// The budget.
        budget: String,
    },
    /// The query costs less than one query has to.
    #[error(
        "this query costs {asked}, and the privacy budget `{budget}` takes at least {least} per query: write {} or more, in all releases of the query together",
        parameter(least)
    )]
    UnderMin {
        /// The budget.
        budget: String,
        /// What the query costs.
        asked: Spend,
        /// What one query has to cost.
        least: Spend,
    },
    /// The query costs more than one query may.
    #[error("this query costs {asked}, and the privacy budget `{budget}` allows {most} per query")]
    OverMax {
        /// The budget.
        budget: String,
        /// What the query costs.
        asked: Spend,
        /// What one query may cost.
        most: String,
    },
    /// A loss or a sum of losses does not fit the ledger's integers.
    #[error("the cost of this query cannot be written down")]
    Amount(#[from] ParameterError),
    /// A charge must differ from every other one, and that takes random bytes.
    #[error("the operating system gave no random bytes: nothing was charged")]
    Entropy(#[source] SamplerError),
    /// What is declared changed between the plan of a statement and its charge, or under a declaration.
    #[error(
        "the declarations changed while this statement was prepared, and nothing was charged or declared: say it again"
    )]
    Redeclared,
    /// A charge without releases, without loss or without tables: it would be a proof of no payment.
    #[error("a charge needs a release, a loss greater than 0 and a private table")]
    EmptyCharge,
    /// The name is no analyst's name.
    #[error("`{}` cannot be the name of an analyst: use 1 to 64 letters from a to z, digits, `_` and `-`, and nothing that reads like `owner`", name.escape_default())]
    AnalystName {
        /// The name.
        name: String,
    },
}

/// A path behind what it is the path of; nothing, where it is withheld.
fn named(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" `{path}`") }
}

/// A path that begins a sentence, or what stands for one that is withheld.
fn this(path: &str) -> String {
    if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") }
}

/// A path in a command, or a word for one that is withheld.
fn path_or<'a>(path: &'a str, word: &'a str) -> &'a str {
    if path.is_empty() { word } else { path }
}

/// The parameter of a release that costs this much.
fn parameter(cost: &Spend) -> String {
    let name = match cost.notion {
        Notion::Approximate => "eps",
        Notion::Concentrated => "rho",
    };
    format!("{name}={}", cost.loss_text())
}

/// What to do where only δ is lacking, and there is none at all.
fn without_delta(budget: &str, asked: &Spend, left: &Spend) -> String {
    if asked.nano <= left.nano && asked.atto_delta > 0 && left.atto_delta == 0 {
        format!(
            "; it has no delta, and its owner gives it some with ALTER PRIVACY BUDGET {budget} SET LIMIT (…, delta=…)"
        )
    } else {
        String::new()
    }
}

/// What to do about a vault of an older or newer program.
fn other_version(path: &str, found: i64, known: i64) -> String {
    if found > known {
        ": a newer HushQL made it, which reads it".to_owned()
    } else if found >= OLDEST {
        format!(
            ": an older HushQL made it; its owner carries it over with `hushql upgrade {}`",
            path_or(path, "VAULT")
        )
    } else {
        ": a HushQL made it that is too old to be carried over; make a new vault, and declare there what is left of its budgets".to_owned()
    }
}

impl VaultError {
    /// The same error without the paths of the vault and its anchor: where they are is not for analysts to know.
    #[must_use]
    pub(crate) fn without_paths(mut self) -> Self {
        match &mut self {
            Self::Missing { path }
            | Self::Exists { path }
            | Self::NotAFile { path }
            | Self::NotAVault { path }
            | Self::Version { path, .. }
            | Self::ReadOnly { path }
            | Self::Moved { path }
            | Self::Locked { path }
            | Self::DiskFull { path, .. }
            | Self::Failed { path, .. }
            | Self::Poisoned { path }
            | Self::Unsynced { path, .. }
            | Self::Linked { path, .. }
            | Self::NotAtHome { path }
            | Self::ForeignJournal { path }
            | Self::Unanchored { path }
            | Self::AnchorLate { path } => path.clear(),
            Self::Corrupt { path, source, .. } => {
                path.clear();
                *source = None;
            }
            // SQLite says which file it could not open.
            Self::CannotOpen { path, source } => {
                path.clear();
                *source = "withheld from analysts".into();
            }
            Self::PutBack { path, anchor } | Self::OtherHistory { path, anchor } => {
                path.clear();
                anchor.clear();
            }
            Self::NoAnchor { anchor }
            | Self::AnchorExists { anchor }
            | Self::AnchorBeside { anchor }
            | Self::AnchorDamaged { anchor }
            | Self::Anchor { anchor, .. }
            | Self::AnchorUnmade { anchor, .. } => anchor.clear(),
            Self::Catalog(_)
            | Self::NoBudget { .. }
            | Self::Exhausted { .. }
            | Self::NoEpsilon { .. }
            | Self::UnderMin { .. }
            | Self::OverMax { .. }
            | Self::Amount(_)
            | Self::Entropy(_)
            | Self::Redeclared
            | Self::EmptyCharge
            | Self::AnalystName { .. } => {}
        }
        self
    }

    /// Whether the budget is the reason: exhausted, of another size for one query, or counting otherwise.
    pub fn is_budget(&self) -> bool {
        self.budget().is_some()
    }

    /// The name of the budget that is the reason.
    pub(crate) fn budget(&self) -> Option<&str> {
        match self {
            Self::Exhausted { budget, .. }
            | Self::UnderMin { budget, .. }
            | Self::OverMax { budget, .. }
            | Self::NoEpsilon { budget } => Some(budget),
            _ => None,
        }
    }
}

/// A failure inside a transaction, before the file it happened to is named.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    Damage(String),
    Refusal(VaultError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<VaultError> for Fault {
    fn from(error: VaultError) -> Self {
        Self::Refusal(error)
    }
}

impl From<ParameterError> for Fault {
    fn from(error: ParameterError) -> Self {
        Self::Refusal(VaultError::Amount(error))
    }
}

impl From<CatalogError> for Fault {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Store(source) => Self::Sqlite(source),
            CatalogError::Damaged(detail) => Self::Damage(detail.to_owned()),
            refusal => Self::Refusal(VaultError::Catalog(refusal)),
        }
    }
}

impl Fault {
    /// Whether the state of the file is unknown after this fault, so that the handle must not be used again.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::SystemIoFailure | ErrorCode::InternalMalfunction)
            ),
            Self::Damage(_) | Self::Refusal(_) => false,
        }
    }

    /// Poisons the handle that saw it, if it is lasting.
    pub(super) fn leaves(self, poisoned: &mut bool) -> Self {
        *poisoned |= self.is_lasting();
        self
    }

    /// Names the file.
    pub(super) fn at(self, path: &str) -> VaultError {
        let path = path.to_owned();
        let error = match self {
            Self::Sqlite(error) => error,
            Self::Damage(detail) => return VaultError::Corrupt { path, detail, source: None },
            Self::Refusal(error) => return error,
        };
        if error.sqlite_error().is_some_and(|e| e.extended_code == SQLITE_READONLY_DBMOVED) {
            return VaultError::Moved { path };
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                VaultError::Locked { path }
            }
            Some(ErrorCode::ReadOnly) => VaultError::ReadOnly { path },
            Some(ErrorCode::DiskFull) => VaultError::DiskFull { path, source: error },
            Some(ErrorCode::NotADatabase) => VaultError::NotAVault { path },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                VaultError::CannotOpen { path, source: Box::new(error) }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::ConstraintViolation) => {
                VaultError::Corrupt {
                    path,
                    detail: error.to_string(),
                    source: Some(Box::new(error)),
                }
            }
            Some(_) => VaultError::Failed { path, source: error },
            // No code: a stored value has a type or a text that this program never writes.
            None => VaultError::Corrupt {
                path,
                detail: "a stored value is unreadable".to_owned(),
                source: Some(Box::new(error)),
            },
        }
    }
}
