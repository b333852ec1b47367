//! The floor of people: the noisy count from which a number or a group of people is shown.
//!
//! The noise of a count of people, the floor and the probability of showing fewer people go in; the
//! least noisy count that is shown comes out. It assumes that the count is that of the people
//! themselves, or less. Less of them is shown with at most that probability.
//!
//! Laplace noise of scale 1, a floor of 10 people and δ = 10⁻⁶ give 23.

use num_traits::ToPrimitive;

use super::threshold::{threshold_of_gaussian, threshold_of_laplace};
use super::{Gaussian, Laplace, MechanismError};
use crate::privacy::{Delta, Rational};

/// The noise of a count of people.
#[derive(Debug, Clone, Copy)]
pub enum PeopleNoise<'a> {
    /// Discrete Laplace noise.
    Laplace(&'a Laplace),
    /// Discrete Gaussian noise.
    Gaussian(&'a Gaussian),
}

/// The least noisy count that hides fewer people than a floor as well as a threshold hides one
/// person.
///
/// # Guarantee
/// With τ ≥ 1 and P(1 + X ≥ τ) ≤ p: P(n + X ≥ τ + floor − 2) ≤ p for every n < floor, because
/// n ≤ floor − 1 gives P(X ≥ τ + floor − 2 − n) ≤ P(X ≥ τ − 1). Never below τ. A floor of 1 asks
/// for nothing more than the threshold.
pub fn above_floor(threshold: u64, floor: u64) -> u64 {
    threshold.max(threshold.saturating_add(floor).saturating_sub(2))
}

/// The least noisy count of people with which a number is shown.
///
/// # Guarantee
/// P(n + X ≥ limit) ≤ β for every n < floor, where X is the noise. τ is the threshold of one
/// partition for δ = β, and [`above_floor`] is the rest. Without noise, the limit is the floor.
///
/// # Errors
/// [`MechanismError::ScaleTooLarge`] when no 63-bit number suffices.
pub fn floor_limit(
    noise: PeopleNoise<'_>,
    floor: u64,
    beta: &Delta,
) -> Result<u64, MechanismError> {
    let threshold = match noise {
        PeopleNoise::Laplace(noise) => threshold_of_laplace(noise, 1, beta)?,
        PeopleNoise::Gaussian(noise) => threshold_of_gaussian(noise, 1, beta)?,
    };
    Ok(above_floor(threshold, floor))
}

/// The probability that a count of so many people reaches a limit, for display.
pub fn shown_with(noise: PeopleNoise<'_>, people: u64, limit: u64) -> f64 {
    let float = |number: u64| number.to_f64().unwrap_or(f64::MAX);
    // P(X ≥ missing)
    let missing = float(limit) - float(people);
    let exact = match noise {
        PeopleNoise::Laplace(noise) => noise.is_exact(),
        PeopleNoise::Gaussian(noise) => noise.is_exact(),
    };
    if exact {
        return if missing <= 0.0 { 1.0 } else { 0.0 };
    }
    let of_scale = |scale: &Rational| scale.to_f64().unwrap_or(f64::MAX);
    let tail = |steps: f64| match noise {
        PeopleNoise::Laplace(noise) => {
            let alpha = (-1.0 / of_scale(noise.scale())).exp();
            alpha.powf(steps) / (1.0 + alpha)
        }
        PeopleNoise::Gaussian(noise) => gaussian_tail(of_scale(&noise.sigma()), steps),
    };
    if missing > 0.0 { tail(missing) } else { 1.0 - tail(1.0 - missing) }
}

/// P(X ≥ steps) of the discrete Gaussian, for steps ≥ 1: summed where σ is small, otherwise by the
/// trapezoids of every `stride`-th integer.
fn gaussian_tail(sigma: f64, steps: f64) -> f64 {
    let stride = (sigma / 64.0).floor().max(1.0);
    let weight = |y: f64| (-y * y / (2.0 * sigma * sigma)).exp();
    let sum_from = |first: f64| {
        let (mut sum, mut y) = (0.0, first);
        while y < first + 12.0 * sigma + 12.0 {
            sum += weight(y);
            y += stride;
        }
        // Half of the first step is beyond the integers that are summed.
        (sum - weight(first) * (stride - 1.0) / (2.0 * stride)) * stride
    };
    let above = sum_from(1.0);
    sum_from(steps) / (1.0 + 2.0 * above)
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test's statistics are floats"
)]
mod tests {
    use super::*;
    use crate::sampler::QueryRng;

    fn laplace(groups: u64, epsilon: &str) -> Laplace {
        Laplace::calibrate(groups.into(), &epsilon.parse().unwrap()).unwrap()
    }

    fn beta(text: &str) -> Delta {
        text.parse().unwrap()
    }

