//! The ladder of `rows=auto`: bounds on a unit's contribution, from which the release chooses one.
//!
//! In: the range of one row, the declared bounds and the number of groups. Out: a [`Ladder`]. It
//! follows from the query and the declarations, never from data.
//!
//! ```text
//! COUNT(*), MAX ROWS 50                    1, 2, 4, 8, 16, 32, 50 rows of a unit in all groups together
//! SUM(x), x BETWEEN (0, 9), MAX ROWS 10    1, 2, 4, …, 64, 90: the sum of the magnitudes that a unit adds to the groups
//! SUM(x), x BETWEEN (0, 99.99)             5.12, 10.24, …: it begins with a small part of the largest value of one row
//! ```

/// The number of doublings of a ladder without a declared end: 2⁴⁰ rows.
const DOUBLINGS: u32 = 40;

/// A ladder of sums begins this many halvings below the largest value of one row (less than a
/// sixteenth of it), or with one step of the grid. Smaller bounds would serve units that add next
/// to nothing, and each bound makes the choice more expensive.
const HALVINGS: u32 = 5;

/// The last bound of a ladder of rows without a declared end.
pub(crate) const MOST_ROWS: u64 = 1 << DOUBLINGS;

/// The largest number of integers of one ladder, over all bounds and groups.
const MOST_INTEGERS: usize = 1_000_000;

/// The number of columns of the longest ladder: a mean without a bound on rows.
const MOST_COLUMNS: usize = 124;

/// The bounds from which the release chooses one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    /// τ_0 < τ_1 < …: the largest contribution of one unit over all groups. In rows for counts and
    /// means, in steps of the grid for sums.
    pub rungs: Vec<u128>,
    /// The L1 norm of one such row or step in the released integers: 1, or the width of the range
    /// of a mean, or the largest value of a row in a sum with bounds in rows.
    pub weight: u128,
    /// K: the number of groups, which is public.
    pub groups: u64,
    /// True if the bounds are numbers of rows.
    pub is_of_rows: bool,
    /// True if the last bound is declared, or stated in the query.
    pub is_declared: bool,
    /// The measure whose release chooses the bound, if it is another measure. All numbers of the
    /// same rows share one bound.
    pub follows: Option<usize>,
}

impl Ladder {
    /// The number of integers per group, for a release that has `parts` integers without a ladder.
    /// First the integers under the last bound; then, for each smaller bound, the part that it cuts
    /// off; then, for each bound, the number of units beyond it; then the number of units that add
    /// anything.
    pub fn columns(&self, parts: usize) -> usize {
        self.rungs.len() * (parts + 1) + 1
    }

    /// True if the integers of this many groups are few enough.
    pub(crate) fn fits(&self, parts: usize, groups: usize) -> bool {
        self.columns(parts).checked_mul(groups).is_some_and(|all| all <= MOST_INTEGERS)
    }

    /// True if any ladder fits this many groups.
    pub(crate) fn any_fits(groups: usize) -> bool {
        MOST_COLUMNS.checked_mul(groups).is_some_and(|all| all <= MOST_INTEGERS)
    }

    /// A ladder of numbers of rows, for counts, means, and sums beside them. Each row has a weight
    /// of at most `weight`. A declared bound ends the ladder.
    pub(crate) fn of_rows(most: Option<u64>, weight: u128, groups: u64) -> Self {
        let rungs = up_to(1, u128::from(most.unwrap_or(MOST_ROWS)));
        let is_declared = most.is_some();
        Self { rungs, weight, groups, is_of_rows: true, is_declared, follows: None }
    }

    /// A ladder for a sum of values of at most `b` steps: from a small part of one row's value to
    /// the values of all rows. `None` if 128 bits do not suffice.
    pub(crate) fn of_sums(most: Option<u64>, b: u128, groups: u64) -> Option<Self> {
        let bits = u128::BITS - b.leading_zeros();
        let first = 1_u128 << bits.saturating_sub(HALVINGS);
        let last = match most {
            Some(most) => b.checked_mul(u128::from(most))?,
            None => 1 << bits.checked_add(DOUBLINGS).filter(|last| *last < u128::BITS - 2)?,
        };
        let rungs = up_to(first, last);
        let is_declared = most.is_some();
        Some(Self { rungs, weight: 1, groups, is_of_rows: false, is_declared, follows: None })
    }

    /// The L1 sensitivity under the last bound; `None` on overflow.
    pub(crate) fn l1(&self) -> Option<u128> {
        self.rungs.last()?.checked_mul(self.weight)
    }
}

/// `first`, doubled as long as it is below `last`, followed by `last`.
fn up_to(first: u128, last: u128) -> Vec<u128> {
    let next = |rung: &u128| rung.checked_mul(2);
    let mut rungs: Vec<u128> =
        std::iter::successors(Some(first), next).take_while(|rung| *rung < last).collect();
    rungs.push(last);
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(most: Option<u64>) -> Vec<u128> {
        Ladder::of_rows(most, 1, 1).rungs
    }

    fn sums(most: Option<u64>, b: u128) -> Option<Vec<u128>> {
        Ladder::of_sums(most, b, 1).map(|ladder| ladder.rungs)
    }

    #[test]
    fn ladders_double_and_end_at_what_is_declared() {
        assert_eq!(rows(Some(50)), [1, 2, 4, 8, 16, 32, 50]);
        assert_eq!(rows(Some(8)), [1, 2, 4, 8]);
        assert_eq!(rows(None).len(), 41);
        assert_eq!(sums(Some(3), 10).unwrap(), [1, 2, 4, 8, 16, 30]);
        // The first rung is a small part of what one row can add.
        let wide = sums(Some(1), 1 << 39).unwrap();
        assert_eq!((wide[0], wide.len()), (1 << 35, 5));
        // A price of 0 to 100 with two decimals, of at most 20 rows.
        assert_eq!(sums(Some(20), 10_000).unwrap()[..3], [512, 1_024, 2_048]);
        assert_eq!(*sums(None, 1 << 39).unwrap().last().unwrap(), 1 << 80);
        assert_eq!(sums(None, u128::MAX), None);
        let longest = Ladder::of_rows(None, 1, 1).columns(2);
        assert!(
            longest == MOST_COLUMNS
                && Ladder::of_sums(None, 1 << 62, 1).unwrap().columns(1) <= longest
        );
    }
}
