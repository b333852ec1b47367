//! The normal distribution's upper tail, for the reported error of wide Gaussian noise.
//!
//! A probability goes in; a number of standard deviations comes out, rounded up by a relative 10⁻⁹.
//! Privacy does not depend on it: only the displayed ± does.
//!
//! 2.5 % lie above 1.959964.

use std::f64::consts::PI;

/// The z with P(N > z) ≤ `p`, for 0 < p < 1/2.
///
/// # Guarantee
/// Never below the true quantile, and above it by at most a relative 10⁻⁹, for p ≥ 10⁻³⁰⁰.
pub(super) fn quantile_above(p: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 40.0_f64);
    for _ in 0..80 {
        let middle = low + (high - low) / 2.0;
        if tail(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high * (1.0 + 1e-9)
}

/// P(N > z), for z ≥ 0, within a relative 10⁻¹².
fn tail(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / (2.0 * PI).sqrt();
    if z < 2.5 {
        // P(0 < N < z) = φ(z)·(z + z³/3 + z⁵/15 + …), all terms positive.
        let (mut term, mut sum, mut n) = (z, z, 1.0);
        while term > sum * 1e-17 {
            n += 2.0;
            term *= z * z / n;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    // The continued fraction φ(z)/(z + 1/(z + 2/(z + 3/…))), evaluated from the inside.
    let inner = (1..=200_u8).rev().fold(z, |rest, n| z + f64::from(n) / rest);
    density / inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        for (p, z) in [
            (0.025, 1.959_963_985),
            (0.005, 2.575_829_304),
            (0.25, 0.674_489_750),
            (5e-10, 6.109_410_205),
        ] {
            let found = quantile_above(p);
            assert!(found >= z - 1e-9 && found < z + 1e-7, "{p}: {found}");
        }
        // The series and the fraction agree where they meet.
        assert!((tail(2.5 - 1e-12) / tail(2.5) - 1.0).abs() < 1e-11);
    }
}
