//! Several quantiles in one release, by splitting the line at the middle one, then at the middle of
//! each half.
//!
//! A histogram over ticks and ascending fractions go in; one tick for each fraction comes out, in
//! ascending order. The middle quantile of the list is chosen from all rows, and divides the line.
//! The quantiles before it are chosen from the rows up to it, those behind it from the others. So a
//! row matters to one choice of each level, and k quantiles share ε among ⌈log₂(k + 1)⌉ levels
//! instead of k choices.
//!
//! Many rows with one value must not all fall on one side of a split. So each tick has H parts, and
//! each of its rows is H parts of a row, one on each. Splits lie between parts. The idea of
//! recursive splits is that of Kaplan, Schnapp, Stemmer 2022; the parts are ours.
//!
//! ```text
//! QUANTILES(x, (0.1, 0.25, 0.5, 0.75, 0.9)), three levels, each with ε/3:
//!           0.5                 of all rows
//!     0.25      0.9             of those up to it, and of those behind it
//!  0.1        0.75
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::ToPrimitive;

use super::{Rank, quantile_runs, tidied};
use crate::mechanism::rate::Rate;
use crate::mechanism::{Exponential, MechanismError, ScoredRun, TickRuns};
use crate::privacy::Rational;
use crate::sampler::QueryRng;

/// The most fractions of one list.
pub const MOST_FRACTIONS: usize = 100;

/// The parts of a tick, unless there are very many ticks.
const PARTS: u64 = 1 << 20;

/// All parts of all ticks are numbered below this.
const MOST_PARTS: u64 = 1 << 62;

/// Ascending fractions strictly between 0 and 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fractions {
    nums: Vec<u64>,
    den: u64,
}

impl Fractions {
    /// The fractions num/den. `None` unless they ascend strictly between 0 and 1, and there are
    /// from 1 to [`MOST_FRACTIONS`] of them.
    pub fn new(nums: Vec<u64>, den: u64) -> Option<Self> {
        let ascend = nums.is_sorted_by(|one, next| one < next);
        let inside = nums.first() > Some(&0) && nums.last() < Some(&den);
        (ascend && inside && nums.len() <= MOST_FRACTIONS).then_some(Self { nums, den })
    }

    /// The numerators, ascending.
    pub fn nums(&self) -> &[u64] {
        &self.nums
    }

    /// The common denominator.
    pub fn den(&self) -> u64 {
        self.den
    }

    /// The number of levels: ⌈log₂(k + 1)⌉ for k fractions.
    pub fn levels(&self) -> u32 {
        usize::BITS - self.nums.len().leading_zeros()
    }
}

/// The number of parts of each tick.
///
/// # Guarantee
/// A function of the number of ticks alone. All parts of all ticks are fewer than 2⁶² + 2, or there
/// is one part for each tick.
pub fn parts_of_a_tick(ticks: u64) -> u64 {
    PARTS.min(MOST_PARTS / ticks.max(1)).max(1)
}

/// The choice of one quantile of the list among the rows between two splits.
#[derive(Debug, Clone)]
struct RankSplit {
    /// The fraction within these rows, in lowest terms.
    num: u64,
    den: u64,
    exponential: Exponential,
    /// True if no other quantile lies between these splits.
    is_leaf: bool,
}

/// Several quantiles of a line of ticks.
#[derive(Debug, Clone)]
pub struct ManyQuantiles {
    /// The split of each quantile.
    splits: Vec<RankSplit>,
    levels: u32,
    /// The last tick.
    last: u64,
    parts: u64,
}

