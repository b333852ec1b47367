//! The reasons why a query is not analyzed.
//!
//! In: what the analysis meets. Out: one of four reasons. A refusal tells the user what to write
//! instead. A missing range is a refusal, too, unless the engine can find the range first. An inner
//! aggregate over many units is a refusal unless it can be released. A fault is a bug of the
//! engine: a plan that it built does not hold.
//!
//! ```text
//! SUM(price), price without a range   →  NoRange: the caller finds bounds, or refuses with HQ007
//! SELECT price FROM orders            →  Refused: HQ001
//! a column that was carried is lost   →  Fault: a bug; the user does not see its cause
//! ```

use std::fmt;

use datafusion::common::DataFusionError;
use datafusion::logical_expr::Aggregate;

use crate::refusal::Refusal;

/// Why a query has no [`Analysis`](crate::analysis::Analysis).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAnalyzed {
    /// The engine refuses the query.
    Refused(Refusal),
    /// A release adds up values that have no range.
    NoRange(NoRange),
    /// An aggregate below a release mixes the rows of many units. If nothing above it names a
    /// mechanism, it can itself be the release.
    ManyUnits(Refusal),
    /// A check of the engine itself failed.
    Fault(Fault),
}

/// A release without a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRange {
    /// The call of it; `None` if its bounds are not found.
    pub(crate) call: Option<CallPlace>,
    /// The refusal for the case that no bounds are found.
    pub(crate) refusal: Refusal,
}

/// A call of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallPlace {
    /// By the number of its release.
    Release(usize),
    /// Without a mechanism.
    Bare(Box<BareCall>),
}

/// An aggregate without a mechanism, by its node in the plan and its place there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BareCall {
    pub(crate) node: Aggregate,
    pub(crate) place: usize,
}

/// A check that failed in the engine itself. The text speaks of plans and schemas, never of rows.
/// Users see only that something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(String);

impl NotAnalyzed {
    /// The same reason, with its refusal changed.
    #[must_use]
    pub(crate) fn said(self, change: impl FnOnce(Refusal) -> Refusal) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(change(refusal)),
            Self::ManyUnits(refusal) => Self::ManyUnits(change(refusal)),
            Self::NoRange(NoRange { call, refusal }) => {
                Self::NoRange(NoRange { call, refusal: change(refusal) })
            }
            Self::Fault(fault) => Self::Fault(fault),
        }
    }

    /// The same reason, with the call in which it was met: the number of its release, or else its
    /// place in an aggregate.
    #[must_use]
    pub(crate) fn in_call(self, release: Option<usize>, node: &Aggregate, place: usize) -> Self {
        match self {
            Self::NoRange(NoRange { refusal, .. }) => {
                let bare = || CallPlace::Bare(Box::new(BareCall { node: node.clone(), place }));
                let call = Some(release.map_or_else(bare, CallPlace::Release));
                Self::NoRange(NoRange { call, refusal })
            }
            Self::Refused(_) | Self::ManyUnits(_) | Self::Fault(_) => self,
        }
    }

    /// The same reason, with the aggregate as the query has it. `None` if its bounds are not found.
    #[must_use]
    pub(crate) fn in_node(self, written: Option<&Aggregate>) -> Self {
        match self {
            Self::NoRange(NoRange { call: Some(CallPlace::Bare(bare)), refusal }) => {
                let place = bare.place;
                let bare = |node: &Aggregate| BareCall { node: node.clone(), place };
                let call = written.map(|node| CallPlace::Bare(Box::new(bare(node))));
                Self::NoRange(NoRange { call, refusal })
            }
            Self::NoRange(_) | Self::Refused(_) | Self::ManyUnits(_) | Self::Fault(_) => self,
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

/// A planner error about a plan that the analysis built: a fault of the analysis.
pub(crate) fn internal(error: &DataFusionError) -> NotAnalyzed {
    NotAnalyzed::Fault(Fault(error.strip_backtrace()))
}

/// The fault that an operator dropped a hidden column that it should have carried along.
pub(crate) fn lost() -> NotAnalyzed {
    NotAnalyzed::Fault(Fault("a hidden column of some rows was lost on the way".to_owned()))
}