    #[test]
    fn known_limits_are_those_of_the_definition() {
        // ε = 1, δ = 10⁻⁶: τ = 15, and 23 for ten people.
        assert_eq!(above_floor(15, 10), 23);
        assert_eq!((above_floor(15, 1), above_floor(15, 0), above_floor(15, 2)), (15, 15, 15));
        let one = laplace(1, "1");
        let limit = |floor, b| floor_limit(PeopleNoise::Laplace(&one), floor, &beta(b)).unwrap();
        assert_eq!((limit(10, "1e-6"), limit(10, "0.05"), limit(2, "0.05")), (23, 12, 4));
        let exact = Laplace::calibrate(0, &"1".parse().unwrap()).unwrap();
        let exact = PeopleNoise::Laplace(&exact);
        assert_eq!(floor_limit(exact, 10, &beta("0.05")).unwrap(), 10);
        assert_eq!((shown_with(exact, 9, 10), shown_with(exact, 10, 10)), (0.0, 1.0));
    }

    /// By exact sums over the law: for every number of people below the floor, the probability of
    /// being shown is at most β; and one less than the limit would exceed β for one less than the
    /// floor.
    #[test]
    fn fewer_people_are_shown_with_beta_at_most() {
        for epsilon in ["0.1", "0.25", "0.5", "1", "2", "5"] {
            for groups in [1, 3] {
                let noise = laplace(groups, epsilon);
                let alpha = (-1.0 / noise.scale().to_f64().unwrap()).exp();
                let law = |x: i64| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(x.abs() as i32);
                let reaches = |people: i64, limit: i64| -> f64 {
                    let all: f64 = (0..3_000).map(|i| law(limit + i - people)).sum();
                    all
                };
                for floor in [2_u64, 3, 10] {
                    for b in ["0.2", "0.05", "0.01", "1e-6"] {
                        let noise = PeopleNoise::Laplace(&noise);
                        let limit = floor_limit(noise, floor, &beta(b)).unwrap();
                        let (most, limit) = (b.parse::<f64>().unwrap(), limit as i64);
                        for people in 0..floor as i64 {
                            let shown = reaches(people, limit);
                            assert!(shown <= most * (1.0 + 1e-9), "{epsilon} {floor} {b} {people}");
                            let told = shown_with(noise, people as u64, limit as u64);
                            assert!((told / shown - 1.0).abs() < 1e-6, "{told} {shown}");
                        }
                        assert!(reaches(floor as i64 - 1, limit - 1) > most * (1.0 - 1e-9));
                    }
                }
            }
        }
    }

    #[test]
    fn gaussian_limits_hide_fewer_people_as_well() {
        for units in [4096_u64, 17_331, 409_600] {
            let noise = Gaussian::with_units_for_tests(units);
            let sigma = units as f64 / 4096.0;
            let weight = |y: i64| (-(y * y) as f64 / (2.0 * sigma * sigma)).exp();
            let total: f64 = (-6000..=6000).map(weight).sum();
            for floor in [2_u64, 10] {
                for b in ["0.05", "0.001"] {
                    let noise = PeopleNoise::Gaussian(&noise);
                    let limit = floor_limit(noise, floor, &beta(b)).unwrap() as i64;
                    for people in 0..floor as i64 {
                        let shown = (limit - people..=6000).map(weight).sum::<f64>() / total;
                        assert!(shown <= b.parse::<f64>().unwrap(), "{units} {floor} {b} {people}");
                        let told = shown_with(noise, people as u64, limit as u64);
                        assert!((told / shown - 1.0).abs() < 0.02, "{units} {told} {shown}");
                    }
                }
            }
        }
    }

    /// The noisy count at ε = 0.1 itself would show two people at a floor of ten with 24 %; the
    /// limit shows them with β at most.
    #[test]
    fn the_floor_itself_is_no_limit() {
        let noise = laplace(1, "0.1");
        let noise = PeopleNoise::Laplace(&noise);
        assert!((shown_with(noise, 2, 10) - 0.236).abs() < 0.001);
        let limit = floor_limit(noise, 10, &beta("0.05")).unwrap();
        assert_eq!(limit, 33);
        assert!(shown_with(noise, 2, limit) < 0.025 && shown_with(noise, 9, limit) <= 0.05);
    }

    /// Nine people at a floor of ten, drawn 200,000 times. The share of draws that show them
    /// exceeds 0.05 + 6·√(0.05·0.95/200,000) = 0.0530 with probability below 10⁻⁸. The seeds are
    /// fixed.
    #[test]
    fn nine_people_are_shown_rarely() {
        for (seed, epsilon) in [(1, "0.1"), (2, "0.5"), (3, "1"), (4, "3")] {
            let noise = laplace(1, epsilon);
            let limit = floor_limit(PeopleNoise::Laplace(&noise), 10, &beta("0.05")).unwrap();
            let mut rng = QueryRng::seeded_for_tests(seed);
            let shown =
                (0..200_000).filter(|_| 9 + noise.draw(&mut rng) >= i128::from(limit)).count();
            assert!(shown as f64 <= 0.0530 * 200_000.0, "{epsilon}: {shown}");
        }
    }
}
