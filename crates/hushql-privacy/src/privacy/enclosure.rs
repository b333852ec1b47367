//! Exponentials and logarithms of rationals, enclosed between two rationals.
//!
//! A rational and a precision go in; a lower and an upper bound come out, about 2^−bits apart.
//! Calibration uses the bound that means more noise, so no rounding can make a scale too small.
//!
//! `exp_neg(1, 64)` is the pair of multiples of 2⁻⁹⁶ around 0.36787944117144232….

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::Rational;

/// Two rationals with the true value between them.
#[derive(Debug, Clone)]
pub struct Enclosure {
    /// At or below the true value.
    pub lower: Rational,
    /// At or above the true value.
    pub upper: Rational,
}

/// exp(−x), for x ≥ 0.
///
/// # Guarantee
/// lower ≤ exp(−x) ≤ upper for every x ≥ 0, and upper − lower ≤ 2^−bits; x < 0 is read as 0, and
/// the result is 1.
pub fn exp_neg(x: &Rational, bits: u32) -> Enclosure {
    if !x.is_positive() {
        return Enclosure { lower: Rational::one(), upper: Rational::one() };
    }
    if x.to_integer() >= BigInt::from(bits) {
        // exp(−bits) < 2^(−bits).
        return Enclosure { lower: Rational::zero(), upper: dyadic(BigInt::one(), bits) };
    }
    // Here x < bits, so r = x/2^halvings < 1/8. Each of the `halvings` squarings doubles the error.
    let halvings = x.to_integer().bits().to_u32().unwrap_or(32) + 3;
    let point = bits + 2 * halvings + 16;
    let (mut low, mut high) = {
        let r = (x.numer() << point, x.denom() << halvings);
        let (low, high) = exp_series(&r.0.div_floor(&r.1), &r.0.div_ceil(&r.1), point);
        let one = BigInt::one() << (2 * point);
        (one.div_floor(&high), one.div_ceil(&low))
    };
    for _ in 0..halvings {
        low = (&low * &low) >> point;
        high = shift_ceil(&(&high * &high), point);
    }
    Enclosure { lower: dyadic(low, point), upper: dyadic(high, point) }
}

/// exp(r) from below and above for 0 ≤ r < 1/8, all in units of 2^−point.
fn exp_series(r_low: &BigInt, r_high: &BigInt, point: u32) -> (BigInt, BigInt) {
    let one = BigInt::one() << point;
    let (mut low, mut high) = (one.clone(), one.clone());
    let (mut term_low, mut term_high) = (one.clone(), one);
    let mut n = 1_u32;
    while term_high > BigInt::one() {
        term_low = ((term_low * r_low) >> point) / n;
        term_high = (shift_ceil(&(term_high * r_high), point) + (n - 1)) / n;
        low += &term_low;
        high += &term_high;
        n += 1;
    }
    // Each omitted term is at most an eighth of the one before, so together they are less than the
    // last one.
    (low, high + term_high)
}

/// ln(x), for x > 0.
///
/// # Guarantee
/// lower ≤ ln(x) ≤ upper for every x > 0, about 2^−bits apart. `None` for x ≤ 0.
pub fn ln(x: &Rational, bits: u32) -> Option<Enclosure> {
    if !x.is_positive() {
        return None;
    }
    // x = m·2^k with m in [2/3, 4/3].
    let length = |n: &BigInt| n.bits().to_i64();
    let mut k = length(x.numer())? - length(x.denom())?;
    let scaled = |k: i64| {
        let shift = k.unsigned_abs();
        if k >= 0 {
            Rational::new(x.numer().clone(), x.denom() << shift)
        } else {
            Rational::new(x.numer() << shift, x.denom().clone())
        }
    };
    let (third, two_thirds) = (BigInt::from(3), BigInt::from(2));
    let mut m = scaled(k);
    if m > Rational::new(BigInt::from(4), third.clone()) {
        k += 1;
        m = scaled(k);
    } else if m < Rational::new(two_thirds, third.clone()) {
        k -= 1;
        m = scaled(k);
    }
    let point = bits + 80;
    let one = Rational::one();
    let main = twice_atanh(&((&m - &one) / (&m + &one)), point);
    let two = twice_atanh(&Rational::new(BigInt::one(), third), point);
    let k = Rational::from_integer(BigInt::from(k));
    let (a, b) = (&k * &two.lower, &k * &two.upper);
    let (low, high) = if a <= b { (a, b) } else { (b, a) };
    Some(Enclosure { lower: main.lower + low, upper: main.upper + high })
}

