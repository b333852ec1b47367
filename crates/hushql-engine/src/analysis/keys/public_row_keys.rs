//! Keys that come from one public row: only combinations that occur in public rows can be groups.
//!
//! In: the keys of each GROUP BY column, and the distinct rows of the columns that come from one
//! scan of a public table. Out: the combinations that a private row can have.
//!
//! ```text
//! GROUP BY p.category, p.name     8 categories, 400 products with one category each: 400 groups, not 3,200
//! ```

use std::collections::{HashMap, HashSet};

use datafusion::common::ScalarValue;

/// GROUP BY columns that come from one scan of public rows.
#[derive(Debug, Clone)]
pub(crate) struct Together {
    /// Their positions in GROUP BY, in ascending order.
    pub(crate) columns: Vec<usize>,
    /// Their distinct values in the public rows.
    pub(crate) rows: Vec<Vec<ScalarValue>>,
}

/// For each prefix of a row, the values that follow it in some row.
type Next<'a> = HashMap<&'a [ScalarValue], HashSet<&'a ScalarValue>>;

impl Together {
    fn next(&self) -> Next<'_> {
        let mut next = Next::new();
        for row in &self.rows {
            for (i, value) in row.iter().enumerate() {
                next.entry(row.get(..i).unwrap_or_default()).or_default().insert(value);
            }
        }
        next
    }
}

/// The combinations of keys in which columns that belong together have values of one row; `None` if
/// there are more than `most`.
///
/// # Guarantee
/// Each combination occurs once, in the order of all combinations: the last column changes fastest.
pub(crate) fn combinations<'a>(
    keys: &'a [Vec<ScalarValue>],
    together: &[Together],
    most: usize,
) -> Option<Vec<Vec<&'a ScalarValue>>> {
    let next: Vec<Next<'_>> = together.iter().map(Together::next).collect();
    let mut all: Vec<Vec<&ScalarValue>> = vec![Vec::new()];
    for (place, values) in keys.iter().enumerate() {
        let places: HashMap<&ScalarValue, usize> =
            values.iter().enumerate().map(|(i, value)| (value, i)).collect();
        let own = together.iter().zip(&next).find(|(one, _)| one.columns.contains(&place));
        let mut longer = Vec::new();
        for combination in all {
            let following: Vec<&ScalarValue> = match own {
                None => values.iter().collect(),
                Some((one, next)) => {
                    let before = one.columns.iter().take_while(|column| **column < place);
                    let before: Vec<ScalarValue> = before
                        .filter_map(|column| combination.get(*column).map(|value| (*value).clone()))
                        .collect();
                    let following = next.get(before.as_slice()).into_iter().flatten();
                    let mut following: Vec<usize> =
                        following.filter_map(|value| places.get(*value).copied()).collect();
                    following.sort_unstable();
                    following.into_iter().filter_map(|i| values.get(i)).collect()
                }
            };
            if longer.len() + following.len() > most {
                return None;
            }
            longer.extend(following.into_iter().map(|value| {
                let mut row = combination.clone();
                row.push(value);
                row
            }));
        }
        all = longer;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(numbers: &[i64]) -> Vec<ScalarValue> {
        numbers.iter().map(|n| ScalarValue::Int64(Some(*n))).collect()
    }

    /// Columns 0 and 2 come from one row, column 1 from elsewhere. Compares the result with all
    /// combinations, one by one.
    #[test]
    fn only_rows_that_occur_are_combined() {
        let keys = [values(&[3, 1, 2]), values(&[7, 8]), values(&[5, 4, 6])];
        let rows: Vec<_> = [[1, 4], [1, 5], [2, 6], [3, 9]].map(|row| values(&row)).into();
        let together = [Together { columns: vec![0, 2], rows: rows.clone() }];
        let mut expected = Vec::new();
        for a in &keys[0] {
            for b in &keys[1] {
                for c in &keys[2] {
                    if rows.contains(&vec![a.clone(), c.clone()]) {
                        expected.push(vec![a, b, c]);
                    }
                }
            }
        }
        assert_eq!(expected.len(), 6);
        assert_eq!(combinations(&keys, &together, 6), Some(expected));
        assert_eq!(combinations(&keys, &together, 5), None);
    }
}
