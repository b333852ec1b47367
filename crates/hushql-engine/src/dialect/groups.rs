//! Clauses of a release that decide which groups come out, and how numbers of several sets fit
//! together.

use crate::dialect::literal::Literal;

/// `GROUP BY x KEYS …`: the group keys of the output, whatever the data are.
#[derive(Debug, Clone, PartialEq)]
pub enum KeysClause {
    /// `KEYS ('a', 'b')`.
    List(Vec<Literal>),
    /// `KEYS DOMAIN`: the column's declared domain.
    Domain,
    /// `KEYS TABLE states(code)`.
    Table {
        /// The public table.
        table: String,
        /// Its column.
        column: String,
    },
}

/// How the output groups are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupStrategy {
    /// `LAPLACE_THRESHOLD`: the groups in the data that have many units.
    Threshold,
    /// `PUBLIC_GROUPS`: all listed or declared groups.
    Public,
}

/// `ROLLUP (…) CONSISTENT [NONNEGATIVE] [INTEGER]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consistent {
    /// No number is below 0.
    pub nonnegative: bool,
    /// All numbers are whole.
    pub integer: bool,
    /// The number of the release as written. The releases of all sets share it.
    pub of: usize,
}

/// A release in one of the sets of ROLLUP, CUBE or GROUPING SETS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseInSet {
    /// The number of the release as written. The releases of all sets share its cost.
    pub of: usize,
    /// The number of the set.
    pub number: usize,
}

/// The two releases that replace an aggregate whose bound the engine finds. Both carry the number
/// of the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The histogram of the argument: the bound is the end of the largest bucket with at least this
    /// noisy count.
    Histogram {
        /// The bound's number in the query.
        bound: usize,
        /// The least noisy count for a bucket to be considered.
        least: i128,
        /// The number of releases that pay for it with half of their cost.
        payers: usize,
        /// The number of histograms among which that half is shared: two for a statistic of two
        /// columns that both have no range.
        shared_by: usize,
    },
    /// The aggregate, in units of the bound or of its square.
    InUnits {
        /// The bound's number in the query.
        bound: usize,
        /// True if the unit is the square of the bound.
        squared: bool,
    },
    /// A statistic of two columns, where each column without a range is in units of its own bound.
    InUnitsOfTwo {
        /// The number of each argument's bound in the query, in the order of the arguments.
        bounds: [Option<usize>; 2],
    },
}

/// Stands between an operand as it was written and what the engine says of it where it finds a
/// bound.
const RELEASED_AT: &str = ", released at ";

/// Starts the text of a histogram.
const BOUNDS_OF: &str = "bounds of ";

/// Stands between what pays for a histogram and the price.
const FOUND_AT: &str = ", found at ";

/// Stands between a column and the statistic of two columns that reads it.
const IN_STATISTIC: &str = " in ";

impl Finding {
    /// The text of an operand that is released at this price, in units of its bounds.
    pub(crate) fn in_units(self, text: &str, price: &str) -> String {
        let of = match self {
            Self::InUnitsOfTwo { bounds: [Some(_), Some(_)] } => "the bounds",
            Self::InUnits { .. } | Self::InUnitsOfTwo { .. } | Self::Histogram { .. } => {
                "the bound"
            }
        };
        format!("{text}{RELEASED_AT}{price} in units of {of} found")
    }

    /// The text of the histogram of an argument. A statistic of two columns names the column.
    pub(crate) fn bounds_text(column: Option<&str>, of: &str, price: &str) -> String {
        let column = column.map_or_else(String::new, |column| format!("{column}{IN_STATISTIC}"));
        format!("{BOUNDS_OF}{column}{of}{FOUND_AT}{price} by counts of buckets")
    }

    /// The column whose bounds the histogram of a statistic of two columns finds.
    pub(crate) fn column_of_bounds(text: &str) -> Option<&str> {
        text.strip_prefix(BOUNDS_OF)?.split_once(IN_STATISTIC).map(|(column, _)| column)
    }

    /// The operand of the only release that pays for a histogram. `None` if several do.
    pub(crate) fn paid_by(text: &str) -> Option<&str> {
        let (of, _) = text.strip_prefix(BOUNDS_OF)?.split_once(FOUND_AT)?;
        let of = of.split_once(IN_STATISTIC).map_or(of, |(_, of)| of);
        (!of.contains(" and ")).then_some(of)
    }

    /// True if the release is in units of bounds that were found.
    pub(crate) fn is_in_units(self) -> bool {
        matches!(self, Self::InUnits { .. } | Self::InUnitsOfTwo { .. })
    }

    /// The operand as it was written.
    pub(crate) fn as_written(text: &str) -> &str {
        text.split_once(RELEASED_AT).map_or(text, |(written, _)| written)
    }
}
