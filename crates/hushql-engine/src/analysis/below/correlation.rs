//! Splits a subquery below a release into its rows, and the conditions that name columns of the
//! outer query.
//!
//! In: the plan of a subquery. Out: its rows without outer columns, and the conditions on them that
//! name outer columns. An aggregate below such a condition is computed for every value that the
//! condition compares, so that the condition can be applied above it.
//!
//! ```text
//! FROM orders o WHERE o.customer_id = c.id AND o.total > 5          orders, total > 5;  o.customer_id = c.id
//! … GROUP BY o.status HAVING COUNT(*) > 3                           … GROUP BY o.status, o.customer_id HAVING COUNT(*) > 3
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{Cast, Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Filter, JoinType, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, Sort,
};

use crate::analysis::below::join_conditions::widened;
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::shape::{readable, type_of};
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::analysis::recursion::deeper;
use crate::refusal::{Reason, Refusal};

/// A subquery without outer columns, and the conditions that name outer columns.
#[derive(Debug)]
pub(super) struct Correlated {
    pub(super) rows: LogicalPlan,
    /// Conditions on the rows, in which outer columns are marked.
    pub(super) conditions: Vec<Expr>,
}

/// A subquery with at most one row for each outer row: an aggregate of the rows that match.
pub(super) struct ScalarAggregate<'a> {
    pub(super) value: Expr,
    pub(super) having: Option<Expr>,
    pub(super) aggregate: &'a Aggregate,
}

impl Walk<'_> {
    /// Splits a subquery. `counted` is true if the number of its rows matters, and not only whether
    /// there are some.
    pub(super) fn uncorrelated(
        &mut self,
        plan: &LogicalPlan,
        counted: bool,
    ) -> Result<Correlated, NotAnalyzed> {
        deeper(|| self.uncorrelated_node(plan, counted))
    }

    fn uncorrelated_node(
        &mut self,
        plan: &LogicalPlan,
        counted: bool,
    ) -> Result<Correlated, NotAnalyzed> {
        match plan {
            LogicalPlan::Filter(filter) => self.of_filter(filter, counted),
            LogicalPlan::Aggregate(aggregate) if !aggregate.group_expr.is_empty() => {
                let below = self.uncorrelated(&aggregate.input, true)?;
                if below.conditions.is_empty() && names_outside(plan)?.is_empty() {
                    return Ok(Correlated { rows: plan.clone(), conditions: Vec::new() });
                }
                by_keys(aggregate, below)
            }
            other if !names_outside(other)?.is_empty() => Err(deep().into()),
            other => Ok(Correlated { rows: other.clone(), conditions: Vec::new() }),
        }
    }

    fn of_filter(&mut self, filter: &Filter, counted: bool) -> Result<Correlated, NotAnalyzed> {
        let Correlated { mut rows, mut conditions } = self.uncorrelated(&filter.input, counted)?;
        let (mut own, mut nested) = (Vec::new(), Vec::new());
        let around: &DFSchema = filter.input.schema();
        for condition in split_conjunction_owned(filter.predicate.clone()) {
            let plain = condition.contains_outer();
            if outside_of(&condition, &[around])?.is_empty() {
                own.push(condition);
            } else if let (Expr::Exists(Exists { subquery, negated: false }), false, false) =
                (&condition, plain, counted)
            {
                nested.push(subquery.subquery.as_ref().clone());
            } else if plain && !has_nested(&condition)? {
                conditions.push(condition);
            } else {
                return Err(two_levels(&condition).into());
            }
        }
        if let Some(own) = own.into_iter().reduce(Expr::and) {
            let filtered = Filter::try_new(own, Arc::new(rows));
            rows = LogicalPlan::Filter(filtered.map_err(|e| internal(&e))?);
        }
        for subquery in nested {
            (rows, conditions) = self.flattened(rows, conditions, &subquery)?;
        }
        Ok(Correlated { rows, conditions })
    }

    /// Joins rows with the rows of a nested EXISTS that names columns further outside. EXISTS holds
    /// if such a pair exists.
    fn flattened(
        &mut self,
        rows: LogicalPlan,
        mut conditions: Vec<Expr>,
        subquery: &LogicalPlan,
    ) -> Result<(LogicalPlan, Vec<Expr>), NotAnalyzed> {
        let inner = self.uncorrelated(existing(subquery), false)?;
        let before = inner.rows.schema().columns();
        let name = self.fresh("inner");
        let columns = before.iter().cloned().enumerate();
        let columns = columns.map(|(i, c)| Expr::Column(c).alias(format!("{name}_{i}")));
        let renamed = LogicalPlanBuilder::from(inner.rows)
            .project(columns.collect::<Vec<_>>())
            .and_then(|rows| rows.alias(TableReference::bare(name)))
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        let after = renamed.schema().columns();
        let mut on = Vec::new();
        for condition in inner.conditions {
            let condition = moved(condition, &before, &after, rows.schema())?;
            match condition.contains_outer() {
                true => conditions.push(condition),
                false => on.push(condition),
            }
        }
        let pairs = LogicalPlanBuilder::from(rows)
            .join_on(renamed, JoinType::Inner, on)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|e| internal(&e))?;
        Ok((pairs, conditions))
    }
}

