//! The input of an aggregate: the argument of its call, in units of its grid.

use arrow::datatypes::DataType;

use crate::analysis::expr::interval::Interval;
use crate::analysis::measure::Input;
use crate::grid::Grid;

/// The argument of an aggregate: its column, type and range.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub(crate) column: usize,
    pub(crate) data_type: DataType,
    pub(crate) range: Interval,
    pub(crate) is_unit: bool,
    /// Whether its values are listed: by a list or a range with STEP.
    pub(crate) is_listed: bool,
    /// How to declare or clamp the argument's range.
    pub(crate) remedy: String,
}

impl Argument {
    /// The argument of COUNT(*).
    pub(crate) fn none() -> Self {
        Self {
            column: 0,
            data_type: DataType::Int64,
            range: Interval::everything(),
            is_unit: false,
            is_listed: false,
            remedy: String::new(),
        }
    }
}

/// The aggregate to read, on its grid, with the bounds of one row.
#[derive(Debug, Clone)]
pub(crate) struct AggregateRead {
    pub(crate) input: Input,
    pub(crate) grid: Grid,
    pub(crate) lo: i128,
    pub(crate) hi: i128,
}

impl AggregateRead {
    pub(crate) fn count(input: Input) -> Self {
        Self { input, grid: Grid::Integer, lo: 0, hi: 1 }
    }

    /// True if a unit counts once per group, for any number of its rows there.
    pub(crate) fn once_per_group(&self) -> bool {
        self.input.once_per_group()
    }
}
