//! The threshold that a partition's noisy number of rows must reach, where one unit may have several rows in it.
//!
//! The noise of the count, what one unit may have in partitions that nobody else is in, and δ go in; the least noisy count that
//! is released comes out. It assumes that the number of a partition is that of its bounded rows, and that every partition has
//! its own draw. The partitions that contain one unit alone then all stay hidden, except with probability δ.
//!
//! ```text
//! Laplace noise of scale 50, at most 50 rows in all, in one or in 50 partitions, δ = 10⁻⁶:  τ = 854
//! ```

use num_bigint::BigInt;
use num_traits::{One, ToPrimitive, Zero};

use super::laplace::smallest;
use super::threshold::{BITS, one_more, surprise};
use super::{Gaussian, Laplace, MechanismError};
use crate::privacy::enclosure::exp_neg;
use crate::privacy::{Delta, Rational};

/// What one unit may have in partitions that nobody else is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    /// C: the number of partitions.
    pub groups: u64,
    /// m: the rows in each.
    pub rows: u64,
    /// M: the rows in all; `None` if nothing but the others bounds them.
    pub total: Option<u64>,
}

impl Alone {
    /// Pairs (a, b) such that the probabilities of all partitions add up to at most a·p(1) + b·p(m), for one of the pairs.
    ///
    /// # Guarantee
    /// Let p be convex and increase on 1, …, m. For all r_1, …, r_k with 1 ≤ r_i ≤ m, Σr_i ≤ M and k ≤ C, Σp(r_i) is at most the
    /// larger of the two sums: p is nowhere above the chord from 1 to m, so the sum is at most k·p(1) + min(M − k, k(m − 1))·s,
    /// where s is the chord's slope. That grows with k up to M/m and is linear from there on, so it is largest at k = M/m, where
    /// it is k·p(m), or at the largest k. Where m divides M, or m − 1 divides M − k, there are such r_i, and the sum is theirs.
    fn extremes(&self) -> [(Rational, Rational); 2] {
        let whole = |n: u64| Rational::from_integer(BigInt::from(n));
        let (rows, groups) = (self.rows.max(1), self.groups.max(1));
        let Some(total) = self.total.filter(|total| *total < groups.saturating_mul(rows)) else {
            return [(Rational::zero(), whole(groups)), (Rational::zero(), whole(groups))];
        };
        let groups = groups.min(total);
        // Here M < C·m; with m = 1, that leaves nothing to share.
        let full = (Rational::zero(), whole(total) / whole(rows));
        let shared = whole(total - groups) / whole((rows - 1).max(1));
        [full, (whole(groups) - &shared, shared)]
    }
}

/// The threshold on numbers of rows with Laplace noise.
///
/// # Guarantee
/// For every set of partitions in which one unit is alone, P(some r + X ≥ τ) ≤ δ, where every partition has an independent X of
/// `noise`: P(X ≥ t) = α^t/(1+α) for t ≥ 1, α = exp(−1/scale), is convex, and [`Alone`] bounds the sum, in enclosures. τ is
/// greater than m; without noise it is m + 1.
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

/// The threshold on numbers of rows with Gaussian noise.
///
/// # Guarantee
/// As [`rows_threshold_of_laplace`]. P(X ≥ t) ≤ e^(−t²/2σ²)/((1 − e^(−t/σ²))·√(2π)·σ), because (t+k)² ≥ t² + 2tk, and it is
/// convex in t from 1 on, where the law falls. Source: Canonne, Kamath, Steinke 2020, for the normalising sum.
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

/// The least t + m with t ≥ 1 at which the tails, from t and from t + m − 1 on, are within the target.
fn least(
    alone: &Alone,
    target: &Rational,
    guess: f64,
    tail: &dyn Fn(u128) -> Rational,
) -> Result<u64, MechanismError> {
    let extremes = alone.extremes();
    let nearer = u128::from(alone.rows.max(1)) - 1;
    let suffices = |t: u128| {
        if t == 0 {
            return false;
        }
        let (of_most, of_one) = (tail(t), tail(t + nearer));
        extremes.iter().all(|(one, most)| one * &of_one + most * &of_most <= *target)
    };
    let guess = guess.max(1.0).to_u128().unwrap_or(1);
    beyond(smallest(guess, suffices).saturating_sub(1), alone)
}

/// The threshold t + m + 1.
fn beyond(t: u128, alone: &Alone) -> Result<u64, MechanismError> {
    one_more(t.saturating_add(alone.rows.max(1).into()))
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

    /// Every way in which a unit may have its rows in partitions, with fewer rows behind more.
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

    /// The largest probability that a way leaves some partition in sight.
    fn worst(alone: &Alone, tail: &dyn Fn(i64) -> f64, threshold: u64) -> f64 {
        let hidden = |rows: &u64| (-tail(threshold as i64 - *rows as i64)).ln_1p();
        let shown = |way: &Vec<u64>| -(way.iter().map(hidden).sum::<f64>()).exp_m1();
        ways(alone).iter().map(shown).fold(0.0, f64::max)
    }

    /// Against every way and the exact law: never above δ, and one less is above it wherever the bound is attained.
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
            let alone = Alone { groups, rows, total };
            let most = total.unwrap_or(u64::MAX).min(groups * rows);
            for epsilon in ["0.3", "1", "4"] {
                let noise = scale(most.into(), epsilon);
                let alpha = (-1.0 / noise.scale().to_f64().unwrap()).exp();
                let laplace = |t: i64| match t > 0 {
                    true => alpha.powi(i32::try_from(t).unwrap()) / (1.0 + alpha),
                    false => 1.0 - alpha.powi(i32::try_from(1 - t).unwrap()) / (1.0 + alpha),
                };
                for target in [1e-3, 1e-6, 1e-9] {
                    let of = delta(&format!("{target:e}"));
                    let threshold = rows_threshold_of_laplace(&noise, &alone, &of).unwrap();
                    assert!(threshold > rows);
                    let at = |threshold| worst(&alone, &laplace, threshold);
                    assert!(at(threshold) <= target, "{alone:?} {epsilon} {target}");
                    // The sum of probabilities is δ²/2 above that of the union, and the chord a little above rows that are left.
                    let less = at(threshold - 2);
                    assert!(
                        less > target * 0.99 || threshold <= rows + 2,
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
            let alone = Alone { groups, rows, total };
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
                    // The bound of the tail is loose by about (σ/t)².
                    let less = threshold - 2 - (0.1 * sigma) as u64;
                    let is_least = less <= rows || worst(&alone, &tail, less) > target;
                    assert!(is_least, "{alone:?} {rho} {target}: {threshold}");
                }
            }
        }
    }

    /// One row a partition is the case of units.
    #[test]
    fn one_row_in_each_is_a_unit() {
        for groups in [1, 3, 20] {
            let alone = Alone { groups, rows: 1, total: None };
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
        let alone = Alone { groups: 50, rows: 50, total: Some(50) };
        assert_eq!(rows_threshold_of_laplace(&noise, &alone, &delta("1e-6")).unwrap(), 854);
        // 50·e^(−(τ − 1)/50)/(1 + e^(−1/50)) ≤ 10⁻⁶, where all of them in one partition would allow 708.
        let one = Alone { groups: 1, ..alone };
        assert!(rows_threshold_of_laplace(&noise, &one, &delta("1e-6")).unwrap() < 710);
        let still = scale(0, "1");
        assert_eq!(rows_threshold_of_laplace(&still, &alone, &delta("1e-6")).unwrap(), 51);
    }
}
