//! The errors of a vault, in sentences for people.
//!
//! In: SQLite's codes and the vault's own checks. Out: a [`VaultError`], which says what happened
//! to which file and what to do. Cases that require different actions (wait, restore a backup, free
//! disk space, ask the owner) are distinct, and keep their sources. No message depends on data.
//!
//! ```
//! use hushql_vault::ledger::{Vault, VaultError};
//!
//! let error = Vault::open("/nowhere/study.db").unwrap_err();
//! assert!(matches!(error, VaultError::Missing { .. }));
//! assert!(error.to_string().ends_with("make one with `hushql init /nowhere/study.db`"));
//! ```

use std::io;

use hushql_privacy::privacy::{ParameterError, Spend};
use hushql_privacy::sampler::SamplerError;
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC, SQLITE_READONLY_DBMOVED};
use thiserror::Error;

use crate::catalog::{CatalogError, SliceOf, Touched, payer, quoted};
use crate::ledger::wording::{
    DRIFTED, cap, named, other_version, parameter, path_or, this, without_delta, without_replays,
};

/// Why a vault refuses.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The file does not exist. Opening creates no vault: deleting a file must not reset a budget.
    #[error(
        "there is no vault{}; make one with `hushql init {}`",
        named(path),
        path_or(path, "PATH")
    )]
    Missing {
        /// The file.
        path: String,
    },
    /// `init` was called for a file that exists.
    #[error("{} already exists; HushQL never overwrites a vault", this(path))]
    Exists {
        /// The file.
        path: String,
    },
    /// The path is a directory or something else that is not a file.
    #[error("{} is not a file, so it cannot be a vault", this(path))]
    NotAFile {
        /// The path.
        path: String,
    },
    /// The file is empty, or it is not a vault.
    #[error("{} is not a HushQL vault; create one with `hushql init` under a new name", this(path))]
    NotAVault {
        /// The file.
        path: String,
    },
    /// Another version of this program made the file.
    #[error(
        "the vault{} has format {found}, but this program reads format {known}{}",
        named(path),
        other_version(*found, *known)
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
        "the vault{} is damaged ({detail}) and answers no queries until its owner restores it",
        named(path)
    )]
    Corrupt {
        /// The file.
        path: String,
        /// The damage that was found.
        detail: String,
        /// The error of SQLite or the catalog, if one of them detected the damage.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The file cannot be written.
    #[error("the vault{} is read-only, so no query can be charged or answered", named(path))]
    ReadOnly {
        /// The file.
        path: String,
    },
    /// The file is not in the place where it was opened.
    #[error(
        "the vault{} was moved or removed while it was open, so nothing can be charged to it",
        named(path)
    )]
    Moved {
        /// The former path of the file.
        path: String,
    },
    /// The file has several names, and each name would have a journal of its own.
    #[error(
        "the vault{} has {links} names (hard links), and a charge under one name could be lost under another: remove all names but one",
        named(path)
    )]
    Linked {
        /// The file.
        path: String,
        /// The number of its names.
        links: u64,
    },
    /// The file, its folder or its name differs from the stored home.
    #[error(
        "the vault{} was copied, restored, renamed, moved or mounted elsewhere since its last use; if only this copy will be used from now on, its owner adopts it with `hushql adopt {}`",
        named(path),
        path_or(path, "VAULT")
    )]
    NotAtHome {
        /// The file.
        path: String,
    },
    /// A journal would undo transactions that were committed after its beginning.
    #[error(
        "the journal beside the vault{} belongs to another state of the vault and could undo charges: move the file `{}-journal` away, and keep it",
        named(path),
        path_or(path, "VAULT")
    )]
    ForeignJournal {
        /// The file.
        path: String,
    },
    /// The vault has an anchor and was opened without one.
    #[error(
        "the vault{} has an anchor and opens only with it: add `--anchor FILE`; its owner can remove the anchor with `hushql anchor {} --remove`",
        named(path),
        path_or(path, "VAULT")
    )]
    Unanchored {
        /// The file.
        path: String,
    },
    /// The program may not open the file.
    #[error(
        "the vault{} cannot be opened; check that you may read and write it and its folder",
        named(path)
    )]
    CannotOpen {
        /// The file.
        path: String,
        /// The error of the system.
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
    #[error("the disk of the vault{} is full, so no query can be charged or answered", named(path))]
    DiskFull {
        /// The file.
        path: String,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// Reading or writing the file failed.
    #[error(
        "reading or writing the vault{} failed, so no query can be charged or answered",
        named(path)
    )]
    Failed {
        /// The file.
        path: String,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// An earlier write failed in a way that leaves the state of the disk unknown.
    #[error("an earlier write to the vault{} failed; open it again", named(path))]
    Poisoned {
        /// The file.
        path: String,
    },
    /// An analyst has added the largest allowed number of entries to the ledger today.
    #[error(
        "the vault takes at most {most} entries of one analyst a day, so that nobody fills its disk: ask again tomorrow (UTC)"
    )]
    EnoughToday {
        /// The limit for one day.
        most: i64,
    },
    /// A role has changed its password as often today as allowed.
    #[error(
        "a role can change its password {most} times a day: ask the owner to write ALTER ROLE … PASSWORD"
    )]
    EnoughPasswords {
        /// The limit for one day.
        most: i64,
    },
    /// The system's clock is wrong: entries would have wrong times, and nothing would expire.
    #[error("this machine's clock is wrong, it says a time before 1970: set it, and ask again")]
    Clock,
    /// The vault's folder is not synced, so the last transaction may not survive a power cut.
    #[error(
        "the folder of the vault{} cannot be synced, so a charge could be lost and no query is answered",
        named(path)
    )]
    Unsynced {
        /// The file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The vault ends before its anchor's entry.
    #[error(
        "the vault{} is older than its anchor{}: an older copy replaced it, and it answers no queries",
        named(path),
        named(anchor)
    )]
    PutBack {
        /// The file.
        path: String,
        /// The anchor.
        anchor: String,
    },
    /// The vault has another entry with the number of the anchor's entry.
    #[error(
        "the vault{} has another history than its anchor{}: an older copy was restored and charged since, or the anchor belongs to another vault; the vault answers no queries",
        named(path),
        named(anchor)
    )]
    OtherHistory {
        /// The file.
        path: String,
        /// The anchor.
        anchor: String,
    },
    /// The anchor does not exist. Opening never creates one; otherwise deleting it would make it
    /// forget.
    #[error(
        "there is no anchor{}; if the vault is not an older copy, its owner can create an anchor with `hushql anchor VAULT {}`",
        named(anchor),
        path_or(anchor, "FILE")
    )]
    NoAnchor {
        /// The anchor.
        anchor: String,
    },
    /// The path of a new anchor names an existing file.
    #[error("{} already exists; HushQL never overwrites an anchor", this(anchor))]
    AnchorExists {
        /// The anchor.
        anchor: String,
    },
    /// The path of a new anchor is in the folder of its vault.
    #[error(
        "{} is in the vault's own folder, and a restored folder would contain both; keep the anchor elsewhere",
        this(anchor)
    )]
    AnchorBeside {
        /// The anchor.
        anchor: String,
    },
    /// HushQL never writes such a text into an anchor.
    #[error(
        "the anchor{} is damaged: the vault answers no queries until its owner restores the anchor or, if the vault is not an older copy, removes the anchor and creates another",
        named(anchor)
    )]
    AnchorDamaged {
        /// The anchor.
        anchor: String,
    },
    /// The anchor cannot be read or moved.
    #[error(
        "the anchor{} cannot be read or written: what was charged stays charged, and no query is answered",
        named(anchor)
    )]
    Anchor {
        /// The anchor.
        anchor: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The anchor cannot be created.
    #[error(
        "the anchor{} cannot be created; check that its folder exists and that you may write to it",
        named(anchor)
    )]
    AnchorUnmade {
        /// The anchor.
        anchor: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Another program held the vault when the anchor had to move.
    #[error(
        "the vault{} was in use by another program before its anchor could be moved: what was charged stays charged, and the query is not answered",
        named(path)
    )]
    AnchorLate {
        /// The file.
        path: String,
    },
    /// The catalog refused a declaration.
    #[error(transparent)]
    Catalog(CatalogError),
    /// A charged query failed on the files of a table, and the table was not declared again since.
    #[error("the files of {table} {DRIFTED}: {write}")]
    Drifted {
        /// The table.
        table: String,
        /// What to do.
        write: String,
    },
    /// A query reads a private table without a budget.
    #[error(
        "the private table `{table}` has no privacy budget; its owner can create one with `CREATE PRIVACY BUDGET … FOR {} LIMIT (epsilon=…)`",
        quoted(table)
    )]
    NoBudget {
        /// The unit domain, named after its table.
        table: String,
    },
    /// The budget cannot pay the cost of the query.
    #[error(
        "{}{} does not suffice: this query costs {asked}, but only {left} is left{}",
        cell.as_ref().map_or_else(String::new, |cell| format!("for {cell}, ")),
        payer(budget, slice.as_ref()),
        without_delta(budget, asked, left)
    )]
    Exhausted {
        /// The budget.
        budget: String,
        /// The slice with too little left, if the budget has slices.
        slice: Option<SliceOf>,
        /// The cell in which too little is left, if the budget has cells.
        cell: Option<Box<Touched>>,
        /// The cost of the query there.
        asked: Spend,
        /// The remainder of the budget.
        left: Spend,
    },
    /// A release has a cost in ρ only, but the budget counts in ε or in coupons of an ε.
    #[error(
        "the privacy budget `{budget}` counts releases by their epsilon, but one of this query has a cost in rho alone: write eps=… instead of rho=…"
    )]
    NoEpsilon {
        /// The budget.
        budget: String,
    },
    /// The query costs less than the minimum per query.
    #[error(
        "this query costs {asked}, and the privacy budget `{budget}` takes at least {least} per query: write {} or more for all releases of the query together{}",
        parameter(least),
        without_replays(*shows_again)
    )]
    UnderMin {
        /// The budget.
        budget: String,
        /// The cost of the query.
        asked: Spend,
        /// The minimum cost of one query.
        least: Spend,
        /// Whether the query also shows releases again, which does not count.
        shows_again: bool,
    },
    /// The query costs more than the maximum per query.
    #[error("this query costs {asked}, and the privacy budget `{budget}` allows {most} per query")]
    OverMax {
        /// The budget.
        budget: String,
        /// The cost of the query.
        asked: Spend,
        /// The maximum cost of one query.
        most: String,
    },
    /// The query costs more than the caps of the session leave.
    #[error(
        "this query costs {asked}, and this session may spend {}",
        cap(most, left, *a_day, template.as_deref())
    )]
    OverCap {
        /// The cost of the query, in the notion of the cap.
        asked: Spend,
        /// The cap.
        most: Spend,
        /// The remainder of the cap.
        left: Spend,
        /// Whether the cap is of a day, and not of a statement.
        a_day: bool,
        /// The template that is called, whose owner fixed what a call costs.
        template: Option<String>,
    },
    /// A release has a cost in ρ only, and the caps of the session count ε alone.
    #[error(
        "this session may spend an epsilon, but a release of this query has a cost in rho alone: write eps=… instead of rho=…"
    )]
    CapWithoutRho,
    /// The budgets of a template do not allow a call, and the caller may not know their names.
    #[error(
        "the template `{template}` costs more than its budgets allow now: its owner raises them, or an earlier call is asked again"
    )]
    OverTemplate {
        /// The template.
        template: String,
    },
    /// A release costs more than one coupon of the budget.
    #[error(
        "the privacy budget `{budget}` pays for a release with one coupon of {coupon}, and a release of this query costs {asked}: write eps={} or less; more coupons do not pay for more",
        coupon.loss_text()
    )]
    OverCoupon {
        /// The budget.
        budget: String,
        /// The ε of the most expensive release.
        asked: Spend,
        /// The ε of a coupon.
        coupon: Spend,
    },
    /// A loss or a sum of losses does not fit the ledger's integers.
    #[error("the cost of this query is out of range")]
    Amount(#[from] ParameterError),
    /// The operating system has no random bytes. They make each charge unique.
    #[error("the operating system provided no random bytes; nothing was charged")]
    Entropy(#[source] SamplerError),
    /// The declarations changed between the plan of a statement and its charge, or during a
    /// declaration.
    #[error(
        "the declarations changed while this statement was prepared, so nothing was charged or declared: run the statement again"
    )]
    Redeclared,
    /// A charge without releases, loss or tables would prove no payment.
    #[error("a charge needs a release, a loss greater than 0 and a private table")]
    EmptyCharge,
    /// The name is not allowed for an analyst.
    #[error("`{}` cannot be the name of an analyst: use 1 to 64 letters from a to z, digits, `_` and `-`, and nothing that reads like `owner`", name.escape_default())]
    AnalystName {
        /// The name.
        name: String,
    },
}

