//! Finds the level of a draw: compares a lazily drawn uniform number with bounds of cumulative
//! weights.
//!
//! In: the weight on each level, a precision, and the first bits of a uniform number. Out: the
//! level, or `None` if these bits do not decide it. Bounds are integers rounded outward, so a
//! returned level is the level of every number with these first bits.
//!
//! Example: with weights 1 and 1 on levels 0 and 1, numbers below 1/(1 + 1/e) = 0.731… have
//! level 0. The binary digits `0.10111…` need a few more bits.

use std::sync::LazyLock;

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::{One, Zero};

use crate::sampler::rng::Uniform;

/// Cumulative weights Σ_{i<l} N_i·e^−i, from below and from above, in units of 2^−point.
#[derive(Debug, Clone, Default)]
pub(super) struct Levels {
    lower: Vec<BigUint>,
    upper: Vec<BigUint>,
    /// An upper bound of the sum over all levels, including levels that are not counted.
    most: BigUint,
}

impl Levels {
    /// Bounds for levels of these weights, with a total weight of `rest` on higher levels.
    ///
    /// # Guarantee
    /// `lower[l]` ≤ 2^point·Σ_{i<l} N_i·e^−i ≤ `upper[l]` for every l. The sum over all levels lies
    /// between `lower[L]` (if the rest is infinitely high) and `most` (if the rest is on level L).
    #[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
    pub(super) fn new(weights: &[BigUint], rest: &BigUint, point: u64) -> Self {
        let one = power_of_two(point);
        let (inverse_low, inverse_high) = one_over_e(point);
        let (mut power_low, mut power_high) = (one.clone(), one);
        let (mut low, mut high) = (BigUint::ZERO, BigUint::ZERO);
        let (mut lower, mut upper) = (vec![BigUint::ZERO], vec![BigUint::ZERO]);
        for weight in weights {
            if !weight.is_zero() {
                low += weight * &power_low;
                high += weight * &power_high;
            }
            lower.push(low.clone());
            upper.push(high.clone());
            power_low = (power_low * &inverse_low) >> point;
            power_high = shifted_up(power_high * &inverse_high, point);
        }
        let most = high + rest * power_high;
        Self { lower, upper, most }
    }

    /// The level of all numbers that start with these bits, if they all have the same one.
    ///
    /// # Guarantee
    /// `Some(l)` only if Σ_{i<l} ≤ u·Z < Σ_{i≤l} for every u that starts with these bits, where Z
    /// is the true sum over all levels.
    #[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
    pub(super) fn decide(&self, leading: &Leading) -> Option<usize> {
        let (least, most) = (self.lower.last()?, &self.most);
        let (from, to) = (&leading.digits * least, (&leading.digits + 1_u8) * most);
        // The first level that certainly ends beyond the number. The number must also certainly
        // reach its start.
        let ends = self.lower.partition_point(|sum| (sum << leading.bits) < to);
        let level = ends.checked_sub(1)?;
        let start = self.upper.get(level)?;
        (ends < self.lower.len() && (start << leading.bits) <= from).then_some(level)
    }
}

/// The first bits of a uniform number in [0, 1). More bits can be added.
#[derive(Debug)]
pub(super) struct Leading {
    digits: BigUint,
    bits: u64,
}

impl Leading {
    /// The first `bits` bits.
    pub(super) fn draw<U: Uniform + ?Sized>(bits: u64, uniform: &mut U) -> Self {
        let mut leading = Self { digits: BigUint::ZERO, bits: 0 };
        leading.extend(bits, uniform);
        leading
    }

    /// Draws more bits of the same number, and doubles their count.
    pub(super) fn double<U: Uniform + ?Sized>(&mut self, uniform: &mut U) {
        self.extend(self.bits, uniform);
    }

    #[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
    fn extend<U: Uniform + ?Sized>(&mut self, bits: u64, uniform: &mut U) {
        let mut missing = bits;
        while missing > 0 {
            let next = missing.min(32);
            self.digits =
                (&self.digits << next) + uniform.below_u64(1_u64.wrapping_shl(width(next)));
            missing = missing.saturating_sub(next);
        }
        self.bits = self.bits.saturating_add(bits);
    }
}