impl ManyQuantiles {
    /// The quantiles of rows on the ticks 0..=`last`, by choices of the exponent of `whole`. That
    /// one is calibrated to the range of a rank: 2 for each row of a unit, as
    /// [`Rank::FromLow`] is.
    ///
    /// # Guarantee
    /// [`ManyQuantiles::choose`] has the ε of `whole`, for rows added or removed, and costs no more
    /// ρ than h choices at ε/h, where h is the number of levels.
    ///
    /// Let a unit have m rows and `whole` the exponent ε/2m. Look at all parts that are drawn, also
    /// those of which only the tick is shown. They fix the interval of each choice, for any rows.
    /// The scores of a choice depend on the parts of rows in its interval. One part of a row
    /// changes them by a range of at most R = 2·max(num, den − num), see [`super::range`], and the
    /// exponent is ε/(h·m·H·R). So a choice v in whose interval the unit has a share w of its m·H
    /// parts is ε·w/h-private, and of that bounded range. The intervals of one level are disjoint,
    /// so the shares of a level add up to at most 1, wherever the rows lie: on one side of a split,
    /// on both, or on the tick that is split. Adaptive composition adds up to at most ε/h for each
    /// level. In ρ, it adds up to at most Σ(ε·w/h)²/8 ≤ (ε/h)²/8 for each level, because each w is
    /// at most 1; likewise for the pure bound, which is convex in w. The argument is linear in
    /// parts of rows, so it holds for groups that share a unit's rows too.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when `last` is 2⁶⁴ − 1 or an exponent is too small to be
    /// drawn. This follows from public numbers.
    pub fn new(
        whole: &Exponential,
        fractions: &Fractions,
        last: u64,
    ) -> Result<Self, MechanismError> {
        let ticks = last.checked_add(1).ok_or(MechanismError::RangeTooWide)?;
        Self::with_parts(whole, fractions, last, parts_of_a_tick(ticks))
    }

    fn with_parts(
        whole: &Exponential,
        fractions: &Fractions,
        last: u64,
        parts: u64,
    ) -> Result<Self, MechanismError> {
        let levels = fractions.levels();
        let splits = (0..fractions.nums.len()).map(|own| {
            let (between, [low, high]) = ends(fractions, own);
            let num = fractions.nums.get(own).and_then(|num| num.checked_sub(low));
            let (num, den) = num.zip(high.checked_sub(low)).ok_or(MechanismError::RangeTooWide)?;
            let common = num.gcd(&den).max(1);
            let (num, den) = (num / common, den / common);
            let most = BigInt::from(num.max(den.saturating_sub(num)));
            let share = most * BigInt::from(levels) * BigInt::from(parts);
            let rate = Rate::at_most(whole.exponent() / Rational::from_integer(share))?;
            let exponential = Exponential { rate };
            Ok(RankSplit { num, den, exponential, is_leaf: between.len() == 1 })
        });
        Ok(Self { splits: splits.collect::<Result<_, MechanismError>>()?, levels, last, parts })
    }

    /// The ticks of the quantiles, in the order of the fractions. `histogram` lists ticks and the
    /// number of rows there; a tick beyond the last counts as the last, a negative number as 0.
    ///
    /// # Guarantee
    /// Ascending. Of an interval of parts, the middle quantile's part is drawn with P ∝
    /// exp(exponent·score) exactly, where the score is that of [`quantile_runs`] with a part in
    /// place of a tick; a quantile that is alone in its interval draws one of the ticks that meet
    /// it, with the parts of rows inside. An interval without parts has the tick before it. One
    /// quantile alone has the law of [`Exponential::choose_quantile`]. For privacy, see
    /// [`ManyQuantiles::new`].
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when a score does not fit 128 bits. The caller must exclude
    /// it by public bounds: rows·parts·den < 2¹²⁷.
    pub fn choose(
        &self,
        histogram: &[(u64, i128)],
        rng: &mut QueryRng,
    ) -> Result<Vec<u64>, MechanismError> {
        let points = tidied(histogram, self.last)?;
        let mut chosen = vec![0; self.splits.len()];
        let all = 0..self.splits.len();
        // Within 2⁶² + 2, or one part for each of at most 2⁶⁴ − 1 ticks.
        let end = self.last.saturating_add(1).saturating_mul(self.parts);
        self.fill(&points, 0..end, all, &mut chosen, rng)?;
        Ok(chosen)
    }