/// A condition in which columns of a subquery have their new names, and outer columns from the rows
/// around it become plain columns.
fn moved(
    condition: Expr,
    before: &[Column],
    after: &[Column],
    around: &DFSchema,
) -> Result<Expr, NotAnalyzed> {
    let meant = |e: Expr| {
        Ok(match e {
            Expr::OuterReferenceColumn(_, column) if around.is_column_from_schema(&column) => {
                Transformed::yes(Expr::Column(column))
            }
            Expr::Column(column) => {
                let new = before.iter().position(|b| *b == column).and_then(|i| after.get(i));
                Transformed::yes(Expr::Column(new.cloned().unwrap_or(column)))
            }
            other => Transformed::no(other),
        })
    };
    condition.transform_up(meant).map(|t| t.data).map_err(|e| internal(&e))
}

/// The rows of a subquery that decide whether EXISTS holds.
pub(super) fn existing(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Distinct(Distinct::All(input))
        | LogicalPlan::Sort(Sort { input, fetch: None, .. }) => existing(input),
        LogicalPlan::Limit(limit) if leaves_one(limit) => existing(&limit.input),
        other => other,
    }
}

/// True if a LIMIT leaves a row whenever there are rows.
fn leaves_one(limit: &Limit) -> bool {
    let number = |expr: &Option<Box<Expr>>| match expr.as_deref() {
        Some(Expr::Literal(ScalarValue::Int64(n), _)) => *n,
        Some(_) => Some(-1),
        None => None,
    };
    number(&limit.skip).unwrap_or(0) == 0 && number(&limit.fetch).unwrap_or(1) >= 1
}

/// The value that a subquery selects, and the rows below it; `None` if it does not select exactly
/// one column.
pub(super) fn selected(plan: &LogicalPlan) -> Option<(Expr, &LogicalPlan)> {
    match plan {
        LogicalPlan::Projection(Projection { expr, input, .. }) => match expr.as_slice() {
            [one] => Some((one.clone().unalias(), input)),
            [..] => None,
        },
        LogicalPlan::Distinct(Distinct::All(input)) => selected(input),
        other => {
            let [column] = other.schema().columns().try_into().ok()?;
            Some((Expr::Column(column), other))
        }
    }
}

/// The aggregate of a subquery that is used as a value, over all rows or with groups.
pub(super) fn scalar_aggregate(plan: &LogicalPlan) -> Option<ScalarAggregate<'_>> {
    let (value, below) = selected(plan)?;
    let (having, below) = match below {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            (Some(predicate.clone()), input.as_ref())
        }
        other => (None, other),
    };
    let LogicalPlan::Aggregate(aggregate) = below else { return None };
    Some(ScalarAggregate { value, having, aggregate })
}

/// For a subquery with an aggregate over all rows, the condition (HAVING) under which it has its
/// row; `None` for other subqueries.
pub(super) fn single_row(plan: &LogicalPlan) -> Option<ScalarAggregate<'_>> {
    let (having, below) = match existing(plan) {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            (Some(predicate.clone()), input.as_ref())
        }
        other => (None, other),
    };
    let LogicalPlan::Aggregate(aggregate) = below else { return None };
    let value = Expr::Literal(ScalarValue::Boolean(Some(true)), None);
    aggregate.group_expr.is_empty().then_some(ScalarAggregate { value, having, aggregate })
}

