//! The types of rounded decimals after the planner's coercion.
//!
//! In: an expression before coercion. Out: the same expression with the casts that coercion adds to
//! the places of ROUND and TRUNC. With them, the planner gives the result another type.
//!
//! ```text
//! ROUND(x, 1), x DECIMAL(38, 32)      DECIMAL(38, 1) before coercion, DECIMAL(38, 32) after it
//! ```

use std::borrow::Cow;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;

/// The expression as the planner's coercion leaves it. It casts the places of ROUND and TRUNC, and
/// a decimal that is rounded to places that are no literal keeps its type.
pub(super) fn as_coerced(expr: &Expr) -> Cow<'_, Expr> {
    let is_rounded = |part: &Expr| {
        let Expr::ScalarFunction(call) = part else { return false };
        matches!(call.func.name(), "round" | "trunc")
            && matches!(call.args.as_slice(), [_, Expr::Literal(ScalarValue::Int64(_), _)])
    };
    if !expr.exists(|part| Ok(is_rounded(part))).unwrap_or(false) {
        return Cow::Borrowed(expr);
    }
    let coerced = expr.clone().transform_up(|part| {
        if !is_rounded(&part) {
            return Ok(Transformed::no(part));
        }
        let Expr::ScalarFunction(mut call) = part else { return Ok(Transformed::no(part)) };
        if let Some(places) = call.args.get_mut(1) {
            *places = Expr::Cast(Cast::new(Box::new(places.clone()), DataType::Int32));
        }
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    });
    coerced.map_or(Cow::Borrowed(expr), |coerced| Cow::Owned(coerced.data))
}
