//! The keyed hash that orders the groups of a unit and the rows of a group.
//!
//! In: a unit's value and the position of a key, or the values of a group and of a row. Out: a rank
//! for this unit. It assumes a key drawn freshly for each query from the engine's random source. It
//! guarantees that a rank depends only on the key, the unit's own value and the ranked values:
//! never on other units, on the order of rows, on batches or on partitions. Privacy needs nothing
//! more. Because the hash is hard to guess, an analyst cannot choose which groups and rows survive.
//!
//! ```text
//! let hash = HashKey::new(random_words);
//! let unit = hash.integer_unit(4711);
//! let first = (0..keys).min_by_key(|key| hash.rank(unit, *key));
//! ```

use std::fmt;
use std::sync::{Arc, OnceLock};

/// The golden ratio in 64 bits: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first hashed word of a group differs from that of a row, so that a group is never hashed
/// like a row.
const GROUP: u64 = 1;
const ROW: u64 = 2;

/// The key of one query's contribution bounding.
///
/// It is secret while the query runs: neither `Debug` nor a plan's text shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u64; 4]);

/// Holds the key of a query that is planned before it is paid for; the key is set afterwards.
#[derive(Debug, Clone, Default)]
pub struct LateKey(Arc<OnceLock<HashKey>>);

impl LateKey {
    /// Sets the key; later calls have no effect.
    pub fn set(&self, key: HashKey) {
        let _ = self.0.set(key);
    }

