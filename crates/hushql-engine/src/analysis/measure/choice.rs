//! A choice: the candidates of a selection, how their scores are computed, and how far one unit can
//! change them.
//!
//! In: results of the analysis. Out: a [`Choice`] with everything that a mechanism and its
//! explanation need: the candidates, the range of their scores, and the range to which the
//! mechanism is calibrated if several selections are made at once.
//!
//! ```text
//! TOP 3 status, one list for each of two sexes, a person in both: calibrated to R · 2 groups · 3 rounds
//! ```

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use num_traits::ToPrimitive;

use crate::analysis::measure::neighbours::RowChange;
use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::dialect::Selector;
use crate::mechanism::quantile::range_of_moves;
use crate::mechanism::{Fractions, Rank};
use crate::privacy::Rational;
use crate::ticks::Ticks;

/// Candidates that are not group keys, in order.
#[derive(Debug, Clone)]
pub enum CandidateAxis {
    /// Listed values.
    Listed(ArrayRef),
    /// Evenly spaced numbers.
    Ticks(Ticks),
}

impl CandidateAxis {
    /// The number of candidates.
    pub fn count(&self) -> u64 {
        match self {
            Self::Listed(values) => u64::try_from(values.len()).unwrap_or(u64::MAX),
            Self::Ticks(ticks) => ticks.count(),
        }
    }

    /// Some of the candidates as a column.
    ///
    /// # Errors
    /// An Arrow error for a candidate that does not exist.
    pub fn values(&self, chosen: &[u64], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Listed(values) => {
                let indices = arrow::array::UInt64Array::from(chosen.to_vec());
                arrow::compute::take(values, &indices, None)
            }
            Self::Ticks(ticks) => ticks.values(chosen, data_type),
        }
    }
}

/// How the positions of rows on an axis score its candidates.
#[derive(Debug, Clone, PartialEq)]
pub enum LineScore {
    /// The quantile num/den: the distance of a tick's rank from it.
    Quantile {
        /// The fraction's numerator.
        num: u64,
        /// Its denominator.
        den: u64,
    },
    /// Several quantiles, each scored among the rows between those around it.
    Quantiles(Fractions),
    /// Approximately the r-th smallest value; r follows from ε.
    Smallest,
    /// Approximately the r-th largest value.
    Largest,
    /// The price times the quantity bought at it, by rows whose position is above the candidate.
    Revenue {
        /// The candidates' prices, ascending, in units of the score's price grid.
        prices: Prices,
    },
    /// The rows at or above the candidate.
    Above,
    /// The rows below the candidate.
    Below,
    /// The rows at the candidate itself.
    Exactly,
}

impl LineScore {
    /// True if a score is the distance from a rank.
    pub(crate) fn is_of_rank(&self) -> bool {
        matches!(self, Self::Quantiles(_)) || self.rank().is_some()
    }

    /// The rank from which a score measures distances, if it does. The rank of a minimum or maximum
    /// follows from ε, and is 1 here.
    fn rank(&self) -> Option<Rank> {
        match self {
            Self::Quantile { num, den } => Some(Rank::Fraction { num: *num, den: *den }),
            Self::Smallest => Some(Rank::FromLow(1)),
            Self::Largest => Some(Rank::FromHigh(1)),
            Self::Quantiles(_)
            | Self::Revenue { .. }
            | Self::Above
            | Self::Below
            | Self::Exactly => None,
        }
    }
}

/// Prices in grid units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prices {
    /// Listed prices, ascending.
    Listed(Vec<i128>),
    /// Evenly spaced prices.
    Ticks(Ticks),
}

/// The origin of candidates and their scores.
#[derive(Debug, Clone)]
pub enum CandidateSource {
    /// Values of a group key, each scored by the sum of its group; given by their positions among
    /// the key's values.
    Keys(Vec<usize>),
    /// Named candidates, each with its own sum.
    Each(CandidateAxis),
    /// Candidates on an axis, scored by the positions of the rows.
    Line {
        /// The candidates, ascending.
        axis: CandidateAxis,
        /// How scores are computed.
        score: LineScore,
    },
    /// Values of a group key that are not declared.
    Unknown {
        /// The largest number of candidates that one unit has.
        per_unit: u64,
    },
}

/// How simultaneous selections share the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// There is only one selection.
    Alone,
    /// One selection for each outer group. A unit is in at most this many of them.
    Groups(u64),
    /// One selection for each outer group. A unit's rows change the scores of all selections
    /// together by ranges that add up to at most this.
    Rows(u128),
}

