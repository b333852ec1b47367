//! Pairs of values as one integer, and the products that a pair contributes to the moments of two
//! columns.
//!
//! In: the grids and intervals of two columns. Out: for each row one integer that stands for the
//! steps X in 0..W and Y in 0..V in which its two values lie, and the products that this pair
//! contributes. The products of a pair are never negative, and they add up to the same number for
//! every pair.
//!
//! ```text
//! x in 0..4, y in 0..2, neither squared:      (3, 2) is 3·(2 + 1) + 2 = 11 of 0..14
//! (4 − 3)(2 − 2)   (4 − 3)·2   3·(2 − 2)   3·2      0 + 2 + 0 + 6 = 8 = 4·2
//! ```

use arrow::array::{Array, Int64Array};
use datafusion::common::{Result, plan_err};
use serde::{Deserialize, Serialize};

use super::{Grid, GridRange, coarse_width};

/// One column of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    range: GridRange,
    shift: u32,
    squared: bool,
}

impl Axis {
    /// The axis with the finest steps such that at most `most` of them cover the interval; `None`
    /// if no step is coarse enough.
    fn new(range: GridRange, squared: bool, most: i128) -> Option<Self> {
        let fits =
            |shift: &u32| coarse_width(range.lo(), range.hi(), *shift).is_some_and(|w| w <= most);
        let shift = (0..=80).find(fits)?;
        Some(Self { range, shift, squared })
    }

    /// The grid and the interval.
    pub fn range(&self) -> GridRange {
        self.range
    }

    /// A step is 2^shift grid units.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// W: the number of steps of the interval.
    pub fn steps(&self) -> i128 {
        coarse_width(self.range.lo(), self.range.hi(), self.shift).unwrap_or(0)
    }

    /// The largest power of the column among the products: 1 or 2.
    pub fn degree(&self) -> i32 {
        if self.squared { 2 } else { 1 }
    }

    /// The number of factors: W − X and X, or (W − X)², 2X(W − X) and X².
    pub fn factors(&self) -> usize {
        if self.squared { 3 } else { 2 }
    }

    /// The sum of the factors: W or W².
    fn weight(&self) -> i128 {
        if self.squared { self.steps() * self.steps() } else { self.steps() }
    }

    /// Factor `i` for the step number `place`.
    fn factor(&self, place: i128, i: usize) -> i128 {
        let (below, above) = (self.steps() - place, place);
        match (self.squared, i) {
            (false, 0) => below,
            (false, _) => above,
            (true, 0) => below * below,
            (true, 1) => 2 * below * above,
            (true, _) => above * above,
        }
    }

    /// The step of each row's value; −1 for NULL and NaN.
    fn places(&self, column: &dyn Array) -> Result<Vec<i64>> {
        let mut places = vec![-1; column.len()];
        self.range.for_each(column, None, |row, value| {
            // At most 2²⁰ steps.
            places[row] = i64::try_from(self.range.above(value, self.shift)).unwrap_or(0);
        })?;
        Ok(places)
    }
}

/// The two columns of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pairs {
    x: Axis,
    y: Axis,
}

impl Pairs {
    /// Two columns with their intervals, and whether their squares are among the products.
    ///
    /// # Guarantee
    /// The steps are the finest for which every product is at most 2⁴⁴, so that the samplers can
    /// draw the noise on sums of them: at most 2²⁰ steps of each column if neither is squared; 2¹³
    /// and 2¹⁸ if the first is; 2¹¹ each if both are. They depend on the intervals alone. `None` if
    /// an interval is too wide.
    pub fn new(x: GridRange, y: GridRange, squared: (bool, bool)) -> Option<Self> {
        let (x_steps, y_steps) = match squared {
            (false, false) => (1 << 20, 1 << 20),
            (true, false) => (1 << 13, 1 << 18),
            (false, true) => (1 << 18, 1 << 13),
            (true, true) => (1 << 11, 1 << 11),
        };
        Some(Self { x: Axis::new(x, squared.0, x_steps)?, y: Axis::new(y, squared.1, y_steps)? })
    }

    /// The first column.
    pub fn x(&self) -> &Axis {
        &self.x
    }

    /// The second column.
    pub fn y(&self) -> &Axis {
        &self.y
    }

    /// The largest code of a pair; the smallest is 0.
    pub fn last(&self) -> i128 {
        (self.x.steps() + 1) * (self.y.steps() + 1) - 1
    }

    /// The interval of the codes.
    ///
    /// # Errors
    /// Never, for pairs that [`Self::new`] made.
    pub fn codes(&self) -> Result<GridRange> {
        GridRange::new(Grid::Integer, 0, self.last())
    }

