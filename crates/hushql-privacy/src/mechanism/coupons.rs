//! The number of releases of one small ε that fit into an ε and a δ, by a bound that cannot be
//! improved.
//!
//! In: an (ε, δ), and the ε₀ of a coupon. Out: the largest k for which every sequence of k
//! releases, each at most ε₀-DP, is (ε, δ)-DP together. The bound is that of k randomized responses
//! of ε₀. These are the worst case of k such releases, so no larger number is possible.
//!
//! ```
//! use hushql_privacy::mechanism::most_coupons;
//!
//! // Sums of ε allow 40 releases of ε = 0.05 in ε = 2.
//! assert_eq!(most_coupons(&"2".parse()?, &"1e-6".parse()?, &"0.05".parse()?), 84);
//! # Ok::<(), hushql_privacy::privacy::ParameterError>(())
//! ```

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::privacy::enclosure::exp_neg;
use crate::privacy::{Delta, Epsilon, Rational};

/// The most coupons that a limit ever allows.
pub const MOST_COUPONS: u32 = 20_000;

/// Products keep this many bits.
const BITS: u64 = 256;
/// Sums and enclosed exponentials have this many fractional bits.
const POINT: u32 = 320;

/// The largest number of coupons, at most [`MOST_COUPONS`], that an ε and a δ allow; 0 if they
/// allow none.
///
/// # Guarantee
/// Let k be the result. Take any k releases, each (ε₀, δᵢ)-DP and each chosen after seeing the
/// earlier answers, with any δᵢ whose sum is bounded beforehand. Together they are (ε, δ + Σδᵢ)-DP,
/// because k satisfies Σᵢ C(k,i)·p^(k−i)·q^i·(1 − e^(ε−(k−2i)ε₀))₊ ≤ δ with p = e^ε₀/(1+e^ε₀) and
/// q = 1 − p, where every term is rounded up. This also holds for adaptive choices, because ε₀ is
/// the same for all releases: each can be computed from the answer of one randomized response,
/// except with probability δᵢ. No larger number satisfies the condition, up to roundings of 10⁻⁷⁰.
/// Source: Kairouz, Oh, Viswanath 2015, theorem 3.3 and its proof for interactive composition.
pub fn most_coupons(epsilon: &Epsilon, delta: &Delta, each: &Epsilon) -> u32 {
    let limit = (delta.value() * power_of_two(POINT)).floor().to_integer();
    let coupon = Coupon::new(epsilon.value(), each.value());
    let fits = |count: u32| coupon.delta_above(count) <= limit;
    // The ε₀ of this many coupons sum to at most ε, whatever δ is.
    let sums = (epsilon.value() / each.value()).floor().to_integer();
    let mut low = sums.to_u32().unwrap_or(MOST_COUPONS).min(MOST_COUPONS);
    let mut high = low.saturating_add(1);
    while high <= MOST_COUPONS && fits(high) {
        low = high;
        high = high.saturating_mul(2);
    }
    high = high.min(MOST_COUPONS + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// A number m·2^e, rounded to one side.
#[derive(Debug, Clone)]
struct Scaled {
    mantissa: BigInt,
    exponent: i64,
}

/// The side to which products are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundingSide {
    Below,
    Above,
}

impl Scaled {
    fn new(mantissa: &BigInt, exponent: i64, side: RoundingSide) -> Self {
        let spare = mantissa.bits().saturating_sub(BITS);
        let kept = shifted(mantissa, spare, side);
        Self {
            mantissa: kept,
            exponent: exponent.saturating_add(spare.to_i64().unwrap_or(i64::MAX)),
        }
    }

    /// A rational between 0 and 1.
    fn of(value: &Rational, side: RoundingSide) -> Self {
        let scaled = value * power_of_two(POINT);
        let mantissa = match side {
            RoundingSide::Below => scaled.floor(),
            RoundingSide::Above => scaled.ceil(),
        };
        Self::new(&mantissa.to_integer(), -i64::from(POINT), side)
    }

    fn times(&self, other: &Self, side: RoundingSide) -> Self {
        let exponent = self.exponent.saturating_add(other.exponent);
        Self::new(&(&self.mantissa * &other.mantissa), exponent, side)
    }

    fn power(&self, mut times: u64, side: RoundingSide) -> Self {
        let mut result = Self { mantissa: BigInt::one(), exponent: 0 };
        let mut square = self.clone();
        while times > 0 {
            if times % 2 == 1 {
                result = result.times(&square, side);
            }
            square = square.times(&square, side);
            times /= 2;
        }
        result
    }

    /// The number in units of 2^−POINT.
    fn units(&self, side: RoundingSide) -> BigInt {
        let up = self.exponent.saturating_add(i64::from(POINT));
        match up.to_u64() {
            Some(up) => &self.mantissa << up,
            None => shifted(&self.mantissa, up.unsigned_abs(), side),
        }
    }
}

/// `units` without its last `bits` bits, rounded to this side.
fn shifted(units: &BigInt, bits: u64, side: RoundingSide) -> BigInt {
    let down: BigInt = units >> bits;
    match side {
        RoundingSide::Above if &down << bits != *units => down + BigInt::one(),
        RoundingSide::Below | RoundingSide::Above => down,
    }
}

fn power_of_two(bits: u32) -> Rational {
    Rational::from_integer(BigInt::one() << bits)
}

/// The exponentials of a limit and a coupon, enclosed once.
struct Coupon<'a> {
    epsilon: &'a Rational,
    each: &'a Rational,
    /// e^−ε₀ = q/p, from above.
    ratio: Scaled,
    /// p = 1/(1 + e^−ε₀), from above.
    likely: Scaled,
    /// e^−2ε₀, from above: the ratio of the exponentials of one term to those of the next.
    twice: BigInt,
}

