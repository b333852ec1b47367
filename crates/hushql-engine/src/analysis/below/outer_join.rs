//! Outer joins that preserve public rows, directly below GROUP BY.
//!
//! In: an aggregate over such a join, grouped by columns of the public rows. Out: the inner join,
//! because all keys are shown anyway. A public row without a match adds nothing, so aggregates must
//! not read such rows: a row that exists because a person is absent would reveal the absence.
//!
//! ```text
//! nations n LEFT JOIN customers c ON c.nation = n.code GROUP BY n.name
//!   COUNT(c.id)                              0 for a nation without customers
//!   … WHERE n.region = 'north'               only the nations of the north
//!   COUNT(*) FILTER (WHERE c.id IS NULL)     refused
//! ```

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder,
};

use super::join_conditions::{Pool, conditions_of, plain};
use super::relation::PrivateRelation;
use crate::analysis::below::pair::in_order;
use crate::analysis::below::refusals::operator;
use crate::analysis::below::relation::has_subquery;
use crate::analysis::below::walk::Walk;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::refusal::{Reason, Refusal};

impl Walk<'_> {
    /// The rows of a GROUP BY over an outer join that preserves public rows, if all its keys are
    /// shown; `None` for any other input.
    pub(super) fn preserving(
        &mut self,
        aggregate: &Aggregate,
    ) -> Result<Option<PrivateRelation>, NotAnalyzed> {
        let Some((join, filters)) = joined(aggregate.input.as_ref()) else { return Ok(None) };
        let (preserved, other) = match join.join_type {
            JoinType::Left => (&join.left, &join.right),
            JoinType::Right => (&join.right, &join.left),
            JoinType::Inner
            | JoinType::Full
            | JoinType::LeftSemi
            | JoinType::RightSemi
            | JoinType::LeftAnti
            | JoinType::RightAnti
            | JoinType::LeftMark
            | JoinType::RightMark => return Ok(None),
        };
        if !self.is_public(preserved) || self.is_public(other) {
            return Ok(None);
        }
        let is_preserved = |column: &Column| preserved.schema().is_column_from_schema(column);
        let only_preserved = |e: &Expr| e.column_refs().iter().all(|column| is_preserved(column));
        let reads_preserved = |e: &Expr| e.column_refs().iter().any(|column| is_preserved(column));
        // Conditions in WHERE that name only public columns can also be applied before the join.
        if filters.iter().any(|filter| has_subquery(filter) || !only_preserved(filter)) {
            return Ok(None);
        }
        let preserved = match conjunction(filters.into_iter().cloned()) {
            None => Arc::clone(preserved),
            Some(filter) => {
                let left = LogicalPlanBuilder::from(preserved.as_ref().clone()).filter(filter);
                Arc::new(left.and_then(LogicalPlanBuilder::build).map_err(|e| internal(&e))?)
            }
        };
        // Several keys are columns of one public row, so the combinations of the rows are shown.
        let is_key = |key: &Expr| key.try_as_col().is_some_and(is_preserved);
        let by_preserved =
            !aggregate.group_expr.is_empty() && aggregate.group_expr.iter().all(is_key);
        if !by_preserved || aggregate.aggr_expr.iter().any(reads_preserved) {
            return Err(preserved_rows().into());
        }
        if aggregate.aggr_expr.iter().any(has_subquery) {
            return Err(operator(
                "a subquery above an outer join that keeps public rows",
                "its value in FROM: n LEFT JOIN (SELECT c.*, EXISTS (SELECT …) AS e FROM c) AS c ON …, with e in its place; or JOIN in place of LEFT JOIN",
            )
            .into());
        }
        for call in aggregate.aggr_expr.iter().filter_map(aggregate_call) {
            if self.reads_the_missing(call, join.schema.as_ref())? {
                return Err(missing().into());
            }
        }
        let conditions = conditions_of(join);
        if conditions.iter().any(has_subquery) {
            return Err(operator("a subquery in ON", "the condition in WHERE").into());
        }
        if conditions.iter().any(only_preserved) {
            return Err(operator(
                "a condition on the public rows alone, in ON",
                "the condition in a subquery over the public rows",
            )
            .into());
        }
        plain(join)?;
        let mut pool = Pool { conditions: conditions.clone() };
        let (preserved, other) = (self.rows(&preserved)?, self.rows(other)?);
        let flow = self.with_public(other, preserved, &mut pool, JoinType::Inner)?;
        let mut flow = in_order(flow, &join.schema)?;
        // These conditions exclude no key: a public row without a match keeps its key.
        flow.scope.conditions.retain(|condition| !conditions.contains(condition));
        self.step("Keys of public rows without a match are shown, too, and count nothing");
        Ok(Some(flow))
    }

    /// True if an aggregate reads a row whose columns are all NULL.
    fn reads_the_missing(
        &self,
        call: &AggregateFunction,
        schema: &DFSchema,
    ) -> Result<bool, NotAnalyzed> {
        let params = &call.params;
        let sorted = params.order_by.iter().map(|sort| &sort.expr);
        let read: Vec<&Expr> =
            params.args.iter().chain(sorted).filter(|e| e.any_column_refs()).collect();
        let filter = params.filter.as_deref().filter(|e| e.any_column_refs());
        let value = read.into_iter().cloned().map(Expr::is_not_null).reduce(Expr::or);
        let Some(reads) =
            filter.cloned().map(Expr::is_true).into_iter().chain(value).reduce(Expr::and)
        else {
            return Ok(false);
        };
        let plan = LogicalPlanBuilder::empty(true)
            .project([of_nothing(reads, schema)?])
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        // If this cannot be evaluated, the row counts as read.
        let told = self.tables.read(&plan);
        let told = told.as_ref().and_then(|rows| rows.columns().first()?.as_boolean_opt());
        Ok(told.is_none_or(|read| read.len() != 1 || read.is_null(0) || read.value(0)))
    }
}

