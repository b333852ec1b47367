//! What is computed of releases: NULL in place of a failure.
//!
//! In: the public remainder of a query. Out: the same, in which a quotient of whole numbers or decimals is NULL where
//! its divisor is zero, and a cast is where it cannot be made. A released count is zero now and then by its noise
//! alone, and the query would fail after it was paid for.
//!
//! ```text
//! sum / n                sum / nullif(n, 0)
//! CAST(n AS TINYINT)     TRY_CAST(n AS TINYINT)
//! ```

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};

use super::flow::internal;
use crate::refusal::Refusal;

/// A plan in which no division and no cast of released values fails.
pub(super) fn total_remainder(plan: LogicalPlan) -> std::result::Result<LogicalPlan, Refusal> {
    let replaced = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let total = expr.transform_up(|e| total(e, &schema))?;
            Ok(total.update_data(|e| name.restore(e)))
        })
    });
    replaced.map(|t| t.data).map_err(|e| internal(&e))
}

fn total(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr, field }) => {
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr, field })))
        }
        other => divided(other, schema),
    }
}

fn divided(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let divides = matches!(op, Operator::Divide | Operator::Modulo);
    // What is not typed here names an outer query's column, and floats divide by zero without failing.
    let whole = right.get_type(schema).ok().filter(|t| t.is_numeric() && !t.is_floating());
    let zero = whole.filter(|_| divides).map(|t| ScalarValue::new_zero(&t)).transpose()?;
    let never = |zero: &ScalarValue| matches!(&*right, Expr::Literal(value, _) if value != zero);
    let Some(zero) = zero.filter(|zero| !never(zero)) else {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    };
    let right = Box::new(nullif(*right, Expr::Literal(zero, None)));
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}
