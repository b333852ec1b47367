//! The integers of a measure under a chosen bound.
//!
//! In: the columns of a measure with a ladder: its integers under the last bound; for each smaller
//! bound, what the bound cuts off; for each bound, the number of units beyond it; and the number of
//! units that add anything. Out: the numbers that the choice weighs, and the integers under one
//! bound.
//!
//! ```text
//! COUNT(*), bounds 1, 2, 4    columns: under 4 | cut by 1 | cut by 2 | beyond 1 | beyond 2 | beyond 4 | units
//! ```

use datafusion::common::Result;

use crate::analysis::Ladder;
use crate::grid::failed;
use crate::mechanism::Beyond;

/// The columns of a measure, one entry for each key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfLadder<'a> {
    columns: &'a [Vec<i128>],
    parts: usize,
    rungs: usize,
}

impl<'a> OfLadder<'a> {
    /// The columns of a measure that begin at `first`. Without a ladder, it would have `parts`
    /// columns.
    ///
    /// # Errors
    /// An error with a constant text if there are fewer columns.
    pub(crate) fn new(
        sums: &'a [Vec<i128>],
        first: usize,
        ladder: &Ladder,
        parts: usize,
    ) -> Result<Self> {
        let columns = sums.get(first..first + ladder.columns(parts)).ok_or_else(failed)?;
        Ok(Self { columns, parts, rungs: ladder.rungs.len() })
    }

    /// The number of units that add anything, and for each bound the number of units beyond it.
    ///
    /// # Guarantee
    /// Exact. A unit is counted at one of its keys.
    pub(crate) fn beyond(&self) -> Result<Beyond> {
        let counted = self.columns.iter().skip(self.parts * self.rungs);
        let all = |column: &Vec<i128>| column.iter().try_fold(0_i128, |all, n| all.checked_add(*n));
        let counted = counted.map(|column| all(column).ok_or_else(failed));
        let mut bounds: Vec<i128> = counted.collect::<Result<_>>()?;
        let units = bounds.pop().ok_or_else(failed)?;
        Ok(Beyond { units, bounds })
    }

    /// The integers under the bound with this number, by output and key.
    ///
    /// # Guarantee
    /// Exact: the sum over all units of what each adds under the bound.
    ///
    /// # Errors
    /// An error with a constant text for a number without a bound.
    pub(crate) fn under(&self, rung: usize) -> Result<Vec<Vec<i128>>> {
        if rung >= self.rungs {
            return Err(failed());
        }
        let (all, behind) = self.columns.split_at_checked(self.parts).ok_or_else(failed)?;
        if rung + 1 == self.rungs {
            return Ok(all.to_vec());
        }
        let cut = behind.iter().skip(rung * self.parts);
        let less = |(all, cut): (&Vec<i128>, &Vec<i128>)| {
            let keys = all.iter().zip(cut).map(|(all, cut)| all.checked_sub(*cut));
            keys.collect::<Option<Vec<i128>>>().ok_or_else(failed)
        };
        all.iter().zip(cut).map(less).collect()
    }
}
