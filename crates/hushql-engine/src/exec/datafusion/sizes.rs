//! Estimates the number of rows of a plan, to decide which rows of a join are kept in memory.
//!
//! In: a physical plan before its rows are distributed. Out: a [`RowEstimate`]. Public tables tell
//! their numbers of rows at any time. Private tables tell nothing before the charge: the declared
//! number of a unit's rows replaces their size. Once a charge is durable, [`PaidFor`] allows the
//! numbers of rows that files and tables in memory know.
//!
//! ```text
//! before the charge    customer 1 row a unit, orders 50, lineitem 350      1,000,000 · 1, 50 and 350 rows
//! after the charge     what the footers of the files say, rounded          131,072, 1,048,576 and 4,194,304 rows
//! part WHERE p_name LIKE '%green%'                                         a tenth of its rows, and so of the items that lead to it
//! ```

use std::sync::Arc;

use datafusion::common::HashSet;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{JoinType, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::exec::paid::PaidFor;
use crate::functions::ends_of_sound;
use hushql_exec::operator::look_up::LookUpExec;
use hushql_exec::operator::private_scan::PrivateScanExec;

/// The assumed number of units of a table that does not tell its size; only the order of sizes
/// matters.
const UNITS: f64 = 1e6;
/// The assumed number of rows of a public table of unknown size.
const PUBLIC: f64 = 1e5;
/// The assumed share of rows that satisfy an equality, match a pattern, or are NULL.
const EQUAL: f64 = 0.1;
/// The assumed share of rows that satisfy a comparison.
const COMPARED: f64 = 0.4;
/// The assumed share of rows that satisfy any other condition.
const KEPT: f64 = 0.5;

/// The smallest size that is distinguished: smaller tables count as this one.
const SMALL: usize = 8_192;

/// The numbers of rows that estimates use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Those of public tables, and declarations of private ones.
    Declared,
    /// Those of all tables.
    Read,
}

impl Sizes {
    /// The numbers that a session permits.
    pub(crate) fn for_state(state: &SessionState) -> Self {
        if PaidFor::is_given(state.config()) { Self::Read } else { Self::Declared }
    }

    /// The numbers for one plan. Real numbers are compared only with real numbers: if one private
    /// table does not know its own, declarations replace all of them.
    pub(super) fn for_plan(self, plan: &Arc<dyn ExecutionPlan>) -> Self {
        match self == Self::Read && all_known(plan) {
            true => Self::Read,
            false => Self::Declared,
        }
    }

    /// The estimated rows of a plan.
    pub(super) fn estimate(self, plan: &Arc<dyn ExecutionPlan>) -> RowEstimate {
        if let Some(scan) = plan.downcast_ref::<PrivateScanExec>() {
            let known = if self == Self::Read { rows_of(scan.unprotected()) } else { None };
            return RowEstimate::all(match known {
                Some(rows) => number(rounded(rows)),
                None => UNITS * f64::from(scan.rows_of_a_unit()),
            });
        }
        let children: Vec<RowEstimate> =
            plan.children().into_iter().map(|child| self.estimate(child)).collect();
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let input = RowEstimate::sum(&children);
            return RowEstimate { rows: input.rows * share_of_filter(filter), ..input };
        }
        match (plan.downcast_ref::<HashJoinExec>(), children.as_slice()) {
            (Some(join), [left, right]) => RowEstimate::joined(*left, *right, *join.join_type()),
            (None, [rows, table]) if plan.is::<LookUpExec>() => {
                RowEstimate::joined(*rows, *table, JoinType::Inner)
            }
            (_, []) => RowEstimate::all(rows_of(plan).map_or(PUBLIC, number)),
            (_, children) => RowEstimate::sum(children),
        }
    }
}

/// The approximate number of rows of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RowEstimate {
    pub(super) rows: f64,
    /// The number of rows without conditions.
    all: f64,
}

impl RowEstimate {
    fn all(rows: f64) -> Self {
        Self { rows, all: rows }
    }

    fn sum(parts: &[Self]) -> Self {
        parts.iter().fold(Self::all(0.0), |sum, part| Self {
            rows: sum.rows + part.rows,
            all: sum.all + part.all,
        })
    }

    /// The share of rows that the conditions leave.
    fn kept(self) -> f64 {
        if self.all > 0.0 { self.rows / self.all } else { 1.0 }
    }

