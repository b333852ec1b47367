//! The generalised exponential mechanism: for candidates whose scores have different sensitivities.
//! It compares each score on the scale of its own sensitivity.
//!
//! Runs of candidates go in, each candidate with a score and a size; the size is how much one row
//! can change that score. The winner's run and its position in the run come out. It assumes that a
//! unit has a limited number of rows. The choice is then ε-differentially private. Its error
//! against a candidate grows with the size of *that* candidate, not with the largest size: if 1.37
//! is the best of the prices 0.01 to 100, the error is that of a price of 1.37.
//!
//! Prices 1 and 100, revenues 50 and 0, ε = 1: the exponential mechanism gives the second price a
//! relative weight of exp(−50/100), this one exp(−3.25).

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::rate::report_up;
use super::{Exponential, MechanismError, ScoredRun};
use crate::privacy::{Epsilon, Rational};
use crate::sampler::QueryRng;

/// The bits of the largest size. Then a score of 2⁴⁶ rows leaves room for the arithmetic on it.
const SIZE_BITS: u32 = 70;

/// The bits of the largest score in levels.
const HEIGHT_BITS: u32 = 124;

/// The largest number of distinct levels. It keeps the number of runs small, even with 10⁹
/// candidates.
const MOST_LEVELS: f64 = 131_072.0;

/// A run of candidates with evenly changing scores and sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizedRun {
    /// The candidates and their scores; their weights are ignored.
    pub run: ScoredRun,
    /// How much one row can change the score of the first candidate, at least 0. All sizes are
    /// **public**.
    pub size: i128,
    /// The difference between the sizes of consecutive candidates.
    pub size_step: i128,
}

/// A calibrated generalised exponential mechanism.
///
/// With the sizes Δ and the scores q, candidate i has the margin s(i) = min over j of ((q_i −
/// t·Δ_i) − (q_j − t·Δ_j))/(Δ_i + Δ_j), in rows. It is 0 for the best of q − t·Δ, and negative for
/// all others. The level of a candidate is ⌊K·s(i)⌋, or the lowest level if that is higher. The
/// exponential mechanism chooses by level.
#[derive(Debug, Clone, PartialEq)]
pub struct Generalized {
    choice: Exponential,
    /// K.
    per_row: u32,
    /// t.
    shift: u32,
    deepest: u32,
}

impl Generalized {
    /// A mechanism that makes choices among scores ε-private. One unit has at most `rows` rows in
    /// all choices together, and the largest size is `largest`. Errors are stated for `rounds`
    /// choices together.
    ///
    /// # Guarantee
    /// A row changes the difference of two scores by at most Δ_i + Δ_j. So r rows of a unit change
    /// every margin by at most r, and its level by at most K·r, up or down: a level of at least v
    /// means K·(q_i − q_j) ≥ K·t·(Δ_i − Δ_j) + v·(Δ_i + Δ_j) for all j, and after the change the
    /// same holds with v − K·r. The cut at a lowest level only brings levels closer. So their range
    /// is at most 2·K·r, and [`Exponential`] is calibrated to 2·K·`rows`. Choices whose ranges add
    /// up to that are ε-private together. t, K and the lowest level are functions of public
    /// numbers, and privacy does not depend on them. Source: Raskhodnikova, Smith 2016, section 5,
    /// with levels for real margins.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when a size exceeds 2⁷⁰ or ε is so small that more than 2¹⁷
    /// levels are needed.
    pub fn calibrate(
        candidates: usize,
        rounds: u64,
        largest: u128,
        rows: u128,
        epsilon: &Epsilon,
    ) -> Result<Self, MechanismError> {
        let wide = MechanismError::RangeTooWide;
        if largest >> SIZE_BITS > 0 {
            return Err(wide);
        }
        // One level then changes a weight by a factor of at most e^(1/16), unless that needs more
        // than 64 levels to a row.
        let fine = epsilon.value() * Rational::from_integer(8.into())
            / Rational::from_integer(BigInt::from(rows.max(1)));
        let per_row = fine.ceil().to_integer().to_u32().unwrap_or(64).clamp(1, 64);
        let levels = rows.checked_mul(u128::from(2 * per_row));
        let choice = Exponential::calibrate(levels.ok_or(wide)?, epsilon)?;
        let below = |beta: &Rational| {
            Some(choice.error_at(candidates, beta)).filter(|levels| *levels < MOST_LEVELS)?.to_u32()
        };
        let one = Rational::from_integer(1.into());
        let twentieth = &one / Rational::from_integer(BigInt::from(rounds.max(1)) * 20);
        let rare = &one / Rational::from_integer(BigInt::from(1_u64 << 60));
        let (Some(worst), Some(rarest)) = (below(&twentieth), below(&rare)) else {
            return Err(MechanismError::RangeTooWide);
        };
        Ok(Self { choice, per_row, shift: worst.div_ceil(per_row), deepest: rarest + 1 })
    }

