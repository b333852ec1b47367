//! The task: the columns' sizes, the marginals that matter, the method, the budget, and the bounds
//! of one unit.
//!
//! In: public values only. Out: the same values, checked. Whether the task is possible depends on
//! nothing else.
//!
//! ```text
//! Budget::auto(4 columns, ε = 1, ρ = 0.014973057)   →  pure: 2.5·4 ≤ 1/(4ρ) = 16.7
//! Sensitivity::person(Some(50))                     →  Δ = 2¹⁰ in units of 2⁻¹⁰ of a person
//! ```

use std::time::Duration;

use thiserror::Error;

use super::columns::ColumnSet;

/// The largest number of codes of one column, including that of NULL.
pub const MOST_CODES: usize = 1_024;
/// The largest number of cells of one marginal.
pub const MOST_CELLS: usize = 1_000_000;
/// The largest number of marginals that compete in a round.
pub(crate) const MOST_CANDIDATES: usize = 10_000;
/// The largest number of cells of all competing marginals together: each round visits all of them.
pub(crate) const MOST_CELLS_TOGETHER: usize = 1 << 25;
/// The largest number of cells held at once, however much memory there is: more would not be
/// faster.
pub const MOST_HELD: usize = 1 << 22;
/// The largest number of cells of a set of `marginals=k`; larger sets are left out.
pub(crate) const MOST_CELLS_OF_A_SET: usize = 100_000;
/// The largest number of small databases that compete.
pub(crate) const MOST_DATABASES: usize = 1_000_000;
/// The largest number of values visited to score all small databases.
pub(crate) const MOST_SCORED: usize = 100_000_000;
/// The default number of bytes of the model.
pub const DEFAULT_BYTES: usize = 1 << 20;
/// Billionths in one: budgets are whole billionths.
pub(crate) const NANO: u64 = 1_000_000_000;

/// How the rows are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Round by round, measures the marginal where the model is most wrong, and fits a graphical
    /// model (McKenna, Mullins, Sheldon, Miklau 2022).
    Aim,
    /// Multiplicative weights over the whole domain (Hardt, Ligett, McSherry 2012).
    Mwem {
        /// True if single cells are chosen and measured, as in the article; otherwise whole
        /// marginals.
        cells: bool,
        /// The number of choices.
        rounds: u32,
    },
    /// A whole small table, chosen by the exponential mechanism (Blum, Ligett, Roth 2008).
    SmallDatabase {
        /// The number of its rows.
        rows: u32,
    },
}

/// The budget, in billionths. Exactly this amount is charged, even if less is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntheticBudget {
    /// Pure ε: Laplace noise, and selection by permute-and-flip.
    Pure {
        /// Billionths of ε.
        epsilon_nano: u64,
    },
    /// Zero-concentrated ρ: Gaussian noise, and selection by the exponential mechanism.
    Concentrated {
        /// Billionths of ρ.
        rho_nano: u64,
    },
}

impl SyntheticBudget {
    /// The mode of `AUTO` for an (ε, δ). ρ is the largest one whose conversion meets (ε, δ). The
    /// mode is pure if 2.5·d ≤ ε²/(4ρ), which holds for few columns.
    pub fn auto(columns: usize, epsilon_nano: u64, rho_nano: u64) -> Self {
        let columns = u128::try_from(columns).unwrap_or(u128::MAX);
        let left = columns.saturating_mul(10).saturating_mul(u128::from(rho_nano));
        let epsilon = u128::from(epsilon_nano);
        if left.saturating_mul(u128::from(NANO)) <= epsilon.saturating_mul(epsilon) {
            Self::Pure { epsilon_nano }
        } else {
            Self::Concentrated { rho_nano }
        }
    }

    /// The billionths.
    pub fn nano(self) -> u64 {
        match self {
            Self::Pure { epsilon_nano } => epsilon_nano,
            Self::Concentrated { rho_nano } => rho_nano,
        }
    }
}

/// The most that one unit can move one marginal, in grid units of 2⁻ᵍ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sensitivity {
    l1: u64,
    l2: u64,
    grid: u32,
}

impl Sensitivity {
    /// A unit has at most this many rows, each with weight 1. All of them can fall into one cell.
    pub fn rows(most: u64) -> Self {
        Self { l1: most.max(1), l2: most.max(1), grid: 0 }
    }

    /// A unit weighs 1, however many rows it has: at most `most`, if that is known.
    pub fn person(most: Option<u64>) -> Self {
        let grid = most.map_or(20, |most| 64 - most.max(1).saturating_sub(1).leading_zeros() + 4);
        let grid = grid.min(32);
        Self { l1: 1 << grid, l2: 1 << grid, grid }
    }

    /// The weight of each row of a unit with `rows` rows under [`Sensitivity::person`], in grid
    /// units: ⌊2ᵍ/rows⌋. 0 for no row.
    pub fn weight(self, rows: u64) -> i64 {
        let weight = 1_u64.checked_shl(self.grid).and_then(|one| one.checked_div(rows));
        weight.and_then(|weight| i64::try_from(weight).ok()).unwrap_or(0)
    }

