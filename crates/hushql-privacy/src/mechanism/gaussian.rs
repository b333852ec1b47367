//! The Gaussian mechanism: discrete Gaussian noise with the smallest deviation that meets (ε, δ) or
//! ρ.
//!
//! Δ₂² in squared grid units and either (ε, δ) or ρ go in; noise in grid units comes out. It
//! assumes that neighbouring databases differ by at most Δ₂ in the Euclidean norm over all values
//! of the release together. The release is then (ε, δ)-private and Δ₂²/2σ²-zCDP.
//!
//! Δ₂ = 1, ε = 1, δ = 10⁻⁶ need σ = 4.531, or 4.231 if only one value moves. Δ₂ = 10 in a hundred
//! values needs 42.3.

use num_bigint::BigInt;
use num_integer::Roots;
use num_traits::{One, ToPrimitive, Zero};

use super::MechanismError;
use super::conversion::largest_rho;
use super::normal::quantile_above;
use super::rate::surprise;
use super::space::variance;
use super::tight::{MOST_EPSILON, MOST_UNITS, Weights};
use crate::privacy::{Delta, Epsilon, Rational, Rho};
use crate::sampler::{QueryRng, Sigma, discrete_gaussian};

/// Up to this σ (in units of 2⁻¹²), the reported error comes from a sum over the integers. Above
/// it, it comes from the normal law.
const SUMMED_UNITS: u64 = 1 << 22;

/// A calibrated Gaussian mechanism.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian {
    /// `None` if no unit can change the values, so that no noise is needed.
    sigma: Option<Sigma>,
    rho: Rational,
}

impl Gaussian {
    /// The mechanism that makes values of squared sensitivity `l2_squared` (grid units) (ε,
    /// δ)-private.
    ///
    /// `moving` is the largest number of values that differ between neighbouring databases; `None`
    /// if it is unbounded.
    ///
    /// # Guarantee
    /// σ is on the sampler's grid (2⁻¹² below 2¹⁶, whole above), and the release of all values with
    /// independent noise is (ε, δ)-DP and Δ₂²/2σ²-zCDP. In general σ is the smallest grid point
    /// with Δ₂²/2σ² ≤ ρ, for a ρ certified by the conversion inf_α e^((α−1)(αρ−ε))/(α−1)·(1−1/α)^α
    /// ≤ δ. If one value changes and this σ is below 2¹², a smaller σ suffices: the smallest point,
    /// up to a relative 2⁻¹⁶, at which an upper bound of the exact δ is at most δ. If several
    /// values change, or one in larger steps, σ is what `space::variance` proves, if that is
    /// smaller. With Δ₂ = 0 there is no noise. Source: Canonne, Kamath, Steinke 2020, the optimised
    /// conversion and theorem 7.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when σ reaches 2⁶⁰.
    pub fn calibrate(
        l2_squared: u128,
        moving: Option<u64>,
        epsilon: &Epsilon,
        delta: &Delta,
    ) -> Result<Self, MechanismError> {
        let square = BigInt::from(l2_squared);
        let rho = largest_rho(epsilon, delta)?;
        let general = smallest(&rho, &square)?;
        let sigma = match (general, moving) {
            (Some(general), Some(moving)) => {
                let tight = match moving {
                    1 => tighten(general, l2_squared, epsilon, delta)?,
                    _ => general,
                };
                let about = 1.0 / (2.0 * float(&rho)).sqrt();
                let in_space = || {
                    let variance = variance(l2_squared, moving, about, epsilon, delta)?;
                    at_least(&variance).ok().filter(|sigma| value_of(sigma) < value_of(&general))
                };
                let other = if tight == general { in_space() } else { None };
                Some(other.unwrap_or(tight))
            }
            (general, _) => general,
        };
        Ok(Self::with_sigma(sigma, &square))
    }

    /// The mechanism that makes values of squared sensitivity `l2_squared` (grid units) ρ-zCDP.
    ///
    /// # Guarantee
    /// σ is the smallest point of the sampler's grid with Δ₂²/2σ² ≤ ρ, rounded up exactly. With
    /// Δ₂ = 0 there is no noise. Source: Canonne, Kamath, Steinke 2020.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when σ reaches 2⁶⁰.
    pub fn calibrate_rho(l2_squared: u128, rho: &Rho) -> Result<Self, MechanismError> {
        let square = BigInt::from(l2_squared);
        Ok(Self::with_sigma(smallest(rho.value(), &square)?, &square))
    }