    /// Chooses the quantiles with these numbers among the parts of an interval.
    fn fill(
        &self,
        points: &[(u64, i128)],
        within: Range<u64>,
        quantiles: Range<usize>,
        chosen: &mut [u64],
        rng: &mut QueryRng,
    ) -> Result<(), MechanismError> {
        let middle = quantiles.start.midpoint(quantiles.end);
        let Some(split) = self.splits.get(middle).filter(|_| !quantiles.is_empty()) else {
            return Ok(());
        };
        if within.is_empty() {
            let before = within.start.saturating_sub(1) / self.parts;
            chosen.get_mut(quantiles).into_iter().flatten().for_each(|tick| *tick = before);
            return Ok(());
        }
        let runs = self.runs(points, &within, split)?;
        let winner = split.exponential.choose_runs(&runs.runs, rng)?;
        let winner = runs.tick(winner).ok_or(MechanismError::RangeTooWide)?;
        let tick = if split.is_leaf { winner } else { winner / self.parts };
        *chosen.get_mut(middle).ok_or(MechanismError::RangeTooWide)? = tick;
        if split.is_leaf {
            return Ok(());
        }
        // The chosen part belongs to the lower half.
        let [lower, upper] = [within.start..winner + 1, winner + 1..within.end];
        self.fill(points, lower, quantiles.start..middle, chosen, rng)?;
        self.fill(points, upper, middle + 1..quantiles.end, chosen, rng)
    }

    /// The scored candidates of one choice: the parts of an interval, or for a leaf the ticks that
    /// meet it.
    fn runs(
        &self,
        points: &[(u64, i128)],
        within: &Range<u64>,
        split: &RankSplit,
    ) -> Result<TickRuns, MechanismError> {
        let (first, last) = (within.start / self.parts, within.end.saturating_sub(1) / self.parts);
        let from = points.partition_point(|(tick, _)| *tick < first);
        let to = points.partition_point(|(tick, _)| *tick <= last);
        let own = points.get(from..to).unwrap_or_default();
        if !split.is_leaf {
            return self.runs_of_parts(own, within, split);
        }
        let inside = |(tick, rows): &(u64, i128)| {
            let parts = self.inside(*tick, within);
            let parts = rows.checked_mul(i128::from(parts.end.saturating_sub(parts.start)));
            Ok((tick.saturating_sub(first), parts.ok_or(MechanismError::RangeTooWide)?))
        };
        let own = own.iter().map(inside).collect::<Result<Vec<_>, MechanismError>>()?;
        let rank = Rank::Fraction { num: split.num, den: split.den };
        let mut runs = quantile_runs(&own, last.saturating_sub(first), rank)?;
        runs.first.iter_mut().for_each(|tick| *tick = tick.saturating_add(first));
        Ok(runs)
    }

    /// The parts of a tick within an interval.
    fn inside(&self, tick: u64, within: &Range<u64>) -> Range<u64> {
        let start = tick.saturating_mul(self.parts);
        start.max(within.start)..start.saturating_add(self.parts).min(within.end)
    }

    /// The parts of an interval with their scores, in runs. `own` are the ticks that meet it.
    ///
    /// Inside a tick, the parts up to the wanted rank score one step more each, and those behind it
    /// one step less.
    fn runs_of_parts(
        &self,
        own: &[(u64, i128)],
        within: &Range<u64>,
        split: &RankSplit,
    ) -> Result<TickRuns, MechanismError> {
        let wide = || MechanismError::RangeTooWide;
        let (num, den) = (i128::from(split.num), i128::from(split.den));
        let mut total = 0_i128;
        for (tick, rows) in own {
            let parts = self.inside(*tick, within);
            let parts = rows.checked_mul(i128::from(parts.end - parts.start)).ok_or_else(wide)?;
            total = total.checked_add(parts).ok_or_else(wide)?;
        }
        // No product below exceeds total·den, except that of a single step.
        total.checked_mul(den).ok_or_else(wide)?;
        let goal = total * num;
        let run = |count: u64, score: i128, step: i128| ScoredRun { count, score, step, weight: 1 };
        let mut runs = TickRuns::with_capacity(4 * own.len() + 1);
        let (mut below, mut next) = (0_i128, within.start);
        for (tick, rows) in own {
            let parts = self.inside(*tick, within);
            runs.push(next, run(parts.start - next, -(goal - den * below).abs(), 0));
            let count = parts.end - parts.start;
            let step = rows.checked_mul(den).ok_or_else(wide)?;
            // The wanted rank lies this far behind the tick's first part.
            let ahead = goal - den * below;
            let at_most = |parts: i128| u64::try_from(parts).unwrap_or(u64::MAX).min(count);
            let rising = if ahead > 0 { at_most((ahead - 1) / step) } else { 0 };
            let falling = if ahead >= 0 { at_most(ahead / step + 1) } else { 0 };
            runs.push(parts.start, run(rising, step - ahead, step));
            runs.push(parts.start + rising, run(falling - rising, 0, 0));
            let past = i128::from(falling) * step - ahead;
            runs.push(parts.start + falling, run(count - falling, -past, -step));
            (below, next) = (below + rows * i128::from(count), parts.end);
        }
        runs.push(next, run(within.end - next, -(goal - den * below).abs(), 0));
        Ok(runs)
    }

