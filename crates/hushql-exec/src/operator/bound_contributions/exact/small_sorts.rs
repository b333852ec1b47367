//! Sorts the rows of a unit, which has only a few in most cases.
//!
//! In: rows, in any order, and a rank for each key. Out: the same rows in the order of the ranks,
//! with the rows of a key side by side. A person has about ten rows. Comparing each row with all
//! others costs less than the branches of another sort, half of which a processor mispredicts. Only
//! the first bits of ranks are compared if they tell all keys apart. More rows are counted by key,
//! and then move to their places. A unit may have nearly all rows of the table; such rows are
//! sorted in place.
//!
//! ```text
//! sort(&mut rows, |key| rank_of(key), …, &mut counts); // (Rome, 0), (Bonn, 1), (Rome, 2) ─▶ (Bonn, 1), (Rome, 0), (Rome, 2)
//! ```

use std::cmp::Ordering;

use super::rows_by_unit::key_of;

/// The most rows that are sorted by comparing all pairs. Fewer rows are padded, so that a processor
/// compares four at a time.
const FEW: usize = 16;

/// The most rows that are sorted by the first bits of their ranks, with the number of the row in
/// the last bits.
const SOME: usize = 1 << 16;

/// The most rows that are sorted by counting those of each key, in as much memory again.
const MANY: usize = if cfg!(test) { 300 } else { 1 << 17 };

/// The most keys with a counter each, which fit the processor's cache.
const COUNTED: usize = 1 << 16;

/// The number of bits of a rank that are not compared at first, if rows are few.
const LAST: u32 = 38;

/// The padding of the ranks: each value is larger than the first bits of any rank, and differs from
/// the next in its first bits.
const FILLED: [i32; FEW] = {
    let (mut filled, mut i) = ([i32::MAX; FEW], 0);
    while i + 1 < FEW {
        filled[i + 1] = filled[i] - 16;
        i += 1;
    }
    filled
};

/// Counters for the rows of each key, and the buffers of a sort that uses them.
#[derive(Default)]
pub(in crate::operator::bound_contributions) struct KeyCounts {
    /// One for each key, all zero between two sorts; empty if keys are many.
    counts: Vec<u32>,
    /// The keys that occur, with their ranks.
    ranked: Vec<(u64, u32)>,
    sorted: Vec<u64>,
}

impl KeyCounts {
    /// For keys below this number.
    pub(in crate::operator::bound_contributions) fn new(keys: usize) -> Self {
        let counts = if keys <= COUNTED { vec![0; keys] } else { Vec::new() };
        Self { counts, ..Self::default() }
    }

    /// Sorts rows as [`sort`]. Each key gets its rank once, and each row moves once.
    fn sort(
        &mut self,
        rows: &mut [u64],
        rank: impl Fn(u32) -> u64,
        otherwise: impl Fn(u32, u32) -> Ordering,
    ) {
        let Self { counts, ranked, sorted } = self;
        ranked.clear();
        for row in &*rows {
            let key = key_of(*row);
            let count = &mut counts[key as usize];
            if *count == 0 {
                ranked.push((rank(key), key));
            }
            *count += 1;
        }
        // Keys that nothing tells apart stay apart.
        ranked.sort_unstable_by(|(rank, key), (other_rank, other)| {
            let by_key = || otherwise(*key, *other).then(key.cmp(other));
            rank.cmp(other_rank).then_with(by_key)
        });
        let mut end = 0;
        for (_, key) in &*ranked {
            let count = &mut counts[*key as usize];
            (*count, end) = (end, end + *count);
        }
        sorted.resize(rows.len(), 0);
        for row in &*rows {
            let at = &mut counts[key_of(*row) as usize];
            sorted[*at as usize] = *row;
            *at += 1;
        }
        rows.copy_from_slice(sorted);
        ranked.iter().for_each(|(_, key)| counts[*key as usize] = 0);
    }
}