/// The base measure of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prior {
    /// All candidates have the same weight.
    Uniform,
    /// Integer weights, one for each candidate; 0 excludes a candidate.
    Weights(Vec<u128>),
    /// Weights in proportion to 1/price.
    LogUniform,
}

/// How far one row changes the score of each candidate, if this differs between candidates, and how
/// many rows a unit has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// The largest change of a score by one row, up or down, in units of the score.
    pub of_rows: SizesOfRows,
    /// The rows of a unit in one selection.
    pub rows: u64,
    /// The rows of a unit in all outer groups together, if that is bounded.
    pub total: Option<u64>,
}

/// How far one row changes the score of each candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizesOfRows {
    /// By the candidate's price times this quantity.
    Prices(u128),
    /// By this number, in the order of the candidates.
    Listed(Vec<u128>),
}

/// The values of blocks of people, of which there are always equally many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingBlocks {
    /// The number of blocks.
    pub blocks: u64,
    /// The candidate as which a block without a value counts.
    pub place: u64,
}

impl MissingBlocks {
    /// The rows at each place, with those that stand for blocks without a value.
    ///
    /// # Guarantee
    /// They add up to the number of blocks, if there is no more than one row for each block.
    pub fn completed(self, places: &[(u64, i128)]) -> Vec<(u64, i128)> {
        let present: i128 = places.iter().map(|(_, rows)| *rows).sum();
        let missing = i128::from(self.blocks).saturating_sub(present).max(0);
        places.iter().copied().chain([(self.place, missing)]).collect()
    }
}

/// A selection, with the change of its scores by one unit.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Which end of the ranking wins; quantiles choose the highest score.
    pub selector: Selector,
    /// How many candidates are chosen, one after the other.
    pub rounds: u64,
    /// The number of outer groups; each has one selection. `u64::MAX` if only the data contain the
    /// groups.
    pub outer: u64,
    /// The candidates.
    pub source: CandidateSource,
    /// The base measure.
    pub prior: Prior,
    /// The range R of the scores of one selection, in units of the score.
    pub range: u128,
    /// The largest change Δ∞ of one score.
    pub largest: u128,
    /// The sensitivity Δ₁ of all scores in all outer groups together, if candidates are group keys
    /// and it is bounded.
    pub l1: Option<u128>,
    /// How far a row changes each score, if this differs between candidates.
    pub sizes: Option<Sizes>,
    /// How the selections of several groups share the cost.
    pub sharing: Sharing,
    /// The value of one unit of the score.
    pub unit: Rational,
    /// The number of rows that were tried to find the range: all rows that the columns' ranges
    /// allow. `None` if the range follows from the score.
    pub tried: Option<usize>,
    /// If the rows are the values of blocks: how many there are, and what a missing one counts as.
    pub missing: Option<MissingBlocks>,
}

impl Choice {
    /// True if low scores win.
    pub fn prefers_low(&self) -> bool {
        match self.selector {
            Selector::ArgMax | Selector::Top(_) => false,
            Selector::ArgMin | Selector::Bottom(_) => true,
        }
    }

    /// The number of candidates; `None` if they are unknown.
    pub fn candidates(&self) -> Option<u64> {
        match &self.source {
            CandidateSource::Keys(candidates) => u64::try_from(candidates.len()).ok(),
            CandidateSource::Each(axis) | CandidateSource::Line { axis, .. } => Some(axis.count()),
            CandidateSource::Unknown { .. } => None,
        }
    }

    /// The number of rounds that depend on the data. If all candidates are chosen, the last one is
    /// simply the remaining one.
    ///
    /// # Guarantee
    /// The other rounds, if any, choose from a single candidate, for all scores. At least 1.
    pub fn rounds_drawn(&self) -> u64 {
        let eligible = match &self.prior {
            Prior::Uniform | Prior::LogUniform => self.candidates(),
            Prior::Weights(weights) => {
                u64::try_from(weights.iter().filter(|weight| **weight > 0).count()).ok()
            }
        };
        match eligible {
            Some(eligible) if self.rounds >= eligible => eligible.saturating_sub(1).max(1),
            Some(_) | None => self.rounds,
        }
    }