    /// The rows of a join, on the assumption that each row of the larger table leads to one row of
    /// the smaller table, as along a link.
    fn joined(left: Self, right: Self, kind: JoinType) -> Self {
        let all = left.all.max(right.all);
        let (large, small) = if left.all > right.all { (left, right) } else { (right, left) };
        let matched = large.rows * small.kept();
        let semi = |own: Self, other: Self| {
            let kept = if other.all > own.all { 1.0 } else { other.kept() };
            Self { rows: own.rows * kept, ..own }
        };
        match kind {
            JoinType::Inner => Self { rows: matched, all },
            JoinType::Left => Self { rows: matched.max(left.rows), all },
            JoinType::Right => Self { rows: matched.max(right.rows), all },
            JoinType::Full => Self { rows: matched.max(left.rows).max(right.rows), all },
            JoinType::LeftSemi => semi(left, right),
            JoinType::RightSemi => semi(right, left),
            JoinType::LeftAnti | JoinType::LeftMark => left,
            JoinType::RightAnti | JoinType::RightMark => right,
        }
    }
}

/// The number of rows that a source knows of itself.
fn rows_of(source: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let known = StatisticsContext::new().compute(source.as_ref(), &StatisticsArgs::new()).ok()?;
    known.num_rows.get_value().copied()
}

/// Rounds a number of rows down to a power of two, so that a single row seldom decides how much
/// memory a statement needs, and nobody can choose when it does.
fn rounded(rows: usize) -> usize {
    1 << rows.max(SMALL).ilog2()
}

/// A number above four billion counts as four billion.
fn number(rows: usize) -> f64 {
    f64::from(u32::try_from(rows).unwrap_or(u32::MAX))
}

/// Whether every private table of a plan knows its number of rows.
fn all_known(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<PrivateScanExec>() {
        Some(scan) => rows_of(scan.unprotected()).is_some(),
        None => plan.children().into_iter().all(all_known),
    }
}

/// The assumed share of rows that satisfy a condition.
pub(super) fn share(condition: &Arc<dyn PhysicalExpr>) -> f64 {
    share_of_all(split_conjunction(condition), &[])
}

/// The assumed share of rows that pass a filter. A condition may be a column that the operator
/// below computes.
fn share_of_filter(filter: &FilterExec) -> f64 {
    let below = filter.input().downcast_ref::<ProjectionExec>();
    let computed = |condition| match (below, column(condition)) {
        (Some(below), Some(at)) => below.expr().get(at).map_or(condition, |column| &column.expr),
        _ => condition,
    };
    let conditions = split_conjunction(filter.predicate()).into_iter();
    share_of_all(conditions.flat_map(|of| split_conjunction(computed(of))).collect(), &[])
}

/// Of the rows that satisfy all of `given`, the assumed share that also satisfy all conditions. A
/// scan of a private table filters by the plain values, and again by their bounded form; these two
/// forms count once, and so does a condition that is both in each branch of an OR and beside it.
fn share_of_all(conditions: Vec<&Arc<dyn PhysicalExpr>>, given: &[&Arc<dyn PhysicalExpr>]) -> f64 {
    let mut counted: Vec<(HashSet<Column>, Option<Operator>, f64)> = Vec::new();
    let mut given = given.to_vec();
    // Conditions that combine others come last.
    let (ors, others): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|of| is_or(of));
    for condition in others.into_iter().chain(ors) {
        if given.contains(&condition) {
            continue;
        }
        let own = share_of_one(condition, &given);
        given.push(condition);
        let columns = collect_columns(condition);
        let op = condition.downcast_ref::<BinaryExpr>().map(|compared| *compared.op());
        let known =
            counted.iter_mut().find(|(of, by, _)| op.is_some() && *of == columns && *by == op);
        match known {
            Some((_, _, share)) => *share = share.min(own),
            None => counted.push((columns, op, own)),
        }
    }
    counted.into_iter().map(|(_, _, share)| share).product()
}

fn is_or(condition: &Arc<dyn PhysicalExpr>) -> bool {
    condition.downcast_ref::<BinaryExpr>().is_some_and(|either| *either.op() == Operator::Or)
}

fn share_of_one(condition: &Arc<dyn PhysicalExpr>, given: &[&Arc<dyn PhysicalExpr>]) -> f64 {
    let share = |of| share_of_all(split_conjunction(of), given);
    if let Some(compared) = condition.downcast_ref::<BinaryExpr>() {
        let (left, right) = (compared.left(), compared.right());
        return match compared.op() {
            Operator::Or => (share(left) + share(right)).min(1.0),
            Operator::Eq | Operator::IsNotDistinctFrom => EQUAL,
            Operator::NotEq | Operator::IsDistinctFrom => 1.0 - EQUAL,
            Operator::LtEq | Operator::GtEq if bounds_nothing(compared) => 1.0,
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => COMPARED,
            _ => KEPT,
        };
    }
    if let Some(listed) = condition.downcast_ref::<InListExpr>() {
        let values = u32::try_from(listed.list().len()).unwrap_or(u32::MAX);
        let among = (f64::from(values) * EQUAL).min(KEPT);
        return if listed.negated() { 1.0 - among } else { among };
    }
    if let Some(like) = condition.downcast_ref::<LikeExpr>() {
        return if like.negated() { 1.0 - EQUAL } else { EQUAL };
    }
    if let Some(not) = condition.downcast_ref::<NotExpr>() {
        return 1.0 - share(not.arg());
    }
    if condition.is::<IsNotNullExpr>() {
        return 1.0;
    }
    if condition.is::<IsNullExpr>() { EQUAL } else { KEPT }
}

