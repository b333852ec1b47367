//! The exponential mechanism over runs of candidates: its time depends on the number of runs, even
//! with 10⁹ ticks.
//!
//! In: runs and a rate. A run has a number of candidates, the gap from the best score to its first
//! candidate, the distance by which each further candidate falls, and an integer prior weight. Out:
//! the winner's run, and the winner's position in the run. Any number, order and size of runs is
//! allowed. The winner's probability is exactly proportional to weight·exp(−rate·gap).
//!
//! The *level* of a gap is ⌊rate·gap⌋. First, a level is drawn with probability ∝ (its
//! weight)·e^−level. This needs one count for each of about a hundred levels, instead of one
//! exponential for each candidate. Then a candidate of that level is drawn by weight. It is
//! accepted with the remaining factor, exp(−(rate·gap − level)) > 1/e.
//!
//! ```
//! use hushql_privacy::sampler::{QueryRng, Run, exponential_runs};
//!
//! let mut rng = QueryRng::from_os()?;
//! // The best candidate, and a billion more that fall by 1 each: weights 1, e^−2, e^−3, ….
//! let runs = [
//!     Run { count: 1, gap: 0, fall: 0, weight: 1 },
//!     Run { count: 1_000_000_000, gap: 2, fall: 1, weight: 1 },
//! ];
//! let (run, place) = exponential_runs(&runs, 1, 1, &mut rng)?;
//! assert!(run < 2 && place < 1_000);
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```

mod levels;

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "a test's statistics are floats"
)]
mod tests;

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::{ToPrimitive, Zero};

use self::levels::{Leading, Levels};
use super::SamplerError;
use super::bernoulli::{bernoulli_exp, bernoulli_exp_big};
use super::rng::Uniform;

/// Consecutive candidates whose scores fall by equal steps: candidate j (from 0) lies
/// `gap + j·fall` below the best score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of candidates, which may be 0.
    pub count: u64,
    /// How far the first candidate is below the best score, or below some score at least as high.
    pub gap: u128,
    /// How much lower each candidate scores than the one before it.
    pub fall: u128,
    /// The prior weight of each candidate; 0 excludes the run.
    pub weight: u128,
}

/// Draws a candidate of these runs by the exponential mechanism. Returns the index of its run and
/// its position in the run.
///
/// # Guarantee
/// P(i, j) ∝ weight_i·exp(−rate·(gap_i + j·fall_i)) with rate = `rate_num / rate_den`, exactly, for
/// all runs. A `rate_den` of 0 means an infinite rate: the draw is by weight among the best. The
/// expected number of attempts is below e for all runs. The time grows with the number of runs, and
/// does not depend on the number of candidates.
///
/// # Errors
/// [`SamplerError::NoCandidate`] when no run has both a candidate and a weight.
pub fn exponential_runs<U: Uniform + ?Sized>(
    runs: &[Run],
    rate_num: u128,
    rate_den: u128,
    uniform: &mut U,
) -> Result<(usize, u64), SamplerError> {
    Ok(RunChoice::new(runs, rate_num, rate_den)?.draw(uniform))
}

/// [`exponential_runs`] prepared for several independent draws from the same runs.
#[derive(Debug, Clone)]
pub struct RunChoice<'a> {
    runs: &'a [Run],
    rate_num: u128,
    rate_den: u128,
    /// The smallest gap of all runs. Levels count from it, which does not change the law.
    nearest: u128,
    total: BigUint,
    starts: Starts,
    /// The weight on each counted level; `rest` is the weight on all others.
    weights: Vec<BigUint>,
    rest: BigUint,
    point: u64,
    bits: u64,
    levels: Levels,
}

/// Gaps at which the levels start: level l is
/// [`starts[l]`, `starts[l + 1]`), the last one up to `end`.
#[derive(Debug, Clone)]
struct Starts {
    starts: Vec<u128>,
    /// Gaps from here on belong to no counted level; `None` when every gap belongs to one.
    end: Option<u128>,
}

impl<'a> RunChoice<'a> {
    /// Counts the levels of `runs` for a rate of `rate_num / rate_den`.
    ///
    /// # Errors
    /// [`SamplerError::NoCandidate`] when no run has both a candidate and a weight.
    pub fn new(runs: &'a [Run], rate_num: u128, rate_den: u128) -> Result<Self, SamplerError> {
        // Let W be the total weight. The levels from ln W + 44 on weigh less than e^−44 times the
        // nearest candidate, and the bounds of all other levels are equally tight. So refinement is
        // very rare.
        let length = total_weight(runs).bits();
        let levels = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(44);
        let point = length.saturating_add(96);
        Self::with_precision(runs, rate_num, rate_den, levels, point, 96)
    }

    /// As [`RunChoice::new`], with the initial precision given: the number of levels, bounds in
    /// units of 2^−`point`, and the number of `bits` of the uniform number. The law depends on none
    /// of them.
    fn with_precision(
        runs: &'a [Run],
        rate_num: u128,
        rate_den: u128,
        levels: usize,
        point: u64,
        bits: u64,
    ) -> Result<Self, SamplerError> {
        let nearest = runs.iter().filter(|run| run.counts()).map(|run| run.gap).min();
        let mut choice = Self {
            runs,
            rate_num,
            rate_den,
            nearest: nearest.ok_or(SamplerError::NoCandidate)?,
            total: total_weight(runs),
            starts: Starts { starts: Vec::new(), end: None },
            weights: Vec::new(),
            rest: BigUint::ZERO,
            point: point.max(1),
            bits: bits.max(1),
            levels: Levels::default(),
        };
        choice.count(levels.max(1));
        Ok(choice)
    }

    /// Draws a candidate, independently of earlier draws; the law is that of [`exponential_runs`].
    ///
    /// # Guarantee
    /// As [`exponential_runs`]. Later draws keep the bounds that an earlier draw refined. That
    /// saves time and does not change the law, because the level is a function of the drawn number
    /// alone.
    pub fn draw<U: Uniform + ?Sized>(&mut self, uniform: &mut U) -> (usize, u64) {
        loop {
            if let Some(winner) = self.attempt(uniform) {
                return winner;
            }
        }
    }

    /// One attempt; `None` means that the candidate was rejected.
    fn attempt<U: Uniform + ?Sized>(&mut self, uniform: &mut U) -> Option<(usize, u64)> {
        let level = self.level(uniform);
        self.attempt_on(level, uniform)
    }

    /// One attempt on a level that has been drawn.
    fn attempt_on<U: Uniform + ?Sized>(
        &self,
        level: usize,
        uniform: &mut U,
    ) -> Option<(usize, u64)> {
        let (run, place) = self.member(level, uniform)?;
        self.keeps(level, self.runs.get(run)?, place, uniform).then_some((run, place))
    }

    /// A level with probability ∝ weight·e^−level.
    ///
    /// # Guarantee
    /// Exact: the level is the one that contains u·Z for one uniform real u, where Z is the sum
    /// over all levels. It is returned only when rational bounds prove it. Otherwise more bits of
    /// the *same* u decide; a new u would favour the levels that are easy to decide.
    fn level<U: Uniform + ?Sized>(&mut self, uniform: &mut U) -> usize {
        let mut leading = Leading::draw(self.bits, uniform);
        loop {
            if let Some(level) = self.levels.decide(&leading) {
                return level;
            }
            leading.double(uniform);
            self.refine();
        }
    }

    /// Doubles the number of levels and the length of the bounds.
    fn refine(&mut self) {
        self.point = self.point.saturating_mul(2);
        if self.rest.is_zero() {
            self.levels = Levels::new(&self.weights, &self.rest, self.point);
        } else {
            self.count(self.starts.starts.len().saturating_mul(2));
        }
    }

    /// Counts the weight on each of the first `levels` levels.
    #[expect(clippy::arithmetic_side_effects, reason = "naturals of any length; a part of the sum")]
    fn count(&mut self, levels: usize) {
        let counted = self.runs.iter().filter(|run| run.counts());
        let beyond =
            |run: &Run| run.farthest().map_or(u128::MAX, |far| far.saturating_sub(self.nearest));
        let farthest = counted.map(beyond).max().unwrap_or(0);
        self.starts = Starts::new(self.rate_num, self.rate_den, levels, farthest);
        let mut masses = vec![Mass::default(); self.starts.starts.len()];
        for run in self.runs.iter().filter(|run| run.counts()) {
            let offset = run.gap.saturating_sub(self.nearest);
            let Some(mut level) = self.starts.level(offset) else { continue };
            let mut done = 0;
            while let Some(mass) = masses.get_mut(level)
                && done < run.count
            {
                let reached = run.reached(offset, self.starts.after(level));
                mass.add(run.weight, reached.saturating_sub(done));
                done = reached;
                level = level.saturating_add(1);
            }
        }
        self.weights = masses.into_iter().map(Mass::sum).collect();
        let counted: BigUint = self.weights.iter().sum();
        // At an infinite rate every candidate but the best has probability 0.
        self.rest = if self.rate_den == 0 { BigUint::ZERO } else { &self.total - counted };
        if self.rest.is_zero() {
            // No candidate is on a level beyond the last one.
            let last = self.weights.iter().rposition(|weight| !weight.is_zero());
            self.weights.truncate(last.map_or(0, |last| last.saturating_add(1)));
        }
        self.levels = Levels::new(&self.weights, &self.rest, self.point);
    }

    /// Draws a candidate of the level by weight, and returns its run and place.
    fn member<U: Uniform + ?Sized>(&self, level: usize, uniform: &mut U) -> Option<(usize, u64)> {
        let weight = self.weights.get(level)?;
        match weight.to_u128() {
            Some(weight) => self.member_at(level, uniform.below_u128(weight)),
            None => self.member_at_big(level, uniform.below_big(weight)),
        }
    }

    /// The candidate that owns unit number `unit` of the level's weight. The weight must fit 128
    /// bits.
    fn member_at(&self, level: usize, mut unit: u128) -> Option<(usize, u64)> {
        for (index, run, from, to) in self.members(level) {
            let mass = run.weight.checked_mul(u128::from(to.saturating_sub(from)))?;
            match unit.checked_sub(mass) {
                Some(left) => unit = left,
                None => {
                    let place = u64::try_from(unit.checked_div(run.weight)?).ok()?;
                    return Some((index, from.saturating_add(place)));
                }
            }
        }
        None
    }

    /// As [`RunChoice::member_at`], for any weight.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "naturals of any length; the smaller is subtracted"
    )]
    fn member_at_big(&self, level: usize, mut unit: BigUint) -> Option<(usize, u64)> {
        for (index, run, from, to) in self.members(level) {
            let mass = BigUint::from(run.weight) * to.saturating_sub(from);
            if unit < mass {
                let place = (unit / run.weight).to_u64()?;
                return Some((index, from.saturating_add(place)));
            }
            unit -= mass;
        }
        None
    }

    /// The runs that have candidates on the level, each with the range of those candidates.
    fn members(&self, level: usize) -> impl Iterator<Item = (usize, &'a Run, u64, u64)> {
        let start = self.starts.starts.get(level).copied();
        let after = self.starts.after(level);
        self.runs.iter().enumerate().filter_map(move |(index, run)| {
            let offset = run.gap.saturating_sub(self.nearest);
            if !run.counts() || after.is_some_and(|after| offset >= after) {
                return None;
            }
            let (from, to) = (run.reached(offset, start), run.reached(offset, after));
            (from < to).then_some((index, run, from, to))
        })
    }

    /// True with probability exp(−(rate·gap − level)), for a candidate of the level.
    #[expect(clippy::arithmetic_side_effects, reason = "naturals of any length; rate·gap ≥ level")]
    fn keeps<U: Uniform + ?Sized>(
        &self,
        level: usize,
        run: &Run,
        place: u64,
        uniform: &mut U,
    ) -> bool {
        let offset = run.gap.saturating_sub(self.nearest);
        if offset == 0 && (run.fall == 0 || place == 0) {
            return true;
        }
        let level = u128::try_from(level).unwrap_or(u128::MAX);
        let excess = u128::from(place)
            .checked_mul(run.fall)
            .and_then(|fallen| fallen.checked_add(offset))
            .and_then(|gap| gap.checked_mul(self.rate_num))
            .zip(level.checked_mul(self.rate_den))
            .and_then(|(exponent, whole)| exponent.checked_sub(whole));
        if let Some(excess) = excess {
            return bernoulli_exp(excess, self.rate_den, uniform);
        }
        let gap = BigUint::from(run.fall) * place + offset;
        let excess = gap * self.rate_num - BigUint::from(level) * self.rate_den;
        bernoulli_exp_big(&excess, &BigUint::from(self.rate_den), uniform)
    }
}

impl Run {
    /// True if some candidate of this run can win.
    fn counts(&self) -> bool {
        self.count > 0 && self.weight > 0
    }

    /// The gap of the last candidate; `None` beyond 128 bits.
    fn farthest(&self) -> Option<u128> {
        u128::from(self.count.saturating_sub(1)).checked_mul(self.fall)?.checked_add(self.gap)
    }

    /// The number of candidates that are nearer than `bound`, if the first lies at `offset`.
    /// Without a bound: all of them.
    fn reached(&self, offset: u128, bound: Option<u128>) -> u64 {
        let Some(bound) = bound else { return self.count };
        if offset >= bound {
            0
        } else if self.fall == 0 || self.count == 1 {
            self.count
        } else {
            let reached = bound.saturating_sub(offset).div_ceil(self.fall);
            u64::try_from(reached).map_or(self.count, |reached| reached.min(self.count))
        }
    }
}

impl Starts {
    /// The starts of the first `levels` levels. There are fewer when a start would exceed 128 bits,
    /// or lies beyond the `farthest` gap.
    ///
    /// # Guarantee
    /// Level l starts at the smallest gap with rate·gap ≥ l, exactly.
    fn new(rate_num: u128, rate_den: u128, levels: usize, farthest: u128) -> Self {
        if rate_den == 0 {
            return Self { starts: vec![0], end: Some(1) };
        }
        let mut starts = vec![0];
        for level in 1..=levels {
            let Some(start) = start_of(level, rate_num, rate_den) else {
                return Self { starts, end: None };
            };
            starts.push(start);
            if start > farthest {
                break;
            }
        }
        let end = starts.pop();
        Self { starts, end }
    }

    /// The level of a gap; `None` if no counted level contains it.
    fn level(&self, gap: u128) -> Option<usize> {
        if self.end.is_some_and(|end| gap >= end) {
            return None;
        }
        self.starts.partition_point(|start| *start <= gap).checked_sub(1)
    }

    /// Where the level ends; `None` when it has no end.
    fn after(&self, level: usize) -> Option<u128> {
        self.starts.get(level.saturating_add(1)).copied().or(self.end)
    }
}

/// ⌈level·den/num⌉; `None` beyond 128 bits.
#[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
fn start_of(level: usize, rate_num: u128, rate_den: u128) -> Option<u128> {
    if rate_num == 0 {
        return None;
    }
    let wide = u128::try_from(level).ok()?.checked_mul(rate_den);
    match wide {
        Some(wide) => Some(wide.div_ceil(rate_num)),
        None => (BigUint::from(level) * rate_den).div_ceil(&BigUint::from(rate_num)).to_u128(),
    }
}

/// The weight of all candidates together.
fn total_weight(runs: &[Run]) -> BigUint {
    let mut total = Mass::default();
    for run in runs {
        total.add(run.weight, run.count);
    }
    total.sum()
}

/// A sum of weights, in 128 bits as long as they suffice.
#[derive(Debug, Clone, Default)]
struct Mass {
    small: u128,
    large: BigUint,
}

impl Mass {
    #[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
    fn add(&mut self, weight: u128, count: u64) {
        let sum = weight.checked_mul(count.into()).and_then(|mass| mass.checked_add(self.small));
        match sum {
            Some(sum) => self.small = sum,
            None => self.large += BigUint::from(weight) * count,
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
    fn sum(self) -> BigUint {
        self.large + self.small
    }
}
