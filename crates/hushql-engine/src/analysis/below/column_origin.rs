//! Where the columns of private rows come from.
//!
//! In: the columns of a scan, and expressions over the rows below. Out: a [`Trace`] of each column:
//! its table and the file's own column while its values are unchanged, and its [`Definition`] if a
//! subquery computes it, so that a GROUP BY above finds the same keys as one that names the
//! expression itself. Nothing is evaluated here.
//!
//! ```text
//! SELECT k, COUNT(*) FROM (SELECT id, lower(city) AS k FROM t) AS s GROUP BY k      k: lower(city), over the rows of t
//! ```

use std::sync::{Arc, OnceLock};

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::analysis::expr::domain::Change;
use crate::analysis::expr::facts::{KeySource, Scope};

/// The origin of a column, as long as its values are unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    /// How many nodes its expression has when it is written over the scan, as planners write it.
    pub(crate) size: usize,
    /// The hidden column from which it was enforced, if its values are unchanged since.
    pub(crate) raw: Option<Raw>,
    /// The private table's column with these values.
    pub(crate) origin: Option<Origin>,
    /// Which reading of that table it comes from: in one row here, all columns of one reading
    /// belong to one row of the table.
    pub(crate) reading: usize,
    /// The public rows that it comes from, with its name there.
    pub(crate) public: Option<(Arc<LogicalPlan>, Column)>,
    /// Whether it is NULL on no row here, because it leads to the unit or a condition excludes
    /// NULL.
    pub(crate) present: bool,
    /// What follows from it about the rows of a unit.
    pub(crate) of_unit: OfUnit,
    /// Whether an outer join has made it NULL on the rows without a match: the origin is that of
    /// other rows only.
    pub(crate) padded: bool,
    /// Whether such a column is the unit on the rows with a match.
    pub(crate) unit_or_null: bool,
    /// How it was computed: on every row it is NULL, or has this value for some row below.
    pub(crate) definition: Option<Arc<Definition>>,
    /// What it is on each row of one row of a subquery, the same row for all columns over these
    /// rows.
    pub(crate) of_row: Option<Arc<OfRow>>,
}

/// An expression over the rows of a subquery.
#[derive(Debug)]
pub(crate) struct OfRow {
    pub(crate) expr: Expr,
    pub(crate) below: Arc<Below>,
}

/// What a column says about the rows of its unit.
///
/// No guarantee relies on it: the numbers of rows and groups that follow are enforced by the
/// bounding operator, which leaves rows out where a table was declared wrongly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OfUnit {
    /// Whether all rows of a unit have one value of it.
    pub(crate) alike: bool,
    /// Whether it numbers the rows of a unit from 1, each number once.
    pub(crate) numbers: bool,
    /// The most rows of a unit on which it is NULL, since only rows without a match in an outer
    /// join are.
    pub(crate) unmatched: Option<u64>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) table: String,
    pub(crate) column: String,
}

/// A column as the file holds it, under a hidden name that no expression can use.
///
/// It allows a file to be pruned, a comparison to do without the enforced column where both agree,
/// and the key space to drop groups that are not listed, instead of checking every row.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) name: String,
    pub(crate) change: Change,
}

/// The ends to which values beyond them are clamped.
pub(crate) type Clamped = (ScalarValue, ScalarValue);

/// Expressions, each with what is known of the columns that it names: one, or one for each branch
/// of a union.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) branches: Vec<(Expr, Arc<Below>)>,
    /// Whether it is NULL only where an expression is: the keys then say whether NULL is one.
    pub(crate) decides_null: bool,
    /// The keys, once they are asked for: a column may be asked for often, by columns that are
    /// computed of it.
    pub(crate) keys: OnceLock<Option<KeySource>>,
}

/// The columns of some rows: their facts, and where they come from.
#[derive(Debug)]
pub(crate) struct Below {
    pub(crate) scope: Scope,
    pub(crate) traces: Vec<Trace>,
}

impl Definition {
    /// A column with the value of an expression over these rows.
    pub(crate) fn new(expr: &Expr, below: &Arc<Below>) -> Arc<Self> {
        let expr = expr.clone().unalias_nested().data;
        let decides_null = expr.try_as_col().is_none();
        let branches = vec![(expr, Arc::clone(below))];
        Arc::new(Self { branches, decides_null, keys: OnceLock::new() })
    }

    /// A column whose value on each row is that of one of these expressions, or NULL.
    pub(crate) fn of_branches(branches: Vec<(Expr, Arc<Below>)>) -> Arc<Self> {
        Arc::new(Self { branches, decides_null: false, keys: OnceLock::new() })
    }

    /// A column with one of the values of a call's argument, or NULL: MIN, MAX and the like, also
    /// in a window. LAG and LEAD may have a default instead.
    pub(crate) fn of_pick(name: &str, arguments: &[Expr], below: &Arc<Below>) -> Option<Arc<Self>> {
        let picked: Vec<&Expr> = match (name, arguments) {
            ("min" | "max" | "any_value" | "first_value" | "last_value", [argument])
            | ("lag" | "lead", [argument] | [argument, _]) => vec![argument],
            ("lag" | "lead", [argument, _, default]) => vec![argument, default],
            _ => return None,
        };
        let branch = |one: &Expr| (one.clone().unalias_nested().data, Arc::clone(below));
        Some(Self::of_branches(picked.into_iter().map(branch).collect()))
    }
}
