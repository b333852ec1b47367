//! Margins in proofs about numbers: which floats are far from infinity, which divisors are safe,
//! and how far rounding widens a range.
//!
//! In: ranges and literals of an expression below a release. Out: whether a kernel can be used
//! unchanged, or a range that contains the results of the kernel.

use arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use super::facts::{decimal_unit, rational, type_range};
use super::interval::Interval;
use crate::privacy::Rational;

/// True if the floats of this range are far from the largest floats.
pub(crate) fn is_moderate(range: &Interval) -> bool {
    let most = Rational::from_integer(BigInt::from(10).pow(300));
    range.is_empty() || range.bounds().is_some_and(|(lo, hi)| -&most <= *lo && *hi <= most)
}

/// True if every integer can be divided by a literal without failure: it is neither 0 nor −1.
pub(crate) fn is_moderate_divisor(expr: &Expr) -> bool {
    let minus_one = Rational::from_integer((-1).into());
    matches!(expr, Expr::Literal(value, _)
        if rational(value).is_some_and(|v| !v.is_zero() && v != minus_one))
}

pub(crate) fn is_nonzero_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if rational(value).is_some_and(|v| !v.is_zero()))
}

/// The whole numbers that are nearest to the numbers of a range. If two are equally near, both
/// belong to the result.
///
/// # Guarantee
/// Contains every nearest whole number of every number in the range.
pub(crate) fn nearest(range: &Interval) -> Interval {
    let half = Interval::point(Rational::new(1.into(), 2.into()));
    range.sub(&half).ceil().union(&range.add(&half).floor())
}

/// The widest range after a cast between floats and decimals. The cast rounds a value twice as a
/// float and once to a decimal's last digit.
pub(crate) fn with_slack(range: &Interval, from: &DataType, to: &DataType) -> Interval {
    let Some((lo, hi)) = range.bounds() else { return range.clone() };
    let relative = Rational::new(1.into(), BigInt::from(2).pow(48));
    let digit = [from, to].into_iter().find_map(|data_type| match data_type {
        DataType::Decimal128(_, scale) => Some(decimal_unit(*scale)),
        _ => None,
    });
    let digit = digit.unwrap_or_else(Zero::zero);
    let slack = |end: &Rational| end.abs() * &relative + &digit;
    let wide = Interval::between(lo - slack(lo), hi + slack(hi));
    type_range(to).map_or(wide.clone(), |fits| wide.intersect(&fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ranges in steps of a twentieth, so that ends lie on both sides of every half.
    #[test]
    fn nearest_numbers_are_in_the_range() {
        let number = |twentieths: i64| Rational::new(twentieths.into(), 20.into());
        for lo in -45..45 {
            for hi in lo..lo + 45 {
                let range = nearest(&Interval::between(number(lo), number(hi)));
                let (least, most) = (lo..=hi).fold((i64::MAX, i64::MIN), |(least, most), x| {
                    let down = (x - 10).div_euclid(20) + i64::from((x - 10).rem_euclid(20) > 0);
                    (least.min(down), most.max((x + 10).div_euclid(20)))
                });
                assert_eq!(range, Interval::integer_range(least, most), "{lo} {hi}");
            }
        }
        assert_eq!(nearest(&Interval::everything()), Interval::everything());
        assert_eq!(nearest(&Interval::empty()), Interval::empty());
    }
}
