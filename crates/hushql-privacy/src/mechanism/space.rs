//! The smallest proved σ for several values that change together: groups of one unit, or the parts
//! of a mean.
//!
//! In: Δ₂², the number of coordinates in which neighbours differ, and (ε, δ). Out: a σ², or none if
//! the search finds nothing. For one value that changes, σ is exact. For several, the privacy loss
//! is a sum of discrete Gaussians, which is not a discrete Gaussian itself. The argument below
//! bounds it by one value on a fine grid, and loses less than a hundredth for σ above 8.
//!
//! ```text
//! discrete, in space, σ  ≤  continuous, on a line, √(σ² − r²)  ≤  discrete, on a line of fine steps, √(σ² − r² − t²)
//! ```
//!
//! **Rounding is post-processing.** Let N be continuous Gaussian noise of variance σ² − r² in n
//! coordinates. Rounding f + N to the integers at random, with probabilities ∝ exp(−‖x − f −
//! N‖²/2r²), gives f + Y″, whose law follows from f + N. By Poisson summation, Σₖ exp(−(k −
//! z)²/2r²) is r√2π within 1 ± e₁ for every z, e₁ = 2·Σₖ e^(−2π²r²k²). So P(Y″ = x) differs from
//! that of the discrete Gaussian of σ² by a factor of at most ((1+e₁)/(1−e₁))^n = e^(nτ). Hence if
//! the continuous noise has δ′ at ε′ on the line through both databases, the discrete noise has δ =
//! e^(nτ)·δ′ at ε = ε′ + 2nτ. (Peikert 2010, theorem 3.1.)
//!
//! **Discrete noise plus continuous noise is almost continuous noise.** Take discrete Gaussian
//! noise on steps of Δ₂/S, and add continuous noise of variance t² of these steps. By the same sum,
//! the result is continuous noise of the summed variances, within a factor e^τ.

use num_bigint::BigInt;
use num_traits::{One, ToPrimitive, Zero};

use super::tight::{MOST_EPSILON, Weights};
use crate::privacy::{Delta, Epsilon, Rational};

/// r² in sixteenths, τ in 10⁻¹⁵ for each coordinate, and the largest number of coordinates.
///
/// e₁ is below 5.4·10⁻⁹ for r = 1, and below 8.1·10⁻¹⁴ for r = 5/4.
const ROUNDINGS: [(i64, i64, u64); 2] = [(16, 12_000_000, 64), (25, 180, 1 << 20)];
/// The denominator of r².
const PARTS: i64 = 16;
/// t². For σ above 4, r² = t²·(1 − t²/σ²) is above 25/16.
const ADDED: i64 = 2;
/// τ on the line, in 10⁻¹⁵.
const OF_LINE: i64 = 180;
/// The approximate σ on the line, in steps.
const FINE: f64 = 512.0;

/// A σ² that makes values of squared sensitivity `square` (ε, δ)-private, if at most `coordinates`
/// of them differ between neighbours. The search starts at a σ/Δ₂ of `about`. `None` if nothing is
/// proved.
///
/// # Guarantee
/// Let the difference between neighbours be integers with a square sum of at most `square`, at most
/// `coordinates` of them nonzero. Independent discrete Gaussian noise on every value, of this
/// variance or a larger one, is then (ε, δ)-DP: by the two arguments above, at ε − 2(nτ + τ) and
/// δ·(1 − 2(nτ + τ)) ≤ δ·e^−(nτ + τ).
pub(super) fn variance(
    square: u128,
    coordinates: u64,
    about: f64,
    epsilon: &Epsilon,
    delta: &Delta,
) -> Option<Rational> {
    // Each nonzero integer adds at least 1 to the square sum.
    let coordinates = coordinates.min(u64::try_from(square).unwrap_or(u64::MAX));
    let all = ROUNDINGS.iter().filter(|(.., most)| coordinates <= *most);
    all.filter_map(|(rounding, each, _)| {
        let slack = (BigInt::from(*each) * coordinates + OF_LINE) * 2;
        let slack = Rational::new(slack, BigInt::from(10).pow(15));
        let epsilon = (epsilon.value() - &slack).to_f64()? * (1.0 - 1e-12);
        let delta = (delta.value() * (Rational::one() - &slack)).to_f64()? * (1.0 - 1e-12);
        let on_line = line(about, epsilon, delta)?;
        Some(
            on_line * Rational::from_integer(square.into())
                + Rational::new((*rounding).into(), PARTS.into()),
        )
    })
    .min()
}