    /// The exponent per row of margin.
    pub fn exponent(&self) -> Rational {
        self.choice.exponent() * Rational::from_integer(self.per_row.into())
    }

    /// The margin t: each score is lowered by t times the candidate's own size.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The error against any candidate, in rows of that candidate's size, at confidence 1 − β.
    ///
    /// # Guarantee
    /// P(q_winner < q_j − rows·Δ_j for some j) ≤ β, whatever the scores are. Some candidate has
    /// level 0, so with probability 1 − β the winner is at most w levels below it, with w from
    /// [`Exponential::error_at`]. Then q_w ≥ q_j − (t + w/K)·Δ_j + (t − w/K)·Δ_w, and for w ≤ K·t
    /// the last term is not negative. Infinite for w > K·t, which only happens for a β below that
    /// of the calibration: 1/20 among all rounds.
    pub fn error_at(&self, candidates: usize, beta: &Rational) -> f64 {
        let levels = self.levels_at(candidates, beta);
        let (shift, per_row) = (f64::from(self.shift), f64::from(self.per_row));
        if levels > shift * per_row { f64::INFINITY } else { report_up(shift + levels / per_row) }
    }

    /// The largest number of levels from the highest level down to the winner, at confidence 1 − β.
    /// Infinite if it reaches the lowest level: candidates on that level can be any distance apart.
    fn levels_at(&self, candidates: usize, beta: &Rational) -> f64 {
        let levels = self.choice.error_at(candidates, beta);
        if levels < f64::from(self.deepest) { levels } else { f64::INFINITY }
    }

    /// How much any candidate can score above the winner, in rows of the largest size, at
    /// confidence 1 − β.
    ///
    /// # Guarantee
    /// As [`Generalized::error_at`], with the largest size for Δ_j and Δ_w. Infinite for a β below
    /// about 2⁻⁶⁰, because nothing is known about the scores on the lowest level.
    pub fn worst_at(&self, candidates: usize, beta: &Rational) -> f64 {
        let levels = self.levels_at(candidates, beta) / f64::from(self.per_row);
        report_up(levels + levels.max(f64::from(self.shift)))
    }

    /// The run of the winner, and its position in the run.
    ///
    /// # Guarantee
    /// P(i) ∝ exp(exponent·level(i)), exactly, over all candidates of the runs. The time grows with
    /// the number of runs and levels, and with the logarithm of the number of candidates.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] for a score of more than 2⁴⁶ rows of the largest size, or a
    /// negative size; the caller must exclude both by public bounds. [`MechanismError::Sampler`]
    /// when there is no candidate.
    pub fn choose_runs(
        &self,
        runs: &[SizedRun],
        rng: &mut QueryRng,
    ) -> Result<(usize, u64), MechanismError> {
        let levels = self.levels(runs)?;
        let scored: Vec<ScoredRun> = levels.iter().map(|(_, _, run)| *run).collect();
        let (winner, place) = self.choice.choose_runs(&scored, rng)?;
        let (run, first, _) = levels.get(winner).ok_or(MechanismError::RangeTooWide)?;
        let place = first.checked_add(place).ok_or(MechanismError::RangeTooWide)?;
        Ok((*run, place))
    }