impl<'a> Coupon<'a> {
    fn new(epsilon: &'a Rational, each: &'a Rational) -> Self {
        let ratio = exp_neg(each, POINT);
        let twice = exp_neg(&(each + each), POINT).upper * power_of_two(POINT);
        Self {
            epsilon,
            each,
            likely: Scaled::of(
                &(Rational::one() / (Rational::one() + &ratio.lower)),
                RoundingSide::Above,
            ),
            ratio: Scaled::of(&ratio.upper, RoundingSide::Above),
            twice: twice.ceil().to_integer(),
        }
    }

    /// The δ of this many coupons at ε, in units of 2^−POINT.
    ///
    /// # Guarantee
    /// Never less than Σᵢ C(k,i)·p^(k−i)·q^i·(1 − e^(ε−(k−2i)ε₀))₊: probabilities are rounded up,
    /// exponentials down.
    fn delta_above(&self, count: u32) -> BigInt {
        let one = BigInt::one() << POINT;
        let mut sum = BigInt::zero();
        // C(k,i)·p^(k−i)·q^i.
        let mut chance = self.likely.power(u64::from(count), RoundingSide::Above);
        let mut beyond = self.each * Rational::from_integer(count.into()) - self.epsilon;
        // e^(ε−(k−2i)ε₀).
        let mut rest = exponential_below(&beyond);
        let step = self.each + self.each;
        for i in 0..count {
            if !beyond.is_positive() {
                break;
            }
            let gap = Scaled::new(
                &(&one - rest.units(RoundingSide::Below)),
                -i64::from(POINT),
                RoundingSide::Above,
            );
            sum += chance.times(&gap, RoundingSide::Above).units(RoundingSide::Above);
            let next = &chance.times(&self.ratio, RoundingSide::Above);
            let grown = (&next.mantissa * (count - i)).div_ceil(&BigInt::from(i + 1));
            chance = Scaled::new(&grown, next.exponent, RoundingSide::Above);
            let divided = (&rest.mantissa << (2 * POINT)).div_floor(&self.twice);
            rest = Scaled::new(&divided, rest.exponent - i64::from(POINT), RoundingSide::Below);
            beyond -= &step;
        }
        sum
    }
}

/// e^−x for x > 0, from below, with as many bits as the other numbers; 1 for x ≤ 0.
fn exponential_below(x: &Rational) -> Scaled {
    let parts = x.ceil().to_integer().to_u64().unwrap_or(1).max(1);
    let part = x / Rational::from_integer(parts.into());
    Scaled::of(&exp_neg(&part, POINT).lower, RoundingSide::Below).power(parts, RoundingSide::Below)
}

#[cfg(test)]
mod tests;
