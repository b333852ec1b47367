//! Exact coins: probability `num/den`, and probability `exp(−num/den)`.
//!
//! A ratio of integers goes in, a bit comes out. Every draw compares uniform integers, so its
//! probability is exact, however small it is. The ratio may have any size.
//!
//! ```
//! use hushql_privacy::sampler::QueryRng;
//! use hushql_privacy::sampler::bernoulli::{bernoulli, bernoulli_exp};
//!
//! let mut rng = QueryRng::from_os()?;
//! assert!(bernoulli(3, 3, &mut rng));
//! assert!(bernoulli_exp(0, 1, &mut rng)); // exp(0) = 1
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::Zero;

use super::rng::Uniform;

/// True with probability `min(1, num / den)`.
///
/// # Guarantee
/// Exact for all `num` and `den` ≥ 1. A denominator of 0 means an infinite ratio: always true.
pub fn bernoulli<U: Uniform + ?Sized>(num: u128, den: u128, uniform: &mut U) -> bool {
    num >= den || uniform.chance_wide(num, den)
}

/// True with probability `exp(−num / den)`.
///
/// # Guarantee
/// Exact for all `num` and `den` ≥ 1; it never fails and never overflows. A denominator of 0 means
/// an infinite exponent: never true. Source: Canonne, Kamath, Steinke 2020, algorithm 1.
pub fn bernoulli_exp<U: Uniform + ?Sized>(num: u128, den: u128, uniform: &mut U) -> bool {
    // 64-bit divisions are several times faster than 128-bit ones.
    if let (Ok(num), Ok(den)) = (u64::try_from(num), u64::try_from(den)) {
        return bernoulli_exp_u64(num, den, uniform);
    }
    let (Some(whole), Some(rest)) = (num.checked_div(den), num.checked_rem(den)) else {
        return false;
    };
    // exp(−7/2) = exp(−1)³·exp(−1/2). The first failure ends the draw, after 1.6 rounds on average.
    for _ in 0..whole {
        if !exp_minus_one(uniform) {
            return false;
        }
    }
    // rest/(den·k) as two independent coins, so that nothing overflows.
    series(uniform, |k, uniform| one_in(k, uniform) && uniform.chance_wide(rest, den))
}

/// As [`bernoulli_exp`], for 64-bit ratios.
///
/// # Guarantee
/// As [`bernoulli_exp`].
pub(super) fn bernoulli_exp_u64<U: Uniform + ?Sized>(num: u64, den: u64, uniform: &mut U) -> bool {
    let (Some(whole), Some(rest)) = (num.checked_div(den), num.checked_rem(den)) else {
        return false;
    };
    for _ in 0..whole {
        if !exp_minus_one(uniform) {
            return false;
        }
    }
    exp_within_one(rest, den, uniform)
}

/// As [`bernoulli_exp`], for ratios beyond 128 bits.
///
/// # Guarantee
/// As [`bernoulli_exp`].
pub fn bernoulli_exp_big<U: Uniform + ?Sized>(
    num: &BigUint,
    den: &BigUint,
    uniform: &mut U,
) -> bool {
    if den.is_zero() {
        return false;
    }
    let (whole, rest) = num.div_rem(den);
    let mut turn = BigUint::zero();
    while turn < whole {
        if !exp_minus_one(uniform) {
            return false;
        }
        turn.inc();
    }
    series(uniform, |k, uniform| {
        one_in(k, uniform) && (rest >= *den || uniform.chance_big(&rest, den))
    })
}

/// True with probability 1/e.
///
/// # Guarantee
/// Exact. The first coin of the series is certain and the second is fair, so most draws take one or
/// two bits.
pub(super) fn exp_minus_one<U: Uniform + ?Sized>(uniform: &mut U) -> bool {
    if !uniform.coin() {
        return false;
    }
    let mut k = 3_u64;
    while uniform.chance(1, k) {
        k = k.saturating_add(1);
    }
    k & 1 == 1
}

/// exp(−num/den) for num ≤ den.
fn exp_within_one<U: Uniform + ?Sized>(num: u64, den: u64, uniform: &mut U) -> bool {
    if num == 0 {
        return true;
    }
    if num == den {
        return exp_minus_one(uniform);
    }
    series(uniform, |k, uniform| match den.checked_mul(k) {
        Some(product) => uniform.chance(num, product),
        None => one_in(k, uniform) && uniform.chance(num, den),
    })
}

/// Draws by the alternating series of exp(−γ): it flips coins of γ/1, γ/2, γ/3, … until one fails.
/// The number of flips is odd with probability exactly exp(−γ).
fn series<U: Uniform + ?Sized>(uniform: &mut U, mut coin: impl FnMut(u64, &mut U) -> bool) -> bool {
    let mut k = 1_u64;
    while coin(k, uniform) {
        k = k.saturating_add(1);
    }
    k & 1 == 1
}

fn one_in<U: Uniform + ?Sized>(k: u64, uniform: &mut U) -> bool {
    k == 1 || uniform.chance(1, k)
}
