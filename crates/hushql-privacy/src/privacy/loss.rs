//! The privacy loss of a release, in both notions that budgets count in: (ε, δ) and (ρ, δ).
//!
//! Checked parameters go in, a [`Loss`] comes out. Every constructor assumes the privacy property
//! that it is named after, and derives the loss in the other notion. Sums are exact; the ledger
//! does the rounding.
//!
//! ```
//! use hushql_privacy::privacy::{Loss, Selecting, decimal_text};
//!
//! // Discrete Laplace noise, and a choice of one winner by the exponential mechanism, both of ε = 1:
//! let (noise, choice) = (Loss::pure(&"1".parse()?), Loss::choice(&"1".parse()?, None, 1, Selecting::BoundedRange));
//! assert_eq!(decimal_text(noise.rho(), 6), "0.462117");
//! assert_eq!(decimal_text(choice.rho(), 6), "0.125");
//! # Ok::<(), hushql_privacy::privacy::ParameterError>(())
//! ```

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::Zero;

use super::enclosure::exp_neg;
use super::{Delta, Epsilon, ParameterError, Rational, Rho};

/// The precision, in bits, of the hyperbolic tangent in a ρ.
const BITS: u32 = 128;
/// A ρ that is not rational is rounded up to a multiple of 10^−`PLACES`.
const PLACES: u32 = 15;

/// What is known about one draw of a selection besides its ε.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selecting {
    /// The draw is ε-private: permute-and-flip, noisy max.
    Pure,
    /// All log-probability ratios lie in an interval of length ε: the exponential mechanism.
    BoundedRange,
}

impl Selecting {
    /// The ρ of `draws` draws that share an ε equally. 0 draws count as 1.
    ///
    /// # Guarantee
    /// Never too small. One draw at ε is ε·tanh(ε/2)-zCDP: every ε-DP pair of laws is a
    /// post-processing of two coins, one with the odds e^ε : 1 and one with the odds 1 : e^ε
    /// (Kairouz, Oh, Viswanath 2015). The Rényi divergence of order α of these coins is D =
    /// ln(cosh((α − ½)ε)/cosh(ε/2))/(α − 1). Let h(α) = (α − 1)·(D − αε·tanh(ε/2)). Then h(1) = 0,
    /// and h′(α) = ε·(tanh((2α − 1)ε/2) − (2α − 1)·tanh(ε/2)) ≤ 0 for α ≥ 1, because tanh is
    /// concave. So D ≤ αρ, and D/α tends to ρ as α falls to 1. This ρ is below ε²/2 and below ε. A
    /// draw of bounded range is also ε²/8-zCDP (Dong, Durfee, Rogers 2020; Cesar, Rogers 2021). k
    /// draws at ε/k cost k times as much as one of them: ε·tanh(ε/2k), or ε²/8k. The former is
    /// rounded up to a multiple of 10⁻¹⁵.
    pub fn rho(self, epsilon: &Rational, draws: u64) -> Rational {
        let draws = Rational::from_integer(BigInt::from(draws.max(1)));
        let square = |divisor: u8| {
            epsilon * epsilon / (Rational::from_integer(BigInt::from(divisor)) * &draws)
        };
        let [part, whole] = half_tangent(&(epsilon / &draws));
        let pure = rounded_up(epsilon.numer() * part, &(epsilon.denom() * whole)).min(square(2));
        match self {
            Self::Pure => pure,
            Self::BoundedRange => pure.min(square(8)),
        }
    }
}

/// tanh(x/2) = (1 − e^−x)/(1 + e^−x), for x ≥ 0, or slightly more. Returns numerator and
/// denominator, which may have common factors.
///
/// # Guarantee
/// Never too small: tanh(x/2) decreases in e^−x, and e^−x is rounded down.
fn half_tangent(x: &Rational) -> [BigInt; 2] {
    let less = exp_neg(x, BITS).lower;
    [less.denom() - less.numer(), less.denom() + less.numer()]
}

