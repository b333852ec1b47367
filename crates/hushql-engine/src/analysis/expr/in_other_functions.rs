//! Calls that say in one function what others compute that never fail.
//!
//! In: a call. Out: the same in functions that are on the list, so that its range, its keys and its
//! totality follow from theirs.
//!
//! ```text
//! power(x, 3)                    x * x * x
//! extract(epoch from x)          CAST(date_diff('microsecond', 1970, x) AS DOUBLE) / 1000000
//! ```

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, cast, lit};
use num_traits::ToPrimitive;

use super::facts::{Scope, rational};
use crate::analysis::expr::shape::{is_temporal, type_of};
use crate::functions::date_diff_function;
use crate::privacy::Rational;
use crate::refusal::Refusal;

/// The most factors of a power that is written out.
const MOST_FACTORS: i64 = 4;

/// The call in functions that are on the list: a small whole power as a product, and the seconds
/// since 1970 as a difference of moments.
pub(super) fn in_other_functions(
    call: &ScalarFunction,
    scope: &Scope,
) -> Result<Option<Expr>, Refusal> {
    let [first, second] = call.args.as_slice() else { return Ok(None) };
    if call.func.name() == "power" {
        return Ok(product(first, second));
    }
    if call.func.name() == "date_part" {
        return seconds(first, second, scope);
    }
    Ok(None)
}

/// `x` times itself, if it is to be raised to a small whole number.
fn product(x: &Expr, times: &Expr) -> Option<Expr> {
    let times = if let Expr::Cast(cast) = times { cast.expr.as_ref() } else { times };
    let Expr::Literal(times, _) = times else { return None };
    let times = rational(times).filter(Rational::is_integer)?.to_i64()?;
    // Powers of powers would grow with each level.
    let is_small =
        (2..=MOST_FACTORS).contains(&times) && x.exists(|e| Ok(is_power(e))).ok() == Some(false);
    is_small.then(|| (1..times).fold(x.clone(), |product, _| product * x.clone()))
}

/// The seconds from 1970 to a moment, if these are asked for.
fn seconds(part: &Expr, x: &Expr, scope: &Scope) -> Result<Option<Expr>, Refusal> {
    let Expr::Literal(part, _) = part else { return Ok(None) };
    let is_epoch =
        part.try_as_str().flatten().is_some_and(|part| part.eq_ignore_ascii_case("epoch"));
    let data_type = type_of(x, &scope.schema)?;
    if !is_epoch || !is_temporal(&data_type) {
        return Ok(None);
    }
    let start = ScalarValue::TimestampMicrosecond(Some(0), None).cast_to(&data_type);
    let Ok(start) = start else { return Ok(None) };
    let between = date_diff_function().call(vec![lit("microsecond"), lit(start), x.clone()]);
    Ok(Some(cast(between, DataType::Float64) / lit(1_000_000.0)))
}

fn is_power(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "power")
}