    /// Δ₁, in grid units: the bound for scores.
    pub fn l1(self) -> u64 {
        self.l1
    }

    /// Δ₂, in grid units: the bound for noise.
    pub fn l2(self) -> u64 {
        self.l2
    }

    /// g: a count of 1 is 2ᵍ grid units.
    pub fn grid(self) -> u32 {
        self.grid
    }
}

/// A task: which rows to make, and how.
#[derive(Debug, Clone)]
pub struct SyntheticTask {
    /// The number of codes of each column, including that of NULL.
    pub sizes: Vec<usize>,
    /// The sets of columns whose marginals matter, each with its weight (by default 1).
    pub workload: Vec<(ColumnSet, u64)>,
    /// The method.
    pub method: Method,
    /// The budget.
    pub budget: SyntheticBudget,
    /// The bounds of one unit.
    pub sensitivity: Sensitivity,
    /// The most bytes of the model's tables, 8 for each cell; [`DEFAULT_BYTES`] by default.
    pub most_bytes: usize,
    /// The most cells of counts held at once, but at least those of one marginal. If the competing
    /// marginals have more, each round counts them in several passes over the rows.
    pub most_held: usize,
    /// The number of new rows; `None` for the noisy number of units.
    pub rows: Option<u64>,
    /// The most new rows, whatever the noisy number is.
    pub most_rows: usize,
    /// The most time for fitting models. When it is over, rows come from the last model.
    pub most_time: Option<Duration>,
}

impl SyntheticTask {
    /// All sets of `size` columns whose marginals have at most 100,000 cells, each of weight 1.
    ///
    /// # Errors
    /// [`Unfit::TooManyCandidates`] when there are more sets than can compete.
    pub fn all_sets(sizes: &[usize], size: usize) -> Result<Vec<(ColumnSet, u64)>, Unfit> {
        let mut sets = Vec::new();
        let size = size.min(sizes.len());
        let mut columns: Vec<usize> = (0..size).collect();
        let mut looked = 0_usize;
        loop {
            let set = ColumnSet::new(columns.iter().copied());
            if set.cells(sizes) <= MOST_CELLS_OF_A_SET && size > 0 {
                sets.push((set, 1));
            }
            looked = looked.saturating_add(1);
            if looked > MOST_CANDIDATES {
                return Err(Unfit::TooManyCandidates { most: MOST_CANDIDATES });
            }
            // The next set in order: the last column that can move moves, and the columns behind it
            // follow.
            let moves =
                (0..size).rev().find(|at| columns.get(*at) < Some(&(sizes.len() - size + at)));
            let Some(place) = moves else { return Ok(sets) };
            let first = columns.get(place).copied().unwrap_or(0) + 1;
            for (offset, column) in columns.iter_mut().skip(place).enumerate() {
                *column = first + offset;
            }
        }
    }
}

/// Why the task is impossible. Public: a function of the task alone.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unfit {
    /// There is no column, or none in the workload.
    #[error("there is no column to make")]
    NoColumns,
    /// A set of the workload names a column that does not exist.
    #[error("the workload names column {column}, and there are fewer")]
    NoSuchColumn {
        /// The column's number.
        column: usize,
    },
    /// There are too many columns.
    #[error("at most {most} columns are possible")]
    TooManyColumns {
        /// The largest possible number.
        most: usize,
    },
    /// A column has no code, or too many.
    #[error("column {column} has {codes} codes; 1 to {most} are possible")]
    Codes {
        /// The column's number.
        column: usize,
        /// The number of its codes.
        codes: usize,
        /// The largest possible number.
        most: usize,
    },
    /// A marginal has too many cells, or the whole domain has, if the method needs it.
    #[error(
        "the columns {columns:?} have too many combinations of codes: at most {most} are possible"
    )]
    TooManyCells {
        /// The columns.
        columns: ColumnSet,
        /// The largest possible number of cells.
        most: usize,
    },
    /// Too many marginals compete.
    #[error("too many marginals: at most {most} can compete")]
    TooManyCandidates {
        /// The largest possible number.
        most: usize,
    },
    /// There are too many small databases, or they have too many counts.
    #[error(
        "there are too many tables of {rows} rows over these columns: at most {most} are possible"
    )]
    TooManyDatabases {
        /// The number of rows of each.
        rows: u32,
        /// The largest possible number.
        most: usize,
    },
    /// The one-column tables alone exceed the limit of the model.
    #[error("the model needs {needed} bytes, and may have {most}")]
    TooLarge {
        /// The bytes that the model needs.
        needed: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// The budget is too small: some share would be less than one billionth.
    #[error("the budget is too small to be shared: at least {least_nano} billionths are needed")]
    BudgetTooSmall {
        /// The least budget, in billionths.
        least_nano: u64,
    },
    /// The noise is so large that it cannot be drawn.
    #[error(
        "the noise is larger than what can be drawn: spend more, or bound the rows of a unit more tightly"
    )]
    NoiseTooLarge,
    /// There are no rounds, no rows, or a weight of 0 where at least 1 is needed.
    #[error("rounds, rows and weights are at least 1, and weights at most 1,000,000")]
    Zero,
}
