//! How large the values on a grid may be, and how fine a grid of floats is.
//!
//! In: the magnitude of a range. Out: the largest accepted magnitude, and the binary places for a
//! magnitude.
//!
//! ```text
//! [0, 3]     37 binary places: 3 · 2^37 is below 2^39, and 3 · 2^38 is not
//! ```

use num_bigint::BigInt;
use num_traits::{One, Signed};

use crate::privacy::Rational;

/// The largest magnitude that a range may have. Beyond it, sums of many integers would come close
/// to the width of the accumulator, and a grid of floats would be too coarse to be useful. For this
/// reason, 64-bit integers as floats have no range.
pub(crate) fn widest() -> Rational {
    Rational::from_integer(BigInt::one() << 62)
}

/// The largest k for which `magnitude` times 2^k stays within 2³⁹.
pub(crate) fn binary_places(magnitude: &Rational) -> i32 {
    const BITS: i32 = 39;
    const FINEST: i32 = 200;
    let mut log2 = 0_i32;
    let most = Rational::from_integer(BigInt::one() << BITS);
    let two = Rational::from_integer(2.into());
    let mut scaled = magnitude.abs();
    while scaled > most {
        scaled /= &two;
        log2 -= 1;
    }
    while log2 < FINEST && &scaled * &two <= most {
        scaled *= &two;
        log2 += 1;
    }
    log2
}
