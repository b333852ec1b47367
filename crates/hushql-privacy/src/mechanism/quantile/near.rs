//! Draws a quantile from the ticks near the wanted rank: with a million rows, few of all ticks can
//! win.
//!
//! A sorted histogram, the wanted rank and a rate go in. The winner's tick comes out, by the same
//! law as among the runs of [`quantile_runs`]. Scores fall on both sides of the rank, so the ticks
//! within a distance of the best score are neighbours. All others form two runs whose common score
//! is at least as high as theirs. If one of these wins, it is accepted with a probability that
//! makes up for its lower score. As in the mechanism, the rows of a unit must be bounded.
//!
//! ```text
//! ticks     0 1 2 3 │ 4 5 6 7 8 │ 9 10 …      scores −9 −9 −7 −5 │ −3 −1 0 −1 −3 │ −4 −8 …
//! drawn as          │           │                    −4            −3 −1 0 −1 −3   −4
//! accepted by       │           │             e^−5r e^−5r e^−3r e^−r      1         1 e^−4r …
//! ```

use num_bigint::BigUint;

use super::{Rank, quantile_runs, score};
use crate::mechanism::tick_runs::Gaps;
use crate::mechanism::{Exponential, MechanismError, ScoredRun, TickRuns};
use crate::sampler::QueryRng;
use crate::sampler::bernoulli::bernoulli_exp_big;

/// The ticks of a histogram, and the wanted rank.
#[derive(Debug, Clone, Copy)]
struct Axis {
    /// The last tick.
    last: u64,
    rank: Rank,
    /// The number of rows in the histogram.
    total: i128,
}

/// All ticks in runs. The ticks far from the rank have one common score.
#[derive(Debug)]
struct Near {
    ticks: TickRuns,
    /// The first near tick, and the first tick behind the last near one.
    from: u64,
    to: u64,
    /// The common score of the far ticks.
    far: i128,
}

impl Near {
    /// The runs of the ticks 0..=`last`: ticks that score at most `reach` less than the best have
    /// their own scores; all others have a common one. `None` if no tick is near, or beyond 128
    /// bits.
    ///
    /// # Guarantee
    /// Every tick is in exactly one run, in order. Ticks from `from` on and before `to` have the
    /// score of [`quantile_runs`]. All others have the score `far`, which is at least as high.
    ///
    /// # Errors
    /// As [`quantile_runs`].
    fn new(
        points: impl Iterator<Item = (u64, i128)>,
        Axis { last, rank, total }: Axis,
        reach: i128,
    ) -> Result<Option<Self>, MechanismError> {
        let Some((far, [least, most])) = counts_within(rank, total, reach) else {
            return Ok(None);
        };
        let even = |count: u64, score: i128| ScoredRun { count, score, step: 0, weight: 1 };
        let mut ticks = TickRuns::default();
        let (mut below, mut next, mut from) = (0, 0, None);
        for (tick, weight) in points {
            let up_to = below + weight;
            if up_to < least {
                (below, next) = (up_to, tick + 1);
                continue;
            }
            if from.is_none() {
                // Between two data points, no tick has a row, so as many rows are at or below it as
                // below it.
                next = if below < least { tick } else { next };
                from = Some(next);
                ticks.push(0, even(next, far));
            }
            if below > most {
                break;
            }
            ticks.push(next, even(tick - next, score(rank, total, below, below)?));
            ticks.push(tick, even(1, score(rank, total, below, up_to)?));
            (below, next) = (up_to, tick + 1);
        }
        let Some(from) = from else { return Ok(None) };
        if below <= most && next <= last {
            ticks.push(next, even(last - next + 1, score(rank, total, below, below)?));
            next = last + 1;
        }
        if next <= last {
            ticks.push(next, even(last - next + 1, far));
        }
        Ok(Some(Self { ticks, from, to: next, far }))
    }