/// Sorts rows by the ranks of their keys. Keys of equal rank are ordered by `otherwise`, a total
/// order that should tell any two apart.
///
/// # Guarantee
/// The rows of a key are side by side, even where neither tells keys apart.
pub(in crate::operator::bound_contributions) fn sort(
    rows: &mut [u64],
    rank: impl Fn(u32) -> u64,
    otherwise: impl Fn(u32, u32) -> Ordering,
    counts: &mut KeyCounts,
) {
    let is_sorted = match rows.len() {
        0..=FEW => sort_few(rows, &rank),
        ..=MANY if !counts.counts.is_empty() => return counts.sort(rows, rank, otherwise),
        length => length <= SOME && sort_some(rows, &rank),
    };
    if !is_sorted {
        sort_groups(rows, rank, otherwise);
    }
}

/// Sorts by the first 26 bits of ranks. False if they do not tell all keys apart.
fn sort_few(rows: &mut [u64], rank: impl Fn(u32) -> u64) -> bool {
    // Rows whose ranks begin alike stay in their order.
    let mut ranks = FILLED;
    for ((own, row), i) in ranks.iter_mut().zip(&*rows).zip(0..) {
        *own = first_bits(rank(key_of(*row))) << 4 | i;
    }
    let (mut sorted, mut in_order) = ([0; FEW], FILLED);
    for (row, own) in rows.iter().zip(ranks) {
        let before: u32 = ranks.iter().map(|other| u32::from(*other < own)).sum();
        sorted[before as usize] = *row;
        in_order[before as usize] = own;
    }
    rows.copy_from_slice(&sorted[..rows.len()]);
    let begin_alike = |[a, b]: &[i32; 2]| a >> 4 == b >> 4;
    let any_alike = in_order.array_windows().fold(false, |any, two| any | begin_alike(two));
    !any_alike || tell_apart(rows, in_order.array_windows().map(begin_alike))
}

/// Sorts by the first 48 bits of ranks. False if they do not tell all keys apart.
#[expect(clippy::cast_possible_truncation, reason = "a number of at most 16 bits")]
fn sort_some(rows: &mut [u64], rank: impl Fn(u32) -> u64) -> bool {
    let number = SOME as u64 - 1;
    let before = rows.to_vec();
    let mut ranks: Vec<u64> =
        rows.iter().zip(0..).map(|(row, i)| rank(key_of(*row)) & !number | i).collect();
    ranks.sort_unstable();
    for (row, own) in rows.iter_mut().zip(&ranks) {
        *row = before[(own & number) as usize];
    }
    tell_apart(rows, ranks.array_windows().map(|[a, b]| (a ^ b) & !number == 0))
}

/// Whether neighbouring rows whose ranks begin alike have the same key.
fn tell_apart(rows: &[u64], begin_alike: impl Iterator<Item = bool>) -> bool {
    let mut both = rows.array_windows().zip(begin_alike);
    both.all(|([a, b], alike)| !alike || key_of(*a) == key_of(*b))
}

/// Sorts by whole ranks, in place: a unit may have nearly all rows. Each key gets its rank once.
fn sort_groups(
    rows: &mut [u64],
    rank: impl Fn(u32) -> u64,
    otherwise: impl Fn(u32, u32) -> Ordering,
) {
    rows.sort_unstable_by_key(|row| key_of(*row));
    let keys = rows.chunk_by(|row, next| key_of(*row) == key_of(*next)).map(|own| key_of(own[0]));
    // Each key with its rank and its number.
    let mut groups: Vec<(u64, u32, u32)> =
        keys.zip(0..).map(|(key, number)| (rank(key), key, number)).collect();
    groups.sort_unstable_by(|(rank, key, number), (other_rank, other, other_number)| {
        let by_key = || otherwise(*key, *other).then(number.cmp(other_number));
        rank.cmp(other_rank).then_with(by_key)
    });
    let mut positions = vec![0; groups.len()];
    for ((_, _, number), position) in groups.iter().zip(0..) {
        positions[*number as usize] = position;
    }
    // For the second sort, the position of a key replaces it.
    rename(rows, positions);
    rows.sort_unstable_by_key(|row| key_of(*row));
    rename(rows, groups.into_iter().map(|(_, key, _)| key));
}

