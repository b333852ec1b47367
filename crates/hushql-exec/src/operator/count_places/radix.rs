//! Sorts numbers of 32 bits by their bytes, the lowest first.
//!
//! In: a list, and room for as many numbers. Out: the list in ascending order. It takes one pass to
//! count the bytes, and one for each byte in which the numbers differ. A sort by comparisons takes
//! a pass for each doubling of the list.

/// Shorter lists are sorted by comparisons: for them, counting bytes takes longer.
const FEW: usize = 512;

/// Longer lists are sorted by comparisons, so that the room stays below 8 MiB.
const MANY: usize = 1 << 21;

/// The bytes of a number.
const BYTES: usize = size_of::<u32>();

/// The room that [`sort`] needs, as a number of numbers.
pub(super) fn room(numbers: &[u32]) -> usize {
    if is_sorted_by_bytes(numbers) { numbers.len() } else { 0 }
}

fn is_sorted_by_bytes(numbers: &[u32]) -> bool {
    (FEW..=MANY).contains(&numbers.len())
}

/// Sorts a list. The room may hold anything; if it is too short, numbers are compared.
pub(super) fn sort(numbers: &mut [u32], room: &mut [u32]) {
    let Some(room) = room.get_mut(..numbers.len()).filter(|_| is_sorted_by_bytes(numbers)) else {
        numbers.sort_unstable();
        return;
    };
    let (mut from, mut to) = (numbers, room);
    let mut counts = [[0_usize; 256]; BYTES];
    for number in &*from {
        for (counts, byte) in counts.iter_mut().zip(number.to_le_bytes()) {
            counts[usize::from(byte)] += 1;
        }
    }
    let mut is_in_room = false;
    for (byte, counts) in counts.iter_mut().enumerate() {
        if counts.contains(&from.len()) {
            continue;
        }
        // Turns the count of each byte value into the position of its first number.
        let mut before = 0;
        for count in &mut *counts {
            before += std::mem::replace(count, before);
        }
        for number in &*from {
            let at = &mut counts[usize::from(number.to_le_bytes()[byte])];
            to[*at] = *number;
            *at += 1;
        }
        std::mem::swap(&mut from, &mut to);
        is_in_room = !is_in_room;
    }
    if is_in_room {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hushql_privacy::sampler::{QueryRng, Uniform};

    /// Covers lengths on both sides of each limit, and numbers that differ in some of their bytes
    /// only.
    #[test]
    fn numbers_come_out_in_order() {
        let mut rng = QueryRng::seeded_for_tests(11);
        let mut room = vec![9; 2_000];
        for length in [0, 1, FEW - 1, FEW, FEW + 1, 3_000, 700] {
            for mask in [0, 0xff, 0xff00, 0x00ff_00ff, 0xff00_0000, 0x000f_ffff, u32::MAX] {
                let number =
                    |_| u32::try_from(rng.below_u64(1 << 32)).unwrap() & mask | 0x0100_0000;
                let mut numbers: Vec<u32> = (0..length).map(number).collect();
                let mut sorted = numbers.clone();
                sorted.sort_unstable();
                sort(&mut numbers, &mut room);
                assert_eq!(numbers, sorted, "{length} {mask:x}");
            }
        }
        assert_eq!((room_of(FEW - 1), room_of(FEW), room_of(MANY + 1)), (0, FEW, 0));
    }

    fn room_of(length: usize) -> usize {
        room(&vec![0; length])
    }
}