    /// The candidates by level. For each stretch of a run on one level: the run, the position of
    /// the stretch's first candidate, and the level as the common score.
    ///
    /// # Guarantee
    /// Every candidate is in exactly one stretch. Its level is ⌊K·s⌋ for its margin s, or the
    /// lowest level, whichever is higher.
    ///
    /// # Errors
    /// As [`Generalized::choose_runs`].
    pub fn levels(
        &self,
        runs: &[SizedRun],
    ) -> Result<Vec<(usize, u64, ScoredRun)>, MechanismError> {
        let tops = self.tops(runs)?;
        let mut stretches = Vec::with_capacity(runs.len());
        for (index, run) in runs.iter().enumerate() {
            let Some(last) = run.run.count.checked_sub(1) else { continue };
            let depth = |place: u64| self.line(run, place).map(|line| self.depth(line, &tops));
            let of_last = depth(last)?;
            let mut first = 0;
            loop {
                let here = depth(first)?;
                // The candidates that reach a given level form a stretch at one end of the run,
                // because both sides of the comparison change evenly. So levels only rise along a
                // run, or only fall, and bisection finds the last candidate on the level of the
                // first.
                let (mut low, mut high) = (if of_last == here { last } else { first }, last);
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if depth(middle)? == here { low = middle } else { high = middle }
                }
                let score = -i128::from(here);
                let stretch = ScoredRun { count: low - first + 1, score, step: 0, weight: 1 };
                stretches.push((index, first, stretch));
                if low == last {
                    break;
                }
                first = low + 1;
            }
        }
        Ok(stretches)
    }

    /// The line from which a candidate's level is computed.
    fn line(&self, run: &SizedRun, place: u64) -> Result<CandidateLine, MechanismError> {
        let more = i128::from(place).checked_mul(run.size_step);
        let size = more.and_then(|more| more.checked_add(run.size));
        let size = size.filter(|size| (0..=1 << SIZE_BITS).contains(size));
        let height = size.and_then(|size| {
            let back = size.checked_mul(self.shift.into())?;
            run.run.score_at(place)?.checked_sub(back)?.checked_mul(self.per_row.into())
        });
        match size.zip(height) {
            Some((size, height)) if height.unsigned_abs() >> HEIGHT_BITS == 0 => {
                Ok(CandidateLine { height, size })
            }
            Some(_) | None => Err(MechanismError::RangeTooWide),
        }
    }

    /// For each depth below level 0, the highest of all candidates' lines. Within a run, a line at
    /// one of the run's ends is the highest.
    fn tops(&self, runs: &[SizedRun]) -> Result<Vec<i128>, MechanismError> {
        let mut envelope = Envelope::new(self.deepest);
        for run in runs {
            let Some(last) = run.run.count.checked_sub(1) else { continue };
            envelope.insert(self.line(run, 0)?);
            if last > 0 {
                envelope.insert(self.line(run, last)?);
            }
        }
        Ok((0..=self.deepest).map(|depth| envelope.top(depth)).collect())
    }

    /// The least depth d at which the rising line of a candidate reaches the highest of all falling
    /// lines: K·s ≥ −d for its margin s. The deepest level if it is not reached before.
    fn depth(&self, line: CandidateLine, tops: &[i128]) -> u32 {
        let (mut low, mut high) = (0, self.deepest);
        while low < high {
            let middle = low + (high - low) / 2;
            let top = usize::try_from(middle).ok().and_then(|middle| tops.get(middle));
            if top.is_none_or(|top| line.height + i128::from(middle) * line.size >= *top) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// The line of a candidate over the depth d below level 0. It is `height` + d·`size` for the
/// candidate whose level is sought, and `height` − d·`size` for a candidate that it is compared
/// with. Sizes and heights are limited, so neither overflows.
#[derive(Debug, Clone, Copy)]
struct CandidateLine {
    /// K·(q − t·Δ).
    height: i128,
    /// Δ.
    size: i128,
}

impl CandidateLine {
    fn falling(self, depth: u32) -> i128 {
        self.height - i128::from(depth) * self.size
    }
}

/// The highest of falling lines at every depth: a Li Chao tree.
struct Envelope {
    deepest: u32,
    nodes: Vec<Option<CandidateLine>>,
}

impl Envelope {
    fn new(deepest: u32) -> Self {
        let leaves = deepest.saturating_add(1).next_power_of_two();
        let nodes = usize::try_from(leaves).map_or(0, |leaves| leaves.saturating_mul(2));
        Self { deepest, nodes: vec![None; nodes] }
    }

    /// Two lines cross at most once. A node keeps the line that is higher at its middle depth. The
    /// other line moves to the half in which it can be higher.
    fn insert(&mut self, mut line: CandidateLine) {
        let (mut node, mut first, mut last) = (1, 0, self.deepest);
        while let Some(kept) = self.nodes.get_mut(node) {
            let middle = first + (last - first) / 2;
            let Some(old) = kept else {
                *kept = Some(line);
                return;
            };
            if line.falling(middle) > old.falling(middle) {
                std::mem::swap(&mut line, old);
            }
            let old = *old;
            if first == last {
                return;
            }
            if line.falling(first) > old.falling(first) {
                (node, last) = (2 * node, middle);
            } else if line.falling(last) > old.falling(last) {
                (node, first) = (2 * node + 1, middle + 1);
            } else {
                return;
            }
        }
    }

    /// The highest line at a depth; the lowest integer if there are no lines.
    fn top(&self, depth: u32) -> i128 {
        let (mut node, mut first, mut last) = (1, 0, self.deepest);
        let mut top = i128::MIN;
        while let Some(Some(line)) = self.nodes.get(node) {
            top = top.max(line.falling(depth));
            let middle = first + (last - first) / 2;
            if first == last {
                break;
            }
            if depth <= middle {
                (node, last) = (2 * node, middle);
            } else {
                (node, first) = (2 * node + 1, middle + 1);
            }
        }
        top
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "a test's numbers are small")]
mod tests;
