//! Exact closed intervals: the range of an expression.
//!
//! In: the intervals of the operands. Out: the interval of the result. Ends are exact rationals or
//! unbounded. Floats occur only as inputs ([`Interval::from_f64_bounds`]) and where float
//! arithmetic rounds ([`Interval::round_outward_f64`]).
//!
//! The result of an operation that is computed exactly on non-NULL operands lies in the returned
//! interval. NULL and NaN are tracked elsewhere. Overflow is not modelled: after every step, the
//! caller uses [`Interval::is_within`] to check that integers fit their type. For floats, the
//! caller rounds outward, which also limits the size of the ends.
//!
//! ```text
//! CLAMP(price, 0, 100) * qty - 5      price: everything    qty: [0, 10]
//!
//! clamp(0, 100)   [0, 100]
//! mul [0, 10]     [0, 1000]
//! sub [5, 5]      [-5, 995]
//! ```

mod float;

use std::fmt;

use num_bigint::BigInt;
use num_traits::{FromPrimitive, One, Signed, ToPrimitive, Zero};

use crate::privacy::{Rational, decimal_text};
use float::{DOUBLE, SINGLE, nearest_float};

/// A set of numbers without gaps: all numbers between two ends, both included, or the empty set.
///
/// An absent end is unbounded: it admits every number on that side, including a float's infinity.
/// The empty set stands for an expression without values, such as a quotient by a divisor that is
/// always 0. An operation on an empty operand is empty, as a SQL operator on NULL is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    lo: Option<Rational>,
    hi: Option<Rational>,
    /// An empty interval has no ends, so equal sets are equal values.
    empty: bool,
}

impl Interval {
    /// The numbers from `lo` to `hi`, both included; `None` is unbounded. Empty when `lo > hi`.
    pub(crate) fn new(lo: Option<Rational>, hi: Option<Rational>) -> Self {
        match (&lo, &hi) {
            (Some(least), Some(most)) if least > most => Self::empty(),
            _ => Self { lo, hi, empty: false },
        }
    }

    /// The numbers from `lo` to `hi`, both included. Empty when `lo > hi`.
    pub(crate) fn between(lo: Rational, hi: Rational) -> Self {
        Self::new(Some(lo), Some(hi))
    }

    /// One number.
    pub(crate) fn point(value: Rational) -> Self {
        Self::between(value.clone(), value)
    }

    /// The range of an integer type, or any other two integers.
    pub(crate) fn integer_range(lo: impl Into<BigInt>, hi: impl Into<BigInt>) -> Self {
        Self::between(Rational::from_integer(lo.into()), Rational::from_integer(hi.into()))
    }

    /// Every number: the range is unknown.
    pub(crate) fn everything() -> Self {
        Self::new(None, None)
    }

    /// No number: the value is always NULL.
    pub(crate) fn empty() -> Self {
        Self { lo: None, hi: None, empty: true }
    }

    /// The interval between two floats, which are converted exactly.
    ///
    /// # Guarantee
    /// Contains every x with `lo ≤ x ≤ hi`. An infinite end is unbounded, and so is a NaN.
    pub(crate) fn from_f64_bounds(lo: f64, hi: f64) -> Self {
        if lo > hi {
            return Self::empty();
        }
        // The largest finite float is the best rational lower end for {+∞}, and likewise for {−∞}.
        let lo = if lo == f64::INFINITY { f64::MAX } else { lo };
        let hi = if hi == f64::NEG_INFINITY { f64::MIN } else { hi };
        Self::new(Rational::from_f64(lo), Rational::from_f64(hi))
    }

    /// Whether it contains no number.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    /// The least and the largest number; `None` where no such number exists.
    pub(crate) fn limits(&self) -> (Option<&Rational>, Option<&Rational>) {
        (self.lo.as_ref(), self.hi.as_ref())
    }

    /// Both ends, when the interval has both.
    pub(crate) fn bounds(&self) -> Option<(&Rational, &Rational)> {
        self.lo.as_ref().zip(self.hi.as_ref())
    }

    /// Whether `value` is inside.
    pub(crate) fn contains(&self, value: &Rational) -> bool {
        !self.empty
            && self.lo.as_ref().is_none_or(|lo| lo <= value)
            && self.hi.as_ref().is_none_or(|hi| value <= hi)
    }

