//! The best price: the revenue p·#{bids ≥ p} of every price of a grid, in runs between the bids.
//!
//! The grid of prices and a histogram of bids go in; a bid is given as the number of prices that it
//! reaches. Runs of prices come out, with the range by which one unit changes their revenues.
//! Within a run the buyers are the same and the revenue rises evenly. It assumes that bids are
//! clamped and that a unit's quantity is bounded. The exponential mechanism chooses among the runs.
//!
//! Bids 1, 1, 1 and 3.01 in cents give the runs
//! `[100 prices from 0.04 by +0.04, 201 from 1.01 by +0.01, the rest 0]`.

use num_traits::ToPrimitive;

use super::quantile::tidied;
use super::rate::report_up;
use super::tick_runs::Gaps;
use super::{Exponential, MechanismError, ScoredRun, TickRuns};
use crate::sampler::QueryRng;
use crate::sampler::bernoulli::bernoulli;

/// Evenly spaced candidate prices: tick t, from 0 to `ticks` − 1, costs `first + t·step` units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceGrid {
    first: i128,
    step: i128,
    ticks: u64,
}

impl PriceGrid {
    /// Checks the grid.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when there is no tick, the first price or the step is
    /// negative, or the last price does not fit 127 bits.
    pub fn new(first: i128, step: i128, ticks: u64) -> Result<Self, MechanismError> {
        let last = ticks.checked_sub(1).and_then(|last| step.checked_mul(last.into()));
        match last.and_then(|last| last.checked_add(first)) {
            Some(_) if first >= 0 && step >= 0 => Ok(Self { first, step, ticks }),
            _ => Err(MechanismError::RangeTooWide),
        }
    }

    /// The price of a tick; beyond the last tick, the last price.
    pub fn price(&self, tick: u64) -> i128 {
        // No overflow: the constructor checked the last price.
        self.first + self.step * i128::from(tick.min(self.ticks - 1))
    }

    /// The range of the revenues: how much more one unit that buys at most `quantity` can change
    /// the revenue of one price than that of another.
    ///
    /// # Guarantee
    /// As [`range`] for the prices of the grid.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when the range does not fit 128 bits.
    pub fn range(&self, quantity: u128) -> Result<u128, MechanismError> {
        let (first, last) = (self.price(0), self.price(self.ticks - 1));
        let before = if self.ticks > 1 { self.price(self.ticks - 2) } else { 0 };
        widest(first, before, last, quantity)
    }

    /// The revenue of every price, in runs.
    ///
    /// `histogram` lists places and weights, in any order. The place p of a row is the number of
    /// prices at or below its bid: the row buys its weight at ticks below p. A place beyond the
    /// grid counts as `ticks`, a negative weight as 0.
    ///
    /// # Guarantee
    /// Every tick is in exactly one run, in order, and its score is price(t)·Σ weight over places >
    /// t, an exact integer. All prior weights are 1. There are at most as many runs as distinct
    /// places, plus one.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when a revenue does not fit 127 bits; the caller must
    /// exclude this by public bounds.
    pub fn revenue_runs(&self, histogram: &[(u64, i128)]) -> Result<TickRuns, MechanismError> {
        let wide = MechanismError::RangeTooWide;
        let points = tidied(histogram, self.ticks)?;
        let total = points.iter().try_fold(0_i128, |sum, (_, weight)| sum.checked_add(*weight));
        let (mut buyers, mut next) = (total.ok_or(wide)?, 0_u64);
        let mut ticks = TickRuns::with_capacity(points.len() + 1);
        for (place, weight) in points.into_iter().chain([(self.ticks, 0)]) {
            if place > next {
                let score = self.price(next).checked_mul(buyers);
                let step = self.step.checked_mul(buyers);
                let (Some(score), Some(step)) = (score, step) else {
                    return Err(MechanismError::RangeTooWide);
                };
                let run = ScoredRun { count: place - next, score, step, weight: 1 };
                run.last_score().ok_or(MechanismError::RangeTooWide)?;
                ticks.push(next, run);
                next = place;
            }
            buyers -= weight;
        }
        Ok(ticks)
    }

