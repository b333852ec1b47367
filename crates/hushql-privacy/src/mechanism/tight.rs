//! An upper bound of the exact δ of one discrete Gaussian value, in floats with a proved margin.
//!
//! A deviation, the step between neighbouring databases and an ε go in; a number at least as large
//! as the true δ comes out. It uses only additions, multiplications and divisions of IEEE floats,
//! so the result is the same on every machine. The bound on its error is proved below.
//!
//! At σ = 4.231, step 1 and ε = 1 the δ is 10⁻⁶.

use num_traits::ToPrimitive;

/// The relative error allowed for each weight. It is fifty times the error of [`exp`] and its
/// argument, and more than the rounding of a sum of 60,000 terms.
const MARGIN: f64 = 1e-11;

/// The largest σ in units of 2⁻¹² whose weights are summed.
pub(super) const MOST_UNITS: u64 = 1 << 24;
/// The largest ε whose rounding to a float stays within the margin.
pub(super) const MOST_EPSILON: f64 = 64.0;

/// exp(−y²/2σ²) for σ in units of 2⁻¹².
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    /// The square of σ in units of 2⁻¹²: exact below 2⁵³.
    square: f64,
    sigma: f64,
}

impl Weights {
    /// The weights of σ = units/2¹².
    pub(super) fn new(units: u64) -> Self {
        let units = units.min(MOST_UNITS).to_f64().unwrap_or(f64::MAX);
        Self { square: units * units, sigma: units / 4096.0 }
    }

    /// y²/2σ²: y² and y²·2²³ are exact, so only the division rounds.
    fn exponent(&self, y: f64) -> f64 {
        y * y * 8_388_608.0 / self.square
    }

    fn at(&self, y: f64) -> f64 {
        exp(-self.exponent(y))
    }

    /// An integer y with y²/2σ² ≥ `depth`, at most one above the smallest such integer.
    fn reach(&self, depth: f64) -> f64 {
        (self.sigma * (2.0 * depth).sqrt()).ceil() + 1.0
    }

    /// A lower bound of the sum of all weights, which is at least √(2π)σ (Canonne, Kamath, Steinke
    /// 2020).
    fn total_from_below(&self) -> f64 {
        let few: f64 = (1..=8_u8).map(|y| self.at(f64::from(y))).sum();
        let integral = self.sigma * (2.0 * std::f64::consts::PI).sqrt();
        integral.max(1.0 + 2.0 * few) * (1.0 - MARGIN)
    }

    /// An upper bound of the sum of the weights beyond `y` ≥ 1: (σ²/y)·exp(−y²/2σ²).
    fn beyond(&self, y: f64) -> f64 {
        self.sigma * self.sigma / y * self.at(y) * (1.0 + MARGIN)
    }

    /// The δ at which adding this noise to a value that changes by `step` is (ε, δ)-private.
    ///
    /// # Guarantee
    /// Never below δ(ε) = Σ_y max(0, P(Y = y) − e^ε·P(Y = y + step)), for σ ≤ 2¹², ε ≤ 64 and step
    /// ≤ 2¹⁶; infinite for ε and steps beyond these. It also covers every shorter step: discrete
    /// Gaussian weights are log-concave, so δ = sup_t P(Y > t − step) − e^ε·P(Y > t), which grows
    /// with the step. Each term is bounded separately; the terms beyond 2⁻⁵⁷·δ are bounded
    /// together. Source: Canonne, Kamath, Steinke 2020, theorem 7.
    pub(super) fn delta_round_up(&self, step: u64, epsilon: f64, about: f64) -> f64 {
        let step = step.to_f64().unwrap_or(f64::MAX);
        if epsilon > MOST_EPSILON || step > 65_536.0 || about <= 0.0 {
            return f64::INFINITY;
        }
        let variance = self.sigma * self.sigma;
        let last = self.reach(40.0 - about.ln());
        // Only terms from εσ²/step − step/2 on are positive.
        let mut y = (epsilon * variance / step - step / 2.0).floor() - 1.0;
        let mut sum = 0.0;
        while y <= last {
            let more = self.at(y) * (1.0 + MARGIN);
            let less = exp(epsilon - self.exponent(y + step)) * (1.0 - MARGIN);
            sum += (more - less).max(0.0);
            y += 1.0;
        }
        (sum * (1.0 + MARGIN) + self.beyond(last)) / self.total_from_below()
    }

