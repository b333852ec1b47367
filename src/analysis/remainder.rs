//! What is computed of releases: NULL in place of a failure.
//!
//! In: the public remainder of a query. Out: the same, in which a quotient of whole numbers or decimals is NULL where
//! its divisor is zero, a cast is where it cannot be made, and a square root of what is negative. A released count is
//! zero or less now and then by its noise alone, and the query would fail after it was paid for.
//!
//! ```text
//! sum / n                sum / nullif(n, 0)
//! CAST(n AS TINYINT)     TRY_CAST(n AS TINYINT)
//! sqrt(variance)         sqrt(CASE WHEN variance >= 0 THEN variance END)
//! ```

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};

use super::flow::internal;
use crate::refusal::Refusal;

/// A plan in which no division, cast or square root of released values fails.
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
        // What cannot fail stays what it is: the planner sees through it where a subquery becomes a join.
        Expr::Cast(Cast { expr, field })
            if !expr.get_type(schema).is_ok_and(|from| widens(&from, field.data_type())) =>
        {
            Ok(Transformed::yes(Expr::TryCast(TryCast { expr, field })))
        }
        Expr::ScalarFunction(call) if call.func.name() == "sqrt" && call.args.len() == 1 => {
            Ok(Transformed::yes(rooted(call)))
        }
        other => divided(other, schema),
    }
}

/// Whether every value of one type of numbers is, or is near to, one of another.
fn widens(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (from, DataType::Float64) => from.is_integer() || *from == DataType::Float32,
        (from, DataType::Int64) => {
            from.is_signed_integer()
                || matches!(from, DataType::UInt8 | DataType::UInt16 | DataType::UInt32)
        }
        _ => false,
    }
}

/// The same square root, of nothing that is negative.
fn rooted(mut call: ScalarFunction) -> Expr {
    for x in &mut call.args {
        let whole = std::mem::take(x);
        let is_root = whole.clone().gt_eq(Expr::Literal(ScalarValue::Float64(Some(0.0)), None));
        *x = Expr::Case(Case::new(None, vec![(Box::new(is_root), Box::new(whole))], None));
    }
    Expr::ScalarFunction(call)
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