impl VaultError {
    /// True if a budget is the reason: its remainder, its bounds per query, or its notion; or a cap
    /// of the session.
    pub fn is_budget(&self) -> bool {
        let has_no_name =
            matches!(self, Self::OverCap { .. } | Self::CapWithoutRho | Self::OverTemplate { .. });
        self.budget().is_some() || has_no_name
    }

    /// The same error of a call of this template, whose cost the caller does not write.
    #[must_use]
    pub fn of_template(mut self, called: &str) -> Self {
        if let Self::OverCap { template, .. } = &mut self {
            *template = Some(called.to_owned());
        }
        self
    }

    /// The name of the budget that is the reason.
    pub fn budget(&self) -> Option<&str> {
        match self {
            Self::Exhausted { budget, .. }
            | Self::UnderMin { budget, .. }
            | Self::OverMax { budget, .. }
            | Self::OverCoupon { budget, .. }
            | Self::NoEpsilon { budget } => Some(budget),
            _ => None,
        }
    }
}

/// A failure inside a transaction, before the file is named.
#[derive(Debug)]
pub(crate) enum Fault {
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
    /// True if this fault leaves the state of the file unknown, so that the handle must not be used
    /// again.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::SystemIoFailure | ErrorCode::InternalMalfunction)
            ),
            Self::Damage(_) | Self::Refusal(_) => false,
        }
    }

    /// True if a sync of the file, of its journal or of its folder failed.
    pub(super) fn is_failed_sync(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error().is_some_and(|error| {
                [SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC].contains(&error.extended_code)
            }),
            Self::Refusal(error) => matches!(error, VaultError::Unsynced { .. }),
            Self::Damage(_) => false,
        }
    }

    /// Poisons the handle if the fault is lasting.
    pub(super) fn leaves(self, poisoned: &mut bool) -> Self {
        *poisoned |= self.is_lasting();
        self
    }

    /// Adds the name of the file.
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
            // Without a code: a stored value has a type or a text that this program never writes.
            None => VaultError::Corrupt {
                path,
                detail: "a stored value is unreadable".to_owned(),
                source: Some(Box::new(error)),
            },
        }
    }
}
