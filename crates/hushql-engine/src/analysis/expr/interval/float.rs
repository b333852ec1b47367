//! Rounding to binary floats, in exact arithmetic.
//!
//! In: a rational number and a float format. Out: the nearest float of that format, as a rational.
//! The rounding is that of IEEE 754, so an interval with rounded ends contains the results of float
//! arithmetic.
//!
//! ```text
//! nearest_float(1/10, SINGLE) = 13421773 / 2^27       0.100000001490116…
//! nearest_float(10^39, SINGLE) = None                 +∞
//! ```

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, Zero};

use crate::privacy::Rational;

/// A binary float format: its precision, the exponent of its smallest step, and the exponent at
/// which it overflows.
#[derive(Debug)]
pub(super) struct Format {
    digits: i64,
    least: i64,
    overflow: i64,
}

/// `f32`.
pub(super) const SINGLE: Format = Format { digits: 24, least: -149, overflow: 128 };
/// `f64`.
pub(super) const DOUBLE: Format = Format { digits: 53, least: -1074, overflow: 1024 };

/// The float nearest to `value`. If two floats are equally near, the even one.
///
/// # Guarantee
/// Exactly IEEE 754 roundTiesToEven, including subnormals; `None` if the result is ±∞.
pub(super) fn nearest_float(value: &Rational, format: &Format) -> Option<Rational> {
    if value.is_zero() {
        return Some(Rational::zero());
    }
    // 2^(exponent−1) < |value| < 2^(exponent+1), because a number of b bits lies in [2^(b−1), 2^b).
    let bits = |part: &BigInt| i64::try_from(part.bits()).ok();
    let exponent = bits(value.numer())? - bits(value.denom())?;
    let exponent = if value.abs() < power_of_two(exponent) { exponent - 1 } else { exponent };
    let step = power_of_two((exponent + 1 - format.digits).max(format.least));
    let steps = value / &step;
    let below = steps.floor().to_integer();
    let half = Rational::new(BigInt::one(), BigInt::from(2));
    let rest = steps - Rational::from_integer(below.clone());
    let up = rest > half || (rest == half && below.is_odd());
    let nearest = Rational::from_integer(if up { below + BigInt::one() } else { below }) * step;
    (nearest.abs() < power_of_two(format.overflow)).then_some(nearest)
}

fn power_of_two(exponent: i64) -> Rational {
    let power = BigInt::one() << exponent.unsigned_abs();
    let power = Rational::from_integer(power);
    if exponent < 0 { power.recip() } else { power }
}
