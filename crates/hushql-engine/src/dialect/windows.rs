//! Arguments of window functions that must be literals: distances, positions and numbers of
//! buckets.
//!
//! In: a call with OVER. Out: an error with what to write, if such an argument depends on a row or
//! is not a whole number. The planner would accept it, but no query could run with it.
//!
//! ```text
//! nth_value(x, 2) OVER (…)   accepted          nth_value(x, y) OVER (…)   refused: write a whole number
//! ```

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, UnaryOperator, Value,
};

use super::error::DialectError;
use crate::refusal::{Reason, Refusal};

/// For each function: the position of its argument, whether it is required, its least value, and an
/// example.
const TAKEN: [(&str, usize, bool, i64, &str); 4] = [
    ("nth_value", 1, true, 1, "nth_value(x, 2)"),
    ("lag", 1, false, i64::MIN, "lag(x, 1)"),
    ("lead", 1, false, i64::MIN, "lead(x, 1)"),
    ("ntile", 0, true, 1, "ntile(4)"),
];

/// Accepts a call with OVER whose arguments can be computed.
///
/// # Errors
/// [`DialectError`] with an example of the function.
pub(super) fn window_arguments(
    name: &ObjectName,
    args: &FunctionArguments,
) -> Result<(), DialectError> {
    let name = name.to_string().to_lowercase();
    let Some((_, place, required, least, example)) = TAKEN.iter().find(|(own, ..)| *own == name)
    else {
        return Ok(());
    };
    let FunctionArguments::List(list) = args else { return Ok(()) };
    // Of what is counted, the example has the argument as it is written.
    let example = &match list.args.first() {
        Some(first) if *place == 1 => example.replace("(x,", &format!("({first},")),
        Some(_) | None => (*example).to_owned(),
    };
    let given = match list.args.get(*place) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(given))) => given,
        // The planner reports a wrong number of arguments. These functions would fail only when
        // rows are read.
        None if *required && *place == 1 && list.args.len() == 1 => {
            return Err(refused(&name, "how many rows to count is missing", example));
        }
        Some(_) | None => return Ok(()),
    };
    let fits =
        whole_number(given).is_none_or(|number| number >= *least || (*place == 1 && number < 0));
    if is_constant(given) && fits && !is_other(given) {
        return Ok(());
    }
    let why = format!("{given} is not a whole number from 1 on, written out");
    Err(refused(&name, &why, example))
}

fn refused(name: &str, why: &str, example: &str) -> DialectError {
    Refusal::new(
        Reason::Clause,
        name,
        format!("{name} looks at rows by their number, and {why}"),
        example,
    )
    .into()
}

/// The literal number, with its sign.
fn whole_number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => whole_number(expr)?.checked_neg(),
        Expr::Nested(inner) => whole_number(inner),
        _ => None,
    }
}

/// True for a literal of another kind: a text, or a number with decimals.
fn is_other(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_) | Expr::UnaryOp { op: UnaryOperator::Minus, .. })
        && whole_number(expr).is_none()
        && !matches!(expr, Expr::Value(value) if matches!(value.value, Value::Null | Value::Placeholder(_)))
}

/// True if the expression consists of literals alone.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::Nested(inner) => is_constant(inner),
        Expr::UnaryOp { expr, .. } => is_constant(expr),
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        _ => false,
    }
}
