//! The largest difference between one row's changes of two scores, if the columns of the scores
//! have finitely many values.
//!
//! In: the score of each candidate as an expression of the row, and the ranges of its columns. Out:
//! over all rows that the ranges allow, the largest gap between the most and the least that a row
//! adds to a score. It can be much smaller than the range of the expression, because a row is the
//! same for all candidates.
//!
//! ```text
//! middle IN RANGE(20, 60, 5) BY SUM(ABS(age - middle)), age in 0..120
//!   range 0..100, but one age is at most 40 further from one middle than from another
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlanBuilder, Operator, lit, when};
use num_traits::ToPrimitive;

use crate::analysis::below::walk::Tables;
use crate::analysis::expr::facts::{Facts, Scope};
use crate::analysis::expr::shape::{parts_of, type_of};
use crate::analysis::expr::total;
use crate::analysis::measure::Input;
use crate::catalog::RESERVED;
use crate::grid::Grid;

/// The largest number of scores of single rows that are computed.
const MOST_TRIED: usize = 1_000_000;

/// The largest number of parts of all scores together.
const MOST_PARTS: usize = 20_000;

/// Functions that are exact on whole numbers.
const EXACT: [&str; 6] = ["abs", "clamp", "coalesce", "greatest", "least", "nullif"];

/// The score of one candidate: the number that a row adds to it.
#[derive(Debug)]
pub(crate) struct Scored {
    /// The condition under which a row counts.
    pub(crate) filter: Option<Expr>,
    /// The value that is added up or counted.
    pub(crate) value: Option<Expr>,
    /// The number that a row adds is clamped to `lo` and `hi`.
    pub(crate) lo: i128,
    pub(crate) hi: i128,
}

/// The result of trying all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oscillation {
    /// The largest difference, in units of the score.
    pub(crate) most: u128,
    /// How many rows were tried.
    pub(crate) rows: usize,
}

/// The largest difference between one row's changes of two scores. `None` if it is not known: for
/// columns other than short ranges of whole numbers, for expressions that are not exact, and for
/// too many of either.
///
/// # Guarantee
/// Take any row that reaches the scores. The most and the least that it adds to the score of a
/// candidate differ by at most this number. (A row adds 0 to a candidate for which it does not
/// count.) In each column, every such row has NULL or a whole number of the range that the scan and
/// the filters enforce. Each of these rows is tried, by the functions that run on rows. The result
/// depends only on the query and the declarations.
pub(crate) fn oscillation(
    scored: &[Scored],
    kind: &Input,
    grid: Grid,
    scope: &Scope,
    tables: &dyn Tables,
) -> Option<Oscillation> {
    let is_whole = matches!(grid, Grid::Integer);
    let adds_rows = matches!(kind, Input::Rows | Input::Values(_) | Input::Sum(_));
    let all = || scored.iter().flat_map(|one| one.filter.iter().chain(&one.value));
    let parts = all().map(parts_of).fold(0, usize::saturating_add);
    if !is_whole || !adds_rows || parts > MOST_PARTS || !all().all(|e| is_exact(e, scope)) {
        return None;
    }
    let columns: BTreeSet<&Column> = all().flat_map(Expr::column_refs).collect();
    let columns: Vec<&Column> = columns.into_iter().collect();
    let values: Option<Vec<Vec<Option<i64>>>> =
        columns.iter().map(|column| values_of(column, scope)).collect();
    let values = values?;
    let rows = values.iter().try_fold(1_usize, |n, own| n.checked_mul(own.len()))?;
    if rows.checked_mul(scored.len())? > MOST_TRIED {
        return None;
    }
    let table = TableReference::bare(format!("{RESERVED}_rows"));
    let name = |i: usize| format!("column{i}");
    let types: Option<Vec<DataType>> = columns
        .iter()
        .map(|column| type_of(&Expr::Column((*column).clone()), &scope.schema).ok())
        .collect();
    let types = types?;
    let fields = types.iter().enumerate().map(|(i, own)| Field::new(name(i), own.clone(), true));
    // Scores without columns still need a row.
    let fields = fields.chain([Field::new("row", DataType::Int64, true)]);
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema, combined(&values, &types, rows)?).ok()?;
    let scan = LogicalPlanBuilder::scan(table.clone(), tables.pinned(batch)?, None).ok()?;
    let facts = columns
        .iter()
        .map(|column| Some(Facts { nullable: true, ..scope.facts_of(column)?.clone() }));
    let mut facts = facts.collect::<Option<Vec<_>>>()?;
    facts.push(Facts::of_type(&DataType::Int64));
    let own = Scope::new(Arc::clone(scan.schema()), facts);
    let over_rows = |expr: &Expr| {
        let rewritten = expr.clone().transform_up(|e| {
            let Expr::Column(column) = &e else { return Ok(Transformed::no(e)) };
            let place = columns.iter().position(|known| *known == column);
            Ok(match place {
                Some(i) => {
                    Transformed::yes(Expr::Column(Column::new(Some(table.clone()), name(i))))
                }
                None => Transformed::no(e),
            })
        });
        total(&rewritten.ok()?.data, &own).ok().map(|total| total.expr)
    };
    let mut scores = Vec::with_capacity(scored.len());
    for (i, one) in scored.iter().enumerate() {
        let value = match (kind, &one.value) {
            (Input::Rows, _) => lit(1_i64),
            (Input::Values(_), Some(value)) => {
                when(over_rows(value)?.is_not_null(), lit(1_i64)).end().ok()?
            }
            (_, Some(value)) => over_rows(value)?,
            (_, None) => return None,
        };
        let value = match &one.filter {
            Some(filter) => when(over_rows(filter)?, value).end().ok()?,
            None => value,
        };
        scores.push(value.alias(format!("score{i}")));
    }
    let tried = tables.read(&scan.project(scores).ok()?.build().ok()?)?;
    let most = differences(&tried, scored, rows)?;
    Some(Oscillation { most, rows })
}

