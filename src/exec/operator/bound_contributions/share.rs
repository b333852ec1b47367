//! What few kept rows of a group have of its sums.
//!
//! In: the count and sums of a unit's rows in one group, how many rows these are, and how many of them are kept. Out: what the kept
//! rows may have of the sums. Everything is integer arithmetic: shares are rounded toward zero, and means to the nearest integer.
//!
//! ```text
//! clamped(70, [0, 20], 3)  // 60: three rows of at most 20
//! scale_floor(70, 3, 7)    // 30: three of seven rows
//! ```

use datafusion::common::Result;

use crate::grid::failed;

/// The count and sums of a unit's rows in one group, before bounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Rows that pass the filter and, if a column is read, hold a value.
    pub(super) count: u64,
    /// Their values on the grid; for variances, their distances X from the lower end.
    pub(super) sum: i128,
    /// For variances, the sum of X².
    pub(super) squares: i128,
}

/// The sum of a group's rows, as far as so many kept rows can have it.
///
/// # Guarantee
/// The result is in [kept·min(lo, 0), kept·max(hi, 0)].
///
/// # Errors
/// A constant text if 128 bits do not suffice.
pub(super) fn clamped(sum: i128, [lo, hi]: [i128; 2], kept: u64) -> Result<i128> {
    let least = times(lo.min(0), kept).ok_or_else(failed)?;
    let most = times(hi.max(0), kept).ok_or_else(failed)?;
    Ok(sum.clamp(least, most))
}

/// How far the values of a group's rows are above the lower end of their interval, and below the upper one: what so many kept rows
/// have of both sums.
///
/// # Guarantee
/// Both are ≥ 0, and together at most kept·(hi − lo), if each value is in the interval.
///
/// # Errors
/// A constant text if 128 bits do not suffice.
pub(super) fn distances(
    tally: Tally,
    [lo, hi]: [i128; 2],
    kept: u64,
    rows: u64,
) -> Result<[i128; 2]> {
    let Tally { count, sum, .. } = tally;
    let above = gap(sum, lo, count).ok_or_else(failed)?;
    let below = gap(sum, hi, count).and_then(i128::checked_neg).ok_or_else(failed)?;
    Ok([scale_floor(above, kept, rows)?, scale_floor(below, kept, rows)?])
}

/// The share of a group's sum of products that few kept rows have: ⌊sum·kept/rows⌋.
///
/// # Guarantee
/// The products of each of the `rows` pairs are ≥ 0 and add up to at most the weight of the pairs (exactly that, or 0
/// if the row does not pass), so those of `rows` pairs add up to at most `rows` weights, and their shares to `kept` weights.
///
/// # Errors
/// A constant text for a negative sum, which no products have.
pub(super) fn shared(sum: i128, kept: u64, rows: u64) -> Result<i128> {
    scale_floor(sum, kept, rows)
}

/// Σ(w − X)² and Σ2X(w − X) of `count` values with these ΣX and ΣX².
pub(super) fn far_squares(sum: i128, squares: i128, count: u64, width: i128) -> Option<[i128; 2]> {
    let cross = width.checked_mul(sum)?;
    let all = width.checked_mul(width)?.checked_mul(i128::from(count))?;
    let both = cross.checked_sub(squares)?.checked_mul(2)?;
    Some([all.checked_sub(cross.checked_mul(2)?)?.checked_add(squares)?, both])
}

/// sum − end·count.
fn gap(sum: i128, end: i128, count: u64) -> Option<i128> {
    sum.checked_sub(times(end, count)?)
}

/// end·count; `None` if 128 bits do not suffice. Most factors have at most 64, whose product needs no check.
fn times(end: i128, count: u64) -> Option<i128> {
    match i64::try_from(end) {
        Ok(end) => Some(i128::from(end) * i128::from(count)),
        Err(_) => end.checked_mul(i128::from(count)),
    }
}

/// ⌊value·kept/rows⌋ for value ≥ 0 and kept ≤ rows, exactly, without a wider type.
pub(super) fn scale_floor(value: i128, kept: u64, rows: u64) -> Result<i128> {
    if kept >= rows {
        return Ok(value);
    }
    let (kept, rows) = (u128::from(kept), u128::from(rows));
    let value = u128::try_from(value).map_err(|_| failed())?;
    // (q·rows + r)·kept/rows = q·kept + r·kept/rows, and r·kept < 2⁶⁴·2⁶⁴.
    let scaled = (value / rows) * kept + (value % rows) * kept / rows;
    i128::try_from(scaled).map_err(|_| failed())
}

/// sum/count rounded to the nearest integer, halves to the even neighbour; count ≥ 1.
pub(super) fn mean_half_even(sum: i128, count: u64) -> i128 {
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

    #[test]
    fn means_are_scaled_toward_zero_and_rounded_half_even() {
        for value in 0..200 {
            for rows in 1..12 {
                for kept in 1..=rows {
                    let exact = value * i128::from(kept) / i128::from(rows);
                    assert_eq!(scale_floor(value, kept, rows).unwrap(), exact);
                }
            }
        }
        // The product exceeds 128 bits.
        let wide = scale_floor(i128::MAX, u64::MAX - 1, u64::MAX).unwrap();
        assert!(wide < i128::MAX && wide > i128::MAX - (1 << 64));
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
