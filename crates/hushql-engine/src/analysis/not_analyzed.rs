//! Why a query is not analyzed.
//!
//! In: what the analysis meets. Out: one of four reasons. A refusal is for people: it says what to
//! write instead. A missing range is a refusal too, unless the range can be found first; so is an
//! inner aggregate over many people, unless it can be released. A fault is the engine's own: a plan
//! that it built does not hold.
//!
//! ```text
//! SUM(price), price without a range   →  NoRange: the caller finds bounds, or refuses with HQ007
//! SELECT price FROM orders            →  Refused: HQ001
//! a column that was carried is lost   →  Fault: a bug, whose cause is not shown
//! ```

use std::fmt;

use datafusion::common::DataFusionError;

use crate::refusal::Refusal;

/// Why a query has no [`Analysis`](crate::analysis::Analysis).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAnalyzed {
    /// The engine refuses the query.
    Refused(Refusal),
    /// A release adds up values that have no range.
    NoRange(NoRange),
    /// An aggregate below a release mixes the rows of many units. Where nothing above it names a
    /// mechanism, it can be the release itself.
    ManyUnits(Refusal),
    /// A check of the engine itself failed.
    Fault(Fault),
}

/// A release without a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRange {
    /// The number of the release, where the query writes it as one.
    pub(crate) release: Option<usize>,
    /// What is said where its bounds are not found either.
    pub(crate) refusal: Refusal,
}

/// What failed in the engine itself. It speaks of plans and schemas, and not of rows; people
/// outside see that something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(String);

impl NotAnalyzed {
    /// The same reason with what is said to people changed.
    #[must_use]
    pub(crate) fn said(self, change: impl FnOnce(Refusal) -> Refusal) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(change(refusal)),
            Self::ManyUnits(refusal) => Self::ManyUnits(change(refusal)),
            Self::NoRange(NoRange { release, refusal }) => {
                Self::NoRange(NoRange { release, refusal: change(refusal) })
            }
            Self::Fault(fault) => Self::Fault(fault),
        }
    }

    /// The same reason, where it was met in a release of this number.
    #[must_use]
    pub(crate) fn in_release(self, release: Option<usize>) -> Self {
        match self {
            Self::NoRange(NoRange { refusal, .. }) => Self::NoRange(NoRange { release, refusal }),
            Self::Refused(_) | Self::ManyUnits(_) | Self::Fault(_) => self,
        }
    }
}

impl From<Refusal> for NotAnalyzed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for NotAnalyzed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal)
            | Self::ManyUnits(refusal)
            | Self::NoRange(NoRange { refusal, .. }) => refusal.fmt(f),
            Self::Fault(Fault(cause)) => write!(f, "a fault of the analysis: {cause}"),
        }
    }
}

impl std::error::Error for NotAnalyzed {}

/// What the planner says about a plan that the analysis built: it should have built another one.
pub(crate) fn internal(error: &DataFusionError) -> NotAnalyzed {
    NotAnalyzed::Fault(Fault(error.strip_backtrace()))
}

/// A hidden column that an operator should have carried along is not there.
pub(crate) fn lost() -> NotAnalyzed {
    NotAnalyzed::Fault(Fault("a hidden column of some rows was lost on the way".to_owned()))
}
