//! Divisors above releases: NULL in place of zero.
//!
//! In: the public remainder of a query. Out: the same, in which a quotient of whole numbers or decimals is NULL where
//! its divisor is zero. A released count is zero now and then by its noise alone, and the query would fail after it
//! was paid for.
//!
//! ```text
//! sum / n        sum / nullif(n, 0)
//! ```

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};

use super::flow::internal;
use crate::refusal::Refusal;

/// A plan in which no division of released values fails.
pub(super) fn without_zero_divisors(
    plan: LogicalPlan,
) -> std::result::Result<LogicalPlan, Refusal> {
    let replaced = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let divided = expr.transform_up(|e| divided(e, &schema))?;
            Ok(divided.update_data(|e| name.restore(e)))
        })
    });
    replaced.map(|t| t.data).map_err(|e| internal(&e))
}

fn divided(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let divides = matches!(op, Operator::Divide | Operator::Modulo);
    // What is not typed here names an outer query's column, and floats divide by zero without failing.
    let whole = right.get_type(schema).ok().filter(|t| t.is_numeric() && !t.is_floating());
    let literal = matches!(right.as_ref(), Expr::Literal(..));
    let Some(data_type) = whole.filter(|_| divides && !literal) else {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    };
    let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
    let right = Box::new(nullif(*right, zero));
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}