    /// The range to which the mechanism of a single draw is calibrated, at the whole cost ε.
    ///
    /// # Guarantee
    /// k draws for each outer group, each ε-private for scores of the returned range, are together
    /// ε-private for the scores of this choice. With k rounds that depend on the data, each has
    /// ε/k. If a unit is in C outer groups, each has ε/C. If a unit has M rows in total, the ranges
    /// of its changes to the selections' scores add up to at most M times the range of a row, so
    /// each selection may use ε with that range. `monotonic=false` uses twice the largest change
    /// instead of the range, unless rows were tried. Then the range is the largest difference
    /// between one row's changes of two scores, and holds for changes in any direction: subtract
    /// from all scores the middle of what a row adds to them. This shifts all scores by the same
    /// amount, so it changes no choice, and twice the largest remaining change is that range.
    /// Exact; `None` on overflow.
    pub fn calibrated(&self, monotonic: bool) -> Option<u128> {
        let monotonic = monotonic || self.tried.is_some();
        let one = if monotonic { Some(self.range) } else { self.largest.checked_mul(2) }?;
        let spread = match self.sharing {
            Sharing::Alone => one,
            Sharing::Groups(groups) => one.checked_mul(groups.into())?,
            Sharing::Rows(all) if monotonic => all,
            Sharing::Rows(all) => all.checked_mul(2)?,
        };
        spread.checked_mul(self.rounds_drawn().into())
    }

    /// The same choice where a person's row is replaced, and what that changes. `stays` says that
    /// the row stays in its outer group.
    ///
    /// # Guarantee
    /// In its group, a row that is scored by its rank moves to another tick, or falls out: see
    /// [`range_of_moves`]. Everything else counts as a removal and an addition: see
    /// [`Choice::in_two_steps`]. `None` on overflow, and for candidates that only the data contain.
    pub(crate) fn replaced(self, stays: bool) -> Option<(Self, RowChange)> {
        let rank = match &self.source {
            CandidateSource::Line { score, .. } => score.rank(),
            CandidateSource::Keys(_)
            | CandidateSource::Each(_)
            | CandidateSource::Unknown { .. } => None,
        };
        let shares_rows = matches!(self.sharing, Sharing::Rows(_));
        match rank.filter(|_| stays && !shares_rows) {
            Some(rank) => {
                let range = range_of_moves(rank).ok()?;
                Some((Self { range, largest: range, ..self }, RowChange::Counted))
            }
            None => Some((self.in_two_steps()?, RowChange::Both)),
        }
    }

    /// The same choice where a person's row is removed and another one is added.
    ///
    /// # Guarantee
    /// To replace a row is to remove it and to add another one. Ranges, largest changes, sums of
    /// changes and rows are those of both steps together: each is at most twice that of one. A
    /// mechanism that is calibrated to them is, for each step, half as private as its ε says, and
    /// so ε-private for both. In ρ, a step costs a quarter, and both cost four times that. `None`
    /// on overflow, and for candidates that only the data contain.
    fn in_two_steps(mut self) -> Option<Self> {
        if let CandidateSource::Unknown { .. } = self.source {
            return None;
        }
        self.range = self.range.checked_mul(2)?;
        self.largest = self.largest.checked_mul(2)?;
        self.l1 = match self.l1 {
            Some(l1) => Some(l1.checked_mul(2)?),
            None => None,
        };
        if let Some(sizes) = &mut self.sizes {
            sizes.rows = sizes.rows.checked_mul(2)?;
            sizes.total = match sizes.total {
                Some(total) => Some(total.checked_mul(2)?),
                None => None,
            };
        }
        self.sharing = match self.sharing {
            // With the range of both steps, the groups are those of one.
            Sharing::Alone | Sharing::Groups(_) => self.sharing,
            Sharing::Rows(all) => Sharing::Rows(all.checked_mul(2)?),
        };
        Some(self)
    }

    /// How many draws depend on one unit. Each has an equal share of ε.
    ///
    /// # Guarantee
    /// [`Choice::calibrated`] divides ε by this number, and a list of quantiles divides it again by
    /// its levels. If rows are shared, it divides ε into parts that add up to ε in each round. The
    /// choices of one level of a list share the rows of a unit, too, see
    /// [`ManyQuantiles::new`](crate::mechanism::ManyQuantiles::new).
    pub fn draws_of_unit(&self) -> u64 {
        let each = self.rounds_drawn().saturating_mul(self.levels());
        match self.sharing {
            Sharing::Alone | Sharing::Rows(_) => each,
            Sharing::Groups(groups) => each.saturating_mul(groups),
        }
    }

    /// The fractions of a list of quantiles.
    pub(crate) fn fractions(&self) -> Option<&Fractions> {
        match &self.source {
            CandidateSource::Line { score: LineScore::Quantiles(fractions), .. } => Some(fractions),
            CandidateSource::Line { .. }
            | CandidateSource::Keys(_)
            | CandidateSource::Each(_)
            | CandidateSource::Unknown { .. } => None,
        }
    }