    /// Mechanisms for several values that are released together at one (ε, δ).
    ///
    /// # Guarantee
    /// Each of the k values that can change has noise of at most 1/k of the largest total ρ whose
    /// conversion meets (ε, δ). The joint release is Σρ-zCDP, hence (ε, δ)-DP, without splitting δ.
    /// A value with Δ₂ = 0 has no noise and no share. Source: Bun, Steinke 2016, lemma 1.7;
    /// Canonne, Kamath, Steinke 2020.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when a σ reaches 2⁶⁰.
    pub fn calibrate_joint(
        l2_squared: &[u128],
        epsilon: &Epsilon,
        delta: &Delta,
    ) -> Result<Vec<Self>, MechanismError> {
        let rho = largest_rho(epsilon, delta)?;
        let moving = l2_squared.iter().filter(|square| **square != 0).count();
        l2_squared
            .iter()
            .map(|square| {
                // There are k values, and k·ρ_i ≤ ρ for each, so Σρ_i ≤ ρ.
                let square = BigInt::from(*square);
                let sigma = smallest(&rho, &(&square * BigInt::from(moving)))?;
                Ok(Self::with_sigma(sigma, &square))
            })
            .collect()
    }

    /// Noise of σ = units/2¹², with a ρ of 0.
    #[cfg(test)]
    pub(super) fn with_units_for_tests(units: u64) -> Self {
        Self { sigma: Sigma::fine(units).ok(), rho: Rational::zero() }
    }

    fn with_sigma(sigma: Option<Sigma>, square: &BigInt) -> Self {
        let rho = sigma.map_or_else(Rational::zero, |sigma| rho_of(&sigma, square));
        Self { sigma, rho }
    }

    /// The deviation σ of P(x) ∝ exp(−x²/2σ²), in grid units; 0 for no noise.
    pub fn sigma(&self) -> Rational {
        self.sigma.map_or_else(Rational::zero, |sigma| value_of(&sigma))
    }

    /// The concentrated cost Δ₂²/2σ² of the release.
    ///
    /// # Guarantee
    /// Exact: the release is ρ-zCDP. Source: Canonne, Kamath, Steinke 2020.
    pub fn rho(&self) -> &Rational {
        &self.rho
    }

    /// True if no noise is added, because neighbouring databases have the same values.
    pub fn is_exact(&self) -> bool {
        self.sigma.is_none()
    }

    /// Noise for one value, in grid units.
    ///
    /// # Guarantee
    /// P(x) ∝ exp(−x²/2σ²), exactly; every value of a release needs a separate draw.
    pub fn draw(&self, rng: &mut QueryRng) -> i128 {
        self.sigma.map_or(0, |sigma| discrete_gaussian(&sigma, rng))
    }

    /// The error at confidence 1 − β: t with P(|X| > t) ≤ β, in grid units.
    ///
    /// # Guarantee
    /// The smallest such t, or one more, for σ ≤ 1024 and β ≥ 10⁻³⁰⁰. For larger σ it is ⌈σ·z⌉,
    /// where z is the quantile of the normal law, because P(X ≥ t + 1) ≤ P(N(0, σ²) ≥ t) (Canonne,
    /// Kamath, Steinke 2020). 0 for β ≥ 1; the largest integer for β below 10⁻³⁰⁰.
    pub fn error_at(&self, beta: &Rational) -> u128 {
        let Some(sigma) = self.sigma else { return 0 };
        if *beta >= Rational::one() {
            return 0;
        }
        if surprise(beta) > 690.0 {
            return u128::MAX;
        }
        let beta = beta.to_f64().unwrap_or(0.0);
        let (units, denominator) = sigma.ratio();
        if denominator > 1 && units <= SUMMED_UNITS {
            return Weights::new(units).error_at(beta);
        }
        let deviation = self.sigma().to_f64().unwrap_or(f64::INFINITY);
        (deviation * quantile_above(beta / 2.0)).ceil().to_u128().unwrap_or(u128::MAX)
    }
}

