//! Sets of columns, and the exact counts over them.
//!
//! In: numbers of columns. Out: a sorted set without duplicates. Its marginal has one cell for each
//! combination of codes.
//!
//! ```text
//! Columns {1, 0} of the sizes (2, 3)  →  {0, 1}, 6 cells: (0,0) (0,1) (0,2) (1,0) (1,1) (1,2), in {1}: 0 1 2 0 1 2
//! ```

use std::error::Error;
use std::fmt;

/// Gives exact counts of the private rows; nothing else does.
///
/// A count is a sum over rows of weights in grid units. Each row weighs 1, or its weight under
/// [`Sensitivity`](super::Sensitivity).
pub trait Count {
    /// The counts of the marginals of these sets, in one pass over the rows. They include empty
    /// cells, and are row-major: the last column of a set runs fastest.
    ///
    /// # Errors
    /// [`CountError`] when the rows cannot be read, or time or memory runs out.
    fn count(&self, sets: &[ColumnSet]) -> Result<Vec<Vec<i64>>, CountError>;
}

/// The rows could not be counted. The counter supplies the cause.
#[derive(Debug)]
pub struct CountError(pub Box<dyn Error + Send + Sync>);

impl fmt::Display for CountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rows could not be counted")
    }
}

impl Error for CountError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// A set of columns, as sorted column numbers without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnSet(Vec<usize>);

impl ColumnSet {
    /// The set of these columns.
    pub fn new(columns: impl IntoIterator<Item = usize>) -> Self {
        let mut columns: Vec<usize> = columns.into_iter().collect();
        columns.sort_unstable();
        columns.dedup();
        Self(columns)
    }

    /// The column numbers, in order.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of cells of the marginal, for columns of these sizes; 1 for no column. Saturates
    /// at the largest integer.
    pub fn cells(&self, sizes: &[usize]) -> usize {
        let size = |column: &usize| sizes.get(*column).copied().unwrap_or(0);
        self.0.iter().map(size).fold(1, usize::saturating_mul)
    }

    /// True if the set has this column.
    pub fn contains(&self, column: usize) -> bool {
        self.0.binary_search(&column).is_ok()
    }

    /// True if the other set has all of these columns.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|column| other.contains(*column))
    }

    /// The number of columns that both sets have.
    pub fn shared(&self, other: &Self) -> usize {
        self.0.iter().filter(|column| other.contains(**column)).count()
    }
}

/// For each cell of the marginal of `from`, the cell of the marginal of `to`. The columns of `to`
/// are among those of `from`.
pub fn onto(from: &ColumnSet, to: &ColumnSet, sizes: &[usize]) -> Vec<u32> {
    index(from.as_slice(), to.as_slice(), sizes)
}

/// For each cell of the marginal of `from`, the cell of the marginal of `to`. The columns of `to`
/// are among those of `from`.
pub(super) fn index(from: &[usize], to: &[usize], sizes: &[usize]) -> Vec<u32> {
    let size = |column: &usize| sizes.get(*column).copied().unwrap_or(1);
    let stride = |column: &usize| -> usize {
        let place = to.iter().position(|other| other == column);
        place.map_or(0, |place| to[place + 1..].iter().map(size).product())
    };
    let mut cells = vec![0_u32];
    for column in from {
        let step = u32::try_from(stride(column)).unwrap_or(0);
        let codes = u32::try_from(size(column)).unwrap_or(0);
        cells = cells.iter().flat_map(|cell| (0..codes).map(move |c| cell + c * step)).collect();
    }
    cells
}