    /// The levels of a list of quantiles; 1 for any other choice.
    fn levels(&self) -> u64 {
        self.fractions().map_or(1, |fractions| fractions.levels().into())
    }

    /// The rows of a unit in all draws together, for a mechanism that measures each score in units
    /// of a row's change of it. `None` if a row changes all scores alike, or on overflow.
    ///
    /// # Guarantee
    /// A draw whose scores change, in that measure, by ranges of at most r for r rows of a unit may
    /// use ε at the returned number of rows; all draws together are then ε-private. As in
    /// [`Choice::calibrated`]: in each of k rounds, a unit has its rows in each of C outer groups,
    /// or M rows in all of them.
    pub fn rows_in_draws(&self) -> Option<u128> {
        let Sizes { rows, total, .. } = self.sizes.as_ref()?;
        let rows = match self.sharing {
            Sharing::Alone => u128::from(*rows),
            Sharing::Groups(groups) => u128::from(*rows).checked_mul(groups.into())?,
            Sharing::Rows(_) => u128::from((*total)?),
        };
        rows.checked_mul(self.rounds_drawn().into())
    }

    /// The largest change of a candidate's score by one row; `None` if it is the same for all
    /// candidates, or there is no such candidate.
    pub fn size_of(&self, candidate: u64) -> Option<u128> {
        let at = usize::try_from(candidate).ok()?;
        match (&self.sizes.as_ref()?.of_rows, &self.source) {
            (SizesOfRows::Listed(sizes), _) => sizes.get(at).copied(),
            (
                SizesOfRows::Prices(quantity),
                CandidateSource::Line { axis, score: LineScore::Revenue { prices } },
            ) => {
                let price = match prices {
                    Prices::Ticks(ticks) if candidate < axis.count() => ticks.unit(candidate),
                    Prices::Ticks(_) => return None,
                    Prices::Listed(prices) => *prices.get(at)?,
                };
                u128::try_from(price).ok()?.checked_mul(*quantity)
            }
            (
                SizesOfRows::Prices(_),
                CandidateSource::Line { .. }
                | CandidateSource::Keys(_)
                | CandidateSource::Each(_)
                | CandidateSource::Unknown { .. },
            ) => None,
        }
    }

    /// The largest of these changes, and a middle one: the median of a list. For prices, which are
    /// compared by their ratio, it is the geometric mean of the ends.
    pub fn sizes_in_short(&self) -> Option<(u128, f64)> {
        let float = |size: u128| size.to_f64();
        match &self.sizes.as_ref()?.of_rows {
            SizesOfRows::Listed(sizes) => {
                let mut sorted = sizes.clone();
                sorted.sort_unstable();
                Some((*sorted.last()?, float(*sorted.get(sorted.len() / 2)?)?))
            }
            SizesOfRows::Prices(_) => {
                let count = self.candidates()?;
                let last = self.size_of(count.checked_sub(1)?)?;
                let first =
                    [0, 1].into_iter().filter_map(|i| self.size_of(i)).find(|size| *size > 0);
                Some((last, (float(first?)? * float(last)?).sqrt()))
            }
        }
    }
}

/// How the selections of `outer` groups share the cost, if a unit obeys these limits.
///
/// # Guarantee
/// The cheaper of two rules. First, every unit is in at most min(C, M, outer) outer groups, because
/// a limit on groups counts pairs of outer group and candidate. Second, if scores are sums over
/// rows, a unit with M rows changes the scores of all selections together by ranges that add up to
/// at most M·b, for any distribution of its rows over groups. `None` if nothing bounds it. Neither
/// rule depends on how many groups there are, so both hold for groups that only the data contain:
/// for those that exist without the unit. A threshold hides the others.
pub(crate) fn sharing(
    limits: &ContributionBounds,
    outer: u64,
    range: u128,
    all_rows: Option<u128>,
) -> Option<Sharing> {
    if outer <= 1 {
        return Some(Sharing::Alone);
    }
    let by_groups = [limits.l0, limits.total].into_iter().flatten().min();
    let groups = by_groups.map(|groups| groups.min(outer));
    if groups == Some(1) {
        return Some(Sharing::Groups(1));
    }
    match (groups, all_rows) {
        (Some(groups), Some(all)) => {
            let cost = range.checked_mul(groups.into());
            let cheaper = cost.is_none_or(|cost| all < cost);
            Some(if cheaper { Sharing::Rows(all) } else { Sharing::Groups(groups) })
        }
        (Some(groups), None) => Some(Sharing::Groups(groups)),
        (None, Some(all)) => Some(Sharing::Rows(all)),
        (None, None) => None,
    }
}
