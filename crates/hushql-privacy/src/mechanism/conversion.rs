//! Converts between concentrated and (ε, δ)-differential privacy, rounded toward more privacy.
//!
//! An (ε, δ) goes in and the largest ρ that implies it comes out; or a ρ and a δ go in and the
//! smallest ε comes out. The only assumption is ρ-zCDP, so both directions hold for every mechanism
//! and every composition of mechanisms.
//!
//! ```
//! use hushql_privacy::mechanism::{epsilon_of_rho, largest_rho};
//! use num_traits::ToPrimitive;
//!
//! let rho = largest_rho(&"1".parse()?, &"1e-6".parse()?)?;
//! assert!((rho.to_f64().unwrap_or(0.0) - 0.024_35).abs() < 1e-5);
//! assert!(epsilon_of_rho(&rho, &"1e-6".parse()?)?.to_f64().unwrap_or(9.0) < 1.000_001);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use num_traits::{One, Signed, ToPrimitive, Zero};

use super::MechanismError;
use crate::privacy::enclosure::ln;
use crate::privacy::{Delta, Epsilon, Rational};

/// The precision, in bits, of the logarithms in a conversion.
const BITS: u32 = 160;

/// The largest ρ for which ρ-zCDP implies (ε, δ)-DP by the optimised conversion.
///
/// # Guarantee
/// ρ-zCDP implies (ε, δ)-DP: for one rational α > 1, e^((α−1)(αρ−ε))/(α−1)·(1−1/α)^α ≤ δ. The
/// logarithm of this is linear in ρ. Each logarithm in it is enclosed by rationals, and rounded so
/// that ρ gets smaller. Every α is a valid witness, so nothing depends on the float search for the
/// best one: an error of 10⁻¹² in α costs 10⁻²⁴ of ρ, because the optimum is flat. Source: Canonne,
/// Kamath, Steinke 2020, the optimised conversion.
///
/// # Errors
/// [`MechanismError::ScaleTooLarge`] when the search finds no ρ > 0 that implies (ε, δ).
pub fn largest_rho(epsilon: &Epsilon, delta: &Delta) -> Result<Rational, MechanismError> {
    let certified = || {
        let log_delta = ln(delta.value(), BITS)?.lower;
        let less = witness(float(epsilon.value()), float(&log_delta));
        let less = Rational::from_float(less).filter(Signed::is_positive)?;
        let order = &less + Rational::one();
        let (log_less, log_share) = (ln(&less, BITS)?.lower, ln(&(&less / &order), BITS)?.upper);
        let room = log_delta + log_less - &order * log_share + &less * epsilon.value();
        Some(room / (less * order)).filter(Signed::is_positive)
    };
    certified().ok_or(MechanismError::ScaleTooLarge)
}

/// The smallest ε for which ρ-zCDP implies (ε, δ)-DP by the optimised conversion.
///
/// # Guarantee
/// ρ-zCDP implies (ε, δ)-DP: ε is at least αρ + (α·ln(1−1/α) − ln(α−1) − ln δ)/(α−1) for one
/// rational α > 1, with logarithms enclosed and rounded up. Every α is valid; the float search only
/// looks for the best one. The result is 0 for ρ = 0. Source: Canonne, Kamath, Steinke 2020, the
/// optimised conversion.
///
/// # Errors
/// [`MechanismError::ScaleTooLarge`] for a ρ that is negative or beyond the range of floats.
pub fn epsilon_of_rho(rho: &Rational, delta: &Delta) -> Result<Rational, MechanismError> {
    if rho.is_zero() {
        return Ok(Rational::zero());
    }
    let certified = || {
        let log_delta = ln(delta.value(), BITS)?.lower;
        let less = order_for(float(rho), float(&log_delta));
        let less = Rational::from_float(less).filter(Signed::is_positive)?;
        let order = &less + Rational::one();
        let (log_less, log_share) = (ln(&less, BITS)?.lower, ln(&(&less / &order), BITS)?.upper);
        let above = (&order * log_share - log_less - log_delta) / less;
        Some((&order * rho + above).max(Rational::zero()))
    };
    if rho.is_negative() {
        return Err(MechanismError::ScaleTooLarge);
    }
    certified().ok_or(MechanismError::ScaleTooLarge)
}