/// Computes an aggregate for every value of the columns that conditions equate with outer columns,
/// and returns these conditions on its result.
///
/// # Guarantee
/// For each outer row, take the groups that meet the conditions. They are the groups of the
/// aggregate over the rows that meet these conditions, because all rows of one group have the same
/// value in each compared column, and equal values form one group. Floats are refused, because two
/// equal floats can form two groups.
pub(super) fn by_keys(aggregate: &Aggregate, below: Correlated) -> Result<Correlated, NotAnalyzed> {
    let around: &DFSchema = below.rows.schema();
    let calls = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
    for call in calls {
        if matches!(call, Expr::GroupingSet(_)) || !outside_of(call, &[around])?.is_empty() {
            return Err(deep().into());
        }
    }
    let mut keys = aggregate.group_expr.clone();
    let mut made = Vec::new();
    for condition in below.conditions {
        let Some((outer, inner)) = compared(&condition) else {
            return Err(not_equal(&condition).into());
        };
        let key = match widened(&inner, below.rows.schema()) {
            Some(column) => Expr::Column(column.clone()),
            None => inner.clone(),
        };
        if !is_exact(&type_of(&key, below.rows.schema())?) {
            return Err(not_equal(&condition).into());
        }
        let place = keys.iter().position(|k| k.clone().unalias() == key).unwrap_or_else(|| {
            keys.push(key.clone());
            keys.len() - 1
        });
        made.push((outer, inner, key, place));
    }
    let rows = Aggregate::try_new(Arc::new(below.rows), keys, aggregate.aggr_expr.clone());
    let rows = LogicalPlan::Aggregate(rows.map_err(|e| internal(&e))?);
    let columns = rows.schema().columns();
    let mut conditions = Vec::new();
    for (outer, inner, key, place) in made {
        let column = Expr::Column(columns.get(place).cloned().ok_or_else(lost)?);
        let inner = match inner {
            Expr::Cast(Cast { field, expr }) if *expr == key => {
                Expr::Cast(Cast { expr: Box::new(column), field })
            }
            _whole => column,
        };
        conditions.push(outer.eq(inner));
    }
    Ok(Correlated { rows, conditions })
}

/// The sides of an equality: one over outer columns alone, one over columns of the subquery alone.
fn compared(condition: &Expr) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return None;
    };
    let outer = |e: &Expr| e.contains_outer() && !e.any_column_refs();
    let inner = |e: &Expr| !e.contains_outer() && e.any_column_refs();
    if outer(left) && inner(right) {
        Some((left.as_ref().clone(), right.as_ref().clone()))
    } else if outer(right) && inner(left) {
        Some((right.as_ref().clone(), left.as_ref().clone()))
    } else {
        None
    }
}

/// True if two values of a type are in one group exactly when they are equal.
fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Time64(_)
                | DataType::Decimal128(..)
        )
}

/// The columns that a plan names and that belong to an outer query.
pub(super) fn names_outside(plan: &LogicalPlan) -> Result<Vec<Column>, NotAnalyzed> {
    deeper(|| outside_of_node(plan))
}

fn outside_of_node(plan: &LogicalPlan) -> Result<Vec<Column>, NotAnalyzed> {
    let inputs = plan.inputs();
    let mut found = Vec::new();
    for input in &inputs {
        found.extend(names_outside(input)?);
    }
    let schemas: Vec<&DFSchema> =
        inputs.iter().map(|input| -> &DFSchema { input.schema() }).collect();
    let mut expressions = Vec::new();
    plan.apply_expressions(|expr| {
        expressions.push(expr.clone());
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(|e| internal(&e))?;
    for expr in &expressions {
        found.extend(outside_of(expr, &schemas)?);
    }
    Ok(found)
}

/// The columns that an expression over some rows names and that belong to an outer query.
fn outside_of(expr: &Expr, rows: &[&DFSchema]) -> Result<Vec<Column>, NotAnalyzed> {
    let mut found = Vec::new();
    let mut nested = Vec::new();
    expr.apply(|e| {
        match e {
            Expr::OuterReferenceColumn(_, column) => found.push(column.clone()),
            other => nested.extend(subquery_of(other).cloned()),
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(|e| internal(&e))?;
    for plan in &nested {
        let own = |column: &Column| rows.iter().any(|s| s.is_column_from_schema(column));
        found.extend(names_outside(plan)?.into_iter().filter(|column| !own(column)));
    }
    Ok(found)
}

/// The plan of a subquery.
fn subquery_of(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        _ => None,
    }
}

fn has_nested(expr: &Expr) -> Result<bool, NotAnalyzed> {
    expr.exists(|e| Ok(subquery_of(e).is_some())).map_err(|e| internal(&e))
}

fn deep() -> Refusal {
    Refusal::new(
        Reason::Subquery,
        "a subquery",
        "the outer query's columns are named deep inside the subquery",
        "conditions with the outer query's columns in the subquery's own WHERE: EXISTS (SELECT 1 FROM t WHERE t.unit = outer.unit AND …)",
    )
}

fn two_levels(condition: &Expr) -> Refusal {
    Refusal::new(
        Reason::Subquery,
        readable(condition),
        "a subquery inside a subquery names columns of the outermost query, which only a whole EXISTS between ANDs can do, and not below an aggregate",
        "a join in place of the inner subquery: EXISTS (SELECT 1 FROM t JOIN s ON s.t_id = t.id WHERE t.unit = outer.unit AND s.x > outer.x)",
    )
}

fn not_equal(condition: &Expr) -> Refusal {
    Refusal::new(
        Reason::Subquery,
        readable(condition),
        "an aggregate in a subquery can use columns of the outer query only in equalities with its own columns",
        "t.unit = outer.unit, of whole numbers, texts or dates; for other conditions a join, and a GROUP BY with the unit and a key of the outer row",
    )
}