/// part/whole, rounded up to a multiple of 10⁻¹⁵.
fn rounded_up(part: BigInt, whole: &BigInt) -> Rational {
    let units = BigInt::from(10).pow(PLACES);
    Rational::new((part * &units).div_ceil(whole), units)
}

/// The exact loss of one or several releases, as (ε, δ) and as δ-approximate ρ-zCDP. Composition is
/// addition.
///
/// Every release has a ρ. A release that was calibrated to a ρ alone has no (ε, δ).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    approximate: Option<(Rational, Rational)>,
    rho: Rational,
    rho_delta: Rational,
}

impl Loss {
    /// No loss: an answer over public data.
    pub fn zero() -> Self {
        let zero = Rational::zero;
        Self { approximate: Some((zero(), zero())), rho: zero(), rho_delta: zero() }
    }

    /// The loss of a release that is ε-DP.
    ///
    /// # Guarantee
    /// Its ρ is that of one pure draw, see [`Selecting::rho`]; ε is exact.
    pub fn pure(epsilon: &Epsilon) -> Self {
        Self::choice(epsilon, None, 1, Selecting::Pure)
    }

    /// The loss of a release that is (ε, δ)-DP, if nothing else is known about it.
    ///
    /// # Guarantee
    /// With probability 1 − δ an (ε, δ)-DP release behaves like an ε-DP release (Kairouz, Oh,
    /// Viswanath 2015; Murtagh, Vadhan 2016, lemma 3.2), whose ρ is that of [`Loss::pure`]. ε and δ
    /// are exact.
    pub fn approximate(epsilon: &Epsilon, delta: &Delta) -> Self {
        Self::choice(epsilon, Some(delta), 1, Selecting::Pure)
    }

    /// The loss that a refinement adds: a draw of Laplace noise at ε that is built on one draw of
    /// the same numbers at `before`, which is smaller and was charged.
    ///
    /// # Guarantee
    /// The earlier draw is the finer one plus noise that depends on nothing else (see
    /// [`refined_laplace`](crate::sampler::refined_laplace())). So both together multiply the
    /// probability of any sequence of answers by at most e^ε, whatever is asked between and after
    /// them, and the difference of both is exactly what the earlier charge leaves to pay. That
    /// holds if each draw is refined once at most. Its ρ is that of a pure draw of ε + `before`: so
    /// much the refinement alone may lose when the earlier draw is known, and a filter in ρ counts
    /// each release given the earlier ones. The difference of both ρ would be too small: whoever
    /// refines after certain first draws only exceeds the bound of the filter at order 2 by the
    /// factor 1.0187, for ε = ½ and 1.
    ///
    /// # Errors
    /// [`ParameterError`] if ε is not larger.
    pub fn refined(before: &Epsilon, epsilon: &Epsilon) -> Result<Self, ParameterError> {
        let more = Epsilon::new(epsilon.value() - before.value())?;
        let both = Epsilon::new(epsilon.value() + before.value())?;
        let mut loss = Self::pure(&more);
        loss.rho = Self::pure(&both).rho;
        Ok(loss)
    }

    /// A δ alone: the loss of a release that fails with this probability, and otherwise reveals
    /// nothing.
    pub fn of_delta(delta: &Delta) -> Self {
        let delta = delta.0.clone();
        Self {
            approximate: Some((Rational::zero(), delta.clone())),
            rho: Rational::zero(),
            rho_delta: delta,
        }
    }

    /// The loss of Gaussian noise with this (ε, δ), which is ρ-zCDP without a δ.
    ///
    /// # Guarantee
    /// Exact. The caller calibrates the noise and vouches for both. Source: Canonne, Kamath,
    /// Steinke 2020.
    pub fn gaussian(epsilon: &Epsilon, delta: &Delta, rho: &Rational) -> Self {
        let approximate = Some((epsilon.0.clone(), delta.0.clone()));
        Self { approximate, rho: rho.clone(), rho_delta: Rational::zero() }
    }

