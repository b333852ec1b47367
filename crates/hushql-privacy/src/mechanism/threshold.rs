//! Partition selection: the threshold that a partition's noisy number of units must reach for the
//! partition to be released.
//!
//! The noise of the count, the number of partitions that one unit is in, and δ go in; the least
//! noisy count that is released comes out. It assumes that a unit adds 1 to each of at most C
//! partitions, and that every partition has a separate draw. All partitions that contain one unit
//! alone then stay hidden, except with probability δ.
//!
//! Laplace noise of scale 1, one partition per unit and δ = 10⁻⁶ give τ = 15.

use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::laplace::smallest;
use super::tight::Weights;
use super::{Gaussian, Laplace, MechanismError};
use crate::privacy::enclosure::{exp_neg, ln};
use crate::privacy::{Delta, Rational};

/// Precision of the enclosures. δ is at least 10⁻¹⁸ and C at most 2⁶⁴, so every probability here is
/// above 2⁻¹²⁴.
pub(super) const BITS: u32 = 384;
/// Up to this σ (in units of 2⁻¹²), the tail is summed over the integers. Above it, a geometric
/// series bounds the tail.
const SUMMED_UNITS: u64 = 1 << 22;

/// The threshold for counts of units with Laplace noise.
///
/// # Guarantee
/// For every set of at most `groups` partitions of one unit each, P(some 1 + X ≥ τ) ≤ δ, where
/// every partition has an independent X of `noise`: P(X ≥ τ − 1) = α^(τ−1)/(1+α) ≤ 1 − (1−δ)^(1/C)
/// with α = exp(−1/scale), both sides in enclosures. τ is the smallest such integer from 1 on,
/// unless the two sides agree to 10⁻⁷⁵. Without noise, τ is 2. Source: Wilson, Zhang, Lam,
/// Desfontaines, Simmons-Marengo, Gipson 2020, for the discrete law.
///
/// # Errors
/// [`MechanismError::ScaleTooLarge`] when no 63-bit number reaches the threshold.
pub fn threshold_of_laplace(
    noise: &Laplace,
    groups: u64,
    delta: &Delta,
) -> Result<u64, MechanismError> {
    if noise.is_exact() {
        return Ok(2);
    }
    let chance = chance_round_down(groups, delta)?;
    let rate = noise.scale().recip();
    let target = &chance * (Rational::one() + exp_neg(&rate, BITS).lower);
    let scale = noise.scale().to_f64().unwrap_or(f64::MAX);
    let guess = (scale * surprise(&target)).max(0.0).to_u128().unwrap_or(0);
    let above = smallest(guess, |t| {
        exp_neg(&(&rate * Rational::from_integer(BigInt::from(t))), BITS).upper <= target
    });
    one_more(above)
}

/// The threshold for counts of units with Gaussian noise.
///
/// # Guarantee
/// For every set of at most `groups` partitions of one unit each, P(some 1 + X ≥ τ) ≤ δ, where
/// every partition has an independent X of `noise`: P(X ≥ τ − 1) ≤ 1 − (1−δ)^(1/C). For σ ≤ 1024
/// the tail is summed and rounded up, and τ is the smallest such integer from 2 on, or one more.
/// For larger σ, P(X ≥ t) ≤ e^(−t²/2σ²)/((1 − e^(−t/σ²))·√(2π)·σ), in enclosures, because (t+k)² ≥
/// t² + 2tk. Then τ is never too small, and too large by less than σ/t·σ. Without noise, τ is 2.
/// Source: Canonne, Kamath, Steinke 2020, for the normalising sum of at least √(2π)·σ.
///
/// # Errors
/// [`MechanismError::ScaleTooLarge`] when no 63-bit number reaches the threshold.
pub fn threshold_of_gaussian(
    noise: &Gaussian,
    groups: u64,
    delta: &Delta,
) -> Result<u64, MechanismError> {
    if noise.is_exact() {
        return Ok(2);
    }
    let chance = chance_round_down(groups, delta)?;
    let sigma = noise.sigma();
    let units = &sigma * Rational::from_integer(BigInt::from(4096));
    let summed = units.is_integer().then(|| units.to_integer().to_u64()).flatten();
    if let Some(units) = summed.filter(|units| *units <= SUMMED_UNITS) {
        // The float of the probability may exceed it by a relative 2^−53.
        let float = chance.to_f64().unwrap_or(0.0) * (1.0 - 1e-12);
        // P(|X| > s) ≤ 2q means P(X ≥ s + 1) ≤ q.
        let reached = Weights::new(units).error_at(2.0 * float);
        return one_more(reached.saturating_add(1));
    }
    let variance = &sigma * &sigma;
    // A lower bound of √(2π).
    let root = Rational::new(BigInt::from(2_506_628_274_u64), BigInt::from(1_000_000_000_u64));
    let target = &chance * root * &sigma;
    let float = sigma.to_f64().unwrap_or(f64::MAX);
    let guess = (float * (2.0 * surprise(&chance)).sqrt()).to_u128().unwrap_or(0);
    let above = smallest(guess, |t| {
        if t == 0 {
            return false;
        }
        let t = Rational::from_integer(BigInt::from(t));
        let depth = &t * &t / (&variance + &variance);
        let ratio = exp_neg(&(&t / &variance), BITS).upper;
        exp_neg(&depth, BITS).upper <= &target * (Rational::one() - ratio)
    });
    one_more(above)
}

