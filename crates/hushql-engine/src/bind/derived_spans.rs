//! The time between two timestamps as a column of a subquery, which an aggregate reads above it: a
//! number of seconds, as in the aggregate itself.
//!
//! In: a plan before the planner's coercion. Out: the same plan with such columns in seconds, and
//! with conditions on them in seconds, too. If something reads such a column that no number of
//! seconds can stand for, the plan stays as it is. What a query shows without an aggregate stays a
//! duration.
//!
//! ```text
//! SELECT AVG(gap) FROM (SELECT ts - LAG(ts) OVER (PARTITION BY id ORDER BY ts) AS gap FROM t)     gap in seconds
//! … WHERE gap < INTERVAL '1 day'                                                                   gap < 86400.0
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Alias, Between, Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Subquery, lit,
};
use num_traits::ToPrimitive;

use super::spans::constant_microseconds;
use super::temporal::compares;
use super::time_between::{in_seconds, operand};

/// The plan with the time between timestamps in seconds where aggregates read it through a
/// subquery.
pub(super) fn read_in_seconds(plan: LogicalPlan) -> LogicalPlan {
    let has_one = plan.exists(|node| {
        let LogicalPlan::Projection(projection) = node else { return Ok(false) };
        let schema = projection.input.schema();
        Ok(projection.expr.iter().any(|expr| is_span(unaliased(expr), schema)))
    });
    if !has_one.unwrap_or(false) {
        return plan;
    }
    // A reader that needs a duration keeps it.
    rebuilt(plan.clone(), false).unwrap_or(plan)
}

/// The plan with its differences in seconds, if it is below an aggregate.
///
/// # Errors
/// Those of planning, and one for a reader of a difference that cannot read seconds.
fn rebuilt(plan: LogicalPlan, is_read: bool) -> Result<LogicalPlan> {
    let aggregates = is_read || matches!(plan, LogicalPlan::Aggregate(_));
    let before: Vec<DFSchemaRef> =
        plan.inputs().into_iter().map(|input| Arc::clone(input.schema())).collect();
    let plan = plan.map_children(|child| rebuilt(child, aggregates).map(Transformed::yes))?.data;
    let plan = plan.map_subqueries(|inner| rebuilt(inner, false).map(Transformed::yes))?.data;
    let spans = changed_columns(&before, &plan);
    let schema = merge_schema(&plan.inputs());
    let converts = is_read && matches!(plan, LogicalPlan::Projection(_));
    if spans.is_empty() && !converts {
        return Ok(plan);
    }
    if !spans.is_empty() && !reads_by_name(&plan, &spans) {
        return plan_err!("this operator reads no seconds");
    }
    let names = NamePreserver::new(&plan);
    let read = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = match converts && is_span(unaliased(&expr), &schema) {
            true if mentions(&expr, &spans) => return plan_err!("a difference of differences"),
            true => difference_in_seconds(expr, &schema),
            false => in_spans(expr, &spans)?,
        };
        Ok(Transformed::yes(name.restore(expr)))
    })?;
    read.data.recompute_schema()
}

/// The columns of a node's inputs that were durations and are seconds now.
fn changed_columns(before: &[DFSchemaRef], plan: &LogicalPlan) -> Vec<Column> {
    let inputs = plan.inputs();
    let pairs = before.iter().zip(&inputs);
    let columns = pairs.flat_map(|(before, now)| {
        let fields = before.fields().iter().zip(now.schema().iter());
        fields.filter_map(|(had, (qualifier, has))| {
            let changed = had.data_type() != has.data_type();
            changed.then(|| Column::new(qualifier.cloned(), has.name()))
        })
    });
    columns.collect()
}

/// True if a node that has such columns in its inputs reads them in its expressions alone: groups,
/// the keys of joins and the branches of a union need the type that they have.
fn reads_by_name(plan: &LogicalPlan, spans: &[Column]) -> bool {
    let is_free = |expr: &Expr| !mentions(expr, spans);
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.iter().all(|key| !is_own(unaliased(key), spans))
        }
        LogicalPlan::Join(join) => join.on.iter().all(|(l, r)| is_free(l) && is_free(r)),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Limit(_) => true,
        LogicalPlan::Union(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::DescribeTable(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_) => false,
    }
}

