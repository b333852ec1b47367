//! The share of a group's sums that the kept rows stand for.
//!
//! In: the count and sums of a unit's rows in one group, the number of these rows, and the number
//! of kept ones. Out: the share of the sums that the kept rows stand for. Everything is integer
//! arithmetic: shares are rounded by a hash, and means to the nearest integer.
//!
//! ```text
//! Share::Part { kept: 3, count: 7, … }.of(70)   30: three of seven rows
//! Share::Part { kept: 1, count: 4, … }.of(3)    1 for three of four hashes, else 0
//! ```

use datafusion::common::Result;

use crate::grid::failed;

/// The count and sums of a unit's rows in one group, before bounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::operator::bound_contributions) struct UnitTally {
    /// Rows that pass the filter and, if a column is read, hold a value.
    pub(in crate::operator::bound_contributions) count: u64,
    /// Their values on the grid; for variances, their distances X from the lower end.
    pub(in crate::operator::bound_contributions) sum: i128,
    /// For variances, the sum of X².
    pub(in crate::operator::bound_contributions) squares: i128,
}

/// How much of a group counts: `kept` rows' worth of its rows with a value, each row alike.
///
/// This is the average over all uniform samples of `kept` rows, without the sampling error. A
/// fraction is rounded up with a probability equal to it, decided by a hash of the unit and the
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operator::bound_contributions) enum Share {
    /// All rows count.
    Whole,
    /// `kept` of `count` rows' worth, 0 < kept < count; a fraction f is rounded up if 1 − f is at
    /// most point/2⁶⁴.
    Part { kept: u64, count: u64, point: u64 },
}

impl Share {
    /// The share of a group with `rows` rows, if `kept` of them may count and `count` hold a value.
    /// `point` is called only for a part.
    ///
    /// # Errors
    /// The errors of `point`.
    pub(in crate::operator::bound_contributions) fn new(
        kept: u64,
        [rows, count]: [u64; 2],
        point: impl FnOnce() -> Result<u64>,
    ) -> Result<Self> {
        if kept >= rows || kept >= count {
            return Ok(Self::Whole);
        }
        Ok(Self::Part { kept, count, point: point()? })
    }

    /// The share of a sum over the rows that hold a value: sum·kept/count, rounded.
    ///
    /// # Guarantee
    /// If each value is in [lo, hi], the result is in [n·lo, n·hi], with n the smaller of kept and
    /// count: these ends are integers, the exact share lies between them, and it is rounded to one
    /// of its two neighbours. For one point, the share of a larger sum is not smaller, and the
    /// share of sum + count·c is the share of sum, plus kept·c, for all integers c.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice.
    pub(in crate::operator::bound_contributions) fn of(self, sum: i128) -> Result<i128> {
        let Self::Part { kept, count, point } = self else { return Ok(sum) };
        let of_count = i128::from(count);
        let (whole, rest) = (sum.div_euclid(of_count), sum.rem_euclid(of_count));
        // (whole·count + rest)·kept/count = whole·kept + rest·kept/count, and rest·kept < 2⁶⁴·2⁶⁴.
        let rest = u128::try_from(rest).map_err(|_| failed())? * u128::from(kept);
        let count = u128::from(count);
        let (more, fraction) = (rest / count, rest % count);
        let up = fraction > 0 && u128::from(point) * count >= (count - fraction) << 64;
        let more = i128::try_from(more + u128::from(up)).map_err(|_| failed())?;
        let whole = whole.checked_mul(i128::from(kept)).ok_or_else(failed)?;
        whole.checked_add(more).ok_or_else(failed)
    }

    /// The shares of sums that are ≥ 0, one after the other, so that the shares of the first ones
    /// add up to the share of their sum.
    ///
    /// # Guarantee
    /// All results are ≥ 0. If the sums add up to at most count·w, the results add up to at most
    /// n·w, with n the smaller of kept and count. If the sums add up to exactly count·w, the
    /// results add up to exactly n·w.
    ///
    /// # Errors
    /// As [`Share::of`].
    pub(in crate::operator::bound_contributions) fn of_parts(
        self,
        parts: &mut [i128],
    ) -> Result<()> {
        let (mut sum, mut before) = (0_i128, 0);
        for part in parts {
            sum = sum.checked_add(*part).ok_or_else(failed)?;
            let share = self.of(sum)?;
            *part = share - before;
            before = share;
        }
        Ok(())
    }
}

/// The sums of the distances of a group's values from the lower end of their interval, and from the
/// upper end.
///
/// # Guarantee
/// If each value is in the interval, both are ≥ 0, and they add up to count·(hi − lo).
///
/// # Errors
/// An error with a constant text if 128 bits do not suffice.
pub(in crate::operator::bound_contributions) fn distances(
    tally: UnitTally,
    [lo, hi]: [i128; 2],
) -> Result<[i128; 2]> {
    let UnitTally { count, sum, .. } = tally;
    let above = gap(sum, lo, count).ok_or_else(failed)?;
    let below = gap(sum, hi, count).and_then(i128::checked_neg).ok_or_else(failed)?;
    Ok([above, below])
}

