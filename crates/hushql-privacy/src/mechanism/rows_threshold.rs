//! The threshold for a partition's noisy number of rows, or for its noisy sum, if one unit can have
//! several rows in it.
//!
//! In: the noise of the number, the most rows that one unit can have in partitions of its own, and
//! δ. Out: the least noisy number that is released. It assumes that the number of a partition is
//! that of its bounded rows, or a sum to which each of them adds at least 0 and at most `of_row`;
//! that partitions with the number 0 are never shown; and that every partition has a separate draw.
//! All partitions that contain one unit alone then stay hidden, except with probability δ.
//!
//! ```text
//! Laplace noise of scale 50, at most 50 rows of a unit, in 1 to 50 partitions, δ = 10⁻⁶:  τ = 854
//! ```

use num_bigint::BigInt;
use num_traits::{One, ToPrimitive, Zero};

use super::laplace::smallest;
use super::threshold::{BITS, one_more, surprise};
use super::{Gaussian, Laplace, MechanismError};
use crate::privacy::enclosure::exp_neg;
use crate::privacy::{Delta, Rational};

/// Bounds on the rows of one unit in partitions that contain no other unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    /// C: the number of partitions.
    pub groups: u64,
    /// m: the rows in each.
    pub rows: u64,
    /// M: the rows in all partitions; `None` if only the other two bound them.
    pub total: Option<u64>,
    /// b: the most that a row adds to the number of a partition; 1 if rows are counted.
    pub of_row: u64,
}

/// Several partitions with the same number of rows: how many partitions, and how many rows in each.
type Alike = (u64, u64);

impl Alone {
    /// The candidates for the worst way to distribute a unit's rows over partitions: the way that
    /// most likely shows a partition.
    ///
    /// # Guarantee
    /// Let p be convex and increasing on 1, …, m. Of all r_1, …, r_n with 1 ≤ r_i ≤ m, Σr_i ≤ M and
    /// n ≤ C, one of the returned ways has the largest Σp(r_i). First take a fixed n. Since p is
    /// convex, the largest sum has as many partitions of m rows and of one row as possible, and at
    /// most one in between; since p increases, it has all M rows. Now let n grow by one. The new
    /// partition takes a row from the one in between, or from one of m rows. The sum changes by
    /// p(1) − (p(r) − p(r − 1)), which grows while r falls from m to 2. So between two neighbouring
    /// n that have no partition in between, the sum is convex in n; over these n it is linear. So
    /// it is largest at the smallest or largest n, or at the first or the last n without a
    /// partition in between.
    fn extremes(&self) -> Vec<[Alike; 3]> {
        let (rows, groups) = (self.rows.max(1), self.groups.max(1));
        let Some(total) = self.total.filter(|total| *total < groups.saturating_mul(rows)) else {
            return vec![[(groups, rows), (0, rows), (0, rows)]];
        };
        let total = total.max(1);
        let (few, most) = (total.div_ceil(rows), groups.min(total));
        // With one row per partition, every partition has one row.
        let more = (rows - 1).max(1);
        let first = few + (total - few) % more;
        let last = most.checked_sub((more - (total - most) % more) % more);
        let ends = [Some(few), Some(most), Some(first), last];
        let between = |n: &u64| (few..=most).contains(n);
        let way = |n: u64| {
            let (full, left) = ((total - n) / more, (total - n) % more);
            let between = u64::from(left > 0);
            [(n - full - between, 1), (between, 1 + left), (full, rows)]
        };
        ends.into_iter().flatten().filter(between).map(way).collect()
    }

    /// The most that one unit can add to the number of one partition.
    fn most(&self) -> u128 {
        u128::from(self.rows.max(1)).saturating_mul(self.of_row.max(1).into())
    }
}