/// Approximately the best α − 1: the root of ρ(2α − 1) − ε + ln(1 − 1/α), which increases in α.
fn best_order(rho: f64, epsilon: f64) -> f64 {
    let slope = |less: f64| rho * (2.0 * less + 1.0) - epsilon - (1.0 / less).ln_1p();
    let (mut low, mut high) = (-80.0_f64, 150.0_f64);
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if slope(middle.exp()) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}

/// Approximately the best α − 1 for the largest ρ that meets (ε, δ), by bisection of ln ρ.
fn witness(epsilon: f64, log_delta: f64) -> f64 {
    let (mut low, mut high) = (-140.0_f64, 25.0_f64);
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if log_delta_of(middle.exp(), epsilon) <= log_delta {
            low = middle;
        } else {
            high = middle;
        }
    }
    best_order(low.exp(), epsilon)
}

/// Approximately ln δ of the conversion at its best α.
fn log_delta_of(rho: f64, epsilon: f64) -> f64 {
    let less = best_order(rho, epsilon);
    let order = less + 1.0;
    less * (order * rho - epsilon) - less.ln() - order * (1.0 / less).ln_1p()
}

/// Approximately the best α − 1 for the smallest ε at which ρ meets δ, by bisection of ε.
fn order_for(rho: f64, log_delta: f64) -> f64 {
    // The simple conversion, ρ + 2√(ρ·ln(1/δ)), is an upper bound.
    let (mut low, mut high) = (0.0, rho + 2.0 * (-rho * log_delta).max(0.0).sqrt());
    for _ in 0..80 {
        let middle = low + (high - low) / 2.0;
        if log_delta_of(rho, middle) <= log_delta {
            high = middle;
        } else {
            low = middle;
        }
    }
    best_order(rho, high)
}

fn float(value: &Rational) -> f64 {
    value.to_f64().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [(&str, &str); 8] = [
        ("0.01", "1e-9"),
        ("0.1", "1e-6"),
        ("1", "1e-6"),
        ("1", "0.1"),
        ("2", "5e-7"),
        ("10", "1e-18"),
        ("100", "1e-5"),
        ("1e-6", "1e-18"),
    ];

    #[test]
    fn there_and_back_is_the_same() {
        for (epsilon, delta) in CASES {
            let (epsilon, delta): (Epsilon, Delta) =
                (epsilon.parse().unwrap(), delta.parse().unwrap());
            let rho = largest_rho(&epsilon, &delta).unwrap();
            let back = epsilon_of_rho(&rho, &delta).unwrap();
            let off = (&back / epsilon.value()).to_f64().unwrap() - 1.0;
            assert!(off.abs() < 1e-9, "{epsilon} {delta}: {off}");
        }
    }

    /// One ledger unit (or a billionth part) above the largest ρ, no α implies (ε, δ). The test
    /// uses the *other* ends of the enclosures, and orders that are a thousandth apart.
    #[test]
    fn nothing_above_the_largest_rho_meets_delta() {
        for (epsilon, delta) in CASES {
            let (epsilon, delta): (Epsilon, Delta) =
                (epsilon.parse().unwrap(), delta.parse().unwrap());
            let rho = largest_rho(&epsilon, &delta).unwrap();
            let unit = Rational::new(1.into(), 1_000_000_000.into());
            let more = &rho + (&rho * &unit).max(unit);
            let log_delta = ln(delta.value(), BITS).unwrap().upper;
            let best = witness(float(epsilon.value()), float(&log_delta));
            for step in -300_i32..=300 {
                let less = Rational::from_float(best * 1.001_f64.powi(step)).unwrap();
                let order = &less + Rational::one();
                let log_less = ln(&less, BITS).unwrap().upper;
                let log_share = ln(&(&less / &order), BITS).unwrap().lower;
                let room = &log_delta + log_less - &order * log_share + &less * epsilon.value();
                assert!(room / (less * order) < more, "{epsilon} {delta} {step}");
            }
        }
    }

    #[test]
    fn nothing_costs_nothing_and_nonsense_is_refused() {
        let delta: Delta = "1e-6".parse().unwrap();
        assert!(epsilon_of_rho(&Rational::zero(), &delta).unwrap().is_zero());
        assert!(epsilon_of_rho(&Rational::from_integer((-1).into()), &delta).is_err());
        let tiny = Rational::new(1.into(), 1_000_000_000.into());
        let epsilon = epsilon_of_rho(&tiny, &delta).unwrap().to_f64().unwrap();
        assert!(epsilon > 0.0 && epsilon < 2e-4, "{epsilon}");
    }
}