    /// The smallest t with P(|Y| > t) ≤ β, or one more.
    ///
    /// # Guarantee
    /// Never too small for σ ≤ 1024 and 10⁻³⁰⁰ ≤ β: the tail is rounded up, and the total of all
    /// weights is rounded down.
    pub(super) fn error_at(&self, beta: f64) -> u128 {
        let goal = beta * self.total_from_below() / 2.0;
        let mut y = self.reach(40.0 - beta.ln());
        let mut tail = self.beyond(y);
        // `tail` is the weight beyond y.
        while y > 0.0 && tail + self.at(y) * (1.0 + MARGIN) <= goal {
            tail += self.at(y) * (1.0 + MARGIN);
            y -= 1.0;
        }
        y.to_u128().unwrap_or(u128::MAX)
    }
}

/// exp(x) for x ≤ 700, as 2^k·exp(r); 0 below −700.
///
/// # Guarantee
/// Within a relative 2·10⁻¹³ of exp(x) for |x| ≤ 700, including the rounding of x itself. The error
/// of r is 2⁻⁵³·(|x| + 1) for each rounding, that of the series of 14 terms is 10⁻¹⁷, and that of
/// its roundings is 30·2⁻⁵³.
fn exp(x: f64) -> f64 {
    // ln 2 in two parts. The first has trailing zeros, so that its product with k is exact.
    const HIGH: f64 = 6.931_471_803_691_238e-1;
    const LOW: f64 = 1.908_214_929_270_587_7e-10;
    /// 1/14, 1/13, …, 1.
    const RECIPROCALS: [f64; 14] = [
        1.0 / 14.0,
        1.0 / 13.0,
        1.0 / 12.0,
        1.0 / 11.0,
        1.0 / 10.0,
        1.0 / 9.0,
        1.0 / 8.0,
        1.0 / 7.0,
        1.0 / 6.0,
        1.0 / 5.0,
        1.0 / 4.0,
        1.0 / 3.0,
        1.0 / 2.0,
        1.0,
    ];
    if x < -700.0 {
        return 0.0;
    }
    let k = (x / std::f64::consts::LN_2).round();
    let r = (x - k * HIGH) - k * LOW;
    let mut sum = 1.0;
    for reciprocal in RECIPROCALS {
        sum = 1.0 + r * reciprocal * sum;
    }
    // 2^k as a float's exponent field.
    let field = k.to_i64().and_then(|k| u64::try_from(k + 1023).ok()).unwrap_or(0);
    sum * f64::from_bits(field << 52)
}

#[cfg(test)]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test's statistics are floats"
)]
mod tests {
    use super::*;
    use crate::privacy::Rational;
    use crate::privacy::enclosure::exp_neg;

    #[test]
    fn exponentials_stay_within_the_margin() {
        for n in 0..14_000_i32 {
            let x = f64::from(n) * 0.049_9;
            assert!((exp(-x) / (-x).exp() - 1.0).abs() < 1e-13, "{x}");
        }
        for n in [0_i64, 1, 37, 1000, 40_000] {
            let x = Rational::new(n.into(), 997.into());
            let truth = exp_neg(&x, 256).lower.to_f64().unwrap();
            assert!((exp(-x.to_f64().unwrap()) / truth - 1.0).abs() < 1e-13, "{n}");
        }
        assert!(exp(-701.0) < 1e-300);
    }

    #[test]
    fn delta_is_that_of_the_definition_and_grows_with_the_step() {
        for (units, epsilon) in [(4096_u64, 1.0_f64), (17_331, 1.0), (1500, 3.0), (80_000, 0.2)] {
            let weights = Weights::new(units);
            let sigma = units as f64 / 4096.0;
            let p = |y: i64| (-((y * y) as f64) / (2.0 * sigma * sigma)).exp();
            let total: f64 = (-2000..=2000).map(p).sum();
            let mut shorter = 0.0;
            for step in 1..=5 {
                let truth: f64 =
                    (-2000..=2000).map(|y| (p(y) - epsilon.exp() * p(y + step)).max(0.0)).sum();
                let bound = weights.delta_round_up(step as u64, epsilon, truth / total);
                assert!(
                    bound >= truth / total && bound <= truth / total * (1.0 + 1e-8),
                    "{units} {step}"
                );
                assert!(bound >= shorter, "{units} {step}");
                shorter = bound;
            }
        }
    }

    #[test]
    fn errors_follow_the_definition() {
        for units in [1000_u64, 4096, 17_331, 900_000] {
            let (weights, sigma) = (Weights::new(units), units as f64 / 4096.0);
            let p = |y: i64| (-((y * y) as f64) / (2.0 * sigma * sigma)).exp();
            let total: f64 = (-5000..=5000).map(p).sum();
            for beta in [0.5, 0.05, 1e-6] {
                let truth = (0..5000)
                    .find(|t| (t + 1..=5000).map(p).sum::<f64>() * 2.0 / total <= beta)
                    .unwrap();
                assert_eq!(weights.error_at(beta), truth as u128, "{units} {beta}");
            }
        }
    }
}