    /// The key, once it is set.
    pub fn key(&self) -> Option<HashKey> {
        self.0.get().copied()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl HashKey {
    /// A key of 256 random bits.
    pub fn new(words: [u64; 4]) -> Self {
        Self(words)
    }

    /// The bits of the key, for other processes that bound contributions.
    pub fn words(self) -> [u64; 4] {
        self.0
    }

    /// A bijective scattering of 64-bit codes: equal results mean equal codes.
    pub(crate) fn scatter(&self, code: u64) -> u64 {
        mix(code ^ self.0[0])
    }

    /// Numbers for codes. The last `bits` bits of a number, at most 63, choose a counter.
    pub(in crate::operator::bound_contributions) fn spread(self, bits: u32) -> Spread {
        Spread { hash: self, bits, block: 0, of_block: self.scatter(0) }
    }

    /// A scattering of pairs of a unit's code and the place of a key: equal pairs have equal
    /// results.
    ///
    /// Places may depend on the order of arrival. So the result may decide how a sum is computed,
    /// but never its value.
    pub(in crate::operator::bound_contributions) fn scatter_pair(
        &self,
        code: u64,
        place: u32,
    ) -> u64 {
        mix(self.scatter(code).wrapping_add(STEP.wrapping_mul(u64::from(place).wrapping_add(1))))
    }

    /// The hash of a unit whose value is an integer.
    pub fn integer_unit(&self, value: u64) -> u64 {
        mix(mix(value ^ self.0[0]).wrapping_add(self.0[1]))
    }

    /// The hash of a unit whose value is a text or another number, given as canonical bytes:
    /// SipHash-1-3.
    pub fn bytes_unit(&self, bytes: &[u8]) -> u64 {
        let [k0, k1, ..] = self.0;
        sip([k0, k1], &[], bytes)
    }

    /// The rank of a group, given as canonical bytes, among the groups of its unit: smaller ranks
    /// first.
    pub fn group_rank(&self, unit: u64, group: &[u8]) -> u64 {
        let [.., k2, k3] = self.0;
        sip([k2, k3], &[GROUP, unit], group)
    }

    /// The hash of a group, given as canonical bytes, for [`named_rank`](Self::named_rank).
    pub(in crate::operator::bound_contributions) fn group_name(&self, group: &[u8]) -> u64 {
        let [.., k2, k3] = self.0;
        sip([k2, k3], &[GROUP], group)
    }

    /// The rank of a group, given as its hash, among the groups of its unit: smaller ranks first.
    pub(in crate::operator::bound_contributions) fn named_rank(
        &self,
        unit: u64,
        group: u64,
    ) -> u64 {
        mix(mix(unit.wrapping_add(group) ^ self.0[2]).wrapping_add(group ^ self.0[3]))
    }

    /// The rank of a row, given as canonical bytes, within the group that has the rank `group`.
    ///
    /// The hash includes the group's rank. So units and groups choose among equal values
    /// independently, and no value is dropped everywhere.
    pub fn row_rank(&self, group: u64, row: &[u8]) -> u64 {
        let [.., k2, k3] = self.0;
        sip([k2, k3], &[ROW, group], row)
    }

    /// The rank of the n-th of several equal rows: a value that occurs twice in a group is kept
    /// twice as often.
    pub(crate) fn copy_rank(&self, row: u64, copy: u64) -> u64 {
        mix(mix(row.wrapping_add(STEP.wrapping_mul(copy)) ^ self.0[2]).wrapping_add(self.0[3]))
    }

    /// The point at which shares of a unit or of one of its groups are rounded up, from the unit's
    /// hash or the group's rank.
    ///
    /// Groups are kept in the order of their ranks. If the point grew with the rank, most kept
    /// groups would be rounded the same way.
    pub(in crate::operator::bound_contributions) fn point(&self, rank: u64) -> u64 {
        mix(mix(rank ^ self.0[3]).wrapping_add(self.0[2]))
    }

    /// The rank of a group among the groups of its unit: groups with smaller ranks come first.
    pub(in crate::operator::bound_contributions) fn rank(&self, unit: u64, key: u32) -> u64 {
        let step = STEP.wrapping_mul(u64::from(key).wrapping_add(1));
        mix(mix(unit.wrapping_add(step) ^ self.0[2]).wrapping_add(self.0[3]))
    }
}

/// Chooses counters for codes that are often close to the code before.
///
/// It may decide how a sum is computed, but never its value.
pub(in crate::operator::bound_contributions) struct Spread {
    hash: HashKey,
    bits: u32,
    /// The last code without its last `bits` bits, and the hash of this.
    block: u64,
    of_block: u64,
}

impl Spread {
    /// The number of a code. It does not depend on earlier calls.
    ///
    /// # Guarantee
    /// Two codes that agree in all bits before the last `bits` ones never share a counter; any
    /// other two share one as often as if counters were drawn at random. So consecutive units share
    /// few counters, and no unit decides where another one is counted.
    pub(in crate::operator::bound_contributions) fn of(&mut self, code: u64) -> u64 {
        let block = code >> self.bits;
        if block != self.block {
            (self.block, self.of_block) = (block, self.hash.scatter(block));
        }
        code.wrapping_add(self.of_block)
    }

    /// The difference between number and code for all codes from `least` to `most`, if it is the
    /// same for all of them.
    pub(in crate::operator::bound_contributions) fn added(
        &mut self,
        least: u64,
        most: u64,
    ) -> Option<u64> {
        let is_one_block = least >> self.bits == most >> self.bits;
        is_one_block.then(|| self.of(least).wrapping_sub(least))
    }
}

/// SipHash-1-3 of some words and then bytes.
fn sip([k0, k1]: [u64; 2], head: &[u64], bytes: &[u8]) -> u64 {
    let mut state = Sip([
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]);
    for word in head {
        state.absorb(*word);
    }
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    let mut last = [0_u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = head.len().wrapping_mul(8).wrapping_add(bytes.len()).to_le_bytes()[0];
    state.absorb(u64::from_le_bytes(last));
    state.finish()
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The state of SipHash (Aumasson, Bernstein 2012) with one round for each word and three at the
/// end.
struct Sip([u64; 4]);

impl Sip {
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.0.into_iter().fold(0, |all, word| all ^ word)
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hasher;

    use super::HashKey;

    #[test]
    fn bytes_are_hashed_as_siphash_1_3() {
        // The standard library's default hasher is SipHash-1-3 with key zero.
        let hash = HashKey::new([0; 4]);
        let text: Vec<u8> = (0..40).collect();
        for length in 0..text.len() {
            let mut oracle = std::collections::hash_map::DefaultHasher::new();
            oracle.write(&text[..length]);
            assert_eq!(hash.bytes_unit(&text[..length]), oracle.finish(), "{length}");
            for (tag, rank) in [
                (1_u64, hash.group_rank(77, &text[..length])),
                (2, hash.row_rank(77, &text[..length])),
            ] {
                let mut oracle = std::collections::hash_map::DefaultHasher::new();
                oracle.write(&tag.to_le_bytes());
                oracle.write(&77_u64.to_le_bytes());
                oracle.write(&text[..length]);
                assert_eq!(rank, oracle.finish(), "{length}");
            }
        }
    }

    #[test]
    fn ranks_of_values_depend_on_their_key() {
        let mut seen = HashSet::new();
        for key in [[1, 2, 3, 4], [1, 2, 9, 4], [1, 2, 3, 9]] {
            let hash = HashKey::new(key);
            assert!(seen.insert(hash.group_rank(5, b"x")));
            assert!(seen.insert(hash.row_rank(5, b"x")));
            assert!((0..9).all(|copy| seen.insert(hash.copy_rank(5, copy))));
            assert!(seen.insert(hash.point(5)));
        }
    }

    #[test]
    fn ranks_are_even_and_depend_on_every_part() {
        let hash = HashKey::new([1, 2, 3, 4]);
        let mut seen = HashSet::new();
        for other in [[1, 2, 3, 4], [9, 2, 3, 4], [1, 9, 3, 4], [1, 2, 9, 4], [1, 2, 3, 9]] {
            assert!(seen.insert(HashKey::new(other).rank(HashKey::new(other).integer_unit(5), 6)));
        }
        // 60,000 units choose the first of 6 keys. If the choices are even, chi-square with 5
        // degrees of freedom exceeds 40 with probability 1.5e-7. The key is fixed, so the test
        // always gives the same result.
        let by_place = |unit: u64, key: u32| hash.rank(unit, key);
        let names: Vec<u64> = (0..6_u8).map(|key| hash.group_name(&[key])).collect();
        let by_name = |unit: u64, key: u32| hash.named_rank(unit, names[key as usize]);
        for rank in [&by_place as &dyn Fn(u64, u32) -> u64, &by_name] {
            let mut wins = [0_i64; 6];
            for unit in 0..60_000 {
                let unit = hash.integer_unit(unit);
                let first = (0..6).min_by_key(|key| rank(unit, *key)).unwrap();
                wins[usize::try_from(first).unwrap()] += 1;
            }
            let squares: i64 = wins.iter().map(|wins| (wins - 10_000).pow(2)).sum();
            assert!(squares < 40 * 10_000, "{wins:?}");
        }
    }

    /// Groups that come first are rounded up as often as down, too. Of 20,000 units with six groups
    /// each, the first group's point is in each quarter 5,000 times; chi-square with 3 degrees of
    /// freedom exceeds 35 with a probability of 1.2e-7.
    #[test]
    fn points_do_not_follow_ranks() {
        let hash = HashKey::new([1, 2, 3, 4]);
        let mut quarters = [0_i64; 4];
        for unit in (0..20_000).map(|unit| hash.integer_unit(unit)) {
            let first = (0..6).map(|key| hash.rank(unit, key)).min().unwrap();
            quarters[usize::try_from(hash.point(first) >> 62).unwrap()] += 1;
        }
        let squares: i64 = quarters.iter().map(|n| (n - 5_000).pow(2)).sum();
        assert!(squares < 35 * 5_000, "{quarters:?}");
    }

    /// Consecutive codes have counters of their own; codes far from each other share them as if
    /// drawn at random. If 20,000 counters are drawn of a million, 191 pairs are expected to share
    /// one, and more than 280 with a probability of 6e-10. The keys are fixed, so the test always
    /// gives the same result.
    #[test]
    fn close_codes_do_not_share_a_counter() {
        let (bits, codes) = (20, 20_000_u64);
        let pairs = |hash: &HashKey, first: u64, step: u64| {
            let at = |i: u64| first.wrapping_add(i.wrapping_mul(step));
            let mut counts = std::collections::HashMap::<u64, u64>::new();
            let mut spread = hash.spread(bits);
            (0..codes)
                .map(|i| spread.of(at(i)) & ((1 << bits) - 1))
                .for_each(|counter| *counts.entry(counter).or_default() += 1);
            counts.values().map(|count| count * (count - 1) / 2).sum::<u64>()
        };
        for seed in 0..40 {
            let hash = HashKey::new([0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), 2, 3, 4]);
            let first = (seed << 40) | 77;
            for step in [1, 2, 10, 50] {
                assert_eq!(pairs(&hash, first, step), 0, "{step}");
            }
            for step in [1 << 20, 1 << 22, 1 << 40, 86_400_000, 10_000_019] {
                let shared = pairs(&hash, first, step);
                assert!(shared < 280, "{step} {shared}");
            }
        }
    }

    /// A code always has the same number, whatever codes came before.
    #[test]
    fn a_number_depends_on_its_code_alone() {
        let hash = HashKey::new([1, 2, 3, 4]);
        for bits in [10, 20, 63] {
            let mut spread = hash.spread(bits);
            for code in [0, 1, 1 << 40, (1 << 40) + 1, 0, u64::MAX, 1 << 63, 1 << 20, 5] {
                let own = code.wrapping_add(hash.scatter(code >> bits));
                assert_eq!([spread.of(code), hash.spread(bits).of(code)], [own; 2]);
            }
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", HashKey::new([5; 4])), "HashKey(..)");
    }
}
