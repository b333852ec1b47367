//! Tables of numbers over sets of columns.
//!
//! In: numbers for all cells, row-major with the last column fastest. Out: their sums in the cells
//! of fewer columns. The floats come from models alone.
//!
//! ```text
//! {0, 1} (2 × 3): 1 2 3 4 5 6   →  {1}: 5 7 9
//! ```

use num_traits::ToPrimitive;

use crate::synthetic::columns::{ColumnSet, index};

/// A number as a float.
pub(in crate::synthetic) fn float(number: impl ToPrimitive + Copy) -> f64 {
    number.to_f64().unwrap_or(f64::MAX)
}

/// Sums the cells of a large table into the cells of a small one.
pub(super) fn project(values: &[f64], index: &[u32], into: &mut [f64]) {
    into.fill(0.0);
    for (value, cell) in values.iter().zip(index) {
        if let Some(sum) = into.get_mut(place(*cell)) {
            *sum += value;
        }
    }
}

/// Adds the cells of a small table to the cells of a large one.
pub(super) fn spread(values: &mut [f64], index: &[u32], from: &[f64]) {
    for (value, cell) in values.iter_mut().zip(index) {
        *value += from.get(place(*cell)).copied().unwrap_or(0.0);
    }
}

/// A cell's number as an index.
#[inline]
pub(super) fn place(cell: u32) -> usize {
    usize::try_from(cell).unwrap_or(usize::MAX)
}

/// A table over a set of columns.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::synthetic) struct FactorTable {
    /// The columns.
    pub(in crate::synthetic) columns: ColumnSet,
    /// One number for each cell.
    pub(in crate::synthetic) values: Vec<f64>,
}

impl FactorTable {
    /// The sums over all other columns.
    pub(in crate::synthetic) fn onto(&self, columns: &ColumnSet, sizes: &[usize]) -> Vec<f64> {
        if self.columns == *columns {
            return self.values.clone();
        }
        let index = index(self.columns.as_slice(), columns.as_slice(), sizes);
        let mut sums = vec![0.0; columns.cells(sizes)];
        project(&self.values, &index, &mut sums);
        sums
    }
}