/// σ as a rational.
fn value_of(sigma: &Sigma) -> Rational {
    let (units, denominator) = sigma.ratio();
    Rational::new(units.into(), denominator.into())
}

/// Δ²/2σ².
fn rho_of(sigma: &Sigma, square: &BigInt) -> Rational {
    let (units, denominator) = sigma.ratio();
    let (units, denominator) = (BigInt::from(units), BigInt::from(denominator));
    Rational::new(square * &denominator * &denominator, BigInt::from(2) * &units * &units)
}

/// The smallest deviation on the grid with Δ²/2σ² ≤ ρ for Δ² = `square`; `None` for no noise.
///
/// # Guarantee
/// Exact: the square root is an integer one, rounded up.
fn smallest(rho: &Rational, square: &BigInt) -> Result<Option<Sigma>, MechanismError> {
    if square.is_zero() {
        return Ok(None);
    }
    at_least(&(Rational::from_integer(square.clone()) / (rho + rho))).map(Some)
}

/// The smallest deviation on the grid whose square is at least this variance.
///
/// # Guarantee
/// As [`smallest`].
fn at_least(variance: &Rational) -> Result<Sigma, MechanismError> {
    let root = |scale_bits: u32| {
        let scaled = variance * Rational::from_integer(BigInt::one() << (2 * scale_bits));
        let square = scaled.ceil().to_integer();
        let root = square.sqrt();
        let short = &root * &root < square;
        (if short { root + 1 } else { root }).to_u64().ok_or(MechanismError::ScaleTooLarge)
    };
    if let Ok(sigma) = root(Sigma::FRACTION_BITS).and_then(|units| Ok(Sigma::fine(units)?)) {
        return Ok(sigma);
    }
    Sigma::whole(root(0)?).map_err(|_| MechanismError::ScaleTooLarge)
}

/// The smallest σ by the exact δ of one value that changes, at most `general`.
fn tighten(
    general: Sigma,
    l2_squared: u128,
    epsilon: &Epsilon,
    delta: &Delta,
) -> Result<Sigma, MechanismError> {
    let (units, denominator) = general.ratio();
    // Rounded up, so that values that change by less than `step` are covered, too.
    let root = l2_squared.sqrt();
    let step = if root * root == l2_squared { root } else { root + 1 };
    let (float_epsilon, float_delta) = (float(epsilon.value()), float(delta.value()));
    let Some(step) = step
        .to_u64()
        .filter(|_| denominator > 1 && units < MOST_UNITS && float_epsilon <= MOST_EPSILON)
    else {
        return Ok(general);
    };
    // The float of δ may exceed δ by a relative 2^−53.
    let goal = float_delta * (1.0 - 1e-12);
    let excess = |units: u64| {
        (Weights::new(units).delta_round_up(step, float_epsilon, goal) / goal).max(1e-300).ln()
    };
    // `high` always meets δ, `low` does not.
    let (mut high, mut at_high) = (units, excess(units));
    if at_high > 0.0 {
        return Ok(general);
    }
    let (mut low, mut at_low) = (high, at_high);
    while at_low <= 0.0 && low > 1 {
        (high, at_high) = (low, at_low);
        low -= (low / 8).max(1);
        at_low = excess(low);
    }
    if at_low <= 0.0 {
        return Ok(Sigma::fine(low)?);
    }
    // False position on ln δ. If the same end stays twice, its value is halved, so that both ends
    // move.
    let mut moved_high = None;
    for _ in 0..60 {
        let width = high - low;
        if width <= 1 + (high >> 16) {
            break;
        }
        let share = at_low / (at_low - at_high);
        let aimed = (share * width.to_f64().unwrap_or(0.0)).to_u64().unwrap_or(0);
        let middle = low + aimed.clamp(1, width - 1);
        let at_middle = excess(middle);
        let meets = at_middle <= 0.0;
        if meets {
            (high, at_high) = (middle, at_middle);
        } else {
            (low, at_low) = (middle, at_middle);
        }
        if moved_high == Some(meets) {
            if meets {
                at_low /= 2.0;
            } else {
                at_high /= 2.0;
            }
        }
        moved_high = Some(meets);
    }
    Ok(Sigma::fine(high)?)
}

fn float(value: &Rational) -> f64 {
    value.to_f64().unwrap_or(f64::INFINITY)
}