/// The largest difference between two columns of the same row.
fn differences(tried: &RecordBatch, scored: &[Scored], rows: usize) -> Option<u128> {
    if tried.num_rows() != rows || tried.num_columns() != scored.len() {
        return None;
    }
    let mut ends: Vec<Option<(i128, i128)>> = vec![None; rows];
    for (column, one) in tried.columns().iter().zip(scored) {
        let whole = cast(column, &DataType::Decimal128(38, 0)).ok()?;
        // A cast that fails returns NULL, which would look like a row that does not count.
        if whole.null_count() != column.null_count() {
            return None;
        }
        let whole = whole.as_primitive_opt::<Decimal128Type>()?;
        for (end, value) in ends.iter_mut().zip(whole.iter()) {
            let value = value.map_or(0, |value| value.clamp(one.lo, one.hi));
            *end = Some(end.map_or((value, value), |(lo, hi)| (lo.min(value), hi.max(value))));
        }
    }
    let mut most = ends.into_iter().flatten().map(|(lo, hi)| hi.checked_sub(lo));
    most.try_fold(0_i128, |all, one| Some(all.max(one?)))?.to_u128()
}

/// The whole numbers that a column can hold, and NULL.
fn values_of(column: &Column, scope: &Scope) -> Option<Vec<Option<i64>>> {
    let facts = scope.facts_of(column)?;
    let data_type = type_of(&Expr::Column(column.clone()), &scope.schema).ok()?;
    let (lo, hi) = if data_type == DataType::Boolean {
        (0, 1)
    } else if data_type.is_integer() && !facts.is_unit {
        facts.known().to_i128()?
    } else {
        return None;
    };
    let count = hi.checked_sub(lo)?.checked_add(2)?.to_usize().filter(|n| *n <= MOST_TRIED)?;
    let mut values = Vec::with_capacity(count);
    for value in lo..=hi {
        values.push(Some(value.to_i64()?));
    }
    values.push(None);
    Some(values)
}

/// Every combination of the columns' values (the last column changes fastest), and a column that
/// numbers the rows.
fn combined(values: &[Vec<Option<i64>>], types: &[DataType], rows: usize) -> Option<Vec<ArrayRef>> {
    let (mut columns, mut repeats): (Vec<ArrayRef>, usize) = (Vec::new(), rows);
    for (own, data_type) in values.iter().zip(types) {
        repeats /= own.len();
        let column: Int64Array =
            (0..rows).map(|row| own.get(row / repeats % own.len()).copied().flatten()).collect();
        let typed = cast(&column, data_type).ok()?;
        // A number outside the type would become NULL.
        if typed.null_count() != column.null_count() {
            return None;
        }
        columns.push(typed);
    }
    columns.push(Arc::new(Int64Array::from_iter_values((0_i64..).take(rows))));
    Some(columns)
}

/// True if an expression is computed exactly on whole numbers and truth values, and from its row
/// alone.
fn is_exact(expr: &Expr, scope: &Scope) -> bool {
    let mut exact = true;
    let walked = expr.apply(|e| {
        let is_whole = type_of(e, &scope.schema).is_ok_and(|own| {
            own.is_integer()
                || matches!(own, DataType::Boolean | DataType::Null | DataType::Decimal128(_, 0))
        });
        let is_plain = matches!(
            e,
            Expr::Column(_)
                | Expr::Literal(..)
                | Expr::Alias(_)
                | Expr::Negative(_)
                | Expr::Not(_)
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::IsTrue(_)
                | Expr::IsFalse(_)
                | Expr::IsUnknown(_)
                | Expr::IsNotTrue(_)
                | Expr::IsNotFalse(_)
                | Expr::IsNotUnknown(_)
                | Expr::Between(_)
                | Expr::InList(_)
                | Expr::Case(_)
                | Expr::Cast(_)
        );
        let is_operator = matches!(
            e,
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Plus
                    | Operator::Minus
                    | Operator::Multiply
                    | Operator::Modulo
                    | Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::And
                    | Operator::Or
                    | Operator::IsDistinctFrom
                    | Operator::IsNotDistinctFrom,
                ..
            })
        );
        let is_function =
            matches!(e, Expr::ScalarFunction(call) if EXACT.contains(&call.func.name()));
        // For all other expressions, the range of the expression is used.
        let is_listed = is_plain || is_operator || is_function;
        exact &= is_whole && is_listed;
        Ok(if exact { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    exact && walked.is_ok()
}