/// The variance of continuous noise on a line, divided by the squared step between neighbours.
fn line(about: f64, epsilon: f64, delta: f64) -> Option<Rational> {
    if !(epsilon > 0.0 && epsilon <= MOST_EPSILON && delta > 0.0 && about > 0.0) {
        return None;
    }
    let step = (FINE / about).clamp(1.0, 65_536.0).round();
    let steps = step.to_u64()?;
    let fits = |units: u64| Weights::new(units).delta_round_up(steps, epsilon, delta) <= delta;
    // `high` meets δ; `low` does not.
    let mut high = (about * step * 4096.0).ceil().to_u64()?.min(super::tight::MOST_UNITS - 1);
    if !fits(high) {
        return None;
    }
    let mut low = high / 2;
    while fits(low) {
        high = low;
        low /= 2;
        if low < 8 << 12 {
            return None;
        }
    }
    while high - low > 1 + (high >> 16) {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle }
    }
    // Below 8 steps, the bound of the line is not proved.
    if high < 8 << 12 {
        return None;
    }
    let sigma = Rational::new(high.into(), BigInt::from(4096));
    let variance = &sigma * &sigma + Rational::from_integer(ADDED.into());
    let steps = Rational::from_integer(steps.into());
    Some(variance / (&steps * &steps)).filter(|variance| !variance.is_zero())
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test's statistics are floats of small numbers"
)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::mechanism::Gaussian;

    /// Every integer vector without zeros whose square sum is at most `square`, with ascending
    /// entries.
    fn shifts(square: i64, most: usize) -> Vec<Vec<i64>> {
        let mut all = vec![Vec::new()];
        let mut from = 0;
        while from < all.len() {
            let shift: Vec<i64> = all[from].clone();
            from += 1;
            if shift.len() == most {
                continue;
            }
            let used: i64 = shift.iter().map(|s| s * s).sum();
            let last = shift.last().copied().unwrap_or(i64::MAX);
            let next = (1..=square).take_while(|s| used + s * s <= square && *s <= last);
            all.extend(next.map(|s| [&shift[..], &[s]].concat()));
        }
        all.retain(|shift| !shift.is_empty());
        all
    }

    /// The exact δ of a shift: the loss depends on Σ sᵢ·Yᵢ alone.
    fn exact(shift: &[i64], sigma: f64, epsilon: f64) -> f64 {
        let reach = (sigma * 9.0) as i64 + 5;
        let weight = |y: i64| (-((y * y) as f64) / (2.0 * sigma * sigma)).exp();
        let total: f64 = (-reach..=reach).map(weight).sum();
        let mut law = BTreeMap::from([(0_i64, 1.0_f64)]);
        for s in shift {
            let mut next = BTreeMap::new();
            for (at, chance) in &law {
                for y in -reach..=reach {
                    *next.entry(at + s * y).or_insert(0.0) += chance * weight(y) / total;
                }
            }
            law = next;
        }
        let square: i64 = shift.iter().map(|s| s * s).sum();
        let loss = |at: i64| (2 * at + square) as f64 / (2.0 * sigma * sigma);
        law.iter().map(|(at, chance)| chance * (1.0 - (epsilon - loss(*at)).exp()).max(0.0)).sum()
    }

    /// Every integer shift of the length, in every number of coordinates: none exceeds δ, and
    /// little is lost.
    #[test]
    fn every_shift_in_space_keeps_delta() {
        for (square, most) in [(2_i64, 2_usize), (3, 3), (4, 3), (5, 2), (8, 2), (9, 2), (18, 2)] {
            for (epsilon, delta) in
                [("1", "1e-6"), ("0.4", "0.001"), ("3", "1e-5"), ("0.2", "0.05")]
            {
                let calibrate = |moving| {
                    let (epsilon, delta) = (epsilon.parse().unwrap(), delta.parse().unwrap());
                    let square = u128::try_from(square).unwrap();
                    let noise = Gaussian::calibrate(square, moving, &epsilon, &delta).unwrap();
                    noise.sigma().to_f64().unwrap()
                };
                let sigma = calibrate(Some(most as u64));
                assert!(sigma <= calibrate(None));
                let (float_epsilon, float_delta): (f64, f64) =
                    (epsilon.parse().unwrap(), delta.parse().unwrap());
                let worst = |sigma: f64| {
                    let all = shifts(square, most);
                    let all = all.iter().map(|shift| exact(shift, sigma, float_epsilon));
                    all.fold(0.0, f64::max)
                };
                let of = worst(sigma);
                assert!(
                    of <= float_delta * (1.0 + 1e-9),
                    "{square} {epsilon} {delta}: {sigma} {of}"
                );
                // The loss is r²/2σ², and as much again for the steps of small shifts.
                let less = sigma * (1.0 - 2.0 / (sigma * sigma) - 0.01);
                assert!(
                    worst(less) > float_delta || sigma < 3.0,
                    "{square} {epsilon} {delta}: {sigma} is too large"
                );
            }
        }
    }

    /// Large vectors get the σ of continuous noise on a line: 4.2247·Δ₂, not 4.531·Δ₂. One integer
    /// step needs 4.231.
    #[test]
    fn long_vectors_have_the_deviation_of_a_line() {
        let (one, million): (Epsilon, Delta) = ("1".parse().unwrap(), "1e-6".parse().unwrap());
        for (square, moving, most) in [
            (2_u128, 2, 4.30),
            (100, 100, 4.229),
            (100, 2, 4.227),
            (14_400, 2, 4.225),
            (1 << 80, 1, 4.225),
            (1 << 80, 1 << 20, 4.225),
        ] {
            let noise = Gaussian::calibrate(square, Some(moving), &one, &million).unwrap();
            let ratio = noise.sigma().to_f64().unwrap() / (square as f64).sqrt();
            assert!(ratio >= 4.2246 && ratio <= most, "{square} {moving}: {ratio}");
        }
        // Where nothing is proved, σ is the general one.
        let many = Gaussian::calibrate(1 << 80, Some(1 << 40), &one, &million).unwrap();
        assert_eq!(many, Gaussian::calibrate(1 << 80, None, &one, &million).unwrap());
    }
}