    /// The loss of groups that pass a threshold: (ε, δ). The noise is ρ-zCDP, and the threshold
    /// fails with a part of δ.
    ///
    /// # Guarantee
    /// With probability 1 − `threshold`, no group that belongs to one unit alone is shown. The
    /// release then depends only on groups that neighbouring databases share. So it is
    /// `threshold`-approximately ρ-zCDP. The caller calibrates noise and threshold, and vouches for
    /// ρ and for (ε, δ). Source: Bun, Steinke 2016, section 8.
    pub fn thresholded(
        epsilon: &Epsilon,
        delta: &Delta,
        rho: &Rational,
        threshold: &Delta,
    ) -> Self {
        let approximate = Some((epsilon.0.clone(), delta.0.clone()));
        Self { approximate, rho: rho.clone(), rho_delta: threshold.0.clone() }
    }

    /// A ρ alone: zCDP, without an (ε, δ).
    ///
    /// # Guarantee
    /// Exact.
    pub fn concentrated(rho: &Rho) -> Self {
        Self { approximate: None, rho: rho.0.clone(), rho_delta: Rational::zero() }
    }

    /// The loss of selections that share an ε, and a δ if candidates are unknown. At most `draws`
    /// of them depend on one unit, each at ε/draws. 0 draws count as 1.
    ///
    /// # Guarantee
    /// Together they are (ε, δ)-DP and δ-approximately ρ-zCDP, with the ρ of [`Selecting::rho`].
    /// Among unknown candidates this holds unless a candidate of one unit alone wins, which has
    /// probability at most δ in total. Selections that share ε in unequal parts ε_i with Σε_i ≤ ε
    /// count as one draw: Σε_i² ≤ ε², and Σε_i·tanh(ε_i/2) ≤ ε·tanh(ε/2), because the tangent
    /// grows. ε and δ are exact.
    pub fn choice(
        epsilon: &Epsilon,
        delta: Option<&Delta>,
        draws: u64,
        selecting: Selecting,
    ) -> Self {
        let delta = delta.map_or_else(Rational::zero, |delta| delta.0.clone());
        Self {
            rho: selecting.rho(&epsilon.0, draws),
            rho_delta: delta.clone(),
            approximate: Some((epsilon.0.clone(), delta)),
        }
    }

    /// The same loss, with this ρ if it is larger.
    ///
    /// # Guarantee
    /// No component decreases.
    #[must_use]
    pub fn costing(mut self, rho: &Rho) -> Self {
        self.rho = self.rho.max(rho.0.clone());
        self
    }

    /// The same loss, with at least the ρ of one draw that uses all of its ε.
    ///
    /// # Guarantee
    /// Its ρ is at least that of one pure draw, see [`Selecting::rho`]. No component decreases.
    #[must_use]
    pub fn by_one_draw(mut self) -> Self {
        if let Some((epsilon, _)) = &self.approximate {
            self.rho = self.rho.max(Selecting::Pure.rho(epsilon, 1));
        }
        self
    }

    /// Composition, in each notion separately.
    ///
    /// # Guarantee
    /// Releases of (ε₁, δ₁) and (ε₂, δ₂), the second chosen adaptively, are together (ε₁+ε₂,
    /// δ₁+δ₂)-DP. With ρ₁ and ρ₂ instead of ε₁ and ε₂, they are (δ₁+δ₂)-approximately (ρ₁+ρ₂)-zCDP.
    /// The sums are exact. The sum has an (ε, δ) only if both releases have one. Sources: Dwork,
    /// Roth 2014, theorem B.1; Bun, Steinke 2016, lemmas 1.7 and 8.2.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let approximate = self.approximate.as_ref().zip(other.approximate.as_ref());
        Self {
            approximate: approximate.map(|(a, b)| (&a.0 + &b.0, &a.1 + &b.1)),
            rho: &self.rho + &other.rho,
            rho_delta: &self.rho_delta + &other.rho_delta,
        }
    }

    /// The exact ε; `None` if the loss has only a ρ.
    pub fn epsilon(&self) -> Option<&Rational> {
        self.approximate.as_ref().map(|(epsilon, _)| epsilon)
    }

    /// The exact δ that belongs to ε; `None` if the loss has only a ρ.
    pub fn delta(&self) -> Option<&Rational> {
        self.approximate.as_ref().map(|(_, delta)| delta)
    }

    /// The exact ρ.
    pub fn rho(&self) -> &Rational {
        &self.rho
    }

    /// The exact δ that belongs to ρ: the probability that the release is not ρ-zCDP.
    pub fn rho_delta(&self) -> &Rational {
        &self.rho_delta
    }
}