    /// The prior with weight ∝ 1/price, as far as integers can express it. It favours every *ratio*
    /// of prices equally.
    ///
    /// # Guarantee
    /// Runs are cut where the price passes a power of two. A price in
    /// [2^j, 2^(j+1)) has the weight 2^(J−j) for the grid's largest J; a price of 0 has none.
    /// [`Exponential::choose_log_uniform`] corrects the rest.
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] when a score of the runs does not fit 128 bits.
    pub fn log_uniform(&self, ticks: &TickRuns) -> Result<TickRuns, MechanismError> {
        let top = self.octave(self.ticks - 1).unwrap_or(0);
        let mut cut = TickRuns::default();
        for (run, first) in ticks.runs.iter().zip(&ticks.first) {
            let mut done = 0_u64;
            while done < run.count {
                let tick = first.saturating_add(done);
                let octave = self.octave(tick);
                let end = self.end_of(octave).saturating_sub(*first).clamp(done + 1, run.count);
                let weight = octave.map_or(0, |octave| 1_u128 << (top - octave.min(top)));
                let score = run.score_at(done).ok_or(MechanismError::RangeTooWide)?;
                cut.push(tick, ScoredRun { count: end - done, score, weight, ..*run });
                done = end;
            }
        }
        Ok(cut)
    }

    /// An upper bound of the sum of the prior weights 1/price, divided by the smallest one. The
    /// error grows with its logarithm.
    ///
    /// # Guarantee
    /// At least Σ 1/price(t) · the last price, over the positive prices.
    pub fn log_uniform_spread(&self) -> f64 {
        let float = |price: i128| price.to_f64().unwrap_or(f64::INFINITY);
        let ticks = self.ticks.to_f64().unwrap_or(f64::INFINITY);
        let least = if self.first > 0 { self.first } else { self.step };
        let last = self.price(self.ticks - 1);
        if self.step == 0 || least >= last {
            return ticks;
        }
        // Each price except the least is the upper end of an interval one step long, and the
        // intervals are disjoint.
        let others = (float(last) / float(least)).ln() / float(self.step);
        report_up(float(last) * (1.0 / float(least) + others))
    }

    /// j with price in [2^j, 2^(j+1)); `None` for 0.
    fn octave(&self, tick: u64) -> Option<u32> {
        self.price(tick).checked_ilog2()
    }

    /// The first tick whose price is beyond the octave; the number of ticks if there is none.
    fn end_of(&self, octave: Option<u32>) -> u64 {
        let bound = match octave {
            None => Some(1_i128),
            // No price reaches 2^127.
            Some(octave) => 1_i128.checked_shl(octave + 1).filter(|bound| *bound > 0),
        };
        let reached = bound.filter(|_| self.step > 0).and_then(|bound| {
            u64::try_from(
                (bound - self.first).max(0).unsigned_abs().div_ceil(self.step.unsigned_abs()),
            )
            .ok()
        });
        reached.unwrap_or(self.ticks).min(self.ticks)
    }
}

/// The range of the revenues of these sorted prices: how much more one unit that buys at most
/// `quantity` can change the revenue of one price than that of another.
///
/// # Guarantee
/// quantity·max(p_{n−1}, p_n − p_1). A buyer who stops before the last price changes its revenue by
/// 0 and another's by at most p_{n−1}. A buyer at every price changes each revenue by that price.
/// For rows whose quantities add up to at most `quantity`, the changes add up, and so do their
/// spreads. 0 for one price or none: nothing is compared.
///
/// # Errors
/// [`MechanismError::RangeTooWide`] when a price is negative, they are not sorted, or the range
/// does not fit 128 bits.
pub fn range(prices: &[i128], quantity: u128) -> Result<u128, MechanismError> {
    if !prices.is_sorted() || prices.first().is_some_and(|first| *first < 0) {
        return Err(MechanismError::RangeTooWide);
    }
    match prices {
        [] | [_] => Ok(0),
        [first, .., before, last] => widest(*first, *before, *last, quantity),
        [first, last] => widest(*first, *first, *last, quantity),
    }
}

fn widest(first: i128, before: i128, last: i128, quantity: u128) -> Result<u128, MechanismError> {
    before
        .max(last - first)
        .unsigned_abs()
        .checked_mul(quantity)
        .ok_or(MechanismError::RangeTooWide)
}

impl Exponential {
    /// The tick of the winner among the `ticks` of a grid, under the prior 1/price.
    ///
    /// # Guarantee
    /// P(t) ∝ exp(exponent·score(t))/price(t) over the positive prices, exactly: the winner under
    /// the runs' integer weights 2^(J−j) is accepted with probability 2^j/price > 1/2. The prior is
    /// public, so this is ε-DP as [`Exponential::choose_runs`] is.
    ///
    /// # Errors
    /// As [`Exponential::choose_runs`]. If no price is positive, there is no candidate.
    pub fn choose_log_uniform(
        &self,
        grid: &PriceGrid,
        ticks: &TickRuns,
        rng: &mut QueryRng,
    ) -> Result<u64, MechanismError> {
        let cut = grid.log_uniform(ticks)?;
        let gaps = Gaps::new(&cut.runs)?;
        let mut choice = gaps.choice(self.rate.numerator, self.rate.denominator)?;
        loop {
            let winner = gaps.winner(choice.draw(rng));
            let Some(tick) = cut.tick(winner) else { continue };
            let Some(octave) = grid.octave(tick) else { continue };
            if bernoulli(1_u128 << octave, grid.price(tick).unsigned_abs(), rng) {
                return Ok(tick);
            }
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
