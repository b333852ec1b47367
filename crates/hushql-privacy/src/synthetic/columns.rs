//! Sets of columns, and the exact counts over them.
//!
//! In: numbers of columns. Out: a set that is sorted and has no number twice; its marginal has one
//! cell for each combination of codes.
//!
//! ```text
//! Columns {1, 0} of the sizes (2, 3)  →  {0, 1}, 6 cells: (0,0) (0,1) (0,2) (1,0) (1,1) (1,2), in {1}: 0 1 2 0 1 2
//! ```

use std::error::Error;
use std::fmt;

/// Exact counts of the private rows: the only way to them.
///
/// A count is a sum over rows of weights in grid units: each row weighs 1, or what
/// [`Sensitivity`](super::Sensitivity) says.
pub trait Count {
    /// The counts of the marginals of these sets, with all cells, also those that count nothing:
    /// row-major, the last column of a set runs fastest. One pass over the rows for all sets.
    ///
    /// # Errors
    /// [`CountError`] when the rows cannot be read, or there is no time or memory for it.
    fn count(&self, sets: &[ColumnSet]) -> Result<Vec<Vec<i64>>, CountError>;
}

/// Why rows could not be counted. What was wrong says whoever counts.
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

/// A set of columns, by their numbers: sorted, none twice.
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

    /// The numbers, in order.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// How many columns there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The cells of the marginal, for columns of these sizes; 1 for no column, the largest number
    /// where there are more.
    pub fn cells(&self, sizes: &[usize]) -> usize {
        let size = |column: &usize| sizes.get(*column).copied().unwrap_or(0);
        self.0.iter().map(size).fold(1, usize::saturating_mul)
    }

    /// Whether this column is one of them.
    pub fn contains(&self, column: usize) -> bool {
        self.0.binary_search(&column).is_ok()
    }

    /// Whether all of these are among the other ones.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|column| other.contains(*column))
    }

    /// How many columns both have.
    pub fn shared(&self, other: &Self) -> usize {
        self.0.iter().filter(|column| other.contains(**column)).count()
    }
}

/// For each cell of the marginal of one set its cell in that of another, whose columns are among
/// its own.
pub fn onto(from: &ColumnSet, to: &ColumnSet, sizes: &[usize]) -> Vec<u32> {
    index(from.as_slice(), to.as_slice(), sizes)
}

/// For each cell of the marginal of `from` its cell in the marginal of `to`, whose columns are
/// among those of `from`.
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
