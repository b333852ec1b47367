//! Calls that fail for every released value: an unknown unit, a negative length, an invalid
//! pattern.
//!
//! In: the plan above the releases. Out: a refusal if the constants of a call alone make it fail.
//! Without it, such a call would be charged and return NULL for every row. Only constants and types
//! of the statement are inspected.
//!
//! ```text
//! date_trunc('mont', day)                    there is no unit 'mont'
//! to_date('2025-02-01', 'YYYY-MM-DD')        the format has no letters such as YYYY: write '%Y-%m-%d'
//! ```

use arrow::datatypes::DataType;
use chrono::format::{Item, StrftimeItems};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast, WindowFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};

use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::bind::{compares, of_a_constant};
use crate::functions::{Decision, decision, is_castable, matched, matching, tried};
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// Refuses calls and casts that fail on every row.
///
/// # Errors
/// The refusal of the first such call or cast.
pub(crate) fn no_failing_call(plan: &LogicalPlan) -> Result<(), NotAnalyzed> {
    let mut found = None;
    let walked = plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                found = found.take().or_else(|| failing(part, &schema));
                Ok(match found {
                    Some(_) => TreeNodeRecursion::Stop,
                    None => TreeNodeRecursion::Continue,
                })
            })
        })
    });
    walked.map_err(|e| internal(&e))?;
    found.map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// Why an expression fails on every row, if it does.
fn failing(expr: &Expr, schema: &DFSchema) -> Option<Refusal> {
    if let Expr::ScalarFunction(call) = expr {
        return failing_call(call, schema);
    }
    if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) =
        expr
    {
        let from = inner.get_type(schema).ok()?;
        // The writer of a TRY_CAST expects NULL.
        if matches!(expr, Expr::Cast(_))
            && let Some(value) = constant(inner)
            && !value.is_null()
            && value.cast_to(field.data_type()).is_err()
        {
            let (value, to) = (readable(inner), sql_type(field.data_type()));
            let why = format!("a constant in this query cannot be computed: {value} is not {to}");
            let write = "a value that fits its type";
            return Some(Refusal::new(Reason::BadValue, readable(expr), why, write));
        }
        return uncastable(expr, &from, field.data_type());
    }
    if let Expr::WindowFunction(call) = expr {
        return failing_window(call, expr, schema);
    }
    if let Expr::BinaryExpr(BinaryExpr { op, .. }) = expr
        && !is_computed(*op)
    {
        let why = format!("the operator {op} is not part of the dialect");
        let write = "comparisons, arithmetic, ||, LIKE and ~";
        return Some(Refusal::new(Reason::Function, readable(expr), why, write));
    }
    let (how, text, pattern) = matching(expr)?;
    let pattern = (Some(constant(pattern)?), pattern.get_type(schema).ok()?);
    let text = (None, text.get_type(schema).ok()?);
    let error = tried(&matched(how), &[text, pattern]).err()?;
    Some(refusal(expr, &why(&error), "a pattern that can be read"))
}

/// The refusal of a cast, if no value of one type can become a value of the other.
fn uncastable(expr: &Expr, from: &DataType, to: &DataType) -> Option<Refusal> {
    if from.is_null() || is_castable(from, to) {
        return None;
    }
    let why = format!("no {} becomes {}", sql_type(from), sql_type(to));
    Some(refusal(expr, &why, "the column itself, or a CAST to VARCHAR"))
}

/// True if DataFusion computes an operator.
fn is_computed(op: Operator) -> bool {
    let computes = matches!(
        op,
        Operator::And
            | Operator::Or
            | Operator::Plus
            | Operator::Minus
            | Operator::Multiply
            | Operator::Divide
            | Operator::Modulo
            | Operator::BitwiseAnd
            | Operator::BitwiseOr
            | Operator::BitwiseXor
            | Operator::BitwiseShiftLeft
            | Operator::BitwiseShiftRight
            | Operator::StringConcat
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch
            | Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
    );
    computes || compares(op)
}

/// Why a window function cannot use its constants, in cases that DataFusion would report as an
/// internal error.
fn failing_window(call: &WindowFunction, expr: &Expr, schema: &DFSchema) -> Option<Refusal> {
    match (call.fun.name(), call.params.args.as_slice()) {
        ("lead" | "lag", [x, _, default]) => {
            let (value, to) = (constant(default)?, x.get_type(schema).ok()?);
            value.cast_to(&to).err()?;
            let why = format!("{} is not {}", readable(default), sql_type(&to));
            Some(refusal(expr, &why, "a default of the column's type"))
        }
        ("ntile", [parts]) if constant(parts)?.is_null() => {
            Some(refusal(expr, "it divides by a whole number, not NULL", "ntile(4)"))
        }
        _ => None,
    }
}

fn failing_call(call: &ScalarFunction, schema: &DFSchema) -> Option<Refusal> {
    let decision = decision(call.func.name())?;
    let types: Option<Vec<DataType>> =
        call.args.iter().map(|arg| arg.get_type(schema).ok()).collect();
    let constants: Vec<Option<ScalarValue>> = call.args.iter().map(constant).collect();
    let all = constants.iter().all(Option::is_some);
    let is_tried = match decision {
        Decision::AsItIs => false,
        Decision::Cast => {
            let whole = Expr::ScalarFunction(call.clone());
            let to = whole.get_type(schema).ok()?;
            return uncastable(&whole, types?.first()?, &to);
        }
        Decision::Refused => {
            let whole = readable(&Expr::ScalarFunction(call.clone()));
            let why = "the result of this function depends on more than its arguments";
            return Some(Refusal::new(Reason::Function, whole, why, "the query without it"));
        }
        Decision::OrNull => all,
        Decision::Formats => {
            if let Some(refusal) = unread_format(call, &constants) {
                return Some(refusal);
            }
            all
        }
        Decision::Tried => true,
    };
    if !is_tried {
        return None;
    }
    let arguments: Vec<_> = constants.into_iter().zip(types?).collect();
    let error = tried(&call.func, &arguments).err()?;
    let whole = Expr::ScalarFunction(call.clone());
    Some(refusal(&whole, &why(&error), "constants on which the function does not fail"))
}

/// The first constant after the first argument that is not a date format.
fn unread_format(call: &ScalarFunction, constants: &[Option<ScalarValue>]) -> Option<Refusal> {
    let unread = constants.iter().skip(1).flatten().find_map(|format| {
        let format = format.try_as_str()??;
        let is_unread = StrftimeItems::new(format).any(|item| item == Item::Error);
        // A format without a date letter reads no date.
        (is_unread || !format.contains('%')).then(|| format.to_owned())
    })?;
    let whole = Expr::ScalarFunction(call.clone());
    Some(refusal(&whole, &format!("'{unread}' is not a date format"), "'%Y-%m-%d %H:%M:%S'"))
}

/// The value of a literal, also inside casts.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    if let Expr::Negative(inner) = expr {
        return constant(inner)?.arithmetic_negate().ok();
    }
    if let Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) = expr {
        return constant(expr)?.cast_to(field.data_type()).ok();
    }
    None
}

/// The kernel's error message. It depends only on constants and types of the statement.
fn why(error: &DataFusionError) -> String {
    let message = error.find_root().strip_backtrace();
    let sentence = message.lines().next().unwrap_or_default();
    of_a_constant(sentence.rsplit(" error: ").next().unwrap_or_default())
}

fn refusal(expr: &Expr, why: &str, hint: &str) -> Refusal {
    let message = format!("this fails on every row: {why}");
    Refusal::new(Reason::BadValue, readable(expr), message, hint)
}