fn unaliased(expr: &Expr) -> &Expr {
    if let Expr::Alias(alias) = expr { unaliased(&alias.expr) } else { expr }
}

/// True if an expression is a difference of two timestamps.
fn is_span(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) = expr else {
        return false;
    };
    let is_moment =
        |side: &Expr| side.get_type(schema).is_ok_and(|own| matches!(own, DataType::Timestamp(..)));
    is_moment(left) && is_moment(right)
}

fn difference_in_seconds(expr: Expr, schema: &DFSchema) -> Expr {
    if let Expr::Alias(Alias { expr, relation, name, metadata }) = expr {
        let expr = Box::new(difference_in_seconds(*expr, schema));
        return Expr::Alias(Alias { expr, relation, name, metadata });
    }
    in_seconds(expr, schema)
}

fn is_own(expr: &Expr, spans: &[Column]) -> bool {
    expr.try_as_col().is_some_and(|column| spans.contains(column))
}

fn mentions(expr: &Expr, spans: &[Column]) -> bool {
    let found = |part: &Expr| is_own(part, spans) || is_read_within(part, spans);
    expr.exists(|part| Ok(found(part))).unwrap_or(true)
}

/// True if a subquery reads such a column of the query around it.
fn is_read_within(expr: &Expr, spans: &[Column]) -> bool {
    let outer = |subquery: &Subquery| {
        subquery.outer_ref_columns.iter().any(|column| is_read_within(column, spans))
    };
    if let Expr::OuterReferenceColumn(_, column) = expr {
        return spans.contains(column);
    }
    if let Expr::ScalarSubquery(subquery)
    | Expr::Exists(Exists { subquery, .. })
    | Expr::InSubquery(InSubquery { subquery, .. })
    | Expr::SetComparison(SetComparison { subquery, .. }) = expr
    {
        return outer(subquery);
    }
    false
}

/// An expression whose columns of time between timestamps are seconds.
///
/// # Errors
/// For anything that cannot read seconds.
fn in_spans(expr: Expr, spans: &[Column]) -> Result<Expr> {
    if !mentions(&expr, spans) || is_own(&expr, spans) {
        return Ok(expr);
    }
    if is_read_within(&expr, spans) {
        return plan_err!("a subquery reads no seconds of the query around it");
    }
    if let Expr::ScalarFunction(call) = &expr
        && let Some(own) = operand(call).or_else(|| epoch(&call.args))
        && is_own(own, spans)
    {
        return Ok(own.clone());
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr
        && compares(*op)
        && (is_own(left, spans) || is_own(right, spans))
    {
        let (left, right) = (seconds(left, spans)?, seconds(right, spans)?);
        return Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))));
    }
    if let Expr::Between(Between { expr: own, negated, low, high }) = &expr
        && is_own(own, spans)
    {
        let (low, high) = (Box::new(seconds(low, spans)?), Box::new(seconds(high, spans)?));
        return Ok(Expr::Between(Between::new(own.clone(), *negated, low, high)));
    }
    let takes_any = matches!(
        expr,
        Expr::Alias(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
    );
    let read = expr.map_children(|part| {
        if !takes_any && is_own(&part, spans) {
            return plan_err!("only an aggregate or an interval takes seconds");
        }
        in_spans(part, spans).map(Transformed::yes)
    })?;
    Ok(read.data)
}

/// One side of a comparison of seconds: such a column, or a constant interval.
fn seconds(side: &Expr, spans: &[Column]) -> Result<Expr> {
    if is_own(side, spans) {
        return Ok(side.clone());
    }
    let Some(ScalarValue::DurationMicrosecond(Some(microseconds))) = constant_microseconds(side)
    else {
        return plan_err!("only an interval is compared with seconds");
    };
    Ok(lit(microseconds.to_f64().unwrap_or(f64::MAX) / 1e6))
}

/// The argument of EXTRACT(EPOCH FROM x).
fn epoch(arguments: &[Expr]) -> Option<&Expr> {
    let [Expr::Literal(part, _), x] = arguments else { return None };
    let is_epoch = part.try_as_str().flatten()?.eq_ignore_ascii_case("epoch");
    is_epoch.then_some(x)
}
