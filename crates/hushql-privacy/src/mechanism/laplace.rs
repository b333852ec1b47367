//! The Laplace mechanism: discrete Laplace noise of scale Δ₁/ε on every value of a release.
//!
//! Δ₁ in grid units and ε go in; noise in grid units comes out. It assumes that neighbouring
//! databases differ by at most Δ₁ over all values of the release together. The release is then
//! ε-differentially private.
//!
//! Δ₁ = 1 and ε = 0.001 give the scale 1000: P(x) ∝ exp(−|x|/1000).

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::MechanismError;
use crate::privacy::enclosure::exp_neg;
use crate::privacy::{Epsilon, Rational};
use crate::sampler::{LaplaceScale, QueryRng, discrete_laplace};

/// A calibrated Laplace mechanism.
#[derive(Debug, Clone, PartialEq)]
pub struct Laplace {
    scale: Rational,
    /// `None` if no unit can change the values, so that no noise is needed.
    sampler: Option<LaplaceScale>,
}

impl Laplace {
    /// The mechanism that makes values of sensitivity `l1` (grid units) ε-private.
    ///
    /// # Guarantee
    /// The scale is at least Δ₁/ε, so a release of all values with independent noise is ε-DP (pure,
    /// add/remove). It is exactly Δ₁/ε when numerator and denominator are below 2⁶², otherwise Δ₁/ε
    /// rounded up by less than a relative 2⁻³⁹. With Δ₁ = 0 the values are the same on all
    /// neighbouring databases and get no noise. Source: Dwork, McSherry, Nissim, Smith 2006; on
    /// integers: Ghosh, Roughgarden, Sundararajan 2009.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when Δ₁/ε reaches 2⁶² − 1.
    pub fn calibrate(l1: u128, epsilon: &Epsilon) -> Result<Self, MechanismError> {
        if l1 == 0 {
            return Ok(Self { scale: Rational::zero(), sampler: None });
        }
        let exact = Rational::from_integer(BigInt::from(l1)) / epsilon.value();
        let scale = round_up_to_sampler(exact).ok_or(MechanismError::ScaleTooLarge)?;
        let part = |n: &BigInt| n.to_u64().ok_or(MechanismError::ScaleTooLarge);
        let sampler = LaplaceScale::new(part(scale.numer())?, part(scale.denom())?)?;
        Ok(Self { scale, sampler: Some(sampler) })
    }

    /// The scale b of P(x) ∝ exp(−|x|/b), in grid units; 0 for no noise.
    pub fn scale(&self) -> &Rational {
        &self.scale
    }

    /// True if no noise is added, because neighbouring databases have the same values.
    pub fn is_exact(&self) -> bool {
        self.sampler.is_none()
    }

    /// The scale as the sampler draws it; `None` for no noise.
    pub(super) fn sampler(&self) -> Option<&LaplaceScale> {
        self.sampler.as_ref()
    }

    /// Noise for one value, in grid units.
    ///
    /// # Guarantee
    /// P(x) ∝ exp(−|x|/b), exactly, with |x| < 2¹²⁶. Every value of a release needs a separate
    /// draw.
    pub fn draw(&self, rng: &mut QueryRng) -> i128 {
        self.sampler.map_or(0, |scale| discrete_laplace(&scale, rng))
    }

    /// The error at confidence 1 − β: the smallest t with P(|X| > t) ≤ β, in grid units.
    ///
    /// # Guarantee
    /// P(|X| > t) = 2·α^(t+1)/(1+α) ≤ β with α = exp(−1/b), proved in enclosures; t is the smallest
    /// such integer for β ≥ 2⁻⁶⁴, and never too small for any β. 0 for β ≥ 1; the largest integer
    /// for β ≤ 0.
    pub fn error_at(&self, beta: &Rational) -> u128 {
        if self.is_exact() || *beta >= Rational::one() {
            return 0;
        }
        if !beta.is_positive() {
            return u128::MAX;
        }
        let rate = self.scale.recip();
        let bits = enough_bits(beta);
        // Both sides are multiplied by their denominators, because reducing fractions would take
        // most of the time.
        let alpha = exp_neg(&rate, bits).lower;
        let (most, below) =
            (beta.numer() * (alpha.numer() + alpha.denom()), beta.denom() * alpha.denom());
        let suffices = |t: u128| {
            let x = &rate * Rational::from_integer(BigInt::from(t) + BigInt::one());
            let power = exp_neg(&x, bits).upper;
            power.numer() * 2 * &below <= &most * power.denom()
        };
        smallest(self.estimate(beta), suffices)
    }