/// The threshold for numbers of rows, or for sums, with Laplace noise.
///
/// # Guarantee
/// For every set of partitions that contain one unit alone, P(some r + X ≥ τ) ≤ δ. Here every
/// partition has an independent X of `noise`, and r ≤ k·b is what the unit's k rows in it add. P(X
/// ≥ t) = α^t/(1+α) for t ≥ 1, α = exp(−1/scale), is convex, so P(X ≥ τ − k·b) is convex in k. The
/// extremes of [`Alone`] contain the largest sum of these, in enclosures. τ is the smallest integer
/// above m·b at which that sum is at most δ.
///
/// # Errors
/// [`MechanismError::ScaleTooLarge`] when no 63-bit number reaches the threshold.
pub fn rows_threshold_of_laplace(
    noise: &Laplace,
    alone: &Alone,
    delta: &Delta,
) -> Result<u64, MechanismError> {
    if noise.is_exact() {
        return beyond(0, alone);
    }
    let rate = noise.scale().recip();
    let target = delta.value() * (Rational::one() + exp_neg(&rate, BITS).lower);
    let scale = noise.scale().to_f64().unwrap_or(f64::MAX);
    let guess = scale * surprise(&(&target / Rational::from_integer(alone.groups.max(1).into())));
    let tail = |t: u128| {
        let x = &rate * Rational::from_integer(BigInt::from(t));
        exp_neg(&x, BITS).upper
    };
    least(alone, &target, guess, &tail)
}

/// The threshold for numbers of rows, or for sums, with Gaussian noise.
///
/// # Guarantee
/// As [`rows_threshold_of_laplace`]. P(X ≥ t) ≤ e^(−t²/2σ²)/((1 − e^(−t/σ²))·√(2π)·σ), because
/// (t+k)² ≥ t² + 2tk. It is convex in t from 1 on, where the law falls. Source: Canonne, Kamath,
/// Steinke 2020, for the normalising sum.
///
/// # Errors
/// As [`rows_threshold_of_laplace`].
pub fn rows_threshold_of_gaussian(
    noise: &Gaussian,
    alone: &Alone,
    delta: &Delta,
) -> Result<u64, MechanismError> {
    if noise.is_exact() {
        return beyond(0, alone);
    }
    let sigma = noise.sigma();
    let variance = &sigma * &sigma;
    // A lower bound of √(2π).
    let root = Rational::new(BigInt::from(2_506_628_274_u64), BigInt::from(1_000_000_000_u64));
    let target = delta.value() * root * &sigma;
    let each = delta.value() / Rational::from_integer(alone.groups.max(1).into());
    let guess = sigma.to_f64().unwrap_or(f64::MAX) * (2.0 * surprise(&each)).sqrt();
    let tail = |t: u128| {
        let t = Rational::from_integer(BigInt::from(t));
        let ratio = exp_neg(&(&t / &variance), BITS).upper;
        let depth = &t * &t / (&variance + &variance);
        exp_neg(&depth, BITS).upper / (Rational::one() - ratio)
    };
    least(alone, &target, guess, &tail)
}

/// The least threshold t + m·b with t ≥ 1 at which the tails sum to at most the target. The tail
/// begins at t for a partition of m rows, and further on for fewer rows.
fn least(
    alone: &Alone,
    target: &Rational,
    guess: f64,
    tail: &dyn Fn(u128) -> Rational,
) -> Result<u64, MechanismError> {
    let extremes = alone.extremes();
    let of_row = u128::from(alone.of_row.max(1));
    let rows = u128::from(alone.rows.max(1));
    let suffices = |t: u128| {
        let of = |(partitions, own): &Alike| match partitions {
            0 => Rational::zero(),
            _ => {
                let nearer = rows.saturating_sub((*own).into()).saturating_mul(of_row);
                Rational::from_integer(BigInt::from(*partitions)) * tail(t.saturating_add(nearer))
            }
        };
        let within = |way: &[Alike; 3]| way.iter().map(of).sum::<Rational>() <= *target;
        t > 0 && extremes.iter().all(within)
    };
    let guess = guess.max(1.0).to_u128().unwrap_or(1);
    beyond(smallest(guess, suffices).saturating_sub(1), alone)
}

/// The threshold t + m·b + 1.
fn beyond(t: u128, alone: &Alone) -> Result<u64, MechanismError> {
    one_more(t.saturating_add(alone.most()))
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test's statistics are floats of small numbers"
)]
mod tests {
    use super::*;
    use crate::mechanism::{threshold_of_gaussian, threshold_of_laplace};