#[cfg(test)]
mod tests {
    use num_traits::One;

    use super::*;

    fn ratio(num: i64, den: i64) -> Rational {
        Rational::new(num.into(), den.into())
    }

    #[test]
    fn refinements_pay_the_difference() {
        let of = |text: &str| -> Epsilon { text.parse().unwrap() };
        let refined = Loss::refined(&of("0.5"), &of("2")).unwrap();
        assert_eq!(refined.epsilon(), Some(&ratio(3, 2)));
        assert_eq!(refined.delta(), Some(&ratio(0, 1)));
        // Both together cost in ε what the second draw alone does, and in ρ more.
        let both = Loss::pure(&of("0.5")).plus(&refined);
        assert_eq!(both.epsilon(), Loss::pure(&of("2")).epsilon());
        assert_eq!(refined.rho(), Loss::pure(&of("2.5")).rho());
        assert!(both.rho() > Loss::pure(&of("2")).rho());
        assert!(Loss::refined(&of("2"), &of("2")).is_err());
        assert!(Loss::refined(&of("2"), &of("0.5")).is_err());
    }

    #[test]
    fn every_mechanism_has_its_own_rho() {
        let (one, delta): (Epsilon, Delta) = ("1".parse().unwrap(), "1e-6".parse().unwrap());
        let parts = |loss: &Loss| (loss.rho().clone(), loss.rho_delta().clone());
        let none = Rational::zero();
        // tanh(1/2), rounded up.
        let tangent = ratio(462_117_157_260_010, 1_000_000_000_000_000);
        assert_eq!(parts(&Loss::pure(&one)), (tangent.clone(), none.clone()));
        assert_eq!(parts(&Loss::approximate(&one, &delta)), (tangent.clone(), ratio(1, 1_000_000)));
        let gaussian = Loss::gaussian(&one, &delta, &ratio(1, 36));
        assert_eq!(parts(&gaussian), (ratio(1, 36), none.clone()));
        assert_eq!(gaussian.delta(), Some(&ratio(1, 1_000_000)));
        let choice = |draws, how| parts(&Loss::choice(&one, None, draws, how)).0;
        assert_eq!(choice(1, Selecting::BoundedRange), ratio(1, 8));
        assert_eq!(choice(5, Selecting::BoundedRange), ratio(1, 40));
        // tanh(1/10), rounded up.
        let shared = ratio(99_667_994_624_956, 1_000_000_000_000_000);
        assert_eq!(choice(5, Selecting::Pure), shared);
        assert_eq!(choice(0, Selecting::Pure), tangent);
        let rho = |epsilon: &str, how| {
            Loss::choice(&epsilon.parse().unwrap(), None, 1, how).rho().clone()
        };
        assert_eq!(rho("100", Selecting::Pure), ratio(100, 1));
        // Above ε = 8, ε²/8 exceeds ε, and no release at ε costs more than ε.
        assert_eq!(rho("100", Selecting::BoundedRange), ratio(100, 1));
        // At small ε, where a rounding step would show, the ρ is exactly ε²/2.
        assert_eq!(
            rho("1e-12", Selecting::Pure),
            Rational::new(1.into(), BigInt::from(2) * BigInt::from(10).pow(24))
        );
        let rho: Rho = "0.2".parse().unwrap();
        assert_eq!(*Loss::pure(&"0.1".parse().unwrap()).costing(&rho).rho(), ratio(1, 5));
        assert_eq!(*Loss::pure(&one).costing(&rho).rho(), tangent);
    }

