//! Computes COUNT, SUM, AVG and variances of one column from their shared vector.
//!
//! In: the exact integers of a private aggregate, and which measures share a vector. Out: the drawn
//! vectors, and each measure, a function of the drawn integers and public numbers alone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{ToPrimitive, Zero};

use super::draw_plan::{DrawError, DrawPlan, Specification};
use crate::grid::failed;
use crate::release::mechanism::{Together, Vector, VectorMember};
use crate::sampler::QueryRng;
use hushql_exec::gather::Gathered;

/// The drawn noisy vectors, each as (A, B) or (A, B, C) by key; without a third entry, C is 0.
pub(super) type DrawnVectors = BTreeMap<Vector, Vec<NoisyVector>>;

/// The vector of one key.
pub(super) type NoisyVector = [i128; 3];

/// The vector that a measure reads. The first reader draws it.
///
/// # Guarantee
/// Each vector is drawn once, with noise that is calibrated to the sum of its readers' charges.
pub(super) fn vector<'a>(
    together: &Together,
    draw_plan: &DrawPlan,
    specification: &Specification,
    gathered: &[Gathered],
    known: &'a mut DrawnVectors,
    rng: &mut QueryRng,
) -> Result<&'a [NoisyVector], DrawError> {
    let entry = match known.entry(together.vector) {
        Entry::Occupied(known) => return Ok(known.into_mut()),
        Entry::Vacant(entry) => entry,
    };
    let mut noisy = Vec::new();
    for [a, b, c] in exact(together, specification, gathered)? {
        let [a, b] = [draw_plan.perturb(a, rng)?, draw_plan.perturb(b, rng)?];
        let c = if together.of_moments() { draw_plan.perturb(c, rng)? } else { c };
        noisy.push([a, b, c]);
    }
    Ok(entry.insert(noisy))
}

/// The exact vector of every key.
fn exact(
    together: &Together,
    specification: &Specification,
    gathered: &[Gathered],
) -> Result<Vec<NoisyVector>, DrawError> {
    let sums = |measure: usize, place: usize| {
        let plan = specification.draw_plans.get(measure)?;
        match gathered.get(plan.bounded_input)? {
            Gathered::Sums(sums) | Gathered::Groups { sums, .. } => sums.get(plan.first + place),
            Gathered::Places(_) | Gathered::Keys { .. } => None,
        }
    };
    let columns = match together.vector {
        Vector::Mean(mean) => sums(mean, 0).zip(sums(mean, 1)),
        Vector::Sums { count, sum } => sums(count, 0).zip(sums(sum, 0)),
        Vector::Moments(moments) => sums(moments, 0).zip(sums(moments, 1)),
    };
    let third = match together.vector {
        Vector::Moments(moments) => Some(sums(moments, 2).ok_or_else(failed)?),
        Vector::Mean(_) | Vector::Sums { .. } => None,
    };
    let (first, second) = columns.ok_or_else(failed)?;
    let parts = |(key, (first, second)): (usize, (&i128, &i128))| match together.vector {
        Vector::Mean(_) => Some([*first, *second, 0]),
        Vector::Sums { .. } => {
            pair_of(together, *first, *second).map(|(above, below)| [above, below, 0])
        }
        Vector::Moments(_) => Some([*first, *second, *third?.get(key)?]),
    };
    let all = first.iter().zip(second).enumerate().map(parts);
    Ok(all.collect::<Option<_>>().ok_or_else(failed)?)
}

/// A = SUM − lo·COUNT and B = hi·COUNT − SUM.
///
/// # Guarantee
/// Exact. A row with x from lo to hi adds x − lo to A and hi − x to B. `None` if a number does not
/// fit.
fn pair_of(together: &Together, count: i128, sum: i128) -> Option<(i128, i128)> {
    let hi = together.lo.checked_add(together.width)?;
    let above = sum.checked_sub(together.lo.checked_mul(count)?)?;
    let below = hi.checked_mul(count)?.checked_sub(sum)?;
    Some((above, below))
}

/// COUNT = (A + B)/w, or SUM = lo·COUNT + A in steps of the grid, rounded to a whole number; a half
/// to the even one, which favours neither side. From the vector of a variance, COUNT = S/w² and
/// SUM = lo·COUNT + (B + 2C)/2w.
pub(super) fn whole(together: &Together, [a, b, c]: NoisyVector) -> i128 {
    let [a, b, c] = [a, b, c].map(BigInt::from);
    let width = BigInt::from(together.width);
    let of = |numerator: BigInt, denominator: &BigInt| {
        let two = || BigInt::from(2);
        let (above, rest) = (two() * numerator + denominator).div_mod_floor(&(two() * denominator));
        let is_half = rest.is_zero();
        if is_half && above.is_odd() { above - 1 } else { above }
    };
    let value = match (together.part, together.of_moments()) {
        (VectorMember::Count, false) => of(a + b, &width),
        (VectorMember::Sum, false) => &a + of((&a + b) * together.lo, &width),
        (VectorMember::Count, true) => of(a + b + c, &(&width * &width)),
        (VectorMember::Sum, true) => {
            let all = &a + &b + &c;
            let twice: BigInt = BigInt::from(2) * all * together.lo;
            of(twice + (b + BigInt::from(2) * c) * &width, &(BigInt::from(2) * &width * &width))
        }
        (VectorMember::Mean | VectorMember::Spread, _) => return 0,
    };
    let end = if value.sign() == num_bigint::Sign::Minus { i128::MIN } else { i128::MAX };
    value.to_i128().unwrap_or(end)
}