/// 2·atanh(z) for |z| ≤ 1/3, in units of 2^−point: z + z³/3 + z⁵/5 + ….
fn twice_atanh(z: &Rational, point: u32) -> Enclosure {
    let size = z.abs();
    let (num, den) = (size.numer() << point, size.denom());
    let (z_low, z_high) = (num.div_floor(den), num.div_ceil(den));
    let (square_low, square_high) =
        ((&z_low * &z_low) >> point, shift_ceil(&(&z_high * &z_high), point));
    let (mut low, mut high) = (BigInt::zero(), BigInt::zero());
    let (mut power_low, mut power_high) = (z_low, z_high);
    let mut n = BigInt::one();
    loop {
        low += power_low.div_floor(&n);
        high += power_high.div_ceil(&n);
        if power_high <= BigInt::one() {
            break;
        }
        power_low = (power_low * &square_low) >> point;
        power_high = shift_ceil(&(power_high * &square_high), point);
        n += 2;
    }
    // Each omitted power is at most a ninth of the one before, so together they are less than the
    // last one.
    high += power_high;
    let (low, high) = (dyadic(low * 2, point), dyadic(high * 2, point));
    if z.is_negative() {
        Enclosure { lower: -high, upper: -low }
    } else {
        Enclosure { lower: low, upper: high }
    }
}

/// units·2^−point. It cancels factors of 2 only, which are the only common ones.
fn dyadic(units: BigInt, point: u32) -> Rational {
    let twos = units.trailing_zeros().unwrap_or(u64::MAX).min(point.into());
    Rational::new_raw(units >> twos, BigInt::one() << (u64::from(point) - twos))
}

/// units·2^−point, rounded up.
fn shift_ceil(units: &BigInt, point: u32) -> BigInt {
    -(-units >> point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rational(num: i64, den: i64) -> Rational {
        Rational::new(num.into(), den.into())
    }

    fn float(x: &Rational) -> f64 {
        x.to_f64().unwrap()
    }

    #[test]
    fn exponentials_are_enclosed() {
        for (num, den) in [(0, 1), (1, 1), (1, 1_000_000_007), (7, 3), (40, 1), (99, 1)] {
            let (x, bound) = (rational(num, den), exp_neg(&rational(num, den), 128));
            let truth = (-float(&x)).exp();
            assert!((float(&bound.lower) - truth).abs() <= 1e-14 * truth + 1e-38, "{num}/{den}");
            assert!(bound.lower <= bound.upper);
            assert!(&bound.upper - &bound.lower <= dyadic(BigInt::one(), 128));
            // exp(−x)·exp(−y) = exp(−x−y), so the enclosures must overlap.
            let (half, whole) = (exp_neg(&(&x / rational(2, 1)), 128), exp_neg(&x, 128));
            assert!(
                &half.lower * &half.lower <= whole.upper
                    && whole.lower <= &half.upper * &half.upper
            );
        }
        let far = exp_neg(&rational(1_000_000, 1), 128);
        assert!(far.lower.is_zero() && far.upper <= dyadic(BigInt::one(), 128));
    }

    /// Shifts equal divisions by powers of two, and their results are in lowest terms.
    #[test]
    fn shifts_are_divisions() {
        for units in -70_i64..70 {
            for point in 0..8 {
                let (exact, whole) = (rational(units, 1 << point), BigInt::from(units));
                assert_eq!(shift_ceil(&whole, point), exact.ceil().to_integer());
                let own = dyadic(whole, point);
                assert_eq!((own.numer(), own.denom()), (exact.numer(), exact.denom()));
            }
        }
    }

    #[test]
    fn logarithms_are_enclosed() {
        assert!(ln(&rational(0, 1), 64).is_none() && ln(&rational(-1, 2), 64).is_none());
        for (num, den) in [(1, 1), (2, 1), (1, 3), (4, 3), (1_000_000, 1), (1, 999_999_937), (3, 2)]
        {
            let x = rational(num, den);
            let bound = ln(&x, 128).unwrap();
            assert!((float(&bound.lower) - float(&x).ln()).abs() < 1e-13, "{num}/{den}");
            assert!(bound.lower <= bound.upper);
            assert!(&bound.upper - &bound.lower < dyadic(BigInt::one(), 128));
            let (inverse, square) = (ln(&x.recip(), 128).unwrap(), ln(&(&x * &x), 128).unwrap());
            assert!(-&inverse.upper <= bound.upper && bound.lower <= -&inverse.lower);
            assert!(
                square.lower <= rational(2, 1) * &bound.upper
                    && rational(2, 1) * &bound.lower <= square.upper
            );
        }
        // exp(−ln 10⁶) = 10⁻⁶.
        let log = ln(&rational(1_000_000, 1), 128).unwrap();
        let million = rational(1, 1_000_000);
        assert!(
            exp_neg(&log.upper, 160).lower <= million && million <= exp_neg(&log.lower, 160).upper
        );
    }
}
