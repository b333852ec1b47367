//! Makes numbers with a given sum nonnegative, or whole.
//!
//! In: the numbers of the groups below one group, and the number of that group. Out: the nearest
//! numbers with its sum that are nonnegative, or whole, or both. Leaves are never clamped
//! separately, because that would make their sum far too large.

use num_traits::ToPrimitive;

/// The properties that numbers get after they add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeNumbers {
    /// No number is below 0.
    pub nonnegative: bool,
    /// All numbers are whole.
    pub integer: bool,
}

/// Bounds the size of numbers, so that sums of whole numbers fit.
const LARGEST: f64 = 1e24;

/// The number of a group without a parent.
pub(super) fn first(number: f64, shape: WholeNumbers) -> f64 {
    let number = if shape.nonnegative { number.max(0.0) } else { number };
    if shape.integer { number.clamp(-LARGEST, LARGEST).round_ties_even() } else { number }
}

/// The numbers below a group, in this shape. Their sum must be `sum`, up to the rounding of floats.
///
/// # Guarantee
/// The results sum to `sum`: exactly with `integer`, if `sum` is whole and its digits fit a float;
/// otherwise up to the rounding of floats.
pub(super) fn shaped(numbers: Vec<f64>, sum: f64, shape: WholeNumbers) -> Vec<f64> {
    let numbers = if shape.nonnegative { projected(numbers, sum) } else { numbers };
    if shape.integer { rounded(&numbers, sum, shape.nonnegative) } else { numbers }
}

/// The nearest nonnegative numbers with this nonnegative sum: max(x − θ, 0) for the θ that gives
/// the sum.
fn projected(numbers: Vec<f64>, sum: f64) -> Vec<f64> {
    let mut sorted = numbers.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut kept, mut theta) = (0.0, 0.0);
    let mut count = 0.0;
    for number in sorted {
        kept += number;
        count += 1.0;
        let next = (kept - sum) / count;
        // The largest numbers stay above 0, as long as the next one does, too.
        if count < 1.5 || number > next {
            theta = next;
        } else {
            break;
        }
    }
    numbers.into_iter().map(|number| (number - theta).max(0.0)).collect()
}

/// Whole numbers with this sum: each is rounded down, then those with the largest remainders go up.
fn rounded(numbers: &[f64], sum: f64, nonnegative: bool) -> Vec<f64> {
    let whole = |number: f64| number.clamp(-LARGEST, LARGEST).to_i128().unwrap_or(0);
    let count = i128::try_from(numbers.len()).unwrap_or(i128::MAX);
    if count == 0 {
        return Vec::new();
    }
    let mut rounded: Vec<i128> = numbers.iter().map(|number| whole(number.floor())).collect();
    let mut missing = whole(sum.round_ties_even()) - rounded.iter().sum::<i128>();
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    let remainder = |at: &usize| numbers.get(*at).map_or(0.0, |number| number - number.floor());
    order.sort_by(|a, b| remainder(b).total_cmp(&remainder(a)).then(a.cmp(b)));
    if missing < 0 && nonnegative {
        // The rounding of floats made the sum too large. Numbers are lowered, smallest remainders
        // first: at first by 1 each, then as far as possible.
        for most in [1, i128::MAX] {
            for at in order.iter().rev() {
                if let Some(number) = rounded.get_mut(*at) {
                    let less = (-missing).min(most).min(*number);
                    *number -= less;
                    missing += less;
                }
            }
        }
    } else {
        let each = missing.div_euclid(count);
        let mut more = missing.rem_euclid(count);
        for at in &order {
            let one = i128::from(more > 0);
            if let Some(number) = rounded.get_mut(*at) {
                *number += each + one;
            }
            more -= one;
        }
    }
    rounded.into_iter().map(|number| number.to_f64().unwrap_or(0.0)).collect()
}