    /// How far a tick's own score is below that of its run.
    fn excess(
        &self,
        points: impl Iterator<Item = (u64, i128)>,
        Axis { rank, total, .. }: Axis,
        tick: u64,
    ) -> Result<u128, MechanismError> {
        if (self.from..self.to).contains(&tick) {
            return Ok(0);
        }
        let (mut below, mut up_to) = (0, 0);
        for (place, weight) in points.take_while(|(place, _)| *place <= tick) {
            up_to += weight;
            below += if place < tick { weight } else { 0 };
        }
        let own = score(rank, total, below, up_to)?;
        let excess = self.far.checked_sub(own).and_then(|excess| u128::try_from(excess).ok());
        excess.ok_or(MechanismError::RangeTooWide)
    }
}

/// The number of rows in a histogram; `None` if there are none. Also `None` for histograms that
/// [`Near`] does not accept: ticks out of order, repeated, or beyond the last one, and weights that
/// are not positive.
fn total(mut points: impl Iterator<Item = (u64, i128)>, last: u64) -> Option<i128> {
    let (mut total, mut free) = (0_i128, 0_u64);
    points.try_for_each(|(tick, weight)| {
        let is_next = tick >= free && tick <= last && weight > 0;
        free = tick.checked_add(1).filter(|_| is_next)?;
        total = total.checked_add(weight)?;
        Some(())
    })?;
    (total > 0).then_some(total)
}

/// Bounds that tell near ticks from far ones, where near means within `reach` of the best score.
/// Returns a score, and two numbers of rows: a near tick has at least the first number at or below
/// it, and at most the second below it. `None` beyond 128 bits.
///
/// # Guarantee
/// A tick that breaks either bound scores at most the returned score.
fn counts_within(rank: Rank, total: i128, reach: i128) -> Option<(i128, [i128; 2])> {
    let missing = |rank: u64| (i128::from(rank.max(1)) - total).max(0);
    match rank {
        Rank::Fraction { num, den } => {
            let (num, den) = (i128::from(num), i128::from(den).max(1));
            let goal = total.checked_mul(num)?;
            let least = -reach.checked_sub(goal)?.div_euclid(den);
            let most = goal.checked_add(reach)?.div_euclid(den);
            Some((-reach.checked_add(1)?, [least, most]))
        }
        Rank::FromLow(rank) => {
            let (within, rank) = (reach.checked_add(missing(rank))?, i128::from(rank.max(1)));
            let most = within.checked_add(rank - 1)?;
            Some((-within.checked_add(1)?, [rank - within, most]))
        }
        Rank::FromHigh(rank) => {
            let (within, rank) = (reach.checked_add(missing(rank))?, i128::from(rank.max(1)));
            let least = (total - (rank - 1)).checked_sub(within)?;
            let most = (total - rank).checked_add(within)?;
            Some((-within.checked_add(1)?, [least, most]))
        }
    }
}

impl Exponential {
    /// The winner among the ticks 0..=`last`, by their distance from a rank. `points` lists ticks
    /// and the number of rows there.
    ///
    /// # Guarantee
    /// P(t) ∝ exp(exponent·score(t)) exactly, with the scores of [`quantile_runs`]. A far tick is
    /// drawn with the score of its run, and accepted with the remaining factor, which is at most 1.
    /// This is ε-DP as [`Exponential::choose_runs`] is, wherever far ticks begin.
    ///
    /// # Errors
    /// As [`quantile_runs`].
    pub fn choose_quantile(
        &self,
        points: impl Iterator<Item = (u64, i128)> + Clone,
        last: u64,
        rank: Rank,
        rng: &mut QueryRng,
    ) -> Result<u64, MechanismError> {
        let is_valid = last < u64::MAX && !matches!(rank, Rank::Fraction { num, den } if num > den);
        let total = if is_valid { total(points.clone(), last) } else { None };
        let Some(total) = total else { return self.choose_anywhere(points, last, rank, rng) };
        let axis = Axis { last, rank, total };
        self.choose_within(points, axis, self.reaches(axis), rng)
    }