    /// How many rows lie between the rank of each value and its wanted rank, at most, with
    /// confidence 1 − β for all of the list together. Rounded up.
    ///
    /// # Guarantee
    /// Let e be the result, n the number of rows, and c the most rows on one tick. With probability
    /// 1 − β, every value of the list is on a tick of which the ranks are within e + 7c/H of the
    /// wanted one, for any data. Each of k choices errs by more than t rows with probability at
    /// most β/k, see [`Exponential::error_at`]; the best score is 0. The ends of an interval err by
    /// at most e₁ and e₂, so the wanted rank inside errs by at most (1 − f)·e₁ + f·e₂, f being the
    /// fraction between the ends. A split errs by that, by t, and by one part of a tick. At most
    /// seven splits follow one another.
    pub fn error_at(&self, beta: &Rational) -> f64 {
        let each = beta / Rational::from_integer(BigInt::from(self.splits.len().max(1)));
        self.worst(&|split, candidates| split.exponential.error_at(candidates, &each))
    }

    /// An upper bound of the mean of that distance, for the worst of the list. Rounded up.
    pub fn expected_error(&self) -> f64 {
        self.worst(&|split, candidates| split.exponential.expected_error(candidates))
    }

    /// The number of levels.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// The largest error of a quantile, from the error of each choice in units of its score.
    fn worst(&self, of: &dyn Fn(&RankSplit, usize) -> f64) -> f64 {
        self.worst_within(0..self.splits.len(), [0.0, 0.0], of)
    }

    fn worst_within(
        &self,
        quantiles: Range<usize>,
        [low, high]: [f64; 2],
        of: &dyn Fn(&RankSplit, usize) -> f64,
    ) -> f64 {
        let middle = quantiles.start.midpoint(quantiles.end);
        let Some(split) = self.splits.get(middle).filter(|_| !quantiles.is_empty()) else {
            return 0.0;
        };
        let float = |n: u64| n.to_f64().unwrap_or(f64::INFINITY);
        let ticks = self.last.saturating_add(1);
        let parts = if split.is_leaf { ticks } else { ticks.saturating_mul(self.parts) };
        let own = of(split, usize::try_from(parts).unwrap_or(usize::MAX));
        let own = own / (float(split.den) * float(self.parts));
        let place = float(split.num) / float(split.den);
        let here = (low * (1.0 - place) + high * place + own) * (1.0 + 1e-12);
        let below = self.worst_within(quantiles.start..middle, [low, here], of);
        let above = self.worst_within(middle + 1..quantiles.end, [here, high], of);
        here.max(below).max(above)
    }
}

/// The quantiles that lie between the same splits as this one, and the numerators of these splits:
/// 0 and the denominator at the ends.
fn ends(fractions: &Fractions, own: usize) -> (Range<usize>, [u64; 2]) {
    let (mut between, mut low, mut high) = (0..fractions.nums.len(), 0, fractions.den);
    loop {
        let middle = between.start.midpoint(between.end);
        match (fractions.nums.get(middle), own.cmp(&middle)) {
            (Some(num), Ordering::Less) => (between.end, high) = (middle, *num),
            (Some(num), Ordering::Greater) => (between.start, low) = (middle + 1, *num),
            (_, _) => return (between, [low, high]),
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "a test's numbers are small"
)]
mod tests;