/// The parts above and below the mean: A and B, or B + 2C and 2A + B from the vector of a variance.
/// Their sum is the number of rows times w, or times 2w².
pub(super) fn around_mean(together: &Together, [a, b, c]: NoisyVector) -> Option<(i128, i128)> {
    match together.of_moments() {
        false => Some((a, b)),
        true => {
            let twice = |part: i128| part.checked_mul(2);
            Some((twice(c)?.checked_add(b)?, twice(a)?.checked_add(b)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::Rational;

    fn together(part: VectorMember, lo: i128, width: i128) -> Together {
        let vector = Vector::Sums { count: 0, sum: 1 };
        Together {
            vector,
            part,
            lo,
            width,
            unit: Rational::default(),
            others: Vec::new(),
            in_rho: false,
        }
    }

    /// A row adds x − lo and hi − x. Neither is below 0, and together they are w.
    #[test]
    fn one_row_adds_the_width_to_both_sums() {
        for (lo, hi) in [(0, 9), (-4, 3), (7, 8), (-9, -2)] {
            let of = together(VectorMember::Count, lo, hi - lo);
            for x in lo..=hi {
                let (above, below) = pair_of(&of, 1, x).unwrap();
                assert!(above >= 0 && below >= 0 && above + below == hi - lo);
                let (more, less) = pair_of(&of, 4, 2 * x).unwrap();
                let (rest, left) = pair_of(&of, 3, x).unwrap();
                assert_eq!((more - rest, less - left), (above, below));
            }
        }
        assert_eq!(pair_of(&together(VectorMember::Sum, i128::MAX, 1), 2, 0), None);
    }

    /// A vector without noise gives the exact numbers, also at the largest numbers that fit.
    #[test]
    fn numbers_of_a_vector_without_noise_are_exact() {
        for (lo, hi) in [(0, 9), (-4, 3), (7, 8), (-9, -2), (-(1 << 90), 1 << 90)] {
            for (count, sum) in [(0, 0), (5, 5 * lo), (5, 5 * hi), (3, lo + hi + lo)] {
                let (above, below) =
                    pair_of(&together(VectorMember::Count, lo, hi - lo), count, sum).unwrap();
                let pair = [above, below, 0];
                assert_eq!(whole(&together(VectorMember::Count, lo, hi - lo), pair), count);
                assert_eq!(whole(&together(VectorMember::Sum, lo, hi - lo), pair), sum);
            }
        }
        // Counts are rounded to the nearest whole number.
        let ten = |part| together(part, 0, 10);
        let counts =
            [14, 15, 16, 25, 5, -5, -6, -15].map(|a| whole(&ten(VectorMember::Count), [a, 0, 0]));
        assert_eq!(counts, [1, 2, 2, 2, 0, 0, -1, -2]);
        assert_eq!(whole(&ten(VectorMember::Sum), [-7, 3, 0]), -7);
        assert_eq!(whole(&together(VectorMember::Sum, 5, 10), [3, 4, 0]), 3 + 4);
        assert_eq!(
            whole(&together(VectorMember::Sum, i128::MAX, 1), [i128::MAX, i128::MAX, 0]),
            i128::MAX
        );
        assert_eq!(
            whole(&together(VectorMember::Sum, i128::MAX, 1), [i128::MIN, i128::MIN, 0]),
            i128::MIN
        );
    }

    /// In the vector of a variance, each row adds (w − X)², 2X(w − X) and X². Without noise, it
    /// gives exact counts, sums and means, too.
    #[test]
    fn numbers_of_the_vector_of_a_variance_are_exact() {
        for (lo, hi) in [(0_i128, 9), (-4, 3), (7, 8), (-9, -2), (0, 1)] {
            let width = hi - lo;
            let of = |part| Together { vector: Vector::Moments(0), ..together(part, lo, width) };
            for rows in [vec![], vec![lo], vec![hi], vec![lo, hi, hi], (lo..=hi).collect()] {
                let parts = rows.iter().fold([0; 3], |[a, b, c], x| {
                    let (near, far) = (x - lo, hi - x);
                    // A row adds w² in all, and no part is below 0.
                    assert_eq!(far * far + 2 * near * far + near * near, width * width);
                    [a + far * far, b + 2 * near * far, c + near * near]
                });
                let count = i128::try_from(rows.len()).unwrap();
                let sum: i128 = rows.iter().sum();
                assert_eq!(whole(&of(VectorMember::Count), parts), count);
                assert_eq!(whole(&of(VectorMember::Sum), parts), sum);
                let (above, below) = around_mean(&of(VectorMember::Mean), parts).unwrap();
                assert_eq!(above, 2 * width * (sum - lo * count));
                assert_eq!(above + below, 2 * width * width * count);
            }
        }
    }
}