/// Replaces the key of each group of rows.
fn rename(rows: &mut [u64], keys: impl IntoIterator<Item = u32>) {
    for (own, key) in rows.chunk_by_mut(|row, next| key_of(*row) == key_of(*next)).zip(keys) {
        for row in own {
            *row = *row & u64::from(u32::MAX) | u64::from(key) << 32;
        }
    }
}

/// The first bits of a rank, which nearly always tell ranks apart.
fn first_bits(rank: u64) -> i32 {
    u32::try_from(rank >> LAST).unwrap_or(u32::MAX).cast_signed()
}

/// Sorts rows by their keys.
pub(in crate::operator::bound_contributions) fn sort_by_key(rows: &mut [u64]) {
    if rows.len() > FEW || !sort_few(rows, first_keys) {
        rows.sort_unstable_by_key(|row| key_of(*row));
    }
}

/// Ranks the first keys in their own order; all other keys have the largest rank.
fn first_keys(key: u32) -> u64 {
    u64::from(key.min((1 << (u64::BITS - LAST)) - 1)) << LAST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result is that of the standard library's sort, for all lengths around the limit, whether
    /// or not ranks tell keys apart, and whether or not the first bits tell ranks apart.
    #[test]
    fn rows_are_sorted() {
        let mut state = 11_u64;
        let ranks: [fn(u32) -> u64; 6] = [
            first_keys,
            |key| u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            |key| u64::from(key % 3) << LAST,
            |key| 5 << LAST | u64::from(key % 5),
            |key| u64::MAX - u64::from(key),
            |_| u64::MAX,
        ];
        for length in (0..=FEW + 3).chain([100, MANY, MANY + 1, SOME + 1]) {
            for keys in [1, 2, 7, 1_000, 1 << 31] {
                let mut counts = KeyCounts::new(usize::try_from(keys).unwrap());
                assert_eq!(counts.counts.is_empty(), keys > 1_000);
                for in_order in [false, true] {
                    let mut next = |i| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        ((state >> 33) % keys) << 32 | i
                    };
                    let mut rows: Vec<u64> = (0..length as u64).map(&mut next).collect();
                    if in_order {
                        rows.sort_unstable();
                    }
                    let mut by_key = rows.clone();
                    sort_by_key(&mut by_key);
                    assert!(by_key.is_sorted_by_key(|row| key_of(*row)));
                    assert_eq!(in_order_of(&by_key), in_order_of(&rows));
                    for rank in ranks {
                        for turned in [false, true] {
                            let otherwise = |a: u32, b: u32| match turned {
                                false => a.cmp(&b),
                                true => b.cmp(&a),
                            };
                            let order = |a: &u64, b: &u64| {
                                let (a, b) = (key_of(*a), key_of(*b));
                                rank(a).cmp(&rank(b)).then(otherwise(a, b))
                            };
                            let mut expected = rows.clone();
                            expected.sort_by(order);
                            let mut own = rows.clone();
                            sort(&mut own, rank, otherwise, &mut counts);
                            assert!(counts.counts.iter().all(|count| *count == 0));
                            // Rows of one key may come in any order.
                            let keys = |rows: &[u64]| -> Vec<u32> {
                                rows.iter().map(|row| key_of(*row)).collect()
                            };
                            assert_eq!(keys(&own), keys(&expected));
                            assert_eq!(in_order_of(&own), in_order_of(&rows));
                        }
                    }
                }
            }
        }
    }

    fn in_order_of(rows: &[u64]) -> Vec<u64> {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows
    }

    /// A key's rows are side by side, and in the order of the keys, even if nothing tells keys
    /// apart.
    #[test]
    fn rows_of_a_key_are_side_by_side() {
        for length in [2, 5, FEW as u64, 40] {
            let rows: Vec<u64> = (0..length).map(|i| (i * 3 % 4) << 32 | i).collect();
            for counts in [KeyCounts::default(), KeyCounts::new(4)] {
                let (mut rows, mut counts) = (rows.clone(), counts);
                sort(&mut rows, |_| 7, |_, _| Ordering::Equal, &mut counts);
                assert!(rows.is_sorted_by_key(|row| key_of(*row)));
            }
        }
    }
}
