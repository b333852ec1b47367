//! The accuracy of a column of an answer.
//!
//! In: a bound, the quantity that it bounds, and its confidence. Out: the same values for programs,
//! and a sentence for people.
//!
//! ```text
//! n: ± 3.00 with 95 %
//! status: within 4.00 of the best score with 95 %
//! ```

use std::fmt;

use crate::analysis::{Measure, Origin};
use crate::release::{PartitionSelection, Release};
use crate::visible::{self, rounded};

/// The meaning of an accuracy's value.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::AccuracyKind;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let query = session.prepare("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status")?;
/// let kinds: Vec<AccuracyKind> = query.accuracy().iter().map(|accuracy| accuracy.kind).collect();
/// assert_eq!(kinds, [AccuracyKind::Winner, AccuracyKind::Average]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccuracyKind {
    /// The column's numbers are within the value of the bounded aggregate.
    Within,
    /// The column's numbers were drawn within the value of the bounded aggregate. But they decide
    /// themselves whether they are shown, through a threshold, a filter or a LIMIT. Numbers that
    /// are large by chance are shown more often, so fewer of the shown ones are within the value.
    Drawn,
    /// The winner's score is within the value of the best score.
    Winner,
    /// No other candidate's score exceeds the winner's by more than the value times the change that
    /// one row can make to *that* candidate's score.
    OwnRows,
    /// The value's rank is within this many rows of the best rank that a candidate has.
    Rank,
    /// The value's rank is within this many values of blocks of the best rank that a candidate has.
    BlockRank,
    /// On average the winner's score, or the value's rank, is within the value of the best.
    Average,
    /// The value is the probability that a response is the entry's own value.
    Truthful,
}

impl fmt::Display for AccuracyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Within => "within",
            Self::Drawn => "drawn",
            Self::Winner => "winner",
            Self::OwnRows => "own_rows",
            Self::Rank => "rank",
            Self::BlockRank => "block_rank",
            Self::Average => "average",
            Self::Truthful => "truthful",
        })
    }
}

/// True if the values that an output shows decide which rows come out. An exact number is off by
/// nothing, whatever it decides.
pub(super) fn is_chosen(release: &Release, origin: &Origin) -> bool {
    let own = release.analysis().parts().get(origin.part);
    let measure = own.and_then(|part| part.measures().get(origin.measure));
    let counter = release.partition_selection(origin.part).and_then(PartitionSelection::counter);
    let decides = origin.is_chosen_by || counter == Some(origin.measure);
    decides && !measure.is_some_and(Measure::is_exact)
}

/// What the ranks of a chosen value count.
pub(super) fn rank_kind(release: &Release, origin: &Origin) -> AccuracyKind {
    let part = release.analysis().parts().get(origin.part);
    let choice = part.and_then(|part| part.measures().get(origin.measure)?.choice());
    match choice.and_then(|choice| choice.missing) {
        Some(_) => AccuracyKind::BlockRank,
        None => AccuracyKind::Rank,
    }
}

/// How accurate one released column is. It covers the noise alone. It does not cover what bounding
/// contributions and clamping values cut, nor what a bound cuts that was itself drawn.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// let answer = session.query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult").await?;
/// let accuracy = &answer.accuracy()[0];
/// assert_eq!((accuracy.column.as_str(), accuracy.value, accuracy.confidence), ("n", 3.0, 0.95));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Accuracy {
    /// The answer's column.
    pub column: String,
    /// What the value says.
    pub kind: AccuracyKind,
    /// The bound, in the column's or the score's own unit.
    pub value: f64,
    /// The confidence: 0.95, or 1 for an average or a probability.
    pub confidence: f64,
}

impl Accuracy {
    /// The sentence for people. `None` if a note says it instead.
    pub(super) fn line(&self) -> Option<String> {
        self.text().map(|text| format!("{}: {text}", visible::line(&self.column)))
    }

    /// The sentence without the name of the column.
    pub(crate) fn text(&self) -> Option<String> {
        let Self { column: _, kind, value, confidence } = self;
        let percent = confidence * 100.0;
        Some(match kind {
            AccuracyKind::Within => format!("± {} with {percent} %", rounded(*value)),
            AccuracyKind::Drawn => return None,
            AccuracyKind::Winner => {
                format!("within {} of the best score with {percent} %", rounded(*value))
            }
            AccuracyKind::OwnRows => format!(
                "no other candidate is better by more than {} of its own rows with {percent} %",
                rounded(*value)
            ),
            AccuracyKind::Rank => {
                format!("within {} rows of the rank asked for with {percent} %", rounded(*value))
            }
            AccuracyKind::BlockRank => {
                format!(
                    "within {} values of blocks of the middle with {percent} %",
                    rounded(*value)
                )
            }
            AccuracyKind::Average => {
                format!("within {} of the best on average", rounded(*value))
            }
            AccuracyKind::Truthful => {
                format!("each answer truthful with {} %", rounded(value * 100.0))
            }
        })
    }
}