    /// The error of a weighted mean p·X + (1 − p)·Y of two draws, 0 ≤ p ≤ 1, at confidence 1 − β,
    /// in grid units: a whole t with P(|p·X + (1 − p)·Y| > t) ≤ β for every p.
    ///
    /// # Guarantee
    /// X differs by less than 1 from a continuous Laplace variable of the same scale: X is the
    /// difference of two geometric variables, and these are the integer parts of exponential ones.
    /// A mean of two symmetric variables with a log-concave density is at least as peaked as each
    /// of them (Proschan 1965). So P(|mean| > t) ≤ exp(−t/b) without the rounding, and P(|mean| ≥
    /// t + 1) ≤ exp(−t/b) with it. The result is this t + 1, or the bound that both draws keep at
    /// β/2 each, whichever is smaller.
    pub fn mean_error_at(&self, beta: &Rational) -> u128 {
        let both = self.error_at(&(beta / Rational::from_integer(BigInt::from(2))));
        if self.is_exact() || !beta.is_positive() || *beta >= Rational::one() {
            return both;
        }
        let rate = self.scale.recip();
        let suffices = |t: u128| {
            let x = &rate * Rational::from_integer(BigInt::from(t));
            exp_neg(&x, enough_bits(beta)).upper <= *beta
        };
        smallest(self.estimate(beta), suffices).saturating_add(1).min(both)
    }

    /// Approximately b·ln(2/(β(1+α))) − 1.
    fn estimate(&self, beta: &Rational) -> u128 {
        let scale = self.scale.to_f64().unwrap_or(f64::MAX);
        let beta = beta.to_f64().unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let alpha = (-1.0 / scale).exp();
        (scale * (2.0 / (beta * (1.0 + alpha))).ln() - 1.0).max(0.0).to_u128().unwrap_or(0)
    }
}

/// The number of bits with which an enclosure is compared with β.
fn enough_bits(beta: &Rational) -> u32 {
    192 + 2 * beta.recip().to_integer().bits().to_u32().unwrap_or(1 << 16).min(1 << 16)
}

/// The least rational ≥ `exact` whose two integers fit the sampler; `None` when there is none.
///
/// # Guarantee
/// The result is never below `exact`, and is `exact` itself where that fits.
fn round_up_to_sampler(exact: Rational) -> Option<Rational> {
    let limit = BigInt::from(LaplaceScale::LIMIT);
    if *exact.numer() < limit && *exact.denom() < limit {
        return Some(exact);
    }
    // ⌈scale·2^k⌉/2^k with the largest k that keeps both integers below 2^62.
    let room = 61_u64.checked_sub(exact.to_integer().bits())?;
    let grid = BigInt::one() << room;
    let units = (exact.numer() * &grid).div_ceil(exact.denom());
    (units < limit).then(|| Rational::new(units, grid))
}