/// The join at the top of some rows, and the conditions of the WHERE above it.
fn joined(plan: &LogicalPlan) -> Option<(&Join, Vec<&Expr>)> {
    if let LogicalPlan::Join(join) = plan {
        return Some((join, Vec::new()));
    }
    let LogicalPlan::Filter(filter) = plan else { return None };
    let LogicalPlan::Join(join) = filter.input.as_ref() else { return None };
    Some((join, split_conjunction(&filter.predicate)))
}

/// The aggregate of an output column.
fn aggregate_call(mut expr: &Expr) -> Option<&AggregateFunction> {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    let Expr::AggregateFunction(call) = expr else { return None };
    Some(call)
}

/// An expression with NULL in place of every column.
fn of_nothing(expr: Expr, schema: &DFSchema) -> Result<Expr, NotAnalyzed> {
    let nothing = expr.transform_up(|e| {
        let Expr::Column(_) = &e else { return Ok(Transformed::no(e)) };
        let null = ScalarValue::try_new_null(&e.get_type(schema)?)?;
        Ok(Transformed::yes(Expr::Literal(null, None)))
    });
    nothing.map(|t| t.data).map_err(|e| internal(&e))
}

fn missing() -> Refusal {
    Refusal::new(
        Reason::Operator,
        "an outer join that keeps public rows",
        "a public row without a matching private row counts nothing, so no aggregate may read one",
        "COUNT(c.id) or SUM(c.x), which leave NULL out, of the private rows c",
    )
}

pub(crate) fn preserved_rows() -> Refusal {
    operator(
        "an outer join that keeps public rows",
        "JOIN in place of LEFT JOIN, because groups of public rows are shown even without a match; or LEFT JOIN directly below a GROUP BY that names only public columns, with aggregates of private columns, and a WHERE on public columns",
    )
}