    /// Checks ρ in exact arithmetic. ρ/ε = tanh(x/2) for x = ε/k means e^x = (1 + ρ/ε)/(1 − ρ/ε).
    /// So e^−x is at least (1 − ρ/ε)/(1 + ρ/ε) if ρ is large enough. For a ρ that is smaller by
    /// 10⁻¹⁴, it is not.
    #[test]
    fn a_rho_is_never_too_small() {
        let one = Rational::one();
        for (epsilon, draws) in [("0.001", 1), ("0.1", 1), ("1", 1), ("1", 7), ("2", 1), ("20", 3)]
        {
            let epsilon: Epsilon = epsilon.parse().unwrap();
            let rho = Selecting::Pure.rho(epsilon.value(), draws);
            let share = epsilon.value() / Rational::from_integer(draws.into());
            let odds = |rho: &Rational| {
                let tangent = rho / epsilon.value();
                (&one - &tangent) / (&one + tangent)
            };
            assert!(odds(&rho) <= exp_neg(&share, 200).lower, "{epsilon:?} {draws}");
            let less = rho - ratio(1, 100_000_000_000_000);
            assert!(odds(&less) > exp_neg(&share, 200).upper, "{epsilon:?} {draws}");
        }
    }

    #[test]
    fn what_has_no_epsilon_leaves_the_sum_without_one() {
        let (pure, rho) = (Loss::pure(&"1".parse().unwrap()), "0.25".parse().unwrap());
        let sum = Loss::zero().plus(&pure).plus(&Loss::concentrated(&rho));
        assert_eq!((sum.epsilon(), sum.delta()), (None, None));
        assert_eq!(*sum.rho(), pure.rho() + ratio(1, 4));
        assert_eq!(Loss::zero().plus(&pure), pure);
    }

    /// ε-DP implies ρ-zCDP. The largest D_α/α of the worst ε-private pair, randomized response,
    /// stays below ρ. That of the worst pair of bounded range, at any offset of its interval, stays
    /// below ε²/8.
    #[test]
    fn rho_covers_the_divergence_of_the_worst_pairs() {
        // Two outcomes with log ratios `up` > 0 and `up − range` ≤ 0.
        let divergence = |up: f64, range: f64, order: f64| {
            let (a, b) = (up.exp(), (up - range).exp());
            // q·a + (1 − q)·b = 1.
            let q = (1.0 - b) / (a - b);
            (q * a.powf(order) + (1.0 - q) * b.powf(order)).ln() / (order - 1.0)
        };
        for epsilon in [0.01_f64, 0.3, 1.0, 2.0, 3.0, 8.0] {
            let exact: Epsilon = epsilon.to_string().parse().unwrap();
            let rho = |how| {
                let loss = Loss::choice(&exact, None, 1, how);
                num_traits::ToPrimitive::to_f64(loss.rho()).unwrap()
            };
            let mut worst = [0.0_f64; 2];
            for order in [1.000_1, 1.01, 1.1, 1.5, 2.0, 4.0, 16.0, 64.0] {
                let pure = divergence(epsilon, 2.0 * epsilon, order) / order;
                worst[0] = worst[0].max(pure);
                for step in 1..200 {
                    let up = epsilon * f64::from(step) / 200.0;
                    worst[1] = worst[1].max(divergence(up, epsilon, order) / order);
                }
            }
            assert!(worst[0] <= rho(Selecting::Pure) * (1.0 + 1e-9), "{epsilon} {worst:?}");
            assert!(worst[1] <= rho(Selecting::BoundedRange) * (1.0 + 1e-9), "{epsilon} {worst:?}");
            // A ρ that is 0.1 % smaller would not suffice; for bounded range and small ε, one that
            // is 2 % smaller.
            assert!(worst[0] >= 0.999 * rho(Selecting::Pure), "{epsilon} {worst:?}");
            if epsilon <= 0.3 {
                assert!(worst[1] >= 0.98 * rho(Selecting::BoundedRange), "{epsilon} {worst:?}");
            }
        }
    }
}
