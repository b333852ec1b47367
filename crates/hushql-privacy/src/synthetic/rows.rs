//! From tables of expected counts to rows.
//!
//! In: a model's tables, each after its parent, and the number of rows to make. Out: the codes of
//! the rows. Floats and inexact draws are fine, because everything comes from released values.
//!
//! It goes column by column. Rows that agree in the earlier columns of the same table form a group
//! of k. In the group, each code gets ⌊k·p⌋ rows, and the remaining rows go by the fractional
//! parts. So the rows have the model's marginals up to rounding.
//!
//! ```text
//! k = 5, p = (0.5, 0.3, 0.2)  →  2, 1, 1, and one of the first two at even odds
//! ```

use num_traits::ToPrimitive;

use super::columns::{ColumnSet, index};
use super::infer::{FactorTable, float};
use crate::sampler::{QueryRng, Uniform};

/// The codes of `count` rows, for each column.
pub(super) fn rows(
    tables: &[FactorTable],
    sizes: &[usize],
    count: usize,
    rng: &mut QueryRng,
) -> Vec<Vec<u16>> {
    let mut columns: Vec<Vec<u16>> = vec![Vec::new(); sizes.len()];
    let mut done: Vec<usize> = Vec::new();
    for table in tables {
        for column in table.columns.as_slice() {
            if done.contains(column) {
                continue;
            }
            let given = table.columns.as_slice().iter().filter(|other| done.contains(other));
            let given: Vec<usize> = given.copied().collect();
            let codes = next(table, &given, *column, &columns, sizes, count, rng);
            if let Some(place) = columns.get_mut(*column) {
                *place = codes;
            }
            done.push(*column);
        }
    }
    columns
}