    /// The distances from the best score beyond which ticks are far: for the first attempt, and for
    /// all others.
    ///
    /// With the first distance, far ticks are seldom drawn if the data points near the rank are
    /// spread like those elsewhere. With the second, far ticks are seldom drawn for any data.
    fn reaches(&self, Axis { last, rank, total }: Axis) -> [i128; 2] {
        // Of R rows, a share of about 1/(R·rate) scores within 1/rate of the best, and the ticks
        // near them are a similar share of all ticks.
        let points_of_a_row = match rank {
            Rank::Fraction { den, .. } => u128::from(den),
            Rank::FromLow(_) | Rank::FromHigh(_) => 1,
        };
        let all = total.unsigned_abs().saturating_mul(points_of_a_row);
        let parts = all.saturating_mul(self.rate.numerator).checked_div(self.rate.denominator);
        let parts = parts.and_then(|parts| u64::try_from(parts).ok()).unwrap_or(last);
        [self.reach(parts.min(last)), self.reach(last)]
    }

    /// The distance from the best score beyond which this many ticks (or parts) together are hardly
    /// ever drawn.
    fn reach(&self, ticks: u64) -> i128 {
        // The distance is (ln n + 4)/rate, where ln n < 0.7·(bits of n).
        let levels = u128::from(u64::BITS - ticks.leading_zeros()) * 7 / 10 + 5;
        let reach = levels.checked_mul(self.rate.denominator);
        let reach = reach.and_then(|reach| reach.checked_div(self.rate.numerator));
        reach.and_then(|reach| i128::try_from(reach).ok()).unwrap_or(i128::MAX)
    }

    /// As [`Exponential::choose_quantile`], for given distances: one for the first attempt, one for
    /// all others. Whichever attempt is accepted, its tick follows the law, so the distances do not
    /// change it.
    fn choose_within(
        &self,
        points: impl Iterator<Item = (u64, i128)> + Clone,
        axis: Axis,
        [first, others]: [i128; 2],
        rng: &mut QueryRng,
    ) -> Result<u64, MechanismError> {
        let denominator = BigUint::from(self.rate.denominator);
        for (reach, attempts) in [(first, 1), (others, u64::MAX)] {
            let Some(near) = Near::new(points.clone(), axis, reach)? else { continue };
            let gaps = Gaps::new(&near.ticks.runs)?;
            let mut choice = gaps.choice(self.rate.numerator, self.rate.denominator)?;
            for _ in 0..attempts {
                let tick = near.ticks.tick(gaps.winner(choice.draw(rng)));
                let tick = tick.ok_or(MechanismError::RangeTooWide)?;
                let excess = near.excess(points.clone(), axis, tick)?;
                let exponent = BigUint::from(excess) * self.rate.numerator;
                if excess == 0 || bernoulli_exp_big(&exponent, &denominator, rng) {
                    return Ok(tick);
                }
            }
        }
        self.choose_anywhere(points, axis.last, axis.rank, rng)
    }

    /// As [`Exponential::choose_quantile`], among the runs of all ticks.
    fn choose_anywhere(
        &self,
        points: impl Iterator<Item = (u64, i128)>,
        last: u64,
        rank: Rank,
        rng: &mut QueryRng,
    ) -> Result<u64, MechanismError> {
        let histogram: Vec<_> = points.collect();
        let ticks = quantile_runs(&histogram, last, rank)?;
        let winner = self.choose_runs(&ticks.runs, rng)?;
        ticks.tick(winner).ok_or(MechanismError::RangeTooWide)
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "a test's statistics are floats")]
mod tests {
    use super::*;
    use crate::mechanism::quantile::tests::{RANKS, flat, multisets};
    use crate::sampler::tests::statistics::assert_frequencies;

    fn histogram(rows: &[u64]) -> Vec<(u64, i128)> {
        rows.chunk_by(u64::eq).map(|equal| (equal[0], equal.len() as i128)).collect()
    }

