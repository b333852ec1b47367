//! Numbers for units that are close to each other seldom share their first bits.
//!
//! In: the code of a unit. Out: a number whose first bits choose one of a power of two of counters. It assumes a key that was
//! drawn freshly for the query. It guarantees that equal codes have equal numbers, that a unit's number depends on nothing
//! but its code and the key, and that few of many consecutive codes share a counter. So units that were numbered one after
//! the other, as nearly all are, hardly ever share one, although no unit decides how the others are counted.
//!
//! ```text
//! let spread = hash.spread();
//! let counter = spread.number(4711) >> 40; // one of 2²⁴
//! ```

/// The terms of a continued fraction: with so many, its denominator lies between 2³¹ and 2⁵⁹.
const TERMS: u32 = 46;

/// Multiplies codes by a fraction of 2⁶⁴ that is far from all fractions with small denominators.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    factor: u64,
}

impl Spread {
    /// By the continued fraction whose terms are one or two, as the bits of `key` say.
    ///
    /// # Guarantee
    /// At most 1 + 4N/M of N consecutive codes have the same log₂ M first bits, for N up to 2³⁰ and any power of two M up to
    /// 2³⁰. A multiple n of a number with terms of at most two is farther than 1/(4n) from any integer (Khinchin, *Continued
    /// Fractions*, §§ 6 and 10), so that any two of these codes are at least 2⁶⁴/(4N) apart on the circle.
    pub(super) fn new(key: u64) -> Self {
        let term = |at: u32| 1 + u128::from(key >> at & 1);
        let (part, whole) = (0..TERMS)
            .fold((0, 1), |(part, whole): (u128, u128), at| (whole, term(at) * whole + part));
        let factor = u64::try_from((part << u64::BITS) / whole).unwrap_or(u64::MAX);
        Self { factor }
    }

    /// The number of a code.
    pub(crate) fn number(self, code: u64) -> u64 {
        code.wrapping_mul(self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    /// Whatever the key and the first code are.
    #[test]
    fn few_of_many_consecutive_codes_share_a_counter() {
        let mut state = 5_u64;
        for round in 0..300 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let spread = Spread::new(match round {
                0 => 0,
                1 => u64::MAX,
                _ => state.rotate_left(32),
            });
            let (bits, codes) = (6 + round % 9, 1 + (state >> 49));
            let mut counts = vec![0_u64; 1 << bits];
            for code in state..state.saturating_add(codes) {
                let at = spread.number(code) >> (64 - bits);
                counts[usize::try_from(at).unwrap()] += 1;
            }
            let most = counts.iter().max().unwrap();
            assert!(*most <= 1 + 4 * codes / (1 << bits), "{most} of {codes} in 2^{bits}");
        }
    }

    /// Codes that are not close share counters no more often than by chance, roughly: multiples, and times with a counter.
    #[test]
    fn other_codes_are_spread_as_well() {
        for key in [0, 1, 0x9e37_79b9_7f4a_7c15, u64::MAX] {
            let spread = Spread::new(key);
            for step in [10, 64, 1000, 1 << 22, 1 << 40, 86_400_000_000] {
                let mut counts = vec![0_u64; 1 << 14];
                for code in 0..1_u64 << 14 {
                    let at = spread.number(code.wrapping_mul(step)) >> 50;
                    counts[usize::try_from(at).unwrap()] += 1;
                }
                assert!(counts.iter().all(|count| *count <= 64), "{key} {step}");
            }
        }
    }
}