/// Whether a comparison with an end of a type excludes only values that become NULL when the column
/// is read.
fn bounds_nothing(compared: &BinaryExpr) -> bool {
    let Some(value) = compared.right().downcast_ref::<Literal>().map(Literal::value) else {
        return false;
    };
    ends_of_sound(&value.data_type()).is_some_and(|(first, last)| match compared.op() {
        Operator::GtEq => *value == first,
        Operator::LtEq => *value == last,
        _ => false,
    })
}

/// The position of a column.
pub(super) fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, lit, not};

    use super::*;

    /// A condition in two forms counts once.
    #[test]
    fn a_condition_on_the_same_columns_counts_once() {
        let schema = Schema::new(vec![
            Field::new("x", DataType::Int64, true),
            Field::new("y", DataType::Int64, true),
        ]);
        let compare = |name: &str, op: Operator, value: i64| {
            binary(col(name, &schema).unwrap(), op, lit(value), &schema).unwrap()
        };
        let both = |a, b| binary(a, Operator::And, b, &schema).unwrap();
        let below = compare("x", Operator::Lt, 5);
        let again = both(below.clone(), compare("x", Operator::Lt, 7));
        let is = |condition: &Arc<dyn PhysicalExpr>, expected: f64| {
            assert!((share(condition) - expected).abs() < 1e-12)
        };
        is(&again, COMPARED);
        let between = both(again.clone(), compare("x", Operator::Gt, 1));
        is(&between, COMPARED * COMPARED);
        let other = both(again, compare("y", Operator::Lt, 7));
        is(&other, COMPARED * COMPARED);
        let equal = both(below.clone(), compare("x", Operator::Eq, 5));
        is(&equal, COMPARED * EQUAL);
        is(&not(below).unwrap(), 1.0 - COMPARED);
    }

    /// Conditions that exclude NaN exclude hardly any rows.
    #[test]
    fn ends_of_types_bound_nothing() {
        let schema = Schema::new(vec![Field::new("x", DataType::Float64, true)]);
        for (op, value, expected) in [
            (Operator::LtEq, f64::INFINITY, 1.0),
            (Operator::GtEq, f64::NEG_INFINITY, 1.0),
            (Operator::GtEq, f64::INFINITY, COMPARED),
            (Operator::Lt, f64::INFINITY, COMPARED),
            (Operator::LtEq, 7.0, COMPARED),
        ] {
            let x = col("x", &schema).unwrap();
            let condition = binary(x, op, lit(value), &schema).unwrap();
            assert!((share(&condition) - expected).abs() < 1e-12, "{condition}");
        }
    }

    /// A condition beside an OR adds nothing within its branches, and a repeated condition adds
    /// nothing.
    #[test]
    fn a_condition_that_is_given_counts_once() {
        let schema = Schema::new(vec![
            Field::new("x", DataType::Int64, true),
            Field::new("y", DataType::Int64, true),
            Field::new("z", DataType::Int64, true),
        ]);
        let compare = |name: &str, op: Operator, value: i64| {
            binary(col(name, &schema).unwrap(), op, lit(value), &schema).unwrap()
        };
        let join = |a, op, b| binary(a, op, b, &schema).unwrap();
        let (x, y) = (compare("x", Operator::Eq, 5), compare("y", Operator::Lt, 5));
        let of_z = |op| compare("z", op, 3);
        let is = |condition: &Arc<dyn PhysicalExpr>, expected: f64| {
            assert!((share(condition) - expected).abs() < 1e-12, "{condition}")
        };
        let branch = |op| join(join(x.clone(), Operator::And, of_z(op)), Operator::And, y.clone());
        let either = join(branch(Operator::Lt), Operator::Or, branch(Operator::Eq));
        let alone = EQUAL * COMPARED * (COMPARED + EQUAL);
        is(&either, alone);
        for parts in [[&x, &y, &either], [&either, &y, &x]] {
            let all = parts.map(Arc::clone).into_iter();
            is(&all.reduce(|a, b| join(a, Operator::And, b)).unwrap(), alone);
        }
        is(&join(x.clone(), Operator::And, x), EQUAL);
    }

    #[test]
    fn numbers_of_rows_are_rounded() {
        for (rows, expected) in
            [(0, 8_192), (8_193, 8_192), (16_383, 8_192), (16_384, 16_384), (6_001_215, 4_194_304)]
        {
            assert_eq!(rounded(rows), expected);
        }
    }
}
