//! Sorts short lists, of which there are many.
//!
//! In: a list, mostly of a few entries, in any order. Out: the same entries in order. A person has about ten rows, and the ten
//! comparisons of each with the others cost less than the branches of another sort, half of which no processor foresees.
//!
//! ```text
//! sort(&mut rows, |row| *row, |row| *row); // [9, 4, 7] ─▶ [4, 7, 9]
//! ```

/// The longest list that is sorted by comparing all pairs. Shorter ones are filled up, so that a processor compares four at a time.
const FEW: usize = 16;

/// The largest rank by which a list is sorted.
pub(super) const MOST: u32 = (1 << 26) - 1;

/// Sorts a list by an order. An entry that comes later has no smaller rank, which is at most [`MOST`].
pub(super) fn sort<T: Copy + Default, K: Ord>(
    list: &mut [T],
    rank: impl Fn(&T) -> u32,
    order: impl Fn(&T) -> K,
) {
    if list.len() > FEW {
        return list.sort_unstable_by_key(order);
    }
    // Entries of equal rank stay in the order in which they are.
    let mut ranks = [i32::MAX; FEW];
    for ((own, one), i) in ranks.iter_mut().zip(&*list).zip(0..) {
        *own = (rank(one).min(MOST) << 4 | i).cast_signed();
    }
    let mut sorted = [T::default(); FEW];
    for (one, own) in list.iter().zip(ranks) {
        let before: u32 = ranks.iter().map(|other| u32::from(*other < own)).sum();
        sorted[before as usize] = *one;
    }
    list.copy_from_slice(&sorted[..list.len()]);
    if !list.is_sorted_by_key(&order) {
        list.sort_unstable_by_key(order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the sort of the standard library does, for all lengths around the limit, whether or not ranks tell entries apart.
    #[test]
    fn lists_are_sorted() {
        let mut state = 11_u64;
        for length in 0..=FEW + 3 {
            for values in [1, 2, 7, 1 << 40, u64::MAX] {
                for in_order in [false, true] {
                    let mut next = |i| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state.rotate_left(30) % values, i)
                    };
                    let mut list: Vec<(u64, usize)> = (0..length).map(&mut next).collect();
                    if !in_order {
                        list.reverse();
                    }
                    let mut expected = list.clone();
                    expected.sort_unstable();
                    for rank in [first_bits, least, |_: &(u64, usize)| 0] {
                        let mut own = list.clone();
                        sort(&mut own, rank, |one| *one);
                        assert_eq!(own, expected);
                    }
                }
            }
        }
    }

    fn first_bits((value, _): &(u64, usize)) -> u32 {
        u32::try_from(value >> 38).unwrap()
    }

    fn least((value, _): &(u64, usize)) -> u32 {
        u32::try_from(*value).unwrap_or(u32::MAX)
    }
}