    /// For every distance, near ticks have their own scores, and no far tick scores more than its
    /// run.
    #[test]
    fn what_is_near_has_its_score() {
        let (mut near_ones, mut far_ones) = (0, 0);
        for last in [0, 1, 4] {
            for rows in multisets(last, 5).into_iter().filter(|rows| !rows.is_empty()) {
                for rank in RANKS {
                    let points = histogram(&rows);
                    let own = flat(&quantile_runs(&points, last, rank).unwrap());
                    let best = own.iter().max().unwrap();
                    for reach in 0..12 {
                        let total = total(points.iter().copied(), last).unwrap();
                        let axis = Axis { last, rank, total };
                        let near = Near::new(points.iter().copied(), axis, reach);
                        let near = near.unwrap().unwrap();
                        let drawn = flat(&near.ticks);
                        assert_eq!(drawn.len(), own.len(), "{rows:?} {rank:?} {reach}");
                        for (tick, (drawn, own)) in (0..).zip(drawn.iter().zip(&own)) {
                            let excess = near.excess(points.iter().copied(), axis, tick).unwrap();
                            let what = format!("{rows:?} {rank:?} {reach} {tick}");
                            assert_eq!(u128::try_from(drawn - own).unwrap(), excess, "{what}");
                            let is_near = (near.from..near.to).contains(&tick);
                            assert!(is_near || *drawn < best - reach, "{what}");
                            assert_eq!(is_near, *own >= best - reach, "{what}");
                            near_ones += u32::from(is_near);
                            far_ones += u32::from(!is_near);
                        }
                    }
                }
            }
        }
        assert!(near_ones > 10_000 && far_ones > 10_000, "{near_ones} {far_ones}");
    }

    /// The false-alarm rate is 10⁻⁹ each, see `statistics`; seeds are fixed. For every distance,
    /// the draws follow the law of the scores.
    #[test]
    fn draws_follow_the_law() {
        let points = [(1, 2), (2, 5), (4, 1), (5, 7), (9, 3), (11, 2)];
        let last = 12;
        for (turn, rank) in (0..).zip(RANKS) {
            let mechanism = Exponential::calibrate(6, &"1".parse().unwrap()).unwrap();
            let scores = flat(&quantile_runs(&points, last, rank).unwrap());
            let weights = mechanism.rate.weights(&scores);
            let total: f64 = weights.iter().sum();
            let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
            let axis = Axis { last, rank, total: 20 };
            let reaches = [[0, 0], [0, 3], [3, 9], [9, i128::MAX], [i128::MAX, 0]];
            for reaches in reaches.into_iter().chain([mechanism.reaches(axis)]) {
                let mut rng = QueryRng::seeded_for_tests(60 + turn);
                let mut counts = vec![0_u64; law.len()];
                for _ in 0..20_000 {
                    let points = points.iter().copied();
                    let tick = mechanism.choose_within(points, axis, reaches, &mut rng);
                    counts[usize::try_from(tick.unwrap()).unwrap()] += 1;
                }
                assert_frequencies(&format!("{rank:?} {reaches:?}"), &counts, &law);
            }
        }
    }

    /// Histograms without rows, out of order, or with ticks beyond the last are drawn among all
    /// ticks.
    #[test]
    fn other_histograms_are_drawn_as_a_whole() {
        let mechanism = Exponential::calibrate(2, &"1000".parse().unwrap()).unwrap();
        let median = Rank::Fraction { num: 1, den: 2 };
        let mut rng = QueryRng::seeded_for_tests(3);
        let mut choose = |points: &[(u64, i128)], last| {
            mechanism.choose_quantile(points.iter().copied(), last, median, &mut rng)
        };
        for (points, winner) in [
            (vec![(7, 1), (3, 1), (5, 1)], 5),
            (vec![(3, 1), (5, 1), (5, 1), (7, 1), (8, 1)], 5),
            (vec![(3, 1), (99, 3)], 9),
            (vec![(3, -4), (5, 1), (6, 0)], 5),
            (vec![(3, 4), (5, 9), (6, 4)], 5),
        ] {
            let total = total(points.iter().copied(), 9);
            assert_eq!(total.is_some(), points == [(3, 4), (5, 9), (6, 4)]);
            assert_eq!(choose(&points, 9).unwrap(), winner, "{points:?}");
        }
        assert!(choose(&[], 9).unwrap() <= 9);
        assert!(choose(&[(3, 1)], u64::MAX).is_err());
        assert!(choose(&[(3, i128::MAX)], 9).is_err());
    }
}