    fn delta(text: &str) -> Delta {
        text.parse().unwrap()
    }

    fn scale(l1: u128, epsilon: &str) -> Laplace {
        Laplace::calibrate(l1, &epsilon.parse().unwrap()).unwrap()
    }

    /// Every way to distribute a unit's rows over partitions, with descending numbers of rows.
    fn ways(alone: &Alone) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new()];
        let mut from = 0;
        while from < all.len() {
            let way: Vec<u64> = all[from].clone();
            from += 1;
            if way.len() as u64 == alone.groups {
                continue;
            }
            let most = way.last().copied().unwrap_or(alone.rows);
            let used: u64 = way.iter().sum();
            let left = alone.total.map_or(most, |total| most.min(total - used));
            all.extend((1..=left).map(|rows| [&way[..], &[rows]].concat()));
        }
        all
    }

    /// The largest probability that a way shows some partition, for rows that add `of_row` each.
    fn worst(alone: &Alone, tail: &dyn Fn(i64) -> f64, threshold: u64) -> f64 {
        let most = |rows: &u64| (rows * alone.of_row) as i64;
        let hidden = |rows: &u64| (-tail(threshold as i64 - most(rows))).ln_1p();
        let shown = |way: &Vec<u64>| -(way.iter().map(hidden).sum::<f64>()).exp_m1();
        ways(alone).iter().map(shown).fold(0.0, f64::max)
    }

    /// Against every way and the exact law: the probability is never above δ, and a threshold that
    /// is one lower exceeds δ wherever the bound is attained.
    #[test]
    fn thresholds_hide_every_way_to_be_alone() {
        for (groups, rows, total) in [
            (1, 1, None),
            (1, 5, None),
            (3, 2, None),
            (3, 4, Some(7)),
            (4, 4, Some(4)),
            (5, 3, Some(9)),
            (6, 5, Some(6)),
            (2, 6, Some(6)),
            (7, 2, Some(9)),
            (4, 9, Some(10)),
        ] {
            let most = total.unwrap_or(u64::MAX).min(groups * rows);
            let cases = [("0.3", 1), ("1", 1), ("4", 1), ("0.5", 3), ("4", 7)];
            for (epsilon, of_row) in cases {
                let alone = Alone { groups, rows, total, of_row };
                let noise = scale((most * of_row).into(), epsilon);
                let alpha = (-1.0 / noise.scale().to_f64().unwrap()).exp();
                let laplace = |t: i64| match t > 0 {
                    true => alpha.powi(i32::try_from(t).unwrap()) / (1.0 + alpha),
                    false => 1.0 - alpha.powi(i32::try_from(1 - t).unwrap()) / (1.0 + alpha),
                };
                for target in [1e-3, 1e-6, 1e-9] {
                    let of = delta(&format!("{target:e}"));
                    let threshold = rows_threshold_of_laplace(&noise, &alone, &of).unwrap();
                    assert!(threshold > rows * of_row);
                    let at = |threshold| worst(&alone, &laplace, threshold);
                    assert!(at(threshold) <= target, "{alone:?} {epsilon} {target}");
                    // The sum of the probabilities exceeds that of the union by at most δ²/2.
                    let less = at(threshold - 1);
                    assert!(
                        less > target * (1.0 - target) || threshold == rows * of_row + 1,
                        "{alone:?} {epsilon} {target}: {less}"
                    );
                }
            }
        }
    }

    #[test]
    fn gaussian_thresholds_hide_every_way_to_be_alone() {
        for (groups, rows, total) in
            [(1, 5, None), (3, 4, Some(7)), (4, 4, Some(4)), (6, 5, Some(6))]
        {
            let alone = Alone { groups, rows, total, of_row: 1 };
            for rho in ["0.001", "0.02", "0.3"] {
                let noise = Gaussian::calibrate_rho(16, &rho.parse().unwrap()).unwrap();
                let sigma = noise.sigma().to_f64().unwrap();
                let weight = |x: i64| (-((x * x) as f64) / (2.0 * sigma * sigma)).exp();
                let last = (sigma * 12.0) as i64 + 20;
                let all: f64 = (-last..=last).map(weight).sum();
                let tails: Vec<f64> = (-40..=last)
                    .rev()
                    .scan(0.0, |sum, x| {
                        *sum += weight(x) / all;
                        Some(*sum)
                    })
                    .collect();
                let tail =
                    |t: i64| tails.get(usize::try_from(last - t).unwrap()).copied().unwrap_or(0.0);
                for target in [1e-3, 1e-6] {
                    let of = delta(&format!("{target:e}"));
                    let threshold = rows_threshold_of_gaussian(&noise, &alone, &of).unwrap();
                    assert!(worst(&alone, &tail, threshold) <= target, "{alone:?} {rho} {target}");
                    // The bound of the tail is too large by a relative (σ/t)².
                    let less = threshold - 2 - (0.1 * sigma) as u64;
                    let is_least = less <= rows || worst(&alone, &tail, less) > target;
                    assert!(is_least, "{alone:?} {rho} {target}: {threshold}");
                }
            }
        }
    }

    /// One of the extremes has the largest sum of all ways, for every convex increasing function.
    #[test]
    fn extremes_are_the_worst_of_all_ways() {
        for groups in 1..6 {
            for rows in 1..6 {
                for total in (1..=groups * rows + 1).map(Some).chain([None]) {
                    let alone = Alone { groups, rows, total, of_row: 1 };
                    for base in [1.02_f64, 1.3, 2.0, 9.0] {
                        for bend in [0.0, 1.0, 40.0] {
                            // A convex function: a power, plus a line that begins at 2.5.
                            let p = |k: u64| base.powi(k as i32) + bend * (k as f64 - 2.5).max(0.0);
                            let all = ways(&alone).into_iter().filter(|way| !way.is_empty());
                            let worst =
                                all.map(|way| way.into_iter().map(p).sum()).fold(0.0, f64::max);
                            let of = |way: &[Alike; 3]| {
                                way.iter().map(|(n, own)| *n as f64 * p(*own)).sum::<f64>()
                            };
                            let found = alone.extremes().iter().map(of).fold(0.0, f64::max);
                            let off = (found - worst).abs() / worst;
                            assert!(off < 1e-12, "{alone:?} {base} {bend}: {found} {worst}");
                        }
                    }
                }
            }
        }
    }

    /// One row per partition is the same as counting units.
    #[test]
    fn one_row_in_each_is_a_unit() {
        for groups in [1, 3, 20] {
            let alone = Alone { groups, rows: 1, total: None, of_row: 1 };
            let noise = scale(groups.into(), "0.5");
            let own = rows_threshold_of_laplace(&noise, &alone, &delta("1e-6")).unwrap();
            assert_eq!(own, threshold_of_laplace(&noise, groups, &delta("1e-6")).unwrap());
            let noise = Gaussian::calibrate_rho(groups.into(), &"0.02".parse().unwrap()).unwrap();
            let own = rows_threshold_of_gaussian(&noise, &alone, &delta("1e-6")).unwrap();
            let units = threshold_of_gaussian(&noise, groups, &delta("1e-6")).unwrap();
            assert!(own >= units && own <= units + 1 + units / 50, "{own} {units}");
        }
    }

    #[test]
    fn many_partitions_with_one_row_are_worse_than_one_with_all() {
        let noise = scale(50, "1");
        let alone = Alone { groups: 50, rows: 50, total: Some(50), of_row: 1 };
        assert_eq!(rows_threshold_of_laplace(&noise, &alone, &delta("1e-6")).unwrap(), 854);
        // 50·e^(−(τ − 1)/50)/(1 + e^(−1/50)) ≤ 10⁻⁶, whereas all rows in one partition would
        // allow 708.
        let one = Alone { groups: 1, ..alone };
        assert!(rows_threshold_of_laplace(&noise, &one, &delta("1e-6")).unwrap() < 710);
        let still = scale(0, "1");
        assert_eq!(rows_threshold_of_laplace(&still, &alone, &delta("1e-6")).unwrap(), 51);
    }
}
