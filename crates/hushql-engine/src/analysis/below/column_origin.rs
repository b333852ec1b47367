//! Where the columns of private rows come from.
//!
//! In: the columns of a scan, and expressions over the rows below. Out: a [`Trace`] of each column.
//! It holds the table and the file's column while the values are unchanged. If a subquery computes
//! the column, it holds the [`Definition`], so that a GROUP BY above finds the same keys as one
//! over the expression itself. Nothing is evaluated here.
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
    /// The number of nodes that its expression has when it is written over the scan, as planners
    /// write it.
    pub(crate) size: usize,
    /// The hidden column of the file, if the values are unchanged since it was enforced.
    pub(crate) raw: Option<Raw>,
    /// The private table's column that holds these values.
    pub(crate) origin: Option<Origin>,
    /// The number of the scan that it comes from. Within one row here, all columns from one scan
    /// come from one row of the table.
    pub(crate) reading: usize,
    /// The plan of public rows that it comes from, and its name there.
    pub(crate) public: Option<(Arc<LogicalPlan>, Column)>,
    /// True if it is never NULL here, because it leads to the unit or because a condition excludes
    /// NULL.
    pub(crate) present: bool,
    /// What it implies about the rows of a unit.
    pub(crate) of_unit: OfUnit,
    /// True if an outer join made it NULL on the rows without a match. The origin then holds only
    /// for the other rows.
    pub(crate) padded: bool,
    /// True if a padded column is the unit on the rows with a match.
    pub(crate) unit_or_null: bool,
    /// How it was computed. On every row it is NULL, or has the value of this definition for some
    /// row below.
    pub(crate) definition: Option<Arc<Definition>>,
    /// Its expression over the rows of a subquery. All columns with the same `below` are computed
    /// from the same row.
    pub(crate) of_row: Option<Arc<OfRow>>,
}

/// An expression over the rows of a subquery.
#[derive(Debug)]
pub(crate) struct OfRow {
    pub(crate) expr: Expr,
    pub(crate) below: Arc<Below>,
}

/// What a column implies about the rows of its unit.
///
/// No guarantee relies on it. The numbers of rows and groups that follow are enforced by the
/// bounding operator, which leaves rows out if a table's declaration is wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OfUnit {
    /// True if all rows of a unit have the same value of it.
    pub(crate) alike: bool,
    /// True if it numbers the rows of a unit from 1, without repetition.
    pub(crate) numbers: bool,
    /// The most rows of a unit on which it is NULL, if it is NULL only on rows without a match in
    /// an outer join.
    pub(crate) unmatched: Option<u64>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) table: String,
    pub(crate) column: String,
}

/// A column with the unchecked values of the file, under a hidden name that no expression can use.
///
/// With it, a scan can prune files, a comparison can skip the enforced column where both agree, and
/// the key space can drop groups that are not listed, instead of checking every row.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) name: String,
    pub(crate) change: Change,
}

/// The ends of a clamped range.
pub(crate) type Clamped = (ScalarValue, ScalarValue);

/// The expressions of a column, with the columns that they name and the facts about them: one, or
/// one for each branch of a union.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) branches: Vec<(Expr, Arc<Below>)>,
    /// True if the column is NULL only where an expression is NULL. The keys then tell whether NULL
    /// is one of them.
    pub(crate) decides_null: bool,
    /// The keys, computed at the first request. Columns that are computed from this one may request
    /// them often.
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

    /// A column that on each row has the value of one of these expressions, or NULL.
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