/// The tail begins at `above`; the unit itself adds one.
pub(super) fn one_more(above: u128) -> Result<u64, MechanismError> {
    let threshold = above.saturating_add(1);
    i64::try_from(threshold)
        .ok()
        .and_then(|t| u64::try_from(t).ok())
        .ok_or(MechanismError::ScaleTooLarge)
}

/// 1 − (1−δ)^(1/C): the failure probability that each of C partitions can have.
///
/// # Guarantee
/// Never above it, and below it by less than 2⁻³⁸⁰.
fn chance_round_down(groups: u64, delta: &Delta) -> Result<Rational, MechanismError> {
    let hidden = Rational::one() - delta.value();
    let log = ln(&hidden, BITS).ok_or(MechanismError::ScaleTooLarge)?;
    let share = -log.upper / Rational::from_integer(BigInt::from(groups.max(1)));
    let chance = Rational::one() - exp_neg(&share, BITS).upper;
    Some(chance).filter(Signed::is_positive).ok_or(MechanismError::ScaleTooLarge)
}

/// Approximately −ln of a probability; 0 for 0.
pub(super) fn surprise(probability: &Rational) -> f64 {
    if probability.is_zero() {
        return 0.0;
    }
    let float = probability.to_f64().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    (-float.ln()).max(0.0)
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test's statistics are floats"
)]
mod tests {
    use super::*;
    use crate::sampler::QueryRng;

    fn delta(text: &str) -> Delta {
        text.parse().unwrap()
    }

    fn laplace(groups: u64, epsilon: &str) -> Laplace {
        Laplace::calibrate(groups.into(), &epsilon.parse().unwrap()).unwrap()
    }

    /// ε, C, and τ for δ = 10⁻¹², 10⁻⁹, 10⁻⁶, 0.05, computed from the definition by bisection in
    /// mpmath 1.3.0 with 60 digits.
    const LAPLACE: [(&str, u64, [u64; 4]); 35] = [
        ("0.001", 1, [26940, 20032, 13124, 2305]),
        ("0.001", 2, [55264, 41449, 27633, 5968]),
        ("0.001", 3, [84111, 63388, 42665, 10155]),
        ("0.001", 20, [598_674, 460_519, 322_364, 105_483]),
        ("0.001", 1000, [33_845_631, 26_937_876, 20_030_120, 9_184_831]),
        ("0.1", 1, [271, 202, 133, 25]),
        ("0.1", 2, [555, 416, 278, 62]),
        ("0.1", 3, [843, 636, 429, 104]),
        ("0.1", 20, [5989, 4607, 3226, 1057]),
        ("0.1", 1000, [338_458, 269_381, 200_303, 91_850]),
        ("0.5", 1, [56, 42, 28, 7]),
        ("0.5", 2, [112, 85, 57, 14]),
        ("0.5", 3, [170, 129, 87, 22]),
        ("0.5", 20, [1199, 923, 647, 213]),
        ("0.5", 1000, [67693, 53878, 40062, 18372]),
        ("1", 1, [29, 22, 15, 4]),
        ("1", 2, [57, 43, 30, 8]),
        ("1", 3, [86, 65, 45, 12]),
        ("1", 20, [601, 463, 324, 107]),
        ("1", 1000, [33848, 26940, 20032, 9187]),
        ("2", 1, [15, 12, 8, 3]),
        ("2", 2, [30, 23, 16, 5]),
        ("2", 3, [44, 34, 23, 7]),
        ("2", 20, [301, 232, 163, 55]),
        ("2", 1000, [16925, 13471, 10017, 4594]),
        ("10", 1, [4, 4, 3, 2]),
        ("10", 2, [7, 6, 4, 2]),
        ("10", 3, [10, 8, 6, 3]),
        ("10", 20, [62, 48, 34, 12]),
        ("10", 1000, [3387, 2696, 2005, 920]),
        ("100", 1, [2, 2, 2, 2]),
        ("100", 2, [2, 2, 2, 2]),
        ("100", 3, [2, 2, 2, 2]),
        ("100", 20, [8, 6, 5, 3]),
        ("100", 1000, [340, 271, 202, 94]),
    ];

