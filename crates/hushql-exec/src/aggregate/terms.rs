//! Terms: the columns of exact integers that an aggregation over rows adds up.
//!
//! In: column positions, grids and intervals. Out: the same aggregate call for a logical plan (if
//! every row is a unit) or for a finished physical one (if [`SampleContributionsExec`] bounded the
//! rows). It assumes that no operator below duplicates rows after they were bounded. It guarantees
//! that both plans count and clamp by the same description, and that every output of a partition is
//! the integer of its own rows, so that partitions add up.
//!
//! [`SampleContributionsExec`]: crate::operator::sample_rows::SampleContributionsExec
//!
//! ```text
//! let kept = Arc::new(SampleContributionsExec::new(rows, 0, vec![1], limits, key)?);
//! let counts = summed(kept, &[0, 1], &[Term { kind: TermKind::Count, filter: None }])?;
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::{AggregateUDF, Expr, ExprFunctionExt};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{Column as PhysicalColumn, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};

use super::fixed_sum::{FixedSum, Measured};
use crate::grid::Grid;

#[cfg(test)]
mod tests;

/// One output column of an aggregation over rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// What is counted or summed.
    pub kind: TermKind,
    /// FILTER: the position of a Boolean column, NULL is false.
    pub filter: Option<usize>,
}

/// What a term adds for each row. Columns are positions in the aggregated rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermKind {
    /// 1.
    Count,
    /// 1 where the column is not NULL.
    CountValues(usize),
    /// The value, clamped to [lo, hi] grid steps and transformed by `measured`; 0 for NULL.
    Sum {
        /// The column.
        column: usize,
        /// The grid of its steps.
        grid: Grid,
        /// The least number of steps.
        lo: i128,
        /// The largest number of steps.
        hi: i128,
        /// What each value contributes.
        measured: Measured,
    },
}

impl Term {
    /// The aggregate function, and its column; `None` stands for a constant.
    fn function(&self) -> Result<(Arc<AggregateUDF>, Option<usize>)> {
        match self.kind {
            TermKind::Count => Ok((count_udaf(), None)),
            TermKind::CountValues(column) => Ok((count_udaf(), Some(column))),
            TermKind::Sum { column, grid, lo, hi, measured } => {
                let sum = FixedSum::new(grid, lo, hi, measured)?;
                Ok((Arc::new(AggregateUDF::new_from_impl(sum)), Some(column)))
            }
        }
    }

    /// The aggregate call over rows of this schema.
    ///
    /// # Errors
    /// A planning error for an empty interval or a missing column.
    pub fn logical(&self, schema: &DFSchema) -> Result<Expr> {
        let column = |i: usize| {
            if i >= schema.fields().len() {
                return plan_err!("an aggregated column is missing");
            }
            Ok(Expr::Column(Column::from(schema.qualified_field(i))))
        };
        let (function, argument) = self.function()?;
        let argument = argument.map_or(Ok(Expr::Literal(one(), None)), column)?;
        let call = function.call(vec![argument]);
        match self.filter {
            Some(filter) => call.filter(column(filter)?).build(),
            None => Ok(call),
        }
    }
}

/// Counts and sums of bounded rows: GROUP BY the columns at `groups`, one column for each term.
///
/// The columns are the groups, then Int64 counts and Decimal128(38, 0) raw sums, named `sum0`,
/// `sum1`, …
///
/// # Guarantee
/// For every group, its output rows add up to the term over all rows of the group, exactly, for
/// every partitioning. A group has at most one row in each partition, and none if it has no rows;
/// without `groups`, every partition has one row.
///
/// # Errors
/// A planning error for an empty interval, a missing column, or a filter that is not Boolean.
pub fn summed(
    rows: Arc<dyn ExecutionPlan>,
    groups: &[usize],
    terms: &[Term],
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let column = |i: usize| -> Result<(Arc<dyn PhysicalExpr>, String)> {
        let Some(field) = schema.fields().get(i) else {
            return plan_err!("an aggregated column is missing");
        };
        Ok((Arc::new(PhysicalColumn::new(field.name(), i)), field.name().clone()))
    };
    let groups = groups.iter().map(|group| column(*group)).collect::<Result<Vec<_>>>()?;
    let (mut calls, mut filters) = (Vec::new(), Vec::new());
    for (i, term) in terms.iter().enumerate() {
        let (function, argument) = term.function()?;
        let argument = match argument {
            Some(argument) => column(argument)?.0,
            None => Arc::new(Literal::new(one())),
        };
        let call = AggregateExprBuilder::new(function, vec![argument])
            .schema(Arc::clone(&schema))
            .alias(format!("sum{i}"))
            .build()?;
        calls.push(Arc::new(call));
        filters.push(match term.filter.map(column) {
            Some(filter) => {
                let (filter, _) = filter?;
                if filter.data_type(&schema)? != DataType::Boolean {
                    return plan_err!("a filter is not a Boolean column");
                }
                Some(filter)
            }
            None => None,
        });
    }
    // No optimizer runs after this. `Single` finishes each partition separately. Unlike a partial
    // step, it never passes rows on unaggregated. A later step adds up the partitions.
    let groups = PhysicalGroupBy::new_single(groups);
    let sums = AggregateExec::try_new(AggregateMode::Single, groups, calls, filters, rows, schema)?;
    Ok(Arc::new(sums))
}

fn one() -> ScalarValue {
    ScalarValue::Int64(Some(1))
}