/// Σ(w − X)² and Σ2X(w − X) of `count` values with these ΣX and ΣX².
pub(in crate::operator::bound_contributions) fn far_squares(
    sum: i128,
    squares: i128,
    count: u64,
    width: i128,
) -> Option<[i128; 2]> {
    let cross = width.checked_mul(sum)?;
    let all = width.checked_mul(width)?.checked_mul(i128::from(count))?;
    let both = cross.checked_sub(squares)?.checked_mul(2)?;
    Some([all.checked_sub(cross.checked_mul(2)?)?.checked_add(squares)?, both])
}

/// sum − end·count.
fn gap(sum: i128, end: i128, count: u64) -> Option<i128> {
    sum.checked_sub(times(end, count)?)
}

/// end·count; `None` if 128 bits do not suffice. Most factors have at most 64 bits, and then the
/// product needs no check.
fn times(end: i128, count: u64) -> Option<i128> {
    match i64::try_from(end) {
        Ok(end) => Some(i128::from(end) * i128::from(count)),
        Err(_) => end.checked_mul(i128::from(count)),
    }
}

/// sum/count rounded to the nearest integer, halves to the even neighbour; count ≥ 1.
pub(in crate::operator::bound_contributions) fn mean_half_even(sum: i128, count: u64) -> i128 {
    let count = i128::from(count);
    let (down, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
    match (rest * 2).cmp(&count) {
        std::cmp::Ordering::Less => down,
        std::cmp::Ordering::Equal => down + (down & 1),
        std::cmp::Ordering::Greater => down + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some points, from the least to the largest.
    const POINTS: [u64; 5] = [0, 1 << 62, 1 << 63, 3 << 62, u64::MAX];

    fn part(kept: u64, count: u64, point: u64) -> Share {
        Share::new(kept, [count, count], || Ok(point)).unwrap()
    }

    #[test]
    fn shares_are_rounded_to_a_neighbour_and_never_beyond_so_many_rows() {
        for count in 1..9_u64 {
            for kept in 1..=count {
                for (sum, point) in (-60..=60_i128).flat_map(|sum| POINTS.map(|point| (sum, point)))
                {
                    let (k, n) = (i128::from(kept), i128::from(count));
                    let share = part(kept, count, point).of(sum).unwrap();
                    let (down, rest) = ((sum * k).div_euclid(n), (sum * k).rem_euclid(n));
                    assert!([down, down + i128::from(rest > 0)].contains(&share));
                    // If each value is moved by c, the share moves by c for each row that counts.
                    for c in [-7, 3] {
                        let moved = part(kept, count, point).of(sum + n * c).unwrap();
                        assert_eq!(moved, share + k * c);
                    }
                    let ends = [sum.div_euclid(n) * k, (sum + n - 1).div_euclid(n) * k];
                    assert!((ends[0]..=ends[1]).contains(&share));
                }
            }
        }
        assert_eq!(Share::new(3, [9, 3], || Err(failed())).unwrap(), Share::Whole);
        assert_eq!(Share::new(9, [9, 0], || Err(failed())).unwrap(), Share::Whole);
        // The product exceeds 128 bits.
        let wide = part(u64::MAX - 1, u64::MAX, 0).of(i128::MAX).unwrap();
        assert!(wide < i128::MAX && wide > i128::MAX - (1 << 64));
    }

    /// Averaged over evenly spread points, shares are exact.
    #[test]
    fn shares_are_right_on_average() {
        for (sum, kept, count) in [(3, 1, 4), (4, 1, 5), (-4, 1, 5), (7, 2, 3), (1, 1, 1000)] {
            let points = 100_000;
            let step = u64::MAX / points;
            let all = (0..points).map(|i| part(kept, count, step * i + step / 2).of(sum).unwrap());
            let (all, exact) = (all.sum::<i128>(), sum * i128::from(kept * points));
            assert!(
                (all * i128::from(count) - exact).abs() <= i128::from(2 * count),
                "{sum} {kept} {count}"
            );
        }
    }

    /// If parts add up to count·w, their shares add up to kept·w.
    #[test]
    fn shares_of_parts_add_up() {
        for (count, point) in (2..6_u64).flat_map(|count| POINTS.map(|point| (count, point))) {
            for kept in 1..count {
                for (a, b) in (0..=count * 3).flat_map(|a| (0..=count * 3 - a).map(move |b| (a, b)))
                {
                    let mut parts = [a, b, count * 3 - a - b].map(i128::from);
                    part(kept, count, point).of_parts(&mut parts).unwrap();
                    assert!(parts.iter().all(|part| *part >= 0));
                    assert_eq!(parts.iter().sum::<i128>(), i128::from(kept) * 3);
                }
            }
        }
    }

    #[test]
    fn means_are_rounded_half_even() {
        let halves = [(-3, 2, -2), (-1, 2, 0), (1, 2, 0), (3, 2, 2), (5, 3, 2), (-5, 3, -2)];
        for (sum, count, mean) in halves {
            assert_eq!(mean_half_even(sum, count), mean);
        }
    }

    #[test]
    fn products_are_exact_or_none() {
        let ends = [0, 1, -1, i128::from(i64::MAX), i128::from(i64::MIN), 1 << 64, -(1 << 100)];
        for end in ends.into_iter().chain([i128::MAX, i128::MIN]) {
            for count in [0, 1, 2, 1 << 27, 1 << 28, u64::MAX] {
                assert_eq!(times(end, count), end.checked_mul(i128::from(count)));
            }
        }
    }
}
