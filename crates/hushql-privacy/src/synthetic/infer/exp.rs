//! The exponential function of many numbers at once.
//!
//! In: logarithms that are not positive. Out: their exponentials, with a relative error below
//! 10⁻¹¹, in a loop that the compiler vectorises. Only models use it.

/// 1.5·2⁵²: adding it rounds to a whole number, and leaves that number in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Lower logarithms are raised to this: e⁻⁷⁰⁰ is 10⁻³⁰⁴.
const LEAST: f64 = -700.0;

/// e^x for x ≤ 0; below −700, e^−700.
#[inline]
pub(super) fn exp(x: f64) -> f64 {
    let x = x.max(LEAST);
    let shifted = x * std::f64::consts::LOG2_E + MAGIC;
    let whole = shifted - MAGIC;
    // ln 2 in two parts, so that the rest is accurate enough.
    let rest = x - whole * 0.693_147_180_369_123_8 - whole * 1.908_214_929_270_587_7e-10;
    let mut sum = 1.0 / 3_628_800.0;
    for factor in [
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * rest + factor;
    }
    // 2^whole, by the bits of the exponent.
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    sum * power
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn it_is_the_exponential_function() {
        for step in 0..70_000_i32 {
            let x = -f64::from(step) / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-11, "{x}");
        }
        assert!(exp(-1e300) > 0.0 && exp(f64::NEG_INFINITY) > 0.0);
        assert!((exp(0.0) - 1.0).abs() < 1e-15);
    }
}