/// The smallest t that suffices. The condition must hold for all numbers above one for which it
/// holds. The search starts at `guess`.
pub(super) fn smallest(guess: u128, suffices: impl Fn(u128) -> bool) -> u128 {
    let mut width = (guess >> 45).max(1);
    let (mut low, mut high) = (guess, guess);
    // `high` suffices; `low` does not, unless it is 0.
    while !suffices(high) {
        low = high;
        high = high.saturating_add(width);
        width = width.saturating_mul(4);
        if high == u128::MAX {
            return high;
        }
    }
    if low == high {
        loop {
            if low == 0 {
                break;
            }
            low = low.saturating_sub(width);
            width = width.saturating_mul(4);
            if !suffices(low) {
                break;
            }
            high = low;
        }
    }
    if low == 0 && suffices(0) {
        return 0;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if suffices(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "a test's numbers are small")]
mod tests {
    use super::*;
    use crate::privacy::parse_decimal;

    fn laplace(l1: u128, epsilon: &str) -> Laplace {
        Laplace::calibrate(l1, &epsilon.parse().unwrap()).unwrap()
    }

    fn decimal(text: &str) -> Rational {
        parse_decimal(text).unwrap()
    }

    #[test]
    fn scales_are_exact_or_rounded_up() {
        assert_eq!(*laplace(1, "0.001").scale(), decimal("1000"));
        assert_eq!(*laplace(99, "0.7").scale(), decimal("99") / decimal("0.7"));
        // The scales for Δ₁ + 1 and Δ₁ − 1 at ε differ by exactly 2/ε: nothing is rounded to an
        // integer.
        assert_eq!(
            laplace(100, "0.7").scale() - laplace(98, "0.7").scale(),
            decimal("2") / decimal("0.7")
        );
        let long = "0.1234567890123456789012345678901234567890";
        let (scale, exact) = (laplace(3, long).scale().clone(), decimal("3") / decimal(long));
        assert!(scale >= exact && scale < &exact * decimal("1.000000000001"));
        let least = laplace(1, "999999.99999999999999999999999999999999").scale().clone();
        assert!(least >= decimal("1e-6") && least < decimal("1.000001e-6"));
        assert!(matches!(
            Laplace::calibrate(1 << 62, &"1".parse().unwrap()),
            Err(MechanismError::ScaleTooLarge)
        ));
        assert!(Laplace::calibrate(u128::MAX, &"1000000".parse().unwrap()).is_err());
        assert!(Laplace::calibrate((1 << 62) - 1, &"1".parse().unwrap()).is_ok());
    }

    #[test]
    fn errors_are_the_smallest_that_suffice() {
        // By definition, in floats: the tail sum is at most β at t, and above β at t − 1.
        for (l1, epsilon) in [(1, "1"), (1, "3"), (7, "2"), (1, "0.01"), (99, "0.5"), (1, "1000")] {
            let mechanism = laplace(l1, epsilon);
            let alpha = (-1.0 / mechanism.scale().to_f64().unwrap()).exp();
            let tail = |t: f64| 2.0 * alpha.powf(t + 1.0) / (1.0 + alpha);
            for beta in ["0.5", "0.05", "0.01", "1e-9"] {
                let t = mechanism.error_at(&decimal(beta)).to_f64().unwrap();
                let beta: f64 = beta.parse().unwrap();
                assert!(tail(t) <= beta * (1.0 + 1e-12), "{l1} {epsilon} {beta}: {t}");
                assert!(
                    t == 0.0 || tail(t - 1.0) > beta * (1.0 - 1e-12),
                    "{l1} {epsilon} {beta}: {t}"
                );
            }
        }
        // ε = 1: 2·e^−4/(1+e^−1) = 0.0268 ≤ 0.05 < 0.0728.
        assert_eq!(laplace(1, "1").error_at(&decimal("0.05")), 3);
        assert_eq!(laplace(1, "1").error_at(&decimal("1")), 0);
        assert_eq!(laplace(1, "1").error_at(&decimal("0")), u128::MAX);
        let wide = laplace((1 << 61) + 1, "1");
        let ratio =
            wide.error_at(&decimal("0.05")).to_f64().unwrap() / wide.scale().to_f64().unwrap();
        assert!((ratio - 20_f64.ln()).abs() < 1e-12);
    }

    /// The exact probability, summed over both draws, for weights from one draw alone to the mean
    /// of both.
    #[test]
    fn means_of_two_draws_are_within_their_error() {
        for epsilon in ["3", "1", "0.4", "0.15"] {
            let mechanism = laplace(1, epsilon);
            let alpha = (-1.0 / mechanism.scale().to_f64().unwrap()).exp();
            let mass = |k: i32| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(k.abs());
            let reach = (40.0 * mechanism.scale().to_f64().unwrap()) as i32;
            for beta in ["0.3", "0.05", "0.001"] {
                let t = mechanism.mean_error_at(&decimal(beta)).to_f64().unwrap();
                assert!(t <= mechanism.error_at(&(decimal(beta) / decimal("2"))).to_f64().unwrap());
                for weight in 0..=20 {
                    let p = f64::from(weight) / 40.0;
                    // P(p·X + q·Y > t), by the upper tail of Y for each X.
                    let mut above = 0.0;
                    for x in -reach..=reach {
                        let least = ((t - p * f64::from(x)) / (1.0 - p) + 1e-9).floor() as i32 + 1;
                        let tail = match least {
                            1.. => alpha.powi(least) / (1.0 + alpha),
                            _ => 1.0 - alpha.powi(1 - least) / (1.0 + alpha),
                        };
                        above += mass(x) * tail;
                    }
                    let beta: f64 = beta.parse().unwrap();
                    assert!(2.0 * above <= beta * (1.0 + 1e-9), "{epsilon} {beta} {p}: {above}");
                }
            }
        }
        // ln 20 scales. The bound from both draws at β/2 would be 3.7 scales.
        let fine = laplace(1_000_000, "1");
        let scales = fine.mean_error_at(&decimal("0.05")).to_f64().unwrap() / 1e6;
        assert!((scales - 20_f64.ln()).abs() < 1e-5, "{scales}");
        assert_eq!(laplace(0, "1").mean_error_at(&decimal("0.05")), 0);
        assert_eq!(laplace(1, "1").mean_error_at(&decimal("0")), u128::MAX);
    }

    #[test]
    fn nothing_moves_nothing_is_added() {
        let still = laplace(0, "1");
        let mut rng = QueryRng::seeded_for_tests(1);
        assert!(still.is_exact() && (0..100).all(|_| still.draw(&mut rng) == 0));
        assert_eq!((still.error_at(&decimal("0.05")), still.scale().is_zero()), (0, true));
        assert!((0..100).any(|_| laplace(1, "1").draw(&mut rng) != 0));
    }
}