    /// Whether every number of this interval is in `other` too.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.intersect(other) == *self
    }

    /// The largest magnitude, max(|lo|, |hi|). It bounds a sum's sensitivity.
    ///
    /// # Guarantee
    /// |x| is at most this for every x inside; exact. `None` when unbounded; 0 when empty.
    pub(crate) fn max_abs(&self) -> Option<Rational> {
        if self.empty {
            return Some(Rational::zero());
        }
        self.bounds().map(|(lo, hi)| lo.abs().max(hi.abs()))
    }

    /// The smallest integers around the interval.
    ///
    /// # Guarantee
    /// The lower end is rounded down and the upper end up. `None` when an end is unbounded or
    /// outside `i128`, and when the interval is empty.
    pub(crate) fn to_i128(&self) -> Option<(i128, i128)> {
        let (lo, hi) = self.bounds()?;
        Some((lo.floor().to_integer().to_i128()?, hi.ceil().to_integer().to_i128()?))
    }

    /// x + y.
    ///
    /// # Guarantee
    /// The exact range of the sum.
    #[must_use]
    pub(crate) fn add(&self, other: &Self) -> Self {
        let sum = |a: &Option<Rational>, b: &Option<Rational>| Some(a.as_ref()? + b.as_ref()?);
        self.joined(other, || Self::new(sum(&self.lo, &other.lo), sum(&self.hi, &other.hi)))
    }

    /// x − y.
    ///
    /// # Guarantee
    /// The exact range of the difference.
    #[must_use]
    pub(crate) fn sub(&self, other: &Self) -> Self {
        self.add(&other.neg())
    }

    /// −x.
    ///
    /// # Guarantee
    /// The exact range of the negation.
    #[must_use]
    pub(crate) fn neg(&self) -> Self {
        let minus = |end: &Option<Rational>| end.as_ref().map(|value| -value);
        Self { lo: minus(&self.hi), hi: minus(&self.lo), empty: self.empty }
    }

    /// |x|.
    ///
    /// # Guarantee
    /// The exact range of the magnitude.
    #[must_use]
    pub(crate) fn abs(&self) -> Self {
        let positive = Self::new(Some(Rational::zero()), None);
        self.intersect(&positive).union(&self.neg().intersect(&positive))
    }

    /// x · y.
    ///
    /// # Guarantee
    /// The exact range of the product. A product is monotone in each factor, so its extremes are at
    /// the corners. 0 times an unbounded end is 0, because the other factor is always a finite
    /// number.
    #[must_use]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        let Some(((a, b), (c, d))) = self.ends().zip(other.ends()) else {
            return Self::empty();
        };
        let corners = [a.times(&c), a.times(&d), b.times(&c), b.times(&d)];
        match (corners.iter().min(), corners.iter().max()) {
            (Some(lo), Some(hi)) => Self::new(lo.finite(), hi.finite()),
            _ => Self::everything(),
        }
    }

    /// `factor` · x.
    ///
    /// # Guarantee
    /// The exact range of the product.
    #[must_use]
    pub(crate) fn scale(&self, factor: &Rational) -> Self {
        self.mul(&Self::point(factor.clone()))
    }

    /// x / y as rationals, for y ≠ 0 (a quotient by 0 is NULL).
    ///
    /// # Guarantee
    /// The smallest closed interval around the quotients; empty when y can only be 0.
    #[must_use]
    pub(crate) fn div(&self, other: &Self) -> Self {
        let zero = Rational::zero();
        // `divisors` lies on one side of 0. Towards an end at 0, which is excluded, the reciprocals
        // grow without bound. Towards an unbounded end, they approach 0.
        let reciprocal = |divisors: Self| {
            if divisors.empty || divisors == Self::point(zero.clone()) {
                return Self::empty();
            }
            let inverse = |end: Option<Rational>| match end {
                None => Some(zero.clone()),
                Some(value) if value.is_zero() => None,
                Some(value) => Some(value.recip()),
            };
            Self::new(inverse(divisors.hi), inverse(divisors.lo))
        };
        let (below, above) = other.split_at_zero();
        self.mul(&reciprocal(below)).union(&self.mul(&reciprocal(above)))
    }

    /// The integer quotient of x and y, truncated toward zero, for y ≠ 0 (a quotient by 0 is NULL).
    ///
    /// # Guarantee
    /// The exact range of the quotients of the integers in both intervals. `i64::MIN / −1` is 2⁶³
    /// here, which does not fit the type.
    #[must_use]
    pub(crate) fn div_trunc(&self, other: &Self) -> Self {
        let dividends = self.integers();
        let (below, above) = other.split_at_zero();
        let one = Rational::one();
        let quotient = |divisors: Self| dividends.div(&divisors.integers()).trunc();
        quotient(below.below(&-&one)).union(&quotient(above.above(&one)))
    }

    /// The remainder x − y·trunc(x / y), which has the sign of x, for y ≠ 0.
    ///
    /// # Guarantee
    /// Contains every remainder. Its magnitude is at most |x| and at most |y|. It is x itself where
    /// |x| < |y|.
    #[must_use]
    pub(crate) fn rem(&self, other: &Self) -> Self {
        let (below, above) = other.split_at_zero();
        let divisors = below.abs().union(&above);
        if divisors == Self::point(Rational::zero()) {
            return Self::empty();
        }
        self.remainder(&divisors, &divisors)
    }

    /// The remainder of integers: as [`Interval::rem`], but its magnitude is at most |y| − 1.
    ///
    /// # Guarantee
    /// Contains the remainder of every integer of `self` by every integer of `other` except 0.
    #[must_use]
    pub(crate) fn rem_trunc(&self, other: &Self) -> Self {
        let one = Rational::one();
        let divisors = other.integers().abs().above(&one);
        let largest = divisors.sub(&Self::point(one));
        self.integers().remainder(&divisors, &largest)
    }

    /// LEAST(x, y) of two values that are not NULL.
    ///
    /// # Guarantee
    /// The exact range of the smaller one. Where SQL skips a NULL argument, the result is the other
    /// argument: take the [`union`](Interval::union) with it.
    #[must_use]
    pub(crate) fn least(&self, other: &Self) -> Self {
        self.neg().greatest(&other.neg()).neg()
    }

    /// GREATEST(x, y) of two values that are not NULL.
    ///
    /// # Guarantee
    /// The exact range of the larger one. Where SQL skips a NULL argument, the result is the other
    /// argument: take the [`union`](Interval::union) with it.
    #[must_use]
    pub(crate) fn greatest(&self, other: &Self) -> Self {
        // `None` sorts below every number: right for lower ends, wrong for upper ones.
        let lo = self.lo.clone().max(other.lo.clone());
        let hi = self.hi.clone().zip(other.hi.clone()).map(|(a, b)| a.max(b));
        self.joined(other, || Self::new(lo, hi))
    }

    /// GREATEST(lo, LEAST(x, hi)).
    ///
    /// # Guarantee
    /// The exact range of the clamped value; for `lo ≤ hi` it lies within `lo..=hi`.
    #[must_use]
    pub(crate) fn clamp(&self, lo: &Rational, hi: &Rational) -> Self {
        self.least(&Self::point(hi.clone())).greatest(&Self::point(lo.clone()))
    }

    /// The smallest interval around both: the value is in one of them.
    ///
    /// # Guarantee
    /// Contains every number of either interval.
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        if self.empty {
            return other.clone();
        }
        if other.empty {
            return self.clone();
        }
        let lo = self.lo.clone().zip(other.lo.clone()).map(|(a, b)| a.min(b));
        let hi = self.hi.clone().zip(other.hi.clone()).map(|(a, b)| a.max(b));
        Self::new(lo, hi)
    }

    /// The intersection: the value is in both of them.
    ///
    /// # Guarantee
    /// Exactly the numbers that are in both intervals.
    #[must_use]
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let lo = self.lo.clone().max(other.lo.clone());
        let hi = self.hi.clone().into_iter().chain(other.hi.clone()).min();
        self.joined(other, || Self::new(lo, hi))
    }

    /// The part that remains when `x ≤ bound` is known.
    ///
    /// # Guarantee
    /// Exactly the numbers up to `bound`. A strict `x < bound` leaves the same closed interval; for
    /// integers, it leaves the one up to `⌈bound⌉ − 1`.
    #[must_use]
    pub(crate) fn below(&self, bound: &Rational) -> Self {
        self.intersect(&Self::new(None, Some(bound.clone())))
    }

    /// The part that remains when `x ≥ bound` is known.
    ///
    /// # Guarantee
    /// Exactly the numbers from `bound` on. A strict `x > bound` leaves the same closed interval;
    /// for integers, it leaves the one from `⌊bound⌋ + 1` on.
    #[must_use]
    pub(crate) fn above(&self, bound: &Rational) -> Self {
        self.intersect(&Self::new(Some(bound.clone()), None))
    }

    /// The part that remains when x is known to be an integer: the ends are rounded inward.
    ///
    /// # Guarantee
    /// Contains exactly the same integers.
    #[must_use]
    pub(crate) fn integers(&self) -> Self {
        let ceil = self.lo.as_ref().map(Rational::ceil);
        let floor = self.hi.as_ref().map(Rational::floor);
        self.joined(self, || Self::new(ceil, floor))
    }

    /// ⌊x⌋.
    ///
    /// # Guarantee
    /// The smallest interval around the results: the function is monotone.
    #[must_use]
    pub(crate) fn floor(&self) -> Self {
        self.monotone(Rational::floor)
    }

    /// ⌈x⌉.
    ///
    /// # Guarantee
    /// The smallest interval around the results: the function is monotone.
    #[must_use]
    pub(crate) fn ceil(&self) -> Self {
        self.monotone(Rational::ceil)
    }

    /// x rounded to the nearest integer, halves away from zero, as SQL's ROUND does.
    ///
    /// # Guarantee
    /// The smallest interval around the results: the function is monotone.
    #[must_use]
    pub(crate) fn round(&self) -> Self {
        self.monotone(Rational::round)
    }

    /// x without its fraction, like a cast to an integer.
    ///
    /// # Guarantee
    /// The smallest interval around the results: the function is monotone.
    #[must_use]
    pub(crate) fn trunc(&self) -> Self {
        self.monotone(Rational::trunc)
    }

    /// The range of a float result whose exact value is in this interval.
    ///
    /// # Guarantee
    /// Contains the result of any IEEE 754 operation, in `f64` or `f32`, that rounds to nearest and
    /// whose exact result is inside. Such rounding is monotone, so the rounded ends bound the
    /// rounded values. An end that may overflow to ±∞ becomes unbounded. Ends that both types
    /// represent are unchanged.
    #[must_use]
    pub(crate) fn round_outward_f64(&self) -> Self {
        let rounded = |end: &Rational| {
            let (single, double) = (nearest_float(end, &SINGLE)?, nearest_float(end, &DOUBLE)?);
            Some(if single < double { (single, double) } else { (double, single) })
        };
        let lo = self.lo.as_ref().and_then(rounded).map(|(least, _)| least);
        let hi = self.hi.as_ref().and_then(rounded).map(|(_, most)| most);
        self.joined(self, || Self::new(lo, hi))
    }

    /// `result`, unless an operand is empty.
    fn joined(&self, other: &Self, result: impl FnOnce() -> Self) -> Self {
        if self.empty || other.empty { Self::empty() } else { result() }
    }

    fn monotone(&self, function: impl Fn(&Rational) -> Rational) -> Self {
        Self {
            lo: self.lo.as_ref().map(&function),
            hi: self.hi.as_ref().map(&function),
            empty: self.empty,
        }
    }

    /// The parts up to 0 and from 0 on.
    fn split_at_zero(&self) -> (Self, Self) {
        (self.below(&Rational::zero()), self.above(&Rational::zero()))
    }

    /// Remainders by `divisors` (magnitudes). No remainder exceeds the upper end of `largest`.
    fn remainder(&self, divisors: &Self, largest: &Self) -> Self {
        if self.empty || divisors.empty {
            return Self::empty();
        }
        if self.max_abs().zip(divisors.lo.clone()).is_some_and(|(most, least)| most < least) {
            return self.clone();
        }
        let zero = Self::point(Rational::zero());
        let by_divisor = largest.union(&largest.neg()).union(&zero);
        self.union(&zero).intersect(&by_divisor)
    }

    fn ends(&self) -> Option<(ExtendedEnd, ExtendedEnd)> {
        if self.empty {
            return None;
        }
        let lo = self.lo.clone().map_or(ExtendedEnd::MinusInfinity, ExtendedEnd::At);
        let hi = self.hi.clone().map_or(ExtendedEnd::PlusInfinity, ExtendedEnd::At);
        Some((lo, hi))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.empty {
            return f.write_str("∅");
        }
        let text = |end: &Option<Rational>| end.as_ref().map(|value| decimal_text(value, 12));
        let lo = text(&self.lo).unwrap_or_else(|| "-∞".to_owned());
        let hi = text(&self.hi).unwrap_or_else(|| "∞".to_owned());
        write!(f, "[{lo}, {hi}]")
    }
}

/// An end of an interval on the extended number line. The derived order is the order of that line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ExtendedEnd {
    MinusInfinity,
    At(Rational),
    PlusInfinity,
}

impl ExtendedEnd {
    fn times(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::At(a), Self::At(b)) => Self::At(a * b),
            _ if self.is_zero() || other.is_zero() => Self::At(Rational::zero()),
            _ if self.is_negative() == other.is_negative() => Self::PlusInfinity,
            _ => Self::MinusInfinity,
        }
    }

    fn is_zero(&self) -> bool {
        matches!(self, Self::At(value) if value.is_zero())
    }

    fn is_negative(&self) -> bool {
        match self {
            Self::MinusInfinity => true,
            Self::At(value) => value.is_negative(),
            Self::PlusInfinity => false,
        }
    }

    fn finite(&self) -> Option<Rational> {
        match self {
            Self::At(value) => Some(value.clone()),
            Self::MinusInfinity | Self::PlusInfinity => None,
        }
    }
}

#[cfg(test)]
mod tests;