    /// The codes of the rows of two columns; NULL if one of them is NULL or NaN.
    ///
    /// # Guarantee
    /// Every code lies between 0 and [`Self::last`], and depends on the two values of its own row
    /// alone.
    ///
    /// # Errors
    /// A planning error when a column's type does not belong to its grid, or the columns differ in
    /// length.
    pub fn encode(&self, x: &dyn Array, y: &dyn Array) -> Result<Int64Array> {
        if x.len() != y.len() {
            return plan_err!("the columns of a pair have equally many rows");
        }
        let width = i64::try_from(self.y.steps() + 1).unwrap_or(i64::MAX);
        let (x, y) = (self.x.places(x)?, self.y.places(y)?);
        let code = |(x, y): (i64, i64)| (x >= 0 && y >= 0).then_some(x.saturating_mul(width) + y);
        Ok(x.into_iter().zip(y).map(code).collect())
    }

    /// The number of products: 4, 6 or 9.
    pub fn products(&self) -> usize {
        self.x.factors() * self.y.factors()
    }

    /// The sum of the products of every pair: W·V, with W or V squared if its column is.
    ///
    /// # Guarantee
    /// For every code from 0 to [`Self::last`], each product is ≥ 0 and all add up to exactly this
    /// number: they are the terms of ((W − X) + X)^p·((V − Y) + Y)^q. So the vector of one pair has
    /// exactly this L1 norm, and at most this L2 norm, which pairs at the corners attain.
    pub fn weight(&self) -> u128 {
        self.x.weight().unsigned_abs() * self.y.weight().unsigned_abs()
    }

    /// Product `which` of the pair with this code; codes outside of 0 to [`Self::last`] count as
    /// the nearest.
    pub fn product(&self, code: i128, which: usize) -> i128 {
        let code = code.clamp(0, self.last());
        let width = self.y.steps() + 1;
        let (i, j) = (which / self.y.factors(), which % self.y.factors());
        self.x.factor(code / width, i) * self.y.factor(code % width, j)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array};

    use super::{Axis, GridRange, Pairs};
    use crate::grid::Grid;

    fn integers(lo: i128, hi: i128) -> GridRange {
        GridRange::new(Grid::Integer, lo, hi).unwrap()
    }

    const SQUARED: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

    /// The vector of every pair has no negative entry; its L1 norm equals the weight, and its L2
    /// norm is at most the weight, which some pairs reach.
    #[test]
    fn every_pair_moves_the_vector_by_its_weight() {
        for squared in SQUARED {
            for (x, y) in [((-3, 4), (0, 9)), ((5, 6), (-8, -1)), ((0, 1), (0, 1))] {
                let pairs = Pairs::new(integers(x.0, x.1), integers(y.0, y.1), squared).unwrap();
                let weight = i128::try_from(pairs.weight()).unwrap();
                let mut longest = 0;
                for code in 0..=pairs.last() {
                    let parts: Vec<i128> =
                        (0..pairs.products()).map(|i| pairs.product(code, i)).collect();
                    assert!(parts.iter().all(|part| *part >= 0));
                    assert_eq!(parts.iter().sum::<i128>(), weight);
                    longest = longest.max(parts.iter().map(|part| part * part).sum::<i128>());
                }
                assert_eq!(longest, weight * weight);
                // A code outside of the range counts as the nearest code.
                for i in 0..pairs.products() {
                    assert_eq!(pairs.product(-7, i), pairs.product(0, i));
                    assert_eq!(pairs.product(i128::MAX, i), pairs.product(pairs.last(), i));
                }
            }
        }
    }

    #[test]
    fn codes_name_both_values() {
        let pairs = Pairs::new(integers(0, 4), integers(-1, 1), (true, true)).unwrap();
        let x: ArrayRef = Arc::new(Int64Array::from(vec![Some(-9), Some(3), None, Some(9)]));
        let y: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), Some(1), None]));
        let codes = pairs.encode(&x, &y).unwrap();
        assert_eq!(codes, Int64Array::from(vec![Some(1), Some(11), None, None]));
        assert_eq!(pairs.product(11, 8), 9 * 4);
        assert_eq!(pairs.product(11, 7), 0);
        assert!(pairs.encode(&x, &y.slice(0, 1)).is_err());
        let unit = GridRange::new(Grid::Binary { log2: 3 }, 0, 8).unwrap();
        let pairs = Pairs::new(unit, unit, (false, false)).unwrap();
        let x: ArrayRef = Arc::new(Float64Array::from(vec![0.5, f64::NAN, f64::INFINITY, -0.0]));
        let codes = pairs.encode(&x, &x).unwrap();
        assert_eq!(codes, Int64Array::from(vec![Some(40), None, Some(80), Some(0)]));
    }

    #[test]
    fn wide_intervals_have_coarse_steps() {
        let wide = integers(-(1 << 60), 1 << 60);
        for squared in SQUARED {
            let pairs = Pairs::new(wide, wide, squared).unwrap();
            assert!(pairs.weight() <= 1 << 44 && pairs.weight() >= 1 << 36);
            assert!(i64::try_from(pairs.last()).is_ok());
        }
        let small = Pairs::new(integers(0, 120), integers(0, 30), (true, true)).unwrap();
        assert_eq!((small.x().shift(), small.y().shift()), (0, 0));
        assert_eq!(small.weight(), 120 * 120 * 30 * 30);
        assert!(Axis::new(wide, true, 0).is_none());
    }
}