/// A number of bits, at most 32, as a `u32`.
fn width(bits: u64) -> u32 {
    u32::try_from(bits).unwrap_or(32)
}

/// ⌈x/2^point⌉.
#[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
fn shifted_up(x: BigUint, point: u64) -> BigUint {
    let whole = x.trailing_zeros().is_none_or(|zeros| zeros >= point);
    let down = x >> point;
    if whole { down } else { down + 1_u8 }
}

/// The number of bits of the cached bounds of 1/e.
const KEPT: u64 = 512;

/// 2^[`KEPT`]/e, rounded down and up.
static KEPT_BOUNDS: LazyLock<(BigUint, BigUint)> = LazyLock::new(|| one_over_e_anew(KEPT));

/// 2^point/e, rounded down and up.
///
/// # Guarantee
/// The first is at most 2^point/e, the second at least that. They are the cached bounds, rounded
/// outward once more, or newly computed ones.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "naturals of any length; the shorter is not negative"
)]
fn one_over_e(point: u64) -> (BigUint, BigUint) {
    match KEPT.checked_sub(point) {
        Some(longer) => {
            let (low, high) = &*KEPT_BOUNDS;
            (low >> longer, shifted_up(high.clone(), longer))
        }
        None => one_over_e_anew(point),
    }
}

/// 2^point/e, rounded down and up, from the series of e.
///
/// # Guarantee
/// The first is at most 2^point/e, the second at least that, for every `point` ≥ 1: every term of Σ
/// 1/k! is rounded outward, and the omitted terms add up to at most the last term included.
#[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
fn one_over_e_anew(point: u64) -> (BigUint, BigUint) {
    let one = power_of_two(point);
    let (mut low, mut high) = (one.clone(), one.clone());
    let (mut term_low, mut term_high) = (one.clone(), one);
    let mut k = 1_u64;
    while !term_high.is_one() {
        term_low /= k;
        term_high = term_high.div_ceil(&BigUint::from(k));
        low += &term_low;
        high += &term_high;
        k = k.saturating_add(1);
    }
    high += term_high;
    let square = power_of_two(point.saturating_mul(2));
    (square.div_floor(&high), square.div_ceil(&low))
}

/// 2^bits.
#[expect(clippy::arithmetic_side_effects, reason = "naturals of any length")]
pub(crate) fn power_of_two(bits: u64) -> BigUint {
    BigUint::one() << bits
}

#[cfg(test)]
mod tests {
    use num_traits::ToPrimitive;

    use super::*;

    #[test]
    fn shifts_round_up() {
        for (x, point, up) in
            [(0_u32, 3, 0_u32), (1, 3, 1), (7, 3, 1), (8, 3, 1), (9, 3, 2), (5, 0, 5)]
        {
            assert_eq!(shifted_up(x.into(), point), up.into(), "{x} >> {point}");
        }
    }

    #[test]
    fn the_inverse_of_e_is_enclosed() {
        // 1/e = Σ (−1)^k/k! between two partial sums, in units of 2^−2000.
        let (mut below, mut above, mut term, mut k) =
            (BigUint::ZERO, BigUint::ZERO, power_of_two(2000), 0_u64);
        while term > BigUint::ZERO {
            below = above.clone();
            above = if k.is_multiple_of(2) { &above + &term } else { &above - &term };
            k += 1;
            term /= k;
        }
        let (below, above) = if below < above { (below, above) } else { (above, below) };
        // Each of some 300 terms was rounded by less than 1.
        let (below, above) = (below - 400_u32, above + 400_u32);
        for point in [1, 2, 3, 5, 64, 96, 333, KEPT - 1, KEPT, KEPT + 1, 1500] {
            for (low, high) in [one_over_e(point), one_over_e_anew(point)] {
                let (from, to) = (&low << (2000 - point), &high << (2000 - point));
                assert!(from <= above && below <= to, "{point}");
                assert!(&high - &low <= BigUint::from(64_u8) && low < high, "{point}");
            }
        }
        assert!(
            (one_over_e(64).0.to_f64().unwrap() / 2_f64.powi(64) - (-1_f64).exp()).abs() < 1e-15
        );
    }
}