    #[test]
    fn laplace_thresholds_are_those_of_the_definition() {
        for (epsilon, groups, expected) in LAPLACE {
            for (d, expected) in ["1e-12", "1e-9", "1e-6", "0.05"].into_iter().zip(expected) {
                let found = threshold_of_laplace(&laplace(groups, epsilon), groups, &delta(d));
                assert_eq!(found.unwrap(), expected, "ε {epsilon}, C {groups}, δ {d}");
            }
        }
    }

    /// σ in units of 2⁻¹², C, and τ for δ = 5·10⁻¹³, 5·10⁻⁷, 0.025, computed in mpmath from the law
    /// summed over 40 deviations.
    const GAUSSIAN: [(u64, u64, [u64; 3]); 15] = [
        (1024, 1, [3, 3, 2]),
        (1024, 4, [3, 3, 2]),
        (1024, 50, [4, 3, 2]),
        (4096, 1, [9, 7, 4]),
        (4096, 4, [9, 7, 4]),
        (4096, 50, [9, 7, 5]),
        (17331, 1, [32, 23, 10]),
        (17331, 4, [33, 24, 13]),
        (17331, 50, [34, 26, 16]),
        (40000, 1, [72, 50, 21]),
        (40000, 4, [73, 52, 26]),
        (40000, 50, [77, 57, 34]),
        (409_600, 1, [715, 491, 198]),
        (409_600, 4, [734, 518, 251]),
        (409_600, 50, [767, 563, 331]),
    ];

    #[test]
    fn gaussian_thresholds_are_those_of_the_definition() {
        for (units, groups, expected) in GAUSSIAN {
            let noise = Gaussian::with_units_for_tests(units);
            for (d, expected) in ["5e-13", "5e-7", "0.025"].into_iter().zip(expected) {
                let found = threshold_of_gaussian(&noise, groups, &delta(d)).unwrap();
                assert_eq!(found, expected, "σ {units}/4096, C {groups}, δ {d}");
            }
        }
        // Above σ = 1024 the bound is analytic: close to the normal law's quantile, and never below
        // it. The normal law exceeds 4.8916 deviations with probability 5·10⁻⁷, and 7.1305 with
        // 5·10⁻¹³.
        for units in [(1 << 22) + 1, 1 << 24, 1 << 27] {
            let sigma = units as f64 / 4096.0;
            let noise = Gaussian::with_units_for_tests(units);
            for (d, z) in [("5e-7", 4.891_638), ("5e-13", 7.130_507)] {
                let found = threshold_of_gaussian(&noise, 1, &delta(d)).unwrap() as f64;
                assert!(found >= z * sigma && found <= 1.005 * z * sigma, "{units} {d} {found}");
            }
        }
    }

    /// Compares both rules at almost the same σ: the summed threshold is at most the bounded one.
    #[test]
    fn both_gaussian_rules_agree() {
        let (summed, bounded) = (
            threshold_of_gaussian(&Gaussian::with_units_for_tests(1 << 22), 3, &delta("1e-6")),
            threshold_of_gaussian(
                &Gaussian::with_units_for_tests((1 << 22) + 1),
                3,
                &delta("1e-6"),
            ),
        );
        let (summed, bounded) = (summed.unwrap(), bounded.unwrap());
        assert!(summed <= bounded && bounded - summed < summed / 100, "{summed} {bounded}");
    }

    #[test]
    fn chances_multiply_to_delta() {
        for (groups, d) in [(1, "0.3"), (2, "0.5"), (7, "1e-6"), (1000, "0.999999")] {
            let chance = chance_round_down(groups, &delta(d)).unwrap();
            if groups == 1 {
                assert!(chance <= *delta(d).value());
            }
            let all = (0..groups).fold(1.0, |left, _| left * (1.0 - chance.to_f64().unwrap()));
            let d: f64 = d.parse().unwrap();
            assert!((1.0 - all - d).abs() < 1e-9 * (1.0 + d), "{groups} {d}");
            // Bernoulli's inequality: never less than δ/C.
            assert!(chance.to_f64().unwrap() >= d / groups as f64 * (1.0 - 1e-12));
        }
    }

    #[test]
    fn extremes_are_thresholds_or_refused() {
        // With δ = 0.9, even a partition of one unit may be released more often than not.
        assert_eq!(threshold_of_laplace(&laplace(1, "0.001"), 1, &delta("0.9")).unwrap(), 1);
        assert_eq!(threshold_of_laplace(&laplace(1, "1000000"), 1, &delta("1e-18")).unwrap(), 2);
        let wide = Laplace::calibrate((1 << 62) - 1, &"1".parse().unwrap()).unwrap();
        assert!(threshold_of_laplace(&wide, 1, &delta("1e-18")).is_err());
        assert!(threshold_of_laplace(&laplace(1 << 32, "1"), 1 << 32, &delta("1e-18")).is_ok());
    }

