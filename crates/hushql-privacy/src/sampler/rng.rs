//! The only source of randomness: a ChaCha20 generator that the operating system keys anew for each
//! query.
//!
//! Entropy goes in, uniform integers come out. The module assumes that ChaCha20 under a fresh
//! 256-bit key is indistinguishable from uniform words. Every bounded draw is then exactly uniform,
//! because it uses rejection and never a modulus.
//!
//! ```
//! use hushql_privacy::sampler::{QueryRng, Uniform};
//!
//! let mut rng = QueryRng::from_os()?;
//! assert!(rng.below_u64(6) < 6);
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```

use std::fmt;

use num_bigint::BigUint;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::SamplerError;

/// A source of independent uniform draws.
///
/// The samplers accept any source, so that tests can follow every branch of a draw and add up its
/// exact probability. Outside tests, [`QueryRng`] is the only source.
pub trait Uniform {
    /// A uniform integer in [0, n); 0 when `n` is 0.
    fn below_u64(&mut self, n: u64) -> u64;

    /// A uniform integer in [0, n); 0 when `n` is 0.
    fn below_u128(&mut self, n: u128) -> u128;

    /// A uniform integer in [0, n); 0 when `n` is 0.
    fn below_big(&mut self, n: &BigUint) -> BigUint;

    /// True with probability `min(1, num / den)`; the denominator must not be 0.
    fn chance(&mut self, num: u64, den: u64) -> bool {
        self.below_u64(den) < num
    }

    /// True with probability `min(1, num / den)`; the denominator must not be 0.
    fn chance_wide(&mut self, num: u128, den: u128) -> bool {
        self.below_u128(den) < num
    }

    /// True with probability `min(1, num / den)`; the denominator must not be 0.
    fn chance_big(&mut self, num: &BigUint, den: &BigUint) -> bool {
        self.below_big(den) < *num
    }

    /// A fair coin.
    fn coin(&mut self) -> bool {
        self.chance(1, 2)
    }
}

/// The generator of one query. Its key is fresh, never reused and never printed, and it is not
/// `Clone`.
///
/// A copy would draw the same noise twice, so that the difference of two answers would be exact.
pub struct QueryRng {
    words: ChaCha20Rng,
    bits: u64,
    bits_left: u32,
}

impl QueryRng {
    /// A generator under a fresh 256-bit key from the operating system.
    ///
    /// # Guarantee
    /// Every query has a new key, independent of all data and of all earlier keys. There is no
    /// fallback to a clock, a counter or a weaker source.
    ///
    /// # Errors
    /// [`SamplerError::Entropy`] when the operating system gives no entropy: the query fails, and
    /// is never answered with weaker noise.
    pub fn from_os() -> Result<Self, SamplerError> {
        let mut key = [0_u8; 32];
        getrandom::fill(&mut key).map_err(SamplerError::Entropy)?;
        Ok(Self::keyed(key))
    }

    /// Random bytes that distinguish two things which are otherwise equal, such as two charges.
    ///
    /// # Guarantee
    /// 128 uniform bits from the operating system: two calls return the same bits with probability
    /// 2⁻¹²⁸, even in different programs.
    ///
    /// # Errors
    /// [`SamplerError::Entropy`] when the operating system gives no entropy.
    pub fn nonce() -> Result<[u8; 16], SamplerError> {
        let mut nonce = [0_u8; 16];
        getrandom::fill(&mut nonce).map_err(SamplerError::Entropy)?;
        Ok(nonce)
    }

    /// A reproducible generator, **for tests only**: anyone who knows the seed can subtract the
    /// noise.
    #[cfg(any(test, feature = "testing"))]
    pub fn seeded_for_tests(seed: u64) -> Self {
        let mut key = [0_u8; 32];
        for (place, byte) in key.iter_mut().zip(seed.to_le_bytes()) {
            *place = byte;
        }
        Self::keyed(key)
    }

    fn keyed(key: [u8; 32]) -> Self {
        Self { words: ChaCha20Rng::from_seed(key), bits: 0, bits_left: 0 }
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// The key of the hash that bounds contributions in this query.
    ///
    /// # Guarantee
    /// 256 uniform bits, independent of the noise drawn before and after. Which rows of a privacy
    /// unit are sampled reveals nothing about the noise, and differs from query to query.
    pub fn hash_key(&mut self) -> [u64; 4] {
        [self.next_u64(), self.next_u64(), self.next_u64(), self.next_u64()]
    }

    /// The rejection of [`QueryRng::below_u64`] on half words.
    fn below_u32(&mut self, n: u32) -> u32 {
        let mut product = half_product(self.words.next_u32(), n);
        if low_half(product) < n {
            let excess = n.wrapping_neg().checked_rem(n).unwrap_or(0);
            while low_half(product) < excess {
                product = half_product(self.words.next_u32(), n);
            }
        }
        high_half(product)
    }

    fn next_u128(&mut self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }
}

impl fmt::Debug for QueryRng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state predicts every later draw, so it must not appear in a log.
        f.write_str("QueryRng")
    }
}

impl Uniform for QueryRng {
    /// # Guarantee
    /// Exactly uniform, from half words where they suffice. Source: Lemire 2019.
    fn below_u64(&mut self, n: u64) -> u64 {
        if let Ok(small) = u32::try_from(n) {
            return u64::from(self.below_u32(small));
        }
        let mut product = wide_product(self.next_u64(), n);
        if low_word(product) < n {
            // 2^64 mod n of the low words lie in intervals that are one too long.
            let excess = n.wrapping_neg().checked_rem(n).unwrap_or(0);
            while low_word(product) < excess {
                product = wide_product(self.next_u64(), n);
            }
        }
        high_word(product)
    }

    /// # Guarantee
    /// Exactly uniform: it draws words of the bound's bit length and rejects those at or above the
    /// bound (less than half of them).
    fn below_u128(&mut self, n: u128) -> u128 {
        if let Ok(small) = u64::try_from(n) {
            return u128::from(self.below_u64(small));
        }
        // The bound exceeds 2^64 here, so the shift is at most 63.
        let shift = n.leading_zeros();
        loop {
            let word = self.next_u128() >> shift;
            if word < n {
                return word;
            }
        }
    }

    /// # Guarantee
    /// Exactly uniform, by the same rejection as for 128 bits.
    fn below_big(&mut self, n: &BigUint) -> BigUint {
        let bits = n.bits();
        if bits == 0 {
            return BigUint::ZERO;
        }
        // The digits have 32 bits, in little-endian order; the surplus bits of the last one are
        // shifted out.
        let count = bits.div_ceil(32);
        let surplus = u32::try_from(count.saturating_mul(32).saturating_sub(bits)).unwrap_or(0);
        loop {
            let mut digits: Vec<u32> = (0..count).map(|_| self.words.next_u32()).collect();
            if let Some(last) = digits.last_mut() {
                *last >>= surplus;
            }
            let candidate = BigUint::new(digits);
            if candidate < *n {
                return candidate;
            }
        }
    }

    fn coin(&mut self) -> bool {
        if self.bits_left == 0 {
            self.bits = self.next_u64();
            self.bits_left = u64::BITS;
        }
        let bit = self.bits & 1 == 1;
        self.bits >>= 1;
        self.bits_left = self.bits_left.saturating_sub(1);
        bit
    }
}

fn half_product(a: u32, b: u32) -> u64 {
    // (2^32 − 1)² < 2^64: never wraps.
    u64::from(a).wrapping_mul(u64::from(b))
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
fn low_half(wide: u64) -> u32 {
    wide as u32
}

fn high_half(wide: u64) -> u32 {
    low_half(wide >> 32)
}

fn wide_product(a: u64, b: u64) -> u128 {
    // (2^64 − 1)² < 2^128: never wraps.
    u128::from(a).wrapping_mul(u128::from(b))
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
fn low_word(wide: u128) -> u64 {
    wide as u64
}

fn high_word(wide: u128) -> u64 {
    low_word(wide >> 64)
}
