//! A subquery as a value that may have several rows.
//!
//! In: a subquery above a release. Out: the same subquery as one row: its value if it has one row,
//! and otherwise NULL. The number of its rows is known only when it runs, after the charge, and
//! DataFusion would fail then.
//!
//! ```text
//! (SELECT title FROM wards)      NULL where wards has several rows
//! ```

use std::sync::Arc;

use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, lit, when,
};

use crate::analysis::below::relation::named;
use crate::catalog::RESERVED;

/// The subquery as one row; `None` if it already has at most one. Also `None` if it depends on
/// outer rows, because DataFusion then accepts only aggregates.
///
/// # Errors
/// DataFusion's error, if the plan is not valid.
pub(super) fn in_one_row(subquery: &Subquery) -> Result<Option<Subquery>> {
    let plan = &subquery.subquery;
    if !subquery.outer_ref_columns.is_empty() || has_one_row(plan) {
        return Ok(None);
    }
    let Some((qualifier, field)) = plan.schema().iter().next() else { return Ok(None) };
    let (value, rows) = (format!("{RESERVED}_value"), format!("{RESERVED}_rows"));
    let shown = Expr::Column((qualifier, field).into());
    let aggregates = vec![
        first_value(shown, Vec::new()).alias(&value),
        count(lit(ScalarValue::Int64(Some(1)))).alias(&rows),
    ];
    let all = LogicalPlanBuilder::from(plan.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), aggregates)?
        .build()?;
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let one = when(column(&rows).eq(lit(1_i64)), column(&value)).end()?;
    let one = named(one, qualifier, field.name());
    let one = LogicalPlan::Projection(Projection::try_new(vec![one], Arc::new(all))?);
    Ok(Some(subquery.with_plan(Arc::new(one))))
}

/// True if a plan has at most one row, for any contents of its tables.
fn has_one_row(plan: &LogicalPlan) -> bool {
    let one = |fetch: Option<&Expr>| {
        matches!(fetch, Some(Expr::Literal(ScalarValue::Int64(Some(0 | 1)), _)))
    };
    if let LogicalPlan::Aggregate(Aggregate { group_expr, .. }) = plan {
        return group_expr.is_empty();
    }
    if let LogicalPlan::Limit(limit) = plan {
        return one(limit.fetch.as_deref()) || has_one_row(&limit.input);
    }
    if let LogicalPlan::Projection(projection) = plan {
        return has_one_row(&projection.input);
    }
    if let LogicalPlan::Filter(filter) = plan {
        return has_one_row(&filter.input);
    }
    if let LogicalPlan::SubqueryAlias(alias) = plan {
        return has_one_row(&alias.input);
    }
    if let LogicalPlan::Sort(sort) = plan {
        return sort.fetch == Some(1) || has_one_row(&sort.input);
    }
    if let LogicalPlan::Values(values) = plan {
        return values.values.len() <= 1;
    }
    matches!(plan, LogicalPlan::EmptyRelation(_))
}