/// The codes of one column, given other columns of the same table.
fn next(
    table: &FactorTable,
    given: &[usize],
    column: usize,
    columns: &[Vec<u16>],
    sizes: &[usize],
    count: usize,
    rng: &mut QueryRng,
) -> Vec<u16> {
    // Sums for each combination of the given columns, the new one last.
    let order: Vec<usize> = given.iter().copied().chain([column]).collect();
    let size = sizes.get(column).copied().unwrap_or(1).max(1);
    let mut sums = vec![0.0; ColumnSet::new(order.iter().copied()).cells(sizes)];
    let places = index(table.columns.as_slice(), &order, sizes);
    for (value, place) in table.values.iter().zip(places) {
        if let Some(sum) = usize::try_from(place).ok().and_then(|place| sums.get_mut(place)) {
            *sum += value.max(0.0);
        }
    }
    let mut all = vec![0.0; size];
    for row in sums.chunks(size) {
        all.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    // The rows of each group, in order.
    let mut groups = vec![0_usize; count];
    for other in given {
        let (size, codes) = (sizes.get(*other).copied().unwrap_or(1), columns.get(*other));
        for (group, code) in groups.iter_mut().zip(codes.into_iter().flatten()) {
            *group = *group * size + usize::from(*code);
        }
    }
    let order = by_group(&groups, sums.len() / size);
    let mut codes = vec![0_u16; count];
    for rows in order.chunk_by(|a, b| groups.get(*a) == groups.get(*b)) {
        let group = rows.first().and_then(|row| groups.get(*row)).copied().unwrap_or(0);
        let weights = sums.get(group * size..(group + 1) * size).unwrap_or(&[]);
        let weights = if weights.iter().sum::<f64>() > 0.0 { weights } else { &all };
        let mut drawn = shares(weights, rows.len(), rng);
        shuffle(&mut drawn, rng);
        for (row, code) in rows.iter().zip(drawn) {
            if let Some(place) = codes.get_mut(*row) {
                *place = code;
            }
        }
    }
    codes
}

/// The numbers of the rows, ordered by group, in time linear in both.
fn by_group(groups: &[usize], count: usize) -> Vec<usize> {
    let mut starts = vec![0_usize; count + 1];
    for group in groups {
        if let Some(start) = starts.get_mut(group + 1) {
            *start += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut order = vec![0; groups.len()];
    for (row, group) in groups.iter().enumerate() {
        if let Some(start) = starts.get_mut(*group) {
            if let Some(place) = order.get_mut(*start) {
                *place = row;
            }
            *start += 1;
        }
    }
    order
}

/// `count` codes, each as often as its weight requires: rounded down, then the rest by the
/// fractional parts, each code at most once.
fn shares(weights: &[f64], count: usize, rng: &mut QueryRng) -> Vec<u16> {
    let sum: f64 = weights.iter().sum();
    let part = |weight: &f64| if sum > 0.0 { weight / sum } else { 1.0 / float(weights.len()) };
    let mut codes = Vec::with_capacity(count);
    // Marks at regular distances along the line of the fractional parts, from a random start: each
    // code is taken with its own probability.
    let mut mark = float(rng.below_u64(1 << 53)) / float(1_u64 << 53);
    let mut end = 0.0;
    for (code, weight) in weights.iter().enumerate() {
        let expected = part(weight) * float(count);
        let whole = expected.floor();
        end += expected - whole;
        let more = if end > mark { 1 } else { 0 };
        mark += float(more);
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        let times = whole.to_usize().unwrap_or(0).saturating_add(more);
        codes.extend(std::iter::repeat_n(code, times.min(count - codes.len())));
    }
    // The codes that the rounding of floats left out.
    let heaviest = weights.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    let heaviest = heaviest.and_then(|(code, _)| u16::try_from(code).ok()).unwrap_or(0);
    codes.resize(count, heaviest);
    codes
}

/// A uniformly random order.
fn shuffle(codes: &mut [u16], rng: &mut QueryRng) {
    for last in (1..codes.len()).rev() {
        let below = u64::try_from(last).unwrap_or(u64::MAX).saturating_add(1);
        codes.swap(last, usize::try_from(rng.below_u64(below)).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows have the table's marginals, up to less than one row for each group.
    #[test]
    fn rows_follow_their_tables() {
        let sizes = [2, 3, 2];
        let tables = [
            FactorTable {
                columns: ColumnSet::new([0, 1]),
                values: vec![30.5, 0.0, 9.5, 20.0, 20.0, 20.0],
            },
            FactorTable {
                columns: ColumnSet::new([1, 2]),
                values: vec![25.25, 25.25, 5.0, 15.0, 29.5, 0.0],
            },
        ];
        let mut rng = QueryRng::seeded_for_tests(1);
        for count in [0, 1, 7, 100, 10_000] {
            let columns = rows(&tables, &sizes, count, &mut rng);
            assert!(columns.iter().all(|codes| codes.len() == count));
            for table in &tables {
                let mut counts = [0.0; 6];
                let [a, b] = table.columns.as_slice() else { panic!("two columns") };
                for (x, y) in columns[*a].iter().zip(&columns[*b]) {
                    counts[usize::from(*x) * sizes[*b] + usize::from(*y)] += 1.0;
                }
                for (is, value) in counts.iter().zip(&table.values) {
                    let should = value * float(count) / 100.0;
                    assert!((is - should).abs() <= 3.0, "{is} {should}");
                    assert!(*value > 0.0 || count < 100 || *is <= 1.0);
                }
            }
        }
    }

    /// On average, each code occurs exactly as often as its weight requires.
    #[test]
    fn what_is_missing_goes_by_its_fraction() {
        let mut rng = QueryRng::seeded_for_tests(2);
        let mut counts = [0_u32; 4];
        for _ in 0..10_000 {
            let drawn = shares(&[0.5, 0.3, 0.2, 0.0], 5, &mut rng);
            assert_eq!(drawn.len(), 5);
            drawn.iter().for_each(|code| counts[usize::from(*code)] += 1);
        }
        assert!(counts[0].abs_diff(25_000) < 300 && counts[1].abs_diff(15_000) < 300);
        assert!(counts[2].abs_diff(10_000) < 300 && counts[3] == 0, "{counts:?}");
        assert_eq!(shares(&[0.0, 0.0], 2, &mut rng).len(), 2);
        assert_eq!(shares(&[f64::NAN, 1.0], 3, &mut rng).len(), 3);
    }
}