    /// How often any of C partitions of one unit each is released. In 200,000 trials with
    /// probability at most δ = 0.05 each, the share exceeds 0.05 + 6·√(0.05·0.95/200,000) = 0.0530
    /// with probability below 10⁻⁸. The seeds are fixed.
    #[test]
    fn a_group_of_one_comes_out_with_probability_delta() {
        for (seed, epsilon, groups) in [(1, "1", 1), (2, "1", 3), (3, "4", 3), (4, "10", 20)] {
            let noise = laplace(groups, epsilon);
            let threshold = threshold_of_laplace(&noise, groups, &delta("0.05")).unwrap();
            let out = |noise: i128| 1 + noise >= i128::from(threshold);
            let mut rng = QueryRng::seeded_for_tests(seed);
            let mut some = 0_u32;
            for _ in 0..200_000 {
                // Every partition has a separate draw.
                let came = (0..groups).filter(|_| out(noise.draw(&mut rng))).count();
                some += u32::from(came > 0);
            }
            assert!(f64::from(some) <= 0.0530 * 200_000.0, "{epsilon} {groups}: {some}");
        }
        let noise = Gaussian::calibrate(3, None, &"1".parse().unwrap(), &delta("0.05")).unwrap();
        let threshold = threshold_of_gaussian(&noise, 3, &delta("0.05")).unwrap();
        let mut rng = QueryRng::seeded_for_tests(5);
        let some = (0..200_000)
            .filter(|_| {
                let out = |_: &i32| 1 + noise.draw(&mut rng) >= i128::from(threshold);
                (0..3).filter(out).count() > 0
            })
            .count();
        assert!(some as f64 <= 0.0530 * 200_000.0, "{some}");
    }

    /// (ε, δ) by enumeration: one unit is in C partitions, and alone in n of them. For every set of
    /// outcomes S, P(S) ≤ e^ε·P′(S) + δ in both directions. The largest excess is the sum over all
    /// outcomes.
    #[test]
    fn counts_over_a_threshold_are_private() {
        for (epsilon, d) in [("0.5", "0.01"), ("1", "0.2"), ("2", "1e-6"), ("3", "0.4")] {
            for (groups, own) in [(1, 1), (1, 0), (2, 1), (2, 2), (3, 2)] {
                for others in [1_i64, 2, 6] {
                    let noise = laplace(groups, epsilon);
                    let tau = threshold_of_laplace(&noise, groups, &delta(d)).unwrap();
                    let tau = i64::try_from(tau).unwrap();
                    let alpha = (-1.0 / noise.scale().to_f64().unwrap()).exp();
                    let law = |x: i64| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(x.abs() as i32);
                    // The outcomes of one partition: hidden first, then each noisy count.
                    let reach = 60;
                    let shown = |count: i64| -> Vec<f64> {
                        let out: Vec<f64> = (0..=reach).map(|i| law(tau + i - count)).collect();
                        let hidden = 1.0 - out.iter().sum::<f64>();
                        [vec![hidden], out].concat()
                    };
                    let none = {
                        let mut none = vec![0.0; usize::try_from(reach).unwrap() + 2];
                        none[0] = 1.0;
                        none
                    };
                    // (with, without) for each partition of the unit. The outcomes of partitions
                    // are independent.
                    let pairs: Vec<(Vec<f64>, Vec<f64>)> = (0..groups)
                        .map(|i| match i < own {
                            true => (shown(1), none.clone()),
                            false => (shown(others + 1), shown(others)),
                        })
                        .collect();
                    let excess = |forth: bool| {
                        let mut outcomes = vec![(1.0, 1.0)];
                        for (with, without) in &pairs {
                            let (a, b) = if forth { (with, without) } else { (without, with) };
                            outcomes = outcomes
                                .iter()
                                .flat_map(|(p, q)| {
                                    a.iter().zip(b).map(move |(x, y)| (p * x, q * y))
                                })
                                .filter(|(p, _)| *p > 1e-14)
                                .collect();
                        }
                        let grown = epsilon.parse::<f64>().unwrap().exp();
                        outcomes.iter().map(|(p, q)| (p - grown * q).max(0.0)).sum::<f64>()
                    };
                    let most = d.parse::<f64>().unwrap() + 1e-9;
                    assert!(excess(true) <= most, "{epsilon} {d} {groups} {own} {others}");
                    assert!(excess(false) <= most, "{epsilon} {d} {groups} {own} {others}");
                }
            }
        }
    }
}
